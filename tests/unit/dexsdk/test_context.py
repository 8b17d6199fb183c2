"""What handlers learn of their call and record besides definitions [CTX-1..4, ID-8..12, STEP-5, STEP-6, WAIT-11]."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    Channel,
    Context,
    RecoveryError,
    Registry,
    RPCResult,
    StepDecision,
    ValueTooLargeError,
    Wait,
    dead_end,
)
from dexsdk._invoker import Invoker, PreparedCall
from tests.unit.dexsdk.calls import assign, prepare, run, run_to_failure
from tests.unit.dexsdk.flows import Body, ScriptedFlow

STATUS = Attribute("status", str)
NEWS = Channel("news", str)


def seen_by_execute(read: Callable[[Context], Any], **fields: Any) -> Any:
    """Give what an expression on the context is worth inside execute."""
    seen: list[Any] = []

    def execute(context: Context) -> StepDecision:
        seen.append(read(context))
        return dead_end()

    run(ScriptedFlow(execute=execute), "Scripted", **fields)
    return seen[0]


def seen_by_rpc(read: Callable[[Context], Any], **fields: Any) -> Any:
    """Give what an expression on the context is worth inside an RPC handler."""
    seen: list[Any] = []

    def ask(context: Context) -> RPCResult[int]:
        seen.append(read(context))
        return RPCResult(0)

    run(ScriptedFlow(ask=ask), "ask", frames.METHOD_RPC, **fields)
    return seen[0]


def test_ctx_1_a_context_gives_the_identity_of_its_call() -> None:
    identity = seen_by_execute(
        lambda context: (
            context.flow_id,
            context.run_id,
            context.flow_type,
            context.step_execution_id,
            context.from_step_execution_id,
            context.attempt,
            context.delivery,
            context.recovery_error,
        ),
        from_step="Before-2",
        attempt=3,
        delivery=2,
    )
    assert identity == ("flow-1", "run-1", "ScriptedFlow", "Scripted-1", "Before-2", 3, 2, None)


def test_ctx_1_an_rpc_has_one_attempt_whatever_number_its_token_has() -> None:
    """[RPC-8, CTX-4]"""
    seen = seen_by_rpc(
        lambda context: (context.attempt, context.delivery, dict(context.logger.extra or {})["attempt"]),
        attempt=1_700_000_000_000_000,
        delivery=2,
    )
    assert seen == (1, 2, 1)


def test_ctx_3_instants_are_aware_utc() -> None:
    instants = seen_by_execute(lambda context: (context.flow_started_at, context.first_attempt_at, context.deadline))
    assert instants == tuple(datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2, 9))


def test_id_12_the_start_step_has_no_source() -> None:
    assert seen_by_execute(lambda context: context.from_step_execution_id) == ""


@pytest.mark.parametrize(
    ("call", "ordinal", "key"),
    [
        ("Charge-1", 1, "f/Charge-1"),
        ("Charge-12", 2, "f/Charge-12~2"),
        ("a/b%2F-1", 1, "f/a%2Fb%252F-1"),
        ("a~2-1", 3, "f/a~2-1~3"),
    ],
)
def test_id_8_the_idempotency_key_of_a_step_is_distinct(call: str, ordinal: int, key: str) -> None:
    assert seen_by_execute(lambda c: c.idempotency_key, call=call, ordinal=ordinal, flow_id="f") == key


def test_id_9_the_idempotency_key_is_the_same_for_all_attempts_and_deliveries() -> None:
    keys = {
        seen_by_execute(lambda context: context.idempotency_key, attempt=attempt, delivery=delivery)
        for attempt in (1, 2)
        for delivery in (1, 2)
    }
    assert keys == {"flow-1/Scripted-1"}


def test_id_11_an_rpc_has_no_step_execution_and_a_key_by_request() -> None:
    assert seen_by_rpc(lambda context: context.step_execution_id) == ""
    key = seen_by_rpc(lambda context: context.idempotency_key, request_id="a/b%~1", ordinal=2)
    assert key == "flow-1/sys:rpc-a%2Fb%25%7E1~2"


def test_opt_4_a_recovery_step_sees_the_error() -> None:
    error = seen_by_execute(
        lambda context: context.recovery_error, recovery_error=frames.RecoveryError("CardError", "declined")
    )
    assert error == RecoveryError("CardError", "declined")


def test_opt_3_execute_sees_that_wait_for_failed() -> None:
    assert not seen_by_execute(lambda context: context.wait_for_method_failed())
    assert seen_by_execute(lambda context: context.wait_for_method_failed(), wait_for_failed=True)


def test_wait_11_timers_are_counted_from_0_among_timers() -> None:
    results = (
        frames.ConditionResult(frames.CONDITION_CHANNEL, "", met=True, channel="news"),
        frames.ConditionResult(frames.CONDITION_TIMER, "", met=False),
        frames.ConditionResult(frames.CONDITION_TIMER, "", met=True),
    )

    def timer_at(index: int | None) -> Body:
        return lambda context: context.has_timer_fired(index)

    def fired(index: int | None) -> Any:
        return seen_by_execute(timer_at(index), results=results)

    assert (fired(0), fired(1), fired(None)) == (False, True, True)
    assert seen_by_execute(lambda context: context.has_timer_fired()) is False
    for index in (2, -1):
        failure = run_to_failure(ScriptedFlow(execute=timer_at(index)), "Scripted", results=results)
        assert failure.error_type == "ValueError"
        assert f"Timer index is {index}, the Wait had 2" in failure.detail


def test_step_5_locals_are_set_in_wait_for_and_read_in_execute() -> None:
    def wait_for(context: Context) -> Wait:
        context.set_step_execution_local("n", [1])
        assert context.get_step_execution_local("n", list[int]) == [1]
        return Wait.skip_immediately()

    output = run(ScriptedFlow(wait_for=wait_for), "Scripted", frames.METHOD_WAIT_FOR)
    assert output.locals == (("n", b"[1]"),)
    assert seen_by_execute(lambda context: context.get_step_execution_local("n", list[int]), locals={"n": b"[1]"}) == [
        1
    ]
    failure = run_to_failure(ScriptedFlow(execute=lambda c: c.get_step_execution_local("n", int)), "Scripted")
    assert failure.error_type == "KeyError"


def test_step_5_locals_cannot_be_set_elsewhere() -> None:
    failure = run_to_failure(ScriptedFlow(execute=lambda c: c.set_step_execution_local("n", 1)), "Scripted")
    assert (failure.error_type, "wait_for only" in failure.detail) == ("RuntimeError", True)


def test_step_5_all_locals_together_have_a_limit() -> None:
    def wait_for(context: Context) -> Wait:
        context.set_step_execution_local("a", "x" * 600_000)
        context.set_step_execution_local("a", "x" * 1_000_000)
        with pytest.raises(ValueTooLargeError, match="step execution locals"):
            context.set_step_execution_local("b", "x" * 100_000)
        return Wait.skip_immediately()

    output = run(ScriptedFlow(wait_for=wait_for), "Scripted", frames.METHOD_WAIT_FOR)
    assert [name for name, _ in output.locals] == ["a"]


def test_step_6_events_are_recorded_once_per_name() -> None:
    def execute(context: Context) -> StepDecision:
        context.record_event("b", {"n": 1})
        context.record_event("a", None)
        with pytest.raises(ValueError, match="event 'b' was recorded before"):
            context.record_event("b", 2)
        return dead_end()

    assert run(ScriptedFlow(execute=execute), "Scripted").recorded == (("b", b'{"n":1}'), ("a", b"null"))


def test_lim_2_a_call_records_at_most_100_events() -> None:
    def execute(context: Context) -> StepDecision:
        for number in range(101):
            context.record_event(str(number), number)
        return dead_end()

    failure = run_to_failure(ScriptedFlow(execute=execute), "Scripted")
    assert failure.error_type == "ValueTooLargeError"
    assert failure.non_retryable


def test_stop_5_a_running_handler_sees_the_request_to_cancel() -> None:
    seen: list[bool] = []

    def execute(context: Context) -> StepDecision:
        seen.append(context.is_cancellation_requested())
        prepared.request_cancellation()
        seen.append(context.is_cancellation_requested())
        return dead_end()

    flow = ScriptedFlow(execute=execute)
    prepared = prepare(flow, assign(flow, "Scripted"))
    prepared.run()
    assert seen == [False, True]


@pytest.mark.parametrize(
    "use",
    [
        lambda context: context.flow_id,
        lambda context: context.deadline,
        lambda context: context.logger,
        lambda context: context.is_cancellation_requested(),
        lambda context: context.record_event("a", 1),
        STATUS.get,
        lambda context: STATUS.set(context, "late"),
        lambda context: NEWS.publish(context, "late"),
        NEWS.size,
    ],
)
def test_ctx_4_a_context_is_unusable_after_its_handler_returned(use: Callable[[Context], Any]) -> None:
    kept: list[Context] = []

    def execute(context: Context) -> StepDecision:
        kept.append(context)
        return dead_end()

    run(ScriptedFlow(STATUS, NEWS, execute=execute), "Scripted")
    with pytest.raises(
        RuntimeError, match=r"Flow 'ScriptedFlow', Step 'Scripted', execute: .* after the handler returned"
    ):
        use(kept[0])


def test_ctx_4_log_records_say_which_call_they_belong_to(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dexsdk.flow"):
        seen_by_execute(lambda context: context.logger.info("charged"), attempt=2)
    (record,) = caplog.records
    fields = {"flow_id": "flow-1", "run_id": "run-1", "step_execution_id": "Scripted-1", "attempt": 2}
    assert fields.items() <= vars(record).items()


class Beats:
    """Takes the heartbeats of a handler."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def heartbeat(self, value: bytes) -> None:
        self.values.append(value)


