"""Verbs of `dex flow` that act: start, publish, rpc, skip-timer, stop, time-travel, attr get and attr set."""

from enum import StrEnum
from typing import Annotated

import typer

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.flow_reads import FlowId, RunId
from dextools.cli.index_values import index_writes
from dextools.cli.invocation import Invocation, verb
from dextools.cli.time_travel_verb import time_travel
from dextools.cli.values import INT64_MAX, definition_key, read_value, read_values, shown

VALUE_FORMS = "JSON, @FILE or - for standard input"

RequestId = Annotated[
    str, typer.Option(help="Makes a repeat of this call harmless: same ID, same answer.", metavar="TEXT")
]
Messages = Annotated[
    list[str], typer.Argument(metavar="VALUE...", help=f"Messages, each {VALUE_FORMS}.", show_default=False)
]
Instance = Annotated[str | None, typer.Option(help="Instance key, if the definition is a map.", metavar="KEY")]


class StopType(StrEnum):
    """How a Flow is ended [STOP-1]."""

    CANCEL = "cancel"
    FAIL = "fail"
    TERMINATE = "terminate"


class ReusePolicy(StrEnum):
    """Whether a Flow ID may be started again [START-4]."""

    DEFAULT = "default"
    ALLOW_IF_PREVIOUS_FAILED = "allow-if-previous-failed"
    ALLOW_IF_NOT_RUNNING = "allow-if-not-running"
    DISALLOW = "disallow"
    ALLOW_TERMINATE_IF_RUNNING = "allow-terminate-if-running"


STOP_TYPE_NUMBERS = {stop_type: number for number, stop_type in enumerate(StopType)}
REUSE_POLICY_NUMBERS = {policy: number for number, policy in enumerate(ReusePolicy)}


def add_write_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "start")(start)
    verb(app, "publish")(publish)
    verb(app, "rpc")(rpc)
    verb(app, "skip-timer")(skip_timer)
    verb(app, "stop")(stop)
    verb(app, "time-travel")(time_travel)


def add_attribute_verbs(app: typer.Typer) -> None:
    """Register the verbs below `attr`."""
    verb(app, "get")(get_attribute)
    verb(app, "set")(set_attribute)


def start(
    call: Invocation,
    flow_type: Annotated[str, typer.Argument(metavar="TYPE", help="Flow type.", show_default=False)],
    flow_id: Annotated[str, typer.Option("--id", help="Flow ID.", metavar="ID")],
    value: Annotated[str, typer.Option("--input", help=f"Input: {VALUE_FORMS}.", metavar="VALUE")] = "null",
    id_reuse_policy: Annotated[
        ReusePolicy, typer.Option(help="What an earlier execution of the Flow ID allows.")
    ] = ReusePolicy.DEFAULT,
    priority: Annotated[
        int, typer.Option(help="Priority of its calls while they wait for a worker; 1 comes first.", min=1, max=5)
    ] = 3,
    fairness_key: Annotated[
        str, typer.Option(help="Calls of one priority take turns by this key.", metavar="TEXT")
    ] = "",
    request_id: RequestId = "",
) -> None:
    """Start a Flow; some worker must have registered its type."""
    request = pb.StartFlowRequest(
        flow_id=flow_id,
        flow_type=flow_type,
        request_id=request_id,
        input=read_value(value, "--input"),
        resolve_start_step=True,
        id_reuse_policy=REUSE_POLICY_NUMBERS[id_reuse_policy],
        standing=pb.Standing(priority=priority, fairness_key=fairness_key),
    )
    with call.connection() as connection:
        request.input = connection.large_values.outgoing(request.input)
        reply = connection.call(connection.flows.StartFlow, request)
    call.output.fields({"flow_id": flow_id, "run_id": reply.run_id})


