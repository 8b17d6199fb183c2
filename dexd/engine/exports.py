"""Writes executions as JSON lines from any log: for the archive and for `dex log export` [KEEP-2, SURF-23]."""

from collections.abc import Iterator, Sequence

from dexd.blobs.store import BlobReader
from dexd.codec.event_codec import from_stored
from dexd.codec.export_lines import FORM, BlobLine, EndLine, ExecutionLine, event_line, run_line, to_line
from dexd.codec.history_view import HistoryView
from dexd.core.blobs import BlobReference, references_in
from dexd.core.config import KernelConfig
from dexd.core.values import FlowStatus
from dexd.engine.recovery import all_events
from dexd.log.event_log import EventLog, RunRow

PIECE_BYTES = 1 << 20
"""Of a large value in one line."""


def export_lines(
    log: EventLog, rows: Sequence[RunRow], blobs: BlobReader, *, release: str, exported_at: int
) -> Iterator[bytes]:
    """Write down runs of one execution, given oldest first, line by line; memory does not grow with their length.

    Raises:
        LogDamagedError: a run cannot be read.
        LogError: the log cannot be read.
        BlobMissingError: a large value is not in the store.
    """
    first = rows[0]
    yield to_line(ExecutionLine(FORM, first.flow_id, first.ordinal, release, exported_at))
    events = 0
    written: set[bytes] = set()
    for row in rows:
        yield run_line(row, FlowStatus(row.status).name)
        view = HistoryView(KernelConfig())
        for stored in all_events(log, row.stream_id):
            for reference in references_in(stored.payload):
                if reference.digest not in written:
                    written.add(reference.digest)
                    yield from _blob_lines(blobs, reference)
            events += 1
            yield event_line(stored, view.show(from_stored(stored)).data)
    yield to_line(EndLine(len(rows), events))


def _blob_lines(blobs: BlobReader, reference: BlobReference) -> Iterator[bytes]:
    digest = reference.digest.hex()
    for offset in range(0, reference.size, PIECE_BYTES):
        yield to_line(BlobLine(digest, reference.size, offset, blobs.read(reference.digest, offset, PIECE_BYTES)))


def runs_of_execution(log: EventLog, flow_id: str, ordinal: int) -> list[RunRow]:
    """The retained runs of an execution, oldest first."""
    return [row for row in reversed(log.run_rows(flow_id)) if row.ordinal == ordinal]
