"""What a Wait says of children, and what parent and child know of each other [SUB-1..8]."""

import hashlib
from enum import IntEnum

import msgspec

from dexd.core.config import NAME_LENGTH_MAX
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.index_values import IndexWrite
from dexd.core.terms import FlowTerms
from dexd.core.values import StepPlan, SubFlowResult

SUB_FLOW_PREFIX = "sys:sub:"


class SubFlowReusePolicy(IntEnum):
    """What to do when the child's ID exists already [SUB-6]."""

    RESTART_IF_PREVIOUS_EXITS_ABNORMALLY = 0
    ATTACH = 1
    ALWAYS_RESTART = 2


class SubFlowPlan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A child that a Wait asks for."""

    flow_type: str
    start_step: StepPlan
    attributes: tuple[tuple[str, bytes], ...] = ()
    terms: FlowTerms | None = None
    reuse_policy: SubFlowReusePolicy = SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of the initial Attributes."""


class SubFlow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A child of an installed Wait, as the parent knows it."""

    condition_index: int
    flow_id: FlowId
    plan: SubFlowPlan
    run_id: RunId = RunId("")
    """First run of the execution that is waited for; empty until it is known to exist."""
    result: SubFlowResult | None = None
    """How it ended; None until the parent knows."""


class SubFlowKey(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Names one SubFlow of one Wait: who waits for a child."""

    run_id: RunId
    """First run of the parent's chain, so that the key outlives roll-over."""
    step_execution_id: StepExecutionId
    number: int
    """Position among the SubFlows of the Wait, from 0."""

    @property
    def source(self) -> str:
        """A text of its own for each, from which the child's run ID and request ID derive."""
        return f"{self.run_id}/{self.step_execution_id}/{self.number}"


class UnstartedSubFlow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A child that a Wait asked for and that is not known to exist yet; the parent owes the start whatever it does."""

    key: SubFlowKey
    flow_id: FlowId
    plan: SubFlowPlan


def sub_flow_id(parent: FlowId, step_execution_id: StepExecutionId, number: int) -> FlowId:
    """Name a child [SUB-2]: its place in the parent, hashed where that would be too long for a Flow ID.

    `%` and `/` of the Step type are escaped, so that distinct places never give one text.
    """
    step = step_execution_id.replace("%", "%25").replace("/", "%2F")
    text = f"{SUB_FLOW_PREFIX}{parent}/{step}/{number}"
    if len(text) > NAME_LENGTH_MAX:
        text = SUB_FLOW_PREFIX + hashlib.sha256(text.encode()).hexdigest()
    return FlowId(text)
