"""Options of a start as they travel, resolved by the Flow's code."""

from collections.abc import Sequence

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk._durations import optional_duration_ms
from dexsdk._registered import RegisteredFlow
from dexsdk._searches import to_index_writes
from dexsdk._start_requests import encode_initial_attributes, to_retry_policy, to_standing, to_step_options
from dexsdk.errors import FlowDefinitionError
from dexsdk.options import AttributeAssignment, FlowTimeoutPolicy, IdReusePolicy, StartFlowOptions

_REUSE_POLICY = {
    IdReusePolicy.DEFAULT: 0,
    IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED: 1,
    IdReusePolicy.ALLOW_IF_NOT_RUNNING: 2,
    IdReusePolicy.DISALLOW: 3,
    IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING: 4,
}
_POLICY = {FlowTimeoutPolicy.FAIL: 1, FlowTimeoutPolicy.CANCEL: 2, FlowTimeoutPolicy.HANDLER: 3}


def add_start_options(message: pb.StartFlowRequest, flow: RegisteredFlow, options: StartFlowOptions) -> None:
    """Put what a caller chose into a start, but for the request ID; most starts choose nothing.

    Raises:
        FlowDefinitionError: as ``to_start_options``, or an initial Attribute does not fit the Flow [FLOW-4, TYPE-2].
        ValueMappingError: an initial value cannot be encoded.
        ValueTooLargeError: an index value is larger than it may be [LIM-2].
    """
    message.id_reuse_policy = _REUSE_POLICY[options.id_reuse_policy]
    terms, standing = to_start_options(flow, options), to_standing(options)
    if terms is not None:
        message.options.CopyFrom(terms)
    if standing is not None:
        message.standing.CopyFrom(standing)
    if options.initial_attributes:
        place = f"start of Flow {flow.flow_type!r}"
        message.attributes.extend(encode_initial_attributes(flow, options.initial_attributes))
        message.indexed.extend(to_index_writes(initial_index_writes(flow, options.initial_attributes, place)))


def to_start_options(flow: RegisteredFlow, options: StartFlowOptions) -> pb.StartOptions | None:
    """Give what a start says beyond its input; None when it says nothing.

    Raises:
        FlowDefinitionError: a handler is asked for that the Flow does not have, or its options do not fit [TIME-2].
    """
    timeout_ms = optional_duration_ms(options.timeout, "timeout") or 0
    start_delay_ms = optional_duration_ms(options.start_delay, "start_delay") or 0
    config = options.config_override
    has_any = timeout_ms or start_delay_ms or options.timeout_handler_options or options.retry_policy or config
    if not has_any:
        return None
    policy = timeout_policy_of(flow, timeout_ms, options.timeout_policy)
    retry = options.retry_policy
    return pb.StartOptions(
        timeout_ms=timeout_ms,
        timeout_policy=policy,
        timeout_handler_options=to_step_options(flow.timeout_handler_options(options.timeout_handler_options)),
        start_delay_ms=start_delay_ms,
        retry=None if retry is None else to_retry_policy(retry.to_frame()),
        config=None if config is None or config.is_empty else config.to_message(),
    )


def initial_index_writes(
    flow: RegisteredFlow, assignments: Sequence[AttributeAssignment], place: str
) -> tuple[frames.IndexWrite, ...]:
    """Give the index values of initial Attributes, which a start writes in order [ATTR-4, ATTR-9].

    Raises:
        ValueTooLargeError: one is larger than an index value may be [LIM-2].
    """
    writes: dict[str, frames.IndexWrite] = {}
    for initial in assignments:
        if initial.attribute.index is not None and initial.value is not None:
            write = flow.index_write(initial.attribute, initial.value, f"{place}, Attribute {initial.key!r}")
            writes[write.key] = write
    return tuple(writes.values())


def timeout_policy_of(flow: RegisteredFlow, timeout_ms: int, policy: FlowTimeoutPolicy) -> int:
    """Resolve what the end of the Flow's time does, as its number on the wire; 0 without a timeout [TIME-2].

    Raises:
        FlowDefinitionError: HANDLER, and the Flow does not override `handle_timeout`.
    """
    if not timeout_ms:
        return 0
    has_handler = flow.timeout_handler is not None
    if policy is FlowTimeoutPolicy.DEFAULT:
        policy = FlowTimeoutPolicy.HANDLER if has_handler else FlowTimeoutPolicy.FAIL
    if policy is FlowTimeoutPolicy.HANDLER and not has_handler:
        raise FlowDefinitionError(
            f"Flow {flow.flow_type!r} does not override handle_timeout, which timeout_policy HANDLER needs"
        )
    return _POLICY[policy]
