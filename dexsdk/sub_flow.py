"""Child Flows as conditions of a Wait [SUB-1..8]."""

import dataclasses
import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, overload

from dexpb.v1 import frames
from dexsdk._durations import Duration
from dexsdk._names import NAME_LENGTH_MAX, check_name
from dexsdk.attribute import Attribute, AttributeMap, key_of
from dexsdk.condition import Condition
from dexsdk.context import Context
from dexsdk.flow import FlowRef
from dexsdk.flow_config import FlowConfig
from dexsdk.options import AttributeAssignment, FlowTimeoutPolicy, RetryPolicy, StepOptions, check_flow_limits
from dexsdk.results import FlowResult, StepCompletion
from dexsdk.status import FlowErrorType, FlowStatus

In = TypeVar("In")
T = TypeVar("T")


class SubFlowReusePolicy(Enum):
    """What to do when the child's Flow ID exists already, because the parent's was reused or retried [SUB-6]."""

    RESTART_IF_PREVIOUS_EXITS_ABNORMALLY = "RESTART_IF_PREVIOUS_EXITS_ABNORMALLY"
    """Wait for a running child, take the result of a completed one, start anew after any other end."""
    ATTACH = "ATTACH"
    """Wait for a running child, take the result of one that ended, whatever it is."""
    ALWAYS_RESTART = "ALWAYS_RESTART"
    """Terminate a running child; start anew in any case."""


@dataclass(frozen=True)
class SubFlowOptions:
    """How a child is started; it is independent of its parent from then on [SUB-3, SUB-4]."""

    condition_id: str | None = None
    """Name of the condition, needed in combinations."""
    timeout: Duration | None = None
    """As for a start [TIME-1]."""
    timeout_policy: FlowTimeoutPolicy = FlowTimeoutPolicy.DEFAULT
    timeout_handler_options: StepOptions | None = None
    start_delay: Duration | None = None
    retry_policy: RetryPolicy | None = None
    """The parent waits for the end after the last attempt [SUB-1]."""
    config_override: FlowConfig | None = None
    """Over the parent's settings, field by field [SUB-3]."""
    reuse_policy: SubFlowReusePolicy = SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY
    initial_attributes: tuple[AttributeAssignment, ...] = dataclasses.field(default=(), kw_only=True)
    """Set by ``with_attribute``."""

    def __post_init__(self) -> None:
        if self.condition_id is not None:
            check_name(self.condition_id, "condition ID")
        check_flow_limits(self.timeout, self.timeout_policy, self.start_delay, self.retry_policy)
        if not isinstance(self.reuse_policy, SubFlowReusePolicy):
            raise ValueError(f"reuse_policy is {self.reuse_policy!r}, a SubFlowReusePolicy is needed")

    @overload
    def with_attribute(self, attribute: Attribute[T], value: T, /) -> "SubFlowOptions": ...
    @overload
    def with_attribute(self, attribute: AttributeMap[T], instance: str, value: T, /) -> "SubFlowOptions": ...
    def with_attribute(self, attribute: Attribute[T] | AttributeMap[T], *arguments: Any) -> "SubFlowOptions":
        """Return a copy that also writes an initial value of the child [ATTR-4]."""
        *instance, value = arguments
        assignment = AttributeAssignment(attribute, key_of(attribute, *instance), value)
        return dataclasses.replace(self, initial_attributes=(*self.initial_attributes, assignment))


_DEFAULT_OPTIONS = SubFlowOptions()


class SubFlow(Condition):
    """A child Flow that is started when the Wait is installed, and waited for until its final end [SUB-1]."""

    def __init__(self, flow: FlowRef[Any], input: Any, options: SubFlowOptions) -> None:
        """Use ``run``."""
        super().__init__(options.condition_id)
        self.flow = flow
        self.input = input
        self.options = options

    @overload
    @staticmethod
    def run(flow: FlowRef[None], input: None = None, options: SubFlowOptions | None = None) -> "SubFlow": ...
    @overload
    @staticmethod
    def run(flow: FlowRef[In], input: In, options: SubFlowOptions | None = None) -> "SubFlow": ...
    @staticmethod
    def run(flow: FlowRef[Any], input: Any = None, options: SubFlowOptions | None = None) -> "SubFlow":
        """Run a Flow of the same registry, or find the one that an earlier life of this Flow began [SUB-6].

        It is started even if another condition wins at once. The parent's end does not end it [SUB-4].

        Args:
            flow: A Flow with a start Step.
            input: The input of its start Step.
            options: Timeout, retries and the like of the child.
        """
        return SubFlow(flow, input, options or _DEFAULT_OPTIONS)

    @staticmethod
    def get_condition_results(context: Context, index: int = 0) -> FlowResult:
        """Give how a child ended, in ``execute``; RUNNING where its condition did not win [SUB-5, WAIT-11].

        Args:
            context: The handler's.
            index: Position among the SubFlows of the Wait, from 0.

        Raises:
            ValueError: the Wait had no such SubFlow.
        """
        call = context.open_call()
        children = [result.sub_flow for result in call.assign.results if result.kind == frames.CONDITION_SUB_FLOW]
        if not 0 <= index < len(children):
            raise ValueError(f"{call.place}: SubFlow index is {index}, the Wait had {len(children)}")
        child = children[index]
        assert child is not None, "a SubFlow condition has a child"
        codecs, load = call.scope.codecs, call.load
        return FlowResult(
            FlowStatus(child.status),
            FlowErrorType(child.error_type) if child.error_type else None,
            child.error_message or None,
            tuple(StepCompletion(*completion, codecs, load) for completion in child.completions),
        )

    @staticmethod
    def get_flow_id(context: Context, index: int = 0) -> str:
        """Give the Flow ID that a child of this Step execution has, also before it is started [SUB-2]."""
        if index < 0:
            raise ValueError(f"SubFlow index is {index}, it counts from 0")
        return sub_flow_id(context.flow_id, context.step_execution_id, index)

    def to_frame(self) -> frames.Condition:
        """Give the condition as it travels; the child itself travels beside it."""
        return frames.Condition(frames.CONDITION_SUB_FLOW, self.condition_id or "")


def sub_flow_id(parent: str, step_execution_id: str, index: int) -> str:
    """Name a child as the server does [SUB-2]."""
    step = step_execution_id.replace("%", "%25").replace("/", "%2F")
    text = f"{frames.SUB_FLOW_PREFIX}{parent}/{step}/{index}"
    if len(text) <= NAME_LENGTH_MAX:
        return text
    return frames.SUB_FLOW_PREFIX + hashlib.sha256(text.encode()).hexdigest()