def publish(
    call: Invocation,
    flow_id: FlowId,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Channel name.", show_default=False)],
    values: Messages,
    instance: Instance = None,
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """Publish messages to a Channel, all of them or none, in order."""
    request = pb.PublishRequest(
        flow_id=flow_id,
        run_id=run_id,
        channel=definition_key(channel, instance),
        values=read_values(values),
        request_id=request_id,
    )
    with call.connection() as connection:
        request.values[:] = [connection.large_values.outgoing(value) for value in request.values]
        reply = connection.call(connection.flows.Publish, request)
    call.output.fields({"message_ids": list(reply.message_ids)})


def rpc(
    call: Invocation,
    flow_id: FlowId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="RPC name.", show_default=False)],
    value: Annotated[str, typer.Option("--input", help=f"Input: {VALUE_FORMS}.", metavar="VALUE")] = "",
    handler_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds that the handler may take, at most 60; 0 = the server's default.", min=0.0, max=60.0
        ),
    ] = 0.0,
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """Call an RPC of a Flow and show its output."""
    request = pb.InvokeRpcRequest(
        flow_id=flow_id,
        run_id=run_id,
        name=name,
        input=read_value(value, "--input") if value else b"",
        request_id=request_id,
        timeout_ms=int(handler_timeout * 1000),
        resolve_terms=True,
    )
    with call.connection() as connection:
        request.input = connection.large_values.outgoing(request.input)
        reply = connection.call(connection.flows.InvokeRpc, request)
        output = connection.large_values.loaded(reply.output)
    call.output.fields({"output": shown(output)})


def skip_timer(
    call: Invocation,
    flow_id: FlowId,
    step: Annotated[
        str, typer.Argument(metavar="STEP", help="Step execution ID, e.g. ShipStep-1.", show_default=False)
    ],
    condition_id: Annotated[
        str, typer.Option(help="The Timer's condition ID; without it --index counts.", metavar="TEXT")
    ] = "",
    index: Annotated[int, typer.Option(help="Position among the Timers of the Wait.", min=0, max=INT64_MAX)] = 0,
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """Let a Timer count as fired, now or as soon as its Step waits for it."""
    request = pb.SkipTimerRequest(
        flow_id=flow_id,
        run_id=run_id,
        step_execution_id=step,
        condition_id=condition_id,
        condition_index=index,
        request_id=request_id,
    )
    with call.connection() as connection:
        reply = connection.call(connection.flows.SkipTimer, request)
    call.output.fields({"outcome": reply.outcome})


def stop(
    call: Invocation,
    flow_id: FlowId,
    stop_type: Annotated[StopType, typer.Option("--type", help="How the Flow ends.")] = StopType.CANCEL,
    reason: Annotated[str, typer.Option(help="Why; the error message of a Flow stopped with fail.")] = "",
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """End a Flow now: cancel it, fail it or terminate it."""
    request = pb.StopFlowRequest(
        flow_id=flow_id, run_id=run_id, type=STOP_TYPE_NUMBERS[stop_type], reason=reason, request_id=request_id
    )
    with call.connection() as connection:
        reply = connection.call(connection.flows.StopFlow, request)
    call.output.fields({"outcome": reply.outcome, "status": reply.status})


def get_attribute(
    call: Invocation,
    flow_id: FlowId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Attribute name.", show_default=False)],
    instance: Instance = None,
    run_id: RunId = "",
) -> None:
    """Show one Attribute; null when it is not set."""
    request = pb.GetAttributeRequest(flow_id=flow_id, run_id=run_id, key=definition_key(name, instance))
    with call.connection() as connection:
        reply = connection.call(connection.flows.GetAttribute, request)
        value = connection.large_values.loaded(reply.value)
    call.output.fields({"name": name, "instance": instance, "value": shown(value)})


def set_attribute(
    call: Invocation,
    flow_id: FlowId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Attribute name.", show_default=False)],
    value: Annotated[str, typer.Argument(metavar="VALUE", help=f"{VALUE_FORMS}; null deletes.", show_default=False)],
    instance: Instance = None,
    index_key: Annotated[
        str, typer.Option(help="Key under which search finds the Attribute; its name if not given.", metavar="KEY")
    ] = "",
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """Set or delete one Attribute of an active Flow, and what search finds it by if the Flow has that indexed."""
    data = read_value(value, "VALUE")
    request = pb.SetAttributeRequest(
        flow_id=flow_id, run_id=run_id, key=definition_key(name, instance), request_id=request_id
    )
    with call.connection() as connection:
        if data != b"null":
            request.value = connection.large_values.outgoing(data)
        request.indexed.extend(index_writes(connection, flow_id, index_key or name, data, is_named=bool(index_key)))
        connection.call(connection.flows.SetAttribute, request)
    call.output.fields({"name": name, "instance": instance, "value": shown(data)})
