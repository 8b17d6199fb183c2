"""Verbs of `dex flow` that look: list, count, describe, history, result."""

import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.connection import Connection
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.flow_documents import event_document, flow_document, found_document, result_document
from dextools.cli.invocation import Invocation, verb
from dextools.cli.output import text_of
from dextools.cli.values import INT64_MAX, shown
from dextools.history_table import HistoryRow, history_line, history_table
from dextools.terminal_text import instant_text, table

POLL_SECONDS = 20.0
"""How long one poll for a result is held; the server allows 60."""

PAGE_SIZE = 1000

FlowId = Annotated[str, typer.Argument(metavar="ID", help="Flow ID.", show_default=False)]
Query = Annotated[
    str,
    typer.Argument(metavar="[QUERY]", help="In the language of docs/search.md.", show_default=False),
]
RunId = Annotated[str, typer.Option(help="A run of the Flow other than its latest.", metavar="RUN")]


def add_read_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "list")(list_flows)
    verb(app, "count")(count_flows)
    verb(app, "describe")(describe)
    verb(app, "history")(history)
    verb(app, "result")(result)


def list_flows(
    call: Invocation,
    query: Query = "",
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = 100,
) -> None:
    """List executions that a query finds, newest start first unless it says ORDER BY."""
    request = pb.SearchFlowsRequest(query=query)
    found: list[pb.FoundFlow] = []
    with call.connection() as connection:
        while len(found) < limit:
            request.page_size = min(PAGE_SIZE, limit - len(found))
            page = connection.call(connection.flows.SearchFlows, request)
            found.extend(page.flows)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
    document = {"flows": [found_document(flow) for flow in found], "more": bool(request.page_token)}
    call.output.answer(document, _flow_table([flow.info for flow in found]))


def count_flows(
    call: Invocation,
    query: Query = "",
    group_by: Annotated[
        str, typer.Option(help="Count by Status, FlowType or StepStatus as well.", metavar="FIELD")
    ] = "",
) -> None:
    """Count executions that a query finds."""
    with call.connection() as connection:
        request = pb.CountFlowsRequest(query=query, group_by=group_by)
        reply = connection.call(connection.flows.CountFlows, request)
    groups = {group.value: group.flows for group in reply.groups}
    call.output.fields({"total": reply.total, "groups": groups}, {"total": reply.total, **groups})


def describe(
    call: Invocation,
    flow_id: FlowId,
    run_id: RunId = "",
    full: Annotated[
        bool, typer.Option("--full", help="Show the whole live state as well, with its large values.")
    ] = False,
) -> None:
    """Show one execution."""
    with call.connection() as connection:
        flow = connection.call(connection.flows.DescribeFlow, pb.DescribeFlowRequest(flow_id=flow_id, run_id=run_id))
        document = flow_document(flow)
        if full:
            request = pb.GetFlowStateRequest(flow_id=flow_id, run_id=flow.run_id)
            state = connection.call(connection.flows.GetFlowState, request).data
            document["state"] = shown(connection.large_values.resolved(state))
    instants = ("started_at", "closed_at", "next_deadline")
    human = document | {name: instant_text(document[name] or 0) for name in instants}
    call.output.fields(document, human)


def history(
    call: Invocation,
    flow_id: FlowId,
    run_id: RunId = "",
    first: Annotated[
        int, typer.Option("--from", help="First event ID to show.", min=1, max=INT64_MAX, metavar="EVENT")
    ] = 1,
    follow: Annotated[bool, typer.Option("--follow", help="Show events as they come, until the Flow closes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show all data of every event, with its large values.")] = False,
) -> None:
    """Show the history of a run, oldest event first.

    With --follow the runs that follow are shown too, unless --run-id names one. With --json every event is then one
    line of JSON.
    """
    with call.connection() as connection:
        if follow:
            request = pb.WatchHistoryRequest(
                flow_id=flow_id, run_id=run_id, from_event_id=first, follow_runs=not run_id
            )
            for event in connection.stream(connection.flows.WatchHistory, request):
                if full:
                    event.data = connection.large_values.resolved(event.data)
                call.output.answer(event_document(event), history_line(_row(event), full=full))
            return
        events = list(
            history_pages(connection, pb.GetHistoryRequest(flow_id=flow_id, run_id=run_id, from_event_id=first))
        )
        for event in events if full else ():
            event.data = connection.large_values.resolved(event.data)
    document = {"flow_id": flow_id, "events": [event_document(event) for event in events]}
    call.output.answer(document, history_table(map(_row, events), full=full))


def result(
    call: Invocation,
    flow_id: FlowId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; --timeout bounds the wait.")] = False,
) -> None:
    """Show how an execution ended: exit code 0 if it is COMPLETED, 1 if it ended otherwise or still runs."""
    with call.connection() as connection:
        reply = _awaited(call, connection, flow_id) if wait else _poll(connection, flow_id, "", 0.0)
        for row in reply.completions:
            row.value = connection.large_values.loaded(row.value)
    document = result_document(flow_id, reply)
    completions = [f"{row.step_execution_id}: {text_of(row.value.decode())}" for row in reply.completions]
    call.output.fields(document, document | {"is_terminal": None, "completions": tuple(completions)})
    if document["status"] != "COMPLETED":
        raise typer.Exit(ExitCode.FAILED)


def _awaited(call: Invocation, connection: Connection, flow_id: str) -> pb.WaitForFlowReply:
    """Poll until the execution that was latest at the first poll has ended [WAITAPI-2]."""
    ends_at = None if call.timeout is None else time.monotonic() + call.timeout
    first_run_id = ""
    while True:
        left = POLL_SECONDS if ends_at is None else max(0.0, ends_at - time.monotonic())
        reply = _poll(connection, flow_id, first_run_id, min(POLL_SECONDS, left))
        if reply.is_terminal:
            return reply
        if ends_at is not None and time.monotonic() >= ends_at:
            raise CommandError(
                f"Flow {flow_id} did not end within {call.timeout:g} s", ExitCode.UNAVAILABLE, code="LONG_POLL_TIMEOUT"
            )
        first_run_id = reply.first_run_id


def _poll(connection: Connection, flow_id: str, first_run_id: str, seconds: float) -> pb.WaitForFlowReply:
    request = pb.WaitForFlowRequest(flow_id=flow_id, first_run_id=first_run_id, wait_ms=int(seconds * 1000))
    return connection.call(connection.flows.WaitForFlow, request, held_for=seconds)


def history_pages(connection: Connection, request: pb.GetHistoryRequest) -> Iterator[pb.HistoryEvent]:
    """All events of a run from the one on that the request names."""
    while True:
        page = connection.call(connection.flows.GetHistory, request)
        yield from page.events
        if not page.next_event_id:
            return
        request.from_event_id = page.next_event_id


def _row(event: pb.HistoryEvent) -> HistoryRow:
    return HistoryRow(event.event_id, event.at, event.kind, msgspec.json.decode(event.data or b"{}"))


def _flow_table(flows: list[pb.FlowInfo]) -> Table:
    rows = (
        (flow.flow_id, flow.flow_type, flow.status, instant_text(flow.started_at), instant_text(flow.closed_at))
        for flow in flows
    )
    return table("flow_id", "flow_type", "status", "started_at", "closed_at", rows=rows)
