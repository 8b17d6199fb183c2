"""Commands, events and values of the core with valid defaults: a test names only what it is about.

All events belong to one Flow unless a test says otherwise; instants are milliseconds from `T0`.
"""

from typing import Any

import msgspec

from dexd.core import commands as c
from dexd.core import effects as f
from dexd.core import events as e
from dexd.core.ids import (
    CallerId,
    CallId,
    FlowId,
    MessageId,
    QueueName,
    RequestId,
    RunId,
    SessionId,
    StepExecutionId,
    StreamNumber,
    WorkerId,
    rpc_call_id,
)
from dexd.core.matching.rpc_desk import CALLS_PER_MS
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.terms import FlowConfig, FlowRetry, FlowTerms
from dexd.core.values import (
    Canceling,
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    FlowCapability,
    FlowErrorType,
    FlowStatus,
    Method,
    RecoveryStep,
    RequestRecord,
    Resolution,
    Response,
    RetryPolicy,
    RunningCall,
    StepOptions,
    StepPlan,
    StopType,
    TimerId,
    Token,
    Wait,
    WaitForFailurePolicy,
    WaitKind,
)
from tests.support.matchers import Like

T0 = 1_000_000
FLOW = FlowId("order-1")
FLOW_TYPE = "Order"
RUN = RunId("run-1")
WORKER = WorkerId("w1")
DAY = 86_400_000
SECOND = 1_000
METHOD_TIMEOUT_MS = 7_200_000

# ---- values -----------------------------------------------------------------------------------------------------


def plan(
    step_type: str = "A", *, input: bytes = b"1", wait_for: bool = False, options: StepOptions | None = None
) -> StepPlan:
    return StepPlan(step_type, input, wait_for, options)


def options(**fields: Any) -> StepOptions:
    return StepOptions(**fields)


def retry(**fields: Any) -> RetryPolicy:
    return RetryPolicy(**fields)


def no_retry(**fields: Any) -> StepOptions:
    """One attempt for both methods."""
    return StepOptions(wait_for_retry=retry(maximum_attempts=1), execute_retry=retry(maximum_attempts=1), **fields)


def recovery(step_type: str = "Recover", *, wait_for: bool = False, options: StepOptions | None = None) -> RecoveryStep:
    return RecoveryStep(step_type, wait_for, options)


def terms(*, retry: RetryPolicy | None = None, step: StepPlan | None = None, **fields: Any) -> FlowTerms:
    """`retry` begins again with that start Step."""
    return FlowTerms(retry=None if retry is None else FlowRetry(retry, step), **fields)


PROCEED = WaitForFailurePolicy.PROCEED


def timer(duration_ms: int | None = None, *, at: int | None = None, id: str = "") -> Condition:  # noqa: A002
    return Condition(ConditionKind.TIMER, id, duration_ms, at)


def channel(name: str = "c", at_least: int = 1, at_most: int | None = 1, *, id: str = "") -> Condition:  # noqa: A002
    """`for_one` unless told otherwise; `at_most=None` takes all."""
    return Condition(ConditionKind.CHANNEL, id, channel=name, at_least=at_least, at_most=at_most)


def all_of(*conditions: Condition) -> Wait:
    return Wait(WaitKind.ALL_OF, conditions)


def any_of(*conditions: Condition) -> Wait:
    return Wait(WaitKind.ANY_OF, conditions)


def any_combination(conditions: tuple[Condition, ...], *groups: tuple[int, ...]) -> Wait:
    return Wait(WaitKind.ANY_COMBINATION, conditions, groups)


SKIP = Wait(WaitKind.SKIP)


def waits(wait: Wait, **fields: Any) -> Response:
    """What wait_for returns."""
    return Response(wait=wait, **fields)


def decides(decision: Decision, **fields: Any) -> Response:
    """What execute returns."""
    return Response(decision=decision, **fields)


def go_to(*plans: StepPlan) -> Decision:
    return Decision(DecisionKind.GO_TO, plans)


def graceful(output: bytes = b"") -> Decision:
    return Decision(DecisionKind.GRACEFUL_COMPLETE, output=output)


def force(output: bytes = b"") -> Decision:
    return Decision(DecisionKind.FORCE_COMPLETE, output=output)


