"""`dex log inspect`, `stats` and `diff`: what a log holds, what it consists of, and what events changed [SURF-23]."""

from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group

from dexd.engine.projections import PROJECTION_VERSION
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, RunRow
from dexd.log.log_facts import LogFacts, read_facts
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.invocation import Invocation, verb
from dextools.cli.log_verbs import DEFAULT_DATA_DIR, DataDir, RunName, event_count, found_run
from dextools.cli.output import text_of
from dextools.cli.progress import progress
from dextools.cli.values import INT64_MAX
from dextools.log_inspection import state_after
from dextools.log_statistics import LogStatistics, StreamShare, log_statistics
from dextools.offline_log import existing_log, open_offline, reported
from dextools.state_diff import changes
from dextools.state_document import state_document
from dextools.terminal_text import cell, instant_text, table

Seq = Annotated[int, typer.Argument(min=0, max=INT64_MAX, help="Event ID; 0 is before the first.", show_default=False)]


def add_insight_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "inspect")(inspect)
    verb(app, "stats")(stats)
    verb(app, "diff")(diff)


def inspect(call: Invocation, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show what is in a data directory: versions, counts, sizes, and the server that uses it."""
    path = existing_log(data_dir)
    with reported():
        facts = read_facts(data_dir)
    document: dict[str, Any] = {"data_dir": str(data_dir), "log": str(path), **_facts(facts)}
    if facts.counts is not None:
        with open_offline(data_dir) as log:
            document |= {"last_seq": log.last_seq, "last_at": log.last_at}
    human = document | {"last_at": instant_text(document.get("last_at", 0))}
    call.output.fields(document, human)


def _facts(facts: LogFacts) -> dict[str, Any]:
    counts = dict(facts.counts or {})
    return {
        "server_pid": facts.server_pid or None,
        "schema": facts.schema,
        "known_schema": facts.known_schema,
        "projection_version": counts.pop("projection_version", None),
        "known_projection_version": PROJECTION_VERSION,
        "log_bytes": facts.log_bytes,
        "wal_bytes": facts.wal_bytes,
        **counts,
    }


def stats(
    call: Invocation,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    largest: Annotated[int, typer.Option(help="Runs to show.", min=0, max=10_000)] = 10,
) -> None:
    """Show what a log consists of: events and bytes by type, and the largest runs."""
    with open_offline(data_dir) as log, progress("events", total=event_count(log)) as advance:
        found = log_statistics(log, largest, advance)
    call.output.answer(msgspec.to_builtins(found), _tables(found))


def _tables(found: LogStatistics) -> Group:
    whole = f"{found.events} events with {found.bytes} bytes in {found.streams} streams"
    span = f", {instant_text(found.first_at)} to {instant_text(found.last_at)}" if found.events else ""
    types = ((kind.type, str(kind.events), str(kind.bytes)) for kind in found.types)
    runs = ((_name(share), share.run_id, str(share.events), str(share.bytes)) for share in found.largest)
    return Group(
        cell(whole + span),
        table("type", "events", "bytes", rows=types),
        table("flow", "run", "events", "bytes", rows=runs, title="largest"),
    )


def _name(share: StreamShare) -> str:
    return share.flow_id or f"(stream {share.stream_id}, no run)"


def diff(call: Invocation, name: RunName, first: Seq, second: Seq, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show what changed in the state of a run between two of its events."""
    with open_offline(data_dir) as log:
        run = found_run(log, name)
        before, after = (_document(log, run, event_id) for event_id in (first, second))
    found = list(changes(before, after))
    document = {"run_id": run.run_id, "before": first, "after": second, "changes": msgspec.to_builtins(found)}
    rows = ((change.path, *map(_shown, (change.before, change.after))) for change in found)
    call.output.answer(document, table("path", "before", "after", rows=rows) if found else cell("nothing changed"))


def _document(log: EventLog, run: RunRow, event_id: int) -> dict[str, Any]:
    """The state after an event as plain JSON."""
    if event_id == 0:
        return {}
    try:
        state = state_after(log, run, event_id)
    except (LogDamagedError, LookupError, TypeError, ValueError) as error:
        # What a damaged log does to the fold; `dex log verify` says where.
        raise CommandError(f"run {run.run_id} cannot be replayed: {error!r}", ExitCode.FAILED) from error
    if state is None:
        raise CommandError(f"run {run.run_id} has no event {event_id}", ExitCode.NOT_FOUND, code="EVENT_NOT_FOUND")
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(state_document(state)))
    return document


def _shown(value: Any) -> str:
    return "" if value is msgspec.UNSET else "null" if value is None else text_of(value)
