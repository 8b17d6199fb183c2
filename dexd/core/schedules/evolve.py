"""The fold of a schedule: applies one event, never refuses, filters or emits [ARCH-2]."""

from collections.abc import Callable
from typing import Any

import msgspec

from dexd.core.outcome import RecordedStreamEvent
from dexd.core.schedules import events as e
from dexd.core.schedules.state import (
    REQUESTS_MAX,
    Counts,
    Execution,
    PausedSpan,
    ScheduleState,
    ScheduleStatus,
    Waiting,
)
from dexd.core.values import RequestRecord


def evolve_schedule(state: ScheduleState | None, recorded: RecordedStreamEvent) -> ScheduleState:
    """Apply an event to the state, which is changed in place; the first event makes it."""
    event = recorded.event
    if isinstance(event, e.ScheduleCreated):
        if state is not None:
            raise TypeError(f"schedule {state.schedule_id!r} has begun already")
        state = _created(recorded, event)
    elif state is None:
        raise TypeError(f"a schedule begins with ScheduleCreated, not {type(event).__name__}")
    else:
        _FOLDS[type(event)](state, event, recorded.at)
    state.version = recorded.version
    if state.is_closed and not state.closed_at:
        state.closed_at = recorded.at
    return state


def _created(recorded: RecordedStreamEvent, event: e.ScheduleCreated) -> ScheduleState:
    return ScheduleState(
        event.schedule_id,
        recorded.stream_id,
        recorded.at,
        event.spec,
        event.action,
        event.policy,
        ScheduleStatus.PAUSED if event.is_paused else ScheduleStatus.ACTIVE,
        updated_at=recorded.at,
        since=recorded.at,
        revision=recorded.version,
        through=recorded.at,
        requests={event.request.request_id: event.request},
    )


def _updated(state: ScheduleState, event: e.ScheduleUpdated, at: int) -> None:
    _remember(state, event.request)
    if event.spec is not None:
        if state.status is ScheduleStatus.PAUSED:
            _note_pause(state, at)
        state.spec = event.spec
        state.since = state.through = at
        state.revision = state.version + 1
    state.action = event.action or state.action
    state.policy = event.policy or state.policy
    state.updated_at = at


def _paused(state: ScheduleState, event: e.SchedulePaused, _at: int) -> None:
    if event.request is not None:
        _remember(state, event.request)
    state.status = ScheduleStatus.PAUSED
    state.note = event.note


def _resumed(state: ScheduleState, event: e.ScheduleResumed, at: int) -> None:
    _remember(state, event.request)
    state.status = ScheduleStatus.ACTIVE
    state.note = ""
    _note_pause(state, at)


def _deleted(state: ScheduleState, event: e.ScheduleDeleted, _at: int) -> None:
    _remember(state, event.request)
    state.status = ScheduleStatus.DELETED


def _triggered(state: ScheduleState, event: e.ScheduleTriggered, _at: int) -> None:
    _remember(state, event.request)


def _backfilled(state: ScheduleState, event: e.ScheduleBackfilled, _at: int) -> None:
    _remember(state, event.request)


def _buffered(state: ScheduleState, event: e.OccurrenceBuffered, at: int) -> None:
    state.buffer.append(Waiting(event.nominal, event.overlap, event.by_hand))
    _decided(state, event.nominal, at, by_hand=event.by_hand)


def _starting(state: ScheduleState, event: e.OccurrenceStarting, at: int) -> None:
    if event.was_buffered:
        _unbuffer(state, event.nominal)
    else:
        _decided(state, event.nominal, at, by_hand=event.by_hand)
    state.open[event.nominal] = Execution(event.nominal, event.flow_id)


def _started(state: ScheduleState, event: e.OccurrenceStarted, _at: int) -> None:
    state.open[event.nominal] = msgspec.structs.replace(state.open[event.nominal], run_id=event.run_id)
    state.counts = msgspec.structs.replace(state.counts, started=state.counts.started + 1)


def _skipped(state: ScheduleState, event: e.OccurrenceSkipped, _at: int) -> None:
    if state.open.pop(event.nominal, None) is None:
        _unbuffer(state, event.nominal)
    state.counts = _with_skipped(state.counts, event.reason, 1)


def _passed(state: ScheduleState, event: e.OccurrencesPassed, at: int) -> None:
    counts = state.counts
    if event.outcome is e.FireOutcome.MISSED:
        counts = msgspec.structs.replace(counts, missed=counts.missed + event.count)
    else:
        counts = _with_skipped(counts, event.reason, event.count)
    state.counts = msgspec.structs.replace(counts, is_at_least=counts.is_at_least or event.is_at_least)
    if event.ends_pause:
        state.pauses = state.pauses[1:]
        return
    _decided(state, event.last, at, by_hand=event.by_hand)


def _closed(state: ScheduleState, event: e.OccurrenceClosed, _at: int) -> None:
    del state.open[event.nominal]


def _reopened(state: ScheduleState, event: e.OccurrenceReopened, _at: int) -> None:
    state.open[event.nominal] = Execution(event.nominal, event.flow_id, event.run_id)


def _decided(state: ScheduleState, nominal: int, at: int, *, by_hand: bool) -> None:
    """Everything that was due by now is decided in one outcome, so one fire of the plan tells of all of them."""
    state.last_nominal = max(state.last_nominal, nominal)
    if not by_hand:
        state.through = max(state.through, at)


def _note_pause(state: ScheduleState, at: int) -> None:
    """What has fallen into the pause until now is to be counted."""
    state.pauses += (PausedSpan(state.spec, state.since, state.through, at),)
    state.through = at


def _unbuffer(state: ScheduleState, nominal: int) -> None:
    state.buffer = [waiting for waiting in state.buffer if waiting.nominal != nominal]


def _with_skipped(counts: Counts, reason: e.SkipReason, count: int) -> Counts:
    skipped = {**counts.skipped, int(reason): counts.skipped.get(reason, 0) + count}
    return msgspec.structs.replace(counts, skipped=skipped)


def _remember(state: ScheduleState, request: RequestRecord) -> None:
    state.requests[request.request_id] = request
    if len(state.requests) > REQUESTS_MAX:
        del state.requests[next(iter(state.requests))]


_FOLDS: dict[type[Any], Callable[[ScheduleState, Any, int], None]] = {
    e.ScheduleUpdated: _updated,
    e.SchedulePaused: _paused,
    e.ScheduleResumed: _resumed,
    e.ScheduleDeleted: _deleted,
    e.ScheduleTriggered: _triggered,
    e.ScheduleBackfilled: _backfilled,
    e.OccurrenceBuffered: _buffered,
    e.OccurrenceStarting: _starting,
    e.OccurrenceStarted: _started,
    e.OccurrenceSkipped: _skipped,
    e.OccurrencesPassed: _passed,
    e.OccurrenceClosed: _closed,
    e.OccurrenceReopened: _reopened,
}
