"""How a start names its Flow and the first Step; encoded once per Flow type, because every start carries it."""

from collections.abc import Sequence

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk._codec import encode_value
from dexsdk._registered import RegisteredFlow
from dexsdk.options import PRIORITY_DEFAULT, AttributeAssignment, StartFlowOptions


class StartHeads:
    """Beginnings of start requests, by Flow type; the rest of a request is appended, since protobuf merges the two."""

    def __init__(self) -> None:
        self._by_type: dict[str, bytes] = {}

    def of(self, flow: RegisteredFlow) -> bytes:
        """Give the encoded Flow type and start Step, if the Flow has one."""
        return self._by_type.get(flow.flow_type) or self._encode(flow)

    def _encode(self, flow: RegisteredFlow) -> bytes:
        descriptor = flow.start_descriptor()
        step = None if descriptor is None else to_start_step(descriptor)
        head = pb.StartFlowRequest(flow_type=flow.flow_type, start_step=step).SerializeToString()
        return self._by_type.setdefault(flow.flow_type, head)


def to_start_step(descriptor: frames.StepDescriptor) -> pb.StartStep:
    """Give a start Step as it travels."""
    return pb.StartStep(
        step_type=descriptor.step_type,
        has_wait_for=descriptor.has_wait_for,
        options=to_step_options(descriptor.options),
    )


def to_standing(options: StartFlowOptions) -> pb.Standing | None:
    """Give how the Flow's calls stand in queues; None when as everybody's, which most starts leave it at."""
    if options.priority == PRIORITY_DEFAULT and not options.fairness_key and options.fairness_weight == 1:
        return None
    return pb.Standing(
        priority=options.priority, fairness_key=options.fairness_key, fairness_weight=options.fairness_weight
    )


def to_step_options(options: frames.StepOptions | None) -> pb.StepOptions | None:
    """Give resolved options as they travel; unset stays unset."""
    if options is None:
        return None
    return pb.StepOptions(
        wait_for_timeout_ms=options.wait_for_timeout_ms,
        execute_timeout_ms=options.execute_timeout_ms,
        wait_for_retry=to_retry_policy(options.wait_for_retry),
        execute_retry=to_retry_policy(options.execute_retry),
        wait_for_failure=options.wait_for_failure,
        non_retryable_errors=options.non_retryable_errors,
        recovery=to_recovery_step(options.recovery),
        heartbeat_timeout_ms=options.heartbeat_timeout_ms,
        wait_for_durability=options.wait_for_durability,
        execute_durability=options.execute_durability,
        priority=options.priority,
        wait_for_locks=options.wait_for_locks,
        execute_locks=options.execute_locks,
        preload=options.preload,
    )


def to_recovery_step(recovery: frames.RecoveryStep | None) -> pb.RecoveryStep | None:
    """Give a recovery Step as it travels; recovery options may nest [OPT-5]."""
    if recovery is None:
        return None
    return pb.RecoveryStep(
        step_type=recovery.step_type, has_wait_for=recovery.has_wait_for, options=to_step_options(recovery.options)
    )


def to_retry_policy(policy: frames.RetryPolicy | None) -> pb.RetryPolicy | None:
    """Give a retry policy as it travels."""
    if policy is None:
        return None
    return pb.RetryPolicy(
        initial_interval_ms=policy.initial_interval_ms,
        backoff_coefficient=policy.backoff_coefficient,
        maximum_interval_ms=policy.maximum_interval_ms,
        maximum_attempts=policy.maximum_attempts,
        total_duration_ms=policy.total_duration_ms,
        jitter=policy.jitter,
    )


def encode_initial_attributes(
    flow: RegisteredFlow, assignments: Sequence[AttributeAssignment]
) -> list[pb.AttributeValue]:
    """Encode what a start writes beside the Flow's input [ATTR-4]; None writes nothing.

    Raises:
        FlowDefinitionError: the Flow does not declare an Attribute, or a value does not fit it [FLOW-4, TYPE-2].
        ValueMappingError: a value cannot be encoded.
    """
    place = f"start of Flow {flow.flow_type!r}"
    return [
        pb.AttributeValue(
            key=initial.key,
            value=encode_value(flow.codec_of(initial.attribute), initial.value, f"{place}, Attribute {initial.key!r}"),
        )
        for initial in assignments
        if initial.value is not None
    ]
