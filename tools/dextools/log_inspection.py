"""Looks at single runs of a log offline: their events, and their state after any of them [SURF-23].

Works on the log port, so it sees what the server would see; how a log is opened without writing is `offline_log`'s.
"""

from collections.abc import Iterator

from dexd.codec.event_codec import from_stored, stream_event_from_stored
from dexd.codec.history_view import HistoryView
from dexd.codec.views import HistoryEntry
from dexd.core.config import KernelConfig
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.outcome import RecordedEvent, RecordedStreamEvent
from dexd.core.streams import StreamKind
from dexd.log.event_log import EventLog, RunFilter, RunRow, StreamRow

PAGE_EVENTS = 1_000
"""Events and rows read at a time."""


def find_run(log: EventLog, name: str) -> RunRow | None:
    """The run of that ID, or the latest run of that Flow ID."""
    run = log.latest_run(name) or log.run_by_id(name)
    return None if run is None else run.row


def listed_runs(log: EventLog) -> Iterator[RunRow]:
    """Every run that the projection lists, newest first."""
    before_stream_id = 0
    while page := log.list_runs(RunFilter(before_stream_id=before_stream_id), PAGE_EVENTS):
        yield from (listed.row for listed in page)
        before_stream_id = page[-1].row.stream_id


def listed_streams(log: EventLog, kind: StreamKind) -> Iterator[StreamRow]:
    """Every stream of a kind that is not a run's, newest first."""
    before_stream_id = 0
    while page := log.list_streams(kind, before_stream_id, PAGE_EVENTS):
        yield from page
        before_stream_id = page[-1].stream_id


def recorded_stream_events(log: EventLog, stream_id: int) -> Iterator[RecordedStreamEvent]:
    """All events of a stream that is not a run's, decoded and in today's form."""
    version = 1
    while page := log.read_stream(stream_id, version, PAGE_EVENTS):
        yield from map(stream_event_from_stored, page)
        version = page[-1].version + 1


def recorded_events(log: EventLog, stream_id: int) -> Iterator[RecordedEvent]:
    """All events of a stream, decoded and in today's form."""
    version = 1
    while page := log.read_stream(stream_id, version, PAGE_EVENTS):
        yield from map(from_stored, page)
        version = page[-1].version + 1


def history(log: EventLog, run: RunRow) -> Iterator[HistoryEntry]:
    """The history of a run as the server shows it [HIST-2]."""
    view = HistoryView(KernelConfig())
    return map(view.show, recorded_events(log, run.stream_id))


def state_after(log: EventLog, run: RunRow, last_event_id: int | None) -> RunState | None:
    """The state of a run after one of its events, or after the last one; None if that event does not exist."""
    state: RunState | None = None
    for recorded in recorded_events(log, run.stream_id):
        state = evolve(state, recorded)
        if recorded.version == last_event_id:
            return state
    return state if last_event_id is None else None
