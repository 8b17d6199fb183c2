"""Calls that wait for a worker, in arrival order, apart by what a worker must know to run them.

A lane holds calls of one Step type or RPC name, so a worker that lacks the name skips the lane and no blocked call
delays another [ROUTE-7]. Calls that were matched or dropped meanwhile stay in their lane as stale entries, recognised
by their ticket, and are thrown away when they come to the front: leaving a backlog costs nothing.

A lane is a heap: a call that was declined, or that waited for another worker first, comes back with its old ticket and
takes its old place.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from dexd.core.ids import QueueName
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.sessions import Worker
from dexd.core.values import Method


class Lane(NamedTuple):
    """What a worker must know to run the calls of a lane."""

    flow_type: str
    name: str
    is_rpc: bool


Entry: TypeAlias = tuple[int, int, Call]
"""Ticket, a number that is unique in its backlog, and the call."""


class Backlog:
    """Waiting calls of one queue."""

    __slots__ = ("_added", "_lanes", "_stage")

    def __init__(self, stage: CallStage) -> None:
        self._stage = stage
        self._lanes: dict[Lane, list[Entry]] = {}
        self._added = 0

    def add(self, call: Call) -> None:
        """Queue the call behind all calls with smaller tickets."""
        lane = Lane(call.run.flow_type, call.name, call.method is Method.RPC)
        entries = self._lanes.setdefault(lane, [])
        # Where no worker ever looks, only this keeps stale entries from piling up.
        self._drop_stale(entries)
        call.stage = self._stage
        self._added += 1
        heappush(entries, (call.ticket, self._added, call))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even a stale entry."""
        return not self._lanes

    def first(self, worker: Worker, queue: QueueName | None, *, now: int) -> Call | None:
        """The oldest call that the worker can run now; `queue` limits it to one Flow type."""
        best: Call | None = None
        for lane in list(self._lanes):
            if queue is not None and lane.flow_type != queue:
                continue
            if not worker.can_run(lane.flow_type, lane.name, is_rpc=lane.is_rpc):
                continue
            if worker.is_held(is_rpc=lane.is_rpc, now=now):
                continue
            call = self._first_in(lane, worker)
            if call is not None and (best is None or call.ticket < best.ticket):
                best = call
        return best

    def calls(self) -> Iterator[Call]:
        """All waiting calls, lane by lane, each once: one that came back has an entry for every time it came."""
        for entries in self._lanes.values():
            yield from dict.fromkeys(call for ticket, _, call in entries if self._is_live(ticket, call))

    def _first_in(self, lane: Lane, worker: Worker) -> Call | None:
        entries = self._lanes[lane]
        passed: list[Entry] = []
        self._drop_stale(entries)
        while entries and worker.worker_id in entries[0][-1].excluded:
            passed.append(heappop(entries))
            self._drop_stale(entries)
        found = entries[0][-1] if entries else None
        for entry in passed:
            heappush(entries, entry)
        if not entries:
            del self._lanes[lane]
        return found

    def _drop_stale(self, entries: list[Entry]) -> None:
        while entries and not self._is_live(entries[0][0], entries[0][-1]):
            heappop(entries)

    def _is_live(self, ticket: int, call: Call) -> bool:
        return call.ticket == ticket and call.stage is self._stage
