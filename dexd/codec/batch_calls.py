"""What a batch job does to each target, as the calls that a client makes for one Flow [BATCH-1].

A job keeps the request message of the call, without Flow and request ID; these are filled in for each target, and what
comes out is the same command that a client's call is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from dexd.codec.content_digest import content_digest
from dexd.codec.flow_requests import Minted, to_publish, to_set_attribute, to_stop_flow
from dexd.codec.request_checks import invalid
from dexd.codec.time_travel_requests import TimeTravelQuery, to_time_travel
from dexd.core.commands import ClientCommand
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.ids import FlowId, RequestId
from dexd.core.jobs.commands import ReachTarget
from dexd.core.jobs.events import JobKind, Operation
from dexd.core.rejections import Rejection
from dexpb.v1 import flow_service_pb2 as pb


class _Kind(NamedTuple):
    """One row: what stands in CreateBatchRequest, and how it is read as a command."""

    field: str
    request_type: type[Message]
    read: Callable[[Any, RequestId], Any]


_KINDS: dict[JobKind, _Kind] = {
    JobKind.STOP: _Kind("stop", pb.StopFlowRequest, to_stop_flow),
    JobKind.PUBLISH: _Kind("publish", pb.PublishRequest, to_publish),
    JobKind.TIME_TRAVEL: _Kind("time_travel", pb.TimeTravelRequest, lambda call, fresh: _to_travel(call, fresh)),
    JobKind.SET_ATTRIBUTE: _Kind("set_attribute", pb.SetAttributeRequest, to_set_attribute),
}

_ANY_FLOW = FlowId("any")
_ANY_REQUEST = RequestId("any")


def to_operation(request: pb.CreateBatchRequest) -> Operation | Rejection:
    """Read what is to be done, and refuse what no single call could do [GEN-2]."""
    field = request.WhichOneof("operation")
    kind = next((kind for kind, row in _KINDS.items() if row.field == field), None)
    if kind is None:
        return invalid("operation", "a batch needs an operation: stop, publish, set_attribute or time_travel")
    call: Any = getattr(request, str(field))
    if call.flow_id or getattr(call, "run_id", "") or call.request_id:
        return invalid(
            str(field), "a batch chooses Flows by its query, the call must name neither Flow, run nor request"
        )
    operation = Operation(kind, call.SerializeToString(deterministic=True))
    refused = _call(operation, _ANY_FLOW, _ANY_REQUEST)
    return refused if isinstance(refused, Rejection) else operation


def call_of(reach: ReachTarget) -> ClientCommand | None:
    """The command that the operation is for this target; None for time travel, which is more than a command."""
    if reach.operation.kind is JobKind.TIME_TRAVEL:
        return None
    command: ClientCommand | Rejection = _call(reach.operation, reach.flow_id, reach.request_id)
    assert not isinstance(command, Rejection), "it was checked when the job was created"
    return command


def travel_of(reach: ReachTarget) -> TimeTravelQuery:
    """The time travel that the operation is for this target."""
    query: TimeTravelQuery | Rejection = _call(reach.operation, reach.flow_id, reach.request_id)
    assert not isinstance(query, Rejection), "it was checked when the job was created"
    return query


def _to_travel(request: pb.TimeTravelRequest, request_id: RequestId) -> TimeTravelQuery | Rejection:
    # A repeat after a crash must find the run that it made.
    run_id = derived_run_id(f"{request_id}/{request.flow_id}")
    return to_time_travel(request, Minted(run_id, int(run_id[:15], 16), request_id))


def digest_of(query: str, operation: Operation, rate: float) -> bytes:
    """Tell requests with other content apart [GEN-8]."""
    return content_digest("batch", query, operation.kind.name, operation.request, repr(rate))


def _call(operation: Operation, flow_id: FlowId, request_id: RequestId) -> Any:
    row = _KINDS[operation.kind]
    message: Any = row.request_type.FromString(operation.request)
    message.flow_id, message.request_id = flow_id, request_id
    return row.read(message, request_id)
