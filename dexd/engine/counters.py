"""What the engine has done since it began; for metrics only, nothing is decided by it [OBS-1]."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from dexd.core.flow.state import RunState
from dexd.log.event_log import StoredEvent

COMMIT_BOUNDS_MS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0)
"""Upper bounds of the classes of commit durations; above the last is one more."""

BATCH_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)
"""Upper bounds of the classes of events per commit."""

_TYPE_OF = attrgetter("type")
_STATUS_OF = attrgetter("status")


class EngineCounters:
    """Counters that only grow, and what the last replay was like."""

    __slots__ = ("closed", "commit_classes", "commit_ms", "events", "replay_ms", "replayed_runs", "size_classes")

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        """Committed events by type."""
        self.closed: Counter[int] = Counter()
        """Runs that have closed, by status."""
        self.commit_classes = [0] * (len(COMMIT_BOUNDS_MS) + 1)
        self.commit_ms = 0.0
        self.size_classes = [0] * (len(BATCH_BOUNDS) + 1)
        self.replay_ms = 0.0
        self.replayed_runs = 0

    def committed(self, events: Sequence[StoredEvent], closed: Sequence[RunState], took_ms: float) -> None:
        """A batch is durable; `took_ms` from the hand-over to the writer until the loop knew."""
        self.commit_classes[bisect_left(COMMIT_BOUNDS_MS, took_ms)] += 1
        self.commit_ms += took_ms
        self.size_classes[bisect_left(BATCH_BOUNDS, len(events))] += 1
        self.events.update(map(_TYPE_OF, events))
        if closed:
            self.closed.update(map(_STATUS_OF, closed))

    def replayed(self, runs: int, took_ms: float) -> None:
        """Live state was taken from the log; `runs` came into memory."""
        self.replayed_runs = runs
        self.replay_ms = took_ms
