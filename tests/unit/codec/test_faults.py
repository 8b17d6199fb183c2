"""What is wrong with names, durations and options that come from outside."""

import math

import pytest

from dexd.codec.faults import (
    duration_fault,
    key_fault,
    name_fault,
    options_fault,
    owned_name_fault,
    plan_fault,
    retry_fault,
)
from dexd.core.config import DURATION_MS_MAX
from dexd.core.values import RecoveryStep, RetryPolicy, StepOptions, StepPlan


@pytest.mark.parametrize(
    "text", ["a", "x" * 255, "a/b:c$@%#?~", "with space", "'\"", "é", "\u202eright to left", "\U0001f600"]
)
def test_legal_names_have_no_fault(text: str) -> None:
    """[ID-1, ID-2] Everything but control characters and surrogates is legal, compared code point by code point."""
    assert name_fault(text, "name") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has 0 characters, allowed are 1 to 255"),
        ("x" * 256, "has 256 characters, allowed are 1 to 255"),
        ("a\0b", "U+0000 at position 1"),
        ("a\x85", "U+0085 at position 1"),
        ("\ud800", "U+D800 at position 0"),
    ],
)
def test_illegal_names_are_named_with_what_is_wrong(text: str, says: str) -> None:
    """[ID-1] 1 to 255 code points without control characters and surrogates."""
    fault = name_fault(text, "flow_id")
    assert fault is not None
    assert fault.startswith("flow_id")
    assert says in fault


def test_names_of_callers_may_not_look_like_the_servers() -> None:
    """[ID-3] The prefix `sys:` is reserved."""
    fault = owned_name_fault("sys:sub", "flow_id")
    assert fault is not None
    assert "reserved prefix 'sys:'" in fault
    assert owned_name_fault("System", "flow_id") is None


@pytest.mark.parametrize("key", ["orders", "orders\0eu", "orders\0a b"])
def test_keys_are_a_name_and_perhaps_an_instance(key: str) -> None:
    """[ID-1, CHAN-6] A map's key is its name and an instance key."""
    assert key_fault(key, "Channel") is None


@pytest.mark.parametrize("key", ["", "\0eu", "orders\0", "orders\0e\0u", "sys:x", "a\nb\0c"])
def test_keys_with_an_illegal_part_are_refused(key: str) -> None:
    """[ID-1] Name and instance key are names each."""
    assert key_fault(key, "Channel") is not None


@pytest.mark.parametrize(
    ("duration_ms", "is_legal"), [(0, True), (DURATION_MS_MAX, True), (-1, False), (DURATION_MS_MAX + 1, False)]
)
def test_durations_lie_between_zero_and_a_hundred_years(duration_ms: int, is_legal: bool) -> None:
    """[TIMER-2] 0 to 36,525 days."""
    assert (duration_fault(duration_ms, "timeout") is None) is is_legal


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(backoff_coefficient=0.5),
        RetryPolicy(backoff_coefficient=math.nan),
        RetryPolicy(backoff_coefficient=math.inf),
        RetryPolicy(initial_interval_ms=0),
        RetryPolicy(maximum_interval_ms=999),
        RetryPolicy(maximum_interval_ms=DURATION_MS_MAX + 1),
        RetryPolicy(maximum_attempts=-1),
        RetryPolicy(jitter=-0.1),
        RetryPolicy(jitter=1.1),
        RetryPolicy(jitter=math.nan),
        RetryPolicy(total_duration_ms=-1),
    ],
)
def test_impossible_retry_policies_are_refused(policy: RetryPolicy) -> None:
    """[RETRY-3] Coefficient below 1 or not finite; interval 0; cap below it; negative counts; jitter outside 0..1."""
    assert retry_fault(policy) is not None


def test_attributes_to_preload_are_possible() -> None:
    """[ATTR-7]"""
    assert options_fault(StepOptions(preload=("a", "b"))) is None


def test_default_retry_policy_is_possible() -> None:
    """[RETRY-1] The default policy, and one with every field set."""
    assert retry_fault(RetryPolicy()) is None
    assert retry_fault(RetryPolicy(1, 1.0, 1, 3, 0, 1.0)) is None


@pytest.mark.parametrize(
    "options",
    [
        StepOptions(wait_for_timeout_ms=-1),
        StepOptions(execute_timeout_ms=-1),
        StepOptions(wait_for_retry=RetryPolicy(jitter=2)),
        StepOptions(execute_retry=RetryPolicy(jitter=2)),
        StepOptions(wait_for_locks=("a", "a")),
        StepOptions(execute_locks=("a\0",)),
        StepOptions(preload=("sys:a",)),
        StepOptions(recovery=RecoveryStep("", False)),
        StepOptions(recovery=RecoveryStep("Undo", False, StepOptions(execute_timeout_ms=-1))),
    ],
)
def test_options_are_checked_to_the_innermost_recovery(options: StepOptions) -> None:
    """[OPT-1, OPT-5] Timeouts, policies, and those of nested recovery Steps."""
    assert options_fault(options) is not None
    assert plan_fault(StepPlan("Charge", b"", False, options)) is not None
