"""FlowService requests as commands and queries, or as the refusal that names the field, its value and what is allowed.

Nothing that fails here has touched anything [GEN-2]. `flow_replies` is the other direction.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from dexd.codec.attribute_match import to_match
from dexd.codec.faults import VALUE_BYTES_MAX, key_fault, locks_fault, name_fault, owned_name_fault, plan_fault
from dexd.codec.standings import standing_fault, standing_of_proto
from dexd.codec.start_options import config_of_proto, terms_of_proto
from dexd.codec.step_plans import plan_of_start_step
from dexd.core.commands import (
    DeleteMessage,
    InvokeRpc,
    PublishMessages,
    SetAttribute,
    SkipTimer,
    StartFlow,
    StopFlow,
    UpdateFlowConfig,
)
from dexd.core.config import CONDITIONS_MAX, PENDING_MESSAGES_MAX
from dexd.core.ids import CallerId, FlowId, MessageId, RequestId, RunId, StepExecutionId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowStatus, IdReusePolicy, StepPlan, StopType, TimerId
from dexd.log.event_log import RunFilter
from dexpb.v1 import flow_service_pb2 as pb

PAGE_SIZE_DEFAULT = 100
HISTORY_PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_MAX = 1_000
"""Rows of a page [HIST-5, SEARCH-8]."""

REASON_LENGTH_MAX = 16 * 1024
"""Characters of a stop reason; it becomes the Flow's error message."""

RPC_TIMEOUT_MS_MAX = 60_000
"""Longest handler timeout and longest whole call [RPC-7]."""

Kind = TypeVar("Kind", IdReusePolicy, StopType)


class Minted(msgspec.Struct, frozen=True):
    """What a command may need that only the shell can make."""

    run_id: RunId
    seed: int
    request_id: RequestId
    """Used if the caller gave none [START-6]."""


class RunKey(msgspec.Struct, frozen=True):
    """Names the latest run of a Flow ID, or one run of it [ID-5]."""

    flow_id: FlowId
    run_id: RunId | None


class HistoryQuery(msgspec.Struct, frozen=True):
    """A page of history."""

    key: RunKey
    from_event_id: int
    limit: int


class AttributeQuery(msgspec.Struct, frozen=True):
    """One Attribute."""

    key: RunKey
    name: str


class MessagesQuery(msgspec.Struct, frozen=True):
    """A page of one Channel."""

    key: RunKey
    channel: str
    after: str
    limit: int


class FlowWaitQuery(msgspec.Struct, frozen=True):
    """A wait for the end of a Flow."""

    flow_id: FlowId
    wait_ms: int
    first_run_id: RunId | None


class StepWaitQuery(msgspec.Struct, frozen=True):
    """A wait for the end of a Step execution."""

    flow_id: FlowId
    step_execution_id: StepExecutionId
    wait_ms: int


class AttributeWaitQuery(msgspec.Struct, frozen=True):
    """A wait for a value of an Attribute."""

    flow_id: FlowId
    name: str
    matches: Callable[[bytes | None], bool]
    wait_ms: int


class ListQuery(msgspec.Struct, frozen=True):
    """A page of Flows."""

    selection: RunFilter
    limit: int


# ---- commands ---------------------------------------------------------------------------------------------------


def to_start_flow(
    request: pb.StartFlowRequest, minted: Minted, start_steps: Mapping[str, StepPlan | None]
) -> StartFlow | Rejection:
    """Read a start; `start_steps` says how the Flow types of registered workers begin.

    The digest covers Flow type, input and initial Attributes, whatever their order [START-3].
    """
    refusal = (
        _refuse_owned_name(request.flow_id, "flow_id")
        or _refuse_owned_name(request.flow_type, "flow_type")
        or _refuse_request_id(request.request_id)
        or _refuse_value(request.input, "input")
        or _refuse_attributes(request.attributes)
        or (_refuse_fault(standing_fault(request.standing), "standing") if request.HasField("standing") else None)
    )
    if refusal is not None:
        return refusal
    start_step = _start_step(request, start_steps)
    policy = _enum(IdReusePolicy, request.id_reuse_policy, "id_reuse_policy")
    if isinstance(start_step, Rejection):
        return start_step
    if isinstance(policy, Rejection):
        return policy
    # Most starts have none, and walking an empty repeated field costs more than all checks of names.
    has_attributes = len(request.attributes) > 0
    attributes = tuple(sorted((item.key, item.value) for item in request.attributes)) if has_attributes else ()
    try:
        options = request.options if request.HasField("options") else None
        terms = None if options is None else terms_of_proto(options, start_step, attributes)
    except ValueError as error:
        return _invalid("options", str(error))
    return StartFlow(
        FlowId(request.flow_id),
        request.flow_type,
        minted.run_id,
        minted.seed,
        RequestId(request.request_id) if request.request_id else minted.request_id,
        _digest("start", request.flow_type, request.input, *(part for pair in attributes for part in pair)),
        start_step,
        attributes,
        policy,
        terms=terms,
        standing=standing_of_proto(request.standing) if request.HasField("standing") else None,
    )


