"""The fold: apply one event to the state of a run. Total, silent, and the only code that changes a `RunState`.

Live handling and replay both end here, so whatever a rule needs must be put into state by an event [ARCH-2]. A step
event for a Step execution that does not exist is a broken log and raises KeyError.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from dexd.core import events as e
from dexd.core.config import ACCEPTED_REMEMBERED_MAX, REQUESTS_REMEMBERED_MAX, REQUESTS_REMEMBERED_MS
from dexd.core.flow.state import RememberedRequest, RunState, StepExecution, StepPhase
from dexd.core.ids import MessageId
from dexd.core.outcome import RecordedEvent
from dexd.core.values import (
    Completion,
    Condition,
    ConditionKind,
    ConditionResult,
    DecisionKind,
    FlowStatus,
    Message,
    Method,
    RecoveryError,
    RequestRecord,
    Resolution,
    WaitKind,
)


def evolve(state: RunState | None, recorded: RecordedEvent) -> RunState:
    """Fold one event; `state` is None only before FlowStarted. The state is changed in place and returned."""
    event = recorded.event
    if state is None:
        if type(event) is not e.FlowStarted:
            raise TypeError(f"a run begins with FlowStarted, not {type(event).__name__}")
        state = _begin(event, recorded)
    else:
        _FOLDS[type(event)](state, event, recorded.at)
    state.version = recorded.version
    return state


def _begin(event: e.FlowStarted, recorded: RecordedEvent) -> RunState:
    return RunState(
        flow_id=event.flow_id,
        run_id=event.run_id,
        stream_id=recorded.stream_id,
        flow_type=event.flow_type,
        ordinal=event.ordinal,
        started_at=recorded.at,
        start_request_id=event.request_id,
        start_digest=event.digest,
        seed=event.seed,
        attributes=dict(event.attributes),
        standing=event.standing,
    )


# ---- Steps ------------------------------------------------------------------------------------------------------


def _step_scheduled(state: RunState, event: e.StepScheduled, at: int) -> None:
    state.counters[event.step_type] = event.number
    state.steps[event.step_execution_id] = StepExecution(
        step_execution_id=event.step_execution_id,
        step_type=event.step_type,
        number=event.number,
        from_step=event.from_step,
        input=event.input,
        method=Method.WAIT_FOR if event.has_wait_for else Method.EXECUTE,
        options=event.options,
        recovery_error=event.recovery_error,
        scheduled_at=at,
    )


def _step_dispatched(state: RunState, event: e.StepDispatched, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = StepPhase.RUNNING
    step.delivery = event.delivery
    step.dispatched_at = at
    step.first_attempt_at = step.first_attempt_at or at
    step.deadline = event.deadline
    step.worker_id = event.worker_id
    step.incarnation = event.incarnation


def _step_declined(state: RunState, event: e.StepDeclined, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = StepPhase.READY
    step.delivery = event.delivery - 1
    if step.attempt == 1 and step.delivery == 0:
        step.first_attempt_at = 0


def _step_delivery_lost(state: RunState, event: e.StepDeliveryLost, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = StepPhase.READY
    step.losses += 1
    step.workers_lost += 1


def _wait_for_completed(state: RunState, event: e.WaitForCompleted, at: int) -> None:
    step = state.steps[event.step_execution_id]
    _accept(state, step)
    _write(state, event.writes)
    for message_id, channel, value in event.messages:
        _enqueue(state, channel, Message(message_id, value, at))
    step.locals = dict(event.locals)
    if event.wait.kind is WaitKind.SKIP:
        _begin_execute(step)
        return
    step.phase = StepPhase.WAITING
    step.wait = event.wait
    step.fired = ()
    step.wait_version = state.version + 1
    for channel in _watched(event.wait.conditions):
        state.watchers.setdefault(channel, {})[step.step_execution_id] = None


def _wait_for_failed(state: RunState, event: e.WaitForFailed, at: int) -> None:
    step = state.steps[event.step_execution_id]
    if event.resolution is Resolution.PROCEED:
        if event.is_reported:
            _remember_token(state, step)
        step.wait_for_failed = True
        step.recovery_error = RecoveryError(event.failure.error_type, event.failure.detail)
        _begin_execute(step)
        step.failure = event.failure
    else:
        _attempt_failed(state, step, event)


def _timer_fired(state: RunState, event: e.TimerFired, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.fired = (*step.fired, event.condition_index)


def _conditions_met(state: RunState, event: e.ConditionsMet, at: int) -> None:
    step = state.steps[event.step_execution_id]
    wait = step.wait
    if wait is None:
        raise TypeError(f"{event.step_execution_id} has no Wait to meet")
    taken = _dequeue(state, wait.conditions, event.consumed)
    step.results = tuple(
        ConditionResult(
            condition.kind,
            condition.condition_id,
            index in event.winners,
            condition.channel,
            taken.get(index, ()),
            condition.at_least,
        )
        for index, condition in enumerate(wait.conditions)
    )
    _unwatch(state, step)
    _begin_execute(step)


def _execute_completed(state: RunState, event: e.ExecuteCompleted, at: int) -> None:
    step = state.steps.pop(event.step_execution_id)
    _accept(state, step)
    _write(state, event.writes)
    for message_id, channel, value in event.messages:
        _enqueue(state, channel, Message(message_id, value, at))
    if event.decision is DecisionKind.GRACEFUL_COMPLETE:
        state.completion_requested = True
    if event.output:
        state.completions.append(Completion(step.step_type, step.step_execution_id, event.output))


def _execute_failed(state: RunState, event: e.ExecuteFailed, at: int) -> None:
    if event.resolution is Resolution.RECOVER:
        step = state.steps.pop(event.step_execution_id)
        if event.is_reported:
            _remember_token(state, step)
    else:
        _attempt_failed(state, state.steps[event.step_execution_id], event)


def _step_canceled(state: RunState, event: e.StepCanceled, at: int) -> None:
    _unwatch(state, state.steps.pop(event.step_execution_id))


def _attempt_failed(state: RunState, step: StepExecution, event: e.WaitForFailed | e.ExecuteFailed) -> None:
    if event.is_reported:
        _remember_token(state, step)
    step.failure = event.failure
    step.phase = StepPhase.BACKOFF
    step.attempt += 1
    step.delivery = 0
    step.losses = 0
    step.retry_at = event.retry_at


def _begin_execute(step: StepExecution) -> None:
    step.method = Method.EXECUTE
    step.phase = StepPhase.READY
    step.wait = None
    step.fired = ()
    step.attempt = 1
    step.delivery = 0
    step.losses = 0
    step.first_attempt_at = 0
    step.failure = None


def _accept(state: RunState, step: StepExecution) -> None:
    """A worker's output was applied: the Flow sticks to it from now on [ROUTE-6]."""
    state.last_worker = step.worker_id
    _remember_token(state, step)


