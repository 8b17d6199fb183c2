"""What follows by itself once events are folded: waits that are satisfied, and a completion that was only waiting."""

from collections.abc import Collection, Iterator
from heapq import merge

from dexd.core.events import ConditionsMet
from dexd.core.flow.conditions import evaluate
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import MessageId, StepExecutionId


def waits_to_try(
    run: RunState, steps: Collection[StepExecutionId], channels: Collection[str]
) -> Iterator[StepExecutionId]:
    """[WAIT-10] Waits that may be satisfied now, oldest first, each taken when its turn comes.

    Args:
        run: Where they are.
        steps: Step executions whose own wait changed.
        channels: Channels that got messages. Who watches one need not be looked at once it is empty again, because the
            wait was not satisfied before; so thousands of waits on one Channel cost a message no more than one does.
    """
    if not (steps or channels):
        return
    watching = [list(run.watchers[channel]) for channel in channels if channel in run.watchers]
    own = sorted((step_id for step_id in steps if step_id in run.steps), key=lambda step_id: _age(run, step_id))
    for step_id in merge(own, *watching, key=lambda step_id: _age(run, step_id)):
        if step_id not in steps and not any(channel in run.channels for channel in channels):
            if not steps:
                return
        elif run.steps[step_id].phase is StepPhase.WAITING:
            yield step_id


def _age(run: RunState, step_execution_id: StepExecutionId) -> int:
    return run.steps[step_execution_id].wait_version


def decide_conditions(run: RunState, step_execution_id: StepExecutionId) -> ConditionsMet | None:
    """Consume for the winning candidate of a waiting Step and move on to execute, or nothing yet [WAIT-5..9]."""
    step = run.steps[step_execution_id]
    assert step.wait is not None
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
