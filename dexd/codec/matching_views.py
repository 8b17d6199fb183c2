"""Live workers and queues as operators see them; taken from the kernel's derived state, which no log holds.

A look costs one walk over the open calls: it is for people and for metrics that are read every few seconds.
"""

from collections.abc import Iterable, Mapping

import msgspec

from dexd.core.ids import QueueName, WorkerId
from dexd.core.kernel import Kernel
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.sessions import Worker
from dexd.core.rejections import Rejection


class QueueRegistration(msgspec.Struct, frozen=True):
    """One queue that a worker serves."""

    name: str
    idle: int
    busy: int
    last_error: Rejection | None
    """Why its last registration was refused, until one succeeds [QUEUE-4]."""


class WorkerView(msgspec.Struct, frozen=True):
    """One connected worker process. Instants are milliseconds since the epoch."""

    worker_id: str
    incarnation: str
    sdk: str
    sessions: int
    connected_at: int
    """When its oldest session began."""
    last_seen: int
    """Its last Hello or Pong; a worker is pinged every matching.ping_interval."""
    is_draining: bool
    streams: int
    busy: int
    """Streams that a call occupies."""
    running: int
    """Calls that it has, those of a session that was just lost included."""
    max_concurrent_tasks: int
    reserved_rpc_tasks: int
    declines: Mapping[str, int]
    """Since it connected, by reason."""
    queues: tuple[QueueRegistration, ...]


class QueueView(msgspec.Struct, frozen=True):
    """One queue with streams or waiting calls."""

    name: str
    is_worker_queue: bool
    """Named after a worker: calls wait here for the worker that last served their Flow [QUEUE-1, ROUTE-1]."""
    waiting: int
    oldest_since: int
    """When the dispatch began that waits longest; 0 when none waits."""
    waiting_by_priority: Mapping[int, int]
    workers: int
    idle: int
    busy: int


def worker_views(kernel: Kernel) -> list[WorkerView]:
    """All connected workers, by ID."""
    matcher = kernel.dispatcher.matcher
    return [_worker_view(kernel, matcher.workers[worker_id]) for worker_id in sorted(matcher.workers)]


def queue_views(kernel: Kernel) -> list[QueueView]:
    """All queues that a worker serves or a call waits on, by name."""
    workers = kernel.dispatcher.matcher.workers
    waiting: dict[tuple[bool, str], list[Call]] = {}
    for call in kernel.dispatcher.calls.values():
        if call.is_queued:
            waiting.setdefault(_queue_of(call), []).append(call)
    streams: dict[tuple[bool, str], dict[WorkerId, list[bool]]] = {}
    for worker in workers.values():
        for session in worker.sessions.values():
            for stream in session.streams.values():
                key = (stream.queue == worker.own_queue, stream.queue)
                streams.setdefault(key, {}).setdefault(worker.worker_id, []).append(stream.token is not None)
    names = sorted({**dict.fromkeys(waiting), **dict.fromkeys(streams)}, key=lambda key: (key[1], key[0]))
    return [_queue_view(key, waiting.get(key, ()), streams.get(key, {})) for key in names]


def _queue_of(call: Call) -> tuple[bool, str]:
    if call.stage is CallStage.STICKY:
        return True, call.run.last_worker
    return False, call.run.flow_type


def _queue_view(key: tuple[bool, str], waiting: Iterable[Call], streams: Mapping[WorkerId, list[bool]]) -> QueueView:
    by_priority: dict[int, int] = {}
    oldest_since = 0
    for call in waiting:
        by_priority[call.priority] = by_priority.get(call.priority, 0) + 1
        oldest_since = min(oldest_since or call.enqueued_at, call.enqueued_at)
    occupied = [is_busy for of_worker in streams.values() for is_busy in of_worker]
    return QueueView(
        name=key[1],
        is_worker_queue=key[0],
        waiting=sum(by_priority.values()),
        oldest_since=oldest_since,
        waiting_by_priority=dict(sorted(by_priority.items())),
        workers=len(streams),
        idle=occupied.count(False),
        busy=occupied.count(True),
    )


def _worker_view(kernel: Kernel, worker: Worker) -> WorkerView:
    sessions = worker.sessions.values()
    by_queue: dict[QueueName, list[bool]] = {queue: [] for queue in worker.refused_queues}
    for session in sessions:
        for stream in session.streams.values():
            by_queue.setdefault(stream.queue, []).append(stream.token is not None)
    return WorkerView(
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        sdk=worker.sdk,
        sessions=len(sessions),
        connected_at=min(session.opened_at for session in sessions),
        last_seen=max(session.ponged_at for session in sessions),
        is_draining=worker.is_drained or all(session.is_draining for session in sessions),
        streams=worker.stream_count,
        busy=worker.busy,
        running=len(kernel.dispatcher.delivered.get(worker.worker_id, ())),
        max_concurrent_tasks=worker.max_concurrent_tasks,
        reserved_rpc_tasks=worker.reserved_rpc_tasks,
        declines=dict(sorted(worker.declines.items())),
        queues=tuple(
            QueueRegistration(queue, occupied.count(False), occupied.count(True), worker.refused_queues.get(queue))
            for queue, occupied in sorted(by_queue.items())
        ),
    )
