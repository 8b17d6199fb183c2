"""One alarm for the earliest deadline [TIMER-7]."""

from dexd.engine.timekeeper import SLEEP_MS_MAX, Timekeeper
from tests.unit.engine.rig import BEGUN_AT, Alarms, ManualClock


class Rung:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.alarms = Alarms(self.clock)
        self.at: list[int] = []
        self.keeper = Timekeeper(self.clock, self.alarms.call_later, lambda: self.at.append(self.clock.at))


def test_rings_at_the_instant_and_once() -> None:
    """[TIMER-4] Never early, exactly once."""
    rung = Rung()
    rung.keeper.arm(BEGUN_AT + 300)
    rung.alarms.advance(299)
    assert rung.at == []
    rung.alarms.advance(5_000)
    assert rung.at == [BEGUN_AT + 300]


def test_long_sleeps_are_capped_and_repeated() -> None:
    """[TIMER-7] No duration can overflow a platform timer."""
    rung = Rung()
    rung.keeper.arm(BEGUN_AT + 100 * 365 * 86_400_000)
    [alarm] = rung.alarms.waiting
    assert alarm.at == BEGUN_AT + SLEEP_MS_MAX
    rung.alarms.advance(10 * SLEEP_MS_MAX)
    assert rung.at == []
    assert len(rung.alarms.waiting) == 1


def test_earlier_deadline_moves_the_alarm_forward() -> None:
    """[TIMER-7] There is one alarm, for the earliest."""
    rung = Rung()
    rung.keeper.arm(BEGUN_AT + 500)
    rung.keeper.arm(BEGUN_AT + 200)
    rung.keeper.arm(BEGUN_AT + 800)
    rung.keeper.arm(None)
    rung.alarms.advance(1_000)
    assert rung.at == [BEGUN_AT + 200]


def test_deadline_in_the_past_does_not_spin() -> None:
    """[TIMER-7] It rings after a millisecond, not at once."""
    rung = Rung()
    rung.keeper.arm(BEGUN_AT - 500)
    [alarm] = rung.alarms.waiting
    assert alarm.at == BEGUN_AT + 1


def test_step_of_the_wall_clock_is_noticed_within_the_cap() -> None:
    """[TIMER-6] A step forward fires what became due."""
    rung = Rung()
    rung.keeper.arm(BEGUN_AT + 3_600_000)
    rung.alarms.advance(500)
    [alarm] = rung.alarms.waiting
    rung.clock.at += 3_600_000
    rung.alarms.waiting.clear()
    alarm.callback()
    assert len(rung.at) == 1


def test_stopped_timekeeper_stays_silent() -> None:
    """[DRAIN-4] Sleeping timers hold nothing up."""
    rung = Rung()
    rung.keeper.stop()
    rung.keeper.arm(BEGUN_AT + 10)
    [alarm] = rung.alarms.waiting
    rung.keeper.stop()
    assert rung.alarms.waiting == []
    alarm.callback()
    assert rung.at == []
