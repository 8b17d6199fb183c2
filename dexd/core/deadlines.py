"""Everything that must happen at an instant, in one place: a heap of keyed deadlines."""

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SLACK = 64
"""Instants without a deadline tolerated in the heap before a rebuild, beside one per instant that has some.

Keeps arming O(log n) amortised.
"""


class Deadlines(Generic[Key]):
    """At most one deadline per key. Due keys come out by instant, ties in the order in which they were armed.

    Many deadlines share an instant, because all that is decided in one turn counts from the same one. So the heap is of
    instants, and what is armed and disarmed in between, as nearly everything is, hardly ever touches it.
    """

    __slots__ = ("_armed", "_due", "_instants")

    def __init__(self) -> None:
        self._armed: dict[Key, int] = {}
        self._due: dict[int, OrderedDict[Key, None]] = {}
        """By instant, in the order of arming; no instant without a key."""
        self._instants: list[int] = []
        """A heap that has every instant of `_due`."""

    def arm(self, key: Key, at: int) -> None:
        """Set or move the key's deadline."""
        current = self._armed.get(key)
        if current == at:
            return
        if current is not None:
            self._remove(key, current)
        self._armed[key] = at
        keys = self._due.get(at)
        if keys is None:
            keys = self._due[at] = OrderedDict()
            heapq.heappush(self._instants, at)
            if len(self._instants) > 2 * len(self._due) + _SLACK:
                self._instants = list(self._due)
                heapq.heapify(self._instants)
        keys[key] = None

    def disarm(self, key: Key) -> None:
        """Forget the key's deadline, if it has one."""
        at = self._armed.pop(key, None)
        if at is not None:
            self._remove(key, at)

    def armed_at(self, key: Key) -> int | None:
        """The key's deadline, or None."""
        return self._armed.get(key)

    def next_at(self) -> int | None:
        """The earliest deadline, or None."""
        instants = self._instants
        while instants and instants[0] not in self._due:
            heapq.heappop(instants)
        return instants[0] if instants else None

    def count_due(self, now: int) -> int:
        """How many are at or before `now`; takes as long as there are such instants, however many lie ahead."""
        due: set[int] = set()
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._instants) and self._instants[place] <= now:
                due.add(self._instants[place])
                places += (2 * place + 1, 2 * place + 2)
        return sum(len(self._due.get(at, ())) for at in due)

    def is_due(self, now: int) -> bool:
        """Whether `pop_due` may have a key; no is certain. Asked before every command, so it costs next to nothing."""
        return bool(self._instants) and self._instants[0] <= now

    def pop_due(self, now: int) -> Key | None:
        """Take the earliest key whose deadline is at or before `now`, or None."""
        at = self.next_at()
        if at is None or at > now:
            return None
        keys = self._due[at]
        key, _ = keys.popitem(last=False)
        if not keys:
            del self._due[at]
        del self._armed[key]
        return key

    def __len__(self) -> int:
        return len(self._armed)

    def _remove(self, key: Key, at: int) -> None:
        keys = self._due[at]
        del keys[key]
        if not keys:
            del self._due[at]
