"""Persisted facts of a schedule, past tense; the rules of `dexd.core.events` hold for them too [ARCH-9].

An occurrence is named by its nominal instant, in milliseconds. `by_hand` marks one that a client asked for, with
trigger_now or backfill; only the others tell how far the plan is done.
"""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from dexd.core.ids import FlowId, RunId, ScheduleId
from dexd.core.schedules.spec import OverlapPolicy, ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.values import FlowStatus, RequestRecord


class FireOutcome(IntEnum):
    """What became of a planned fire [SCHED-12]."""

    STARTED = 1
    SKIPPED = 2
    MISSED = 3
    BUFFERED = 4
    """Waits for others to end, or for the answer to its start."""


class SkipReason(IntEnum):
    """Why a fire was skipped [SCHED-12]."""

    NONE = 0
    """It was not skipped."""
    OVERLAP = 1
    BUFFER_FULL = 2
    PAUSED = 3
    FLOW_ID_IN_USE = 4
    DELETED = 5


class ScheduleCreated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A schedule exists; always the first event of its stream."""

    schedule_id: ScheduleId
    spec: ScheduleSpec
    action: ScheduleAction
    policy: SchedulePolicy
    request: RequestRecord
    is_paused: bool = False


class ScheduleUpdated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Parts were replaced, from now on [SCHED-15]; None leaves a part as it is."""

    request: RequestRecord
    spec: ScheduleSpec | None = None
    action: ScheduleAction | None = None
    policy: SchedulePolicy | None = None


class SchedulePaused(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Nothing fires any more until it is resumed."""

    note: str
    request: RequestRecord | None = None
    """None when a failure paused it [SCHED-15]."""


class ScheduleResumed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """It fires again; what would have fired before this instant is skipped [SCHED-13]."""

    request: RequestRecord


class ScheduleDeleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The schedule is gone for clients; its executions are left alone [SCHED-15]."""

    request: RequestRecord


class ScheduleTriggered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client asked for one occurrence now; what becomes of it follows [SCHED-16]."""

    nominal: int
    request: RequestRecord


class ScheduleBackfilled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client asked for the fires of a span of the past; what becomes of each follows [SCHED-16]."""

    start_at: int
    end_at: int
    """Not included."""
    count: int
    request: RequestRecord


class OccurrenceBuffered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An occurrence waits for others to end [SCHED-11]."""

    nominal: int
    overlap: OverlapPolicy
    by_hand: bool = False


class OccurrenceStarting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Its execution is to be started; the schedule owes the start until the answer is known [ARCH-14]."""

    nominal: int
    flow_id: FlowId
    by_hand: bool = False
    was_buffered: bool = False


class OccurrenceStarted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Its execution exists."""

    nominal: int
    run_id: RunId
    """First run of the execution."""
    flow_id: FlowId


class OccurrenceSkipped(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An occurrence that waited will not start."""

    nominal: int
    reason: SkipReason


class OccurrencesPassed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Consecutive fires that lead to nothing, as one record [SCHED-14]."""

    outcome: FireOutcome
    reason: SkipReason
    first: int
    """Nominal instant of the first of them."""
    last: int
    """That of the last, or the end of their span."""
    count: int
    is_at_least: bool = False
    """There were more than could be counted."""
    by_hand: bool = False
    ends_pause: bool = False
    """They are all the fires of the oldest pause that was not counted."""


class OccurrenceClosed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An execution of the schedule ended."""

    nominal: int
    status: FlowStatus


class OccurrenceReopened(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Time travel goes on with an execution that had ended, so that it is open again [TT-1]."""

    nominal: int
    run_id: RunId
    """First run of the execution."""
    flow_id: FlowId


ScheduleEvent: TypeAlias = (
    ScheduleCreated
    | ScheduleUpdated
    | SchedulePaused
    | ScheduleResumed
    | ScheduleDeleted
    | ScheduleTriggered
    | ScheduleBackfilled
    | OccurrenceBuffered
    | OccurrenceStarting
    | OccurrenceStarted
    | OccurrenceSkipped
    | OccurrencesPassed
    | OccurrenceClosed
    | OccurrenceReopened
)

SCHEDULE_EVENT_TYPES: tuple[type[ScheduleEvent], ...] = (
    ScheduleCreated,
    ScheduleUpdated,
    SchedulePaused,
    ScheduleResumed,
    ScheduleDeleted,
    ScheduleTriggered,
    ScheduleBackfilled,
    OccurrenceBuffered,
    OccurrenceStarting,
    OccurrenceStarted,
    OccurrenceSkipped,
    OccurrencesPassed,
    OccurrenceClosed,
    OccurrenceReopened,
)
"""Every event type of a schedule; the codec, the fold and their tests iterate over it."""
