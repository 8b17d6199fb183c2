"""Answers to operators: live views as protos."""

from collections.abc import Iterable

from dexd.codec.matching_views import QueueRegistration, QueueView, WorkerView
from dexd.core.outcome import WorkerDrained
from dexpb.v1 import admin_service_pb2 as pb


def from_workers(views: Iterable[WorkerView], *, now: int) -> pb.ListWorkersReply:
    """Give the list of workers."""
    return pb.ListWorkersReply(workers=map(_from_worker, views), now=now)


def from_queues(views: Iterable[QueueView], *, now: int) -> pb.ListQueuesReply:
    """Give the list of queues."""
    return pb.ListQueuesReply(queues=map(_from_queue, views), now=now)


def from_drained(drained: WorkerDrained) -> pb.DrainWorkerReply:
    """Give what a worker still runs."""
    return pb.DrainWorkerReply(incarnation=drained.incarnation, running=drained.running)


def _from_worker(view: WorkerView) -> pb.WorkerInfo:
    return pb.WorkerInfo(
        worker_id=view.worker_id,
        incarnation=view.incarnation,
        sdk=view.sdk,
        sessions=view.sessions,
        connected_at=view.connected_at,
        last_seen=view.last_seen,
        is_draining=view.is_draining,
        streams=view.streams,
        busy=view.busy,
        running=view.running,
        max_concurrent_tasks=view.max_concurrent_tasks,
        reserved_rpc_tasks=view.reserved_rpc_tasks,
        declines=view.declines,
        queues=map(_from_registration, view.queues),
    )


def _from_registration(registration: QueueRegistration) -> pb.QueueRegistration:
    error = registration.last_error
    return pb.QueueRegistration(
        name=registration.name,
        idle=registration.idle,
        busy=registration.busy,
        last_error="" if error is None else f"{error.code}: {error.message}",
    )


def _from_queue(view: QueueView) -> pb.QueueInfo:
    return pb.QueueInfo(
        name=view.name,
        is_worker_queue=view.is_worker_queue,
        waiting=view.waiting,
        oldest_since=view.oldest_since,
        waiting_by_priority=view.waiting_by_priority,
        workers=view.workers,
        idle=view.idle,
        busy=view.busy,
    )