def force_fail(reason: str = "no") -> Decision:
    return Decision(DecisionKind.FORCE_FAIL, reason=reason)


def force_if_empty(output: bytes, fallback: StepPlan, *channels: str) -> Decision:
    return Decision(DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY, (fallback,), output, channels=channels)


def canceling(decision: Decision, *step_types: str, siblings: tuple[str, ...] = ()) -> Decision:
    """The decision, canceling Steps beside what it decides."""
    return msgspec.structs.replace(decision, canceling=Canceling(step_types, siblings))


DEAD_END = Decision(DecisionKind.DEAD_END)


def failure(error_type: str = "Boom", detail: str = "it broke", **fields: Any) -> Failure:
    return Failure(error_type, detail, **fields)


def record(request_id: str = "r", answer: bytes = b"") -> RequestRecord:
    return RequestRecord(RequestId(request_id), digest(request_id), answer)


def digest(text: str) -> bytes:
    return f"digest of {text}".encode()


def token(
    call: str = "A-1", attempt: int = 1, delivery: int = 1, *, method: Method = Method.EXECUTE, run: str = RUN
) -> Token:
    return Token(RunId(run), CallId(call), method, attempt, delivery)


def rpc_token(request_id: str = "r", delivery: int = 1, *, run: str = RUN, began: int = T0, nth: int = 1) -> Token:
    """Of the call that began as the nth one of its instant."""
    number = began * CALLS_PER_MS + nth - 1
    return Token(RunId(run), rpc_call_id(RequestId(request_id)), Method.RPC, number, delivery)


# ---- events -----------------------------------------------------------------------------------------------------


class At(msgspec.Struct, frozen=True):
    """An event at an instant of its own."""

    instant: int
    event: e.Event


def at(instant: int, event: e.Event) -> At:
    return At(instant, event)


def history(*events: e.Event | At, instant: int = T0) -> list[RecordedEvent]:
    """Record events: each FlowStarted begins the next stream, whose events follow it."""
    recorded: list[RecordedEvent] = []
    stream_id = version = 0
    for item in events:
        event = item.event if isinstance(item, At) else item
        instant = item.instant if isinstance(item, At) else instant
        is_first = isinstance(event, e.FlowStarted)
        stream_id, version = (stream_id + 1, 1) if is_first else (stream_id, version + 1)
        recorded.append(RecordedEvent(stream_id, version, instant, event))  # type: ignore[arg-type] # a bare number
    return recorded


def started(flow_id: str = FLOW, run_id: str = RUN, **fields: Any) -> e.FlowStarted:
    values: dict[str, Any] = {
        "flow_type": FLOW_TYPE,
        "ordinal": 1,
        "request_id": f"start-{run_id}",
        "digest": digest("start"),
        "seed": 7,
        **fields,
    }
    return e.FlowStarted(FlowId(flow_id), RunId(run_id), **values)


def scheduled(
    step_id: str = "A-1",
    *,
    wait_for: bool = False,
    options: StepOptions | None = None,
    from_step: str = "",
    input: bytes = b"1",
    **fields: Any,
) -> e.StepScheduled:
    step_type, _, number = step_id.rpartition("-")
    return e.StepScheduled(
        StepExecutionId(step_id), step_type, int(number), from_step, input, wait_for, options, **fields
    )


def dispatched(
    step_id: str = "A-1",
    attempt: int = 1,
    delivery: int = 1,
    *,
    method: Method = Method.EXECUTE,
    worker: str = WORKER,
    incarnation: str = "i1",
    deadline: int = T0 + METHOD_TIMEOUT_MS,
    **fields: Any,
) -> e.StepDispatched:
    values: dict[str, Any] = {"is_sticky": False, "waited_ms": 0, "deadline": deadline, **fields}
    return e.StepDispatched(
        StepExecutionId(step_id), method, attempt, delivery, WorkerId(worker), incarnation, **values
    )


def wait_installed(step_id: str, wait: Wait, attempt: int = 1, delivery: int = 1, **fields: Any) -> e.WaitForCompleted:
    """Timers need absolute deadlines here."""
    return e.WaitForCompleted(StepExecutionId(step_id), attempt, delivery, wait, **fields)


