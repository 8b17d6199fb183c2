"""Which stream gets which call [ROUTE-1..7]. Finds pairs; the dispatcher carries them out.

Invariant after every command: no call that waits could go to a stream that is idle. So a call that becomes ready only
looks at idle streams, and a stream that becomes idle only looks at waiting calls.
"""

from dexd.core.ids import QueueName, WorkerId
from dexd.core.matching.backlog import Backlog
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.sessions import Stream, Worker
from dexd.core.values import Method


class Matcher:
    """Idle streams and waiting calls."""

    __slots__ = ("_idle_workers", "_next_ticket", "_shared", "_sticky", "workers")

    def __init__(self) -> None:
        self.workers: dict[WorkerId, Worker] = {}
        self._idle_workers: dict[QueueName, dict[WorkerId, Worker]] = {}
        self._shared: dict[QueueName, Backlog] = {}
        self._sticky: dict[WorkerId, Backlog] = {}
        self._next_ticket = 0

    # ---- calls looking for a stream ----

    def sticky_worker(self, call: Call) -> Worker | None:
        """[ROUTE-1] The worker that last served the Flow, if it is connected and this dispatch may go to it."""
        worker = self.workers.get(call.run.last_worker)
        if worker is None or not worker.has_streams or worker.worker_id in call.excluded:
            return None
        if not worker.can_run(call.run.flow_type, call.name, is_rpc=call.method is Method.RPC):
            return None
        return worker

    def idle_stream_of(self, worker: Worker, call: Call, *, now: int) -> Stream | None:
        """An idle stream of that worker for the call; its own queue first."""
        if worker.is_held(is_rpc=call.method is Method.RPC, now=now):
            return None
        return worker.pick_idle(worker.own_queue, QueueName(call.run.flow_type))

    def idle_stream_for(self, call: Call, *, now: int) -> Stream | None:
        """[ROUTE-7] The best idle stream on the Flow type's queue.

        Least busy relative to its limit, then longest idle, then worker ID.
        """
        queue = QueueName(call.run.flow_type)
        is_rpc = call.method is Method.RPC
        best: Worker | None = None
        for worker in self._idle_workers.get(queue, {}).values():
            if (
                worker.worker_id not in call.excluded
                and not worker.is_held(is_rpc=is_rpc, now=now)
                and worker.can_run(call.run.flow_type, call.name, is_rpc=is_rpc)
                and (best is None or _rank(worker) < _rank(best))
            ):
                best = worker
        return None if best is None else best.pick_idle(queue)

    def wait_sticky(self, call: Call, worker: Worker) -> None:
        """Let the call wait for that worker."""
        self._sticky.setdefault(worker.worker_id, Backlog(CallStage.STICKY)).add(call)

    def wait_shared(self, call: Call) -> None:
        """Let the call wait on its Flow type's queue."""
        queue = QueueName(call.run.flow_type)
        self._shared.setdefault(queue, Backlog(CallStage.SHARED)).add(call)

    # ---- streams looking for a call ----

    def add_idle(self, stream: Stream, *, now: int) -> None:
        """The stream can take a call from now on, unless its session is draining."""
        if stream.session.is_draining:
            return
        worker = stream.session.worker
        worker.add_idle(stream, now=now)
        if stream.queue != worker.own_queue:
            self._idle_workers.setdefault(stream.queue, {})[worker.worker_id] = worker

    def remove_idle(self, stream: Stream) -> None:
        """The stream got a call, or goes away."""
        worker = stream.session.worker
        worker.remove_idle(stream)
        if stream.queue not in worker.idle:
            self._idle_workers.get(stream.queue, {}).pop(worker.worker_id, None)

    def call_for(self, stream: Stream, *, now: int) -> Call | None:
        """The oldest waiting call that the stream may take: calls that wait for its worker, and those of its queue.

        A stream on the worker's own queue takes only calls that wait for the worker [QUEUE-1].
        """
        worker = stream.session.worker
        own_queue = stream.queue == worker.own_queue
        sticky = self._sticky.get(worker.worker_id)
        first = None if sticky is None else sticky.first(worker, None if own_queue else stream.queue, now=now)
        shared = None if own_queue else self._shared.get(stream.queue)
        second = None if shared is None else shared.first(worker, None, now=now)
        if first is None or second is None:
            return first or second
        return first if first.ticket < second.ticket else second

    def is_quiet(self, stream: Stream) -> bool:
        """Whether certainly no call waits that the stream could take; cheaper than looking for one."""
        shared = self._shared.get(stream.queue)
        sticky = self._sticky.get(stream.session.worker.worker_id)
        return (shared is None or shared.is_empty) and (sticky is None or sticky.is_empty)

    def sticky_calls(self, worker_id: WorkerId) -> list[Call]:
        """Calls that wait for that worker, oldest first."""
        backlog = self._sticky.get(worker_id)
        return [] if backlog is None else sorted(backlog.calls(), key=lambda call: call.ticket)

    def forget_worker(self, worker_id: WorkerId) -> None:
        """Its last stream is gone; nothing waits for it any more."""
        self._sticky.pop(worker_id, None)

    def idle_worker_ids(self, queue: QueueName) -> list[WorkerId]:
        """Workers with an idle stream on the Flow type's queue."""
        return list(self._idle_workers.get(queue, ()))

    def new_ticket(self, call: Call) -> None:
        """Give the call its place in arrival order, for a dispatch that begins now."""
        self._next_ticket += 1
        call.ticket = self._next_ticket


def _rank(worker: Worker) -> tuple[float, int, WorkerId]:
    return (worker.busy / worker.max_concurrent_tasks, worker.idle_since, worker.worker_id)
