"""What a handler gets to see: one call with the Flow as it stands at hand-over [ATTR-6, ATTR-8]."""

from dexd.core.effects import CallSnapshot
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.matching.calls import Call
from dexd.core.values import Method, Token


def step_snapshot(run: RunState, step: StepExecution, token: Token) -> CallSnapshot:
    """A Step method's call; results and locals reach execute only [STEP-5, WAIT-11]."""
    is_execute = step.method is Method.EXECUTE
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
        dict(run.attributes),
        _channel_sizes(run) if run.channels else {},
        step.results if is_execute else (),
        step.locals if is_execute else {},
        step.recovery_error,
        is_execute and step.wait_for_failed,
        step.heartbeat,
        0 if step.options is None else step.options.heartbeat_timeout_ms or 0,
    )


def rpc_snapshot(run: RunState, call: Call, token: Token, request_input: bytes, *, now: int) -> CallSnapshot:
    """An RPC's call."""
    return CallSnapshot(
        token=token,
        flow_id=run.flow_id,
        flow_type=run.flow_type,
        name=call.name,
        input=request_input,
        ordinal=run.ordinal,
        flow_started_at=run.started_at,
        first_attempt_at=now,
        deadline=call.method_deadline,
        from_step="",
        attributes=dict(run.attributes),
        channel_sizes=_channel_sizes(run),
    )


def _channel_sizes(run: RunState) -> dict[str, int]:
    return {channel: len(messages) for channel, messages in run.channels.items()}
