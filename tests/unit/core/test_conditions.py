"""Which candidate of a Wait wins and what it takes, from counts alone [WAIT-5..8, CHAN-4]."""

import pytest

from dexd.core.flow.conditions import Win, candidates, evaluate
from tests.support.builders import all_of, any_combination, any_of, channel, timer

T, LATE = timer(at=5), timer(at=9)


def test_wait_5_any_of_tries_timers_before_channels_each_in_declaration_order() -> None:
    wait = any_of(channel("c"), LATE, channel("d"), T)
    assert list(candidates(wait)) == [(1,), (3,), (0,), (2,)]


def test_wait_5_due_timer_beats_a_queued_message_which_stays() -> None:
    assert evaluate(any_of(channel("c"), T), [1], {"c": 1}) == Win((1,), ())


def test_wait_5_first_declared_of_several_satisfied_wins() -> None:
    assert evaluate(any_of(channel("c"), channel("d")), [], {"c": 1, "d": 1}) == Win((0,), ((0, (0,)),))


def test_wait_5_any_of_passes_over_what_is_not_satisfied() -> None:
    assert evaluate(any_of(T, channel("c"), channel("d")), [], {"d": 1}) == Win((2,), ((2, (0,)),))
    assert evaluate(any_of(T, channel("c"), channel("d")), [], {}) is None


def test_wait_6_first_fully_satisfied_combination_wins() -> None:
    wait = any_combination((channel("c", id="c"), timer(at=5, id="t"), channel("d", id="d")), (0, 1), (2,), (0,))
    assert evaluate(wait, [], {"c": 1, "d": 1}) == Win((2,), ((2, (0,)),))
    assert evaluate(wait, [1], {"c": 1, "d": 1}) == Win((0, 1), ((0, (0,)),))
    assert evaluate(wait, [1], {}) is None


def test_wait_6_all_of_is_one_candidate() -> None:
    wait = all_of(channel("c"), T)
    assert evaluate(wait, [], {"c": 1}) is None
    assert evaluate(wait, [1], {}) is None
    assert evaluate(wait, [1], {"c": 1}) == Win((0, 1), ((0, (0,)),))


def test_wait_6_combination_named_out_of_order_consumes_in_declaration_order() -> None:
    wait = any_combination((channel("c", 1, 1, id="a"), channel("c", 1, 1, id="b")), (1, 0))
    assert evaluate(wait, [], {"c": 2}) == Win((0, 1), ((0, (0,)), (1, (1,))))


def test_wait_7_conditions_on_one_channel_need_the_sum_of_their_minimums() -> None:
    """Acceptance example 4."""
    wait = all_of(channel("c", 2, 2), channel("c"))
    assert evaluate(wait, [], {"c": 2}) is None
    assert evaluate(wait, [], {"c": 3}) == Win((0, 1), ((0, (0, 1)), (1, (2,))))


def test_wait_8_all_minimums_are_taken_before_any_extra() -> None:
    wait = all_of(channel("c", 1, None), channel("c", 1, 3))
    assert evaluate(wait, [], {"c": 4}) == Win((0, 1), ((0, (0, 2, 3)), (1, (1,))))


def test_wait_8_extras_go_to_the_first_declared_up_to_its_bound() -> None:
    wait = all_of(channel("c", 0, 2), channel("c", 1, None))
    assert evaluate(wait, [], {"c": 5}) == Win((0, 1), ((0, (1, 2)), (1, (0, 3, 4))))


def test_wait_8_upper_bound_is_no_precondition() -> None:
    """Acceptance example 3."""
    assert evaluate(all_of(channel("c", 0, 3)), [], {}) == Win((0,), ())


@pytest.mark.parametrize(
    ("at_least", "at_most", "queued", "taken"),
    [
        (1, 1, 0, None),
        (1, 1, 3, 1),  # for_one
        (2, 2, 1, None),
        (2, 2, 3, 2),  # for_n
        (2, None, 1, None),
        (2, None, 5, 5),  # at_least
        (0, 3, 0, 0),
        (0, 3, 2, 2),
        (0, 3, 5, 3),  # at_most
        (1, 3, 5, 3),
        (1, 3, 2, 2),
        (1, 3, 0, None),  # for_range
        (0, None, 4, 4),
    ],
)
def test_chan_4_bounds(at_least: int, at_most: int | None, queued: int, taken: int | None) -> None:
    won = evaluate(all_of(channel("c", at_least, at_most)), [], {"c": queued})
    if taken is None:
        assert won is None
    else:
        assert won is not None
        assert won.positions == (((0, tuple(range(taken))),) if taken else ())