def to_publish(request: pb.PublishRequest, fresh: RequestId) -> PublishMessages | Rejection:
    """Read a publication of at least one message [CHAN-2]."""
    refusal = (
        _refuse_target(request.flow_id, request.run_id, request.request_id)
        or _refuse_fault(key_fault(request.channel, "channel"), "channel")
        or _refuse_values(request.values)
    )
    if refusal is not None:
        return refusal
    return PublishMessages(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        request.channel,
        tuple(request.values),
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("publish", request.channel, *request.values),
    )


def to_set_attribute(request: pb.SetAttributeRequest, fresh: RequestId) -> SetAttribute | Rejection:
    """Read a write or deletion of an Attribute [ATTR-5]."""
    refusal = (
        _refuse_target(request.flow_id, request.run_id, request.request_id)
        or _refuse_fault(key_fault(request.key, "key"), "key")
        or _refuse_value(request.value, "value")
    )
    if refusal is not None:
        return refusal
    value = request.value if request.HasField("value") else None
    return SetAttribute(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        request.key,
        value,
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("set_attribute", request.key, *(() if value is None else (value,))),
    )


def to_delete_message(request: pb.DeleteChannelMessageRequest, fresh: RequestId) -> DeleteMessage | Rejection:
    """Read which pending message is to be deleted [CHAN-9]."""
    refusal = (
        _refuse_target(request.flow_id, request.run_id, request.request_id)
        or _refuse_fault(key_fault(request.channel, "channel"), "channel")
        or _refuse_fault(name_fault(request.message_id, "message_id"), "message_id")
    )
    if refusal is not None:
        return refusal
    return DeleteMessage(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        request.channel,
        MessageId(request.message_id),
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("delete_message", request.channel, request.message_id),
    )


def to_skip_timer(request: pb.SkipTimerRequest, fresh: RequestId) -> SkipTimer | Rejection:
    """Read which Timer is to be skipped: by its condition ID, or by its position among the Timers [TIMER-8]."""
    condition_id, index = request.condition_id, request.condition_index
    refusal = (
        _refuse_target(request.flow_id, request.run_id, request.request_id)
        or _refuse_step_execution_id(request.step_execution_id)
        or (_refuse_fault(name_fault(condition_id, "condition_id"), "condition_id") if condition_id else None)
        or _refuse_outside(index, "condition_index", 0, 0 if condition_id else CONDITIONS_MAX - 1)
    )
    if refusal is not None:
        return refusal
    return SkipTimer(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        StepExecutionId(request.step_execution_id),
        TimerId(condition_id, index),
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("skip_timer", request.step_execution_id, condition_id, str(index)),
    )


def to_update_flow_config(request: pb.UpdateFlowConfigRequest, fresh: RequestId) -> UpdateFlowConfig | Rejection:
    """Read a change of settings [CFG-2]."""
    refusal = _refuse_target(request.flow_id, request.run_id, request.request_id)
    if refusal is not None:
        return refusal
    try:
        config = config_of_proto(request.config)
    except ValueError as error:
        return _invalid("config", str(error))
    return UpdateFlowConfig(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        config,
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("update_config", msgspec.msgpack.encode(config)),
    )


