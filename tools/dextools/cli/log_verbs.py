"""`dex log`: a data directory, or a copy of one, seen offline. Only `rebuild` and `import` write [SURF-23]."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from dexd.codec.stream_view import show_stream_event
from dexd.codec.views import HistoryEntry
from dexd.core.streams import StreamKind
from dexd.engine.projections import rebuild_projections
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, RunRow
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.invocation import Invocation, verb
from dextools.cli.progress import progress
from dextools.cli.values import INT64_MAX, shown
from dextools.history_table import HistoryRow, history_table
from dextools.log_inspection import find_run, history, recorded_stream_events, state_after
from dextools.log_verification import LogReport, verify_log
from dextools.offline_log import open_exclusively, open_offline
from dextools.state_document import state_document
from dextools.terminal_text import cell

DataDir = Annotated[
    Path, typer.Option(help="The server's data directory, or a copy of it.", metavar="DIR", file_okay=False)
]
RunName = Annotated[
    str, typer.Argument(metavar="ID", help="Flow ID, for its latest run, or a run ID.", show_default=False)
]
DEFAULT_DATA_DIR = Path("dexd-data")


def add_log_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "events")(events)
    verb(app, "verify")(verify)
    verb(app, "replay")(replay)
    verb(app, "rebuild")(rebuild)


def events(
    call: Invocation,
    name: RunName,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    first: Annotated[
        int, typer.Option("--from", help="First event ID to show.", min=1, max=INT64_MAX, metavar="EVENT")
    ] = 1,
    limit: Annotated[int, typer.Option(help="Events at most.", min=1)] = 1_000,
    full: Annotated[bool, typer.Option("--full", help="Show all data of every event.")] = False,
    kind: Annotated[
        StreamKind | None, typer.Option(help="What ID names if it is no Flow and no run.", show_default=False)
    ] = None,
) -> None:
    """Show the history of a run, or of a schedule, as it is in the log."""
    with open_offline(data_dir) as log:
        document, entries = _named_history(log, name) if kind is None else _stream_history(log, kind, name)
        try:
            listed = list(islice((entry for entry in entries if entry.event_id >= first), limit))
        except LogDamagedError as error:
            raise CommandError(str(error), ExitCode.FAILED, code="LOG_DAMAGED") from error
    document["events"] = [_event_document(entry) for entry in listed]
    call.output.answer(document, history_table(map(_row, listed), full=full))


def replay(
    call: Invocation,
    name: RunName,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    last: Annotated[
        int | None,
        typer.Option("--to", help="Event ID to stop after; all events if not given.", min=1, metavar="SEQ"),
    ] = None,
) -> None:
    """Show the state of a run after one of its events."""
    with open_offline(data_dir) as log:
        run = found_run(log, name)
        try:
            state = state_after(log, run, last)
        except (LogDamagedError, LookupError, TypeError, ValueError) as error:
            # What a damaged log does to the fold; `dex log verify` says where.
            raise CommandError(f"run {run.run_id} cannot be replayed: {error!r}", ExitCode.FAILED) from error
    if state is None:
        raise CommandError(f"run {run.run_id} has no event {last}", ExitCode.NOT_FOUND, code="EVENT_NOT_FOUND")
    call.output.fields({"event_id": state.version, "state": state_document(state)}, state_document(state))


def verify(call: Invocation, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Replay every run from its first event and compare with snapshots and projections.

    Exit code 1 when something differs.
    """
    with open_offline(data_dir) as log, progress("events", total=2 * event_count(log)) as advance:
        report = verify_log(log, advance)
    document = {
        "events": report.events,
        "runs": report.runs,
        "streams": report.streams,
        "snapshots": report.snapshots,
        "parked": report.parked,
        "fault_count": report.fault_count,
        "faults": [msgspec.structs.asdict(fault) for fault in report.faults],
    }
    call.output.answer(document, _verdict(report))
    if report.fault_count:
        raise typer.Exit(ExitCode.FAILED)


def rebuild(call: Invocation, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Make all projections anew from the events: rows of runs and other streams, pending timers, snapshots.

    Needs the data directory for itself and is refused while a server runs on it. Events are not changed.
    """
    with (
        open_exclusively(data_dir) as log,
        progress("events", total=2 * event_count(log)) as advance,
    ):
        rebuilt = rebuild_projections(log, advance)
    document = msgspec.structs.asdict(rebuilt)
    text = (
        f"rebuilt from {rebuilt.events} events: {rebuilt.runs} runs, {rebuilt.streams} other streams, "
        f"{rebuilt.timers} pending timers and {rebuilt.snapshots} snapshots; {rebuilt.parked} runs are parked"
    )
    call.output.answer(document, cell(text))


def _named_history(log: EventLog, name: str) -> tuple[dict[str, Any], Iterator[HistoryEntry]]:
    run = found_run(log, name)
    return {"flow_id": run.flow_id, "run_id": run.run_id}, history(log, run)


def _stream_history(log: EventLog, kind: StreamKind, name: str) -> tuple[dict[str, Any], Iterator[HistoryEntry]]:
    stored = log.stream_by_name(kind, name)
    if stored is None:
        raise CommandError(f"the log has no {kind} {name!r}", ExitCode.NOT_FOUND, code=f"{kind.name}_NOT_FOUND")
    return {f"{kind}_id": name}, map(show_stream_event, recorded_stream_events(log, stored.row.stream_id))


def event_count(log: EventLog) -> int:
    """Events in the log; numbers of removed ones are missing."""
    return log.last_seq - log.removed_events


def found_run(log: EventLog, name: str) -> RunRow:
    """The run that a command line names.

    Raises:
        CommandError: there is none.
    """
    run = find_run(log, name)
    if run is None:
        raise CommandError(f"the log has neither a Flow nor a run {name!r}", ExitCode.NOT_FOUND, code="FLOW_NOT_FOUND")
    return run


def _event_document(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "event_id": entry.event_id,
        "run_id": entry.run_id,
        "at": entry.at,
        "kind": entry.kind,
        "data": shown(entry.data),
    }


def _row(entry: HistoryEntry) -> HistoryRow:
    return HistoryRow(entry.event_id, entry.at, entry.kind, msgspec.json.decode(entry.data))


def _verdict(report: LogReport) -> Text:
    others = f", {report.streams} other streams" if report.streams else ""
    checked = f"{report.events} events, {report.runs} runs{others} and {report.snapshots} snapshots checked"
    first = f"{report.fault_count} faults: {checked}" if report.fault_count else f"clean: {checked}"
    return Text("\n").join([cell(first), *(cell(f"{fault.where}: {fault.text}") for fault in report.faults)])
