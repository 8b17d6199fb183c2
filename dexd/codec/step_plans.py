"""Steps to schedule and their options, from session frames and from protos, into the core's values.

Raises ValueError when a field has no meaning, as an unknown enum number; `faults` checks ranges afterwards.
"""

from dexd.core.values import RecoveryStep, RetryPolicy, StepDurability, StepOptions, StepPlan, WaitForFailurePolicy
from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames

RECOVERY_DEPTH_MAX = 40
"""Recovery options may nest [OPT-5]; protobuf gives up a little deeper, so frames have the same bound."""

# ---- from session frames ----------------------------------------------------------------------------------------


def plan_of_movement(movement: frames.Movement) -> StepPlan:
    """Take a Step that a decision schedules."""
    return StepPlan(
        movement.step_type,
        movement.input,
        movement.has_wait_for,
        None if movement.options is None else options_of_frame(movement.options),
    )


def plan_of_descriptor(descriptor: frames.StepDescriptor) -> StepPlan:
    """Take a start Step as a worker describes it in Hello; its input comes with the start."""
    options = None if descriptor.options is None else options_of_frame(descriptor.options)
    return StepPlan(descriptor.step_type, b"", descriptor.has_wait_for, options)


def options_of_frame(options: frames.StepOptions, *, depth: int = 0) -> StepOptions:
    """Take Step options from a frame."""
    if depth > RECOVERY_DEPTH_MAX:
        raise ValueError(f"recovery Steps are nested deeper than {RECOVERY_DEPTH_MAX}")
    recovery = options.recovery
    return StepOptions(
        options.wait_for_timeout_ms,
        options.execute_timeout_ms,
        None if options.wait_for_retry is None else retry_of_frame(options.wait_for_retry),
        None if options.execute_retry is None else retry_of_frame(options.execute_retry),
        WaitForFailurePolicy(options.wait_for_failure),
        options.non_retryable_errors,
        None
        if recovery is None
        else RecoveryStep(
            recovery.step_type,
            recovery.has_wait_for,
            None if recovery.options is None else options_of_frame(recovery.options, depth=depth + 1),
        ),
        heartbeat_timeout_ms=options.heartbeat_timeout_ms,
        wait_for_durability=_durability(options.wait_for_durability),
        execute_durability=_durability(options.execute_durability),
        priority=options.priority,
        wait_for_locks=options.wait_for_locks,
        execute_locks=options.execute_locks,
        preload=options.preload,
    )


def _durability(number: int | None) -> StepDurability | None:
    return None if number is None else StepDurability(number)


def retry_of_frame(policy: frames.RetryPolicy) -> RetryPolicy:
    """Take a retry policy."""
    return RetryPolicy(
        policy.initial_interval_ms,
        policy.backoff_coefficient,
        policy.maximum_interval_ms,
        policy.maximum_attempts,
        policy.total_duration_ms,
        policy.jitter,
    )


# ---- from protos ------------------------------------------------------------------------------------------------


def plan_of_start_step(start_step: pb.StartStep, value: bytes) -> StepPlan:
    """Take the Step a Flow begins with."""
    options = options_of_proto(start_step.options) if start_step.HasField("options") else None
    return StepPlan(start_step.step_type, value, start_step.has_wait_for, options)


def options_of_proto(options: pb.StepOptions) -> StepOptions:
    """Take Step options from a proto message; parsing has bounded how deep they nest."""
    return StepOptions(
        options.wait_for_timeout_ms if options.HasField("wait_for_timeout_ms") else None,
        options.execute_timeout_ms if options.HasField("execute_timeout_ms") else None,
        retry_of_proto(options.wait_for_retry) if options.HasField("wait_for_retry") else None,
        retry_of_proto(options.execute_retry) if options.HasField("execute_retry") else None,
        WaitForFailurePolicy(options.wait_for_failure),
        tuple(options.non_retryable_errors),
        _recovery_of_proto(options.recovery) if options.HasField("recovery") else None,
        heartbeat_timeout_ms=options.heartbeat_timeout_ms if options.HasField("heartbeat_timeout_ms") else None,
        wait_for_durability=_durability(
            options.wait_for_durability if options.HasField("wait_for_durability") else None
        ),
        execute_durability=_durability(options.execute_durability if options.HasField("execute_durability") else None),
        priority=options.priority if options.HasField("priority") else None,
        wait_for_locks=tuple(options.wait_for_locks),
        execute_locks=tuple(options.execute_locks),
        preload=tuple(options.preload),
    )


def _recovery_of_proto(recovery: pb.RecoveryStep) -> RecoveryStep:
    options = options_of_proto(recovery.options) if recovery.HasField("options") else None
    return RecoveryStep(recovery.step_type, recovery.has_wait_for, options)


def retry_of_proto(policy: pb.RetryPolicy) -> RetryPolicy:
    """Take a retry policy."""
    return RetryPolicy(
        policy.initial_interval_ms,
        policy.backoff_coefficient,
        policy.maximum_interval_ms if policy.HasField("maximum_interval_ms") else None,
        policy.maximum_attempts,
        policy.total_duration_ms if policy.HasField("total_duration_ms") else None,
        policy.jitter,
    )
