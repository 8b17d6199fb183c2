"""Workers with an idle stream on one Flow type's queue, the best one first [ROUTE-7].

Least busy relative to its limit, then longest idle, then worker ID. With hundreds of workers nobody may look at each of
them for every call, so they stand in a heap, under a rank that is never worse than the true one: a worker that got
busier is moved when it comes to the front, and only one that got freer must be moved at once (`Worker.ranked_busy`
tells when). One that can take nothing now is taken out, and ranked again when it frees a slot or its pause ends.

Where there is one worker only, as on most machines, it is the best one under any rank, and gets none.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias

from dexd.core.ids import QueueName, WorkerId
from dexd.core.matching.calls import Call
from dexd.core.matching.sessions import Worker

NOT_RANKED = 2**31
"""`Worker.ranked_busy` of a worker that must be ranked again when it frees a slot, however busy it is then."""

GARBAGE_MAX = 64
"""Entries that may be out of date beside those that count; then the heap is built afresh."""

Rank: TypeAlias = tuple[float, int, WorkerId, int, Worker]
"""Share of its limit that is busy, idle since when, its ID, a number that is unique here, and the worker."""


class IdleWorkers:
    """For calls of one kind, Steps or RPCs, because a worker may have room for one kind only."""

    __slots__ = ("_heap", "_heap_max", "_is_rpc", "_lone", "_number", "_queue", "_ranks")

    def __init__(self, queue: QueueName, *, is_rpc: bool) -> None:
        self._queue = queue
        self._is_rpc = is_rpc
        self._lone: Worker | None = None
        """The only one, which has no rank; if there is one, the heap is of no account."""
        self._ranks: dict[WorkerId, Rank] = {}
        self._heap: list[Rank] = []
        self._heap_max = GARBAGE_MAX
        self._number = 0

    def add(self, worker: Worker) -> None:
        """It has an idle stream here. Needed again when it got freer, and harmless at any time."""
        lone = self._lone
        if lone is worker:
            return
        if lone is None and self._ranks:
            self._enter(worker)
        elif lone is None or self._queue not in lone.idle:
            self._heap.clear()
            self._lone = worker
        else:
            self._lone = None
            self._enter(lone)
            self._enter(worker)

    def _enter(self, worker: Worker) -> None:
        rank = self._ranks.get(worker.worker_id)
        if rank is None or rank[4] is not worker or worker.load() < rank[0]:
            if len(self._heap) >= self._heap_max:
                self._rebuild()
            heappush(self._heap, self._rank(worker))

    def best(self, call: Call, *, now: int) -> Worker | None:
        """The best worker that may have the call now."""
        lone = self._lone
        if lone is not None:
            is_free = self._queue in lone.idle and not lone.is_held(is_rpc=self._is_rpc, now=now)
            return lone if is_free and self._may_have(lone, call) else None
        heap = self._heap
        passed: list[Rank] = []
        found: Worker | None = None
        while heap and found is None:
            rank = heap[0]
            worker = rank[4]
            if self._ranks.get(worker.worker_id) is not rank:
                heappop(heap)
            elif self._queue not in worker.idle:
                heappop(heap)
                del self._ranks[worker.worker_id]
            elif worker.is_held(is_rpc=self._is_rpc, now=now):
                heappop(heap)
                del self._ranks[worker.worker_id]
                worker.ranked_busy = NOT_RANKED
            elif rank[0] != worker.load() or rank[1] != worker.idle_since:
                heapreplace(heap, self._rank(worker))
            elif not self._may_have(worker, call):
                passed.append(heappop(heap))
            else:
                found = worker
        for rank in passed:
            heappush(heap, rank)
        return found

    def _may_have(self, worker: Worker, call: Call) -> bool:
        return worker.worker_id not in call.excluded and worker.can_run(
            call.run.flow_type, call.name, is_rpc=self._is_rpc
        )

    def workers(self) -> Iterator[Worker]:
        """Those in it that have an idle stream, in no order."""
        if self._lone is not None and self._queue in self._lone.idle:
            yield self._lone
        for rank in self._ranks.values():
            if self._queue in rank[4].idle:
                yield rank[4]

    def _rank(self, worker: Worker) -> Rank:
        """Enter its true rank, in place of any other."""
        self._number += 1
        rank = (worker.load(), worker.idle_since, worker.worker_id, self._number, worker)
        self._ranks[worker.worker_id] = rank
        worker.ranked_busy = max(worker.ranked_busy, worker.busy)
        return rank

    def _rebuild(self) -> None:
        """Drop what is out of date, workers that have gone included."""
        self._ranks = {worker_id: rank for worker_id, rank in self._ranks.items() if self._queue in rank[4].idle}
        self._heap = list(self._ranks.values())
        heapify(self._heap)
        self._heap_max = 2 * len(self._heap) + GARBAGE_MAX
