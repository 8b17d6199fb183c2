"""What a registry accepts, finds and refuses [FLOW-2..4, FLOW-10, ID-3, ID-4, TYPE-2, TYPE-3, OPT-4, RPC-1, REG-1]."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    AttributeMap,
    Channel,
    CodecRegistry,
    Context,
    Flow,
    FlowDefinitionError,
    JsonCodec,
    PersistenceSchema,
    Registry,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOptions,
    Wait,
    WaitForFailurePolicy,
    dead_end,
    rpc,
)
from tests.unit.dexsdk.flows import CountStep, ScriptedFlow

if TYPE_CHECKING:
    from somewhere import OnlyForTypes  # type: ignore[import-not-found] # exists for the type checker only

T = TypeVar("T")


class ListedFlow(Flow[Any]):
    """A Flow of any Steps."""

    def __init__(self, *steps: Any, start: Any = None, schema: PersistenceSchema | None = None, name: str = "Listed"):
        self.steps = StepList(start, steps)
        self.schema = schema or PersistenceSchema()
        self.name = name

    def get_flow_type(self) -> str:
        return self.name

    def get_steps(self) -> StepList[Any]:
        return self.steps

    def get_persistence_schema(self) -> PersistenceSchema:
        return self.schema


class NamedStep(Step[int]):
    """A Step whose type and options are data."""

    def __init__(self, step_type: str, options: StepOptions | None = None) -> None:
        self.step_type = step_type
        self.options = options or StepOptions()

    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()

    def get_step_type(self) -> str:
        return self.step_type

    def get_step_options(self) -> StepOptions:
        return self.options


class TextStep(Step[str]):
    def execute(self, context: Context, input: str) -> StepDecision:
        return dead_end()


class WaitingStep(Step[int]):
    def wait_for(self, context: Context, input: int) -> Wait:
        return Wait.skip_immediately()

    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()


def faults_of(*flows: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(FlowDefinitionError) as caught:
        Registry(flows, **options)
    return caught.value.faults


def test_flow_3_an_empty_list_and_a_list_without_start_step_are_legal() -> None:
    class Empty(Flow[None]):
        def get_steps(self) -> StepList[None]:
            return StepList.empty()

    class Driven(Flow[None]):
        def get_steps(self) -> StepList[None]:
            return StepList.without_start_step(CountStep())

    registry = Registry([Empty(), Driven()])
    assert registry.resolve_flow(Empty).descriptor() == frames.FlowDescriptor("Empty", None)
    assert registry.resolve_flow(Driven).descriptor() == frames.FlowDescriptor("Driven", None, ("CountStep",))
    assert registry.resolve_flow(Driven).encode_start_input(None) == b""
    with pytest.raises(FlowDefinitionError, match="'Driven' has no start Step, its input must be None"):
        registry.resolve_flow(Driven).encode_start_input(5)


def test_id_4_types_default_to_class_names_and_are_unique() -> None:
    assert [flow.flow_type for flow in Registry([ScriptedFlow(), ListedFlow()]).flows] == ["ScriptedFlow", "Listed"]
    assert faults_of(ScriptedFlow(), ScriptedFlow()) == ("Flow type 'ScriptedFlow' is registered twice",)
    assert faults_of(ListedFlow(CountStep(), CountStep())) == ("Flow 'Listed': Step type 'CountStep' is listed twice",)


def test_reg_1_all_faults_of_all_flows_are_reported_at_once() -> None:
    class Faulty(ListedFlow):
        @rpc
        def untyped(self, context: Context, input) -> None:  # type: ignore[no-untyped-def] # the case
            return None

        @rpc(name="sys:x", timeout=61)
        def slow(self, context: Context) -> None:
            return None

        @rpc(name="twice")
        def one(self, context: Context) -> None:
            return None

        @rpc(name="twice")
        def two(self, context: Context) -> None:
            return None

    schema = PersistenceSchema.of(
        Attribute("a\0", int), Channel("same", int), AttributeMap("same", int), Attribute("c", complex)
    )
    faults = faults_of(
        Faulty(NamedStep("sys:step"), "no step", name="sys:flow", schema=schema), ScriptedFlow(), ScriptedFlow()
    )
    expected = [
        "Flow type 'sys:flow' begins with the reserved prefix",
        "Step type 'sys:step' begins with the reserved prefix",
        "'no step' in its Step list is no Step instance",
        "RPC 'untyped': parameter 'input' has no annotation",
        "RPC name 'sys:x' begins with the reserved prefix",
        "RPC 'sys:x': timeout is 61000 ms, allowed are above 0 to 60000 ms",
        "RPC name 'twice' is used twice",
        "Attribute name has the control or surrogate character U+0000",
        "Attribute 'c': annotation complex: no codec is known",
        "the name 'same' stands twice in its persistence schema",
        "Flow type 'ScriptedFlow' is registered twice",
    ]
    assert len(faults) == len(expected)
    for text in expected:
        assert any(text in fault for fault in faults), text
    assert all(fault.startswith("Flow ") for fault in faults)


def test_type_3_both_methods_have_the_same_annotated_input() -> None:
    class Untyped(Step[int]):
        def execute(self, context, input):  # type: ignore[no-untyped-def] # the case
            return dead_end()

    class Divided(Step[Any]):
        def wait_for(self, context: Context, input: str) -> Wait:
            return Wait.skip_immediately()

        def execute(self, context: Context, input: int) -> StepDecision:
            return dead_end()

    class Short(Step[Any]):
        def execute(self, context: Context) -> StepDecision:  # type: ignore[override] # the case
            return dead_end()

    assert faults_of(ListedFlow(Untyped(), Divided(), Short())) == (
        "Flow 'Listed': Step 'Untyped': execute: parameter 'input' has no annotation",
        "Flow 'Listed': Step 'Divided': wait_for takes str, but execute takes int",
        "Flow 'Listed': Step 'Short': execute: takes 1 parameters, not (context, input)",
    )


def test_type_3_only_the_input_needs_an_annotation_that_can_be_resolved() -> None:
    class Loose(Step[int]):
        def execute(self, context: "OnlyForTypes", input: "int") -> "OnlyForTypes":
            return dead_end()

    assert Registry([ListedFlow(Loose())]).flows[0].steps["Loose"].input_annotation is int

    class Unknown(Step[int]):
        def execute(self, context: Context, input: "OnlyForTypes") -> StepDecision:
            return dead_end()

    (fault,) = faults_of(ListedFlow(Unknown()))
    assert "annotation 'OnlyForTypes' of 'input' cannot be resolved" in fault


def test_type_2_a_step_takes_what_it_derives_from() -> None:
    class Misleading(Step[str]):
        def execute(self, context: Context, input: int) -> StepDecision:  # type: ignore[override] # the case
            return dead_end()

    assert faults_of(ListedFlow(Misleading())) == (
        "Flow 'Listed': Step 'Misleading': derives from Step[str], but execute takes int",
    )


def test_type_2_the_start_step_takes_the_input_of_its_flow() -> None:
    class Wrong(Flow[str]):
        def get_steps(self) -> StepList[Any]:
            return StepList.start_step(CountStep())

    class Stepless(Flow[str]):
        def get_steps(self) -> StepList[Any]:
            return StepList.empty()

    assert faults_of(Wrong(), Stepless()) == (
        "Flow 'Wrong': derives from Flow[str], but its start Step 'CountStep' takes int",
        "Flow 'Stepless': derives from Flow[str], but without start Step its input is None",
    )


def test_flow_2_the_start_steps_input_is_the_flows_input() -> None:
    flow = Registry([ListedFlow(start=CountStep())]).flows[0]
    assert flow.encode_start_input(5) == b"5"
    with pytest.raises(FlowDefinitionError, match=r"Flow 'Listed', Step 'CountStep', input: \$: expected int, got str"):
        flow.encode_start_input("5")


def test_reg_1_coroutine_handlers_need_to_be_allowed() -> None:
    class Async(Step[int]):
        async def wait_for(self, context: Context, input: int) -> Wait:
            return Wait.skip_immediately()

        async def execute(self, context: Context, input: int) -> StepDecision:
            return dead_end()

    class AsyncFlow(ListedFlow):
        @rpc
        async def ask(self, context: Context) -> RPCResult[int]:
            return RPCResult(1)

    flow = AsyncFlow(Async())
    assert faults_of(flow) == (
        "Flow 'Listed': Step 'Async': wait_for is a coroutine, which needs Registry(..., allow_async_handlers=True)",
        "Flow 'Listed': RPC 'ask': handler is a coroutine, which needs Registry(..., allow_async_handlers=True)",
    )
    registered = Registry([flow], allow_async_handlers=True).flows[0]
    assert registered.steps["Async"].execute.is_async
    assert registered.rpcs["ask"].is_async


def test_flow_10_steps_and_flows_are_named_by_instance_or_by_an_unambiguous_class() -> None:
    one, two, count = NamedStep("One"), NamedStep("Two"), CountStep()
    flow = ListedFlow(one, two, count)
    registered = Registry([flow]).resolve_flow(flow)
    assert registered.resolve_step(two).step_type == "Two"
    assert registered.resolve_step(CountStep) is registered.resolve_step(count)
    for step, text in [
        (NamedStep, "2 Steps of class NamedStep are registered"),
        (TextStep, "0 Steps of class TextStep are registered"),
        (NamedStep("One"), "this instance of NamedStep is no registered Step"),
    ]:
        with pytest.raises(FlowDefinitionError, match=text):
            registered.resolve_step(step)

    registry = Registry([flow, ListedFlow(name="Other"), ScriptedFlow()])
    assert registry.resolve_flow(ScriptedFlow).flow_type == "ScriptedFlow"
    for wrong, text in [(ListedFlow, "2 registered Flows"), (ListedFlow(), "0 registered Flows")]:
        with pytest.raises(FlowDefinitionError, match=text):
            registry.resolve_flow(wrong)


def test_flow_10_rpcs_are_named_by_bound_method_or_class() -> None:
    flow = ScriptedFlow()
    registry = Registry([flow])
    assert registry.resolve_rpc(flow.ask).name == "ask"
    assert registry.resolve_rpc(ScriptedFlow.ask).flow is registry.flows[0]
    cases: list[tuple[Callable[..., Any], str]] = [
        (ScriptedFlow().ask, "0 registered Flows"),
        (flow.get_steps, "not marked with @rpc"),
    ]
    for wrong, text in cases:
        with pytest.raises(FlowDefinitionError, match=text):
            registry.resolve_rpc(wrong)


def test_flow_4_definitions_are_known_by_identity() -> None:
    status, lookalike = Attribute("status", str), Attribute("status", str)
    registry = Registry([ListedFlow(schema=PersistenceSchema([status]))])
    assert registry.codec_of(status).encode("x") == b'"x"'
    with pytest.raises(FlowDefinitionError, match="Attribute 'status' is in no registered Flow's persistence schema"):
        registry.codec_of(lookalike)


def test_rpc_1_output_and_input_types_come_from_the_annotations() -> None:
    class Typed(ListedFlow):
        @rpc(name="add", timeout=2.5)
        def add_one(self, context: Context, input: int) -> "RPCResult[list[int]] | None":
            return RPCResult([input + 1])

    handler = Registry([Typed()]).flows[0].rpcs["add"]
    assert handler.takes_input
    assert handler.timeout_ms == 2_500
    assert handler.output_codec is not None
    with pytest.raises(ValueError, match="expected list, got int"):
        handler.output_codec.encode(5)


def test_step_8_the_start_step_travels_with_its_resolved_options() -> None:
    waiting = WaitingStep()
    options = StepOptions(
        wait_for_method_timeout=1,
        execute_method_timeout=2,
        execute_retry=RetryPolicy(maximum_attempts=3),
        non_retryable_errors=[ValueError],
        wait_for_failure=WaitForFailurePolicy.PROCEED,
    ).on_execute_failure_proceed_to(WaitingStep, StepOptions(execute_method_timeout=9))
    flow = Registry([ListedFlow(waiting, start=NamedStep("First", options))]).flows[0]
    recovery = frames.RecoveryStep(
        "WaitingStep", has_wait_for=True, options=frames.StepOptions(execute_timeout_ms=9_000)
    )
    assert flow.start_descriptor() == frames.StepDescriptor(
        "First",
        has_wait_for=False,
        options=frames.StepOptions(
            wait_for_timeout_ms=1_000,
            execute_timeout_ms=2_000,
            execute_retry=frames.RetryPolicy(maximum_attempts=3),
            wait_for_failure=frames.WAIT_FAILURE_PROCEED,
            non_retryable_errors=("builtins.ValueError",),
            recovery=recovery,
        ),
    )


def test_opt_4_a_recovery_step_is_registered_and_takes_the_same_input() -> None:
    unknown = NamedStep("A", StepOptions().on_execute_failure_proceed_to(WaitingStep))
    assert faults_of(ListedFlow(unknown))[0].startswith("Flow 'Listed': 0 Steps of class WaitingStep are registered")
    other = NamedStep("A", StepOptions().on_execute_failure_proceed_to(TextStep))
    assert faults_of(ListedFlow(other, TextStep())) == (
        "Flow 'Listed': recovery Step 'TextStep' takes str, Step 'A' takes int",
    )


def test_opt_5_recovery_options_nest_but_form_no_ring() -> None:
    first, second, third = NamedStep("A"), NamedStep("B"), NamedStep("C")
    first.options = StepOptions().on_execute_failure_proceed_to(second)
    second.options = StepOptions().on_execute_failure_proceed_to(third)
    start = Registry([ListedFlow(second, third, start=first)]).flows[0].start_descriptor()
    assert start is not None
    assert start.options is not None
    assert start.options.recovery is not None
    assert start.options.recovery.options is not None
    assert start.options.recovery.options.recovery is not None
    assert start.options.recovery.options.recovery.step_type == "C"
    third.options = StepOptions().on_execute_failure_proceed_to(first)
    assert "recovery Steps form a ring: A -> B -> C -> A" in faults_of(ListedFlow(second, third, start=first))[0]


def test_reg_1_own_codecs_make_own_types_legal() -> None:
    class Money:
        pass

    class MoneyStep(Step[Money]):
        def execute(self, context: Context, input: Money) -> StepDecision:
            return dead_end()

    assert "no codec is known" in faults_of(ListedFlow(MoneyStep()))[0]
    codecs = CodecRegistry({Money: JsonCodec("Money", lambda data: Money(), lambda money: {})})
    assert Registry([ListedFlow(MoneyStep())], codecs).flows[0].steps["MoneyStep"].input_annotation is Money


def test_id_6_step_executions_are_named_by_type_step_or_class() -> None:
    one, two = NamedStep("One"), NamedStep("Two")
    registry = Registry([ListedFlow(one, two, CountStep())])
    assert registry.step_execution_id(StepExecutionId("Any-thing", 3)) == "Any-thing-3"
    assert registry.step_execution_id(StepExecutionId(two)) == "Two-1"
    assert registry.step_execution_id(StepExecutionId(CountStep, 2)) == "CountStep-2"
    with pytest.raises(FlowDefinitionError, match="NamedStep names 2 registered Step types"):
        registry.step_execution_id(StepExecutionId(NamedStep))
    with pytest.raises(ValueError, match="number of a Step execution is 0"):
        StepExecutionId("Step", 0)


def test_reg_1_handlers_are_called_with_positions_only() -> None:
    class Keyword(Step[int]):
        def execute(self, context: Context, input: int, *, more: str) -> StepDecision:  # type: ignore[override] # the case
            return dead_end()

    class Variable(Step[Any]):
        def execute(self, context: Context, input: T) -> StepDecision:
            return dead_end()

    class Crowded(ListedFlow):
        @rpc
        def many(self, context: Context, input: int, more: int) -> None:
            return None

    assert faults_of(Crowded(Keyword(), Variable())) == (
        "Flow 'Listed': Step 'Keyword': execute: needs the keyword 'more', handlers are called with positions only",
        "Flow 'Listed': Step 'Variable': execute: parameter 'input' is annotated with the type variable ~T",
        "Flow 'Listed': RPC 'many': takes 3 parameters, not (context) or (context, input)",
    )


def test_reg_1_only_flows_definitions_and_options_are_what_they_stand_for() -> None:
    class Optionless(NamedStep):
        def get_step_options(self) -> Any:
            return None

    schema = PersistenceSchema.of("no definition")  # type: ignore[arg-type] # the case
    assert faults_of("no flow", ListedFlow(schema=schema), ListedFlow(Optionless("A"), name="Second")) == (
        "'no flow' is no Flow instance",
        "Flow 'Listed': 'no definition' in its persistence schema is no definition",
        "Flow 'Second', Step 'A': get_step_options returned NoneType, not StepOptions",
    )


def test_flow_10_an_rpc_of_a_class_registered_twice_is_ambiguous() -> None:
    class Shared(ListedFlow):
        @rpc
        def ask(self, context: Context) -> None:
            return None

    registry = Registry([Shared(name="A"), Shared(name="B")])
    with pytest.raises(FlowDefinitionError, match="2 registered Flows have the RPC 'ask', not exactly one"):
        registry.resolve_rpc(Shared.ask)


def test_flow_1_a_flow_is_its_type_steps_schema_rpcs_and_timeout_handler() -> None:
    class Whole(ListedFlow):
        @rpc
        def ask(self, context: Context) -> None:
            return None

        def handle_timeout(self, context: Context) -> StepDecision:
            return dead_end()

    status = Attribute("status", str)
    whole = Registry([Whole(NamedStep("A"), name="Whole", schema=PersistenceSchema.of(status))]).flows[0]
    assert whole.flow_type == "Whole"
    assert list(whole.steps) == ["A"]
    assert list(whole.rpcs) == ["ask"]
    assert list(whole.definitions) == ["status"]
    assert whole.timeout_handler is not None
    bare = Registry([ListedFlow(name="Bare")]).flows[0]
    assert (bare.steps, bare.rpcs, bare.definitions, bare.timeout_handler) == ({}, {}, {}, None)
