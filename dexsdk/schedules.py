"""Schedules: when they fire, what they start, and how they stand [SCHED-1..16].

``Schedules`` is what ``Client.schedules`` has; ``AsyncSchedules`` has the same as coroutines.
"""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from dexsdk._durations import Duration, optional_duration_ms, to_duration_ms, to_instant_ms
from dexsdk._names import check_owned_name
from dexsdk.flow import FlowRef
from dexsdk.options import IdReusePolicy, StartFlowOptions

In = TypeVar("In")


class GapPolicy(StrEnum):
    """What becomes of a wall-clock reading that a clock change leaves out [SCHED-8]."""

    SHIFT = "SHIFT"
    """It fires with the offset before the change: 02:30 at 03:30 new time."""
    SKIP = "SKIP"
    """It is no planned fire."""


class FoldPolicy(StrEnum):
    """Which pass counts for a wall-clock reading that a clock change repeats [SCHED-8]."""

    FIRST = "FIRST"
    LAST = "LAST"
    BOTH = "BOTH"


class OverlapPolicy(StrEnum):
    """What a fire does while an execution of the schedule is still open [SCHED-11]."""

    SKIP = "SKIP"
    """It is skipped."""
    BUFFER_ONE = "BUFFER_ONE"
    """The first one waits until the open one has ended; later ones are skipped."""
    BUFFER_ALL = "BUFFER_ALL"
    """Up to 1,000 wait and start one after the other."""
    CANCEL_OTHER = "CANCEL_OTHER"
    """The open one is canceled, then this one starts."""
    TERMINATE_OTHER = "TERMINATE_OTHER"
    """The open one is terminated, then this one starts."""
    ALLOW_ALL = "ALLOW_ALL"
    """It starts beside the others."""


class ScheduleStatus(StrEnum):
    """Whether a schedule fires."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    EXHAUSTED = "EXHAUSTED"
    """No fire follows [SCHED-9]."""


class ScheduleOutcomeKind(StrEnum):
    """What became of a fire [SCHED-12]."""

    STARTED = "STARTED"
    SKIPPED = "SKIPPED"
    MISSED = "MISSED"
    BUFFERED = "BUFFERED"
    """It waits for others to end; later it is started or skipped."""


@dataclass(frozen=True)
class ScheduleSpec:
    """When a schedule fires: exactly one of ``cron`` and ``interval`` [SCHED-3].

    The server checks cron text and time zone and names what is wrong with them.
    """

    cron: str | None = None
    """Five fields (minute hour day month weekday) or six (second first), a macro such as ``@daily``, or ``@every 90s``
    [SCHED-4]."""
    interval: Duration | None = None
    """1 s to 100 years, counted in absolute time from ``start_at`` or the Unix epoch."""
    time_zone: str = "UTC"
    """IANA name whose wall clock the cron text means."""
    start_at: datetime | None = None
    """Fires lie after it."""
    end_at: datetime | None = None
    """The last instant at which a fire may lie."""
    jitter: Duration = 0
    """A fire is late by up to this, at most a day; always by the same for the same occurrence [SCHED-10]."""
    gap_policy: GapPolicy = GapPolicy.SHIFT
    fold_policy: FoldPolicy = FoldPolicy.FIRST

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.interval is None):
            raise ValueError("a ScheduleSpec needs exactly one of cron and interval")
        optional_duration_ms(self.interval, "interval")
        to_duration_ms(self.jitter, "jitter")
        for what, instant in (("start_at", self.start_at), ("end_at", self.end_at)):
            if instant is not None:
                to_instant_ms(instant, what)


@dataclass(frozen=True)
class ScheduleAction(Generic[In]):
    """What every fire starts [SCHED-2]."""

    flow: FlowRef[In]
    input: In
    options: StartFlowOptions | None = None
    """Without ``request_id`` and ``id_reuse_policy``: each occurrence has its own."""
    flow_id: str | None = None
    """The Flow ID of all executions; None gives each its occurrence ID."""

    def __post_init__(self) -> None:
        options = self.options
        if options is not None and (options.request_id or options.id_reuse_policy is not IdReusePolicy.DEFAULT):
            raise ValueError("the options of a ScheduleAction have neither request_id nor id_reuse_policy")
        if self.flow_id is not None:
            check_owned_name(self.flow_id, "Flow ID")


@dataclass(frozen=True)
class SchedulePolicy:
    """How fires stand to open executions, to downtime and to failures."""

    overlap: OverlapPolicy = OverlapPolicy.SKIP
    catch_up_window: Duration = 3600
    """How late a fire may be and still be handled; under 10 s counts as 10 s [SCHED-13]."""
    pause_on_failure: bool = False
    """Pause when an execution ends FAILED [SCHED-15]."""

    def __post_init__(self) -> None:
        to_duration_ms(self.catch_up_window, "catch_up_window")


@dataclass(frozen=True)
class ScheduledExecution:
    """An open execution of a schedule."""

    scheduled_at: datetime
    flow_id: str
    run_id: str | None
    """First run of the execution; None while it is being started."""


@dataclass(frozen=True)
class ScheduleInfo:
    """How a schedule stands; ``planned`` is the sum of the other counts at any moment [SCHED-12]."""

    schedule_id: str
    status: ScheduleStatus
    note: str
    """Why it is paused."""
    spec: ScheduleSpec
    policy: SchedulePolicy
    flow_type: str
    flow_id: str | None
    """The fixed Flow ID of all executions."""
    input: Any
    """Input of every start, as plain JSON values. Lists show one above 64 KiB as histories do:
    ``{"$blob": {"sha256": ..., "size": ...}}``; ``describe`` gives it."""
    created_at: datetime
    updated_at: datetime
    next_fire_at: datetime | None
    """None while it is paused, and after its last fire."""
    planned: int
    """Fires up to now, those that were asked for by hand included."""
    started: int
    skipped: int
    missed: int
    buffered: int
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    """OVERLAP, BUFFER_FULL, PAUSED, FLOW_ID_IN_USE, DELETED."""
    is_at_least: bool = False
    """There were more fires than were counted: spans of more than 100,000 are not [SCHED-14]."""
    open: tuple[ScheduledExecution, ...] = ()
    """Open executions in order of their start, at most 100."""


@dataclass(frozen=True)
class SchedulePage:
    """Schedules by ID."""

    schedules: tuple[ScheduleInfo, ...]
    next_page_token: str
    """Empty on the last page."""


@dataclass(frozen=True)
class ScheduleOutcome:
    """What became of a fire, or of consecutive ones that ended alike [SCHED-12, SCHED-14]."""

    outcome: ScheduleOutcomeKind
    reason: str
    """Why it was skipped; empty otherwise."""
    first: datetime
    """Instant of the first fire, without jitter."""
    last: datetime
    """That of the last, or the end of their span."""
    count: int
    is_at_least: bool
    """There were more than ``count``."""
    flow_id: str | None
    """Of a started one."""
    run_id: str | None
    decided_at: datetime | None
    """None for what still waits."""


@dataclass(frozen=True)
class ScheduleOutcomePage:
    """Outcomes in the order in which they were decided, then what still waits."""

    outcomes: tuple[ScheduleOutcome, ...]
    next_page_token: str
    """Empty on the last page."""


Instants = builtins.list[datetime]
"""Aware, in UTC, ascending."""