def to_stop_flow(request: pb.StopFlowRequest, fresh: RequestId) -> StopFlow | Rejection:
    """Read a stop [STOP-1]."""
    refusal = _refuse_target(request.flow_id, request.run_id, request.request_id)
    if refusal is None and len(request.reason) > REASON_LENGTH_MAX:
        refusal = _invalid("reason", f"reason has {len(request.reason)} characters, allowed are {REASON_LENGTH_MAX}")
    if refusal is not None:
        return refusal
    stop_type = _enum(StopType, request.type, "type")
    if isinstance(stop_type, Rejection):
        return stop_type
    return StopFlow(
        FlowId(request.flow_id),
        _run_id(request.run_id),
        stop_type,
        request.reason,
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("stop", stop_type.name, request.reason),
    )


def to_invoke_rpc(
    request: pb.InvokeRpcRequest, fresh: RequestId, *, now: int, timeout_default_ms: int, time_left_ms: int | None
) -> Callable[[CallerId], InvokeRpc] | Rejection:
    """Read an RPC call; the engine names the caller that waits for its answer.

    The handler's timeout is at most 60 s; the whole call ends with the caller's own deadline, and
    after 60 s in any case [RPC-7].
    """
    refusal = (
        _refuse_target(request.flow_id, request.run_id, request.request_id)
        or _refuse_owned_name(request.name, "name")
        or _refuse_value(request.input, "input")
        or _refuse_outside(request.timeout_ms, "timeout_ms", 0, RPC_TIMEOUT_MS_MAX)
        or (_refuse_fault(locks_fault(request.locks), "locks") if request.locks else None)
    )
    if refusal is not None:
        return refusal
    whole_ms = RPC_TIMEOUT_MS_MAX if time_left_ms is None else max(0, min(time_left_ms, RPC_TIMEOUT_MS_MAX))
    return lambda caller: InvokeRpc(
        caller,
        FlowId(request.flow_id),
        _run_id(request.run_id),
        request.name,
        request.input,
        RequestId(request.request_id) if request.request_id else fresh,
        _digest("rpc", request.name, request.input),
        request.timeout_ms or timeout_default_ms,
        now + whole_ms,
        tuple(request.locks),
        request.is_transactional,
        request.resolve_terms,
    )


# ---- queries ----------------------------------------------------------------------------------------------------


def to_run_key(request: pb.DescribeFlowRequest) -> RunKey | Rejection:
    """Read whose state is wanted."""
    return _refuse_run(request.flow_id, request.run_id) or _run_key(request.flow_id, request.run_id)


def to_attribute_query(request: pb.GetAttributeRequest) -> AttributeQuery | Rejection:
    """Read which Attribute is wanted."""
    refusal = _refuse_run(request.flow_id, request.run_id) or _refuse_fault(key_fault(request.key, "key"), "key")
    return refusal or AttributeQuery(_run_key(request.flow_id, request.run_id), request.key)


def to_messages_query(request: pb.ListChannelMessagesRequest) -> MessagesQuery | Rejection:
    """Read which pending messages are wanted [CHAN-9]."""
    limit = request.page_size or PAGE_SIZE_MAX
    refusal = (
        _refuse_run(request.flow_id, request.run_id)
        or _refuse_fault(key_fault(request.channel, "channel"), "channel")
        or _refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    )
    key = _run_key(request.flow_id, request.run_id)
    return refusal or MessagesQuery(key, request.channel, request.after_message_id, limit)


def to_history_query(request: pb.GetHistoryRequest) -> HistoryQuery | Rejection:
    """Read which page of history is wanted; event id 0 means the first."""
    limit = request.page_size or HISTORY_PAGE_SIZE_DEFAULT
    refusal = (
        _refuse_run(request.flow_id, request.run_id)
        or _refuse_negative(request.from_event_id, "from_event_id")
        or _refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    )
    return refusal or HistoryQuery(_run_key(request.flow_id, request.run_id), max(1, request.from_event_id), limit)


def to_watch_query(request: pb.WatchHistoryRequest) -> HistoryQuery | Rejection:
    """Read from where history is to be followed."""
    refusal = _refuse_run(request.flow_id, request.run_id) or _refuse_negative(request.from_event_id, "from_event_id")
    key = _run_key(request.flow_id, request.run_id)
    return refusal or HistoryQuery(key, max(1, request.from_event_id), HISTORY_PAGE_SIZE_DEFAULT)


