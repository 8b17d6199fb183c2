"""Waits and their conditions as values [WAIT-1..3, WAIT-12, TIMER-1, CHAN-4, CHAN-5]."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import Channel, ChannelMap, Condition, ConditionCombination, Timer, TimerId, ValueTooLargeError, Wait

NEWS: Channel[str] = Channel("news", str)
BY_USER: ChannelMap[str] = ChannelMap("by_user", str)


def named(condition_id: str) -> Condition:
    return NEWS.for_one(condition_id=condition_id)


def test_wait_1_until_is_all_of_one_condition() -> None:
    timer = Timer.by_duration(1)
    assert Wait.until(timer).to_frame() == Wait.all_of(timer).to_frame()
    assert Wait.skip_immediately().to_frame() == frames.Wait(frames.WAIT_SKIP)


@pytest.mark.parametrize("make", [Wait.all_of, Wait.any_of, Wait.any_combination_of, ConditionCombination.of])
def test_wait_2_every_kind_but_skip_needs_a_condition(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        make()


@pytest.mark.parametrize("make", [Wait.all_of, Wait.any_of, ConditionCombination.of])
def test_wait_2_only_conditions_are_conditions(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="argument 1 is Channel"):
        make(named("a"), NEWS)


@pytest.mark.parametrize("make", [Wait.all_of, Wait.any_of, ConditionCombination.of])
def test_wait_3_two_conditions_with_one_id_are_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="two conditions with the ID 'same'"):
        make(named("same"), Timer.by_duration(1, "same"))


def test_wait_3_ids_are_optional_outside_combinations_and_required_inside() -> None:
    assert Wait.all_of(NEWS.for_one(), NEWS.for_one()).to_frame().kind == frames.WAIT_ALL_OF
    with pytest.raises(ValueError, match="condition 1 of a combination has no condition_id"):
        ConditionCombination.of(named("a"), NEWS.for_one())


def test_wait_3_ids_are_unique_over_all_combinations_but_one_object_may_stand_in_several() -> None:
    shared, first, second = named("shared"), named("first"), Timer.by_duration(5, "second")
    wait = Wait.any_combination_of(ConditionCombination.of(shared, first), ConditionCombination.of(second, shared))
    frame = wait.to_frame()
    assert [condition.condition_id for condition in frame.conditions] == ["shared", "first", "second"]
    assert frame.combinations == ((0, 1), (2, 0))
    with pytest.raises(ValueError, match="two conditions with the ID 'shared'"):
        Wait.any_combination_of(ConditionCombination.of(shared), ConditionCombination.of(named("shared")))


def test_wait_12_a_wait_has_at_most_1000_conditions_and_100_combinations() -> None:
    timer = Timer.by_duration(1)
    assert len(Wait.any_of(*[timer] * 1_000).conditions) == 1_000
    with pytest.raises(ValueTooLargeError, match="size 1001, the limit is 1000"):
        Wait.any_of(*[timer] * 1_001)
    group = ConditionCombination.of(named("a"))
    assert len(Wait.any_combination_of(*[group] * 100).combinations) == 100
    with pytest.raises(ValueTooLargeError, match="size 101, the limit is 100"):
        Wait.any_combination_of(*[group] * 101)


def test_timer_1_a_timer_travels_as_a_duration_or_an_instant() -> None:
    assert Timer.by_duration(timedelta(seconds=2), "t").to_frame() == frames.Condition(
        frames.CONDITION_TIMER, "t", duration_ms=2_000
    )
    instant = datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert Timer.at(instant).to_frame() == frames.Condition(frames.CONDITION_TIMER, at_ms=3_000)
    with pytest.raises(ValueError, match="naive"):
        Timer.at(datetime(2026, 1, 1))  # noqa: DTZ001 -- the naive datetime is the case


@pytest.mark.parametrize(
    ("condition", "at_least", "at_most"),
    [
        (NEWS.for_one(), 1, 1),
        (NEWS.for_n(3), 3, 3),
        (NEWS.at_least(2), 2, None),
        (NEWS.at_least(0), 0, None),
        (NEWS.at_most(3), 0, 3),
        (NEWS.for_range(at_least=1, at_most=3), 1, 3),
        (NEWS.for_range(at_least=1), 1, None),
        (NEWS.for_range(at_most=3), 0, 3),
    ],
)
def test_chan_4_conditions_need_and_take_what_they_say(
    condition: Condition, at_least: int, at_most: int | None
) -> None:
    frame = condition.to_frame()
    assert (frame.channel, frame.at_least, frame.at_most) == ("news", at_least, at_most)


def test_chan_6_conditions_of_a_map_name_the_instance() -> None:
    conditions = [
        BY_USER.for_one("u"),
        BY_USER.for_n("u", 2),
        BY_USER.at_least("u", 2),
        BY_USER.at_most("u", 2),
        BY_USER.for_range("u", at_least=1),
    ]
    assert {condition.to_frame().channel for condition in conditions} == {"by_user\0u"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: NEWS.for_n(0),
        lambda: NEWS.for_n(-1),
        lambda: NEWS.for_n(True),
        lambda: NEWS.for_n(1.5),  # type: ignore[arg-type] # the case
        lambda: NEWS.at_least(-1),
        lambda: NEWS.at_most(-1),
        lambda: NEWS.at_most(2**63),
        lambda: NEWS.for_range(),
        lambda: NEWS.for_range(at_least=3, at_most=2),
        lambda: NEWS.for_range(at_most=-1),
        lambda: BY_USER.for_one("a\0b"),
        lambda: NEWS.for_one(condition_id=""),
    ],
)
def test_chan_5_wrong_bounds_and_names_are_value_errors(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()


def test_timer_8_a_timer_is_named_by_exactly_one_of_condition_id_and_index() -> None:
    assert TimerId.by_condition_id("x") == TimerId(condition_id="x")
    assert TimerId.by_condition_index(2) == TimerId(index=2)


@pytest.mark.parametrize(
    "fields",
    [{}, {"condition_id": "x", "index": 0}, {"condition_id": ""}, {"index": -1}, {"index": 1_000}, {"index": True}],
)
def test_timer_8_anything_else_names_no_timer(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Timer|condition ID"):
        TimerId(**fields)
