"""FlowService requests that change something, as commands, or as the refusal that names the field and what is allowed.

Nothing that fails here has touched anything [GEN-2]. `flow_queries` has those that only read,
`flow_replies` is the other direction.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

import msgspec

from dexd.codec.content_digest import content_digest
from dexd.codec.faults import key_fault, locks_fault, name_fault, plan_fault
from dexd.codec.index_writes import IndexValueTooLargeError, writes_of_proto
from dexd.codec.request_checks import (
    invalid,
    optional_run_id,
    refuse_fault,
    refuse_new_flow_id,
    refuse_outside,
    refuse_owned_name,
    refuse_request_id,
    refuse_size,
    refuse_step_execution_id,
    refuse_target,
    refuse_value,
    refuse_values,
)
from dexd.codec.standings import standing_fault, standing_of_proto
from dexd.codec.start_options import config_of_proto, terms_of_proto
from dexd.codec.step_plans import plan_of_start_step
from dexd.core.commands import (
    ContinueAsNew,
    DeleteMessage,
    InvokeRpc,
    PublishMessages,
    SetAttribute,
    SkipTimer,
    StartFlow,
    StopFlow,
    UpdateFlowConfig,
)
from dexd.core.config import CONDITIONS_MAX, MAP_INSTANCES_MAX
from dexd.core.ids import CallerId, FlowId, MessageId, RequestId, RunId, StepExecutionId
from dexd.core.index_values import IndexWrite
from dexd.core.rejections import Code, Rejection
from dexd.core.values import IdReusePolicy, StepPlan, StopType, TimerId
from dexpb.v1 import flow_service_pb2 as pb

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


def to_start_flow(
    request: pb.StartFlowRequest, minted: Minted, start_steps: Mapping[str, StepPlan | None]
) -> StartFlow | Rejection:
    """Read a start; `start_steps` says how the Flow types of registered workers begin.

    The digest covers Flow type, input and initial Attributes, whatever their order [START-3].
    """
    # Each look at a field of a message makes a new object, so every field is looked at once.
    flow_id, flow_type, request_id, value = request.flow_id, request.flow_type, request.request_id, request.input
    standing = request.standing if request.HasField("standing") else None
    initial = request.attributes
    refusal = (
        refuse_new_flow_id(flow_id)
        or refuse_owned_name(flow_type, "flow_type")
        or refuse_request_id(request_id)
        or refuse_value(value, "input")
        or (_refuse_attributes(initial) if initial else None)
        or (None if standing is None else refuse_fault(standing_fault(standing), "standing"))
    )
    if refusal is not None:
        return refusal
    start_step = _start_step(request, flow_type, value, start_steps)
    policy = _POLICIES.get(request.id_reuse_policy)
    if type(start_step) is Rejection:
        return start_step
    if policy is None:
        return _refuse_number(IdReusePolicy, request.id_reuse_policy, "id_reuse_policy")
    # Most starts have none, and walking an empty repeated field costs more than all checks of names.
    attributes = tuple(sorted((item.key, item.value) for item in initial)) if initial else ()
    indexed = _indexed(request.indexed) if attributes else ()
    if type(indexed) is Rejection:
        return indexed
    try:
        options = request.options if request.HasField("options") else None
        terms = None if options is None else terms_of_proto(options, start_step, attributes, indexed)
    except ValueError as error:
        return invalid("options", str(error))
    return StartFlow(
        FlowId(flow_id),
        flow_type,
        minted.run_id,
        minted.seed,
        RequestId(request_id) if request_id else minted.request_id,
        content_digest("start", flow_type, value, *(part for pair in attributes for part in pair)),
        start_step,
        attributes,
        policy,
        terms=terms,
        standing=None if standing is None else standing_of_proto(standing),
        indexed=indexed,
    )


def to_publish(request: pb.PublishRequest, fresh: RequestId) -> PublishMessages | Rejection:
    """Read a publication of at least one message [CHAN-2]."""
    refusal = (
        refuse_target(request.flow_id, request.run_id, request.request_id)
        or refuse_fault(key_fault(request.channel, "channel"), "channel")
        or refuse_values(request.values)
    )
    if refusal is not None:
        return refusal
    return PublishMessages(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        request.channel,
        tuple(request.values),
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("publish", request.channel, *request.values),
    )


def to_set_attribute(request: pb.SetAttributeRequest, fresh: RequestId) -> SetAttribute | Rejection:
    """Read a write or deletion of an Attribute [ATTR-5]."""
    refusal = (
        refuse_target(request.flow_id, request.run_id, request.request_id)
        or refuse_fault(key_fault(request.key, "key"), "key")
        or refuse_value(request.value, "value")
    )
    if refusal is not None:
        return refusal
    value = request.value if request.HasField("value") else None
    indexed = _indexed(request.indexed) if len(request.indexed) else ()
    if type(indexed) is Rejection:
        return indexed
    return SetAttribute(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        request.key,
        value,
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("set_attribute", request.key, *(() if value is None else (value,))),
        indexed,
    )


def to_delete_message(request: pb.DeleteChannelMessageRequest, fresh: RequestId) -> DeleteMessage | Rejection:
    """Read which pending message is to be deleted [CHAN-9]."""
    refusal = (
        refuse_target(request.flow_id, request.run_id, request.request_id)
        or refuse_fault(key_fault(request.channel, "channel"), "channel")
        or refuse_fault(name_fault(request.message_id, "message_id"), "message_id")
    )
    if refusal is not None:
        return refusal
    return DeleteMessage(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        request.channel,
        MessageId(request.message_id),
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("delete_message", request.channel, request.message_id),
    )


def to_skip_timer(request: pb.SkipTimerRequest, fresh: RequestId) -> SkipTimer | Rejection:
    """Read which Timer is to be skipped: by its condition ID, or by its position among the Timers [TIMER-8]."""
    condition_id, index = request.condition_id, request.condition_index
    refusal = (
        refuse_target(request.flow_id, request.run_id, request.request_id)
        or refuse_step_execution_id(request.step_execution_id)
        or (refuse_fault(name_fault(condition_id, "condition_id"), "condition_id") if condition_id else None)
        or refuse_outside(index, "condition_index", 0, 0 if condition_id else CONDITIONS_MAX - 1)
    )
    if refusal is not None:
        return refusal
    return SkipTimer(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        StepExecutionId(request.step_execution_id),
        TimerId(condition_id, index),
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("skip_timer", request.step_execution_id, condition_id, str(index)),
    )


def to_update_flow_config(request: pb.UpdateFlowConfigRequest, fresh: RequestId) -> UpdateFlowConfig | Rejection:
    """Read a change of settings [CFG-2]."""
    refusal = refuse_target(request.flow_id, request.run_id, request.request_id)
    if refusal is not None:
        return refusal
    try:
        config = config_of_proto(request.config)
    except ValueError as error:
        return invalid("config", str(error))
    return UpdateFlowConfig(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        config,
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("update_config", msgspec.msgpack.encode(config)),
    )


def to_continue_as_new(request: pb.TriggerContinueAsNewRequest, fresh: RequestId) -> ContinueAsNew | Rejection:
    """Read the wish that another run continues a Flow now [ROLL-2]."""
    return refuse_target(request.flow_id, request.run_id, request.request_id) or ContinueAsNew(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("continue_as_new"),
    )


def to_stop_flow(request: pb.StopFlowRequest, fresh: RequestId) -> StopFlow | Rejection:
    """Read a stop [STOP-1]."""
    refusal = refuse_target(request.flow_id, request.run_id, request.request_id)
    if refusal is None and len(request.reason) > REASON_LENGTH_MAX:
        refusal = invalid("reason", f"reason has {len(request.reason)} characters, allowed are {REASON_LENGTH_MAX}")
    if refusal is not None:
        return refusal
    stop_type = _enum(StopType, request.type, "type")
    if type(stop_type) is Rejection:
        return stop_type
    return StopFlow(
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        stop_type,
        request.reason,
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("stop", stop_type.name, request.reason),
    )


def to_invoke_rpc(
    request: pb.InvokeRpcRequest, fresh: RequestId, *, now: int, timeout_default_ms: int, time_left_ms: int | None
) -> Callable[[CallerId], InvokeRpc] | Rejection:
    """Read an RPC call; the engine names the caller that waits for its answer.

    The handler's timeout is at most 60 s; the whole call ends with the caller's own deadline, and
    after 60 s in any case [RPC-7].
    """
    refusal = (
        refuse_target(request.flow_id, request.run_id, request.request_id)
        or refuse_owned_name(request.name, "name")
        or refuse_value(request.input, "input")
        or refuse_outside(request.timeout_ms, "timeout_ms", 0, RPC_TIMEOUT_MS_MAX)
        or (refuse_fault(locks_fault(request.locks), "locks") if request.locks else None)
    )
    if refusal is not None:
        return refusal
    whole_ms = RPC_TIMEOUT_MS_MAX if time_left_ms is None else max(0, min(time_left_ms, RPC_TIMEOUT_MS_MAX))
    return lambda caller: InvokeRpc(
        caller,
        FlowId(request.flow_id),
        optional_run_id(request.run_id),
        request.name,
        request.input,
        RequestId(request.request_id) if request.request_id else fresh,
        content_digest("rpc", request.name, request.input),
        request.timeout_ms or timeout_default_ms,
        now + whole_ms,
        tuple(request.locks),
        request.is_transactional,
        request.resolve_terms,
    )


def _start_step(
    request: pb.StartFlowRequest, flow_type: str, value: bytes, start_steps: Mapping[str, StepPlan | None]
) -> StepPlan | Rejection | None:
    if request.HasField("start_step"):
        try:
            plan = plan_of_start_step(request.start_step, value)
        except ValueError as error:
            return invalid("start_step", str(error))
        return refuse_fault(plan_fault(plan), "start_step") or plan
    if not request.resolve_start_step:
        return None
    if flow_type not in start_steps:
        return Rejection(
            Code.UNKNOWN_FLOW_TYPE,
            f"no worker has registered Flow type {flow_type!r}, so how it begins is unknown",
            {"flow_type": flow_type},
        )
    known = start_steps[flow_type]
    return None if known is None else StepPlan(known.step_type, value, known.has_wait_for, known.options)


_POLICIES: Mapping[int, IdReusePolicy] = {policy.value: policy for policy in IdReusePolicy}


def _enum(kind: type[Kind], number: int, field: str) -> Kind | Rejection:
    try:
        return kind(number)
    except ValueError:
        return _refuse_number(kind, number, field)


def _refuse_number(kind: type[IntEnum], number: int, field: str) -> Rejection:
    allowed = ", ".join(f"{member.value} ({member.name})" for member in kind)
    return invalid(field, f"{field} is {number}, allowed are {allowed}")


def _indexed(writes: Sequence[pb.IndexWrite]) -> tuple[IndexWrite, ...] | Rejection:
    try:
        return writes_of_proto(writes)
    except IndexValueTooLargeError as error:
        fields = {"what": error.what, "size": str(error.size), "limit": str(error.limit)}
        return Rejection(Code.VALUE_TOO_LARGE, str(error), fields)
    except ValueError as error:
        return invalid("indexed", str(error))


def _refuse_attributes(attributes: Sequence[pb.AttributeValue]) -> Rejection | None:
    keys = dict.fromkeys(attribute.key for attribute in attributes)
    if len(keys) != len(attributes):
        return invalid("attributes", "an Attribute key occurs more than once")
    if len(keys) > MAP_INSTANCES_MAX:
        return refuse_size("attributes", len(keys), MAP_INSTANCES_MAX)
    for attribute in attributes:
        refusal = refuse_fault(key_fault(attribute.key, "Attribute"), "attributes")
        refusal = refusal or refuse_value(attribute.value, f"Attribute {attribute.key!r}")
        if refusal is not None:
            return refusal
    return None
