"""What an installed Wait still lacks, by the rule that decides it: candidate by candidate [WAIT-5..8, HIST-6]."""

from collections.abc import Iterator, Sequence

from dexd.core.explain.blockers import Blocker, BlockerKind, instant_text
from dexd.core.flow.conditions import candidates
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.sub_flows import SubFlow
from dexd.core.values import Condition, ConditionKind, Wait

_ONE_OF_SEVERAL = "one of several ways on: "


def wait_blockers(run: RunState, step: StepExecution, wait: Wait) -> list[Blocker]:
    """Everything that the candidates of the Wait lack, each thing once."""
    ways = candidates(wait)
    prefix = _ONE_OF_SEVERAL if len(ways) > 1 else ""
    lacking = (blocker for candidate in ways for blocker in _lacking(run, step, wait.conditions, candidate, prefix))
    return list(dict.fromkeys(lacking))


def _lacking(
    run: RunState, step: StepExecution, conditions: Sequence[Condition], candidate: Sequence[int], prefix: str
) -> Iterator[Blocker]:
    needed: dict[str, int] = {}
    for index in candidate:
        condition = conditions[index]
        if condition.kind is ConditionKind.CHANNEL:
            needed[condition.channel] = needed.get(condition.channel, 0) + condition.at_least
        elif index not in step.fired:
            is_timer = condition.kind is ConditionKind.TIMER
            yield _timer(step, condition, prefix) if is_timer else _sub_flow(step, index, prefix)
    for key, count in needed.items():
        queued = len(run.channels.get(key, ()))
        if queued < count:
            text = f"{prefix}waiting on Channel {channel_name(key)} with {queued} of {count} messages"
            yield Blocker(step.step_execution_id, BlockerKind.CHANNEL, text, step.phase_since)


def _timer(step: StepExecution, condition: Condition, prefix: str) -> Blocker:
    at = condition.at_ms or 0
    named = f" {condition.condition_id!r}" if condition.condition_id else ""
    text = f"{prefix}Timer{named} until {instant_text(at)}"
    return Blocker(step.step_execution_id, BlockerKind.TIMER, text, step.phase_since, at)


def _sub_flow(step: StepExecution, index: int, prefix: str) -> Blocker:
    child = next(child for child in step.sub_flows if child.condition_index == index)
    text = f"{prefix}SubFlow {child.flow_id!r} of type {child.plan.flow_type!r} is {sub_flow_status(child)}"
    return Blocker(step.step_execution_id, BlockerKind.SUBFLOW, text, step.phase_since)


def sub_flow_status(child: SubFlow) -> str:
    """How the parent knows its child: not yet there, or its status."""
    if child.result is not None:
        return child.result.status.name
    return "RUNNING" if child.run_id else "STARTING"


def channel_name(key: str) -> str:
    """A Channel key for people: its name, and the instance key of a map."""
    name, separator, instance = key.partition("\0")
    return f"{name!r}[{instance!r}]" if separator else repr(name)
