"""Executions as JSON lines, there and back, and lines that are not one [SURF-23, KEEP-2]."""

from collections.abc import Sequence

import msgspec
import pytest

from dexd.codec.export_lines import (
    FORM,
    BlobLine,
    EndLine,
    ExecutionLine,
    ExportedExecution,
    ExportedRun,
    ExportError,
    event_line,
    read_executions,
    run_line,
    to_line,
)
from dexd.log.event_log import RunRow, StoredEvent

ROW = RunRow(7, "run-7", "order/1", 2, "Order", 2, 1_000, 2_000)


def begin(flow_id: str = "order/1", form: int = FORM) -> bytes:
    return to_line(ExecutionLine(form, flow_id, 2, "1.0", 5_000))


def event(version: int, payload: bytes = b"\x81\xa1a\xff") -> bytes:
    stored = StoredEvent(100 + version, 7, version, 1_000 + version, "FlowStarted", 3, payload)
    return event_line(stored, b'{"number":9007199254740993}')


def end(runs: int = 1, events: int = 1) -> bytes:
    return to_line(EndLine(runs, events))


RUN = run_line(ROW, "COMPLETED")


def read(*lines: bytes) -> list[ExportedExecution]:
    return list(read_executions(lines, list[BlobLine]().append))


def test_surf_23_what_was_written_is_read() -> None:
    """[SURF-23] Several runs, several executions, blank lines between them; numbers of the log are left out."""
    lines = [begin(), RUN, event(1), event(2), RUN, event(1), end(2, 3), b"\n", begin("b"), RUN, event(1), end()]
    first, second = StoredEvent(0, 0, 1, 1_001, "FlowStarted", 3, b"\x81\xa1a\xff"), 1_002
    assert read(*lines) == [
        ExportedExecution(
            "order/1",
            2,
            [
                ExportedRun("run-7", [first, msgspec.structs.replace(first, version=2, at=second)]),
                ExportedRun("run-7", [first]),
            ],
        ),
        ExportedExecution("b", 2, [ExportedRun("run-7", [first])]),
    ]
    assert read() == []


def test_keep_2_pieces_of_large_values_are_handed_on_as_they_come() -> None:
    """[KEEP-2, BLOB-1] They stand among the events of their execution, and are none."""
    pieces = [BlobLine("ab" * 32, 6, 0, b"\xff123"), BlobLine("ab" * 32, 6, 4, b"56")]
    taken: list[BlobLine] = []
    lines = [begin(), RUN, to_line(pieces[0]), to_line(pieces[1]), event(1), end()]
    [execution] = read_executions(lines, taken.append)
    assert taken == pieces
    assert len(execution.runs[0].events) == 1


def test_surf_23_lines_are_json_that_people_can_read() -> None:
    """[SURF-23] One object a line, each with its kind; data is spliced in exactly as it is."""
    assert [line[-1:] for line in (begin(), RUN, event(1), end())] == [b"\n"] * 4
    assert msgspec.json.decode(RUN) == {
        "kind": "run",
        "run_id": "run-7",
        "flow_type": "Order",
        "status": "COMPLETED",
        "started_at": 1_000,
        "closed_at": 2_000,
    }
    shown = msgspec.json.decode(event(1))
    assert (shown["kind"], shown["event_id"], shown["data"]["number"]) == ("event", 1, 9007199254740993)
    assert shown["payload"] == "gaFh/w=="


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"what\n"], "line 1: "),
        ([b"\xff\n"], "line 1: "),
        ([b'{"kind": "other"}\n'], "line 1: "),
        ([RUN], "line 1: an execution must begin here"),
        ([begin(form=FORM + 1)], f"line 1: form {FORM + 1} is unknown, this release reads {FORM}"),
        ([begin(), event(1)], "line 2: the execution of Flow 'order/1' is not complete yet"),
        ([begin(), begin()], "line 2: the execution of Flow 'order/1' is not complete yet"),
        ([begin(), RUN, event(2)], "line 3: event 2, expected 1"),
        ([begin(), RUN, event(1), event(1)], "line 4: event 1, expected 2"),
        ([begin(), RUN, event(1)], "line 3: the execution of Flow 'order/1' has no end, lines are missing"),
        ([begin(), end(0, 0)], "line 2: the execution has no run, or a run without events"),
        ([begin(), RUN, RUN, event(1), end(2, 1)], "line 5: the execution has no run, or a run without events"),
        ([begin(), RUN, event(1), end(1, 2)], "line 4: 1 runs and 1 events came before, the execution has 1 and 2"),
    ],
)
def test_surf_23_lines_that_are_no_whole_export_are_refused(lines: Sequence[bytes], message: str) -> None:
    """[SURF-23, ERR-B] Naming the line."""
    with pytest.raises(ExportError) as refused:
        read(*lines)
    assert str(refused.value).startswith(message)
