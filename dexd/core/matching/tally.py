"""What matching has done since the kernel began; for metrics only, nothing is decided by it [OBS-1]."""

from bisect import bisect_left
from typing import Final

WAIT_BOUNDS_MS = (0, 1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000)
"""Upper bounds, inclusive, of the classes of dispatch waits and RPCs; above the last is one more."""

ANSWERED: Final = "answered"
REFUSED: Final = "refused"
ABANDONED: Final = "abandoned"
"""How an RPC ends: with its handler's answer, with an error, or after all its callers have gone."""


class RpcTimes:
    """How long the RPCs with one outcome took."""

    __slots__ = ("classes", "total_ms")

    def __init__(self) -> None:
        self.classes = [0] * (len(WAIT_BOUNDS_MS) + 1)
        self.total_ms = 0


class Tally:
    """Counters that only grow."""

    __slots__ = ("declined", "lost", "rpcs", "shared", "sticky", "waited_ms", "waits")

    def __init__(self) -> None:
        self.sticky = 0
        """Hand-overs to the worker that last served the Flow."""
        self.shared = 0
        """Hand-overs through the Flow type's queue."""
        self.waits = [0] * (len(WAIT_BOUNDS_MS) + 1)
        """Hand-overs that waited, by class; those that did not are the rest of all."""
        self.waited_ms = 0
        self.declined: dict[str, int] = {}
        """Offers that were declined, by reason."""
        self.lost: dict[str, int] = {}
        """Deliveries that were lost, by reason."""
        self.rpcs = {outcome: RpcTimes() for outcome in (ANSWERED, REFUSED, ABANDONED)}

    def note_wait(self, waited_ms: int) -> None:
        """A call was handed over after it had waited."""
        self.waits[bisect_left(WAIT_BOUNDS_MS, waited_ms)] += 1
        self.waited_ms += waited_ms

    def note_rpc(self, outcome: str, took_ms: int) -> None:
        """An RPC has ended, `took_ms` after its first caller asked."""
        times = self.rpcs[outcome]
        times.classes[bisect_left(WAIT_BOUNDS_MS, took_ms)] += 1
        times.total_ms += took_ms

    def note_declined(self, reason: str) -> None:
        """An offer was declined."""
        self.declined[reason] = self.declined.get(reason, 0) + 1

    def note_lost(self, reason: str) -> None:
        """A delivery was lost."""
        self.lost[reason] = self.lost.get(reason, 0) + 1
