"""A frozen log: the database of a release as SQL text, and what that release made of it.

    log.sql        the statements that make the file again: schema, migrations that had run, events with their bytes
    expected.json  each run's row, state, index values and history as the release saw them; the same of schedules and
                   batch jobs; index keys; the large values that are in use

Whatever is in `expected.json` must be seen for ever; later releases may see more, such as a field that did not exist.
"""

import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from dexd.codec.stream_view import show_stream_event
from dexd.codec.views import HistoryEntry
from dexd.core.blobs import references_in
from dexd.core.streams import StreamKind, StreamState, evolve_stream
from dexd.log.event_log import EventLog, RunRow, StreamRow
from dexd.log.schema import APPLICATION_ID
from dexd.log.search_sql import STEP_KEYS
from dextools.log_inspection import history, listed_runs, listed_streams, recorded_stream_events, state_after

ROOT = Path(__file__).parent

ABOUT = ("release", "sha256")
"""What a recording says about itself."""


def frozen_logs() -> list[Path]:
    """Every recording, oldest release first."""
    return sorted(path.parent for path in ROOT.glob("*/log.sql"))


def freeze(database: Path) -> str:
    """Give a closed database as SQL."""
    with closing(sqlite3.connect(database)) as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        header = [f"PRAGMA application_id = {APPLICATION_ID};", f"PRAGMA user_version = {schema};"]
        # A server draws the secret that it signs page tokens with when it finds none.
        connection.execute("DELETE FROM page_secret")
        query = "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' ORDER BY name"
        virtual = dict(connection.execute(query))
        tables = [statement for statement in connection.iterdump() if not _is_of_virtual(statement, virtual)]
        made_anew = [f"{sql};\nINSERT INTO {name}({name}) VALUES('rebuild');" for name, sql in virtual.items()]
        return "\n".join([*header, *tables, *made_anew, ""])


def _is_of_virtual(statement: str, names: Iterable[str]) -> bool:
    """Whether a statement fills full-text tables from inside, which only the very SQLite that wrote it could do."""
    ours = tuple(start.format(name) for name in names for start in _OF_VIRTUAL)
    return statement.startswith(("PRAGMA writable_schema", "INSERT INTO sqlite_master", *ours))


_OF_VIRTUAL = ('INSERT INTO "{}"', 'INSERT INTO "{}_', "CREATE TABLE '{}_")


def thaw(frozen: Path, database: Path) -> None:
    """Make the database of a recording."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((frozen / "log.sql").read_text(encoding="utf-8"))


def expected(frozen: Path) -> dict[str, Any]:
    """What the release saw; older ones looked at less."""
    recorded: dict[str, Any] = json.loads((frozen / "expected.json").read_text(encoding="utf-8"))
    return {name: part for name, part in recorded.items() if name not in ABOUT}


def seen(log: EventLog) -> dict[str, Any]:
    """What this release sees: all that a server takes over, runs and streams in the order of their start."""
    rows = sorted(listed_runs(log), key=lambda row: row.stream_id)
    streams = [row for kind in StreamKind for row in sorted(listed_streams(log, kind), key=lambda row: row.stream_id)]
    return {
        "runs": [_seen_run(log, row) for row in rows],
        "streams": [_seen_stream(log, row) for row in streams],
        "index_keys": plain(log.index_keys()),
        "large_values": sorted(digest.hex() for digest in log.blobs_in_use(_referred(log))),
    }


def _seen_run(log: EventLog, row: RunRow) -> dict[str, Any]:
    state = state_after(log, row, None)
    # What Steps do, and the last error of an open run, are only as of the last search that looked at them.
    shown = plain(row if row.closed_at else msgspec.structs.replace(row, last_error=""))
    indexed = [kept for kept in log.index_rows(row.stream_id) if kept.key not in STEP_KEYS.values()]
    entries = map(_plain_entry, history(log, row))
    return {"row": shown, "state": plain(state), "indexed": plain(indexed), "history": list(entries)}


def _seen_stream(log: EventLog, row: StreamRow) -> dict[str, Any]:
    state: StreamState | None = None
    entries = []
    for recorded in recorded_stream_events(log, row.stream_id):
        state = evolve_stream(state, recorded)
        entries.append(_plain_entry(show_stream_event(recorded)))
    return {"row": plain(row), "state": plain(state), "history": entries}


def _plain_entry(entry: HistoryEntry) -> dict[str, Any]:
    return {"event_id": entry.event_id, "at": entry.at, "kind": entry.kind, "data": json.loads(entry.data)}


def _referred(log: EventLog) -> list[bytes]:
    """Digests of all large values that events refer to."""
    events = log.read_all(1, sys.maxsize)
    return list({reference.digest: None for event in events for reference in references_in(event.payload)})


def plain(value: Any) -> Any:
    """A value as JSON: structs as objects, maps as lists of pairs, because their order is part of behaviour."""
    match value:
        case Enum():
            return value.name
        case bytes():
            return value.decode("latin-1")
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return [[plain(key), plain(kept)] for key, kept in value.items()]
        case list() | tuple():
            return [plain(element) for element in value]
        case _:
            return value


def losses(expected: Any, seen: Any, where: str) -> Iterator[str]:
    """What was recorded and is not seen any more. Objects may have gained fields, nothing else may differ."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        for name, value in expected.items():
            yield from losses(value, seen[name], f"{where}.{name}") if name in seen else [f"{where}.{name} is gone"]
    elif isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        for index, value in enumerate(expected):
            yield from losses(value, seen[index], f"{where}[{index}]")
    elif expected != seen:
        yield f"{where} was {expected!r}, is {seen!r}"
