"""Persisted facts of a batch job, past tense; the rules of `dexd.core.events` hold for them too [ARCH-9]."""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from dexd.core.ids import FlowId, JobId
from dexd.core.values import RequestRecord


class JobKind(IntEnum):
    """What a job does to each of its targets [BATCH-1]."""

    STOP = 1
    PUBLISH = 2
    SET_ATTRIBUTE = 3
    TIME_TRAVEL = 4


class JobStatus(IntEnum):
    """How a job stands."""

    RUNNING = 1
    COMPLETED = 2
    """Every target has its result, whatever that is."""
    CANCELED = 3


class TargetOutcome(IntEnum):
    """What became of a target."""

    APPLIED = 1
    SKIPPED = 2
    """Nothing was to be done: it does not match any more, or is not what it was [BATCH-3]."""
    FAILED = 3
    """The operation was refused."""


class Target(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One execution, found when the job was created."""

    flow_id: FlowId
    ordinal: int


class Operation(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is done to each target: the same call that a client makes for one Flow."""

    kind: JobKind
    request: bytes
    """The call without Flow and request ID, as the codec wrote it; opaque here."""


class Problem(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A target to which the operation was not applied, and why."""

    flow_id: FlowId
    outcome: TargetOutcome
    reason: str
    """A code: one of `dexd.core.jobs.results`, or that of the refusal."""
    detail: str = ""


class JobCreated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job exists; always the first event of its stream, and followed by its targets in the same commit."""

    job_id: JobId
    query: str
    operation: Operation
    rate: float
    """Targets a second at most."""
    matched: int
    """How many targets it has."""
    request: RequestRecord


class JobTargetsFixed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next of its targets, in the order of the query; together they are `matched` [BATCH-3]."""

    targets: tuple[Target, ...]


class JobAdvanced(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next targets have their turn; until their results are recorded, the job owes them the operation."""

    count: int


class JobProgressed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The targets that had their turn have their results; those without a problem were applied to."""

    count: int
    problems: tuple[Problem, ...] = ()


class JobCanceled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """No further target has its turn."""


class JobClosed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Nothing more happens."""

    status: JobStatus


JobEvent: TypeAlias = JobCreated | JobTargetsFixed | JobAdvanced | JobProgressed | JobCanceled | JobClosed

JOB_EVENT_TYPES: tuple[type[JobEvent], ...] = (
    JobCreated,
    JobTargetsFixed,
    JobAdvanced,
    JobProgressed,
    JobCanceled,
    JobClosed,
)
