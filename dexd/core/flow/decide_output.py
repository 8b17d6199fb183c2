"""What follows from a handler's result [GEN-6]."""

from collections.abc import Sequence

from dexd.core.blobs import value_bytes
from dexd.core.config import (
    COMBINATIONS_MAX,
    CONDITIONS_MAX,
    DURATION_MS_MAX,
    PUBLICATIONS_MAX,
    RECORDED_EVENTS_MAX,
    STEP_LOCALS_BYTES_MAX,
)
from dexd.core.events import ChannelMessageDeleted, Event, ExecuteCompleted, TimerFired, WaitForCompleted
from dexd.core.flow.closing import decide_close
from dexd.core.flow.decide_failure import INVALID_RESULT, decide_attempt_failed, decide_flow_failed
from dexd.core.flow.decide_sub_flow import invalid_sub_flows, refuse_depth
from dexd.core.flow.following import decide_following, invalid_decision, resolve_condition
from dexd.core.flow.map_instances import refuse_instances
from dexd.core.flow.messages import decide_deletions, message_ids, refuse_overflow
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.flow.timer_skips import decide_remembered_skips
from dexd.core.ids import MessageId
from dexd.core.members import COMPLETED, FORCE_COMPLETE_IF_CHANNELS_EMPTY
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.values import Condition, ConditionKind, Failure, FlowErrorType, Response, Wait, WaitKind

VALUE_TOO_LARGE = "ValueTooLargeError"
"""Error type of an attempt whose result exceeds a limit; trying again would not help [RETRY-5, LIM-3]."""


def decide_wait_for_completed(
    run: RunState, step: StepExecution, response: Response, sub_flows: tuple[SubFlowPlan, ...] = (), *, now: int
) -> list[Event]:
    """Apply the result of wait_for, or fail what cannot be applied.

    1. A result that the server finds invalid fails the Flow with INVALID_USER_FLOW_CODE, nothing applied [DEC-8].
    2. Publications and map instances over a limit are a failed attempt [CHAN-10, LIM-2], and so are children that nest
       too deep [SUB-8].
    3. Timers become absolute, counted from now; those that are to be skipped are [TIMER-9], and those due fire in the
       order of their instants [TIMER-1, TIMER-3].
    """
    problem = _invalid_wait(response.wait) or _invalid_effects(response)
    if problem or response.wait is None:
        return _fail_invalid(run, step, problem or "wait_for returned no Wait")
    problem = invalid_sub_flows(response.wait.conditions, len(sub_flows))
    if problem:
        return _fail_invalid(run, step, problem)
    deletions = _deletions(run, step, response)
    refused = _refused_effects(run, response, deletions)
    if refused is not None:
        return decide_attempt_failed(run, step, refused, now=now)
    too_deep = refuse_depth(run) if sub_flows else None
    if too_deep is not None:
        return decide_attempt_failed(run, step, too_deep, now=now)
    wait = _install(response.wait, now=now)
    completed = WaitForCompleted(
        step.step_execution_id,
        step.attempt,
        step.delivery,
        wait,
        response.writes,
        _published(run, response, now=now, after=len(deletions)),
        response.locals,
        response.recorded,
        sub_flows,
        response.indexed,
    )
    if step.step_execution_id not in run.skips:
        return [*deletions, completed, *decide_due_timers(step, wait, (), now=now)]
    skipped = decide_remembered_skips(run, step, wait)
    due = decide_due_timers(step, wait, [event.condition_index for event in skipped], now=now)
    return [*deletions, completed, *skipped, *due]


def decide_due_timers(step: StepExecution, wait: Wait, fired: Sequence[int], *, now: int) -> list[TimerFired]:
    """Fire the timers of a Wait that are due and have not fired, in due order, ties in declaration order [TIMER-4]."""
    due = [
        (condition.at_ms, index)
        for index, condition in enumerate(wait.conditions)
        if condition.kind is ConditionKind.TIMER
        and condition.at_ms is not None
        and condition.at_ms <= now
        and index not in fired
    ]
    return [TimerFired(step.step_execution_id, index) for _, index in sorted(due)]


def decide_next_timers(step: StepExecution) -> list[TimerFired]:
    """Fire the timers of the Step's Wait that are next, which are those of one instant.

    What is overdue after a pause or restart so fires in due order over all Steps, and what an earlier timer decides is
    decided before a later one fires, as if the server had never been away [TIMER-4].
    """
    due = step.next_timer_at()
    return [] if step.wait is None or due is None else decide_due_timers(step, step.wait, step.fired, now=due)


def decide_execute_completed(run: RunState, step: StepExecution, response: Response, *, now: int) -> list[Event]:
    """Apply the result of execute: effects, then the decision's Steps or closing [GEN-6].

    1. An invalid result fails the Flow with INVALID_USER_FLOW_CODE, nothing applied [DEC-8].
    2. Publications and map instances over a limit are a failed attempt [CHAN-10, LIM-2].
    3. Then comes what the decision leads to, see `following`.
    """
    decision = response.decision
    has_effects = response.publications or response.deletions or response.recorded or response.locals
    problem = invalid_decision(run, step, decision) or (_invalid_effects(response) if has_effects else "")
    if problem or decision is None:
        return _fail_invalid(run, step, problem or "execute returned no decision")
    deletions = _deletions(run, step, response) if has_effects else ()
    refused = _refused_effects(run, response, deletions) if has_effects or response.writes else None
    if refused is not None:
        return decide_attempt_failed(run, step, refused, now=now)
    if decision.kind is FORCE_COMPLETE_IF_CHANNELS_EMPTY:
        decision = resolve_condition(run, step, decision, response, deletions)
    completed = ExecuteCompleted(
        step.step_execution_id,
        step.attempt,
        step.delivery,
        step.worker_id,
        decision.kind,
        decision.output,
        decision.reason,
        response.writes,
        _published(run, response, now=now, after=len(deletions)) if has_effects else (),
        response.recorded,
        response.indexed,
    )
    return [*deletions, completed, *decide_following(run, step, decision)]


