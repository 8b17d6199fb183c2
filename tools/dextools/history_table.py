"""The history of a run for people: one row an event, with what matters most of it in one line."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from dextools.terminal_text import cell, instant_text, table

SUMMARY_LENGTH = 110
"""Characters of one summary; `--full` shows everything."""

FIELD_ORDER = ("step_execution_id", "method", "attempt", "delivery", "worker_id", "decision", "channel", "status")
"""Fields that come first, because they say which Step and which try an event is about."""


class HistoryRow(msgspec.Struct, frozen=True):
    """One event as the server shows it."""

    event_id: int
    at: int
    kind: str
    data: Mapping[str, Any]


def history_table(rows: Iterable[HistoryRow], *, full: bool, title: str | None = None) -> Table:
    """Show events in order; `full` shows all data of each, otherwise a summary that fits a line."""
    lines = ((str(row.event_id), instant_text(row.at), row.kind, _text(row.data, full=full)) for row in rows)
    return table("id", "at", "kind", "data", rows=lines, title=title)


def history_line(row: HistoryRow, *, full: bool) -> Text:
    """Show one event by itself, for histories that are still growing."""
    return cell(f"{row.event_id:>4}  {instant_text(row.at)}  {row.kind:<20}  {_text(row.data, full=full)}")


def summary(data: Mapping[str, Any]) -> str:
    """Say what the fields hold, the most telling first, unset ones left out."""
    names = [name for name in FIELD_ORDER if name in data] + [name for name in data if name not in FIELD_ORDER]
    text = " ".join(f"{name}={_short(data[name])}" for name in names if _is_telling(data[name]))
    text = text.removeprefix("step_execution_id=")
    return text if len(text) <= SUMMARY_LENGTH else f"{text[: SUMMARY_LENGTH - 3]}..."


def _text(data: Mapping[str, Any], *, full: bool) -> str:
    return msgspec.json.encode(data).decode() if full else summary(data)


def _is_telling(value: Any) -> bool:
    return value is not None and value not in ("", [], {}, 0, False)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
