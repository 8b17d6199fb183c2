"""The fold: apply one event to the state of a run. Total, silent, and the only code that changes a `RunState`.

Live handling and replay both end here, so whatever a rule needs must be put into state by an event [ARCH-2]. A step
event for a Step execution that does not exist is a broken log and raises KeyError.
"""

from collections.abc import Callable
from typing import Any

from dexd.core import events as e
from dexd.core.config import ACCEPTED_REMEMBERED_MAX, INLINE_VALUE_BYTES_MAX
from dexd.core.flow.contents import (
    delete_message,
    dequeue,
    enqueue,
    forget_skips,
    let_go,
    lock,
    remember,
    unlock,
    unwatch,
    watched_channels,
    write,
)
from dexd.core.flow.execution_folds import (
    flow_config_updated,
    flow_continued,
    flow_forked,
    flow_reopened,
    flow_retried,
)
from dexd.core.flow.failure_folds import back_off, note_failure
from dexd.core.flow.state import RUNNING, RunState, StepExecution, StepPhase
from dexd.core.flow.sub_flow_folds import install_sub_flows, show_sub_flows, sub_flow_closed, sub_flow_started
from dexd.core.flow.withholding import lend, take_back
from dexd.core.ids import TIMEOUT_HANDLER_ID
from dexd.core.members import EXECUTE, GRACEFUL_COMPLETE, WAIT_FOR
from dexd.core.outcome import RecordedEvent
from dexd.core.values import (
    Completion,
    ConditionResult,
    Message,
    Method,
    RecoveryError,
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
        FOLDS[type(event)](state, event, recorded.at)
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
        attribute_bytes=sum(len(value) for _, value in event.attributes),
        standing=event.standing,
        terms=event.terms,
        config=None if event.terms is None else event.terms.config,
        eligible_at=event.eligible_at,
        timeout_at=event.timeout_at,
        chain_id=event.run_id,
        indexed={entry.key: entry for entry in event.indexed if entry.value is not None},
    )


# ---- Steps ------------------------------------------------------------------------------------------------------


def _step_scheduled(state: RunState, event: e.StepScheduled, at: int) -> None:
    if state.skips and not event.has_wait_for:
        forget_skips(state, event.step_execution_id)
    state.counters[event.step_type] = event.number
    step = state.steps[event.step_execution_id] = StepExecution(
        step_execution_id=event.step_execution_id,
        step_type=event.step_type,
        number=event.number,
        from_step=event.from_step,
        input=event.input,
        method=WAIT_FOR if event.has_wait_for else EXECUTE,
        options=event.options,
        recovery_error=event.recovery_error,
        scheduled_at=at,
        ready_version=state.version + 1,
        has_wait_for=event.has_wait_for,
    )
    if not event.from_step and at < state.eligible_at:
        # The start Step of a delayed start, or of a Flow that is tried again [START-7, START-8].
        step.phase = StepPhase.BACKOFF
        step.retry_at = state.eligible_at


