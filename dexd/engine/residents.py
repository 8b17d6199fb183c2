"""Open runs in memory, and which of them may leave it: those that moved longest ago first [ARCH-11].

A clock with a second chance: its hand goes round, and a run that has not moved since it came by last may leave. So
nothing is to be done when a run moves, which happens all the time; only the hand costs something, and it goes on by a
few runs with each commit.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dexd.core.flow.state import RunState

RUN_BYTES: Final = 2_048
"""About what a run takes beside its user data."""
STEP_BYTES: Final = 1_024
"""About what an active Step takes beside its input."""

REACH_MIN, REACH_MAX = 4, 1_024
"""How far the hand moves at once when somebody should leave. Where it finds nobody it moves less, so that a crowd of
runs at work costs next to nothing."""

GLANCES: Final = 1
"""Runs that the hand may come by for each event, and for each run that left."""

LOW_WATER: Final = 0.95
"""Once there are too many, runs leave until there is some room, so that not every further one costs a commit."""


class Residents:
    """The clock. It counts runs that may have to leave; one that leaves is taken out."""

    __slots__ = ("_budget", "_bytes_max", "_is_clearing", "_reach", "_runs", "_runs_max", "size")

    def __init__(self, *, runs_max: int, bytes_max: int) -> None:
        """Begin with room for so many runs, and so many bytes."""
        self._runs: OrderedDict[int, tuple[RunState, int, int]] = OrderedDict()
        """By stream, in the order in which the hand comes by: the run, its version and size when it came by last."""
        self._runs_max = runs_max
        self._bytes_max = bytes_max
        self._reach = REACH_MIN
        self._is_clearing = False
        self._budget = 0
        """Runs that the hand may come by before something else happens; it is not to look for ever among busy ones."""
        self.size = 0
        """Bytes that they take, about; as of when the hand came by each."""

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def wants_turn(self) -> bool:
        """Whether somebody should leave, and the hand has not looked long enough for now."""
        return self._budget > 0 and self._should_leave()

    def stirred(self, events: int) -> None:
        """So much has happened; some runs may have come to rest."""
        self._budget = min(self._budget + GLANCES * events + REACH_MIN, 2 * len(self._runs) + REACH_MIN)

    def add(self, run: RunState) -> None:
        """The run is in memory from now on, and has moved."""
        size = size_of(run)
        self._runs[run.stream_id] = (run, 0, size)
        self.size += size
        self._budget += 2

    def remove(self, stream_id: int) -> None:
        """The run has closed."""
        resident = self._runs.pop(stream_id, None)
        if resident is not None:
            self.size -= resident[2]

    def turn(self, may_leave: Callable[[RunState], bool], leavers_max: int) -> list[RunState]:
        """Move the hand, by one run when there is room; takes out and gives those who leave."""
        leavers: list[RunState] = []
        is_clearing = self._should_leave()
        for _ in range(min(len(self._runs), self._reach) if is_clearing else min(len(self._runs), 1)):
            if len(leavers) == leavers_max:
                break
            self._budget -= 1
            should_leave = is_clearing and self._should_leave()
            stream_id, (run, version, size) = self._runs.popitem(last=False)
            if should_leave and run.version == version and may_leave(run):
                self.size -= size
                leavers.append(run)
                continue
            now_size = size_of(run)
            self.size += now_size - size
            self._runs[stream_id] = (run, run.version, now_size)
        self._budget = max(self._budget, 0) + GLANCES * len(leavers)
        if is_clearing:
            self._reach = min(self._reach * 4, REACH_MAX) if leavers else max(self._reach // 2, REACH_MIN)
        return leavers

    def _should_leave(self) -> bool:
        share = LOW_WATER if self._is_clearing else 1.0
        self._is_clearing = len(self._runs) > self._runs_max * share or self.size > self._bytes_max * share
        return self._is_clearing


def size_of(run: RunState) -> int:
    """About the memory that a run takes, in bytes."""
    size = RUN_BYTES + run.pending_bytes + run.attribute_bytes
    for step in run.steps.values():
        size += STEP_BYTES + len(step.input)
    return size
