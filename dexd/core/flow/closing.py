"""The events that end an execution; every way of ending comes through here [FLOW-7, FLOW-8]."""

from dexd.core.events import Event, FlowClosed, MethodPending, StepCanceled
from dexd.core.flow.decide_flow_retry import next_run_id as retry_run_id
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import RunId, StepExecutionId
from dexd.core.values import FlowErrorType, FlowStatus, RequestRecord


def decide_close(
    run: RunState,
    status: FlowStatus,
    *,
    error_type: FlowErrorType = FlowErrorType.NONE,
    error_message: str = "",
    request: RequestRecord | None = None,
    deciding: StepExecutionId | None = None,
    next_run_id: RunId | None = None,
) -> list[Event]:
    """Cancel every other active Step and close, in one commit; a FAILED run may have a next one [START-8].

    A Step whose handler runs is recorded as MethodPending, any other as StepCanceled. `deciding` is the execution whose
    result closes the Flow; it is already settled. `next_run_id` is the run with which the execution goes on although it
    did not fail.
    """
    events: list[Event] = []
    for step in run.steps.values():
        if step.step_execution_id == deciding:
            continue
        if step.phase is StepPhase.RUNNING:
            events.append(MethodPending(step.step_execution_id, step.method, step.attempt))
        else:
            events.append(StepCanceled(step.step_execution_id, "FLOW_CLOSED"))
    if next_run_id is None and request is None and run.terms is not None:
        next_run_id = retry_run_id(run, run.terms, status)
    events.append(FlowClosed(status, error_type, error_message, request, next_run_id or RunId("")))
    return events


def decide_fail(
    run: RunState, error_type: FlowErrorType, error_message: str, *, deciding: StepExecutionId | None = None
) -> list[Event]:
    """Close as FAILED."""
    return decide_close(run, FlowStatus.FAILED, error_type=error_type, error_message=error_message, deciding=deciding)
