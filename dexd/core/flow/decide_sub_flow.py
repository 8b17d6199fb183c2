"""What the request for a child does to the child's Flow ID, and what the parent hears of it [SUB-1..8, ARCH-14].

Parent and child are decided apart: a decision here reads one of them only.
"""

import msgspec

from dexd.core.commands import NoteSubFlow, ReachSubFlow
from dexd.core.config import SUB_FLOW_DEPTH_MAX
from dexd.core.events import Event, FlowStarted, SubFlowClosed, SubFlowStarted
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.decide_start import schedule_of
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import RequestId
from dexd.core.sub_flows import SubFlowKey, SubFlowReusePolicy
from dexd.core.terms import FlowTerms
from dexd.core.values import Condition, ConditionKind, Failure, FlowStatus, SubFlowResult

SUB_FLOW_TOO_DEEP = "SUB_FLOW_TOO_DEEP"
"""Error type of a wait_for that asks for a child below the deepest level [SUB-8]; trying again would not help."""


def refuse_depth(run: RunState) -> Failure | None:
    """[SUB-8] A child may have at most so many Flows above it."""
    if depth_of(run) <= SUB_FLOW_DEPTH_MAX:
        return None
    detail = f"SubFlows nest {SUB_FLOW_DEPTH_MAX} levels deep at most, Flow {run.flow_id!r} is on the last one"
    return Failure(SUB_FLOW_TOO_DEEP, detail, non_retryable=True)


def depth_of(run: RunState) -> int:
    """How many Flows would stand above a child of this one."""
    return 1 + (0 if run.terms is None else run.terms.depth)


def invalid_sub_flows(conditions: tuple[Condition, ...], count: int) -> str:
    """Say what is wrong with the children of a Wait; one for each of its SubFlow conditions."""
    wanted = 0
    for condition in conditions:
        if condition.kind is ConditionKind.SUB_FLOW:
            wanted += 1
    return "" if wanted == count else f"{wanted} SubFlow conditions with {count} SubFlows"


def request_id_of(key: SubFlowKey) -> RequestId:
    """The request with which the child is started; a repeat of it finds the child."""
    return RequestId(f"sys:sub-{key.source}")


def needs_start(child: RunState, command: ReachSubFlow) -> bool:
    """[SUB-6] Whether a new execution follows the one that exists; otherwise that one is the child.

    The server's own repeat always attaches, as does one whose parent knows the child already.
    """
    if command.is_known or child.start_request_id == request_id_of(command.key):
        return False
    policy = command.plan.reuse_policy
    if policy is SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY:
        return child.status not in (FlowStatus.RUNNING, FlowStatus.COMPLETED)
    return policy is SubFlowReusePolicy.ALWAYS_RESTART


def decide_sub_flow_start(
    child: RunState | None, command: ReachSubFlow, *, now: int, last_ordinal: int = 0
) -> FlowStarted:
    """Begin the child's next execution; it has a timeout and retries of its own, and its parent's settings [SUB-3].

    `last_ordinal` is as in `decide_start`.
    """
    plan = command.plan
    terms = msgspec.structs.replace(plan.terms or FlowTerms(), config=command.config, parent=command.parent)
    eligible_at, timeout_at = schedule_of(terms, delay_ms=terms.start_delay_ms, now=now)
    run_id = derived_run_id(f"{command.key.source}/sub")
    return FlowStarted(
        flow_id=command.flow_id,
        run_id=run_id,
        flow_type=plan.flow_type,
        ordinal=1 + (last_ordinal if child is None else child.ordinal),
        request_id=request_id_of(command.key),
        digest=b"",
        # Not secret and not shared: it only spreads the retries of this run.
        seed=int(run_id[:15], 16),
        attributes=plan.attributes,
        terms=terms,
        eligible_at=eligible_at,
        timeout_at=timeout_at,
        indexed=plan.indexed,
    )


def result_of(child: RunState) -> SubFlowResult | None:
    """How the child ended; None while it runs. Every terminal status is a result [SUB-5]."""
    if child.is_open:
        return None
    completions = tuple(child.completions)
    return SubFlowResult(child.flow_id, child.status, child.error_type, child.error_message, completions)


def decide_note(parent: RunState, command: NoteSubFlow) -> list[Event]:
    """Tell the parent once which execution its child is, and once how that ended, if it still waits for that."""
    key = command.key
    events: list[Event] = []
    unstarted = parent.unstarted.get(key.source)
    if unstarted is not None:
        started = SubFlowStarted(
            key.step_execution_id, key.number, unstarted.flow_id, command.run_id, command.is_attached
        )
        events.append(started)
    step = parent.steps.get(key.step_execution_id)
    if step is None or step.phase is not StepPhase.WAITING or key.number >= len(step.sub_flows):
        return events
    child = step.sub_flows[key.number]
    if child.result is not None:
        return events
    if unstarted is None and child.run_id != command.run_id:
        # The one that it knew was replaced since the point of a time travel; from now on it waits for this one [TT-6].
        events.append(
            SubFlowStarted(key.step_execution_id, key.number, child.flow_id, command.run_id, is_attached=True)
        )
    if command.result is not None:
        events.append(SubFlowClosed(key.step_execution_id, key.number, command.result))
    return events
