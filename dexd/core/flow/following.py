"""What a decision leads to: Steps, cancellations, the end of the Flow [DEC-1..11]."""

from collections.abc import Sequence

from dexd.core.config import ACTIVE_STEPS_MAX, MOVEMENTS_MAX
from dexd.core.events import ChannelMessageDeleted, Event, StepCanceled
from dexd.core.flow.canceling import decide_cancel
from dexd.core.flow.closing import decide_close, decide_fail
from dexd.core.flow.scheduling import decide_schedule
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.members import FORCE_COMPLETE_IF_CHANNELS_EMPTY, GO_TO
from dexd.core.values import Decision, DecisionKind, FlowErrorType, FlowStatus, Response

_CLOSE_AT_ONCE = frozenset(
    (DecisionKind.FORCE_COMPLETE, DecisionKind.FORCE_FAIL, DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY)
)


def decide_following(run: RunState, step: StepExecution, decision: Decision) -> Sequence[Event]:
    """Decide what comes after ExecuteCompleted.

    1. force_complete and force_fail close at once, which ends every other Step; whom the decision also cancels does not
       matter then [DEC-3, DEC-6].
    2. Otherwise cancellations come before the Steps that the decision schedules [GEN-6], which they do not concern
       [DEC-10].
    3. go_to schedules in order [DEC-1]; graceful_complete only marks [DEC-2], dead_end ends this branch only [DEC-6].

    A conditional completion must have been resolved: one that still has its fallback takes it [DEC-4].
    """
    own_id = step.step_execution_id
    if decision.kind is GO_TO and decision.canceling is None:  # the usual case
        return decide_schedule(run, decision.movements, from_step=own_id)
    if decision.kind in _CLOSE_AT_ONCE and not decision.movements:
        if decision.kind is DecisionKind.FORCE_FAIL:
            return decide_fail(run, FlowErrorType.STEP_DECISION_FAILED, decision.reason, deciding=own_id)
        return decide_close(run, FlowStatus.COMPLETED, deciding=own_id)
    return [*_canceled(run, step, decision), *decide_schedule(run, decision.movements, from_step=own_id)]


def resolve_condition(
    run: RunState,
    step: StepExecution,
    decision: Decision,
    response: Response,
    deletions: Sequence[ChannelMessageDeleted],
) -> Decision:
    """Settle force_complete_if_channels_empty: what is left is either its output or its fallback [DEC-4].

    1. What is queued and not deleted by this response, and what it publishes, keeps a Channel from being empty [DEC-4].
    2. So does a message that another Step execution consumed and has not finished with [DEC-5]. Executions that this
       decision cancels have [GEN-6].
    """
    channels = decision.channels
    deleted = {deletion.channel: len(deletion.message_ids) for deletion in deletions}
    is_empty = not (
        any(len(run.channels.get(channel, ())) > deleted.get(channel, 0) for channel in channels)
        or any(channel in channels for channel, _ in response.publications)
        or _is_in_hand(run, step, decision)
    )
    movements = () if is_empty else decision.movements
    output = decision.output if is_empty else b""
    return Decision(decision.kind, movements, output, decision.reason, decision.canceling, channels)


def _is_in_hand(run: RunState, step: StepExecution, decision: Decision) -> bool:
    ended = [event.step_execution_id for event in _canceled(run, step, decision)]
    return any(
        result.values and result.channel in decision.channels
        for other in run.steps.values()
        if other is not step and other.results and other.step_execution_id not in ended
        for result in other.results
    )


def _canceled(run: RunState, step: StepExecution, decision: Decision) -> list[StepCanceled]:
    canceling = decision.canceling
    if canceling is None:
        return []
    return decide_cancel(
        run,
        canceling.step_types,
        canceling.sibling_types,
        source=step.from_step,
        by=step.step_execution_id,
        deciding=step.step_execution_id,
    )


def invalid_decision(run: RunState, step: StepExecution, decision: Decision | None) -> str:
    """Say what the SDK should not have let through, or "" [DEC-8]."""
    if decision is None:
        return "execute returned no decision"
    count = len(decision.movements)
    if decision.kind is FORCE_COMPLETE_IF_CHANNELS_EMPTY:
        problem = _invalid_condition(decision)
        if problem:
            return problem
    elif decision.kind is not GO_TO:
        return "a closing decision cannot carry next Steps" if count else ""
    elif not 1 <= count <= MOVEMENTS_MAX:
        return f"{count} movements, allowed are 1 to {MOVEMENTS_MAX}"
    active = len(run.steps) - 1 + count  # the deciding one ends
    if active > ACTIVE_STEPS_MAX:
        active -= len(_canceled(run, step, decision))
    return f"{active} active Steps, the limit is {ACTIVE_STEPS_MAX}" if active > ACTIVE_STEPS_MAX else ""


def _invalid_condition(decision: Decision) -> str:
    """[DEC-4] At least one Channel, no duplicates, exactly one fallback."""
    if not decision.channels:
        return "a conditional completion names no Channel"
    if len(dict.fromkeys(decision.channels)) != len(decision.channels):
        return "a conditional completion names a Channel twice"
    if len(decision.movements) != 1:
        return f"a conditional completion has {len(decision.movements)} fallback movements, not one"
    return ""
