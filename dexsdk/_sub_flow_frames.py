"""Children of a Wait as they travel, resolved by the code of their Flows [SUB-1, SUB-7]."""

from collections.abc import Callable
from typing import Any

from dexpb.v1 import frames
from dexsdk._codec import encode_value
from dexsdk._durations import optional_duration_ms
from dexsdk._registered import RegisteredFlow
from dexsdk._start_options import initial_index_writes, timeout_policy_of
from dexsdk.errors import FlowDefinitionError
from dexsdk.sub_flow import SubFlow, SubFlowReusePolicy

_REUSE = {
    SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY: frames.REUSE_RESTART_IF_PREVIOUS_EXITS_ABNORMALLY,
    SubFlowReusePolicy.ATTACH: frames.REUSE_ATTACH,
    SubFlowReusePolicy.ALWAYS_RESTART: frames.REUSE_ALWAYS_RESTART,
}


def sub_flow_frame(sub_flow: SubFlow, resolve_flow: Callable[[Any], RegisteredFlow]) -> frames.SubFlow:
    """Give a child as it travels.

    Raises:
        FlowDefinitionError: its Flow is not in the registry, has no start Step, or does not fit [SUB-1, TYPE-2].
        ValueMappingError: its input or an initial Attribute cannot be encoded.
    """
    flow, options = resolve_flow(sub_flow.flow), sub_flow.options
    if flow.start is None:
        raise FlowDefinitionError(f"Flow {flow.flow_type!r} has no start Step, which a SubFlow needs")
    timeout_ms = optional_duration_ms(options.timeout, "timeout") or 0
    config, retry = options.config_override, options.retry_policy
    return frames.SubFlow(
        flow.flow_type,
        frames.Movement(
            flow.start.step_type,
            flow.encode_start_input(sub_flow.input),
            flow.start.has_wait_for,
            flow.encode_options(flow.start, None),
        ),
        tuple(
            (
                initial.key,
                encode_value(
                    flow.codec_of(initial.attribute), initial.value, f"SubFlow {flow.flow_type!r}, {initial.key!r}"
                ),
            )
            for initial in options.initial_attributes
            if initial.value is not None
        ),
        timeout_ms,
        timeout_policy_of(flow, timeout_ms, options.timeout_policy),
        flow.timeout_handler_options(options.timeout_handler_options),
        optional_duration_ms(options.start_delay, "start_delay") or 0,
        None if retry is None else retry.to_frame(),
        None if config is None or config.is_empty else config.to_frame(),
        _REUSE[options.reuse_policy],
        initial_index_writes(flow, options.initial_attributes, f"SubFlow {flow.flow_type!r}"),
    )
