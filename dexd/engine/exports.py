"""Writes executions as JSON lines from any log: for the archive and for `dex log export` [KEEP-2, SURF-23]."""

from collections.abc import Iterator, Sequence

from dexd.codec.event_codec import from_stored
from dexd.codec.export_lines import FORM, EndLine, ExecutionLine, event_line, run_line, to_line
from dexd.codec.history_view import HistoryView
from dexd.core.config import KernelConfig
from dexd.core.values import FlowStatus
from dexd.engine.recovery import all_events
from dexd.log.event_log import EventLog, RunRow


def export_lines(log: EventLog, rows: Sequence[RunRow], *, release: str, exported_at: int) -> Iterator[bytes]:
    """Write down runs of one execution, given oldest first, line by line; memory does not grow with their length.

    Raises:
        LogDamagedError: a run cannot be read.
        LogError: the log cannot be read.
    """
    first = rows[0]
    yield to_line(ExecutionLine(FORM, first.flow_id, first.ordinal, release, exported_at))
    events = 0
    for row in rows:
        yield run_line(row, FlowStatus(row.status).name)
        view = HistoryView(KernelConfig())
        for stored in all_events(log, row.stream_id):
            events += 1
            yield event_line(stored, view.show(from_stored(stored)).data)
    yield to_line(EndLine(len(rows), events))


def runs_of_execution(log: EventLog, flow_id: str, ordinal: int) -> list[RunRow]:
    """The retained runs of an execution, oldest first."""
    return [row for row in reversed(log.run_rows(flow_id)) if row.ordinal == ordinal]
