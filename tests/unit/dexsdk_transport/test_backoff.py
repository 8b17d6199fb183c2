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
