"""What a handler gets to see: one call with the Flow as it stands at hand-over [ATTR-6, ATTR-8]."""

from collections.abc import Container, Mapping

from dexd.core.config import INLINE_VALUE_BYTES_MAX
from dexd.core.effects import CallSnapshot
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.flow.withholding import withheld_keys
from dexd.core.matching.calls import Call
from dexd.core.members import EXECUTE
from dexd.core.values import Token


def step_snapshot(run: RunState, step: StepExecution, token: Token) -> CallSnapshot:
    """A Step method's call; results and locals reach execute only [STEP-5, WAIT-11]."""
    is_execute = step.method is EXECUTE
    withheld, options = step.withheld, step.options
    return CallSnapshot(
        token,
        run.flow_id,
        run.flow_type,
        step.step_type,
        step.input,
        run.ordinal,
        run.started_at,
        step.first_attempt_at,
        step.deadline,
        step.from_step,
        _without(run.attributes, withheld) if withheld else dict(run.attributes),
        _channel_sizes(run) if run.channels else {},
        step.results if is_execute else (),
        step.locals if is_execute else {},
        step.recovery_error,
        is_execute and step.wait_for_failed,
        step.heartbeat,
        0 if options is None else options.heartbeat_timeout_ms or 0,
        tuple(withheld) if withheld else (),
        () if options is None else options.preload,
        run.run_id,
        0 if run.terms is None else run.terms.scheduled_at,
    )


def rpc_snapshot(run: RunState, call: Call, token: Token, *, now: int) -> CallSnapshot:
    """An RPC's call; what it gets as references is kept with it, because nothing of it is in the log [ATTR-7]."""
    rpc = call.rpc
    assert rpc is not None
    rpc.version = run.version + 1
    rpc.withheld = {}
    if run.attribute_bytes > INLINE_VALUE_BYTES_MAX:
        rpc.withheld = {key: run.attributes[key] for key in withheld_keys(run.attributes)}
    return CallSnapshot(
        token=token,
        flow_id=run.flow_id,
        flow_type=run.flow_type,
        name=call.name,
        input=rpc.command.input,
        ordinal=run.ordinal,
        flow_started_at=run.started_at,
        first_attempt_at=now,
        deadline=call.method_deadline,
        from_step="",
        attributes=_without(run.attributes, rpc.withheld),
        channel_sizes=_channel_sizes(run),
        references=tuple(rpc.withheld),
        run_id=run.run_id,
        scheduled_at=0 if run.terms is None else run.terms.scheduled_at,
    )


def _without(attributes: Mapping[str, bytes], withheld: Container[str]) -> dict[str, bytes]:
    return {key: value for key, value in attributes.items() if key not in withheld}


def _channel_sizes(run: RunState) -> dict[str, int]:
    return {channel: len(messages) for channel, messages in run.channels.items()}
