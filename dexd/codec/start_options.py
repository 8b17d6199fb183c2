"""Options of a start and settings of an execution, from protos and frames into the core's values.

Raises ValueError when a field has no meaning or is outside its range; the text names field, value and what is allowed.
"""

from enum import IntEnum
from typing import TypeVar

from dexd.codec.faults import (
    COUNT_MAX,
    duration_fault,
    key_fault,
    options_fault,
    owned_name_fault,
    plan_fault,
    retry_fault,
)
from dexd.codec.index_writes import writes_of_frames
from dexd.codec.step_plans import (
    options_of_frame,
    options_of_proto,
    plan_of_movement,
    retry_of_frame,
    retry_of_proto,
)
from dexd.core.index_values import IndexWrite
from dexd.core.sub_flows import SubFlowPlan, SubFlowReusePolicy
from dexd.core.terms import ActiveStepSearchMode, FlowConfig, FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import RetryPolicy, StepDurability, StepOptions, StepPlan
from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames

Kind = TypeVar("Kind", bound=IntEnum)


def terms_of_proto(
    options: pb.StartOptions,
    start_step: StepPlan | None,
    attributes: tuple[tuple[str, bytes], ...],
    indexed: tuple[IndexWrite, ...] = (),
) -> FlowTerms | None:
    """Take the options of a start; None when none of them matters later."""
    policy = retry_of_proto(options.retry) if options.HasField("retry") else None
    return checked_terms(
        FlowTerms(
            options.timeout_ms,
            _member(FlowTimeoutPolicy, options.timeout_policy, "timeout_policy"),
            options_of_proto(options.timeout_handler_options) if options.HasField("timeout_handler_options") else None,
            options.start_delay_ms,
            None if policy is None else FlowRetry(policy, start_step, attributes, indexed),
            config_of_proto(options.config) if options.HasField("config") else None,
        )
    )


def checked_terms(terms: FlowTerms) -> FlowTerms | None:
    """Check terms; None when they are all defaults.

    A timeout policy, and options for a handler, need a timeout; only HANDLER has use for those options [TIME-2].
    """
    _refuse(duration_fault(terms.timeout_ms, "timeout"))
    _refuse(duration_fault(terms.start_delay_ms, "start_delay"))
    if terms.timeout_ms == 0 and terms.timeout_policy is not FlowTimeoutPolicy.DEFAULT:
        raise ValueError(f"timeout_policy {terms.timeout_policy.name} needs a timeout above 0")
    if terms.timeout_handler_options is not None:
        _check_handler_options(terms.timeout_policy, terms.timeout_handler_options)
    if terms.retry is not None:
        _check_flow_retry(terms.retry.policy)
    return None if terms == _NOTHING else terms


def config_of_proto(config: pb.FlowConfig) -> FlowConfig:
    """Take settings; what is unset stays unset."""
    return checked_config(
        config.active_step_search_mode if config.HasField("active_step_search_mode") else None,
        config.continue_as_new_threshold if config.HasField("continue_as_new_threshold") else None,
        config.step_durability if config.HasField("step_durability") else None,
        record_rpc_io=config.record_rpc_io if config.HasField("record_rpc_io") else None,
    )


def checked_config(
    search_mode: int | None, threshold: int | None, durability: int | None, *, record_rpc_io: bool | None
) -> FlowConfig:
    """Check settings [CFG-1]."""
    if threshold is not None and not 0 <= threshold <= COUNT_MAX:
        raise ValueError(f"continue_as_new_threshold is {threshold}, allowed are 0 to {COUNT_MAX}")
    return FlowConfig(
        None if search_mode is None else _member(ActiveStepSearchMode, search_mode, "active_step_search_mode"),
        threshold,
        None if durability is None else _member(StepDurability, durability, "step_durability"),
        record_rpc_io,
    )


def _check_handler_options(policy: FlowTimeoutPolicy, options: StepOptions) -> None:
    if policy is not FlowTimeoutPolicy.HANDLER:
        raise ValueError(f"timeout_handler_options need timeout_policy HANDLER, it is {policy.name}")
    _refuse(options_fault(options))


def _check_flow_retry(policy: RetryPolicy) -> None:
    _refuse(retry_fault(policy))
    if policy.total_duration_ms is not None:
        raise ValueError("the retry policy of a Flow has no total_duration")


def _member(kind: type[Kind], number: int, field: str) -> Kind:
    try:
        return kind(number)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name})" for member in kind)
        raise ValueError(f"{field} is {number}, allowed are {allowed}") from None


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise ValueError(fault)


_NOTHING = FlowTerms()


# ---- from session frames ----------------------------------------------------------------------------------------


def sub_flow_of_frame(sub_flow: frames.SubFlow) -> SubFlowPlan:
    """Take a child that a Wait asks for [SUB-7]."""
    _refuse(owned_name_fault(sub_flow.flow_type, "Flow type"))
    start_step = plan_of_movement(sub_flow.start_step)
    _refuse(plan_fault(start_step))
    for key, _ in sub_flow.attributes:
        _refuse(key_fault(key, "Attribute"))
    if len(dict(sub_flow.attributes)) != len(sub_flow.attributes):
        raise ValueError("an initial Attribute of a SubFlow occurs more than once")
    indexed = writes_of_frames(sub_flow.indexed)
    return SubFlowPlan(
        sub_flow.flow_type,
        start_step,
        sub_flow.attributes,
        _terms_of_frame(sub_flow, start_step, indexed),
        _member(SubFlowReusePolicy, sub_flow.reuse_policy, "reuse_policy"),
        indexed,
    )


def _terms_of_frame(
    sub_flow: frames.SubFlow, start_step: StepPlan, indexed: tuple[IndexWrite, ...]
) -> FlowTerms | None:
    retry, handler, config = sub_flow.retry, sub_flow.timeout_handler_options, sub_flow.config
    return checked_terms(
        FlowTerms(
            sub_flow.timeout_ms,
            _member(FlowTimeoutPolicy, sub_flow.timeout_policy, "timeout_policy"),
            None if handler is None else options_of_frame(handler),
            sub_flow.start_delay_ms,
            None if retry is None else FlowRetry(retry_of_frame(retry), start_step, sub_flow.attributes, indexed),
            None if config is None else _config_of_frame(config),
        )
    )


def _config_of_frame(config: frames.FlowConfig) -> FlowConfig:
    return checked_config(
        config.active_step_search_mode,
        config.continue_as_new_threshold,
        config.step_durability,
        record_rpc_io=config.record_rpc_io,
    )
