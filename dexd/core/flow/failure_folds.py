"""What a failed attempt leaves behind for whoever looks; part of the fold, called by `evolve` only."""

from dexd.core import events as e
from dexd.core.flow.state import StepExecution, StepPhase
from dexd.core.ids import WorkerId
from dexd.core.values import Method


def note_failure(step: StepExecution, event: e.WaitForFailed | e.ExecuteFailed, at: int) -> None:
    """Keep the failure, and which attempt it was, on which worker and when [OPT-6]."""
    step.failure = event.failure
    step.failed_attempt = event.attempt
    step.failed_method = Method.WAIT_FOR if type(event) is e.WaitForFailed else Method.EXECUTE
    # An attempt that found no worker was delivered to none.
    step.failed_on = event.worker_id if event.delivery else WorkerId("")
    step.failed_at = at


def back_off(step: StepExecution, event: e.WaitForFailed | e.ExecuteFailed) -> None:
    """The next attempt comes later."""
    step.phase = StepPhase.BACKOFF
    step.attempt += 1
    step.delivery = 0
    step.losses = 0
    step.retry_at = event.retry_at
    step.has_heartbeat = False
    if event.heartbeat is not None:
        step.heartbeat = event.heartbeat
