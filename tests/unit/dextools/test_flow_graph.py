"""Which Step led to which [SURF-21]."""

import re
from typing import Any

from dextools.flow_graph import INDENT_MAX, graph_of, mermaid_text, tree_lines

STARTED = ("FlowStarted", {"flow_type": "Order", "flow_id": "o-1"})


def scheduled(step_id: str, source: str = "") -> tuple[str, dict[str, Any]]:
    return "StepScheduled", {"step_execution_id": step_id, "from_step": source}


def of_step(kind: str, step_id: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return kind, {"step_execution_id": step_id, **data}


def executed(step_id: str, decision: str) -> tuple[str, dict[str, Any]]:
    return of_step("ExecuteCompleted", step_id, output={"decision": {"kind": decision}})


CLOSED = ("FlowClosed", {"status": "COMPLETED"})
ORDER = [
    STARTED,
    scheduled("Charge-1"),
    of_step("StepDispatched", "Charge-1"),
    executed("Charge-1", "GO_TO"),
    scheduled("Ship-1", "Charge-1"),
    scheduled("Mail-1", "Charge-1"),
    of_step("WaitForCompleted", "Mail-1"),
    scheduled("Audit-1", "sys:rpc:check#1"),
    of_step("SubFlowStarted", "Ship-1", flow_id="child"),
    ("SubFlowClosed", {"result": {"flow_id": "child", "status": "FAILED"}}),
    of_step("ExecuteFailed", "Audit-1", resolution="RETRY"),
    executed("Ship-1", "GRACEFUL_COMPLETE"),
    ("AttributesSet", {"writes": []}),
]


def test_text_shows_what_led_to_what_and_how_it_stands() -> None:
    assert list(tree_lines(graph_of(ORDER))) == [
        "Order o-1  RUNNING",
        "  Charge-1  COMPLETED",
        "    Ship-1  COMPLETED",
        "      child  FAILED",
        "    Mail-1  WAITING",
        "  check#1",
        "    Audit-1  BACKOFF",
    ]


def test_the_end_is_shown_below_whoever_brought_it() -> None:
    lines = list(tree_lines(graph_of([*ORDER, CLOSED])))
    assert lines[0] == "Order o-1  COMPLETED"
    assert lines[lines.index("    Ship-1  COMPLETED") + 2] == "      COMPLETED"


def test_json_has_nodes_and_edges() -> None:
    document = graph_of(ORDER).document()
    assert document["nodes"][0] == {"id": "start", "kind": "START", "label": "Order o-1", "status": "RUNNING"}
    assert {"source": "Charge-1", "target": "Ship-1"} in document["edges"]
    assert {node["kind"] for node in document["nodes"]} == {"START", "STEP", "RPC", "SUB_FLOW"}


def test_mermaid_cannot_be_steered_by_ids() -> None:
    """[SURF-20, ERR-B] Quotes, markup and control characters are escaped."""
    text = mermaid_text(graph_of([STARTED, scheduled('x"]-->|<b>\x1b#-1'), CLOSED]))
    assert text.splitlines()[0] == "flowchart TD"
    (line,) = [line for line in text.splitlines() if line.startswith("  n1[")]
    assert re.fullmatch(r'  n1\["[^"<>\x1b]*<br/>QUEUED"\]', line.replace("#quot;", "").replace("#lt;", ""))
    assert "  n0 --> n1" in text.splitlines()


def test_a_chain_of_many_steps_is_neither_too_deep_nor_too_wide() -> None:
    count = 5_000
    chain = [STARTED, scheduled("A-1"), *(scheduled(f"A-{n + 1}", f"A-{n}") for n in range(1, count))]
    lines = list(tree_lines(graph_of(chain)))
    assert len(lines) == count + 1
    assert max(map(len, lines)) < 2 * INDENT_MAX + 20


def test_a_node_that_several_led_to_is_shown_once_and_named_again() -> None:
    events = [STARTED, scheduled("A-1"), scheduled("B-1"), scheduled("C-1", "A-1"), scheduled("D-1", "C-1")]
    graph = graph_of(
        [*events, executed("A-1", "FORCE_FAIL"), executed("B-1", "FORCE_FAIL"), ("FlowClosed", {"status": "FAILED"})]
    )
    assert [line.strip() for line in tree_lines(graph)].count("FAILED") == 2


def test_steps_that_nothing_is_known_of_are_roots() -> None:
    """A run that goes on where a deleted one left off."""
    graph = graph_of([scheduled("B-2", "A-1"), of_step("StepDispatched", "A-7"), of_step("StepCanceled", "B-2")])
    assert list(tree_lines(graph)) == ["B-2  CANCELED"]
