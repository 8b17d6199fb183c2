"""Verbs of `dex flow batch`: one operation over all Flows that a query finds, and how such jobs stand [SURF-21]."""

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
import typer

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.channel_verbs import ChannelName
from dextools.cli.connection import Connection
from dextools.cli.errors import CommandError, ExitCode, usage_error
from dextools.cli.flow_writes import STOP_TYPE_NUMBERS, VALUE_FORMS, Instance, Messages, RequestId, StopType
from dextools.cli.index_values import index_writes_of_query
from dextools.cli.invocation import Invocation, verb
from dextools.cli.time_travel_verb import Point, Redone, SkipWrites, To, travel_request
from dextools.cli.values import definition_key, read_value, read_values
from dextools.terminal_text import instant_text, table

POLL_SECONDS = 0.2
OPEN_STATUSES = frozenset({"RUNNING", "CANCELING"})

GUARD_OPTIONS: Mapping[str, inspect.Parameter] = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (
        ("query", "", Annotated[str, typer.Option(help="Which Flows, as in `dex flow list`.", metavar="QUERY")]),
        ("all_flows", False, Annotated[bool, typer.Option("--all-flows", help="An empty query is meant: all Flows.")]),
        ("dry_run", False, Annotated[bool, typer.Option("--dry-run", help="Only tell how many Flows are found.")]),
        ("yes", False, Annotated[bool, typer.Option("--yes", help="Do it; needed as it may change many Flows.")]),
        ("rate", 50.0, Annotated[float, typer.Option(help="Flows a second at most.", min=0.001, max=1_000.0)]),
        ("wait", False, Annotated[bool, typer.Option("--wait", help="Wait for the end; --timeout bounds the wait.")]),
        ("request_id", "", RequestId),
    )
}
"""What every verb takes that begins a job."""

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="ID of the job.", show_default=False)]


class Guard(msgspec.Struct, frozen=True):
    """Which Flows, and whether it is meant."""

    query: str
    all_flows: bool
    dry_run: bool
    yes: bool
    rate: float
    wait: bool
    request_id: str


def add_batch_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    _beginning(app, "stop")(stop)
    _beginning(app, "publish")(publish)
    _beginning(app, "set-attribute")(set_attribute)
    _beginning(app, "time-travel")(time_travel)
    verb(app, "describe")(describe)
    verb(app, "cancel")(cancel)
    verb(app, "list")(list_batches)


def _beginning(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], None]:
    """Register a verb that begins a job; the options of the Guard, its second parameter, are added to its own."""

    def register(function: Callable[..., None]) -> None:
        def run(call: Invocation, **arguments: Any) -> None:
            guard = Guard(**{option: arguments.pop(option) for option in GUARD_OPTIONS})
            function(call, guard, **arguments)

        call, _, *own = inspect.signature(function, eval_str=True).parameters.values()
        keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        signature = inspect.Signature([call, *keywords, *GUARD_OPTIONS.values()])
        run.__doc__ = function.__doc__
        run.__signature__ = signature  # type: ignore[attr-defined]  # how a signature is told to those who inspect it
        verb(app, name)(run)

    return register


def stop(
    call: Invocation,
    guard: Guard,
    stop_type: Annotated[StopType, typer.Option("--type", help="How the Flows end.")] = StopType.CANCEL,
    reason: Annotated[str, typer.Option(help="Why; the error message of Flows stopped with fail.")] = "",
) -> None:
    """Stop all Flows that a query finds."""
    request = _request(guard)
    request.stop.type = STOP_TYPE_NUMBERS[stop_type]
    request.stop.reason = reason
    with call.connection() as connection:
        _begin(call, connection, request, wait=guard.wait)


def publish(
    call: Invocation,
    guard: Guard,
    channel: ChannelName,
    values: Messages,
    instance: Instance = None,
) -> None:
    """Publish messages to a Channel of all Flows that a query finds."""
    request = _request(guard)
    request.publish.channel = definition_key(channel, instance)
    messages = read_values(values)
    with call.connection() as connection:
        request.publish.values.extend(map(connection.large_values.outgoing, messages))
        _begin(call, connection, request, wait=guard.wait)


def set_attribute(
    call: Invocation,
    guard: Guard,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Attribute name.", show_default=False)],
    value: Annotated[str, typer.Argument(metavar="VALUE", help=f"{VALUE_FORMS}; null deletes.", show_default=False)],
    instance: Instance = None,
    index_key: Annotated[
        str, typer.Option(help="Key under which search finds the Attribute; its name if not given.", metavar="KEY")
    ] = "",
) -> None:
    """Set or delete an Attribute of all Flows that a query finds, and what search finds it by if that is indexed."""
    request = _request(guard)
    request.set_attribute.key = definition_key(name, instance)
    data = read_value(value, "VALUE")
    with call.connection() as connection:
        if data != b"null":
            request.set_attribute.value = connection.large_values.outgoing(data)
        request.set_attribute.indexed.extend(
            index_writes_of_query(connection, guard.query, index_key or name, data, is_named=bool(index_key))
        )
        _begin(call, connection, request, wait=guard.wait)


