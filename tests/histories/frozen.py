"""A frozen log: the database of a release as SQL text, and what that release made of it.

    log.sql        the statements that make the file again: schema, migrations that had run, events with their bytes
    expected.json  each run's row, state and history as the release saw them

Whatever is in `expected.json` must be seen for ever; later releases may see more, such as a field that did not exist.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from dexd.log.event_log import EventLog
from dexd.log.schema import APPLICATION_ID
from dextools.log_inspection import history, listed_runs, state_after

ROOT = Path(__file__).parent


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
        return "\n".join([*header, *connection.iterdump(), ""])


def thaw(frozen: Path, database: Path) -> None:
    """Make the database of a recording."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((frozen / "log.sql").read_text(encoding="utf-8"))


def expected_runs(frozen: Path) -> list[dict[str, Any]]:
    """What the release saw, run by run."""
    runs: list[dict[str, Any]] = json.loads((frozen / "expected.json").read_text(encoding="utf-8"))["runs"]
    return runs


def seen_runs(log: EventLog) -> list[dict[str, Any]]:
    """What this release sees: row, state and history of each run, in the order of their start."""
    runs = []
    for row in sorted(listed_runs(log), key=lambda row: row.stream_id):
        state = state_after(log, row, None)
        entries = [
            {"event_id": entry.event_id, "at": entry.at, "kind": entry.kind, "data": json.loads(entry.data)}
            for entry in history(log, row)
        ]
        runs.append({"row": plain(row), "state": plain(state), "history": entries})
    return runs


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