def decide_completion(run: RunState) -> list[Event]:
    """[DEC-2] Complete once completion was requested and no Step is active."""
    if run.is_open and run.completion_requested and not run.steps:
        return decide_close(run, COMPLETED)
    return []


def _deletions(run: RunState, step: StepExecution, response: Response) -> Sequence[ChannelMessageDeleted]:
    """[CHAN-8] An unknown ID is a no-op."""
    if not response.deletions:
        return ()
    return decide_deletions(run, response.deletions, by=step.step_execution_id)[0]


def _refused_effects(run: RunState, response: Response, deletions: Sequence[ChannelMessageDeleted]) -> Failure | None:
    """What is wrong with effects that another attempt may do better: too much for what the Flow has already."""
    if response.publications:
        overflow = refuse_overflow(run, [value for _, value in response.publications], deletions)
        if overflow is not None:
            return Failure(overflow.code, overflow.message)
    excess = refuse_instances(run, response.writes) if response.writes else None
    return None if excess is None else Failure(VALUE_TOO_LARGE, excess.message, non_retryable=True)


def _fail_invalid(run: RunState, step: StepExecution, problem: str) -> list[Event]:
    error_type = FlowErrorType.INVALID_USER_FLOW_CODE
    message = f"gave an invalid result: {problem}"
    return decide_flow_failed(run, step, Failure(INVALID_RESULT, problem), error_type=error_type, message=message)


def _published(run: RunState, response: Response, *, now: int, after: int) -> tuple[tuple[MessageId, str, bytes], ...]:
    if not response.publications:
        return ()
    ids = message_ids(run, len(response.publications), now=now, after=after)
    return tuple((mid, key, value) for mid, (key, value) in zip(ids, response.publications, strict=True))


def _install(wait: Wait, *, now: int) -> Wait:
    if all(condition.duration_ms is None for condition in wait.conditions):
        return wait
    return Wait(wait.kind, tuple(_with_deadline(c, now=now) for c in wait.conditions), wait.combinations)


def _with_deadline(condition: Condition, *, now: int) -> Condition:
    if condition.duration_ms is None:
        return condition
    return Condition(condition.kind, condition.condition_id, condition.duration_ms, now + condition.duration_ms)


# ---- what the SDK should not have let through [DEC-8] -----------------------------------------------------------


def _invalid_effects(response: Response) -> str:
    if len(response.publications) > PUBLICATIONS_MAX:
        return f"{len(response.publications)} publications, the limit is {PUBLICATIONS_MAX}"
    if len(response.recorded) > RECORDED_EVENTS_MAX:
        return f"{len(response.recorded)} recorded events, the limit is {RECORDED_EVENTS_MAX}"
    if not response.locals:
        return ""
    locals_bytes = sum(value_bytes(value) for _, value in response.locals)
    if locals_bytes > STEP_LOCALS_BYTES_MAX:
        return f"{locals_bytes} bytes of Step locals, the limit is {STEP_LOCALS_BYTES_MAX}"
    return ""


def _invalid_wait(wait: Wait | None) -> str:
    if wait is None:
        return "wait_for returned no Wait"
    if wait.kind is WaitKind.SKIP:
        return "a skipped Wait has no conditions" if wait.conditions else ""
    if not 1 <= len(wait.conditions) <= CONDITIONS_MAX:
        return f"{len(wait.conditions)} conditions, allowed are 1 to {CONDITIONS_MAX}"
    if wait.kind is WaitKind.ANY_COMBINATION:
        problem = _invalid_combinations(wait)
        if problem:
            return problem
    return next(filter(None, map(_invalid_condition, wait.conditions)), "")


def _invalid_combinations(wait: Wait) -> str:
    if not 1 <= len(wait.combinations) <= COMBINATIONS_MAX:
        return f"{len(wait.combinations)} combinations, allowed are 1 to {COMBINATIONS_MAX}"
    valid = range(len(wait.conditions))
    if any(not group or any(index not in valid for index in group) for group in wait.combinations):
        return "a combination is empty or names a condition that does not exist"
    if any(len(dict.fromkeys(group)) != len(group) for group in wait.combinations):
        # It would consume its messages twice, past its upper bound [WAIT-8].
        return "a combination names one condition twice"
    ids = [condition.condition_id for condition in wait.conditions]
    if "" in ids or len(dict.fromkeys(ids)) != len(ids):
        return "condition IDs are required and unique in a combination"
    return ""


def _invalid_condition(condition: Condition) -> str:
    if condition.kind is ConditionKind.TIMER:
        if (condition.duration_ms is None) == (condition.at_ms is None):
            return "a Timer has either a duration or an instant"
        if condition.duration_ms is not None and not 0 <= condition.duration_ms <= DURATION_MS_MAX:
            return f"Timer duration {condition.duration_ms} ms, allowed are 0 to {DURATION_MS_MAX}"
        return ""
    if condition.kind is ConditionKind.SUB_FLOW:
        return ""
    if not condition.channel:
        return "a Channel condition names no Channel"
    if condition.duration_ms is not None or condition.at_ms is not None:
        return "a Channel condition has a duration or instant"
    if condition.at_least < 0 or (condition.at_most is not None and condition.at_most < condition.at_least):
        return f"Channel bounds at_least {condition.at_least}, at_most {condition.at_most}"
    return ""