def executed(
    step_id: str = "A-1",
    decision: DecisionKind = DecisionKind.DEAD_END,
    attempt: int = 1,
    delivery: int = 1,
    worker: str = WORKER,
    **fields: Any,
) -> e.ExecuteCompleted:
    return e.ExecuteCompleted(StepExecutionId(step_id), attempt, delivery, WorkerId(worker), decision, **fields)


def execute_failed(
    step_id: str = "A-1",
    resolution: Resolution = Resolution.RETRY,
    attempt: int = 1,
    delivery: int = 1,
    *,
    retry_at: int = 0,
    error: Failure | None = None,
    is_reported: bool = True,
    worker: str = WORKER,
    heartbeat: bytes | None = None,
) -> e.ExecuteFailed:
    return e.ExecuteFailed(
        StepExecutionId(step_id),
        attempt,
        delivery,
        WorkerId(worker),
        error or failure(),
        resolution,
        retry_at,
        is_reported,
        heartbeat,
    )


def wait_for_failed(
    step_id: str = "A-1",
    resolution: Resolution = Resolution.RETRY,
    attempt: int = 1,
    delivery: int = 1,
    *,
    retry_at: int = 0,
    error: Failure | None = None,
    is_reported: bool = True,
    worker: str = WORKER,
    heartbeat: bytes | None = None,
) -> e.WaitForFailed:
    return e.WaitForFailed(
        StepExecutionId(step_id),
        attempt,
        delivery,
        WorkerId(worker),
        error or failure(),
        resolution,
        retry_at,
        is_reported,
        heartbeat,
    )


def lost(step_id: str = "A-1", attempt: int = 1, delivery: int = 1, reason: str = "SESSION_LOST") -> e.StepDeliveryLost:
    return e.StepDeliveryLost(StepExecutionId(step_id), attempt, delivery, WORKER, reason)


def beat(value: bytes = b"", step_id: str = "A-1", attempt: int = 1, delivery: int = 1) -> e.HeartbeatReceived:
    return e.HeartbeatReceived(StepExecutionId(step_id), attempt, delivery, value)


def met(step_id: str, winners: tuple[int, ...], *consumed: tuple[int, tuple[str, ...]]) -> e.ConditionsMet:
    taken = tuple((index, tuple(map(MessageId, ids))) for index, ids in consumed)
    return e.ConditionsMet(StepExecutionId(step_id), winners, taken)


def fired(step_id: str, index: int = 0) -> e.TimerFired:
    return e.TimerFired(StepExecutionId(step_id), index)


def published(
    channel_name: str = "c", *values: bytes, version: int, instant: int = T0, request_id: str = "r"
) -> e.ChannelPublished:
    """Messages as the kernel would name them when the event gets that version."""
    ids = message_ids(version, len(values), instant=instant)
    return e.ChannelPublished(
        channel_name, tuple(zip(ids, values, strict=True)), record(request_id, "\n".join(ids).encode())
    )


def message_ids(version: int, count: int = 1, *, instant: int = T0) -> tuple[MessageId, ...]:
    return tuple(MessageId(f"{instant:011x}-{version:08x}-{index:05x}") for index in range(count))


def attribute_set(key: str, value: bytes | None, request_id: str = "r") -> e.AttributesSet:
    return e.AttributesSet(((key, value),), record(request_id))


def closed(
    status: FlowStatus = FlowStatus.COMPLETED, error_type: FlowErrorType = FlowErrorType.NONE, message: str = ""
) -> e.FlowClosed:
    return e.FlowClosed(status, error_type, message)


def canceled(step_id: str, reason: str = "FLOW_CLOSED", by: str = "") -> e.StepCanceled:
    return e.StepCanceled(StepExecutionId(step_id), reason, by)


def pending(step_id: str = "A-1", method: Method = Method.EXECUTE, attempt: int = 1) -> e.MethodPending:
    return e.MethodPending(StepExecutionId(step_id), method, attempt)


def declined(step_id: str = "A-1", reason: str = "NO_CAPACITY", attempt: int = 1, delivery: int = 1) -> e.StepDeclined:
    return e.StepDeclined(StepExecutionId(step_id), attempt, delivery, WORKER, reason)


