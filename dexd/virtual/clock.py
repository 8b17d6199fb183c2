"""Server time that stands still until somebody turns it [TEST-2]."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple


class VirtualAlarm:
    """A wake-up at an instant of a virtual clock."""

    __slots__ = ("_clock", "_number")

    def __init__(self, clock: "VirtualClock", number: int) -> None:
        self._clock = clock
        self._number = number

    def cancel(self) -> None:
        """Do not wake up."""
        self._clock.forget(self._number)


class _WakeUp(NamedTuple):
    at: int
    number: int
    callback: Callable[[], None]


class VirtualClock:
    """A clock for the engine, and the wake-ups that go by it."""

    def __init__(self, now: int) -> None:
        """Begin at an instant, in milliseconds since the epoch."""
        self._now = now
        self._numbers = count()
        self._wake_ups: dict[int, _WakeUp] = {}

    def now(self) -> int:
        """See `engine.ports.Clock`."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> VirtualAlarm:
        """See `engine.ports.CallLater`."""
        number = next(self._numbers)
        self._wake_ups[number] = _WakeUp(self._now + round(seconds * 1_000), number, callback)
        return VirtualAlarm(self, number)

    def turn_to(self, at: int) -> None:
        """Make it that instant and wake up everybody whose time has come, in order of their instants.

        Raises:
            ValueError: the instant is past [TIMER-6].
        """
        if at < self._now:
            raise ValueError(f"the clock cannot be turned back from {self._now} to {at}")
        self._now = at
        for wake_up in sorted(self._wake_ups.values()):
            # One that rang may have canceled a later one.
            if wake_up.at <= at and self._wake_ups.pop(wake_up.number, None) is not None:
                wake_up.callback()

    def forget(self, number: int) -> None:
        """Take a wake-up back."""
        self._wake_ups.pop(number, None)

    def forget_all(self) -> None:
        """Wake nobody up any more: those who asked are gone."""
        self._wake_ups.clear()
