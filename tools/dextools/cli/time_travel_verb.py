"""`dex flow time-travel`: a run that goes on from an earlier point of an execution [TT-1..6]."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.flow_reads import FlowId
from dextools.cli.invocation import Invocation

_EPOCH = datetime.fromtimestamp(0, UTC)


class PointType(StrEnum):
    """What names the point."""

    BEGINNING = "beginning"
    HISTORY_EVENT_TIME = "history-event-time"
    STEP_TYPE = "step-type"
    STEP_EXECUTION_ID = "step-execution-id"


class StepMethod(StrEnum):
    """Which method of a Step execution is redone."""

    WAIT_FOR = "wait-for"
    EXECUTE = "execute"


_TYPE_NUMBERS = {point_type: number for number, point_type in enumerate(PointType)}
_METHOD_NUMBERS = {StepMethod.WAIT_FOR: 1, StepMethod.EXECUTE: 2}


Point = Annotated[
    PointType,
    typer.Option(
        "--type",
        help="What names the point: beginning; history-event-time: before the first event at or after the instant "
        "--to; step-type: before the latest execution of the Step --to; step-execution-id: before --method of the "
        "Step execution --to.",
    ),
]
To = Annotated[
    str,
    typer.Option(
        help="The point: an instant as RFC 3339 with a zone, a Step type, or a Step execution ID as ShipStep-1.",
        metavar="POINT",
    ),
]
Redone = Annotated[
    StepMethod | None, typer.Option(help="What to redo of the Step execution; for step-execution-id only.")
]
SkipWrites = Annotated[
    bool,
    typer.Option(
        "--skip-writes-reapply",
        help="Drop RPC effects, publications, Attribute writes and deletions of messages that came later, instead "
        "of applying them again.",
    ),
]


def time_travel(
    call: Invocation,
    flow_id: FlowId,
    point_type: Point,
    to: To = "",
    method: Redone = None,
    skip_writes_reapply: SkipWrites = False,
    reason: Annotated[str, typer.Option(help="Why; shown in history.")] = "",
    request_id: Annotated[
        str, typer.Option(help="Makes a repeat of this call harmless: same ID, same answer.", metavar="TEXT")
    ] = "",
) -> None:
    """Begin a run that goes on from an earlier point of a Flow, open or closed."""
    request = travel_request(point_type, to, method)
    request.flow_id, request.request_id = flow_id, request_id
    request.reason, request.skip_writes_reapply = reason, skip_writes_reapply
    with call.connection() as connection:
        reply = connection.call(connection.flows.TimeTravel, request)
    call.output.fields({"flow_id": flow_id, "run_id": reply.run_id})


def travel_request(point_type: PointType, to: str, method: StepMethod | None) -> pb.TimeTravelRequest:
    """Give which point is meant; BadParameter if the options do not fit each other."""
    request = pb.TimeTravelRequest(type=_TYPE_NUMBERS[point_type])
    if bool(to) is (point_type is PointType.BEGINNING):
        raise typer.BadParameter(f"--type {point_type} {'does not take' if to else 'needs'} --to")
    if (method is not None) is not (point_type is PointType.STEP_EXECUTION_ID):
        raise typer.BadParameter(f"--type {point_type} {'needs' if method is None else 'does not take'} --method")
    if point_type is PointType.HISTORY_EVENT_TIME:
        request.history_event_time = _to_instant_ms(to)
    elif point_type is PointType.STEP_TYPE:
        request.step_type = to
    elif method is not None:
        request.step_execution_id, request.step_method = to, _METHOD_NUMBERS[method]
    return request


def _to_instant_ms(text: str) -> int:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"--to {text!r}: {error}") from error
    if instant.tzinfo is None:
        raise typer.BadParameter(f"--to {text!r} needs a time zone, e.g. {text}Z")
    return -(-(instant - _EPOCH) // timedelta(milliseconds=1))