def stale(
    step_id: str = "A-1",
    attempt: int = 1,
    delivery: int = 1,
    reason: str = "STALE",
    *,
    method: Method = Method.EXECUTE,
    worker: str = WORKER,
) -> e.StaleResultRejected:
    return e.StaleResultRejected(StepExecutionId(step_id), method, attempt, delivery, WorkerId(worker), reason)


# ---- commands of clients ----------------------------------------------------------------------------------------


def start(flow_id: str = FLOW, run_id: str = RUN, *, step: StepPlan | None = None, **fields: Any) -> c.StartFlow:
    values: dict[str, Any] = {
        "flow_type": FLOW_TYPE,
        "seed": 7,
        "request_id": f"start-{run_id}",
        "digest": digest("start"),
        **fields,
    }
    return c.StartFlow(FlowId(flow_id), run_id=RunId(run_id), start_step=step, **values)


def publish(
    channel_name: str = "c", *values: bytes, flow_id: str = FLOW, run_id: str | None = None, request_id: str = "r"
) -> c.PublishMessages:
    run = None if run_id is None else RunId(run_id)
    return c.PublishMessages(FlowId(flow_id), run, channel_name, values, RequestId(request_id), digest(request_id))


def set_attribute(
    key: str, value: bytes | None, *, flow_id: str = FLOW, run_id: str | None = None, request_id: str = "r"
) -> c.SetAttribute:
    run = None if run_id is None else RunId(run_id)
    return c.SetAttribute(FlowId(flow_id), run, key, value, RequestId(request_id), digest(request_id))


def skip_timer(
    step_id: str, timer_id: TimerId, *, flow_id: str = FLOW, request_id: str = "r", content: bytes = b""
) -> c.SkipTimer:
    request = RequestId(request_id)
    step = StepExecutionId(step_id)
    return c.SkipTimer(FlowId(flow_id), None, step, timer_id, request, content or digest(request_id))


def update_config(config: FlowConfig, *, flow_id: str = FLOW, request_id: str = "r") -> c.UpdateFlowConfig:
    return c.UpdateFlowConfig(FlowId(flow_id), None, config, RequestId(request_id), digest(request_id))


def stop(
    type: StopType = StopType.CANCEL,  # noqa: A002
    reason: str = "",
    *,
    flow_id: str = FLOW,
    run_id: str | None = None,
    request_id: str = "r",
) -> c.StopFlow:
    run = None if run_id is None else RunId(run_id)
    return c.StopFlow(FlowId(flow_id), run, type, reason, RequestId(request_id), digest(request_id))


def rpc(
    name: str = "read",
    *,
    caller: int = 1,
    request_id: str = "r",
    flow_id: str = FLOW,
    run_id: str | None = None,
    timeout_ms: int = 10_000,
    expires_at: int = T0 + 60_000,
    content: str = "",
    locks: tuple[str, ...] = (),
    is_transactional: bool = False,
    is_resolving: bool = False,
) -> c.InvokeRpc:
    run = None if run_id is None else RunId(run_id)
    return c.InvokeRpc(
        CallerId(caller),
        FlowId(flow_id),
        run,
        name,
        b"1",
        RequestId(request_id),
        digest(content or request_id),
        timeout_ms,
        expires_at,
        locks,
        is_transactional,
        is_resolving,
    )


def abandon(caller: int = 1) -> c.AbandonRpc:
    return c.AbandonRpc(CallerId(caller))


# ---- commands of workers ----------------------------------------------------------------------------------------


def serves(flow_type: str = FLOW_TYPE, steps: str = "A B Recover", rpcs: str = "read write") -> FlowCapability:
    return FlowCapability(flow_type, frozenset(steps.split()), frozenset(rpcs.split()))


def hello(
    session: int = 1,
    worker: str = WORKER,
    *flows: FlowCapability,
    incarnation: str = "i1",
    limit: int = 8,
    reserve: int = 0,
    running: tuple[RunningCall, ...] = (),
) -> c.OpenSession:
    return c.OpenSession(
        SessionId(session), WorkerId(worker), incarnation, limit, reserve, flows or (serves(),), running
    )


def stream(session: int = 1, number: int = 1, queue: str = FLOW_TYPE) -> c.OpenStream:
    return c.OpenStream(SessionId(session), StreamNumber(number), QueueName(queue))


