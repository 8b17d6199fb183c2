"""RPC handlers and their results [RPC-1..3, RPC-7]."""

import pytest

from dexpb.v1 import frames
from dexsdk import Attribute, Channel, Context, FlowDefinitionError, RPCResult, StepMovement, rpc
from dexsdk.rpc import rpc_mark
from tests.unit.dexsdk.calls import run, run_to_failure
from tests.unit.dexsdk.flows import CountStep, ScriptedFlow

COUNT: Attribute[int] = Attribute("count", int)
NEWS: Channel[str] = Channel("news", str)


def test_rpc_2_a_handler_answers_writes_publishes_and_schedules() -> None:
    def ask(context: Context) -> RPCResult[int]:
        COUNT.set(context, COUNT.get(context) + 1)
        NEWS.publish(context, "asked")
        context.record_event("asked", 1)
        return RPCResult.of(COUNT.get(context), StepMovement.of(CountStep, 5))

    output = run(ScriptedFlow(COUNT, NEWS, ask=ask), "ask", frames.METHOD_RPC, attributes={"count": b"1"}, input=b"")
    assert output.output == b"2"
    assert output.writes == (("count", b"2"),)
    assert output.publications == (("news", b'"asked"'),)
    assert output.recorded == (("asked", b"1"),)
    assert output.next_steps == (frames.Movement("CountStep", b"5", has_wait_for=False),)
    assert output.decision is None


def test_rpc_1_a_handler_may_answer_nothing() -> None:
    assert run(ScriptedFlow(ask=lambda context: None), "ask", frames.METHOD_RPC).output == b""


def test_rpc_1_a_handler_with_input_gets_it_decoded() -> None:
    class Adder(ScriptedFlow):
        @rpc
        def add(self, context: Context, input: list[int]) -> RPCResult[int]:
            return RPCResult(sum(input))

    assert run(Adder(), "add", frames.METHOD_RPC, input=b"[1,2]").output == b"3"
    failed = run_to_failure(Adder(), "ask", frames.METHOD_RPC)
    assert failed.error_type == "InvalidStepResultError"


def test_type_2_an_output_of_another_type_than_annotated_is_refused_where_it_is_given() -> None:
    class Wrong(ScriptedFlow):
        @rpc
        def total(self, context: Context) -> RPCResult[int]:
            with pytest.raises(FlowDefinitionError, match=r"RPC 'total', handler, output: \$: expected int, got str"):
                RPCResult("5")
            return RPCResult(5)

    assert run(Wrong(), "total", frames.METHOD_RPC).output == b"5"


def test_dec_8_next_steps_of_an_rpc_are_registered_steps() -> None:
    movement = StepMovement.of(CountStep(), 5)
    failure = run_to_failure(ScriptedFlow(ask=lambda context: RPCResult(1, [movement])), "ask", frames.METHOD_RPC)
    assert "this instance of CountStep is no registered Step" in failure.detail
    with pytest.raises(FlowDefinitionError, match="RPCResult takes StepMovements"):
        RPCResult(1, [CountStep])  # type: ignore[list-item] # the case


def test_rpc_7_a_timeout_is_a_duration() -> None:
    with pytest.raises(ValueError, match="RPC timeout is -1"):
        rpc(timeout=-1)
    mark = rpc_mark(ScriptedFlow.ask)
    assert mark is not None
    assert (mark.name, mark.timeout_ms) == ("ask", None)


def test_rpc_2_a_result_made_outside_the_handler_is_encoded_with_the_response() -> None:
    ready = RPCResult(5)
    assert ready.data is None
    assert run(ScriptedFlow(ask=lambda context: ready), "ask", frames.METHOD_RPC).output == b"5"
    wrong = run_to_failure(ScriptedFlow(ask=lambda context: RPCResult("5")), "ask", frames.METHOD_RPC)
    assert "output: $: expected int, got str" in wrong.detail
