"""Folded state of one batch job. Only `dexd.core.jobs.evolve` changes it; everybody else reads [ARCH-2]."""

import msgspec

from dexd.core.ids import JobId, StreamId
from dexd.core.jobs.events import JobStatus, Operation, Problem, Target
from dexd.core.values import RequestRecord

PROBLEMS_MAX = 100
"""Problems kept by Flow, the first ones; all of them are counted by reason."""


class JobState(msgspec.Struct, array_like=True, gc=False):
    """Everything that replay of one job's events gives."""

    job_id: JobId
    stream_id: StreamId
    created_at: int
    query: str
    operation: Operation
    rate: float
    matched: int
    request: RequestRecord
    status: JobStatus = JobStatus.RUNNING
    version: int = 0
    """Version of the last folded event."""
    closed_at: int = 0
    is_canceled: bool = False
    """No further target has its turn; those that had it are waited for."""
    targets: list[Target] = []
    """Those without a result, in order."""
    open_count: int = 0
    """How many of them, from the first on, have their turn."""
    done: int = 0
    """Targets with a result."""
    applied: int = 0
    skipped: int = 0
    failed: int = 0
    reasons: dict[str, int] = {}
    """Why targets were skipped or failed, and how many for each reason."""
    problems: list[Problem] = []

    @property
    def is_closed(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.status is not JobStatus.RUNNING
