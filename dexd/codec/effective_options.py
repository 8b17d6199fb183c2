"""The options that a Step's current method runs under: its own, and defaults where it says nothing [STEP-8, CFG-3]."""

from dexd.codec.json_parts import Json, show_struct
from dexd.core.config import KernelConfig
from dexd.core.flow.retry import policy_of
from dexd.core.flow.standing import priority_of
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.values import Method


def effective_options(run: RunState, step: StepExecution, config: KernelConfig) -> dict[str, Json]:
    """Show them; timeout and retry policy are those of the current method."""
    options = step.options
    timeout_ms = None
    if options is not None:
        is_wait_for = step.method is Method.WAIT_FOR
        timeout_ms = options.wait_for_timeout_ms if is_wait_for else options.execute_timeout_ms
    recovery = None if options is None else options.recovery
    return {
        "timeout_ms": config.method_timeout_ms if timeout_ms is None else timeout_ms,
        "retry": show_struct(policy_of(step)),
        "non_retryable_errors": [] if options is None else options.non_retryable_errors,
        "wait_for_failure": "FAIL_FLOW" if options is None else options.wait_for_failure.name,
        "priority": priority_of(run, step),
        "recovery_step_type": None if recovery is None else recovery.step_type,
        "heartbeat_timeout_ms": None if options is None else options.heartbeat_timeout_ms or None,
        "lock_attributes": step.lock_keys(),
        "preload": [] if options is None else options.preload,
    }
