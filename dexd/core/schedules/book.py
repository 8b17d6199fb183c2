"""The schedules in memory: all that are not closed, and the newest closed ones."""

from collections.abc import Iterator

from dexd.core.ids import ScheduleId, StreamId
from dexd.core.outcome import RecordedStreamEvent
from dexd.core.schedules.events import ScheduleCreated, ScheduleEvent
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.state import ScheduleState
from dexd.core.streams import StreamIds
from dexd.core.turn import Turn

CLOSED_MAX = 1_000
"""Closed ones kept, so that the repeat of a deletion costs no look-up and finds what is not committed yet."""


class ScheduleBook:
    """Schedules by ID and by stream; records and folds their events."""

    __slots__ = ("_by_stream", "_closed", "_newest", "_stream_ids")

    def __init__(self, stream_ids: StreamIds) -> None:
        self._stream_ids = stream_ids
        self._newest: dict[ScheduleId, ScheduleState] = {}
        self._by_stream: dict[StreamId, ScheduleState] = {}
        self._closed: dict[StreamId, None] = {}

    def get(self, schedule_id: ScheduleId) -> ScheduleState | None:
        """The newest schedule of that ID, deleted or not."""
        return self._newest.get(schedule_id)

    def find(self, stream_id: StreamId | None) -> ScheduleState | None:
        """The schedule of a stream, if it is in memory."""
        return None if stream_id is None else self._by_stream.get(stream_id)

    def of_stream(self, stream_id: StreamId) -> ScheduleState:
        """The schedule of a stream that is in memory."""
        return self._by_stream[stream_id]

    def __iter__(self) -> Iterator[ScheduleState]:
        """All in memory, in the order in which they were created or looked up."""
        return iter(list(self._by_stream.values()))

    def adopt(self, state: ScheduleState) -> None:
        """Take over a schedule restored from the log."""
        self._by_stream[state.stream_id] = state
        newest = self._newest.get(state.schedule_id)
        if newest is None or newest.stream_id < state.stream_id:
            self._newest[state.schedule_id] = state
        if state.is_closed:
            self._note_closed(state)

    def create(self, turn: Turn, event: ScheduleCreated) -> ScheduleState:
        """Record the first event of a new schedule."""
        recorded = RecordedStreamEvent(self._stream_ids.take(), 1, turn.now, event)
        turn.record(recorded)
        state = evolve_schedule(None, recorded)
        self._by_stream[state.stream_id] = self._newest[state.schedule_id] = state
        return state

    def emit(self, turn: Turn, state: ScheduleState, event: ScheduleEvent) -> None:
        """Record and fold one event."""
        recorded = RecordedStreamEvent(state.stream_id, state.version + 1, turn.now, event)
        turn.record(recorded)
        evolve_schedule(state, recorded)
        if state.is_closed:
            self._note_closed(state)

    def forget(self, stream_id: StreamId) -> None:
        """Drop a closed schedule, if it is in memory."""
        if stream_id in self._closed:
            del self._closed[stream_id]
            gone = self._by_stream.pop(stream_id)
            if self._newest[gone.schedule_id] is gone:
                del self._newest[gone.schedule_id]

    def _note_closed(self, state: ScheduleState) -> None:
        self._closed[state.stream_id] = None
        if len(self._closed) > CLOSED_MAX:
            self.forget(next(iter(self._closed)))
