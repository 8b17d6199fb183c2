"""Which Step execution led to which, from a history: nodes and edges, as Mermaid or as an indented text [SURF-21].

Pure: takes events as the server shows them, and knows a kind by its name only.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dextools.terminal_text import printable

INDENT_MAX = 40
"""Levels that are indented; a chain of a hundred thousand Steps must stay readable, and small."""

START = "start"
END = "end"
_ENDING_DECISIONS = {"GRACEFUL_COMPLETE", "FORCE_COMPLETE", "FORCE_COMPLETE_IF_CHANNELS_EMPTY", "FORCE_FAIL"}


class Node(msgspec.Struct):
    """A Step execution, an RPC that scheduled some, a child Flow, or the beginning or end of the Flow."""

    id: str
    kind: str
    """START, STEP, RPC, SUB_FLOW or END."""
    label: str
    status: str = ""


class Edge(msgspec.Struct, frozen=True):
    """One thing led to another."""

    source: str
    target: str


class FlowGraph:
    """The graph of one execution, built event by event."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[Edge, None] = {}

    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take in the next event."""
        match kind:
            case "FlowStarted":
                self._node(START, "START", f"{data['flow_type']} {data['flow_id']}", "RUNNING")
            case "StepScheduled":
                self._scheduled(data)
            case "SubFlowStarted":
                self._node(f"flow {data['flow_id']}", "SUB_FLOW", data["flow_id"], "RUNNING")
                self._edge(data["step_execution_id"], f"flow {data['flow_id']}")
            case "SubFlowClosed":
                child = self.nodes.get(f"flow {data['result']['flow_id']}")
                if child is not None:
                    child.status = data["result"]["status"]
            case "FlowClosed":
                self._closed(data)
            case _:
                self._step(kind, data)

    def document(self) -> dict[str, Any]:
        """The graph as JSON."""
        return {
            "nodes": [msgspec.structs.asdict(node) for node in self.nodes.values()],
            "edges": [msgspec.structs.asdict(edge) for edge in self.edges],
        }

    # ---- events ----

    def _scheduled(self, data: Mapping[str, Any]) -> None:
        step_id, source = data["step_execution_id"], data["from_step"]
        self._node(step_id, "STEP", step_id, "QUEUED")
        if source.startswith("sys:rpc:"):
            self._node(source, "RPC", source.removeprefix("sys:rpc:"))
            self._edge(START, source)
        self._edge(source if source in self.nodes else START, step_id)

    def _step(self, kind: str, data: Mapping[str, Any]) -> None:
        node = self.nodes.get(data.get("step_execution_id", ""))
        if node is None:
            return
        node.status = _STATUS_AFTER.get(kind, node.status)
        if kind in ("WaitForFailed", "ExecuteFailed"):
            node.status = _STATUS_AFTER_FAILURE[data["resolution"]]
        if kind == "ExecuteCompleted" and data["output"]["decision"]["kind"] in _ENDING_DECISIONS:
            self._edge(node.id, END)

    def _closed(self, data: Mapping[str, Any]) -> None:
        self._node(END, "END", data["status"], data["status"])
        start = self.nodes.get(START)
        if start is not None:
            start.status = data["status"]

    def _node(self, node_id: str, kind: str, label: str, status: str = "") -> None:
        self.nodes.setdefault(node_id, Node(node_id, kind, label, status))

    def _edge(self, source: str, target: str) -> None:
        self.edges[Edge(source, target)] = None


_STATUS_AFTER = {
    "StepDispatched": "RUNNING",
    "StepDeclined": "QUEUED",
    "StepDeliveryLost": "QUEUED",
    "WaitForCompleted": "WAITING",
    "ConditionsMet": "QUEUED",
    "ExecuteCompleted": "COMPLETED",
    "StepCanceled": "CANCELED",
    "MethodPending": "PENDING",
}
_STATUS_AFTER_FAILURE = {"RETRY": "BACKOFF", "PROCEED": "QUEUED", "RECOVER": "FAILED", "FAIL_FLOW": "FAILED"}


# ---- forms ------------------------------------------------------------------------------------------------------


def mermaid_text(graph: FlowGraph) -> str:
    """A Mermaid flowchart; labels are quoted, so that no ID can be read as syntax."""
    names = {node_id: f"n{number}" for number, node_id in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes.values():
        opening, closing = _MERMAID_SHAPES[node.kind]
        shows_status = node.status and node.status != node.label
        label = f"{_quoted(node.label)}<br/>{node.status}" if shows_status else _quoted(node.label)
        lines.append(f'  {names[node.id]}{opening}"{label}"{closing}')
    lines += [
        f"  {names[edge.source]} --> {names[edge.target]}"
        for edge in graph.edges
        if edge.source in names and edge.target in names
    ]
    return "\n".join(lines)


_MERMAID_SHAPES = {
    "START": ("([", "])"),
    "STEP": ("[", "]"),
    "RPC": ("[/", "/]"),
    "SUB_FLOW": ("[[", "]]"),
    "END": ("((", "))"),
}


def _quoted(label: str) -> str:
    escapes = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(escapes.get(character, character) for character in printable(label))


def tree_lines(graph: FlowGraph) -> Iterator[str]:
    """One line a node, below the first one that led to it; a node met again is only named."""
    targets: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.target in graph.nodes:
            targets.setdefault(edge.source, []).append(edge.target)
    reached = {edge.target for edge in graph.edges if edge.source in graph.nodes}
    shown: set[str] = set()
    for root in [node_id for node_id in graph.nodes if node_id not in reached]:
        # A list instead of recursion: a chain of Steps is as deep as it is long.
        waiting = [(root, 0)]
        while waiting:
            node_id, depth = waiting.pop()
            node = graph.nodes[node_id]
            status = "" if node.status == node.label else node.status
            again = " (see above)" if node_id in shown and targets.get(node_id) else ""
            yield f"{'  ' * min(depth, INDENT_MAX)}{node.label}  {status}".rstrip() + again
            if node_id not in shown:
                shown.add(node_id)
                waiting += [(target, depth + 1) for target in reversed(targets.get(node_id, ()))]


def graph_of(events: Iterable[tuple[str, Mapping[str, Any]]]) -> FlowGraph:
    """Build the graph of an execution from kind and data of its events, in order."""
    graph = FlowGraph()
    for kind, data in events:
        graph.add(kind, data)
    return graph
