"""Timers that somebody wants to have fired now, or as soon as they exist [TIMER-8, TIMER-9]."""

from collections.abc import Sequence

from dexd.core.commands import SkipTimer
from dexd.core.config import TIMER_SKIPS_MAX
from dexd.core.events import TimerSkipped, TimerSkipRequested
from dexd.core.flow.decide_external import refuse_closed
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.rejections import Code, Rejection
from dexd.core.values import ConditionKind, Method, RequestRecord, SkipOutcome, TimerId, Wait


def decide_skip_timer(run: RunState, command: SkipTimer) -> TimerSkipped | TimerSkipRequested | SkipOutcome | Rejection:
    """Skip a Timer of an installed Wait, or remember that it is to be skipped [TIMER-9].

    1. The Step execution waits: the Timer is skipped, or ALREADY_FIRED; one that the Wait does not have is not found.
    2. It is not scheduled yet, or its wait_for has not succeeded yet: the skip is REMEMBERED, as is a repeat of it.
    3. It is past its Wait: ALREADY_FIRED for a Timer that let it go on, otherwise, and when it has ended, nothing can
       be skipped any more.
    """
    refused = refuse_closed(run)
    if refused is not None:
        return refused
    step = run.steps.get(command.step_execution_id)
    if step is None:
        return _refuse_over(run, command, "has ended") if _has_ended(run, command) else _remember(run, command)
    if step.phase is StepPhase.WAITING:
        assert step.wait is not None
        return _skip(run, step, step.wait, command)
    return _remember(run, command) if step.method is Method.WAIT_FOR else _skip_late(run, step, command)


def decide_remembered_skips(run: RunState, step: StepExecution, wait: Wait) -> list[TimerSkipped]:
    """Apply the skips that were waiting for this Wait; those that name none of its Timers are void [TIMER-9]."""
    indexes = [_condition_index(wait, timer) for timer in run.skips.get(step.step_execution_id, ())]
    found = [index for index in dict.fromkeys(indexes) if index is not None]
    return [TimerSkipped(step.step_execution_id, index) for index in found]


def _skip(run: RunState, step: StepExecution, wait: Wait, command: SkipTimer) -> TimerSkipped | SkipOutcome | Rejection:
    index = _condition_index(wait, command.timer)
    if index is None:
        return refuse_timer(run, command)
    if index in step.fired:
        return SkipOutcome.ALREADY_FIRED
    return TimerSkipped(step.step_execution_id, index, _record(command, SkipOutcome.APPLIED))


def _skip_late(run: RunState, step: StepExecution, command: SkipTimer) -> SkipOutcome | Rejection:
    timers = [result for result in step.results if result.kind is ConditionKind.TIMER]
    position = _position([timer.condition_id for timer in timers], command.timer)
    if position is not None and timers[position].met:
        return SkipOutcome.ALREADY_FIRED
    return _refuse_over(run, command, "waits no more" if timers else "does not wait for a Timer")


def _remember(run: RunState, command: SkipTimer) -> TimerSkipRequested | Rejection:
    is_known = command.timer in run.skips.get(command.step_execution_id, ())
    count = sum(map(len, run.skips.values())) + 1
    if count > TIMER_SKIPS_MAX and not is_known:
        return Rejection(
            Code.VALUE_TOO_LARGE,
            f"Flow {run.flow_id!r} would have {count} timers to skip later, the limit is {TIMER_SKIPS_MAX}",
            {"flow_id": run.flow_id, "what": "skips", "size": str(count), "limit": str(TIMER_SKIPS_MAX)},
        )
    return TimerSkipRequested(command.step_execution_id, command.timer, _record(command, SkipOutcome.REMEMBERED))


def _has_ended(run: RunState, command: SkipTimer) -> bool:
    step_type, _, number = command.step_execution_id.rpartition("-")
    return int(number) <= run.counters.get(step_type, 0)


def _condition_index(wait: Wait, timer: TimerId) -> int | None:
    """The Timer's index among all conditions of the Wait."""
    indexes = [index for index, condition in enumerate(wait.conditions) if condition.kind is ConditionKind.TIMER]
    position = _position([wait.conditions[index].condition_id for index in indexes], timer)
    return None if position is None else indexes[position]


def _position(condition_ids: Sequence[str], timer: TimerId) -> int | None:
    """The Timer's position among the Timers of a Wait, whose condition IDs are given."""
    if timer.condition_id:
        return condition_ids.index(timer.condition_id) if timer.condition_id in condition_ids else None
    return timer.index if timer.index < len(condition_ids) else None


def _record(command: SkipTimer, outcome: SkipOutcome) -> RequestRecord:
    return RequestRecord(command.request_id, command.digest, outcome.name.encode())


def refuse_timer(run: RunState, command: SkipTimer) -> Rejection:
    """There is no such Timer."""
    return _refuse(run, command, Code.TIMER_NOT_FOUND, f"has no Timer {_shown(command.timer)} in its Wait")


def _refuse_over(run: RunState, command: SkipTimer, what: str) -> Rejection:
    return _refuse(run, command, Code.STEP_NOT_WAITING, f"{what}; Timer {_shown(command.timer)} cannot be skipped")


def _refuse(run: RunState, command: SkipTimer, code: Code, what: str) -> Rejection:
    step_id = command.step_execution_id
    fields = {"flow_id": run.flow_id, "step_execution_id": step_id, "timer": _shown(command.timer)}
    return Rejection(code, f"{step_id} of Flow {run.flow_id!r} {what}", fields)


def _shown(timer: TimerId) -> str:
    return repr(timer.condition_id) if timer.condition_id else f"number {timer.index}"
