"""What a worker's log tells of attempts that fail."""

import logging

import pytest

from dexpb.v1 import frames
from dexsdk import Context, NonRetryableError, Registry, RetryAfter, StepDecision
from dexsdk._invoker import Invoker
from tests.unit.dexsdk.calls import assign, prepare
from tests.unit.dexsdk.flows import ScriptedFlow


def fail(
    error: BaseException, method: int = frames.METHOD_EXECUTE, *, attempt: int = 1, is_canceled: bool = False
) -> None:
    def body(context: Context) -> StepDecision:
        raise error

    name = "ask" if method == frames.METHOD_RPC else "Scripted"
    flow = ScriptedFlow(execute=body, wait_for=body, ask=body)
    call = prepare(flow, assign(flow, name, method, attempt=attempt))
    if is_canceled:
        call.request_cancellation()
    assert isinstance(call.run(), frames.Failed)


def test_ctx_4_a_failed_attempt_is_a_warning_with_its_stack_and_the_fields_of_the_contexts_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail(OSError("disk"), attempt=4)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dexsdk.worker", logging.WARNING)
    head, *stack = record.getMessage().splitlines()
    assert head == (
        "handler_failed Flow 'ScriptedFlow', Step 'Scripted', execute: flow_id=flow-1 step=Scripted-1 attempt=4"
    )
    assert stack[-1] == "OSError: disk"
    fields = {name: record.__dict__[name] for name in ("flow_id", "run_id", "step_execution_id", "attempt")}
    assert fields == {"flow_id": "flow-1", "run_id": "run-1", "step_execution_id": "Scripted-1", "attempt": 4}
    assert "in body" in caplog.text
    assert "_invoker" not in caplog.text, "frames of the SDK say nothing to whoever wrote the handler"


@pytest.mark.parametrize("method", [frames.METHOD_WAIT_FOR, frames.METHOD_EXECUTE, frames.METHOD_RPC])
def test_ctx_4_every_kind_of_handler_is_told_of(caplog: pytest.LogCaptureFixture, method: int) -> None:
    fail(NonRetryableError("no"), method)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["handler_failed"]


def test_val_5_an_input_that_does_not_fit_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    flow = ScriptedFlow()
    assert isinstance(Invoker(Registry([flow])).prepare(assign(flow, "CountStep", input=b"{}")), frames.Failed)
    assert "ValueMappingError" in caplog.text


def test_retry_6_a_handler_that_asks_for_a_later_attempt_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dexsdk.worker"):
        fail(RetryAfter(2.5))
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "handler_retries_later Flow 'ScriptedFlow', Step 'Scripted', execute: "
        "flow_id=flow-1 step=Scripted-1 attempt=1 in_ms=2500"
    )


def test_ctx_4_a_step_that_goes_on_failing_is_told_of_more_and_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    for attempt in range(1, 100):
        fail(OSError("disk"), attempt=attempt)
    assert [record.__dict__["attempt"] for record in caplog.records] == [1, 2, 4, 8, 16, 32, 64]


def test_opt_6_what_no_stream_could_write_is_repaired(caplog: pytest.LogCaptureFixture) -> None:
    fail(OSError("broken \ud800"))
    assert "OSError: broken \ufffd" in caplog.text


def test_stop_5_what_a_canceled_handler_raises_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dexsdk.worker"):
        fail(OSError("cut off"), is_canceled=True)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
