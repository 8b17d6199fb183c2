"""What events do to the children of a Wait; part of the fold, called by `evolve` only."""

from typing import Any

import msgspec

from dexd.core import events as e
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.sub_flows import SubFlow, SubFlowKey, UnstartedSubFlow, sub_flow_id
from dexd.core.values import ConditionKind, SubFlowResult


def install_sub_flows(state: RunState, step: StepExecution, event: e.WaitForCompleted) -> None:
    """Note the children of the Wait; none of them is known to exist yet."""
    kinds = (condition.kind for condition in event.wait.conditions)
    indexes = [index for index, kind in enumerate(kinds) if kind is ConditionKind.SUB_FLOW]
    sub_flows: list[SubFlow] = []
    for number, (index, plan) in enumerate(zip(indexes, event.sub_flows, strict=True)):
        flow_id = sub_flow_id(state.flow_id, step.step_execution_id, number)
        key = SubFlowKey(state.chain_id, step.step_execution_id, number)
        state.unstarted[key.source] = UnstartedSubFlow(key, flow_id, plan)
        sub_flows.append(SubFlow(index, flow_id, plan))
    step.sub_flows = tuple(sub_flows)


def sub_flow_started(state: RunState, event: e.SubFlowStarted, at: int) -> None:  # noqa: ARG001 - a fold
    """The child exists; the Wait may be over by now."""
    key = SubFlowKey(state.chain_id, event.step_execution_id, event.number)
    state.unstarted.pop(key.source, None)
    step = state.steps.get(event.step_execution_id)
    if step is not None and event.number < len(step.sub_flows):
        _replace(step, event.number, run_id=event.run_id)


def sub_flow_closed(state: RunState, event: e.SubFlowClosed, at: int) -> None:  # noqa: ARG001 - a fold
    """The condition holds from now on."""
    step = state.steps[event.step_execution_id]
    _replace(step, event.number, result=event.result)
    step.fired = (*step.fired, step.sub_flows[event.number].condition_index)


def show_sub_flows(step: StepExecution, event: e.ConditionsMet) -> None:
    """Give the results of the Wait those of its children.

    One whose condition did not win reads as RUNNING even if it has ended [SUB-5, WAIT-9].
    """
    results = list(step.results)
    for sub_flow in step.sub_flows:
        index = sub_flow.condition_index
        ended = sub_flow.result if index in event.winners else None
        results[index] = msgspec.structs.replace(results[index], sub_flow=ended or SubFlowResult(sub_flow.flow_id))
    step.results = tuple(results)
    step.sub_flows = ()


def _replace(step: StepExecution, number: int, **changes: Any) -> None:
    changed = msgspec.structs.replace(step.sub_flows[number], **changes)
    step.sub_flows = (*step.sub_flows[:number], changed, *step.sub_flows[number + 1 :])
