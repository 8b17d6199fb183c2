"""Which stream gets which call [ROUTE-1..7]. Finds pairs; the dispatcher carries them out.

Invariant after every command: no call that waits could go to a stream that is idle. So a call that becomes ready only
looks at idle streams, and a stream that becomes idle only looks at waiting calls.
"""

from collections.abc import Sequence

from dexd.core.ids import QueueName, WorkerId
from dexd.core.matching.backlog import Backlog
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.idle_workers import IdleWorkers
from dexd.core.matching.sessions import Stream, Worker
from dexd.core.members import RPC


class Matcher:
    """Idle streams and waiting calls."""

    __slots__ = ("_idle_rpcs", "_idle_steps", "_lacking", "_next_ticket", "_shared", "_sticky", "workers")

    def __init__(self) -> None:
        self.workers: dict[WorkerId, Worker] = {}
        self._idle_steps: dict[QueueName, IdleWorkers] = {}
        self._idle_rpcs: dict[QueueName, IdleWorkers] = {}
        self._shared: dict[QueueName, Backlog] = {}
        self._sticky: dict[WorkerId, Backlog] = {}
        self._lacking: dict[tuple[str, str], tuple[Worker, ...]] = {}
        self._next_ticket = 0

    # ---- workers ----

    def workers_lacking(self, call: Call) -> Sequence[Worker]:
        """Connected workers of the Flow type that lack the Step type, and the sticky one if it lacks the Flow type too.

        Remembered per Step type until a worker comes, goes or says more of itself: there are as good as never any.
        """
        key = (call.run.flow_type, call.name)
        lacking = self._lacking.get(key)
        if lacking is None:
            lacking = self._lacking[key] = tuple(
                worker
                for worker in self.workers.values()
                if key[0] in worker.capabilities and not worker.can_run(*key, is_rpc=False)
            )
        last = self.workers.get(call.run.last_worker)
        if last is not None and key[0] not in last.capabilities:
            return (*lacking, last)
        return lacking

    def capabilities_changed(self) -> None:
        """A worker came, went, or says other things of itself."""
        self._lacking = {}

    # ---- calls looking for a stream ----

    def sticky_worker(self, call: Call) -> Worker | None:
        """[ROUTE-1] The worker that last served the Flow, if it is connected and this dispatch may go to it."""
        worker = self.workers.get(call.run.last_worker)
        if worker is None or not worker.has_streams() or worker.worker_id in call.excluded:
            return None
        if not worker.can_run(call.run.flow_type, call.name, is_rpc=call.method is RPC):
            return None
        return worker

    def take_idle_of(self, worker: Worker, call: Call) -> Stream | None:
        """Take out an idle stream of that worker for the call; its own queue first."""
        return _taken(worker, worker.pick_idle(worker.own_queue, QueueName(call.run.flow_type)))

    def take_idle_for(self, call: Call, *, now: int) -> Stream | None:
        """[ROUTE-7] Take out an idle stream of the best worker on the Flow type's queue; see `IdleWorkers`."""
        queue = QueueName(call.run.flow_type)
        workers = (self._idle_rpcs if call.method is RPC else self._idle_steps).get(queue)
        best = None if workers is None else workers.best(call, now=now)
        return None if best is None else _taken(best, best.pick_idle(queue))

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
        if stream.session.is_draining or stream.session.worker.is_drained:
            return
        worker = stream.session.worker
        worker.add_idle(stream, now=now)
        if stream.queue != worker.own_queue:
            self._rank(worker, stream.queue)

    def rank_again(self, worker: Worker) -> None:
        """It got freer, or may have calls again that it could not have."""
        for queue in worker.idle:
            if queue != worker.own_queue:
                self._rank(worker, queue)
        worker.ranked_busy = worker.busy

    def _rank(self, worker: Worker, queue: QueueName) -> None:
        steps = self._idle_steps.get(queue)
        if steps is None:
            steps = self._idle_steps[queue] = IdleWorkers(queue, is_rpc=False)
            self._idle_rpcs[queue] = IdleWorkers(queue, is_rpc=True)
        steps.add(worker)
        self._idle_rpcs[queue].add(worker)

    def remove_idle(self, stream: Stream) -> None:
        """The stream got a call, or goes away."""
        stream.session.worker.remove_idle(stream)

    def call_for(self, stream: Stream, *, now: int) -> Call | None:
        """The waiting call that the stream takes: of those that wait for its worker, and those of its queue.

        By priority, then in each of the two by fairness key, and between them by age. Whoever asks hands the call out.

        A stream on the worker's own queue takes only calls that wait for the worker [QUEUE-1].
        """
        worker = stream.session.worker
        own_queue = stream.queue == worker.own_queue
        sticky = self._sticky.get(worker.worker_id)
        first = None if sticky is None else sticky.first(worker, None if own_queue else stream.queue, now=now)
        shared = None if own_queue else self._shared.get(stream.queue)
        second = None if shared is None else shared.first(worker, None, now=now)
        is_first = first is not None and (
            second is None or (first.priority, first.ticket) < (second.priority, second.ticket)
        )
        call, backlog = (first, sticky) if is_first else (second, shared)
        if call is not None and backlog is not None:
            backlog.charge(call)
        return call

    def is_quiet(self, stream: Stream) -> bool:
        """Whether certainly no call waits that the stream could take; cheaper than looking for one."""
        shared = self._shared.get(stream.queue)
        sticky = self._sticky.get(stream.session.worker.worker_id)
        return (shared is None or shared.is_empty) and (sticky is None or sticky.is_empty)

    def is_quiet_for(self, worker: Worker) -> bool:
        """Whether certainly no call waits that an idle stream of the worker could take."""
        sticky = self._sticky.get(worker.worker_id)
        if sticky is not None and not sticky.is_empty:
            return False
        for queue in worker.idle:
            shared = self._shared.get(queue)
            if shared is not None and not shared.is_empty:
                return False
        return True

    def sticky_calls(self, worker_id: WorkerId) -> list[Call]:
        """Calls that wait for that worker, oldest first."""
        backlog = self._sticky.get(worker_id)
        return [] if backlog is None else sorted(backlog.calls(), key=lambda call: call.ticket)

    def forget_worker(self, worker_id: WorkerId) -> None:
        """Its last stream is gone; nothing waits for it any more."""
        self._sticky.pop(worker_id, None)

    def idle_worker_ids(self, queue: QueueName, *, is_rpc: bool) -> list[WorkerId]:
        """Workers that calls of the kind find by an idle stream on the Flow type's queue."""
        workers = (self._idle_rpcs if is_rpc else self._idle_steps).get(queue)
        return [] if workers is None else [worker.worker_id for worker in workers.workers()]

    def new_ticket(self, call: Call) -> None:
        """Give the call its place in arrival order, for a dispatch that begins now."""
        self._next_ticket += 1
        call.ticket = self._next_ticket


def _taken(worker: Worker, stream: Stream | None) -> Stream | None:
    if stream is not None:
        worker.remove_idle(stream)
    return stream
