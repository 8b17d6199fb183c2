"""When long runs are continued by new ones, and which of them are in memory [ROLL-2]."""

import msgspec
import pytest

from dexd.core.events import (
    ExecuteCompleted,
    FlowClosed,
    FlowContinued,
    FlowStarted,
    StepScheduled,
    TimerFired,
)
from dexd.core.flow.decide_roll_over import continuing_run_id
from dexd.core.ids import RunId, StepExecutionId
from dexd.core.invariants import violations
from dexd.core.outcome import ContinueAsNewAccepted, PublishAccepted
from dexd.core.rejections import Code
from dexd.core.terms import FlowConfig
from dexd.core.values import (
    FlowStatus,
    Method,
)
from dexd.core.wanted import RunRef
from tests.support.builders import (
    DEAD_END,
    FLOW,
    RUN,
    T0,
    all_of,
    channel,
    complete,
    connect,
    dispatched,
    executed,
    force,
    go_to,
    plan,
    publish,
    published,
    rpc,
    scheduled,
    sent,
    started,
    stop,
    terms,
    timer,
    update_config,
    wait_installed,
)
from tests.support.given import given
from tests.support.matchers import Like
from tests.support.roll_over_builders import (
    CONTINUED,
    ROLLED,
    RUN_2,
    RUN_3,
    continued_as_new,
    latest,
    roll,
    small,
    step,
)

# ---- when -------------------------------------------------------------------------------------------------------


def test_roll_2_run_that_reaches_its_threshold_is_continued_in_the_same_commit() -> None:
    """Not by the event before; the new run has its own numbers from 1 on [HIST-2]."""
    before = given(started(), scheduled("A-1"), config=small(4)).after(*connect())
    before.when(publish("c", b"1")).then(
        events=[published("c", b"1", version=4), *ROLLED], reply=PublishAccepted((f"{T0:011x}-00000004-00000",))
    )
    old, new = before.run(RUN), latest(before)
    assert (old.status, old.next_run_id, old.version, old.closed_at) == (FlowStatus.CONTINUED_AS_NEW, RUN_2, 5, T0)
    assert (new.run_id, new.status, new.version, new.stream_id) == (RUN_2, FlowStatus.RUNNING, 2, 2)


def test_roll_2_threshold_is_not_reached_one_event_before() -> None:
    given(started(), config=small(3)).when(publish("c", b"1")).then_events(published("c", b"1", version=2))


def test_roll_2_whole_turn_is_finished_first() -> None:
    """A commit boundary: what follows by itself belongs to the old run."""
    before = given(started(), scheduled("A-1"), config=small(3)).after(*connect())
    assert latest(before).run_id == RUN_2
    then = before.when(complete(go_to(plan("B"))))
    then.then_events(
        Like(ExecuteCompleted),
        Like(StepScheduled, step_execution_id=StepExecutionId("B-1")),
        sent("B-1"),
        continued_as_new(RUN_3),
        Like(FlowStarted, run_id=RUN_3),
        Like(FlowContinued, previous_run_id=RUN_2, first_run_id=RUN),
    )


def test_roll_2_beginning_of_a_run_never_makes_it_long() -> None:
    """With a threshold of one event every commit has its run, but none has two."""
    before = given(started(), config=small(1))
    before.when(publish("c", b"1", request_id="1")).then_events(
        published("c", b"1", version=2, request_id="1"), *ROLLED
    )
    before.ticked(T0 + 1)
    assert latest(before).run_id == RUN_2
    before.after(publish("c", b"2", request_id="2"))
    assert latest(before).run_id == RUN_3


def test_roll_2_run_that_closes_is_not_continued() -> None:
    before = given(started(), scheduled("A-1"), config=small(4)).after(*connect())
    before.when(complete(force())).then_events(Like(ExecuteCompleted), Like(FlowClosed, status=FlowStatus.COMPLETED))


def test_roll_2_each_long_run_of_a_turn_is_continued() -> None:
    """Overdue timers of several Flows fire in one turn."""
    wait = all_of(timer(at=T0 + 5), channel())
    before = given(
        *(started("a", "ra"), scheduled("A-1", wait_for=True), dispatched("A-1", method=Method.WAIT_FOR)),
        wait_installed("A-1", wait),
        *(started("b", "rb"), scheduled("A-1", wait_for=True), dispatched("A-1", method=Method.WAIT_FOR)),
        wait_installed("A-1", wait),
        config=small(5),
    )
    then = before.when_time_passes(T0 + 5)
    fires = [event for event in then.events if isinstance(event, TimerFired | FlowContinued)]
    assert [type(event) for event in fires] == [TimerFired, TimerFired, FlowContinued, FlowContinued]


def test_roll_2_run_that_a_deadline_makes_long_is_continued_at_once() -> None:
    """[ARCH-11] Also when the shell fires deadlines for runs that were parked."""
    wait = all_of(timer(at=T0 + 5), channel())
    installed = (dispatched("A-1", method=Method.WAIT_FOR), wait_installed("A-1", wait))
    before = given(started(), scheduled("A-1", wait_for=True), *installed, config=small(5))
    outcome = before.kernel.fire_due(until=T0 + 5, now=T0 + 9)
    assert [type(recorded.event) for recorded in outcome.events] == [TimerFired, FlowClosed, FlowStarted, FlowContinued]


@pytest.mark.parametrize(
    ("server", "flow", "is_continued"),
    [(3, None, True), (0, None, False), (100, 3, True), (3, 0, False), (3, 100, False), (0, 3, True)],
)
def test_cfg_1_flow_s_threshold_counts_before_that_of_the_server(
    server: int, flow: int | None, is_continued: bool
) -> None:
    """[CFG-3, ROLL-2] 0 is off."""
    config = FlowConfig(continue_as_new_threshold=flow)
    before = given(started(terms=terms(config=config)), scheduled(), config=small(server)).after(publish("c", b"1"))
    assert latest(before).run_id == (RUN_2 if is_continued else RUN)


