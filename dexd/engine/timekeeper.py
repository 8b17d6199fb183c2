"""Sleeps until the earliest deadline, and never longer than a cap [TIMER-7]."""

from collections.abc import Callable

from dexd.engine.ports import Alarm, CallLater, Clock

SLEEP_MS_MAX = 1_000
"""Longest sleep. Short enough that a wall clock that stepped forward is noticed soon [TIMER-6], and no duration can
overflow a platform timer."""
SLEEP_MS_MIN = 1
"""Shortest sleep, so that a deadline that stays in the past cannot make the loop spin."""


class Timekeeper:
    """One alarm for everything that has a deadline."""

    __slots__ = ("_alarm", "_armed_at", "_call_later", "_clock", "_on_due")

    def __init__(self, clock: Clock, call_later: CallLater, on_due: Callable[[], None]) -> None:
        """`on_due` is called once the armed instant has come, and arms the next one."""
        self._clock = clock
        self._call_later = call_later
        self._on_due = on_due
        self._alarm: Alarm | None = None
        self._armed_at: int | None = None

    def arm(self, at: int | None) -> None:
        """See to it that `on_due` is called at that instant, or earlier if that is armed already.

        An alarm that rings too early only makes its owner look again, so that moving a deadline back costs nothing.
        """
        if at is None or (self._armed_at is not None and self._armed_at <= at):
            return
        self._armed_at = at
        self._sleep(at)

    def stop(self) -> None:
        """Never call again."""
        self._armed_at = None
        if self._alarm is not None:
            self._alarm.cancel()

    def _sleep(self, at: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        delay_ms = min(max(at - self._clock.now(), SLEEP_MS_MIN), SLEEP_MS_MAX)
        self._alarm = self._call_later(delay_ms / 1_000, self._ring)

    def _ring(self) -> None:
        at = self._armed_at
        if at is None:
            return
        if self._clock.now() < at:
            self._sleep(at)
            return
        self._armed_at = None
        self._on_due()
