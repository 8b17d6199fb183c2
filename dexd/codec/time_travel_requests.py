"""Time travel as clients ask for it, checked: exactly what the type of selector needs [TT-2, TT-3]."""

from typing import Literal, TypeAlias

import msgspec

from dexd.codec.content_digest import content_digest
from dexd.codec.faults import name_fault
from dexd.codec.flow_requests import REASON_LENGTH_MAX, Minted
from dexd.codec.request_checks import invalid, refuse_fault, refuse_step_execution_id, refuse_target
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.rejections import Rejection
from dexd.core.values import Method
from dexpb.v1 import flow_service_pb2 as pb

_METHODS = {1: Method.WAIT_FOR, 2: Method.EXECUTE}

Field: TypeAlias = Literal["history_event_time", "step_type", "step_execution_id", "step_method"]

_FIELDS: dict[TimeTravelType, tuple[Field, ...]] = {
    TimeTravelType.BEGINNING: (),
    TimeTravelType.HISTORY_EVENT_TIME: ("history_event_time",),
    TimeTravelType.STEP_TYPE: ("step_type",),
    TimeTravelType.STEP_EXECUTION_ID: ("step_execution_id", "step_method"),
}
"""What each type needs; all other selector fields must be absent."""


class TimeTravelQuery(msgspec.Struct, frozen=True):
    """What a time travel is asked for; the engine makes a command of it when it knows the point."""

    flow_id: FlowId
    new_run_id: RunId
    """Used only if a run really begins."""
    selector: Selector
    reason: str
    is_dropping_writes: bool
    request_id: RequestId
    digest: bytes


def to_time_travel(request: pb.TimeTravelRequest, minted: Minted) -> TimeTravelQuery | Rejection:
    """Read a time travel."""
    refusal = refuse_target(request.flow_id, "", request.request_id)
    if refusal is None and len(request.reason) > REASON_LENGTH_MAX:
        refusal = invalid("reason", f"reason has {len(request.reason)} characters, allowed are {REASON_LENGTH_MAX}")
    if refusal is not None:
        return refusal
    selector = _to_selector(request)
    if isinstance(selector, Rejection):
        return selector
    return TimeTravelQuery(
        FlowId(request.flow_id),
        minted.run_id,
        selector,
        request.reason,
        request.skip_writes_reapply,
        RequestId(request.request_id) if request.request_id else minted.request_id,
        _digest(request),
    )


def _to_selector(request: pb.TimeTravelRequest) -> Selector | Rejection:
    try:
        kind = TimeTravelType(request.type)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name})" for member in TimeTravelType)
        return invalid("type", f"type is {request.type}, allowed are {allowed}")
    needed = _FIELDS[kind]
    for field in dict.fromkeys(field for fields in _FIELDS.values() for field in fields):
        if request.HasField(field) != (field in needed):
            verb = "needs" if field in needed else "does not take"
            return invalid(field, f"time travel of type {kind.name} {verb} {field}")
    if kind is TimeTravelType.STEP_TYPE:
        refusal = refuse_fault(name_fault(request.step_type, "step_type"), "step_type")
    elif kind is TimeTravelType.STEP_EXECUTION_ID:
        refusal = refuse_step_execution_id(request.step_execution_id)
        if refusal is None and request.step_method not in _METHODS:
            allowed = ", ".join(f"{number} ({method.name})" for number, method in _METHODS.items())
            refusal = invalid("step_method", f"step_method is {request.step_method}, allowed are {allowed}")
    else:
        refusal = None
    if refusal is not None:
        return refusal
    return Selector(
        kind,
        request.history_event_time,
        request.step_type,
        StepExecutionId(request.step_execution_id),
        _METHODS.get(request.step_method),
    )


def _digest(request: pb.TimeTravelRequest) -> bytes:
    return content_digest(
        "time_travel",
        str(request.type),
        str(request.history_event_time),
        request.step_type,
        request.step_execution_id,
        str(request.step_method),
        request.reason,
        str(request.skip_writes_reapply),
    )
