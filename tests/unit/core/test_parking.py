"""Runs in which nothing is under way leave the kernel and come back, and nobody can tell [ARCH-11]."""

import pytest

from dexd.core import commands as c
from dexd.core.effects import SubmitCommand
from dexd.core.events import ConditionsMet, Event, FlowClosed, SubFlowClosed, TimerFired
from dexd.core.flow.evolve import evolve
from dexd.core.flow.parking import is_quiet, sleeps_until
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.matching.deadline_keys import PingDue
from dexd.core.sub_flow_desk import running_children
from dexd.core.sub_flows import SubFlowKey, SubFlowPlan
from dexd.core.values import Condition, ConditionKind, Method
from dexd.core.wanted import RunRef, RunRefs
from tests.support.builders import (
    RUN,
    SECOND,
    T0,
    acknowledged,
    all_of,
    any_of,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    executed,
    fail,
    fired,
    force,
    hello,
    history,
    met,
    options,
    plan,
    publish,
    published,
    retry,
    rpc,
    running,
    scheduled,
    sent,
    stale,
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

WAIT_FOR = Method.WAIT_FOR
IN_WAIT_FOR = (started(), scheduled("A-1", wait_for=True), dispatched("A-1", method=WAIT_FOR))
ON_NEWS = (*IN_WAIT_FOR, wait_installed("A-1", all_of(channel())))
ON_TIMER = (*IN_WAIT_FOR, wait_installed("A-1", any_of(channel(), timer(at=T0 + 5 * SECOND))))
LOCKING = options(execute_locks=("L",), execute_retry=retry(initial_interval_ms=SECOND))
IN_BACKOFF = (started(), scheduled("A-1"), dispatched("A-1"), execute_failed("A-1", retry_at=T0 + 5 * SECOND))
CHILD = FlowId("sys:sub:order-1/A-1/0")


def fold(*events: Event) -> RunState:
    state: RunState | None = None
    for recorded in history(*events):
        state = evolve(state, recorded)
    assert state is not None
    return state


# ---- which runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events",
    [
        ON_NEWS,
        ON_TIMER,
        IN_BACKOFF,
        (started(),),
        (started(), scheduled("A-1"), dispatched("A-1"), executed("A-1")),
        (started(terms=terms(start_delay_ms=SECOND), eligible_at=T0 + SECOND), scheduled("A-1")),
        (*ON_NEWS, scheduled("B-1"), dispatched("B-1"), execute_failed("B-1", retry_at=T0 + SECOND)),
    ],
)
def test_arch_11_run_that_waits_may_leave(events: tuple[Event, ...]) -> None:
    """By Timers, messages, retries, a delayed start, or for nothing in particular."""
    assert is_quiet(fold(*events))
    assert given(*events).kernel.can_park(RunId(RUN), until=T0)


@pytest.mark.parametrize(
    "events",
    [
        (started(), scheduled("A-1")),
        IN_WAIT_FOR,
        (*ON_NEWS, scheduled("B-1")),
        (*ON_NEWS, closed()),
        (
            started(),
            scheduled("A-1", options=LOCKING),
            dispatched("A-1"),
            execute_failed("A-1", retry_at=T0 + 5 * SECOND),
        ),
    ],
)
def test_arch_11_run_that_is_at_work_holds_a_lock_or_has_ended_stays(events: tuple[Event, ...]) -> None:
    assert not is_quiet(fold(*events))
    kernel = given(*events).kernel
    assert not kernel.can_park(RunId(RUN), until=T0)
    assert not kernel.park(RunId(RUN))
    assert kernel.run_by_id(RunId(RUN)) is not None


def test_arch_11_run_that_wakes_up_soon_is_not_worth_it() -> None:
    run = fold(*ON_TIMER)
    assert sleeps_until(run, T0 + 5 * SECOND - 1)
    assert not sleeps_until(run, T0 + 5 * SECOND)
    assert sleeps_until(fold(*ON_NEWS), T0 + 10**9)
    limited = fold(started(timeout_at=T0 + 5 * SECOND), *ON_NEWS[1:])
    assert sleeps_until(limited, T0 + 5 * SECOND - 1)
    assert not sleeps_until(limited, T0 + 5 * SECOND)
    kernel = given(*ON_TIMER).kernel
    assert kernel.can_park(RunId(RUN), until=T0 + SECOND)
    assert not kernel.can_park(RunId(RUN), until=T0 + 5 * SECOND)