def to_flow_wait_query(request: pb.WaitForFlowRequest, *, wait_ms_max: int) -> FlowWaitQuery | Rejection:
    """Read a wait for a Flow; one poll is held at most `wait_ms_max` [WAITAPI-1]."""
    refusal = _refuse_run(request.flow_id, request.first_run_id) or _refuse_outside(
        request.wait_ms, "wait_ms", 0, wait_ms_max
    )
    return refusal or FlowWaitQuery(FlowId(request.flow_id), request.wait_ms, _run_id(request.first_run_id))


def to_attribute_wait_query(request: pb.WaitForAttributeRequest, *, wait_ms_max: int) -> AttributeWaitQuery | Rejection:
    """Read a wait for a value of an Attribute [WAITAPI-4]."""
    refusal = (
        _refuse_run(request.flow_id, "")
        or _refuse_fault(key_fault(request.key, "key"), "key")
        or _refuse_outside(request.wait_ms, "wait_ms", 0, wait_ms_max)
    )
    if refusal is not None:
        return refusal
    try:
        matches = to_match(request.operator, request.operand, is_instant=request.is_instant)
    except ValueError as error:
        return _invalid("operand", str(error))
    return AttributeWaitQuery(FlowId(request.flow_id), request.key, matches, request.wait_ms)


def to_step_wait_query(request: pb.WaitForStepCompletionRequest, *, wait_ms_max: int) -> StepWaitQuery | Rejection:
    """Read a wait for a Step execution, whose ID is split at the last hyphen [ID-6, WAITAPI-3]."""
    refusal = (
        _refuse_run(request.flow_id, "")
        or _refuse_outside(request.wait_ms, "wait_ms", 0, wait_ms_max)
        or _refuse_step_execution_id(request.step_execution_id)
    )
    if refusal is not None:
        return refusal
    return StepWaitQuery(FlowId(request.flow_id), StepExecutionId(request.step_execution_id), request.wait_ms)


def to_list_query(request: pb.ListFlowsRequest) -> ListQuery | Rejection:
    """Read a page request; a token continues only the list that it came from [SEARCH-8]."""
    limit = request.page_size or PAGE_SIZE_DEFAULT
    refusal = _refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    if refusal is None and request.status and request.status not in FlowStatus.__members__:
        allowed = ", ".join(FlowStatus.__members__)
        refusal = _invalid("status", f"status is {request.status[:255]!r}, allowed are {allowed}")
    if refusal is not None:
        return refusal
    selection = RunFilter(
        request.flow_type,
        FlowStatus[request.status] if request.status else 0,
        request.flow_id_prefix,
    )
    if not request.page_token:
        return ListQuery(selection, limit)
    position = _position(request.page_token, selection)
    if position is None:
        return _invalid("page_token", "page_token does not belong to this list")
    return ListQuery(msgspec.structs.replace(selection, before_stream_id=position), limit)


def page_token(selection: RunFilter, before_stream_id: int) -> str:
    """Make the token of the page that follows that stream."""
    content = msgspec.msgpack.encode((before_stream_id, _selection_digest(selection)))
    return base64.urlsafe_b64encode(content).decode()


def _position(token: str, selection: RunFilter) -> int | None:
    try:
        content = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        position, digest = msgspec.msgpack.decode(content, type=tuple[int, bytes])
    except (ValueError, msgspec.DecodeError):
        return None
    return position if digest == _selection_digest(selection) and 0 < position < 2**63 else None


def _selection_digest(selection: RunFilter) -> bytes:
    return _digest("list", selection.flow_type, str(selection.status), selection.flow_id_prefix)[:8]


# ---- parts ------------------------------------------------------------------------------------------------------


def _start_step(
    request: pb.StartFlowRequest, start_steps: Mapping[str, StepPlan | None]
) -> StepPlan | Rejection | None:
    if request.HasField("start_step"):
        try:
            plan = plan_of_start_step(request.start_step, request.input)
        except ValueError as error:
            return _invalid("start_step", str(error))
        return _refuse_fault(plan_fault(plan), "start_step") or plan
    if not request.resolve_start_step:
        return None
    if request.flow_type not in start_steps:
        return Rejection(
            Code.UNKNOWN_FLOW_TYPE,
            f"no worker has registered Flow type {request.flow_type!r}, so how it begins is unknown",
            {"flow_type": request.flow_type},
        )
    known = start_steps[request.flow_type]
    return None if known is None else StepPlan(known.step_type, request.input, known.has_wait_for, known.options)


