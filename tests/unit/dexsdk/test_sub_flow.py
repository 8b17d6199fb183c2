"""Children as conditions of a Wait, in the SDK [SUB-1, SUB-2, SUB-5, SUB-7]."""

from typing import Any

import pytest

from dexd.core.ids import FlowId, StepExecutionId
from dexd.core.sub_flows import sub_flow_id as id_of_the_server
from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    Channel,
    ConditionCombination,
    Context,
    Flow,
    FlowConfig,
    FlowDefinitionError,
    FlowErrorType,
    FlowStatus,
    FlowTimeoutPolicy,
    PersistenceSchema,
    Registry,
    RetryPolicy,
    Step,
    StepDecision,
    StepList,
    SubFlow,
    SubFlowOptions,
    SubFlowReusePolicy,
    ValueMappingError,
    Wait,
    dead_end,
)
from dexsdk._invoker import Invoker, PreparedCall
from dexsdk.sub_flow import sub_flow_id

TAG = Attribute("tag", str)
NEWS = Channel("news", str)


class Child(Step[int]):
    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()


class ChildFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Child())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(TAG)

    def handle_timeout(self, context: Context) -> StepDecision:
        return dead_end()


class Store(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.empty()


class Foreign(ChildFlow):
    pass


class Spawn(Step[None]):
    """Waits for what the test says."""

    wait = Wait.skip_immediately()
    seen: Any = None

    def wait_for(self, context: Context, input: None) -> Wait:
        self.seen = SubFlow.get_flow_id(context, 1)
        return self.wait

    def execute(self, context: Context, input: None) -> StepDecision:
        self.seen = [SubFlow.get_condition_results(context, index) for index in (0, 1)]
        with pytest.raises(ValueError, match="SubFlow index is 2, the Wait had 2"):
            SubFlow.get_condition_results(context, 2)
        return dead_end()


class Parent(Flow[None]):
    def __init__(self) -> None:
        self.spawn = Spawn()

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self.spawn)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NEWS)


def call(method: int, results: tuple[frames.ConditionResult, ...] = ()) -> frames.Assign:
    token = frames.Token("r", "Spawn-1", method, 1, 1)
    return frames.Assign(1, token, "f", "Parent", "Spawn", b"null", 1, 0, 0, 0, results=results)


def answer(wait: Wait) -> frames.Output | frames.Failed:
    parent = Parent()
    parent.spawn.wait = wait
    prepared = Invoker(Registry([parent, ChildFlow(), Store()])).prepare(call(frames.METHOD_WAIT_FOR))
    assert isinstance(prepared, PreparedCall)
    response = prepared.run()
    assert parent.spawn.seen == "sys:sub:f/Spawn-1/1"
    return response


def test_sub_1_child_travels_beside_its_condition_with_the_start_step_of_its_flow() -> None:
    """Children are numbered apart from other conditions."""
    wait = Wait.any_of(SubFlow.run(ChildFlow, 7), NEWS.for_one(), SubFlow.run(ChildFlow, 8))
    response = answer(wait)
    assert isinstance(response, frames.Output)
    assert response.wait is not None
    kinds = [condition.kind for condition in response.wait.conditions]
    assert kinds == [frames.CONDITION_SUB_FLOW, frames.CONDITION_CHANNEL, frames.CONDITION_SUB_FLOW]
    assert response.wait.sub_flows == (
        frames.SubFlow("ChildFlow", frames.Movement("Child", b"7", False)),
        frames.SubFlow("ChildFlow", frames.Movement("Child", b"8", False)),
    )


def test_sub_7_every_option_travels() -> None:
    """[TIME-2] DEFAULT is the handler that the child has."""
    options = SubFlowOptions(
        condition_id="c",
        timeout=1,
        start_delay=2,
        retry_policy=RetryPolicy(maximum_attempts=3),
        config_override=FlowConfig(record_rpc_io=True),
        reuse_policy=SubFlowReusePolicy.ATTACH,
    ).with_attribute(TAG, "x")
    response = answer(Wait.any_combination_of(ConditionCombination.of(SubFlow.run(ChildFlow, 7, options))))
    assert isinstance(response, frames.Output)
    assert response.wait is not None
    assert response.wait.conditions[0].condition_id == "c"
    (sub_flow,) = response.wait.sub_flows
    assert sub_flow == frames.SubFlow(
        "ChildFlow",
        frames.Movement("Child", b"7", False),
        (("tag", b'"x"'),),
        1_000,
        3,
        None,
        2_000,
        frames.RetryPolicy(maximum_attempts=3),
        frames.FlowConfig(record_rpc_io=True),
        frames.REUSE_ATTACH,
    )


