"""Calls that wait for a worker: by priority, then fairness key, then arrival [ROUTE-7].

They stand in lanes, apart by what a worker must know to run them, so a worker that lacks a name skips its lane and no
blocked call delays another.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dexd.core.ids import QueueName
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.fair_queue import FairQueue, Shares
from dexd.core.matching.sessions import Worker
from dexd.core.values import Method


class Lane(NamedTuple):
    """What the calls of a lane have in common: their priority, and what a worker must know to run them."""

    priority: int
    flow_type: str
    name: str
    is_rpc: bool


class Backlog:
    """Waiting calls of one queue."""

    __slots__ = ("_added", "_lanes", "_shares", "_stage")

    def __init__(self, stage: CallStage) -> None:
        self._stage = stage
        self._lanes: dict[Lane, FairQueue] = {}
        self._shares: dict[int, Shares] = {}
        """By priority, over all its lanes: a key's share is of the queue, whatever its calls are."""
        self._added = 0

    def add(self, call: Call) -> None:
        """Queue the call behind all calls of its priority and fairness key with smaller tickets."""
        lane = Lane(call.priority, call.run.flow_type, call.name, call.method is Method.RPC)
        queue = self._lanes.get(lane)
        if queue is None:
            shares = self._shares.setdefault(call.priority, Shares())
            queue = self._lanes[lane] = FairQueue(self._stage, shares)
        call.stage = self._stage
        self._added += 1
        queue.add(call, self._added)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even a stale entry."""
        return not self._lanes

    def first(self, worker: Worker, queue: QueueName | None, *, now: int) -> Call | None:
        """The call that is served next of those that the worker can run now; `queue` limits it to one Flow type."""
        best: Call | None = None
        best_place = (0, 0, 0)
        for lane in list(self._lanes):
            if best is not None and lane.priority > best.priority:
                continue
            if queue is not None and lane.flow_type != queue:
                continue
            if not worker.can_run(lane.flow_type, lane.name, is_rpc=lane.is_rpc):
                continue
            if worker.is_held(is_rpc=lane.is_rpc, now=now):
                continue
            call = self._first_in(lane, worker)
            if call is None:
                continue
            place = (lane.priority, self._shares[lane.priority].passed(call.fairness_key), call.ticket)
            if best is None or place < best_place:
                best, best_place = call, place
        return best

    def charge(self, call: Call) -> None:
        """The call, which `first` gave, is handed out: its fairness key has had a turn."""
        self._shares[call.priority].charge(call)

    def calls(self) -> Iterator[Call]:
        """All waiting calls, lane by lane, each once."""
        for queue in self._lanes.values():
            yield from queue.calls()

    def _first_in(self, lane: Lane, worker: Worker) -> Call | None:
        queue = self._lanes[lane]
        call = queue.first(worker.worker_id)
        if queue.is_empty:
            del self._lanes[lane]
        return call
