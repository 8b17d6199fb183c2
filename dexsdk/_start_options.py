"""Options of a start as they travel, resolved by the Flow's code."""

from collections.abc import Sequence

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk._durations import optional_duration_ms
from dexsdk._registered import RegisteredFlow
from dexsdk._start_requests import to_retry_policy, to_step_options
from dexsdk.errors import FlowDefinitionError
from dexsdk.options import AttributeAssignment, FlowTimeoutPolicy, StartFlowOptions

_POLICY = {FlowTimeoutPolicy.FAIL: 1, FlowTimeoutPolicy.CANCEL: 2, FlowTimeoutPolicy.HANDLER: 3}


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
