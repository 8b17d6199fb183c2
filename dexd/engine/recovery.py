"""Live state from the log: snapshot, then the events after it; the same fold as in live handling [ARCH-2]."""

from collections.abc import Iterable, Iterator

from dexd.codec.event_codec import from_stored, stream_event_from_stored
from dexd.codec.state_codec import from_snapshot, stream_from_snapshot
from dexd.core.config import KernelConfig
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.kernel import Kernel
from dexd.core.streams import StreamKind, StreamState, evolve_stream
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, StoredEvent, StoredRun, StoredStream

PAGE_EVENTS = 1_000
"""Events read at once when a run is folded from its first event."""


def rebuild_kernel(log: EventLog, config: KernelConfig) -> Kernel:
    """Make a kernel that holds every open run and other stream of the log, and serves nothing yet."""
    kernel = Kernel(config, last_stream_id=log.last_stream_id)
    for stored in log.open_runs():
        kernel.adopt(restore_run(log, stored))
    for stored_stream in log.open_streams():
        kernel.adopt_stream(restore_stream(log, stored_stream))
    return kernel


def restore_run(log: EventLog, stored: StoredRun) -> RunState:
    """Fold a run from its snapshot, or from its first event if there is none that this release can read."""
    run = None if stored.snapshot is None else from_snapshot(stored.snapshot)
    events: Iterable[StoredEvent] = stored.events
    if run is None and stored.snapshot is not None:
        events = all_events(log, stored.row.stream_id)
    for event in events:
        run = evolve(run, from_stored(event))
    if run is None:
        raise LogDamagedError(f"run {stored.row.run_id} of Flow {stored.row.flow_id!r} has no events")
    return run


def restore_stream(log: EventLog, stored: StoredStream) -> StreamState:
    """As `restore_run`, for a stream that is not a run's."""
    row, snapshot = stored.row, stored.snapshot
    state = None if snapshot is None else stream_from_snapshot(StreamKind(row.kind), snapshot)
    events: Iterable[StoredEvent] = stored.events
    if state is None and snapshot is not None:
        events = all_events(log, row.stream_id)
    for event in events:
        state = evolve_stream(state, stream_event_from_stored(event))
    if state is None:
        raise LogDamagedError(f"{row.kind} {row.name!r} has no events")
    return state


def all_events(log: EventLog, stream_id: int) -> Iterator[StoredEvent]:
    """Read a whole stream in order."""
    version = 1
    while page := log.read_stream(stream_id, version, PAGE_EVENTS):
        yield from page
        version = page[-1].version + 1
