"""How batch jobs stand: plain frozen data [BATCH-1]."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class BatchStatus(StrEnum):
    """How a batch job stands."""

    DRY_RUN = "DRY_RUN"
    """There is no job: this is what one would find."""
    RUNNING = "RUNNING"
    CANCELING = "CANCELING"
    """Nothing more is begun; what was is waited for."""
    COMPLETED = "COMPLETED"
    """Every Flow that was found has its result."""
    CANCELED = "CANCELED"


@dataclass(frozen=True)
class BatchProblem:
    """A Flow to which the operation was not applied."""

    flow_id: str
    outcome: str
    """SKIPPED or FAILED."""
    reason: str
    """NO_MATCH, GONE, REPLACED or ALREADY_CLOSED of one that was skipped, else the code of the refusal."""
    detail: str


@dataclass(frozen=True)
class BatchInfo:
    """A batch job, or what one would find."""

    id: str
    """Empty for a dry run."""
    operation: str
    """STOP, PUBLISH, SET_ATTRIBUTE or TIME_TRAVEL."""
    query: str
    status: BatchStatus
    matched: int
    """Flows that the query found when the job was created."""
    applied: int
    skipped: int
    """Flows that did not match any more, or where nothing was to be done."""
    failed: int
    reasons: Mapping[str, int]
    """Why Flows were skipped or failed, and how many for each reason."""
    problems: tuple[BatchProblem, ...]
    """The first of those, at most 100."""
    rate: float
    """Flows a second at most."""
    created_at: datetime | None
    """None for a dry run."""
    closed_at: datetime | None
    sample: tuple[str, ...] = ()
    """Of a dry run: the first Flow IDs, at most 20."""


@dataclass(frozen=True)
class BatchPage:
    """Batch jobs, newest first."""

    batches: tuple[BatchInfo, ...]
    next_page_token: str | None
    """None on the last page."""
