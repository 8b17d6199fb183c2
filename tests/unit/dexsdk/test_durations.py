"""Durations and instants as milliseconds [TIMER-1, TIMER-2]."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dexsdk._durations import Duration, from_instant_ms, to_duration_ms, to_instant_ms


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [
        (0, 0),
        (1, 1_000),
        (0.25, 250),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=1, microseconds=1), 2),
        (1e-9, 1),
        (2**31, 2**31 * 1_000),
        (timedelta(days=36_525), 36_525 * 86_400_000),
    ],
)
def test_timer_2_durations_are_whole_milliseconds_rounded_up(duration: Duration, milliseconds: int) -> None:
    assert to_duration_ms(duration, "duration") == milliseconds


@pytest.mark.parametrize(
    "duration",
    [
        -0.001,
        timedelta(milliseconds=-1),
        float("nan"),
        float("inf"),
        10**400,
        timedelta(days=36_525, microseconds=1),
        timedelta(days=36_526),
        True,
        "5",
        None,
    ],
)
def test_timer_2_anything_else_is_a_value_error_naming_the_duration(duration: Duration) -> None:
    with pytest.raises(ValueError, match="start_delay is"):
        to_duration_ms(duration, "start_delay")


def test_timer_1_instants_are_aware_and_never_rounded_down() -> None:
    instant = datetime(1970, 1, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert to_instant_ms(instant, "instant") == 1
    assert from_instant_ms(1) == datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)


def test_timer_1_naive_datetimes_are_refused() -> None:
    with pytest.raises(ValueError, match="naive"):
        to_instant_ms(datetime(2026, 1, 1), "instant")  # noqa: DTZ001 -- the naive datetime is the case
