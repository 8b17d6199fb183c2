"""Draws the transition tables of `dexd.core.flow.transitions`, for people and for Mermaid."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from dexd.core.flow.transitions import ANY_PHASE_EVENTS, FLOW_TRANSITIONS, STEP_TRANSITIONS

OUTSIDE = "[*]"
"""How Mermaid writes the beginning and the end."""

ASCII_BEGIN, ASCII_END = "(none)", "(ended)"


class Edge(NamedTuple):
    """One transition as texts; empty source or target means outside."""

    source: str
    event: str
    target: str
    when: str


def step_edges() -> list[Edge]:
    """What happens to a Step execution."""
    return [Edge(_name(row.source), row.event.__name__, _name(row.target), row.when) for row in STEP_TRANSITIONS]


def flow_edges() -> list[Edge]:
    """What happens to an execution of a Flow."""
    return [Edge(_name(row.source), row.event.__name__, row.target.name, "") for row in FLOW_TRANSITIONS]


def neutral_events() -> list[str]:
    """Events that leave everything where it is."""
    return [event.__name__ for event in ANY_PHASE_EVENTS]


def mermaid(edges: Sequence[Edge]) -> Iterator[str]:
    """A state diagram; events between the same two states share an arrow."""
    labels: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        labels.setdefault((edge.source, edge.target), []).append(_label(edge))
    yield "stateDiagram-v2"
    for (source, target), events in labels.items():
        yield f"    {source or OUTSIDE} --> {target or OUTSIDE}: {'<br>'.join(events)}"


def ascii_lines(edges: Sequence[Edge]) -> Iterator[str]:
    """The same as text: every state with what leads out of it."""
    width = max(len(_label(edge)) for edge in edges)
    for source in dict.fromkeys(edge.source for edge in edges):
        yield source or ASCII_BEGIN
        for edge in edges:
            if edge.source == source:
                yield f"  |-- {_label(edge) + ' ':-<{width + 1}}-> {edge.target or ASCII_END}"


def _name(state: IntEnum | None) -> str:
    return "" if state is None else state.name


def _label(edge: Edge) -> str:
    return f"{edge.event} ({edge.when})" if edge.when else edge.event
