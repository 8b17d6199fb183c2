"""When the next attempt starts, or that there is none [RETRY-1..6]."""

import hashlib
import math

from dexd.core.config import DURATION_MS_MAX
from dexd.core.flow.state import StepExecution
from dexd.core.values import Failure, Method, RetryPolicy

DEFAULT_POLICY = RetryPolicy()
DEFAULT_CAP_MS = 100_000
"""Cap of the delay when the policy names none and the initial interval is not larger [RETRY-3]."""


def policy_of(step: StepExecution) -> RetryPolicy:
    """The policy of the step's current method."""
    if step.options is None:
        return DEFAULT_POLICY
    chosen = step.options.wait_for_retry if step.method is Method.WAIT_FOR else step.options.execute_retry
    return DEFAULT_POLICY if chosen is None else chosen


def next_attempt_at(step: StepExecution, failure: Failure, *, seed: int, now: int) -> int | None:
    """Instant of the attempt after the current one, or None when retries are exhausted.

    [RETRY-5] Non-retryable failures exhaust at once. [RETRY-1] `maximum_attempts` includes the first.
    [RETRY-6] RetryAfter sets the delay and extends nothing. [RETRY-4] An attempt that could not start inside
    `total_duration`, counted from the first hand-over, does not start.
    """
    policy = policy_of(step)
    if failure.non_retryable or _is_listed(step, failure):
        return None
    if policy.maximum_attempts and step.attempt >= policy.maximum_attempts:
        return None
    if failure.retry_after_ms is not None:
        retry_at = now + failure.retry_after_ms
    else:
        retry_at = now + delay_ms(policy, step.attempt, draw=_draw(seed, step))
    return None if _is_over(policy, step, retry_at) else retry_at


def _is_over(policy: RetryPolicy, step: StepExecution, retry_at: int) -> bool:
    if policy.total_duration_ms is None or not step.first_attempt_at:
        return False
    return retry_at > step.first_attempt_at + policy.total_duration_ms


def delay_ms(policy: RetryPolicy, attempt: int, *, draw: float) -> int:
    """Delay after the failed attempt of that number; `draw` is in [0, 1) [RETRY-2].

    The power is never computed beyond the cap, so no attempt number can overflow.
    """
    cap = policy.maximum_interval_ms
    if cap is None:
        cap = max(DEFAULT_CAP_MS, policy.initial_interval_ms)
    cap = min(cap, DURATION_MS_MAX)
    growth = (attempt - 1) * math.log(policy.backoff_coefficient)
    if policy.initial_interval_ms >= cap or growth >= math.log(cap / policy.initial_interval_ms):
        delay = float(cap)
    else:
        delay = policy.initial_interval_ms * policy.backoff_coefficient ** (attempt - 1)
    return max(0, round(delay * (1.0 - policy.jitter * draw)))


def _is_listed(step: StepExecution, failure: Failure) -> bool:
    listed = () if step.options is None else step.options.non_retryable_errors
    return any(name in listed for name in failure.error_classes)


def _draw(seed: int, step: StepExecution) -> float:
    """Spread the run's seed, drawn outside the core, over its attempts."""
    if policy_of(step).jitter == 0.0:
        return 0.0
    text = f"{seed}/{step.step_execution_id}/{step.method}/{step.attempt}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