def _remember_token(state: RunState, step: StepExecution) -> None:
    state.accepted.append(step.token(state.run_id))
    if len(state.accepted) > ACCEPTED_REMEMBERED_MAX:
        del state.accepted[0]


# ---- Channels, Attributes, requests -----------------------------------------------------------------------------


def _channel_published(state: RunState, event: e.ChannelPublished, at: int) -> None:
    for message_id, value in event.messages:
        _enqueue(state, event.channel, Message(message_id, value, at))
    _remember(state, event.request, at)


def _attributes_set(state: RunState, event: e.AttributesSet, at: int) -> None:
    _write(state, event.writes)
    _remember(state, event.request, at)


def _rpc_completed(state: RunState, event: e.RpcCompleted, at: int) -> None:
    _write(state, event.writes)
    for message_id, channel, value in event.messages:
        _enqueue(state, channel, Message(message_id, value, at))
    state.rpc_counters[event.name] = event.number
    state.last_worker = event.worker_id
    _remember(state, event.request, at)


def _write(state: RunState, writes: Iterable[tuple[str, bytes | None]]) -> None:
    for key, value in writes:
        if value is None:
            state.attributes.pop(key, None)
        else:
            state.attributes[key] = value


def _enqueue(state: RunState, channel: str, message: Message) -> None:
    state.channels.setdefault(channel, []).append(message)
    state.pending_count += 1
    state.pending_bytes += len(message.value)


