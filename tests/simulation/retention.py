"""Runs that leave the simulated log when their retention is over, also in the middle of everything [KEEP-1, ID-10]."""

import asyncio
from random import Random

from dexd.core.retention import RetentionConfig
from dexd.engine.engine import Engine
from dexd.engine.ports import CallLater, Clock
from dexd.engine.retention import Retention
from dexd.log.event_log import Batch, StoredEvent
from dexd.log.memory_log import MemoryLog
from dexd.log.reading import InlinePages
from tests.simulation.faults import Faults

RETENTION_MS = 40_000
"""Longer than any client takes to say the next thing to a Flow, or a restarted server to tell a parent of a child."""

RETENTION_MS_LONG = 100 * 3_600_000
"""Longer than the simulated wall clock can be set forward in one world; runs go at its end then."""


def draw_retention(seed: int, faults: Faults) -> int:
    """How long closed runs are kept; 0, for ever, in every other world or so."""
    if Random(f"retention {seed}").random() < 0.5:
        return 0
    return RETENTION_MS_LONG if faults.clock_step_every else RETENTION_MS


class KeptLog(MemoryLog):
    """Remembers every event that was ever committed, for those who check afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.everything: list[StoredEvent] = []

    def append(self, batch: Batch) -> None:
        super().append(batch)
        self.everything += batch.events


class SimulatedRetention:
    """The retention of one life of the server, and the deletions behind it."""

    def __init__(
        self, random: Random, log: MemoryLog, engine: Engine, clock: Clock, call_later: CallLater, retention_ms: int
    ) -> None:
        self._random = random
        self._log = log
        self._call_later = call_later
        config = RetentionConfig(retention_ms, ordinal_retention_ms=0)
        self._retention = Retention(engine, InlinePages(log), clock, config, call_later=call_later)
        self._retention.start()
        self._delete_some()

    def _delete_some(self) -> None:
        """Between commits, at instants that have nothing to do with them."""
        self._log.remove_some(self._random.randint(1, 20))
        self._call_later(self._random.uniform(0.01, 2.0), self._delete_some)

    def die(self) -> None:
        """The server was killed."""
        asyncio.get_running_loop().create_task(self._retention.stop())