def test_cfg_2_changed_threshold_acts_from_the_next_event_on() -> None:
    """[ROLL-2]"""
    before = given(started(), scheduled(), config=small(0)).after(publish("c", b"1"))
    before.after(update_config(FlowConfig(continue_as_new_threshold=3), request_id="cfg"))
    assert latest(before).run_id == RUN
    before.after(publish("c", b"2", request_id="2"))
    assert latest(before).run_id == RUN_2
    assert latest(before).config == FlowConfig(continue_as_new_threshold=3)


def test_roll_2_run_that_was_long_before_the_server_started_is_continued_at_its_next_event() -> None:
    before = given(started(), scheduled(), published("c", b"1", version=3), config=small(2))
    assert latest(before).run_id == RUN
    before.after(publish("c", b"2", request_id="2"))
    assert latest(before).run_id == RUN_2


# ---- asked for --------------------------------------------------------------------------------------------------


def test_roll_2_trigger_continues_a_run_now() -> None:
    """Whatever its threshold; the reply names the run that goes on."""
    before = given(started(), scheduled(), config=small(0))
    before.when(roll()).then(
        events=[continued_as_new(RUN_2), Like(FlowStarted, run_id=RUN_2), CONTINUED], reply=ContinueAsNewAccepted(RUN_2)
    )


def test_rpc_12_repeated_trigger_gets_the_first_answer() -> None:
    """[GEN-8, ROLL-2] also over more roll-overs and a restart; other content is another request."""
    before = given(started(), scheduled()).after(roll(), roll("other"))
    assert latest(before).run_id == RUN_3
    before.when(roll()).then(reply=ContinueAsNewAccepted(RUN_2))
    before = before.restarted()
    before.when(roll("other")).then(reply=ContinueAsNewAccepted(RUN_3))
    clash = msgspec.structs.replace(publish("c", b"1"), request_id=roll().request_id)
    before.when(clash).then_rejected(Code.REQUEST_CONFLICT)


def test_waitapi_7_trigger_needs_an_active_flow() -> None:
    """[ROLL-2]"""
    given().when(roll()).then_rejected(Code.FLOW_NOT_FOUND)
    given(started(), FlowClosed(FlowStatus.COMPLETED)).when(roll()).then_rejected(Code.FLOW_NOT_ACTIVE)


def test_id_5_run_id_guards_against_a_run_that_was_continued() -> None:
    """The current run is the newest one."""
    before = given(started(), scheduled()).after(roll())
    before.when(publish("c", b"1", run_id=RUN)).then_rejected(Code.FLOW_NOT_ACTIVE, run_id=RUN_2, expected=RUN)
    before.when(roll(run_id=RUN)).then_rejected(Code.FLOW_NOT_ACTIVE, run_id=RUN_2)
    before.when(publish("c", b"1", run_id=RUN_2)).then_events(Like(type(published("c", version=1)), channel="c"))


# ---- what is in memory -------------------------------------------------------------------------------------------


def test_roll_4_result_of_a_chain_that_is_not_in_memory_asks_for_its_newest_run() -> None:
    before = given(started(), scheduled("A-1")).after(roll(), stop())
    late = complete(DEAD_END)
    assert before.kernel.wanted(late) is None
    assert before.kernel.forget(RUN_2)
    assert before.kernel.wanted(late) == RunRef(RUN)
    assert before.kernel.forget(RUN)
    assert before.kernel.runs == {}


def test_superseded_run_can_be_read_and_forgotten_beside_the_newest_one() -> None:
    """[ID-5] Nothing takes it for the run that goes on."""
    before = given(started(), scheduled("A-1")).after(*connect(), rpc("read"), roll())
    old = before.run(RUN)
    assert before.kernel.forget(RUN)
    assert not before.kernel.forget(RUN_2)
    before.kernel.adopt(old)
    assert before.kernel.newest_of_chain(RUN) is latest(before)
    assert before.kernel.run(FLOW) is latest(before)
    assert before.kernel.open_run_count == 1


def test_violations_name_calls_that_stayed_behind() -> None:
    """[ROLL-4] What the checks of all other tests would find."""
    before = given(started(), scheduled("A-1")).after(*connect(), roll())
    (call,) = before.kernel.dispatcher.calls.values()
    call.run, call.step = before.run(RUN), msgspec.structs.replace(step(before))
    found = " ".join(violations(before.kernel, now=T0))
    assert "not the newest of its chain" in found
    assert "has not the Step execution" in found


def test_violations_name_chains_with_two_open_runs_or_a_wrong_newest_one() -> None:
    """[ROLL-2]"""
    before = given(started(), scheduled("A-1")).after(roll())
    other = msgspec.structs.replace(latest(before), run_id=RunId("other"))
    before.kernel.runs[other.run_id] = other
    found = " ".join(violations(before.kernel, now=T0))
    assert "a chain has several open runs" in found
    assert "other is not the newest run of its chain" in found


def test_step_is_past_when_it_was_scheduled_and_is_not_active_any_more() -> None:
    """[ID-6, WAITAPI-3] The ID is parsed at the last hyphen."""
    run = given(started(), scheduled("A-b-1"), scheduled("A-b-2"), dispatched("A-b-1"), executed("A-b-1")).run()
    assert [run.is_past(StepExecutionId(f"A-b-{n}")) for n in (1, 2, 3)] == [True, False, False]
    assert not run.is_past(StepExecutionId("B-1"))


def test_continuing_run_id_is_the_same_whenever_it_is_asked_for() -> None:
    assert continuing_run_id(given(started()).run()) == RUN_2
