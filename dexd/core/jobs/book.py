"""The batch jobs in memory: all that are open, and the newest closed ones."""

from collections.abc import Iterator

from dexd.core.ids import JobId, StreamId
from dexd.core.jobs.events import JobCreated, JobEvent
from dexd.core.jobs.evolve import evolve_job
from dexd.core.jobs.state import JobState
from dexd.core.outcome import RecordedStreamEvent
from dexd.core.streams import StreamIds
from dexd.core.turn import Turn

CLOSED_MAX = 100
"""Closed ones kept, so that whoever asks right after the end costs no look-up."""


class JobBook:
    """Jobs by ID and by stream; records and folds their events."""

    __slots__ = ("_by_id", "_by_stream", "_closed", "_stream_ids")

    def __init__(self, stream_ids: StreamIds) -> None:
        self._stream_ids = stream_ids
        self._by_id: dict[JobId, JobState] = {}
        self._by_stream: dict[StreamId, JobState] = {}
        self._closed: dict[StreamId, None] = {}

    def get(self, job_id: JobId) -> JobState | None:
        """The job of that ID, if it is in memory."""
        return self._by_id.get(job_id)

    def of_stream(self, stream_id: StreamId) -> JobState | None:
        """The job of a stream, if it is in memory."""
        return self._by_stream.get(stream_id)

    def __iter__(self) -> Iterator[JobState]:
        """All in memory, in the order in which they were created or looked up."""
        return iter(list(self._by_stream.values()))

    def adopt(self, state: JobState) -> None:
        """Take over a job restored from the log."""
        self._by_stream[state.stream_id] = self._by_id[state.job_id] = state
        if state.is_closed:
            self._note_closed(state)

    def create(self, turn: Turn, event: JobCreated) -> JobState:
        """Record the first event of a new job."""
        recorded = RecordedStreamEvent(self._stream_ids.take(), 1, turn.now, event)
        turn.record(recorded)
        state = evolve_job(None, recorded)
        self._by_stream[state.stream_id] = self._by_id[state.job_id] = state
        return state

    def emit(self, turn: Turn, state: JobState, event: JobEvent) -> None:
        """Record and fold one event."""
        recorded = RecordedStreamEvent(state.stream_id, state.version + 1, turn.now, event)
        turn.record(recorded)
        evolve_job(state, recorded)
        if state.is_closed:
            self._note_closed(state)

    def forget(self, stream_id: StreamId) -> None:
        """Drop a closed job, if it is in memory."""
        if stream_id in self._closed:
            del self._closed[stream_id]
            gone = self._by_stream.pop(stream_id)
            del self._by_id[gone.job_id]

    def _note_closed(self, state: JobState) -> None:
        self._closed[state.stream_id] = None
        if len(self._closed) > CLOSED_MAX:
            self.forget(next(iter(self._closed)))
