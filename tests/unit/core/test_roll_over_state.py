"""What a run that continues another one has of it, which is everything [ROLL-3]."""

import msgspec
import pytest

from dexd.core.commands import FetchPart, NoteSubFlow, ReachSubFlow
from dexd.core.effects import AssignCall, DeliverPart, SubmitCommand
from dexd.core.events import (
    ConditionsMet,
    Event,
    FlowRetried,
    RpcCompleted,
    StepScheduled,
    SubFlowClosed,
    SubFlowStarted,
    TimerFired,
)
from dexd.core.flow.carrying import from_carried, to_carried
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import TIMEOUT_HANDLER_ID, FlowId, RunId, SessionId, StepExecutionId
from dexd.core.index_values import IndexType, IndexWrite
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code
from dexd.core.sub_flows import SubFlowKey, SubFlowPlan
from dexd.core.terms import FlowConfig, FlowTimeoutPolicy
from dexd.core.values import (
    Completion,
    Condition,
    ConditionKind,
    DecisionKind,
    FlowStatus,
    Method,
    Response,
    SubFlowResult,
    TimerId,
    Wait,
)
from tests.support.builders import (
    FLOW,
    RUN,
    SECOND,
    T0,
    WORKER,
    all_of,
    any_of,
    attribute_set,
    beat,
    channel,
    complete,
    connect,
    dispatched,
    execute_failed,
    executed,
    force_fail,
    force_if_empty,
    go_to,
    graceful,
    options,
    plan,
    publish,
    published,
    record,
    retry,
    rpc,
    rpc_token,
    scheduled,
    sent,
    set_attribute,
    skip_timer,
    start,
    started,
    stop,
    terms,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like
from tests.support.roll_over_builders import RUN_2, latest, roll, step

# ---- what is carried ---------------------------------------------------------------------------------------------

CHILD = SubFlowPlan("Child", plan("C"))
CHILD_ID = FlowId(f"sys:sub:{FLOW}/Wait-1/0")
SUB = Condition(ConditionKind.SUB_FLOW)


def rich() -> Given:
    """One of everything: Steps in all phases, locks, skips, SubFlows, messages, Attributes, outputs, requests."""
    own = terms(
        timeout_ms=100 * SECOND, retry=retry(maximum_attempts=2), step=plan("A"), config=FlowConfig(record_rpc_io=True)
    )
    wait = any_of(timer(at=T0 + 90 * SECOND), channel("x", 2, 2), SUB, SUB)
    return given(
        started(
            terms=own,
            timeout_at=T0 + 100 * SECOND,
            attributes=(("a", b"1"),),
            indexed=(IndexWrite("A", IndexType.INT, 1),),
        ),
        scheduled("A-1"),
        scheduled("Run-1", options=options(execute_locks=("a",))),
        scheduled("Wait-1", wait_for=True),
        scheduled("Back-1"),
        scheduled("Skip-1", wait_for=True),
        dispatched("A-1"),
        executed("A-1", DecisionKind.GRACEFUL_COMPLETE, output=b"9"),
        dispatched("Wait-1", method=Method.WAIT_FOR),
        wait_installed("Wait-1", wait, locals=(("l", b"5"),), sub_flows=(CHILD, CHILD)),
        SubFlowStarted(StepExecutionId("Wait-1"), 0, CHILD_ID, RunId("child")),
        dispatched("Back-1"),
        execute_failed("Back-1", retry_at=T0 + 60 * SECOND, heartbeat=b"3"),
        dispatched("Run-1", worker="w9", incarnation="i9"),
        beat(b"4", "Run-1"),
        published("c", b"7", b"8", version=16, request_id="p"),
        msgspec.structs.replace(
            attribute_set("b", bytes(70_000), "s"), indexed=(IndexWrite("level", IndexType.INT, 3),)
        ),
        RpcCompleted("write", 3, WORKER, record("q")),
    ).after(skip_timer("Skip-1", TimerId("t"), request_id="skip"))


def test_roll_3_everything_is_carried() -> None:
    """Field by field; but for the run's own name, all that changes is what counted events of the old run."""
    before = rich()
    old = from_carried(to_carried(before.run()))
    assert old == before.run()
    before.after(roll())
    new = latest(before)
    assert (new.run_id, new.version, new.stream_id, new.message_base) == (RUN_2, 2, 2, old.version)
    assert (new.chain_id, new.first_run_id, new.execution_id, new.ordinal) == (RUN, RUN, RUN, 1)
    assert list(new.requests) == [*old.requests, "roll"]
    for name in new.__struct_fields__:
        if name not in ("run_id", "version", "stream_id", "message_base", "first_run_id", "requests", "steps"):
            assert getattr(new, name) == getattr(old, name), name
    for step_id, carried in old.steps.items():
        rebased = {name: getattr(carried, name) - old.version for name in VERSIONS_OF_STEPS}
        assert new.steps[step_id] == msgspec.structs.replace(carried, **rebased)
    assert list(new.steps) == list(old.steps)
    empty = [name for name in new.__struct_fields__ if not getattr(new, name)]
    assert set(empty) <= MAY_BE_EMPTY, "the test has one of everything"


VERSIONS_OF_STEPS = ("wait_version", "ready_version", "dispatch_version")
MAY_BE_EMPTY = {"closed_at", "error_type", "error_message", "standing", "eligible_at", "next_run_id", "lending"}


def test_roll_3_state_of_an_older_release_gets_defaults_for_what_it_had_not() -> None:
    """[ARCH-9] Fields are only appended; a state is part of an event for ever."""
    fields = msgspec.msgpack.decode(to_carried(given(started(), scheduled()).run()))
    shortened = msgspec.msgpack.encode(fields[: RunState.__struct_fields__.index("locks")])
    state = from_carried(shortened)
    assert (state.flow_id, state.chain_id, state.locks) == (FLOW, "", {})
    with pytest.raises(TypeError, match="cannot be read"):
        from_carried(b"\x01")


def test_roll_3_state_is_the_same_after_a_restart() -> None:
    """[INV-8] The new run is folded from its own events alone."""
    before = rich().after(roll())
    assert before.restarted().kernel.run(FLOW) == latest(before)


def test_roll_3_nothing_is_shared_between_two_runs() -> None:
    before = given(started(), scheduled("A-1")).after(publish("c", b"1"), roll(), *connect())
    before.after(publish("c", b"2", request_id="2"), set_attribute("a", b"1", request_id="3"))
    old = before.run(RUN)
    assert ([message.value for message in old.channels["c"]], old.attributes, old.steps) == ([b"1"], {}, {})


def test_id_6_numbers_of_steps_and_rpcs_go_on() -> None:
    """[ID-12, ROLL-3] They never repeat in a chain."""
    before = given(started(), scheduled("A-1"), RpcCompleted("write", 3, WORKER, record("q")))
    before.after(roll(), *connect(streams=3), complete(go_to(plan("A"), plan("B"))))
    assert list(latest(before).steps) == ["A-2", "B-1"]
    before.after(roll("again"), rpc("write", request_id="w"))
    then = before.when(complete(Response(writes=(("k", b"1"),)), rpc_token("w"), number=3))
    assert Like(RpcCompleted, number=4) in then.events


def test_id_13_message_ids_go_on() -> None:
    """[CHAN-1, ROLL-3] One queue, in order over any number of runs."""
    before = given(started(), scheduled("A-1"))
    for number in range(4):
        before.after(publish("c", b"%d" % number, request_id=f"p{number}"), roll(f"r{number}"))
    queue = latest(before).channels["c"]
    assert [message.value for message in queue] == [b"0", b"1", b"2", b"3"]
    ids = [message.message_id for message in queue]
    assert ids == sorted(ids)
    assert len(dict.fromkeys(ids)) == 4


def test_dec_7_outputs_and_the_completion_mark_survive() -> None:
    """[DEC-2, ROLL-3]"""
    before = given(
        started(), scheduled("A-1"), scheduled("B-1"), dispatched(), executed("A-1", GRACEFUL, output=b"9")
    ).after(roll(), *connect())
    before.after(complete(graceful(b"8"), token("B-1")))
    closed = latest(before)
    assert closed.status is FlowStatus.COMPLETED
    assert closed.completions == [Completion("A", "A-1", b"9"), Completion("B", "B-1", b"8")]


GRACEFUL = DecisionKind.GRACEFUL_COMPLETE


def test_start_3_repeated_start_gets_the_first_run() -> None:
    """[ROLL-5] The reuse policy sees one execution."""
    before = given().after(start(step=plan("A")), roll())
    before.when(start(step=plan("A"))).then(reply=StartFlowAccepted(RUN))
    before.when(start(run_id="other", step=plan("A"))).then_rejected(Code.FLOW_ALREADY_STARTED)


def test_start_8_flow_retry_follows_a_continued_run() -> None:
    """[ID-7, ROLL-3] Attempts and the start's options are carried; numbers begin again, in a chain of its own."""
    again = terms(retry=retry(initial_interval_ms=SECOND), step=plan("A"))
    before = given(started(terms=again), scheduled("A-1")).after(publish("c", b"1"), roll(), *connect())
    then = before.when(complete(force_fail("no")))
    retried = derived_run_id(f"{RUN_2}/retry")
    assert Like(FlowRetried, attempt=2, previous_run_id=RUN_2, first_run_id=RUN) in then.events
    run = latest(before)
    assert (run.run_id, run.chain_id, run.execution_id, list(run.steps)) == (retried, retried, RUN, ["A-1"])
    assert [message.value for message in run.channels["c"]] == [b"1"]


def test_time_4_flow_s_time_goes_on() -> None:
    """[ROLL-3] It is over at the same instant, once."""
    limited = terms(timeout_ms=60 * SECOND, timeout_policy=FlowTimeoutPolicy.HANDLER)
    before = given(started(terms=limited, timeout_at=T0 + 60 * SECOND), scheduled("A-1")).after(roll())
    before.when_time_passes(T0 + 60 * SECOND - 1)
    assert latest(before).timeout_at == T0 + 60 * SECOND
    fired = before.when_time_passes(T0 + 60 * SECOND)
    assert [event for event in fired.events if isinstance(event, TimerFired)] == [TimerFired(TIMEOUT_HANDLER_ID, 0)]
    assert TIMEOUT_HANDLER_ID in latest(before).steps
    before.after(roll("again"))
    assert TIMEOUT_HANDLER_ID in latest(before).steps


def test_start_7_delayed_start_stays_delayed() -> None:
    """[ROLL-3]"""
    delayed = terms(start_delay_ms=5 * SECOND)
    before = given().after(start(step=plan("A"), terms=delayed), roll(), *connect())
    before.when_time_passes(T0 + 5 * SECOND - 1).then_events()
    before.when_time_passes(T0 + 5 * SECOND).then_events(sent("A-1"))


def test_timer_9_remembered_skip_is_applied_in_the_run_that_waits() -> None:
    """[ROLL-3]"""
    before = given(started(), scheduled("A-1", wait_for=True)).after(
        skip_timer("A-1", TimerId("t")), roll(), *connect()
    )
    then = before.when(complete(all_of(timer(60 * SECOND, id="t")), token(method=Method.WAIT_FOR)))
    assert Like(ConditionsMet) in then.events


# ---- waits -------------------------------------------------------------------------------------------------------


def waiting_for(wait: Wait, *more: Event) -> Given:
    """`A-1` waits."""
    installed = (dispatched("A-1", method=Method.WAIT_FOR), wait_installed("A-1", wait))
    return given(started(), scheduled("A-1", wait_for=True), *installed, *more)


def test_timer_3_timers_keep_their_deadlines() -> None:
    """[ROLL-3] and fire once."""
    before = waiting_for(all_of(timer(at=T0 + 60 * SECOND))).after(roll(), now=T0 + SECOND)
    before.when_time_passes(T0 + 60 * SECOND - 1).then_events()
    before.when_time_passes(T0 + 60 * SECOND).then_events(TimerFired(StepExecutionId("A-1"), 0), Like(ConditionsMet))


def test_timer_4_order_of_installation_is_kept() -> None:
    """[ROLL-3] Timers of one instant, over a restart after the roll-over."""
    due = all_of(timer(at=T0 + 60 * SECOND))
    events: list[Event] = [started()]
    for name in ("C", "A", "B"):
        events += [scheduled(f"{name}-1", wait_for=True), dispatched(f"{name}-1", method=Method.WAIT_FOR)]
    events += [wait_installed(f"{name}-1", due) for name in ("B", "C", "A")]
    before = given(*events).after(roll()).restarted()
    fires = [event for event in before.when_time_passes(T0 + 60 * SECOND).events if isinstance(event, TimerFired)]
    assert [event.step_execution_id for event in fires] == ["B-1", "C-1", "A-1"]


def test_wait_10_oldest_wait_is_served_first_whichever_run_installed_it() -> None:
    """[ROLL-3]"""
    before = waiting_for(all_of(channel())).after(roll(), *connect())
    before.after(rpc("write"))
    before.after(complete(Response(next_steps=(plan("B", wait_for=True),)), rpc_token()))
    before.after(complete(all_of(channel()), token("B-1", method=Method.WAIT_FOR)))
    then = before.when(publish("c", b"1", request_id="p"))
    assert Like(ConditionsMet, step_execution_id=StepExecutionId("A-1")) in then.events
    assert step(before, "B-1").phase is StepPhase.WAITING


def test_wait_9_messages_of_both_runs_are_consumed_together() -> None:
    """[CHAN-3, ROLL-3] In order, and execute gets locals and values."""
    before = waiting_for(all_of(channel("c", 2, 2))).after(publish("c", b"1"), roll(), *connect())
    then = before.when(publish("c", b"2", request_id="2"))
    assert Like(ConditionsMet, step_execution_id=StepExecutionId("A-1")) in then.events
    (call,) = [effect.call for effect in then.effects if isinstance(effect, AssignCall)]
    assert call.results[0].values == (b"1", b"2")


def test_dec_5_consumed_messages_count_as_present_in_the_next_run() -> None:
    """[ROLL-3]"""
    before = waiting_for(all_of(channel()), scheduled("B-1")).after(*connect(streams=2), publish("c", b"1"), roll())
    decided = force_if_empty(b"9", plan("B"), "c")
    then = before.when(complete(decided, token("B-1")))
    assert Like(StepScheduled, step_execution_id=StepExecutionId("B-2")) in then.events


def test_chan_8_handler_reads_the_messages_of_its_snapshot_after_a_roll_over() -> None:
    """[ROLL-4] Those before its hand-over, from whichever run, and none after it."""
    before = given(started(), scheduled("A-1")).after(publish("c", b"1"), *connect(), roll())
    before.after(publish("c", b"2", request_id="2"))
    fetch = FetchPart(SessionId(1), token(), 1, is_channel=True, key="c")
    (part,) = before.when(fetch).effects
    assert isinstance(part, DeliverPart)
    assert [message.value for message in part.messages] == [b"1"]


def test_attr_7_handler_reads_the_values_of_its_snapshot_after_a_roll_over() -> None:
    """[ROLL-4] Also one that is overwritten in the new run."""
    large = bytes(70_000)
    before = given(started(attributes=(("a", large),)), scheduled("A-1")).after(*connect(), roll())
    before.after(set_attribute("a", b"1"))
    (part,) = before.when(FetchPart(SessionId(1), token(), 1, is_channel=False, key="a")).effects
    assert isinstance(part, DeliverPart)
    assert part.data == large


# ---- SubFlows ----------------------------------------------------------------------------------------------------


def with_child(*, is_started: bool) -> Given:
    """`Wait-1` waits for a child."""
    events: list[Event] = [
        started(),
        scheduled("Wait-1", wait_for=True),
        dispatched("Wait-1", method=Method.WAIT_FOR),
        wait_installed("Wait-1", all_of(SUB), sub_flows=(CHILD,)),
    ]
    if is_started:
        events.append(SubFlowStarted(StepExecutionId("Wait-1"), 0, CHILD_ID, RunId("child")))
    return given(*events)


KEY = SubFlowKey(RUN, StepExecutionId("Wait-1"), 0)


def test_sub_1_end_of_a_child_reaches_the_run_that_waits() -> None:
    """[ROLL-3] It is told to the chain."""
    before = with_child(is_started=True).after(roll())
    ended = SubFlowResult(CHILD_ID, FlowStatus.COMPLETED)
    then = before.when(NoteSubFlow(KEY, RunId("child"), is_attached=False, result=ended))
    then.then_events(SubFlowClosed(StepExecutionId("Wait-1"), 0, ended), Like(ConditionsMet))


def test_sub_6_child_that_is_owed_is_started_once() -> None:
    """[ROLL-3] The same request from every run of the chain, also after a restart."""
    before = with_child(is_started=False)
    (reach,) = before.owed
    before.after(reach, roll())
    child = before.kernel.run(CHILD_ID)
    assert child is not None
    restarted = before.restarted()
    (again,) = restarted.owed
    assert isinstance(again, ReachSubFlow)
    assert again.key == KEY
    restarted.when(again).then_events()
    note = NoteSubFlow(KEY, child.run_id, is_attached=False, result=None)
    restarted.when(note).then_events(SubFlowStarted(StepExecutionId("Wait-1"), 0, CHILD_ID, child.run_id))


def test_sub_1_child_that_was_continued_is_still_that_child() -> None:
    """[ROLL-5] Its parent waits for the execution."""
    before = with_child(is_started=False)
    before.after(before.owed[0])
    child = before.kernel.run(CHILD_ID)
    assert child is not None
    before.after(NoteSubFlow(KEY, child.run_id, is_attached=False, result=None))
    before.after(roll(flow_id=CHILD_ID))
    then = before.when(stop(flow_id=CHILD_ID, request_id="stop"))
    (note,) = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    before.when(note).then_events(Like(SubFlowClosed), Like(ConditionsMet))
