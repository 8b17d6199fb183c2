"""What follows by itself once events are folded: waits that are satisfied, and a completion that was only waiting."""

from collections.abc import Iterable

from dexd.core.events import ConditionsMet
from dexd.core.flow.conditions import evaluate
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import MessageId, StepExecutionId


def by_age(run: RunState, waiting: Iterable[StepExecutionId]) -> list[StepExecutionId]:
    """[WAIT-10] Those of the Step executions that still wait, oldest wait first."""
    steps = [run.steps[step_id] for step_id in waiting if step_id in run.steps]
    still = [step for step in steps if step.phase is StepPhase.WAITING]
    return [step.step_execution_id for step in sorted(still, key=lambda step: step.wait_version)]


def decide_conditions(run: RunState, step_execution_id: StepExecutionId) -> ConditionsMet | None:
    """Consume for the winning candidate and move on to execute, or nothing yet [WAIT-5..9]."""
    step = run.steps[step_execution_id]
    if step.wait is None:
        return None
    queued = {
        condition.channel: len(run.channels.get(condition.channel, ()))
        for condition in step.wait.conditions
        if condition.channel
    }
    win = evaluate(step.wait, step.fired, queued)
    if win is None:
        return None
    consumed = tuple(
        (index, tuple(_message_id(run, step.wait.conditions[index].channel, position) for position in positions))
        for index, positions in win.positions
    )
    return ConditionsMet(step_execution_id, win.winners, consumed)


def _message_id(run: RunState, channel: str, position: int) -> MessageId:
    return MessageId(run.channels[channel][position].message_id)