def _step_dispatched(state: RunState, event: e.StepDispatched, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = RUNNING
    step.delivery = event.delivery
    step.dispatched_at = at
    step.first_attempt_at = step.first_attempt_at or at
    step.deadline = event.deadline
    step.worker_id = event.worker_id
    step.incarnation = event.incarnation
    step.dispatch_version = state.version + 1
    if step.options is not None:
        lock(state, step)
    if state.attribute_bytes > INLINE_VALUE_BYTES_MAX or state.lending:
        lend(state, step)


def _step_declined(state: RunState, event: e.StepDeclined, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = StepPhase.READY
    step.delivery = event.delivery - 1
    if step.attempt == 1 and step.delivery == 0:
        step.first_attempt_at = 0
        unlock(state, step)


def _step_delivery_lost(state: RunState, event: e.StepDeliveryLost, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.phase = StepPhase.READY
    step.phase_since = at
    step.losses += 1
    step.workers_lost += 1


def _heartbeat_received(state: RunState, event: e.HeartbeatReceived, at: int) -> None:
    step = state.steps[event.step_execution_id]
    step.heartbeat = event.value
    step.has_heartbeat = True


def _wait_for_completed(state: RunState, event: e.WaitForCompleted, at: int) -> None:
    step = state.steps[event.step_execution_id]
    state.last_worker = step.worker_id  # the Flow sticks to it from now on [ROUTE-6]
    _remember_token(state, step)
    write(state, event.writes, event.indexed)
    for message_id, channel, value in event.messages:
        enqueue(state, channel, Message(message_id, value, at, is_own=True))
    step.locals = dict(event.locals)
    if state.skips:
        forget_skips(state, step.step_execution_id)
    if state.locks or state.lending:
        let_go(state, step)
    if event.wait.kind is WaitKind.SKIP:
        _begin_execute(state, step, at)
        return
    step.phase = StepPhase.WAITING
    step.phase_since = at
    step.wait = event.wait
    step.fired = ()
    step.wait_version = state.version + 1
    if event.sub_flows:
        install_sub_flows(state, step, event)
    for channel in watched_channels(event.wait.conditions):
        state.watchers.setdefault(channel, {})[step.step_execution_id] = None


def _wait_for_failed(state: RunState, event: e.WaitForFailed, at: int) -> None:
    step = state.steps[event.step_execution_id]
    state.last_error = RecoveryError(event.failure.error_type, event.failure.detail)
    if event.resolution is Resolution.PROCEED:
        if event.is_reported:
            _remember_token(state, step)
        forget_skips(state, step.step_execution_id)
        step.wait_for_failed = True
        step.recovery_error = state.last_error
        let_go(state, step)
        _begin_execute(state, step, at)
        note_failure(step, event, at)
    else:
        _attempt_failed(state, step, event, at)


def _timer_fired(state: RunState, event: e.TimerFired, at: int) -> None:
    if event.step_execution_id == TIMEOUT_HANDLER_ID:
        state.timeout_at = 0
        return
    step = state.steps[event.step_execution_id]
    step.fired = (*step.fired, event.condition_index)


def _timer_skipped(state: RunState, event: e.TimerSkipped, at: int) -> None:
    if event.step_execution_id == TIMEOUT_HANDLER_ID:
        state.timeout_at = 0
    else:
        step = state.steps[event.step_execution_id]
        step.fired = (*step.fired, event.condition_index)
        step.skipped = (*step.skipped, event.condition_index)
    if event.request is not None:
        remember(state, event.request, at)


def _timer_skip_requested(state: RunState, event: e.TimerSkipRequested, at: int) -> None:
    skips = state.skips.setdefault(event.step_execution_id, [])
    if event.timer not in skips:
        skips.append(event.timer)
    remember(state, event.request, at)


def _conditions_met(state: RunState, event: e.ConditionsMet, at: int) -> None:
    step = state.steps[event.step_execution_id]
    wait = step.wait
    if wait is None:
        raise TypeError(f"{event.step_execution_id} has no Wait to meet")
    taken = dequeue(state, wait.conditions, event.consumed)
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
    if step.sub_flows:
        show_sub_flows(step, event)
    unwatch(state, step)
    _begin_execute(state, step, at)


def _execute_completed(state: RunState, event: e.ExecuteCompleted, at: int) -> None:
    step = state.steps.pop(event.step_execution_id)
    state.last_worker = step.worker_id  # the Flow sticks to it from now on [ROUTE-6]
    _remember_token(state, step)
    if state.locks or state.lending:
        let_go(state, step)
    write(state, event.writes, event.indexed)
    for message_id, channel, value in event.messages:
        enqueue(state, channel, Message(message_id, value, at, is_own=True))
    if event.decision is GRACEFUL_COMPLETE:
        state.completion_requested = True
    if event.output:
        state.completions.append(Completion(step.step_type, step.step_execution_id, event.output))


def _execute_failed(state: RunState, event: e.ExecuteFailed, at: int) -> None:
    state.last_error = RecoveryError(event.failure.error_type, event.failure.detail)
    if event.resolution is Resolution.RECOVER:
        step = state.steps.pop(event.step_execution_id)
        let_go(state, step)
        if event.is_reported:
            _remember_token(state, step)
    else:
        _attempt_failed(state, state.steps[event.step_execution_id], event, at)


def _step_canceled(state: RunState, event: e.StepCanceled, at: int) -> None:
    step = state.steps.pop(event.step_execution_id)
    unwatch(state, step)
    let_go(state, step)
    forget_skips(state, event.step_execution_id)


def _attempt_failed(state: RunState, step: StepExecution, event: e.WaitForFailed | e.ExecuteFailed, at: int) -> None:
    if event.is_reported:
        _remember_token(state, step)
    take_back(state, step)
    note_failure(step, event, at)
    back_off(step, event)


def _begin_execute(state: RunState, step: StepExecution, at: int) -> None:
    step.method = Method.EXECUTE
    step.phase = StepPhase.READY
    step.phase_since = at
    step.wait = None
    step.fired = ()
    step.attempt = 1
    step.delivery = 0
    step.losses = 0
    step.first_attempt_at = 0
    step.failure = None
    step.heartbeat = b""
    step.has_heartbeat = False
    step.ready_version = state.version + 1


def _remember_token(state: RunState, step: StepExecution) -> None:
    accepted = state.accepted
    accepted.append(step.token(state.chain_id))
    if len(accepted) > ACCEPTED_REMEMBERED_MAX:
        del accepted[0]


# ---- Channels, Attributes, requests -----------------------------------------------------------------------------


def _channel_published(state: RunState, event: e.ChannelPublished, at: int) -> None:
    for message_id, value in event.messages:
        enqueue(state, event.channel, Message(message_id, value, at))
    remember(state, event.request, at)


def _channel_message_deleted(state: RunState, event: e.ChannelMessageDeleted, at: int) -> None:
    for message_id in event.message_ids:
        delete_message(state, event.channel, message_id)
    if event.request is not None:
        remember(state, event.request, at)


def _attributes_set(state: RunState, event: e.AttributesSet, at: int) -> None:
    write(state, event.writes, event.indexed)
    remember(state, event.request, at)


def _rpc_completed(state: RunState, event: e.RpcCompleted, at: int) -> None:
    write(state, event.writes, event.indexed)
    for message_id, channel, value in event.messages:
        enqueue(state, channel, Message(message_id, value, at))
    state.rpc_counters[event.name] = event.number
    state.last_worker = event.worker_id
    remember(state, event.request, at)


# ---- the run ----------------------------------------------------------------------------------------------------


def _flow_closed(state: RunState, event: e.FlowClosed, at: int) -> None:
    state.status = event.status
    state.closed_at = at
    state.error_type = event.error_type
    state.error_message = event.error_message
    state.next_run_id = event.next_run_id
    state.timeout_at = 0
    state.steps = {}
    state.unstarted = {}
    state.watchers = {}
    state.skips = {}
    state.locks = {}
    state.lending = {}
    if event.request is not None:
        remember(state, event.request, at)


def _no_change(state: RunState, event: e.Event, at: int) -> None:
    """A fact that only history needs."""


def _refuse(state: RunState, event: e.FlowStarted, at: int) -> None:
    raise TypeError(f"run {state.run_id} has begun already")


FOLDS: dict[type[e.Event], Callable[[RunState, Any, int], None]] = {
    e.FlowStarted: _refuse,
    e.StepScheduled: _step_scheduled,
    e.StepDispatched: _step_dispatched,
    e.StepDeclined: _step_declined,
    e.StepDeliveryLost: _step_delivery_lost,
    e.HeartbeatReceived: _heartbeat_received,
    e.WaitForCompleted: _wait_for_completed,
    e.WaitForFailed: _wait_for_failed,
    e.ConditionsMet: _conditions_met,
    e.TimerFired: _timer_fired,
    e.SubFlowStarted: sub_flow_started,
    e.SubFlowClosed: sub_flow_closed,
    e.TimerSkipped: _timer_skipped,
    e.TimerSkipRequested: _timer_skip_requested,
    e.ExecuteCompleted: _execute_completed,
    e.ExecuteFailed: _execute_failed,
    e.StepCanceled: _step_canceled,
    e.MethodPending: _no_change,
    e.ChannelPublished: _channel_published,
    e.ChannelMessageDeleted: _channel_message_deleted,
    e.AttributesSet: _attributes_set,
    e.RpcCompleted: _rpc_completed,
    e.FlowConfigUpdated: flow_config_updated,
    e.FlowRetried: flow_retried,
    e.FlowContinued: flow_continued,
    e.FlowForked: flow_forked,
    e.FlowReopened: flow_reopened,
    e.StaleResultRejected: _no_change,
    e.FlowClosed: _flow_closed,
}