def time_travel(
    call: Invocation,
    guard: Guard,
    point_type: Point,
    to: To = "",
    method: Redone = None,
    skip_writes_reapply: SkipWrites = False,
    reason: Annotated[str, typer.Option(help="Why; shown in history.")] = "",
) -> None:
    """Let all Flows that a query finds go on from an earlier point, open or closed."""
    request = _request(guard)
    request.time_travel.CopyFrom(travel_request(point_type, to, method))
    request.time_travel.reason, request.time_travel.skip_writes_reapply = reason, skip_writes_reapply
    with call.connection() as connection:
        _begin(call, connection, request, wait=guard.wait)


def describe(
    call: Invocation,
    batch_id: BatchId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; --timeout bounds the wait.")] = False,
) -> None:
    """Show how a job stands."""
    with call.connection() as connection:
        info = connection.call(connection.flows.DescribeBatch, pb.DescribeBatchRequest(batch_id=batch_id))
        if wait:
            info = _ended(call, connection, info)
    _show(call, info)


def cancel(call: Invocation, batch_id: BatchId) -> None:
    """Let a job apply nothing more."""
    with call.connection() as connection:
        info = connection.call(connection.flows.CancelBatch, pb.CancelBatchRequest(batch_id=batch_id))
    _show(call, info)


def list_batches(
    call: Invocation, limit: Annotated[int, typer.Option(help="Rows at most.", min=1, max=100)] = 20
) -> None:
    """List jobs, newest first."""
    with call.connection() as connection:
        page = connection.call(connection.flows.ListBatches, pb.ListBatchesRequest(page_size=limit))
    rows = (
        (
            info.batch_id,
            info.operation,
            info.status,
            f"{info.applied}/{info.matched}",
            instant_text(info.created_at),
            info.query,
        )
        for info in page.batches
    )
    document = {"batches": [batch_document(info) for info in page.batches], "more": bool(page.next_page_token)}
    call.output.answer(document, table("batch_id", "operation", "status", "applied", "created_at", "query", rows=rows))


def batch_document(info: pb.BatchInfo) -> dict[str, Any]:
    """One job, or what one would find."""
    problems = [
        {"flow_id": row.flow_id, "outcome": row.outcome, "reason": row.reason, "detail": row.detail}
        for row in info.problems
    ]
    return {
        "batch_id": info.batch_id or None,
        "operation": info.operation,
        "query": info.query,
        "status": info.status,
        "matched": info.matched,
        "applied": info.applied,
        "skipped": info.skipped,
        "failed": info.failed,
        "reasons": dict(sorted(info.reasons.items())),
        "problems": problems,
        "rate": info.rate,
        "created_at": info.created_at or None,
        "closed_at": info.closed_at or None,
        "sample": list(info.sample),
    }


def _request(guard: Guard) -> pb.CreateBatchRequest:
    if not guard.query.strip() and not guard.all_flows:
        raise usage_error("an empty --query finds every Flow; add --all-flows if all are meant")
    if not guard.dry_run and not guard.yes:
        raise usage_error("this may change many Flows: add --dry-run to see which, or --yes to do it")
    return pb.CreateBatchRequest(
        query=guard.query,
        all_flows=guard.all_flows,
        dry_run=guard.dry_run,
        rate=guard.rate,
        request_id=guard.request_id,
    )


def _begin(call: Invocation, connection: Connection, request: pb.CreateBatchRequest, *, wait: bool) -> None:
    info = connection.call(connection.flows.CreateBatch, request)
    if wait:
        info = _ended(call, connection, info)
    _show(call, info)


def _ended(call: Invocation, connection: Connection, info: pb.BatchInfo) -> pb.BatchInfo:
    ends_at = None if call.timeout is None else time.monotonic() + call.timeout
    while info.status in OPEN_STATUSES:
        if ends_at is not None and time.monotonic() >= ends_at:
            message = f"batch {info.batch_id} did not end within {call.timeout:g} s"
            raise CommandError(message, ExitCode.UNAVAILABLE, code="LONG_POLL_TIMEOUT")
        time.sleep(POLL_SECONDS)
        info = connection.call(connection.flows.DescribeBatch, pb.DescribeBatchRequest(batch_id=info.batch_id))
    return info


def _show(call: Invocation, info: pb.BatchInfo) -> None:
    document = batch_document(info)
    instants = {"created_at": instant_text(info.created_at), "closed_at": instant_text(info.closed_at)}
    lists = {
        "reasons": " ".join(f"{reason}={count}" for reason, count in sorted(info.reasons.items())),
        "problems": tuple(f"{row.flow_id}: {row.outcome} {row.reason} {row.detail}" for row in info.problems),
        "sample": tuple(info.sample),
    }
    call.output.fields(document, document | instants | lists)