def connect(
    session: int = 1, worker: str = WORKER, *flows: FlowCapability, streams: int = 1, **fields: Any
) -> tuple[c.Command, ...]:
    """Hello, and that many streams on the queue of each Flow type; stream 1 is on the first."""
    opened = hello(session, worker, *flows, **fields)
    queues = [flow.flow_type for flow in opened.flows for _ in range(streams)]
    return (opened, *(stream(session, number, queue) for number, queue in enumerate(queues, start=1)))


def running(delivered: Token, number: int = 1, queue: str = FLOW_TYPE) -> RunningCall:
    return RunningCall(number, queue, delivered)


def close_stream(session: int = 1, number: int = 1) -> c.CloseStream:
    return c.CloseStream(SessionId(session), StreamNumber(number))


def lose(session: int = 1, reason: str = "RESET") -> c.LoseSession:
    return c.LoseSession(SessionId(session), reason)


def goodbye(session: int = 1) -> c.DrainSession:
    return c.DrainSession(SessionId(session))


def pong(session: int = 1, nonce: int = 1) -> c.AnswerPing:
    return c.AnswerPing(SessionId(session), nonce)


def accept(delivered: Token | None = None, session: int = 1, number: int = 1) -> c.AcceptCall:
    return c.AcceptCall(SessionId(session), StreamNumber(number), delivered or token())


def heartbeat(value: bytes = b"", delivered: Token | None = None, session: int = 1, number: int = 1) -> c.Heartbeat:
    return c.Heartbeat(SessionId(session), StreamNumber(number), delivered or token(), value)


def decline(reason: str, delivered: Token | None = None, session: int = 1, number: int = 1) -> c.DeclineCall:
    return c.DeclineCall(SessionId(session), StreamNumber(number), delivered or token(), reason)


def complete(
    response: Response | Decision | Wait,
    delivered: Token | None = None,
    session: int = 1,
    number: int = 1,
    sub_flows: tuple[SubFlowPlan, ...] = (),
) -> c.CompleteCall:
    """A bare Decision or Wait is a response without other effects; the token follows from it."""
    if isinstance(response, Decision):
        response = decides(response)
    elif isinstance(response, Wait):
        response = waits(response)
    method = Method.EXECUTE if response.wait is None else Method.WAIT_FOR
    delivered = delivered or token(method=method)
    return c.CompleteCall(SessionId(session), StreamNumber(number), delivered, response, sub_flows)


def fail(error: Failure | None = None, delivered: Token | None = None, session: int = 1, number: int = 1) -> c.FailCall:
    return c.FailCall(SessionId(session), StreamNumber(number), delivered or token(), error or failure())


def sent(step_id: str = "A-1", **fields: Any) -> Like:
    """A dispatch of which only some fields matter."""
    return Like(e.StepDispatched, step_execution_id=StepExecutionId(step_id), **fields)


# ---- effects ----------------------------------------------------------------------------------------------------


WELCOME = Like(f.WelcomeSession)
CONFIRMED = Like(f.ConfirmStream)


def assigned(delivered: Token | None = None, session: int = 1, number: int = 1, **snapshot: Any) -> Like:
    return Like(
        f.AssignCall,
        session=SessionId(session),
        stream=StreamNumber(number),
        call=Like(f.CallSnapshot, token=delivered or token(), **snapshot),
    )


def acknowledged(delivered: Token | None = None, session: int = 1, number: int = 1) -> f.AcknowledgeResult:
    return f.AcknowledgeResult(SessionId(session), StreamNumber(number), delivered or token(), accepted=True)


def refused(reason: str, delivered: Token | None = None, session: int = 1, number: int = 1) -> f.AcknowledgeResult:
    return f.AcknowledgeResult(SessionId(session), StreamNumber(number), delivered or token(), False, reason)


def cancel(
    reason: str, delivered: Token | None = None, session: int = 1, number: int = 1, *, grace_ms: int = 0
) -> f.CancelCall:
    return f.CancelCall(SessionId(session), StreamNumber(number), delivered or token(), reason, grace_ms)


def answered(answer: Any, caller: int = 1) -> f.AnswerRpc:
    return f.AnswerRpc(CallerId(caller), answer)