def _run_key(flow_id: str, run_id: str) -> RunKey:
    return RunKey(FlowId(flow_id), _run_id(run_id))


def _run_id(text: str) -> RunId | None:
    return RunId(text) if text else None


def _enum(kind: type[Kind], number: int, field: str) -> Kind | Rejection:
    try:
        return kind(number)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name})" for member in kind)
        return _invalid(field, f"{field} is {number}, allowed are {allowed}")


def _digest(verb: str, *parts: str | bytes) -> bytes:
    """Hash a request's content; every part is preceded by its length, so that no two contents look alike."""
    digest = hashlib.sha256(verb.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


# ---- refusals; None means that nothing is wrong -------------------------------------------------------------------


def _invalid(field: str, message: str) -> Rejection:
    return Rejection(Code.INVALID_ARGUMENT, message, {"field": field})


def _refuse_fault(fault: str | None, field: str) -> Rejection | None:
    return None if fault is None else _invalid(field, fault)


def _refuse_owned_name(text: str, field: str) -> Rejection | None:
    return _refuse_fault(owned_name_fault(text, field), field)


def _refuse_run(flow_id: str, run_id: str) -> Rejection | None:
    fault = name_fault(flow_id, "flow_id")
    if fault is not None:
        return _invalid("flow_id", fault)
    return _refuse_fault(name_fault(run_id, "run_id"), "run_id") if run_id else None


def _refuse_request_id(request_id: str) -> Rejection | None:
    return _refuse_fault(name_fault(request_id, "request_id"), "request_id") if request_id else None


def _refuse_target(flow_id: str, run_id: str, request_id: str) -> Rejection | None:
    return _refuse_run(flow_id, run_id) or _refuse_request_id(request_id)


def _refuse_value(value: bytes, field: str) -> Rejection | None:
    if len(value) <= VALUE_BYTES_MAX:
        return None
    fields = {"what": field, "size": str(len(value)), "limit": str(VALUE_BYTES_MAX)}
    return Rejection(Code.VALUE_TOO_LARGE, f"{field} has {len(value)} bytes, the limit is {VALUE_BYTES_MAX}", fields)


def _refuse_values(values: Sequence[bytes]) -> Rejection | None:
    refusal = _refuse_outside(len(values), "values", 1, PENDING_MESSAGES_MAX)
    return refusal or next(filter(None, (_refuse_value(value, "value") for value in values)), None)


def _refuse_attributes(attributes: Sequence[pb.AttributeValue]) -> Rejection | None:
    if not attributes:
        return None
    keys = dict.fromkeys(attribute.key for attribute in attributes)
    if len(keys) != len(attributes):
        return _invalid("attributes", "an Attribute key occurs more than once")
    for attribute in attributes:
        refusal = _refuse_fault(key_fault(attribute.key, "Attribute"), "attributes")
        refusal = refusal or _refuse_value(attribute.value, f"Attribute {attribute.key!r}")
        if refusal is not None:
            return refusal
    return None


def _refuse_outside(number: int, field: str, smallest: int, largest: int) -> Rejection | None:
    if smallest <= number <= largest:
        return None
    return _invalid(field, f"{field} is {number}, allowed are {smallest} to {largest}")


def _refuse_negative(number: int, field: str) -> Rejection | None:
    return _invalid(field, f"{field} is {number}, allowed are 0 and more") if number < 0 else None


def _refuse_step_execution_id(text: str) -> Rejection | None:
    step_type, hyphen, number = text.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and not number.startswith("0") and len(number) <= 18
    if hyphen and is_number and name_fault(step_type, "Step type") is None:
        return None
    shown = text[:300]
    return Rejection(
        Code.STEP_NOT_FOUND,
        f"{shown!r} is not a Step execution ID, which is a Step type, a hyphen and a number from 1 on",
        {"step_execution_id": shown},
    )
