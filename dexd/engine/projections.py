"""Projections made anew from the events alone: rows of runs and other streams, pending timers, snapshots [ARCH-10].

The server does it when it finds rows in another form than it writes, after an upgrade; `dex log rebuild` when they are
damaged.
"""

from collections.abc import Callable, Iterator

import msgspec
import structlog

from dexd.codec.event_codec import from_stored, is_of_run, stream_event_from_stored
from dexd.codec.state_codec import to_snapshot, to_stream_snapshot
from dexd.core.flow.evolve import evolve
from dexd.core.flow.parking import is_quiet
from dexd.core.flow.state import RunState
from dexd.core.schedules.executions import may_be_reopened
from dexd.core.streams import StreamState, evolve_stream
from dexd.core.sub_flow_desk import running_children
from dexd.core.terms import ActiveStepSearchMode
from dexd.engine.batch import blob_rows, row_of, row_of_stream
from dexd.engine.parking_lot import parking_row
from dexd.engine.pending_timers import timer_rows
from dexd.engine.recovery import PAGE_EVENTS, all_events
from dexd.engine.search_rows import index_rows, step_rows
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import (
    BlobRow,
    EventLog,
    IndexRow,
    Projections,
    RunRow,
    Snapshot,
    StoredEvent,
    StreamRow,
    TimerRow,
)
from dexd.log.parking import ParkingRow

PROJECTION_VERSION = 2
"""Raised whenever rows get other content than before for the same events."""

SNAPSHOT_FROM_EVENTS = 200
"""Open runs with at least so many events get a snapshot."""


ROWS_AT_ONCE = 1_000
"""Runs whose rows are in memory."""


class Rebuilt(msgspec.Struct, frozen=True):
    """What was made."""

    events: int
    runs: int
    timers: int
    snapshots: int
    streams: int = 0
    """Streams that are not runs'."""
    parked: int = 0
    """Open runs that need not be in memory."""


def refresh_projections(log: EventLog) -> None:
    """Rebuild if the rows are not in today's form, before the server recovers from them.

    Raises:
        LogError: as `rebuild_projections`.
    """
    found = log.projection_version
    if found != PROJECTION_VERSION:
        rebuilt = rebuild_projections(log, lambda _: None)
        if rebuilt.events:
            counts = msgspec.structs.asdict(rebuilt)
            structlog.get_logger().info("projections_rebuilt", found=found, form=PROJECTION_VERSION, **counts)


def rebuild_projections(
    log: EventLog,
    advance: Callable[[int], None],
    active_step_search: ActiveStepSearchMode = ActiveStepSearchMode.WITH_WAIT_FOR,
) -> Rebuilt:
    """Fold every run from its first event and replace all rows in one commit; nobody else may write meanwhile.

    Open runs in which nothing is under way are parked, so that a server that starts on many has them on disk. Rows are
    written as they are made: what is in memory is the length of every stream.

    Args:
        log: Whose events are read and whose rows are replaced.
        advance: Told now and then how many more events were read; every event is read twice.
        active_step_search: Which Steps search shows of Flows that say nothing [CFG-1]; a search brings those of
            runs in memory up to date anyway.

    Raises:
        LogDamagedError: a run cannot be folded; nothing was changed.
        LogError: the log cannot be read or written; nothing was changed.
    """
    blobs: list[BlobRow] = []
    lengths = _stream_lengths(log, blobs, advance)
    making = _Making(log, active_step_search)

    def parts() -> Iterator[Projections]:
        for stream_id, version in lengths.items():
            making.add(stream_id, version)
            advance(version)
            if len(making.runs) == ROWS_AT_ONCE:
                yield making.take()
        yield making.take()

    log.replace_projections(Projections(PROJECTION_VERSION, (), (), (), blobs=blobs), parts())
    return making.rebuilt