def test_arch_11_unknown_run_cannot_leave() -> None:
    kernel = given().kernel
    assert not kernel.can_park(RunId(RUN), until=T0)
    assert not kernel.park(RunId(RUN))


def test_arch_11_open_rpc_keeps_its_run() -> None:
    before = given(*ON_NEWS).after(*connect()).after(rpc())
    assert not before.kernel.park(RunId(RUN))


def test_arch_11_attempt_that_looks_for_a_worker_after_its_backoff_keeps_its_run() -> None:
    """No event says that it does."""
    before = given(*IN_BACKOFF).ticked(T0 + 5 * SECOND)
    assert is_quiet(before.run())
    assert not before.kernel.park(RunId(RUN))


# ---- coming back ----------------------------------------------------------------------------------------------------


def test_arch_11_parked_run_has_no_deadline_in_the_kernel_and_its_own_when_it_is_back() -> None:
    before = given(*ON_TIMER)
    before.park().when(c.Tick()).then(next_deadline=None)
    assert before.kernel.open_run_count == 0
    assert before.kernel.is_serving
    before.bring_back().when(c.Tick()).then(next_deadline=T0 + 5 * SECOND)
    assert before.kernel.open_run_count == 1
    before.when_time_passes(T0 + 5 * SECOND).then_events(fired("A-1", 1), met("A-1", (1,)))


def test_arch_11_backoff_goes_on_where_it_was() -> None:
    before = given(*IN_BACKOFF)
    before.park().bring_back()
    before.after(*connect())
    before.when(c.Tick(), now=T0 + 5 * SECOND).then_events(sent("A-1", attempt=2))


def test_arch_11_flow_s_own_time_goes_on() -> None:
    """[TIME-1]"""
    limited = started(terms=terms(timeout_ms=SECOND), timeout_at=T0 + SECOND)
    before = given(limited, *ON_NEWS[1:])
    before.park().when(c.Tick()).then(next_deadline=None)
    before.bring_back().when(c.Tick()).then(next_deadline=T0 + SECOND)
    events = before.when_time_passes(T0 + SECOND).events
    assert Like(FlowClosed) in events


def test_timer_4_timers_of_one_instant_fire_in_the_order_of_their_waits_after_coming_back() -> None:
    """As after a restart."""
    instant = T0 + 5 * SECOND
    before = given(
        started(),
        scheduled("B-1", wait_for=True),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", all_of(timer(at=instant))),
        dispatched("B-1", method=WAIT_FOR),
        wait_installed("B-1", all_of(timer(at=instant))),
    )
    before.park().bring_back()
    events = before.when(c.Tick(), now=instant).events
    assert [event for event in events if isinstance(event, TimerFired)] == [fired("A-1"), fired("B-1")]


def test_arch_11_run_that_is_at_work_cannot_come_back() -> None:
    """[ARCH-7] It never left."""
    with pytest.raises(ValueError, match="at work"):
        given().kernel.adopt(fold(started(), scheduled("A-1")))
    kernel = given(*ON_NEWS).kernel
    with pytest.raises(ValueError, match="in memory already"):
        kernel.adopt(fold(*ON_NEWS))


def test_timer_5_deadlines_fire_in_due_order_over_several_calls() -> None:
    """The shell brings parked runs back in portions."""
    other = started("other", "run-2")
    before = given(*ON_TIMER, other, scheduled("A-1"), dispatched("A-1"), execute_failed("A-1", retry_at=T0 + SECOND))
    before.park()
    first = before.kernel.fire_due(until=T0 + SECOND, now=T0 + 9 * SECOND)
    assert first.events == ()
    assert before.kernel.dispatcher.calls
    before.kernel.adopt(before.parked.pop(RunId(RUN)))
    second = before.kernel.fire_due(until=T0 + 9 * SECOND, now=T0 + 9 * SECOND)
    assert [recorded.event for recorded in second.events] == [fired("A-1", 1), met("A-1", (1,))]
    assert [recorded.at for recorded in second.events] == [T0 + 9 * SECOND] * 2


