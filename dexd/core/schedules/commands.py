"""Commands about schedules: of clients, of the shell, and what schedules and executions owe each other [ARCH-14]."""

from typing import TypeAlias

import msgspec

from dexd.core.ids import FlowId, RequestId, RunId, ScheduleId, StreamId
from dexd.core.schedules.occurrences import Fire, FireCount
from dexd.core.schedules.spec import OverlapPolicy, ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.start_command import StartFlow
from dexd.core.values import FlowStatus


class CreateSchedule(msgspec.Struct, frozen=True, gc=False):
    """Create a schedule. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    spec: ScheduleSpec
    action: ScheduleAction
    policy: SchedulePolicy
    request_id: RequestId
    digest: bytes
    is_paused: bool = False


class UpdateSchedule(msgspec.Struct, frozen=True, gc=False):
    """Replace parts of a schedule from now on [SCHED-15]; None leaves a part. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    spec: ScheduleSpec | None = None
    action: ScheduleAction | None = None
    policy: SchedulePolicy | None = None


class PauseSchedule(msgspec.Struct, frozen=True, gc=False):
    """Let nothing fire until it is resumed. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    note: str = ""


class ResumeSchedule(msgspec.Struct, frozen=True, gc=False):
    """Let it fire again. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes


class DeleteSchedule(msgspec.Struct, frozen=True, gc=False):
    """Remove a schedule and leave its executions alone. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes


class TriggerSchedule(msgspec.Struct, frozen=True, gc=False):
    """Have one occurrence now [SCHED-16]. Reply: OccurrenceAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    overlap: OverlapPolicy | None = None
    """In place of the schedule's policy."""


class BackfillSchedule(msgspec.Struct, frozen=True, gc=False):
    """Handle fires of the past once more [SCHED-16]. Reply: BackfillAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    start_at: int
    end_at: int
    """Not included."""
    fires: tuple[Fire, ...]
    """Those of the span that were not started before, computed by the shell."""
    overlap: OverlapPolicy | None = None


class ProvideFires(msgspec.Struct, frozen=True, gc=False):
    """The shell has computed when a schedule fires next, which the core asked for.

    Everything due from the schedule's `through` on is in one of the parts, up to `as_of` or to the last fire given.
    """

    stream_id: StreamId
    revision: int
    """Of the spec that it was computed from."""
    as_of: int
    """The instant of the command."""
    paused: tuple[FireCount, ...]
    """Fires that fell into each of the pauses that are not counted yet."""
    missed: FireCount
    """Fires that are due longer ago than the catch-up window [SCHED-13]."""
    fires: tuple[Fire, ...]
    """Those that follow, in the order in which they are due."""
    rest: FireCount
    """Fires after these that are due already; then nothing after `as_of` is known."""
    is_last: bool
    """There is none after these [SCHED-9]."""


class ReachOccurrence(msgspec.Struct, frozen=True, gc=False):
    """Start an occurrence's execution, or find it: a repeat of this finds what it started [SCHED-2, ARCH-14]."""

    stream_id: StreamId
    nominal: int
    start: StartFlow
    """Its request ID is the occurrence ID."""
    run_id: RunId
    """First run of the execution, if the schedule knows that it exists: then it is never started again."""


class NoteOccurrence(msgspec.Struct, frozen=True, gc=False):
    """Let a schedule know how an occurrence's execution stands; a no-op for one that does not wait for it."""

    schedule_id: ScheduleId
    nominal: int
    run_id: RunId
    """First run of the execution; empty when the start was refused because the Flow ID is in use."""
    stream_id: StreamId | None = None
    """The stream that asked; None: the newest one of that ID."""
    status: FlowStatus | None = None
    """How it ended; None while it is open."""
    error_message: str = ""


class NoteReopened(msgspec.Struct, frozen=True, gc=False):
    """Let a schedule know that an execution of it is open again; a no-op for one that it has as open."""

    schedule_id: ScheduleId
    nominal: int
    flow_id: FlowId
    run_id: RunId
    """First run of the execution."""


class StopOccurrence(msgspec.Struct, frozen=True, gc=False):
    """Stop an execution in favor of the next one [SCHED-11]; a no-op for one that has ended."""

    schedule_id: ScheduleId
    flow_id: FlowId
    run_id: RunId
    """First run of the execution."""
    is_terminated: bool
    """Otherwise it is canceled."""


ScheduleCommand: TypeAlias = (
    CreateSchedule
    | UpdateSchedule
    | PauseSchedule
    | ResumeSchedule
    | DeleteSchedule
    | TriggerSchedule
    | BackfillSchedule
)
OccurrenceCommand: TypeAlias = ReachOccurrence | NoteOccurrence | NoteReopened | StopOccurrence
