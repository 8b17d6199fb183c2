"""What is commanded about batch jobs; a part of `dexd.core.commands`."""

from typing import Any, TypeAlias

import msgspec

from dexd.core.ids import FlowId, JobId, RequestId, StreamId
from dexd.core.jobs.events import Operation, Problem, Target


class CreateJob(msgspec.Struct, frozen=True, gc=False):
    """Create a job over targets that were just found. Reply: JobAccepted."""

    job_id: JobId
    """Follows from the request ID, so that a repeat finds the job."""
    query: str
    operation: Operation
    rate: float
    targets: tuple[Target, ...]
    request_id: RequestId
    digest: bytes


class CancelJob(msgspec.Struct, frozen=True, gc=False):
    """Let no further target have its turn; no effect on a job that is closed. Reply: JobAccepted."""

    job_id: JobId


class ReachTarget(msgspec.Struct, frozen=True, gc=False):
    """The job's side to a Flow: apply the operation, unless it does not match any more [BATCH-3].

    The job submits it without `call` and `is_matching`; the shell fills them in, in the turn in which it is decided.
    """

    stream_id: StreamId
    position: int
    """Of the target in the job, from 0."""
    flow_id: FlowId
    ordinal: int
    query: str
    operation: Operation
    request_id: RequestId
    """The same for every try, so that it is applied once."""
    call: Any = None
    """The client command that the operation is for this Flow; None for time travel, which the log has to prepare."""
    is_matching: bool = False
    """Whether the query finds the Flow now."""


class NoteTarget(msgspec.Struct, frozen=True, gc=False):
    """The Flow's side to a job: what became of the target."""

    stream_id: StreamId
    position: int
    problem: Problem | None
    """None: the operation was applied."""


JobCommand: TypeAlias = CreateJob | CancelJob
JobStep: TypeAlias = ReachTarget | NoteTarget
