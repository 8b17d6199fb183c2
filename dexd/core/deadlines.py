"""Everything that must happen at an instant, in one place: a heap of keyed deadlines."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SLACK = 64
"""Stale heap entries tolerated before a rebuild, beside one per live deadline; keeps re-arming O(log n) amortised."""


class Deadlines(Generic[Key]):
    """At most one deadline per key. Due keys come out by instant, ties in the order in which they were armed."""

    __slots__ = ("_armed", "_heap", "_order")

    def __init__(self) -> None:
        self._armed: dict[Key, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._order = 0

    def arm(self, key: Key, at: int) -> None:
        """Set or move the key's deadline."""
        current = self._armed.get(key)
        if current is not None and current[0] == at:
            return
        self._order += 1
        self._armed[key] = (at, self._order)
        heapq.heappush(self._heap, (at, self._order, key))
        if len(self._heap) > 2 * len(self._armed) + _SLACK:
            self._heap = [(at, order, key) for key, (at, order) in self._armed.items()]
            heapq.heapify(self._heap)

    def disarm(self, key: Key) -> None:
        """Forget the key's deadline, if it has one."""
        self._armed.pop(key, None)

    def armed_at(self, key: Key) -> int | None:
        """The key's deadline, or None."""
        current = self._armed.get(key)
        return None if current is None else current[0]

    def next_at(self) -> int | None:
        """The earliest deadline, or None."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> Key | None:
        """Take the earliest key whose deadline is at or before `now`, or None."""
        if not self._heap or self._heap[0][0] > now:
            # Nothing is due, be the earliest entry stale or not; this is the usual case and must cost next to nothing.
            return None
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._armed[key]
        return key

    def __len__(self) -> int:
        return len(self._armed)

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap:
            at, order, key = heap[0]
            if self._armed.get(key) == (at, order):
                return
            heapq.heappop(heap)
