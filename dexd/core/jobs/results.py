"""What the answer to a target's call means for the job [BATCH-1, BATCH-3]."""

from typing import Any

from dexd.core.ids import FlowId
from dexd.core.jobs.events import Problem, TargetOutcome
from dexd.core.outcome import StopFlowResult
from dexd.core.rejections import Rejection

NO_MATCH = "NO_MATCH"
"""The query does not find the Flow any more."""
GONE = "GONE"
"""No execution of the Flow ID is retained any more."""
REPLACED = "REPLACED"
"""The Flow ID has another execution than the one that was found."""
ALREADY_CLOSED = "ALREADY_CLOSED"
"""There was nothing to stop."""

DETAIL_LENGTH_MAX = 500
"""A longer message of a refusal is cut."""


def skipped(flow_id: FlowId, reason: str) -> Problem:
    """Nothing was to be done."""
    return Problem(flow_id, TargetOutcome.SKIPPED, reason)


def problem_of(flow_id: FlowId, answer: Any) -> Problem | None:
    """Read what the call was answered; None if it was applied, now or by an earlier try."""
    if isinstance(answer, Rejection):
        return Problem(flow_id, TargetOutcome.FAILED, answer.code.value, answer.message[:DETAIL_LENGTH_MAX])
    if isinstance(answer, StopFlowResult) and not answer.applied:
        return skipped(flow_id, ALREADY_CLOSED)
    return None
