"""When a run wakes up by itself: Timers of its Waits, retries, a delayed start and the Flow's own timer.

Deadlines of running handlers and of the search for a worker are not among them: they bound what is under way.
"""

from dexd.core.events import (
    EVENT_TYPES,
    Event,
    ExecuteCompleted,
    MethodPending,
    StaleResultRejected,
    StepDeclined,
    StepDeliveryLost,
    StepDispatched,
    StepScheduled,
)
from dexd.core.flow.state import BACKOFF, WAITING, RunState, StepExecution
from dexd.core.ids import TIMEOUT_HANDLER_ID, StepExecutionId

WAKE_UP_EVENTS: frozenset[type[Event]] = frozenset(
    event_type for event_type in EVENT_TYPES if "step_execution_id" in event_type.__struct_fields__
) - {
    StepScheduled,
    StepDispatched,
    StepDeclined,
    StepDeliveryLost,
    ExecuteCompleted,
    MethodPending,
    StaleResultRejected,
}
"""Events of a Step execution after which it may wake up at another instant; so may the dispatch of one that was to."""


def wakes_at(run: RunState, step_id: StepExecutionId) -> int:
    """When the Step execution, or the Flow's own timer under its ID, wakes the run up; 0 for never."""
    step = run.steps.get(step_id)
    if step is None:
        return run.timeout_at if step_id == TIMEOUT_HANDLER_ID else 0
    return step_wakes_at(step)


def step_wakes_at(step: StepExecution) -> int:
    """When a Step execution wakes its run up; 0 for never."""
    if step.phase is WAITING:
        return step.next_timer_at() or 0
    return step.retry_at if step.phase is BACKOFF else 0


def wake_ups(run: RunState) -> list[tuple[StepExecutionId, int]]:
    """Everything that wakes the run up, with its instant."""
    steps = run.steps
    instants = [(step_id, at) for step_id, step in steps.items() if (at := step_wakes_at(step))]
    if run.timeout_at and TIMEOUT_HANDLER_ID not in steps:
        instants.append((TIMEOUT_HANDLER_ID, run.timeout_at))
    return instants


def next_deadline(run: RunState) -> int:
    """When the run wakes up by itself next, 0 for never."""
    return min((at for _, at in wake_ups(run)), default=0)
