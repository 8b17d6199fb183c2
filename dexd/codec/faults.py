"""What is wrong with a text, a number or a set of options that came from outside; None or "" means nothing.

The same limits hold for client requests and for what handlers return, whatever wrote them [ID-1..3, LIM-1, RETRY-3].
"""

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from dexd.core.config import DURATION_MS_MAX, NAME_LENGTH_MAX
from dexd.core.values import PRIORITY_MAX, PRIORITY_MIN, RetryPolicy, StepOptions, StepPlan

RESERVED_PREFIX = "sys:"
"""Names made by the server begin with it; callers' may not [ID-3]."""

KEY_SEPARATOR = "\0"
"""Joins a map's name and its instance key."""

COUNT_MAX = 2**31 - 1
"""Largest attempt count and largest Channel bound; far above any use, and it fits every integer type on the way."""

_CONTROL_OR_SURROGATE = frozenset({"Cc", "Cs"})


def name_fault(text: str, what: str) -> str | None:
    """Check a name: 1 to 255 code points, no control characters, no surrogates [ID-1]; never normalised [ID-2]."""
    if not 1 <= len(text) <= NAME_LENGTH_MAX:
        return f"{what} has {len(text)} characters, allowed are 1 to {NAME_LENGTH_MAX}"
    if text.isprintable():
        return None
    for position, character in enumerate(text):
        if unicodedata.category(character) in _CONTROL_OR_SURROGATE:
            return f"{what} has the control or surrogate character U+{ord(character):04X} at position {position}"
    return None


@lru_cache(maxsize=4_096)
def owned_name_fault(text: str, what: str) -> str | None:
    """Check a name that a caller chooses and that may not look like the server's own [ID-3].

    Remembered, since nearly all names are those of definitions, which come again with every call.
    """
    return chosen_name_fault(text, what)


def chosen_name_fault(text: str, what: str) -> str | None:
    """Check the same of a name that hardly ever comes again, as a Flow ID."""
    if text.startswith(RESERVED_PREFIX):
        return f"{what} {text!r} begins with the reserved prefix {RESERVED_PREFIX!r}"
    return name_fault(text, what)


def key_fault(text: str, what: str) -> str | None:
    """Check an Attribute or Channel key: a definition's name, or a map's name and an instance key."""
    name, separator, instance = text.partition(KEY_SEPARATOR)
    fault = owned_name_fault(name, what)
    if fault is None and separator:
        fault = name_fault(instance, f"instance key of {what} {name!r}")
    return fault


def duration_fault(duration_ms: int, what: str, *, minimum: int = 0) -> str | None:
    """Check a duration [TIMER-2]."""
    if minimum <= duration_ms <= DURATION_MS_MAX:
        return None
    return f"{what} is {duration_ms} ms, allowed are {minimum} to {DURATION_MS_MAX}"


def plan_fault(plan: StepPlan) -> str | None:
    """Check a Step to schedule."""
    fault = owned_name_fault(plan.step_type, "Step type")
    if fault is None and plan.options is not None:
        fault = options_fault(plan.options)
    return fault


def options_fault(options: StepOptions) -> str | None:
    """Check Step options and those of the recovery Steps nested in them [OPT-5]; `step_plans` bounds the depth."""
    for timeout_ms, what in (
        (options.wait_for_timeout_ms, "wait_for timeout"),
        (options.execute_timeout_ms, "execute timeout"),
        (options.heartbeat_timeout_ms, "heartbeat timeout"),
    ):
        if timeout_ms is not None and (fault := duration_fault(timeout_ms, what)) is not None:
            return fault
    for locks in (options.wait_for_locks, options.execute_locks):
        if locks and (fault := locks_fault(locks)) is not None:
            return fault
    for name in options.preload:
        if (fault := owned_name_fault(name, "Attribute to preload")) is not None:
            return fault
    for policy in (options.wait_for_retry, options.execute_retry):
        if policy is not None and (fault := retry_fault(policy)) is not None:
            return fault
    if options.priority is not None and (fault := priority_fault(options.priority)) is not None:
        return fault
    recovery = options.recovery
    if recovery is None:
        return None
    fault = owned_name_fault(recovery.step_type, "recovery Step type")
    if fault is None and recovery.options is not None:
        fault = options_fault(recovery.options)
    return fault


def priority_fault(priority: int) -> str | None:
    """Check a priority [ROUTE-7]."""
    if PRIORITY_MIN <= priority <= PRIORITY_MAX:
        return None
    return f"priority is {priority}, allowed are {PRIORITY_MIN} (first) to {PRIORITY_MAX}"


def locks_fault(locks: Sequence[str]) -> str | None:
    """Check the Attribute keys that a call locks: legal, and each once [LOCK-6]."""
    if len(dict.fromkeys(locks)) != len(locks):
        return f"an Attribute is locked twice: {list(locks)}"
    return next(filter(None, (key_fault(key, "locked Attribute") for key in locks)), None)


def retry_fault(policy: RetryPolicy) -> str | None:
    """Check a retry policy [RETRY-3]."""
    if fault := duration_fault(policy.initial_interval_ms, "initial interval", minimum=1):
        return fault
    if not (math.isfinite(policy.backoff_coefficient) and policy.backoff_coefficient >= 1):
        return f"backoff coefficient is {policy.backoff_coefficient}, allowed are finite numbers from 1 on"
    cap = policy.maximum_interval_ms
    if cap is not None and not policy.initial_interval_ms <= cap <= DURATION_MS_MAX:
        return f"maximum interval is {cap} ms, allowed are {policy.initial_interval_ms} to {DURATION_MS_MAX}"
    if not 0 <= policy.maximum_attempts <= COUNT_MAX:
        return f"maximum attempts is {policy.maximum_attempts}, allowed are 0 to {COUNT_MAX}"
    if not 0 <= policy.jitter <= 1:
        return f"jitter is {policy.jitter}, allowed are 0 to 1"
    total = policy.total_duration_ms
    return None if total is None else duration_fault(total, "total duration")
