"""What follows when a Flow's time is over [TIME-1..3]."""

from dexd.core.commands import SkipTimer
from dexd.core.events import Event, StepScheduled, TimerFired, TimerSkipped
from dexd.core.flow.closing import decide_close, decide_fail
from dexd.core.flow.decide_external import refuse_closed
from dexd.core.flow.state import RunState
from dexd.core.flow.timer_skips import refuse_timer
from dexd.core.ids import TIMEOUT_HANDLER, TIMEOUT_HANDLER_ID
from dexd.core.rejections import Rejection
from dexd.core.terms import FlowTimeoutPolicy
from dexd.core.values import FlowErrorType, FlowStatus, RequestRecord, SkipOutcome, TimerId


def decide_flow_timeout(run: RunState, skipped: TimerSkipped | None = None) -> list[Event]:
    """Fire the Flow's timer, once, or take it as skipped, which is the same, and do what its policy says.

    1. FAIL, and DEFAULT where nobody resolved it: FAILED with FLOW_TIMEOUT, which a Flow retry may follow.
    2. CANCEL: CANCELED, never retried.
    3. HANDLER: `handle_timeout` runs like the execute of a Step of its own, once logically [TIME-3].
    """
    terms = run.terms
    assert terms is not None, "who has a timeout has terms"
    fired = skipped or TimerFired(TIMEOUT_HANDLER_ID, 0)
    if terms.timeout_policy is FlowTimeoutPolicy.HANDLER:
        options = terms.timeout_handler_options
        return [fired, StepScheduled(TIMEOUT_HANDLER_ID, TIMEOUT_HANDLER, 1, "", b"", False, options)]
    message = f"the Flow did not end within {terms.timeout_ms} ms"
    if terms.timeout_policy is FlowTimeoutPolicy.CANCEL:
        return [fired, *decide_close(run, FlowStatus.CANCELED, error_message=message)]
    return [fired, *decide_fail(run, FlowErrorType.FLOW_TIMEOUT, message)]


def decide_skip_timeout(run: RunState, command: SkipTimer) -> list[Event] | SkipOutcome | Rejection:
    """Skip the Flow's timer, which is the only one of `sys:timeout_handler-1`: its time is over now [TIME-1]."""
    refused = refuse_closed(run)
    if refused is not None:
        return refused
    if run.terms is None or not run.terms.timeout_ms or command.timer != TimerId("", 0):
        return refuse_timer(run, command)
    if not run.timeout_at:
        return SkipOutcome.ALREADY_FIRED
    record = RequestRecord(command.request_id, command.digest, SkipOutcome.APPLIED.name.encode())
    return decide_flow_timeout(run, TimerSkipped(TIMEOUT_HANDLER_ID, 0, record))