class _Making:
    """Rows that are made and not written yet, and the count of all of them."""

    def __init__(self, log: EventLog, active_step_search: ActiveStepSearchMode) -> None:
        self._log = log
        self._active_step_search = active_step_search
        self._index_keys = log.index_keys()
        self.rebuilt = Rebuilt(0, 0, 0, 0)
        self._begin()

    def _begin(self) -> None:
        self.runs: list[RunRow] = []
        self._timers: list[TimerRow] = []
        self._snapshots: list[Snapshot] = []
        self._streams: list[StreamRow] = []
        self._parking: list[ParkingRow] = []
        self._indexed: list[IndexRow] = []
        self._events = 0

    def add(self, stream_id: int, version: int) -> None:
        self._events += version
        if is_of_run(self._log.read_stream(stream_id, 1, 1)[0]):
            self._add_run(_folded(self._log, stream_id))
            return
        state = _folded_stream(self._log, stream_id)
        self._streams.append(row_of_stream(state))
        if not state.is_closed and state.version >= SNAPSHOT_FROM_EVENTS:
            self._snapshots.append(to_stream_snapshot(state))

    def _add_run(self, run: RunState) -> None:
        self.runs.append(row_of(run))
        self._timers += timer_rows(run)
        self._indexed += index_rows(run, self._index_keys)
        if run.is_open:
            self._indexed += (row for row in step_rows(run, self._active_step_search) if row.values)
        # Who waits for a child may have missed word of its end, and asks again when the server starts [ARCH-14].
        # So does an execution that a schedule may not know to be open again.
        is_parked = is_quiet(run) and not any(running_children(run)) and not may_be_reopened(run)
        if is_parked:
            self._parking.append(parking_row(run))
        if is_parked or (run.is_open and run.version >= SNAPSHOT_FROM_EVENTS):
            self._snapshots.append(to_snapshot(run))

    def take(self) -> Projections:
        """Give what is made, and count it."""
        made = Projections(
            PROJECTION_VERSION,
            self.runs,
            self._snapshots,
            self._timers,
            self._streams,
            parking=self._parking,
            indexed=self._indexed,
        )
        so_far = self.rebuilt
        self.rebuilt = Rebuilt(
            so_far.events + self._events,
            so_far.runs + len(made.runs),
            so_far.timers + len(made.timers),
            so_far.snapshots + len(made.snapshots),
            so_far.streams + len(made.streams),
            so_far.parked + len(made.parking),
        )
        self._begin()
        return made


def _stream_lengths(log: EventLog, blobs: list[BlobRow], advance: Callable[[int], None]) -> dict[int, int]:
    """Every retained stream with its number of events, in the order of their first event.

    Adds the large values that their events refer to.
    """
    leaving = frozenset(log.streams_leaving())
    lengths: dict[int, int] = {}
    for page in _pages(log):
        for stored in page:
            if stored.stream_id not in leaving:
                lengths[stored.stream_id] = stored.version
        blobs += [row for row in blob_rows(page) if row.stream_id not in leaving]
        advance(len(page))
    return lengths


def _pages(log: EventLog) -> Iterator[list[StoredEvent]]:
    seq = 1
    while page := list(log.read_all(seq, PAGE_EVENTS)):
        yield page
        seq = page[-1].seq + 1


def _folded(log: EventLog, stream_id: int) -> RunState:
    run: RunState | None = None
    try:
        for stored in all_events(log, stream_id):
            run = evolve(run, from_stored(stored))
    except (LookupError, TypeError, ValueError) as error:
        raise _unfoldable(stream_id, run, error) from error
    assert run is not None, "the stream has events"
    return run


def _folded_stream(log: EventLog, stream_id: int) -> StreamState:
    state: StreamState | None = None
    try:
        for stored in all_events(log, stream_id):
            state = evolve_stream(state, stream_event_from_stored(stored))
    except (LookupError, TypeError, ValueError) as error:
        raise _unfoldable(stream_id, state, error) from error
    assert state is not None, "the stream has events"
    return state


def _unfoldable(stream_id: int, state: RunState | StreamState | None, error: Exception) -> LogDamagedError:
    """What events that cannot follow each other do to the fold."""
    version = 0 if state is None else state.version
    return LogDamagedError(f"stream {stream_id} cannot be folded after event {version}: {error!r}")
