"""What follows when an attempt fails: another attempt, a recovery, or the end of the Flow [OPT-2..4, RETRY-*]."""

from collections.abc import Sequence

from dexd.core.events import Event, ExecuteFailed, StepDeliveryLost, WaitForFailed
from dexd.core.flow.closing import decide_fail
from dexd.core.flow.retry import next_attempt_at
from dexd.core.flow.scheduling import decide_schedule
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.values import (
    Failure,
    FlowErrorType,
    Method,
    RecoveryError,
    RecoveryStep,
    Resolution,
    StepOptions,
    StepPlan,
    WaitForFailurePolicy,
)

INVALID_RESULT = "INVALID_RESULT"
METHOD_TIMEOUT = "METHOD_TIMEOUT"
HEARTBEAT_TIMEOUT = "HEARTBEAT_TIMEOUT"
NO_WORKER_AVAILABLE = "NO_WORKER_AVAILABLE"
WORKER_LOST = "WORKER_LOST"
LOSSES_MAX = 1
"""Deliveries of one attempt that may be lost without failing it [LOST-1, LOST-2]."""

_DEFAULT_OPTIONS = StepOptions()


def decide_attempt_failed(
    run: RunState,
    step: StepExecution,
    failure: Failure,
    *,
    now: int,
    is_reported: bool = True,
    heartbeat: bytes | None = None,
) -> list[Event]:
    """Fail the current attempt.

    1. Retry while the policy allows it [RETRY-1..6].
    2. wait_for exhausted: PROCEED runs execute, FAIL_FLOW ends the Flow [OPT-3].
    3. execute exhausted: the recovery Step gets the same input and the error, else the Flow ends [OPT-4].

    `heartbeat` is the newest value that is not in the log yet; only another attempt of the method can use it [HB-2].
    """
    retry_at = next_attempt_at(step, failure, seed=run.seed, now=now)
    if retry_at is not None:
        return [_failed(step, failure, Resolution.RETRY, retry_at, is_reported=is_reported, heartbeat=heartbeat)]
    options = step.options or _DEFAULT_OPTIONS
    if step.method is Method.WAIT_FOR:
        if options.wait_for_failure is WaitForFailurePolicy.PROCEED:
            return [_failed(step, failure, Resolution.PROCEED, 0, is_reported=is_reported)]
    elif options.recovery is not None:
        recovery = _recover(run, step, options.recovery, failure)
        return [_failed(step, failure, Resolution.RECOVER, 0, is_reported=is_reported), *recovery]
    message = f"failed at attempt {step.attempt}: {failure.error_type}: {failure.detail}"
    error_type = FlowErrorType.WORKER_API_FAILED
    return decide_flow_failed(run, step, failure, error_type=error_type, message=message, is_reported=is_reported)


def decide_flow_failed(
    run: RunState,
    step: StepExecution,
    failure: Failure,
    *,
    error_type: FlowErrorType,
    message: str,
    is_reported: bool = True,
) -> list[Event]:
    """Fail the current attempt and the Flow with it."""
    method = "wait_for" if step.method is Method.WAIT_FOR else "execute"
    named = f"{step.step_execution_id} {method} {message}"
    closing = decide_fail(run, error_type, named, deciding=step.step_execution_id)
    return [_failed(step, failure, Resolution.FAIL_FLOW, 0, is_reported=is_reported), *closing]


def decide_delivery_lost(
    run: RunState, step: StepExecution, reason: str, *, now: int, heartbeat: bytes | None = None
) -> list[Event]:
    """[LOST-1] The first loss in an attempt is redelivered at once and costs no attempt.

    [LOST-2] A second one, or one after a heartbeat, fails the attempt with WORKER_LOST and normal backoff, so that a
    handler that kills its workers cannot spin.
    """
    lost = StepDeliveryLost(step.step_execution_id, step.attempt, step.delivery, step.worker_id, reason)
    if step.losses < LOSSES_MAX and not step.has_heartbeat:
        return [lost]
    times = "after a heartbeat" if step.has_heartbeat else f"{step.losses + 1} times"
    detail = f"attempt {step.attempt} lost its worker {times}, last {step.worker_id} ({reason})"
    failure = Failure(WORKER_LOST, detail)
    return [lost, *decide_attempt_failed(run, step, failure, now=now, is_reported=False, heartbeat=heartbeat)]


def _failed(
    step: StepExecution,
    failure: Failure,
    resolution: Resolution,
    retry_at: int,
    *,
    is_reported: bool,
    heartbeat: bytes | None = None,
) -> WaitForFailed | ExecuteFailed:
    event = WaitForFailed if step.method is Method.WAIT_FOR else ExecuteFailed
    return event(
        step.step_execution_id,
        step.attempt,
        step.delivery,
        step.worker_id,
        failure,
        resolution,
        retry_at,
        is_reported,
        heartbeat,
    )


def _recover(run: RunState, step: StepExecution, recovery: RecoveryStep, failure: Failure) -> Sequence[Event]:
    plan = StepPlan(recovery.step_type, step.input, recovery.has_wait_for, recovery.options)
    error = RecoveryError(failure.error_type, failure.detail)
    return decide_schedule(run, [plan], from_step=step.step_execution_id, recovery_error=error)
