"""The history of a run for people: one row an event, with what matters most of it in one line."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from dextools.terminal_text import cell, instant_text, table

SUMMARY_LENGTH = 160
"""Characters of one summary; `--full` shows everything."""

FIELD_ORDER = ("step_execution_id", "method", "attempt", "delivery", "decision", "failure", "resolution", "wait")
"""Fields that come first, because they say which Step and which try an event is about, and how it ended."""

LAST_FIELD = "worker_id"
"""Long, and the same in many rows."""

HIDDEN_FIELDS = frozenset(
    {
        "run_id",
        "request_id",
        "request",
        "ordinal",
        "number",
        "step_type",
        "from_step",
        "options",
        "input",
        "context",
        "incarnation",
        "deadline",
        "consumed",
        "has_wait_for",
        "is_sticky",
        "is_reported",
        "indexed",
    }
)
"""Fields that a summary leaves out: long, or said elsewhere."""


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
    """Say what the fields hold, the most telling first; unset and lengthy ones are left out."""
    fields = {name: value for name, value in data.items() if name not in HIDDEN_FIELDS}
    if "flow_type" in fields:  # the Flow's own ID is known; that of a child is not
        fields.pop("flow_id", None)
    terms = fields.pop("terms", None)
    if isinstance(terms, Mapping):
        fields |= _telling_terms(terms)
    # The result of a method stands in a block of its own [HIST-4].
    output = fields.get("output")
    if isinstance(output, Mapping):
        fields.update(output)
        del fields["output"]
    names = sorted((name for name in fields if _is_telling(fields[name])), key=_rank)
    text = " ".join(f"{name}={_short(name, fields[name])}" for name in names)
    text = text.removeprefix("step_execution_id=")
    return text if len(text) <= SUMMARY_LENGTH else f"{text[: SUMMARY_LENGTH - 3]}..."


def _telling_terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """What began the Flow, and what its time is bounded by."""
    return {
        "parent": (terms.get("parent") or {}).get("flow_id"),
        "schedule": (terms.get("schedule") or {}).get("schedule_id"),
        "timeout_ms": terms.get("timeout_ms"),
        "start_delay_ms": terms.get("start_delay_ms"),
    }


def _text(data: Mapping[str, Any], *, full: bool) -> str:
    return _json(data) if full else summary(data)


def _rank(name: str) -> int:
    if name in FIELD_ORDER:
        return FIELD_ORDER.index(name)
    return len(FIELD_ORDER) + (name == LAST_FIELD)


def _is_telling(value: Any) -> bool:
    return value is not None and value not in ("", "NONE", [], {}, 0, False)


def _short(name: str, value: Any) -> str:
    match name, value:
        case _, str():
            return value
        case "decision", {"kind": kind, "output": output, "reason": reason}:
            return " ".join([kind, *(_json(part) for part in (output, reason) if part)])
        case "failure", {"error_type": error_type, "detail": detail}:
            return f"{error_type}: {detail}"
        case "wait", {"kind": kind, "conditions": conditions}:
            return f"{kind}({', '.join(_condition(condition) for condition in conditions)})"
        case "result", {"flow_id": flow_id, "status": status, "error_message": message}:
            return " ".join(filter(None, (flow_id, status, message)))
        case "sub_flows", [*children]:
            return ",".join(str(child["flow_type"]) for child in children)
        case (("retry_at" | "started_at"), int()):
            return instant_text(value)
        case "writes" | "attributes", [*pairs]:
            return ",".join(f"{pair['key']}:{_json(pair['value'])}" for pair in pairs)
        case "messages", [*messages]:
            return ",".join(_json(message["value"]) for message in messages)
        case _:
            return _json(value)


def _condition(condition: Mapping[str, Any]) -> str:
    if condition.get("kind") == "SUB_FLOW":
        return "SubFlow"
    return str(condition["channel"]) if condition.get("channel") else f"timer {instant_text(condition['at_ms'] or 0)}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
