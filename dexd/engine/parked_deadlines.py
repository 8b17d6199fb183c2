"""When parked runs wake up: the log knows all of it, memory the next few thousand [ARCH-11]."""

import heapq
from collections.abc import Callable
from typing import Final

from dexd.log.event_log import EventLog
from dexd.log.parking import ParkedDeadline

WINDOW: Final = 4_096
"""Deadlines read at once; beyond twice as many in memory, the later ones are left to the log again."""

_BEGIN = ParkedDeadline(0, 0)


class ParkedDeadlines:
    """The earliest deadlines of parked runs, in order; ties by the age of the run."""

    __slots__ = ("_armed", "_heap", "_horizon", "_is_in_memory", "_log")

    def __init__(self, log: EventLog, is_in_memory: Callable[[int], bool]) -> None:
        """`is_in_memory` tells of a stream whether its run is, although the log has it parked; the kernel wakes it."""
        self._log = log
        self._is_in_memory = is_in_memory
        self._heap: list[ParkedDeadline] = []
        self._armed: dict[int, ParkedDeadline] = {}
        self._horizon: ParkedDeadline | None = _BEGIN
        """Up to here memory knows all deadlines of the log; None if to the end."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: ParkedDeadline) -> None:
        """A run has left memory; the log has its row already."""
        if self._horizon is not None and deadline > self._horizon:
            return
        self._armed[deadline.stream_id] = deadline
        heapq.heappush(self._heap, deadline)
        if len(self._heap) > 2 * WINDOW:
            self._shrink()

    def remove(self, stream_id: int) -> None:
        """The run has come back."""
        self._armed.pop(stream_id, None)

    def next_at(self) -> int | None:
        """When the next parked run wakes up; None for never."""
        first = self._first()
        return None if first is None else first.at

    def pop_due(self, now: int, limit: int) -> list[ParkedDeadline]:
        """Take the earliest ones that are due."""
        due: list[ParkedDeadline] = []
        while len(due) < limit and (first := self._first()) is not None and first.at <= now:
            heapq.heappop(self._heap)
            del self._armed[first.stream_id]
            due.append(first)
        return due

    def count_due(self, now: int) -> int:
        """How many of those in memory are due."""
        return sum(deadline.at <= now for deadline in self._armed.values())

    def _first(self) -> ParkedDeadline | None:
        while True:
            while self._heap:
                first = self._heap[0]
                if self._armed.get(first.stream_id) is first:
                    return first
                heapq.heappop(self._heap)
            if self._horizon is None:
                return None
            self._load(self._horizon)

    def _load(self, after: ParkedDeadline) -> None:
        rows = self._log.parked_deadlines(after, WINDOW)
        self._horizon = rows[-1] if len(rows) == WINDOW else None
        for row in rows:
            if not self._is_in_memory(row.stream_id):
                self._armed[row.stream_id] = row
                self._heap.append(row)
        heapq.heapify(self._heap)

    def _shrink(self) -> None:
        """Keep the earlier half of what is armed."""
        kept = sorted(self._armed.values())
        if len(kept) > WINDOW:
            del kept[WINDOW:]
            self._horizon = kept[-1]
        self._heap = kept
        self._armed = {deadline.stream_id: deadline for deadline in kept}
