"""The delay between attempts, for every number that a policy may have [RETRY-2, RETRY-3]."""

import math
from itertools import pairwise

import pytest

from dexd.core.config import DURATION_MS_MAX
from dexd.core.flow.retry import DEFAULT_POLICY, delay_ms
from tests.support.builders import RUN, T0, connect, fail, options, retry, scheduled, started
from tests.support.given import given


def test_retry_1_default_policy() -> None:
    delays = [delay_ms(DEFAULT_POLICY, attempt, draw=0.0) for attempt in range(1, 10)]
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 100_000, 100_000]


def test_retry_2_coefficient_10_with_a_cap_of_an_hour() -> None:
    """Acceptance example 30."""
    policy = retry(backoff_coefficient=10.0, maximum_interval_ms=3_600_000)
    delays = [delay_ms(policy, attempt, draw=0.0) for attempt in range(1, 401)]
    assert delays[:4] == [1_000, 10_000, 100_000, 1_000_000]
    assert set(delays[4:]) == {3_600_000}


def test_retry_2_coefficient_1_keeps_the_delay() -> None:
    assert delay_ms(retry(backoff_coefficient=1.0), 1_000_000, draw=0.0) == 1_000


@pytest.mark.parametrize("coefficient", [1.0, 1.0000001, 2.0, 1e6, 1e300])
@pytest.mark.parametrize("attempt", [1, 2, 1_000, 2**31, 2**63])
def test_retry_2_no_attempt_number_overflows(coefficient: float, attempt: int) -> None:
    policy = retry(initial_interval_ms=1, backoff_coefficient=coefficient, maximum_interval_ms=DURATION_MS_MAX)
    delay = delay_ms(policy, attempt, draw=0.0)
    assert 1 <= delay <= DURATION_MS_MAX


def test_retry_2_delays_never_shrink() -> None:
    policy = retry(backoff_coefficient=1.3)
    delays = [delay_ms(policy, attempt, draw=0.0) for attempt in range(1, 60)]
    assert all(a <= b for a, b in pairwise(delays))


def test_retry_2_jitter_shortens_by_at_most_its_share() -> None:
    policy = retry(jitter=0.25)
    assert delay_ms(policy, 1, draw=0.0) == 1_000
    assert delay_ms(policy, 1, draw=math.nextafter(1.0, 0.0)) == 750
    assert delay_ms(retry(jitter=1.0), 1, draw=math.nextafter(1.0, 0.0)) == 0


def test_retry_3_unset_cap_is_the_larger_of_100_s_and_the_initial_interval() -> None:
    assert delay_ms(retry(initial_interval_ms=200_000), 5, draw=0.0) == 200_000
    assert delay_ms(retry(initial_interval_ms=50_000), 5, draw=0.0) == 100_000


def test_retry_2_draw_differs_by_attempt_and_step_and_is_the_same_after_a_restart() -> None:
    """It comes from the run's seed, which the shell drew and the log keeps."""
    chosen = options(execute_retry=retry(initial_interval_ms=1_000_000, maximum_interval_ms=1_000_000, jitter=1.0))
    events = (started(), scheduled("A-1", options=chosen), scheduled("A-2", options=chosen))

    def retry_at(step_id: str) -> int:
        before = given(*events).after(*connect(streams=2))
        number = 1 if step_id == "A-1" else 2
        before.after(fail(delivered=before.step(step_id).token(before.run(RUN).run_id), number=number))
        return before.step(step_id).retry_at

    assert retry_at("A-1") == retry_at("A-1")
    assert retry_at("A-1") != retry_at("A-2")
    assert T0 <= retry_at("A-1") <= T0 + 1_000_000