def _dequeue(
    state: RunState, conditions: tuple[Condition, ...], consumed: Iterable[tuple[int, tuple[MessageId, ...]]]
) -> dict[int, tuple[bytes, ...]]:
    """Take the consumed messages, which are the oldest of each queue, and give each condition its share."""
    wanted: dict[str, int] = {}
    for index, message_ids in consumed:
        channel = conditions[index].channel
        wanted[channel] = wanted.get(channel, 0) + len(message_ids)
    taken: dict[str, bytes] = {}
    for channel, count in wanted.items():
        queue = state.channels[channel]
        for message in queue[:count]:
            taken[message.message_id] = message.value
            state.pending_count -= 1
            state.pending_bytes -= len(message.value)
        if count == len(queue):
            del state.channels[channel]
        else:
            del queue[:count]
    return {index: tuple(taken[message_id] for message_id in message_ids) for index, message_ids in consumed}


def _watched(conditions: Iterable[Condition]) -> Iterable[str]:
    return dict.fromkeys(c.channel for c in conditions if c.kind is ConditionKind.CHANNEL)


def _unwatch(state: RunState, step: StepExecution) -> None:
    if step.wait is None:
        return
    for channel in _watched(step.wait.conditions):
        waiting = state.watchers[channel]
        del waiting[step.step_execution_id]
        if not waiting:
            del state.watchers[channel]


def _remember(state: RunState, record: RequestRecord, at: int) -> None:
    requests = state.requests
    requests[record.request_id] = RememberedRequest(record, at)
    # Two per insertion keeps up with any rate: the oldest leave first, and one enters at a time.
    for request_id in list(islice(requests, 2)):
        if len(requests) > REQUESTS_REMEMBERED_MAX or requests[request_id].at < at - REQUESTS_REMEMBERED_MS:
            del requests[request_id]


# ---- the run ----------------------------------------------------------------------------------------------------


def _flow_closed(state: RunState, event: e.FlowClosed, at: int) -> None:
    state.status = FlowStatus(event.status)
    state.closed_at = at
    state.error_type = event.error_type
    state.error_message = event.error_message
    state.steps = {}
    state.watchers = {}
    if event.request is not None:
        _remember(state, event.request, at)


def _no_change(state: RunState, event: e.Event, at: int) -> None:
    """A fact that only history needs."""


def _refuse(state: RunState, event: e.FlowStarted, at: int) -> None:
    raise TypeError(f"run {state.run_id} has begun already")


_FOLDS: dict[type[e.Event], Callable[[RunState, Any, int], None]] = {
    e.FlowStarted: _refuse,
    e.StepScheduled: _step_scheduled,
    e.StepDispatched: _step_dispatched,
    e.StepDeclined: _step_declined,
    e.StepDeliveryLost: _step_delivery_lost,
    e.WaitForCompleted: _wait_for_completed,
    e.WaitForFailed: _wait_for_failed,
    e.ConditionsMet: _conditions_met,
    e.TimerFired: _timer_fired,
    e.ExecuteCompleted: _execute_completed,
    e.ExecuteFailed: _execute_failed,
    e.StepCanceled: _step_canceled,
    e.MethodPending: _no_change,
    e.ChannelPublished: _channel_published,
    e.AttributesSet: _attributes_set,
    e.RpcCompleted: _rpc_completed,
    e.StaleResultRejected: _no_change,
    e.FlowClosed: _flow_closed,
}
