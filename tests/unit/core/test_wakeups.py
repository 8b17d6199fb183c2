"""When a run wakes up by itself: Timers of its Waits and retries [ARCH-10, TIMER-3, RETRY-2]."""

import pytest

from dexd.core.events import (
    ConditionsMet,
    Event,
    ExecuteCompleted,
    ExecuteFailed,
    FlowStarted,
    StepScheduled,
    TimerFired,
    TimerSkipped,
    WaitForCompleted,
    WaitForFailed,
)
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.flow.wakeups import WAKE_UP_EVENTS, next_deadline, wake_ups, wakes_at
from dexd.core.ids import TIMEOUT_HANDLER_ID, StepExecutionId
from dexd.core.values import Method
from tests.support.builders import (
    T0,
    all_of,
    any_of,
    channel,
    dispatched,
    execute_failed,
    fired,
    history,
    met,
    scheduled,
    started,
    timer,
    wait_for_failed,
    wait_installed,
)

WAIT_FOR = Method.WAIT_FOR
WAITING = (scheduled("A-1", wait_for=True), dispatched("A-1", method=WAIT_FOR))

SKIPPED = TimerSkipped(StepExecutionId("A-1"), 1)


def fold(*events: Event) -> RunState:
    state: RunState | None = None
    for recorded in history(started(), *events):
        state = evolve(state, recorded)
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("events", "at"),
    [
        ([scheduled("A-1")], 0),
        ([scheduled("A-1"), dispatched("A-1")], 0),
        ([*WAITING, wait_installed("A-1", all_of(channel()))], 0),
        ([*WAITING, wait_installed("A-1", any_of(channel(), timer(at=T0 + 9), timer(at=T0 + 5)))], T0 + 5),
        ([*WAITING, wait_installed("A-1", all_of(timer(at=T0 + 9), timer(at=T0 + 5))), fired("A-1", 1)], T0 + 9),
        ([*WAITING, wait_installed("A-1", all_of(timer(at=T0 + 9), timer(at=T0 + 5))), SKIPPED], T0 + 9),
        ([*WAITING, wait_installed("A-1", any_of(timer(at=T0 + 9), channel())), met("A-1", (1,))], 0),
        ([scheduled("A-1"), dispatched("A-1"), execute_failed("A-1", retry_at=T0 + 7)], T0 + 7),
        ([*WAITING, wait_for_failed("A-1", retry_at=T0 + 7)], T0 + 7),
        ([scheduled("A-1"), dispatched("A-1"), execute_failed("A-1", retry_at=T0 + 7), dispatched("A-1", 2)], 0),
    ],
)
def test_step_wakes_up_by_its_earliest_timer_or_its_retry(events: list[Event], at: int) -> None:
    """[TIMER-3, RETRY-2] Handlers that run and searches for a worker do not count."""
    run = fold(*events)
    assert wakes_at(run, StepExecutionId("A-1")) == at
    assert next_deadline(run) == at


def test_run_wakes_up_with_the_earliest_of_its_steps() -> None:
    """[ARCH-10] Steps that never wake up by themselves do not count."""
    steps = [scheduled(step_id, wait_for=True) for step_id in ("A-1", "A-2", "A-3")]
    waits = [
        event
        for step_id, at in (("A-1", T0 + 9), ("A-2", T0 + 5))
        for event in (dispatched(step_id, method=WAIT_FOR), wait_installed(step_id, all_of(timer(at=at))))
    ]
    assert next_deadline(fold(*steps, *waits)) == T0 + 5


def test_delayed_start_and_the_time_of_a_flow_wake_it_up() -> None:
    """[START-7, TIME-1] The Flow's own timer stands under the ID of its handler until it fires."""
    begun = started(eligible_at=T0 + 5, timeout_at=T0 + 9)
    events = history(begun, scheduled("A-1"))
    run = evolve(evolve(None, events[0]), events[1])
    assert wake_ups(run) == [("A-1", T0 + 5), (TIMEOUT_HANDLER_ID, T0 + 9)]
    assert [wakes_at(run, step_id) for step_id, _ in wake_ups(run)] == [T0 + 5, T0 + 9]
    assert wakes_at(run, StepExecutionId("gone-1")) == 0
    assert next_deadline(run) == T0 + 5
    for event in history(begun, scheduled("A-1"), dispatched("A-1"), TimerFired(TIMEOUT_HANDLER_ID, 0))[2:]:
        evolve(run, event)
    assert wake_ups(run) == []


def test_kinds_of_events_that_move_a_wake_up() -> None:
    """[ARCH-10] The others need no look at the Step; a new kind is looked at until somebody says otherwise."""
    assert {type(SKIPPED), TimerFired, WaitForCompleted, ConditionsMet, ExecuteFailed, WaitForFailed} <= WAKE_UP_EVENTS
    assert not {StepScheduled, ExecuteCompleted, FlowStarted} & WAKE_UP_EVENTS
