"""Executions as JSON lines: what `dex log export` and the archive write and `dex log import` reads [KEEP-2, SURF-23].

    {"kind": "execution", "form": 1, "flow_id": ..., "ordinal": ...}    one per execution
    {"kind": "run", "run_id": ..., ...}                                 one per run, oldest first
    {"kind": "event", "event_id": 1, ..., "payload": ..., "data": ...}  all events of the run above, in order
    {"kind": "blob", "digest": ..., "offset": 0, ..., "data": ...}      large values, before what refers to them
    {"kind": "end", "runs": ..., "events": ...}                         says that the execution is whole

`payload` is the event as it is in the log, in base64, and is what an import reads; `data` shows the same to people, and
imports ignore it. A large value is there once, in pieces. Executions may follow each other in one file. Numbers of the
log, as those of streams, are not part of it: an import gives new ones.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from dexd.log.event_log import RunRow, StoredEvent

FORM = 1
"""Raised when a reader of before would misunderstand what is written now; fields may be added without."""


class ExportError(ValueError):
    """The lines are no export, or not all of one; the message names the line."""


class ExecutionLine(msgspec.Struct, frozen=True, tag="execution", tag_field="kind"):
    """Begins an execution."""

    form: int
    flow_id: str
    ordinal: int
    release: str
    """Of the server or tool that wrote it."""
    exported_at: int


class RunLine(msgspec.Struct, frozen=True, tag="run", tag_field="kind"):
    """Begins a run. What it says beside the ID is for readers; an import takes everything from the events."""

    run_id: str
    flow_type: str
    status: str
    started_at: int
    closed_at: int
    """0 while the run is open."""


class EventLine(msgspec.Struct, frozen=True, tag="event", tag_field="kind"):
    """One event of the run."""

    event_id: int
    at: int
    type: str
    type_version: int
    payload: bytes
    data: msgspec.Raw


class BlobLine(msgspec.Struct, frozen=True, tag="blob", tag_field="kind"):
    """A piece of a large value; its pieces follow each other."""

    digest: str
    """SHA-256 of the whole value, in hexadecimal digits."""
    size: int
    """Of the whole value."""
    offset: int
    data: bytes


class EndLine(msgspec.Struct, frozen=True, tag="end", tag_field="kind"):
    """Ends an execution, with what it has."""

    runs: int
    events: int


Line: TypeAlias = ExecutionLine | RunLine | EventLine | BlobLine | EndLine

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class ExportedRun(msgspec.Struct):
    """A run as it was read."""

    run_id: str
    events: list[StoredEvent]
    """With the sequence number and stream 0, which an import replaces."""


class ExportedExecution(msgspec.Struct):
    """An execution as it was read."""

    flow_id: str
    ordinal: int
    runs: list[ExportedRun]


def to_line(line: Line) -> bytes:
    """One line with its end."""
    return _encode(line) + b"\n"


def run_line(row: RunRow, status: str) -> bytes:
    """The line that begins a run."""
    return to_line(RunLine(row.run_id, row.flow_type, status, row.started_at, row.closed_at))


def event_line(stored: StoredEvent, data: bytes) -> bytes:
    """The line of an event; `data` is the JSON that a history shows of it."""
    event = EventLine(stored.version, stored.at, stored.type, stored.type_version, stored.payload, msgspec.Raw(data))
    return to_line(event)


def read_executions(lines: Iterable[bytes], take_blob: Callable[[BlobLine], object]) -> Iterator[ExportedExecution]:
    """Read executions one after the other; blank lines are nothing.

    Args:
        lines: What was written.
        take_blob: Gets the pieces of large values as they come, because they may be larger than memory.

    Raises:
        ExportError: a line is not of this form or not where it may be, or an execution has no end.
    """
    reader: _ExecutionReader | None = None
    number = 0
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        line = _line(number, text)
        if reader is None:
            if not isinstance(line, ExecutionLine):
                raise ExportError(f"line {number}: an execution must begin here")
            if line.form != FORM:
                raise ExportError(f"line {number}: form {line.form} is unknown, this release reads {FORM}")
            reader = _ExecutionReader(line)
        elif isinstance(line, BlobLine):
            take_blob(line)
        elif reader.take(number, line):
            yield reader.execution
            reader = None
    if reader is not None:
        raise ExportError(
            f"line {number}: the execution of Flow {reader.execution.flow_id!r} has no end, lines are missing"
        )


def _line(number: int, text: bytes) -> Line:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(f"line {number}: {error}") from error


class _ExecutionReader:
    """Puts an execution together."""

    def __init__(self, line: ExecutionLine) -> None:
        self.execution = ExportedExecution(line.flow_id, line.ordinal, [])

    def take(self, number: int, line: Line) -> bool:
        """Add what the next line says; whether that was the end."""
        runs = self.execution.runs
        match line:
            case RunLine():
                runs.append(ExportedRun(line.run_id, []))
            case EventLine() if runs:
                events = runs[-1].events
                if line.event_id != len(events) + 1:
                    raise ExportError(f"line {number}: event {line.event_id}, expected {len(events) + 1}")
                events.append(StoredEvent(0, 0, line.event_id, line.at, line.type, line.type_version, line.payload))
            case EndLine():
                if not runs or not all(run.events for run in runs):
                    raise ExportError(f"line {number}: the execution has no run, or a run without events")
                counted = len(runs), sum(len(run.events) for run in runs)
                if counted != (line.runs, line.events):
                    raise ExportError(
                        f"line {number}: {counted[0]} runs and {counted[1]} events came before, the execution has "
                        f"{line.runs} and {line.events}"
                    )
                return True
            case _:
                raise ExportError(
                    f"line {number}: the execution of Flow {self.execution.flow_id!r} is not complete yet"
                )
        return False