def test_wire_7_pings_go_on_while_runs_leave_and_come_back() -> None:
    before = given(*ON_TIMER).after(*connect())
    before.park()
    assert before.kernel.dispatcher.deadlines.armed_at(PingDue(hello().session)) is not None


# ---- what wants a parked run ----------------------------------------------------------------------------------------


def test_arch_11_every_command_that_names_a_parked_run_wants_it() -> None:
    before = given(*ON_NEWS)
    before.park()
    kernel = before.kernel
    assert kernel.wanted(publish("c", b"1")) == "order-1"
    assert kernel.wanted(stop()) == "order-1"
    assert kernel.wanted(rpc()) == "order-1"
    assert kernel.wanted(start()) == start()
    assert kernel.wanted(fail()) == RunRef(RunId(RUN))
    key = SubFlowKey(RunId(RUN), StepExecutionId("A-1"), 0)
    note = c.NoteSubFlow(key, RunId("child"), is_attached=False, result=None)
    assert kernel.wanted(note) == RunRef(RunId(RUN))
    assert given(*ON_NEWS).kernel.wanted(note) is None
    presented = hello(running=(running(token("A-1")), running(token("B-1"), 2), running(token(run="run-2"), 3)))
    assert kernel.wanted(presented) == RunRefs((RunId(RUN), RunId("run-2")))
    assert given(*ON_NEWS).kernel.wanted(hello(running=(running(token("A-1")),))) is None


def test_chan_2_message_for_a_run_that_came_back_is_taken() -> None:
    before = given(*ON_NEWS)
    before.park().bring_back()
    before.when(publish("c", b"1")).then_events(
        published("c", b"1", version=5), Like(ConditionsMet, step_execution_id="A-1")
    )


def test_lost_3_result_of_another_life_is_refused_by_a_run_that_came_back() -> None:
    before = given(*ON_NEWS).after(*connect())
    before.park().bring_back()
    before.when(complete(force(), token("A-1", delivery=7))).then_events(stale("A-1", delivery=7, reason="STALE"))


def test_wire_10_result_that_was_accepted_before_is_acknowledged_after_a_reconnect() -> None:
    before = given(*ON_NEWS)
    before.park()
    delivered = token("A-1", method=WAIT_FOR)
    presented = hello(running=(running(delivered),))
    assert before.kernel.wanted(presented) == RunRefs((RunId(RUN),))
    before.bring_back()
    assert acknowledged(delivered) in before.when(presented).effects


# ---- parents and children -------------------------------------------------------------------------------------------


def parent_and_child(*, wait: Condition | None = None) -> Given:
    """The parent waits for its child, whose Step waits for messages."""
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    conditions = (
        all_of(Condition(ConditionKind.SUB_FLOW)) if wait is None else any_of(Condition(ConditionKind.SUB_FLOW), wait)
    )
    sub_flow = SubFlowPlan("Order", plan("B", wait_for=True))
    hand_over(before, complete(conditions, token("A-1", method=WAIT_FOR), sub_flows=(sub_flow,)))
    child = child_of(before)
    hand_over(before, complete(all_of(channel()), token("B-1", method=WAIT_FOR, run=child.run_id)))
    return before


