"""What is reported of exceptions [OPT-6, RETRY-5, RETRY-6]."""

from datetime import timedelta
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import Context, NonRetryableError, RetryAfter, StepDecision
from dexsdk._failure import DETAIL_BYTES_MAX, STACK_BYTES_MAX, describe_failure, repaired
from tests.unit.dexsdk.calls import run_to_failure
from tests.unit.dexsdk.flows import ScriptedFlow


class SoldOutError(LookupError):
    """A user's exception."""


class MuteError(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def failure_of(error: BaseException) -> frames.Failure:
    def execute(context: Context) -> StepDecision:
        raise error

    return run_to_failure(ScriptedFlow(execute=execute), "Scripted")


def test_opt_6_a_failure_has_type_detail_and_the_handlers_stack() -> None:
    failure = failure_of(SoldOutError("no stock"))
    assert (failure.error_type, failure.detail) == ("SoldOutError", "no stock")
    assert failure.stack.startswith("Traceback")
    assert "_invoker.py" not in failure.stack
    assert failure.stack.rstrip().endswith("SoldOutError: no stock")
    assert not failure.non_retryable
    assert failure.retry_after_ms is None


def test_retry_5_all_classes_of_an_exception_are_named_for_matching() -> None:
    classes = failure_of(SoldOutError()).error_classes
    assert classes == (
        f"{__name__}.SoldOutError",
        "builtins.LookupError",
        "builtins.Exception",
        "builtins.BaseException",
    )


def test_retry_5_non_retryable_errors_and_their_subclasses_exhaust_retries() -> None:
    class FinalError(NonRetryableError):
        pass

    assert failure_of(NonRetryableError("stop")).non_retryable
    assert failure_of(FinalError("stop")).non_retryable


@pytest.mark.parametrize(("delay", "milliseconds"), [(1.5, 1_500), (timedelta(days=36_525), 36_525 * 86_400_000)])
def test_retry_6_retry_after_sets_the_delay_and_reports_its_cause(delay: Any, milliseconds: int) -> None:
    failure = failure_of(RetryAfter(delay, SoldOutError("no stock")))
    assert failure.retry_after_ms == milliseconds
    assert (failure.error_type, failure.detail) == ("SoldOutError", "no stock")
    assert failure.error_classes[0] == "dexsdk.errors.RetryAfter"


def test_retry_6_retry_after_without_cause_reports_itself_or_what_it_was_raised_from() -> None:
    assert failure_of(RetryAfter(2)).detail == "retry after 2000 ms"
    chained = RetryAfter(2)
    chained.__cause__ = SoldOutError("no stock")
    assert failure_of(chained).detail == "no stock"


@pytest.mark.parametrize("delay", [0, -1, float("nan"), timedelta(days=36_526)])
def test_retry_6_delays_are_above_0_and_up_to_100_years(delay: Any) -> None:
    with pytest.raises(ValueError, match="RetryAfter delay"):
        RetryAfter(delay)


def test_opt_6_text_that_is_not_utf_8_is_repaired() -> None:
    assert failure_of(ValueError("a\ud800\0b")).detail == "a\ufffd\0b"


def test_opt_6_long_texts_are_cut_at_a_character() -> None:
    failure = failure_of(ValueError("\u00e9" * DETAIL_BYTES_MAX))
    assert failure.detail == "\u00e9" * (DETAIL_BYTES_MAX // 2)
    assert len(failure.stack.encode()) <= STACK_BYTES_MAX
    assert repaired("a\u00e9", 2) == "a"


def test_opt_6_an_exception_whose_text_cannot_be_read_is_reported_all_the_same() -> None:
    failure = describe_failure(MuteError())
    assert failure.error_type == "MuteError"
    assert failure.detail == "<the text of MuteError cannot be read: ZeroDivisionError>"
