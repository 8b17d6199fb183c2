"""How long to wait before the next try to connect or to register [WIRE-9, QUEUE-4]; pure, the draw is an argument."""

BACKOFF_MS_MIN = 100
"""First delay: long enough for a refused connection not to spin, short enough not to be noticed."""

BACKOFF_MS_MAX = 5_000
"""Longest delay: a fleet is back within 15 s of its server's return [W15]."""


BACKOFF_MS_MAX_WITH_CALLS = 1_600
"""Longest delay of a worker that still has calls to present: the server holds them for 5 s by default, and a try that
comes as late as that, or that meets the server while it starts, must not be the only one [WIRE-10, WIRE-11]."""


class Backoff:
    """Doubles from 100 ms to 5 s until it is reset."""

    __slots__ = ("_ceiling_ms",)

    def __init__(self) -> None:
        self._ceiling_ms = BACKOFF_MS_MIN

    def next_delay_ms(self, draw: float, *, has_calls: bool = False) -> int:
        """Give the next delay, between half and all of the current step, so that a fleet does not return in one blow.

        Args:
            draw: A random number in [0, 1).
            has_calls: Whether the next connection presents calls that are lost if it comes late.
        """
        ceiling_ms = min(self._ceiling_ms, BACKOFF_MS_MAX_WITH_CALLS) if has_calls else self._ceiling_ms
        delay_ms = int(ceiling_ms * (0.5 + 0.5 * draw))
        self._ceiling_ms = min(self._ceiling_ms * 2, BACKOFF_MS_MAX)
        return delay_ms

    def reset(self) -> None:
        """Begin again with the shortest delay."""
        self._ceiling_ms = BACKOFF_MS_MIN