def hand_over(before: Given, *commands: c.Command) -> list[Event]:
    """Hand over commands and what they owe, until nothing is owed; gives all events."""
    events: list[Event] = []
    waiting = list(commands)
    while waiting:
        then = before.when(waiting.pop(0))
        events += then.events
        waiting += [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    return events


def child_of(before: Given) -> RunState:
    run = before.kernel.run(CHILD)
    assert run is not None
    return run


def waiting_for_child(state: RunState) -> list[tuple[SubFlowKey, RunId]]:
    """What the log tells of a parked parent."""
    return [(key, execution_id) for key, _, execution_id in running_children(state)]


def test_arch_14_word_on_its_way_keeps_the_parent() -> None:
    """It must not be parked with a child's start or end in the mailbox."""
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    sub_flows = (SubFlowPlan("Order", plan("B")), SubFlowPlan("Order", plan("B")))
    two = any_of(Condition(ConditionKind.SUB_FLOW), Condition(ConditionKind.SUB_FLOW))
    then = before.when(complete(two, token("A-1", method=WAIT_FOR), sub_flows=sub_flows))
    reaches = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    notes = []
    for reach in reaches:
        assert not before.kernel.can_park(RunId(RUN), until=T0)
        notes += [effect.command for effect in before.when(reach).effects if isinstance(effect, SubmitCommand)]
    for note in notes:
        assert not before.kernel.can_park(RunId(RUN), until=T0)
        before.after(note)
    assert before.kernel.can_park(RunId(RUN), until=T0)
    ended = before.when(stop(flow_id=CHILD))
    assert not before.kernel.can_park(RunId(RUN), until=T0)
    (note,) = [effect.command for effect in ended.effects if isinstance(effect, SubmitCommand)]
    before.when(note).then_events(Like(SubFlowClosed), Like(ConditionsMet))


def test_sub_5_parked_parent_is_told_of_the_end_of_a_child_in_memory() -> None:
    before = parent_and_child()
    before.park()
    ended = before.when(stop(flow_id=CHILD))
    (note,) = [effect.command for effect in ended.effects if isinstance(effect, SubmitCommand)]
    assert before.kernel.wanted(note) == RunRef(RunId(RUN))
    before.bring_back()
    before.when(note).then_events(Like(SubFlowClosed), Like(ConditionsMet), sent("A-1"))


def test_sub_5_parent_and_child_leave_memory_and_the_log_tells_who_waits() -> None:
    for is_parent_first in (True, False):
        before = parent_and_child()
        child_id = child_of(before).run_id
        order = (RUN, child_id) if is_parent_first else (child_id, RUN)
        waiting = waiting_for_child(before.run())
        for run_id in order:
            assert before.kernel.sub_flows.waiting_count == 1
            before.park(run_id)
        assert before.kernel.sub_flows.waiting_count == 0
        before.bring_back(child_id, waiting)
        ended = before.when(stop(flow_id=CHILD))
        (note,) = [effect.command for effect in ended.effects if isinstance(effect, SubmitCommand)]
        before.bring_back()
        before.when(note).then_events(Like(SubFlowClosed), Like(ConditionsMet), sent("A-1"))


def test_sub_5_parent_that_came_back_waits_for_its_parked_child() -> None:
    before = parent_and_child()
    child_id = child_of(before).run_id
    before.park(child_id).park().bring_back().bring_back(child_id)
    assert Like(SubFlowClosed) in hand_over(before, stop(flow_id=CHILD))


def test_sub_5_one_of_two_parents_leaves_and_the_other_is_told_all_the_same() -> None:
    before = parent_and_child()
    child = child_of(before)
    key = SubFlowKey(RunId("elsewhere"), StepExecutionId("A-1"), 0)
    before.park().park(child.run_id).bring_back(child.run_id, [(key, child.run_id)])
    assert before.kernel.sub_flows.is_watching(CHILD, key)
    waiting = [*waiting_for_child(before.parked[RunId(RUN)]), (key, child.run_id)]
    before.bring_back().park().park(child.run_id)
    assert before.kernel.sub_flows.waiting_count == 0
    before.bring_back(child.run_id, waiting)
    ended = before.when(stop(flow_id=CHILD))
    assert [type(effect) for effect in ended.effects] == [SubmitCommand, SubmitCommand]


def test_sub_5_child_at_work_is_waited_for_by_a_parent_that_a_restart_left_parked() -> None:
    """The log tells before the kernel serves."""
    before = parent_and_child()
    parent, child = before.run(), child_of(before)
    again = given()
    kernel = type(again.kernel)(again.config, last_stream_id=2)
    kernel.adopt(child, waiting_for_child(parent))
    kernel.handle(c.BeginServing(), now=T0)
    ended = kernel.handle(stop(flow_id=CHILD), now=T0)
    assert [type(effect) for effect in ended.effects] == [SubmitCommand]
