"""Histories for people [SURF-21]."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from dextools.history_table import SUMMARY_LENGTH, HistoryRow, history_line, history_table, summary


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"attempt": 2, "step_execution_id": "Charge-1", "retry_at": 0}, "Charge-1 attempt=2"),
        ({"channel": "approval", "values": [True], "request": None}, "channel=approval values=[true]"),
        ({}, ""),
        (
            {
                "step_execution_id": "Ship-1",
                "worker_id": "w",
                "input": {"value": "long"},
                "output": {"decision": {"kind": "GRACEFUL_COMPLETE", "output": "p1", "reason": ""}, "writes": []},
            },
            'Ship-1 decision=GRACEFUL_COMPLETE "p1" worker_id=w',
        ),
        (
            {"step_execution_id": "Ship-1", "output": {"failure": {"error_type": "ValueError", "detail": "no"}}},
            "Ship-1 failure=ValueError: no",
        ),
        (
            {
                "step_execution_id": "Ship-1",
                "output": {
                    "wait": {
                        "kind": "ANY_OF",
                        "conditions": [{"channel": "approval"}, {"channel": "", "at_ms": 1_000}],
                    }
                },
            },
            "Ship-1 wait=ANY_OF(approval, timer 1970-01-01T00:00:01.000Z)",
        ),
        (
            {
                "step_execution_id": "Ask-1",
                "output": {
                    "wait": {"kind": "ALL_OF", "conditions": [{"kind": "SUB_FLOW", "channel": "", "at_ms": None}]}
                },
                "sub_flows": [{"flow_type": "AskFlow", "start_step": {}}],
            },
            "Ask-1 wait=ALL_OF(SubFlow) sub_flows=AskFlow",
        ),
        (
            {"step_execution_id": "Ask-1", "number": 1, "flow_id": "sys:sub:a/Ask-1/1"},
            "Ask-1 flow_id=sys:sub:a/Ask-1/1",
        ),
        (
            {
                "step_execution_id": "Ask-1",
                "result": {"flow_id": "c-1", "status": "FAILED", "error_message": "nobody", "completions": []},
            },
            "Ask-1 result=c-1 FAILED nobody",
        ),
        ({"reason": "SESSION_LOST", "started_at": 1_000}, "reason=SESSION_LOST started_at=1970-01-01T00:00:01.000Z"),
        (
            {"step_execution_id": "Pay-1", "resolution": "RETRY", "retry_at": 1_000, "is_reported": True},
            "Pay-1 resolution=RETRY retry_at=1970-01-01T00:00:01.000Z",
        ),
        (
            {
                "flow_id": "c-1",
                "flow_type": "AskFlow",
                "terms": {"timeout_ms": 0, "timeout_policy": "DEFAULT", "parent": {"flow_id": "p-1"}, "schedule": None},
            },
            "flow_type=AskFlow parent=p-1",
        ),
        (
            {"flow_type": "Report", "terms": {"parent": None, "schedule": {"schedule_id": "r", "scheduled_at": 1_000}}},
            "flow_type=Report schedule=r",
        ),
        (
            {"step_execution_id": "S-1", "indexed": [{"key": "a", "value": 1}], "writes": [{"key": "a", "value": 1}]},
            "S-1 writes=a:1",
        ),
    ],
)
def test_a_summary_begins_with_the_step_and_leaves_out_what_is_unset(data: Mapping[str, Any], expected: str) -> None:
    """[SURF-21] one line says what an event is about."""
    assert summary(data) == expected


def test_a_long_summary_is_cut_and_full_shows_everything() -> None:
    """[SURF-21] `--full`."""
    data = {"step_execution_id": "S-1", "detail": "x" * 500}
    assert len(summary(data)) == SUMMARY_LENGTH
    row = HistoryRow(1, 1_000, "StepScheduled", data)
    assert "x" * 500 in history_line(row, full=True).plain
    assert "x" * 500 not in history_line(row, full=False).plain


def test_a_table_lists_events_in_order() -> None:
    """[HIST-2] event ids as the server gives them."""
    stream = io.StringIO()
    rows = [HistoryRow(1, 1_000, "FlowStarted", {}), HistoryRow(2, 2_000, "FlowClosed", {"status": "COMPLETED"})]
    Console(file=stream, width=120).print(history_table(rows, full=False, title="order-1"))
    text = stream.getvalue()
    assert text.index("FlowStarted") < text.index("FlowClosed")
    assert "1970-01-01T00:00:02.000Z" in text
    assert "order-1" in text
