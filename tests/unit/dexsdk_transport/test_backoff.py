"""Delays between tries to connect [WIRE-9]."""

from dexsdk._backoff import Backoff


def test_delays_double_from_100_ms_to_5_s() -> None:
    """[WIRE-9]"""
    backoff = Backoff()
    delays = [backoff.next_delay_ms(0.999_999) for _ in range(8)]
    assert delays == [99, 199, 399, 799, 1_599, 3_199, 4_999, 4_999]


def test_jitter_takes_up_to_half_and_reset_begins_again() -> None:
    """[WIRE-9]"""
    backoff = Backoff()
    assert backoff.next_delay_ms(0.0) == 50
    assert backoff.next_delay_ms(0.0) == 100
    backoff.reset()
    assert backoff.next_delay_ms(0.0) == 50


def test_worker_with_calls_to_present_tries_three_times_while_the_server_holds_them() -> None:
    """[WIRE-9, WIRE-11]: the server holds them for 5 s; a worker without calls still leaves it in peace."""
    backoff = Backoff()
    for _ in range(10):
        backoff.next_delay_ms(0.5, has_calls=True)
    assert 3 * backoff.next_delay_ms(0.999_999, has_calls=True) < 5_000
    assert backoff.next_delay_ms(0.999_999) == 4_999
