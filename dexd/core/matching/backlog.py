"""Calls that wait for a worker, in arrival order, apart by what a worker must know to run them.

A lane holds calls of one Step type or RPC name, so a worker that lacks the name skips the lane and no blocked call
delays another [ROUTE-7]. Calls that were matched or dropped meanwhile stay in their lane as stale entries, recognised
by their ticket, and are thrown away when they come to the front: leaving a backlog costs nothing.
"""

from collections import deque
from collections.abc import Iterator
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


Entry: TypeAlias = tuple[int, Call]


class Backlog:
    """Waiting calls of one queue."""

    __slots__ = ("_lanes", "_stage")

    def __init__(self, stage: CallStage) -> None:
        self._stage = stage
        self._lanes: dict[Lane, deque[Entry]] = {}

    def add(self, call: Call) -> None:
        """Queue the call behind all calls with smaller tickets."""
        call.stage = self._stage
        lane = Lane(call.run.flow_type, call.name, call.method is Method.RPC)
        entries = self._lanes.setdefault(lane, deque())
        while entries and not self._is_live(*entries[0]):
            # Where no worker ever looks, only this keeps stale entries from piling up.
            entries.popleft()
        entries.append((call.ticket, call))

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
        """All waiting calls, lane by lane."""
        for lane in list(self._lanes):
            yield from (call for ticket, call in self._lanes[lane] if self._is_live(ticket, call))

    def _first_in(self, lane: Lane, worker: Worker) -> Call | None:
        entries = self._lanes[lane]
        while entries and not self._is_live(*entries[0]):
            entries.popleft()
        if not entries:
            del self._lanes[lane]
            return None
        for ticket, call in entries:
            if self._is_live(ticket, call) and worker.worker_id not in call.excluded:
                return call
        return None

    def _is_live(self, ticket: int, call: Call) -> bool:
        return call.ticket == ticket and call.stage is self._stage
