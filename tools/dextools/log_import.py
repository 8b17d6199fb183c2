"""Puts exported executions into another log, where they go on as if they had been there always [SURF-23]."""

from collections.abc import Iterable, Sequence

import msgspec

from dexd.blobs.store import BlobDamagedError, BlobReader, BlobStore, IncomingBlob
from dexd.codec.export_lines import BlobLine, ExportedExecution, ExportedRun, ExportError
from dexd.core.blobs import DIGEST_BYTES
from dexd.engine.projections import rebuild_projections
from dexd.log.event_log import Batch, EventLog, Projections, StoredEvent
from dexd.log.memory_log import MemoryLog


class BlobIntake:
    """Puts large values into a store as their pieces come."""

    def __init__(self, store: BlobStore, now: int) -> None:
        """`now` is when they count as wanted; nobody removes those that nothing refers to for a day then."""
        self.store = store
        self._now = now
        self._incoming: IncomingBlob | None = None
        self._rest = 0

    def take(self, piece: BlobLine) -> None:
        """Take the next piece.

        Raises:
            ExportError: it does not follow the one before, or the value is not that of its digest.
            OSError: it cannot be written.
        """
        if not piece.offset:
            self.drop()
            self._incoming, self._rest = self.store.receive(_digest(piece), piece.size), piece.size
        if self._incoming is None or piece.offset != piece.size - self._rest:
            raise ExportError(f"pieces of the large value {piece.digest} are missing")
        self._incoming.write(piece.data)
        self._rest -= len(piece.data)
        if self._rest <= 0:
            incoming, self._incoming = self._incoming, None
            try:
                incoming.keep(self._now)
            except BlobDamagedError as error:
                raise ExportError(f"the large value {piece.digest} has other bytes than its digest says") from error

    def drop(self) -> None:
        """Forget a value of which pieces are missing."""
        if self._incoming is not None:
            self._incoming.drop()
            self._incoming = None


def _digest(piece: BlobLine) -> bytes:
    try:
        digest = bytes.fromhex(piece.digest)
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise ExportError(f"{piece.digest!r} is no digest of a large value")
    return digest


class FlowExistsError(Exception):
    """The log has that Flow ID or run already; nothing was imported."""


class Imported(msgspec.Struct, frozen=True):
    """What was imported of one Flow ID."""

    flow_id: str
    run_ids: list[str]
    events: int


def import_executions(log: EventLog, blobs: BlobReader, executions: Iterable[ExportedExecution]) -> list[Imported]:
    """Append executions, all of a Flow ID in one commit; nobody else may write meanwhile.

    Runs of one Flow ID may come in several pieces, as an archive has them.

    Raises:
        ExportError: the events of a run are those of another one, or a large value is missing; nothing of any execution
            was imported.
        FlowExistsError: a Flow ID or run exists; nothing of any execution was imported.
        LogDamagedError: the events of an execution cannot follow each other; nothing of any was imported.
        LogError: the log cannot be written; Flow IDs before that one were imported.
    """
    by_flow_id: dict[str, list[ExportedExecution]] = {}
    for execution in executions:
        by_flow_id.setdefault(execution.flow_id, []).append(execution)
    batches = []
    last_seq, last_stream_id = log.last_seq, log.last_stream_id
    for flow_id, pieces in by_flow_id.items():
        runs = [run for piece in sorted(pieces, key=_ordinal) for run in piece.runs]
        _refuse_existing(log, flow_id, runs, [piece.ordinal for piece in pieces])
        batch = _batch(runs, last_seq, last_stream_id)
        found = [(row.flow_id, row.run_id) for row in batch.runs]
        if found != [(flow_id, run.run_id) for run in runs]:
            raise ExportError(f"the runs of Flow {flow_id!r} are, by their events, {found}")
        last_seq, last_stream_id = last_seq + len(batch.events), last_stream_id + len(runs)
        _refuse_missing(blobs, flow_id, batch)
        batches.append((Imported(flow_id, [run.run_id for run in runs], len(batch.events)), batch))
    for _, batch in batches:
        log.append(batch)
    return [imported for imported, _ in batches]


def _ordinal(execution: ExportedExecution) -> int:
    return execution.ordinal


def _refuse_existing(log: EventLog, flow_id: str, runs: Sequence[ExportedRun], ordinals: Sequence[int]) -> None:
    if log.run_rows(flow_id):
        raise FlowExistsError(f"the log has executions of Flow {flow_id!r} already")
    last = log.last_ordinal(flow_id)
    if last > max(ordinals):
        # The next execution would count on from the imported one, and use keys of another one again [ID-10].
        raise FlowExistsError(f"the log knows of execution {last} of Flow {flow_id!r}; import that one as well")
    seen: set[str] = set()
    for run in runs:
        if run.run_id in seen or log.run_by_id(run.run_id) is not None:
            raise FlowExistsError(f"run {run.run_id} of Flow {flow_id!r} exists already")
        seen.add(run.run_id)


def _refuse_missing(blobs: BlobReader, flow_id: str, batch: Batch) -> None:
    for row in batch.blobs:
        if blobs.size_of(row.digest) != row.size:
            raise ExportError(f"the large value {row.digest.hex()} of Flow {flow_id!r} is missing")


def _batch(runs: Sequence[ExportedRun], last_seq: int, last_stream_id: int) -> Batch:
    """Number the events anew, and derive everything else from them, as a rebuild of the log would."""
    events: list[StoredEvent] = []
    streams = range(last_stream_id + 1, last_stream_id + 1 + len(runs))
    for stream_id, run in zip(streams, runs, strict=True):
        for event in run.events:
            seq = last_seq + len(events) + 1
            events.append(msgspec.structs.replace(event, seq=seq, stream_id=stream_id))
    derived = _Staging(events).derived()
    fields = {name: getattr(derived, name) for name in derived.__struct_fields__ if name in Batch.__struct_fields__}
    return Batch(last_seq, events, imported=list(streams), **fields)


class _Staging(MemoryLog):
    """Holds events by themselves, and catches what is derived from them."""

    def __init__(self, events: Sequence[StoredEvent]) -> None:
        super().__init__()
        self._derived: Projections | None = None
        self.append(Batch(0, [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, 1)]))

    def derived(self) -> Projections:
        rebuild_projections(self, lambda _: None)
        assert self._derived is not None
        return self._derived

    def replace_projections(self, projections: Projections, more: Iterable[Projections] = ()) -> None:
        parts = [projections, *more]
        names = [name for name in projections.__struct_fields__ if name != "version"]
        rows = {name: [row for part in parts for row in getattr(part, name)] for name in names}
        self._derived = Projections(projections.version, **rows)
