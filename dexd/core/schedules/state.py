"""State of one schedule: the fold of its events, read by every decision about it."""

from enum import IntEnum

import msgspec

from dexd.core.ids import FlowId, RequestId, RunId, ScheduleId, StreamId
from dexd.core.schedules.spec import OverlapPolicy, ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.values import RequestRecord

REQUESTS_MAX = 100
"""Newest requests whose repeats are recognised [GEN-8]; a client repeats within seconds."""


class ScheduleStatus(IntEnum):
    """Whether a schedule fires. That it is past its last fire is not recorded: it follows from its spec [SCHED-9]."""

    ACTIVE = 1
    PAUSED = 2
    DELETED = 3


class Waiting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An occurrence that waits for others to end."""

    nominal: int
    overlap: OverlapPolicy
    by_hand: bool = False


class Execution(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An occurrence whose execution is open, or is being started."""

    nominal: int
    flow_id: FlowId
    run_id: RunId = RunId("")
    """First run of the execution; empty until it is known to exist."""


class PausedSpan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A pause: the fires due after an instant and not after another one are skipped [SCHED-13]."""

    spec: ScheduleSpec
    since: int
    """As `ScheduleState.since`."""
    after: int
    until: int


class Counts(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Outcomes that are final; what waits or is being started is counted from the state itself [SCHED-12]."""

    started: int = 0
    missed: int = 0
    skipped: dict[int, int] = {}
    """By `SkipReason`."""
    is_at_least: bool = False
    """A record among them stands for more fires than were counted [SCHED-14]."""


class ScheduleState(msgspec.Struct, array_like=True, gc=False):
    """Everything that replay of one schedule's events gives."""

    schedule_id: ScheduleId
    stream_id: StreamId
    created_at: int
    spec: ScheduleSpec
    action: ScheduleAction
    policy: SchedulePolicy
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    version: int = 0
    """Version of the last folded event."""
    note: str = ""
    """Why it is paused."""
    updated_at: int = 0
    since: int = 0
    """Only nominal instants after it are planned: when the spec was set [SCHED-15]."""
    revision: int = 0
    """Version of the event that set the spec."""
    through: int = 0
    """Every fire that was due at or before it has its outcome."""
    pauses: tuple[PausedSpan, ...] = ()
    """Pauses that are over and whose fires are not counted yet."""
    open: dict[int, Execution] = {}
    """Executions that are open or being started, by nominal instant, in order of their start, or of their reopening."""
    buffer: list[Waiting] = []
    counts: Counts = Counts()
    last_nominal: int = 0
    """Largest nominal instant that was ever decided about."""
    requests: dict[RequestId, RequestRecord] = {}
    """Newest requests, oldest first."""
    closed_at: int = 0
    """When nothing could happen to it any more; 0 before."""

    @property
    def is_deleted(self) -> bool:
        """Whether clients see it no more."""
        return self.status is ScheduleStatus.DELETED

    @property
    def is_closed(self) -> bool:
        """Whether nothing can happen to it any more: it is deleted and all its starts are answered."""
        return self.is_deleted and all(execution.run_id for execution in self.open.values())

    @property
    def buffered_count(self) -> int:
        """Occurrences whose outcome is not final."""
        return len(self.buffer) + sum(not execution.run_id for execution in self.open.values())
