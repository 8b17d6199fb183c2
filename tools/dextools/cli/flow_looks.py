"""Verbs of `dex flow` that look closer: explain, watch, graph."""

import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.connection import Connection
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.flow_documents import blocker_document, flow_document
from dextools.cli.flow_reads import FlowId, RunId, history_pages
from dextools.cli.invocation import Invocation, verb
from dextools.flow_graph import graph_of, mermaid_text, tree_lines
from dextools.terminal_text import cell, instant_text, table

NOTHING: Mapping[str, Any] = {}


class GraphFormat(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"


def add_look_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "explain")(explain)
    verb(app, "watch")(watch)
    verb(app, "graph")(graph)


def explain(call: Invocation, flow_id: FlowId) -> None:
    """Show why each active Step does not get on."""
    with call.connection() as connection:
        reply = connection.call(connection.flows.ExplainFlow, pb.ExplainFlowRequest(flow_id=flow_id))
    call.output.answer(_explanation(flow_id, reply), _blocker_table(reply))


def watch(
    call: Invocation,
    flow_id: FlowId,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05, metavar="SECONDS")] = 1.0,
) -> None:
    """Show how a Flow stands and what it waits for, whenever that changes, until it is closed.

    Exit code 0 if it is COMPLETED, 1 if it ended otherwise. With --json every look that differs is one line of JSON.
    """
    shown: Mapping[str, Any] = NOTHING
    with call.connection() as connection:
        while True:
            flow = connection.call(connection.flows.DescribeFlow, pb.DescribeFlowRequest(flow_id=flow_id))
            reply = connection.call(connection.flows.ExplainFlow, pb.ExplainFlowRequest(flow_id=flow_id))
            looked = {"status": flow.status, **_explanation(flow_id, reply)}
            if looked != shown:
                call.output.answer({**flow_document(flow), **looked}, _look(flow, reply))
                shown = looked
            if flow.status != "RUNNING":
                break
            time.sleep(every)
    if flow.status != "COMPLETED":
        raise typer.Exit(ExitCode.FAILED)


def graph(
    call: Invocation,
    flow_id: FlowId,
    run_id: RunId = "",
    form: Annotated[GraphFormat, typer.Option("--format", help="How the graph is written.")] = GraphFormat.TEXT,
) -> None:
    """Show which Step execution led to which, over all runs that led to this one; with --json as nodes and edges."""
    with call.connection() as connection:
        shown = graph_of(_lineage(connection, flow_id, run_id))
    text = mermaid_text(shown) if form is GraphFormat.MERMAID else "\n".join(tree_lines(shown))
    call.output.answer({"flow_id": flow_id, **shown.document()}, Text("\n").join(map(cell, text.splitlines())))


def _explanation(flow_id: str, reply: pb.ExplainFlowReply) -> dict[str, Any]:
    return {
        "flow_id": flow_id,
        "blockers": [blocker_document(blocker) for blocker in reply.blockers],
        "omitted_steps": reply.omitted_steps,
    }


def _blocker_table(reply: pb.ExplainFlowReply, title: str | None = None) -> Table:
    rows = (
        (
            blocker.step_execution_id,
            blocker.kind,
            blocker.text,
            instant_text(blocker.since),
            instant_text(blocker.until),
        )
        for blocker in reply.blockers
    )
    return table("step", "kind", "text", "since", "until", rows=rows, title=title)


def _look(flow: pb.FlowInfo, reply: pb.ExplainFlowReply) -> Table:
    return _blocker_table(reply, f"{flow.flow_id} is {flow.status}, {flow.history_events} events")


# ---- the runs that led to a run ---------------------------------------------------------------------------------


def _lineage(connection: Connection, flow_id: str, run_id: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Kind and data of the events that led to a run's state, those of the runs that it continues or forks first."""
    segments: list[list[tuple[str, Mapping[str, Any]]]] = []
    last_event_id: int | None = None
    while True:
        request = pb.GetHistoryRequest(flow_id=flow_id, run_id=run_id)
        read = [
            (event.kind, msgspec.json.decode(event.data or b"{}"))
            for event in _retained(connection, request, is_earlier=bool(segments))
            if last_event_id is None or event.event_id <= last_event_id
        ]
        segments.append(read if not segments else [event for event in read if event[0] != "FlowClosed"])
        origin = read[1] if len(read) > 1 else ("", NOTHING)
        if origin[0] == "FlowContinued":
            run_id, last_event_id = origin[1]["previous_run_id"], None
        elif origin[0] == "FlowForked":
            run_id, last_event_id = origin[1]["from_run_id"], origin[1]["from_event_id"]
        else:
            break
    for segment in reversed(segments):
        yield from segment


def _retained(connection: Connection, request: pb.GetHistoryRequest, *, is_earlier: bool) -> Iterator[pb.HistoryEvent]:
    """A run's events; none of an earlier run that is not kept any more."""
    try:
        yield from history_pages(connection, request)
    except CommandError as error:
        if error.exit_code is not ExitCode.NOT_FOUND or not is_earlier:
            raise
