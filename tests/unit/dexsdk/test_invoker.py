"""From Assign to response frame [ROUTE-5, STEP-7, STEP-8, GEN-5, VAL-5, LIM-3, REG-2, STOP-5]."""

import asyncio
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Wait,
    dead_end,
    graceful_complete,
    rpc,
)
from dexsdk._invoker import Invoker, PreparedCall
from tests.unit.dexsdk.calls import assign, prepare, run, run_to_failure
from tests.unit.dexsdk.flows import CountStep, ScriptedFlow

COUNT: Attribute[int] = Attribute("count", int)
BYTES: Channel[str] = Channel("bytes", str)


class AsyncStep(Step[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:
        await asyncio.sleep(0)
        if input < 0:
            raise asyncio.CancelledError
        COUNT.set(context, input)
        return graceful_complete(input)


class AsyncFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(AsyncStep())

    def get_persistence_schema(self) -> Any:
        return ScriptedFlow(COUNT).get_persistence_schema()

    @rpc
    async def ask(self, context: Context, input: int) -> RPCResult[int]:
        return RPCResult(input + 1)


def async_call(name: str, method: int, data: bytes) -> PreparedCall:
    flow = AsyncFlow()
    prepared = Invoker(Registry([flow], allow_async_handlers=True)).prepare(assign(flow, name, method, input=data))
    assert isinstance(prepared, PreparedCall)
    assert prepared.is_async
    return prepared


@pytest.mark.parametrize(
    ("flow_type", "name", "method", "reason"),
    [
        ("ScriptedFlow", "Nope", frames.METHOD_EXECUTE, frames.DECLINE_UNKNOWN_STEP),
        ("ScriptedFlow", "Nope", frames.METHOD_WAIT_FOR, frames.DECLINE_UNKNOWN_STEP),
        ("ScriptedFlow", "Scripted", frames.METHOD_RPC, frames.DECLINE_UNKNOWN_RPC),
        ("Other", "Scripted", frames.METHOD_EXECUTE, frames.DECLINE_UNKNOWN_FLOW),
    ],
)
def test_route_5_unknown_names_are_declined_before_any_handler_runs(
    flow_type: str, name: str, method: int, reason: str
) -> None:
    flow = ScriptedFlow()
    call = assign(flow, name, method, flow_type=flow_type)
    assert Invoker(Registry([flow])).prepare(call) == frames.Decline(7, call.token, reason)


def test_val_5_an_input_that_does_not_fit_fails_the_attempt_before_the_handler_runs() -> None:
    flow = ScriptedFlow()
    call = assign(flow, "CountStep", input=b'{"n":1}')
    response = Invoker(Registry([flow])).prepare(call)
    assert isinstance(response, frames.Failed)
    assert (response.stream, response.token) == (7, call.token)
    assert response.failure.error_type == "ValueMappingError"
    assert response.failure.detail == (
        "Flow 'ScriptedFlow', Step 'CountStep', execute, input: $: Expected `int`, got `object`"
    )


def test_gen_5_a_failed_handler_leaves_no_effect() -> None:
    def execute(context: Context) -> StepDecision:
        COUNT.set(context, 1)
        raise OSError("disk")

    flow = ScriptedFlow(COUNT, execute=execute)
    call = assign(flow, "Scripted")
    response = prepare(flow, call).run()
    assert isinstance(response, frames.Failed)
    assert (response.stream, response.token) == (7, call.token)
    assert (response.failure.error_type, response.failure.detail) == ("OSError", "disk")


@pytest.mark.parametrize(
    ("method", "name", "expected"),
    [
        (frames.METHOD_WAIT_FOR, "Scripted", "returned int, not a Wait"),
        (frames.METHOD_EXECUTE, "Scripted", "returned int, not a StepDecision"),
        (frames.METHOD_RPC, "ask", "returned int, not an RPCResult or None"),
    ],
)
def test_step_7_a_result_of_another_class_is_a_failed_attempt(method: int, name: str, expected: str) -> None:
    flow = ScriptedFlow(execute=lambda context: 5, wait_for=lambda context: 5, ask=lambda context: 5)
    failure = run_to_failure(flow, name, method)
    assert failure.error_type == "InvalidStepResultError"
    assert failure.detail.endswith(expected)
    assert not failure.non_retryable


def test_step_7_a_coroutine_from_a_sync_function_is_named_as_such() -> None:
    async def late() -> StepDecision:
        return dead_end()

    failure = run_to_failure(ScriptedFlow(execute=lambda context: late()), "Scripted")
    assert "returned a coroutine from a function that is not async" in failure.detail


def test_step_8_wait_for_of_a_step_that_no_longer_has_one_skips() -> None:
    output = run(ScriptedFlow(), "CountStep", frames.METHOD_WAIT_FOR, input=b"1")
    assert output.wait == Wait.skip_immediately().to_frame()


def test_lim_3_an_oversized_response_exhausts_retries_and_names_size_and_limit() -> None:
    def execute(context: Context) -> StepDecision:
        for _ in range(3):
            BYTES.publish(context, "x" * 400)
        return dead_end()

    flow = ScriptedFlow(BYTES, execute=execute)
    response = prepare(flow, assign(flow, "Scripted"), frame_bytes_max=1_000).run()
    assert isinstance(response, frames.Failed)
    assert response.failure.error_type == "ValueTooLargeError"
    assert response.failure.non_retryable
    assert "the limit is 1000" in response.failure.detail
    assert isinstance(prepare(flow, assign(flow, "Scripted"), frame_bytes_max=2_000).run(), frames.Output)


async def test_reg_2_async_handlers_are_awaited() -> None:
    response = await async_call("AsyncStep", frames.METHOD_EXECUTE, b"5").run_async()
    assert isinstance(response, frames.Output)
    assert response.writes == (("count", b"5"),)
    assert response.decision == frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b"5")
    answer = await async_call("ask", frames.METHOD_RPC, b"5").run_async()
    assert isinstance(answer, frames.Output)
    assert answer.output == b"6"


async def test_reg_2_calls_that_run_at_once_do_not_see_each_other() -> None:
    calls = [async_call("AsyncStep", frames.METHOD_EXECUTE, str(number).encode()) for number in range(5)]
    responses = await asyncio.gather(*(call.run_async() for call in calls))
    assert [response.writes for response in responses if isinstance(response, frames.Output)] == [
        (("count", str(number).encode()),) for number in range(5)
    ]


async def test_stop_5_a_cancellation_that_was_requested_reaches_the_transport() -> None:
    call = async_call("AsyncStep", frames.METHOD_EXECUTE, b"-1")
    call.request_cancellation()
    with pytest.raises(asyncio.CancelledError):
        await call.run_async()


async def test_stop_5_a_cancellation_of_the_handlers_own_is_a_failed_attempt() -> None:
    response = await async_call("AsyncStep", frames.METHOD_EXECUTE, b"-1").run_async()
    assert isinstance(response, frames.Failed)
    assert response.failure.error_type == "CancelledError"


def test_step_1_sys_exit_in_a_handler_is_a_failed_attempt_and_a_keyboard_interrupt_is_not() -> None:
    def leave(context: Context) -> StepDecision:
        raise SystemExit(3)

    def interrupt(context: Context) -> StepDecision:
        raise KeyboardInterrupt

    assert run_to_failure(ScriptedFlow(execute=leave), "Scripted").error_type == "SystemExit"
    flow = ScriptedFlow(execute=interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare(flow, assign(flow, "Scripted")).run()


def test_step_1_a_step_gets_its_decoded_input() -> None:
    seen: list[int] = []

    class Noting(CountStep):
        def execute(self, context: Context, input: int) -> StepDecision:
            seen.append(input)
            return dead_end()

    class NotingFlow(Flow[int]):
        def get_steps(self) -> StepList[int]:
            return StepList.start_step(Noting())

    run(NotingFlow(), "Noting", input=b"9007199254740993")
    assert seen == [2**53 + 1]