@pytest.mark.parametrize(
    ("flow", "value", "error"),
    [
        (Store, None, FlowDefinitionError),
        (Foreign, 7, FlowDefinitionError),
        (ChildFlow, "x", FlowDefinitionError),
        (ChildFlow, 2**70, ValueMappingError),
    ],
)
def test_sub_1_child_that_does_not_fit_is_a_failed_attempt(flow: Any, value: Any, error: type[Exception]) -> None:
    """[TYPE-2] Of another registry, without start Step, or with another input."""
    response = answer(Wait.until(SubFlow.run(flow, value)))
    assert isinstance(response, frames.Failed)
    assert response.failure.error_type in {error.__name__, "ValueMappingError", "FlowDefinitionError"}


@pytest.mark.parametrize(
    "fields",
    [
        {"condition_id": ""},
        {"timeout": -1},
        {"timeout_policy": FlowTimeoutPolicy.CANCEL},
        {"start_delay": float("nan")},
        {"retry_policy": RetryPolicy(total_duration=1)},
        {"reuse_policy": "ATTACH"},
    ],
)
def test_gen_2_illegal_options_are_rejected_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"condition ID|timeout|start_delay|total_duration|reuse_policy"):
        SubFlowOptions(**fields)


def test_sub_5_execute_sees_how_each_child_stands() -> None:
    """[WAIT-11, DEC-7]"""
    ended = frames.SubFlowResult("a", "FAILED", "FLOW_TIMEOUT", "late", (("C", "C-1", b"42"),))
    results = (
        frames.ConditionResult(frames.CONDITION_SUB_FLOW, "", True, sub_flow=ended),
        frames.ConditionResult(frames.CONDITION_TIMER, "", False),
        frames.ConditionResult(frames.CONDITION_SUB_FLOW, "", False, sub_flow=frames.SubFlowResult("b", "RUNNING")),
    )
    parent = Parent()
    prepared = Invoker(Registry([parent, ChildFlow()])).prepare(call(frames.METHOD_EXECUTE, results))
    assert isinstance(prepared, PreparedCall)
    assert isinstance(prepared.run(), frames.Output)
    failed, running = parent.spawn.seen
    assert (failed.status, failed.error_type, failed.error_message) == (
        FlowStatus.FAILED,
        FlowErrorType.FLOW_TIMEOUT,
        "late",
    )
    assert failed.single_output(int) == 42
    assert (running.status, running.is_terminal, running.error_type) == (FlowStatus.RUNNING, False, None)


@pytest.mark.parametrize("parent", ["f", "a/b%", "é" * 240, "x" * 241, "x" * 242, "x" * 255])
@pytest.mark.parametrize("step", ["Ship-1", "Sh/p%-12", "s" * 250 + "-1"])
def test_sub_2_names_are_those_of_the_server(parent: str, step: str) -> None:
    assert sub_flow_id(parent, step, 3) == id_of_the_server(FlowId(parent), StepExecutionId(step), 3)


def test_sub_2_index_counts_from_0() -> None:
    class Ask(Spawn):
        def wait_for(self, context: Context, input: None) -> Wait:
            with pytest.raises(ValueError, match="counts from 0"):
                SubFlow.get_flow_id(context, -1)
            return Wait.skip_immediately()

        def get_step_type(self) -> str:
            return "Spawn"

    parent = Parent()
    parent.spawn = Ask()
    prepared = Invoker(Registry([parent])).prepare(call(frames.METHOD_WAIT_FOR))
    assert isinstance(prepared, PreparedCall)
    assert isinstance(prepared.run(), frames.Output)
