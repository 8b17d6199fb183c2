"""Streams of the log that belong to something else than a run: its kinds, and what all of them have in common.

Each kind has events, state and fold of its own; log, recovery and projections treat them alike. To add one: a member of
`StreamKind`, its events in `STREAM_EVENT_TYPES` and `outcome.StreamEvent`, its fold in `_FOLDS`, and a `StreamSummary`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from dexd.core.ids import StreamId
from dexd.core.jobs.events import JOB_EVENT_TYPES
from dexd.core.jobs.evolve import evolve_job
from dexd.core.jobs.state import JobState
from dexd.core.outcome import RecordedStreamEvent, StreamEvent
from dexd.core.schedules.events import SCHEDULE_EVENT_TYPES
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.state import ScheduleState


class StreamKind(StrEnum):
    """What a stream belongs to."""

    SCHEDULE = "schedule"
    JOB = "job"


StreamState: TypeAlias = ScheduleState | JobState
"""The folded state of a stream of any kind."""

STREAM_EVENT_TYPES: tuple[type[StreamEvent], ...] = (*SCHEDULE_EVENT_TYPES, *JOB_EVENT_TYPES)
"""Every event type of every kind; names are unique over all kinds and runs."""

STREAM_STATE_TYPES: dict[StreamKind, type[StreamState]] = {
    StreamKind.SCHEDULE: ScheduleState,
    StreamKind.JOB: JobState,
}
"""What a snapshot of each kind holds."""

_KINDS: dict[type[StreamEvent], StreamKind] = {
    **dict.fromkeys(SCHEDULE_EVENT_TYPES, StreamKind.SCHEDULE),
    **dict.fromkeys(JOB_EVENT_TYPES, StreamKind.JOB),
}
_FOLDS: dict[StreamKind, Callable[[Any, RecordedStreamEvent], StreamState]] = {
    StreamKind.SCHEDULE: evolve_schedule,
    StreamKind.JOB: evolve_job,
}


class StreamSummary(msgspec.Struct, frozen=True, gc=False):
    """What look-ups and lists know of a stream without its state."""

    kind: StreamKind
    name: str
    """Unique among the open streams of its kind."""
    status: int
    created_at: int
    is_closed: bool
    """Nothing happens to it any more, so a restart need not know it."""
    closed_at: int
    """Since when; 0 before. It leaves the log some time after that [KEEP-1]."""


def evolve_stream(state: StreamState | None, recorded: RecordedStreamEvent) -> StreamState:
    """Apply an event of any kind; the first one makes the state."""
    return _FOLDS[_KINDS[type(recorded.event)]](state, recorded)


def summary_of(state: StreamState) -> StreamSummary:
    """The state as look-ups and lists know it."""
    if isinstance(state, JobState):
        kind, name = StreamKind.JOB, str(state.job_id)
    else:
        kind, name = StreamKind.SCHEDULE, str(state.schedule_id)
    return StreamSummary(
        kind, name, int(state.status), state.created_at, is_closed=state.is_closed, closed_at=state.closed_at
    )


class StreamIds:
    """Numbers streams of all kinds, runs included."""

    __slots__ = ("_last",)

    def __init__(self, last: int) -> None:
        self._last = last

    def take(self) -> StreamId:
        """The number of the next stream."""
        self._last += 1
        return StreamId(self._last)
