"""How a worker ends [DRAIN-1]."""

from dexsdk._drain import Drain, DrainStage


def begun() -> Drain:
    drain = Drain(30_000)
    drain.begin(0)
    return drain


def test_quiet_worker_ends_at_once() -> None:
    """[DRAIN-1]"""
    assert begun().advance(0, is_running=False, is_dismissed=True) is DrainStage.OVER


def test_handlers_finish_within_the_first_period() -> None:
    """[DRAIN-1]"""
    drain = begun()
    assert drain.advance(29_999, is_running=True, is_dismissed=False) is DrainStage.FINISHING
    assert drain.advance(29_999, is_running=False, is_dismissed=True) is DrainStage.OVER


def test_results_are_waited_for_until_they_are_acknowledged() -> None:
    """[DRAIN-3]: but no longer than the period."""
    drain = begun()
    assert drain.advance(29_999, is_running=False, is_dismissed=False) is DrainStage.FINISHING
    assert drain.advance(30_000, is_running=False, is_dismissed=False) is DrainStage.OVER


def test_handlers_are_canceled_after_the_first_period_and_given_up_after_the_second() -> None:
    """[DRAIN-1]"""
    drain = begun()
    assert drain.advance(30_000, is_running=True, is_dismissed=False) is DrainStage.CANCELING
    assert drain.advance(59_999, is_running=True, is_dismissed=False) is DrainStage.CANCELING
    assert drain.advance(60_000, is_running=True, is_dismissed=False) is DrainStage.OVER


def test_second_stop_changes_nothing() -> None:
    """[DRAIN-1]: idempotent."""
    drain = begun()
    drain.begin(20_000)
    assert drain.advance(30_000, is_running=True, is_dismissed=False) is DrainStage.CANCELING
    drain.begin(31_000)
    assert drain.advance(31_000, is_running=False, is_dismissed=False) is DrainStage.OVER


def test_hurry_cancels_at_once() -> None:
    """[QUEUE-2]: nobody waits for the results of a superseded worker."""
    drain = begun()
    drain.hurry(1_000)
    assert drain.advance(1_000, is_running=True, is_dismissed=False) is DrainStage.CANCELING
    assert drain.advance(31_000, is_running=True, is_dismissed=False) is DrainStage.OVER
