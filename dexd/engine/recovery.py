"""Live state from the log: snapshot, then the events after it; the same fold as in live handling [ARCH-2]."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dexd.codec.event_codec import from_stored, stream_event_from_stored
from dexd.codec.state_codec import from_snapshot, stream_from_snapshot
from dexd.core.config import KernelConfig
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.kernel import Kernel
from dexd.core.streams import StreamKind, StreamState, evolve_stream
from dexd.core.sub_flows import SubFlowKey
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, Snapshot, StoredEvent, StoredRun, StoredStream

ADOPTED_AT_ONCE = 256
"""Runs for which is looked up at once who waits for them."""

PAGE_EVENTS = 1_000
"""Events read at once when a run is folded from its first event."""


def rebuild_kernel(log: EventLog, config: KernelConfig) -> Kernel:
    """Make a kernel that holds every stream of the log that is open and not parked, and serves nothing yet."""
    kernel = Kernel(config, last_stream_id=log.last_stream_id)
    has_waits = log.parked_counts().waits > 0
    active = log.active_runs()
    while runs := [restore_run(log, stored) for stored in islice(active, ADOPTED_AT_ONCE)]:
        waiting = waiting_for(log, [run.flow_id for run in runs]) if has_waits else {}
        for run in runs:
            kernel.adopt(run, waiting.get(run.flow_id, ()))
    for stored_stream in log.open_streams():
        kernel.adopt_stream(restore_stream(log, stored_stream))
    return kernel


def waiting_for(log: EventLog, children: Sequence[FlowId]) -> dict[str, list[tuple[SubFlowKey, RunId]]]:
    """By Flow ID, the parked parents that wait for executions of it, and for which [SUB-5]; in one look-up."""
    waiting: dict[str, list[tuple[SubFlowKey, RunId]]] = {}
    for wait in log.waits_for(children):
        key = SubFlowKey(RunId(wait.run_id), StepExecutionId(wait.step_execution_id), wait.number)
        waiting.setdefault(wait.child_flow_id, []).append((key, RunId(wait.execution_id)))
    return waiting


def restore_parked(log: EventLog, snapshot: Snapshot) -> RunState:
    """As `restore_run`, for a parked run: its snapshot is all there is to read, if this release can."""
    run = from_snapshot(snapshot)
    if run is None:
        for event in all_events(log, snapshot.stream_id):
            run = evolve(run, from_stored(event))
    if run is None:
        raise LogDamagedError(f"parked run of stream {snapshot.stream_id} has no events")
    return run


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