def test_hb_2_heartbeat_takes_any_value_and_none_clears_it() -> None:
    """[CTX-2] It never waits, and may be awaited."""
    beats = Beats()

    def execute(context: Context) -> StepDecision:
        context.heartbeat({"b": 2, "a": 1})
        asyncio.run(awaited(context))
        context.heartbeat(None)
        return dead_end()

    async def awaited(context: Context) -> None:
        await context.heartbeat(7)

    flow = ScriptedFlow(execute=execute)
    prepared = Invoker(Registry([flow])).prepare(assign(flow, "Scripted"), beats)
    assert isinstance(prepared, PreparedCall)
    assert isinstance(prepared.run(), frames.Output)
    assert beats.values == [b'{"a":1,"b":2}', b"7", b""]


def test_hb_2_last_heartbeat_value_is_that_of_earlier_attempts() -> None:
    assert seen_by_execute(lambda context: context.last_heartbeat_value(int)) is None
    assert seen_by_execute(lambda context: context.last_heartbeat_value(int), heartbeat=b"5") == 5
    failure = run_to_failure(
        ScriptedFlow(execute=lambda context: context.last_heartbeat_value(int)), "Scripted", heartbeat=b'"5"'
    )
    assert failure.error_type == "ValueMappingError"
    assert "heartbeat" in failure.detail


def test_hb_3_a_heartbeat_value_has_at_most_64_kib() -> None:
    largest = "x" * (64 * 1024 - 2)
    assert seen_by_execute(lambda context: context.heartbeat(largest)) is not None
    failure = run_to_failure(ScriptedFlow(execute=lambda context: context.heartbeat(largest + "x")), "Scripted")
    assert failure.error_type == "ValueTooLargeError"
    assert "size 65537, the limit is 65536" in failure.detail


def test_val_5_a_heartbeat_that_cannot_be_encoded_says_where() -> None:
    failure = run_to_failure(ScriptedFlow(execute=lambda context: context.heartbeat(float("nan"))), "Scripted")
    assert failure.error_type == "ValueMappingError"
    assert "Step 'Scripted', execute, heartbeat" in failure.detail
