"""Calls of one lane in the order in which they are served: fairness keys in turn, first come first served in each.

Keys take turns by stride scheduling: a key's `passed` is the work it was served, divided by its Flows' weight, and the
key that has passed least comes first [ROUTE-7, LIMIT-7.6]. Where all calls have one key nothing is charged and the
order is that of arrival.

A key that comes back after it had nothing to do starts level with the others: being idle earns no credit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias

from dexd.core.ids import WorkerId
from dexd.core.matching.calls import Call, CallStage

STRIDE = 1_000_000_000
"""Work of one call, in units that stay whole numbers for every weight from 0.001 to 1000."""

SHARES_KEPT_MIN = 64
"""Keys without waiting calls are forgotten, with what they had, once all are twice as many as those with some, and more
than this."""

Entry: TypeAlias = tuple[int, int, Call]
"""Ticket, a number that is unique in its backlog, and the call."""


@dataclass(slots=True)
class Share:
    """What one fairness key has had."""

    passed: int
    """Never falls, so that orders by it are mended when they are read."""
    credit: int = 0
    """Charged for calls that were declined; the next charges are lowered by it."""
    lanes: int = 0
    """Lanes in which calls of the key wait."""


class Shares:
    """Fairness keys of one priority on one queue."""

    __slots__ = ("_by_key", "_level", "_waiting")

    def __init__(self) -> None:
        self._by_key: dict[str, Share] = {}
        self._level = 0
        """What the key that was served last had passed before: where keys that come back start."""
        self._waiting = 0

    def passed(self, key: str) -> int:
        """What a key with waiting calls has had."""
        return self._by_key[key].passed

    def enter(self, key: str) -> None:
        """Calls of the key wait in one lane more."""
        share = self._by_key.get(key)
        if share is None:
            share = self._by_key[key] = Share(self._level)
        if not share.lanes:
            share.passed = max(share.passed, self._level)
            self._waiting += 1
        share.lanes += 1

    def leave(self, key: str) -> None:
        """They wait in one lane less."""
        share = self._by_key[key]
        share.lanes -= 1
        if share.lanes:
            return
        self._waiting -= 1
        if not self._waiting:
            self._by_key = {}
        elif len(self._by_key) > max(2 * self._waiting, SHARES_KEPT_MIN):
            self._by_key = {key: share for key, share in self._by_key.items() if share.lanes}

    def charge(self, call: Call) -> None:
        """The call is handed out."""
        if self._waiting < 2:
            return
        share = self._by_key[call.fairness_key]
        self._level = max(self._level, share.passed)
        call.charged = STRIDE * 1_000 // call.fairness_weight
        used = min(share.credit, call.charged)
        share.credit -= used
        share.passed += call.charged - used

    def give_back(self, call: Call) -> None:
        """The call was declined and waits again: it has had nothing."""
        if call.charged:
            self._by_key[call.fairness_key].credit += call.charged
            call.charged = 0


class FairQueue:
    """Waiting calls that want the same of a worker, at one priority.

    Calls that were matched or dropped meanwhile stay as stale entries, recognised by their ticket, and are thrown away
    when they come to the front: leaving costs nothing. A call that comes back has its old ticket and its old place.
    """

    __slots__ = ("_by_key", "_entered", "_order", "_shares", "_stage")

    def __init__(self, stage: CallStage, shares: Shares) -> None:
        self._stage = stage
        self._shares = shares
        self._by_key: dict[str, list[Entry]] = {}
        self._order: list[tuple[int, int, str]] = []
        """A heap of what each key had passed when it was last looked at, and when it was put there."""
        self._entered = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even a stale entry."""
        return not self._by_key

    def add(self, call: Call, number: int) -> None:
        """Queue the call behind all calls of its key with smaller tickets; `number` is unique in the backlog."""
        key = call.fairness_key
        entries = self._by_key.get(key)
        if entries is None:
            entries = self._by_key[key] = []
            self._shares.enter(key)
            self._entered += 1
            heappush(self._order, (self._shares.passed(key), self._entered, key))
        else:
            # Where no worker ever looks, only this keeps stale entries from piling up.
            self._drop_stale(entries)
        self._shares.give_back(call)
        heappush(entries, (call.ticket, number, call))

    def first(self, worker_id: WorkerId) -> Call | None:
        """The call that is served next, if the worker may have it."""
        order = self._order
        found: Call | None = None
        skipped: list[tuple[int, int, str]] = []
        while order and found is None:
            passed, _, key = order[0]
            entries = self._by_key[key]
            self._drop_stale(entries)
            if not entries:
                heappop(order)
                del self._by_key[key]
                self._shares.leave(key)
            elif passed < (now_passed := self._shares.passed(key)):
                self._entered += 1
                heapreplace(order, (now_passed, self._entered, key))
            else:
                found = self._first_of(entries, worker_id)
                if found is None:
                    skipped.append(heappop(order))
        for turn in skipped:
            heappush(order, turn)
        return found

    def calls(self) -> Iterator[Call]:
        """All waiting calls, each once: one that came back has an entry for every time it came."""
        for entries in self._by_key.values():
            yield from dict.fromkeys(call for ticket, _, call in entries if self._is_live(ticket, call))

    def _first_of(self, entries: list[Entry], worker_id: WorkerId) -> Call | None:
        passed: list[Entry] = []
        while entries and worker_id in entries[0][-1].excluded:
            passed.append(heappop(entries))
            self._drop_stale(entries)
        found = entries[0][-1] if entries else None
        for entry in passed:
            heappush(entries, entry)
        return found

    def _drop_stale(self, entries: list[Entry]) -> None:
        while entries and not self._is_live(entries[0][0], entries[0][-1]):
            heappop(entries)

    def _is_live(self, ticket: int, call: Call) -> bool:
        return call.ticket == ticket and call.stage is self._stage
