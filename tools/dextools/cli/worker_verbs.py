"""`dex workers`: who is connected, with how much room, and how one is taken out of service [SURF-22]."""

from typing import Annotated, Any

import typer

from dexpb.v1 import admin_service_pb2 as pb
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.invocation import Invocation, verb
from dextools.terminal_text import age_text, instant_text, table

WorkerId = Annotated[str, typer.Argument(metavar="ID", help="App worker ID.", show_default=False)]


def add_worker_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "list")(list_workers)
    verb(app, "show")(show)
    verb(app, "drain")(drain)


def list_workers(call: Invocation) -> None:
    """List connected workers, by ID."""
    reply = _workers(call, "")
    rows = (
        (
            worker.worker_id,
            f"{worker.busy}/{worker.max_concurrent_tasks}",
            str(worker.streams),
            str(sum(worker.declines.values())),
            age_text(reply.now - worker.last_seen),
            "draining" if worker.is_draining else "",
            " ".join(queue.name for queue in worker.queues if queue.name != worker.worker_id),
        )
        for worker in reply.workers
    )
    headers = ("worker", "busy", "streams", "declines", "last seen", "state", "Flow types")
    document = {"workers": [worker_document(worker) for worker in reply.workers], "now": reply.now}
    call.output.answer(document, table(*headers, rows=rows))


def show(call: Invocation, worker_id: WorkerId) -> None:
    """Show one worker: its sessions, room, declines by reason, and what became of each queue."""
    reply = _workers(call, worker_id)
    if not reply.workers:
        raise CommandError(
            f"no worker with app worker ID {worker_id} is connected", ExitCode.NOT_FOUND, code="WORKER_NOT_FOUND"
        )
    worker = reply.workers[0]
    document = worker_document(worker)
    queues = [
        f"{queue.name}: {queue.idle} idle, {queue.busy} busy {queue.last_error}".rstrip() for queue in worker.queues
    ]
    human = document | {
        "connected_at": f"{instant_text(worker.connected_at)} ({age_text(reply.now - worker.connected_at)})",
        "last_seen": f"{instant_text(worker.last_seen)} ({age_text(reply.now - worker.last_seen)})",
        "declines": " ".join(f"{reason}={count}" for reason, count in sorted(worker.declines.items())),
        "queues": tuple(queues),
    }
    call.output.fields(document, human)


def drain(
    call: Invocation,
    worker_id: WorkerId,
    undo: Annotated[bool, typer.Option("--undo", help="Let the worker have calls again.")] = False,
) -> None:
    """Hand no more calls to a worker process; what it runs it finishes, and what waits for it goes to others at once.

    This holds for the process until it ends, also when it reconnects, and is forgotten when the server restarts.
    The process is not stopped: look with `dex workers show` whether it still runs something, then stop it.
    """
    request = pb.DrainWorkerRequest(worker_id=worker_id, undo=undo)
    with call.connection() as connection:
        reply = connection.call(connection.admin.DrainWorker, request)
    call.output.fields(
        {"id": worker_id, "incarnation": reply.incarnation, "is_draining": not undo, "running": reply.running}
    )


def worker_document(worker: pb.WorkerInfo) -> dict[str, Any]:
    """One worker as JSON; names are relied on."""
    return {
        "id": worker.worker_id,
        "incarnation": worker.incarnation,
        "sdk": worker.sdk,
        "sessions": worker.sessions,
        "connected_at": worker.connected_at,
        "last_seen": worker.last_seen,
        "is_draining": worker.is_draining,
        "streams": worker.streams,
        "busy": worker.busy,
        "running": worker.running,
        "max_concurrent_tasks": worker.max_concurrent_tasks,
        "reserved_rpc_tasks": worker.reserved_rpc_tasks,
        "declines": dict(sorted(worker.declines.items())),
        "queues": [
            {"name": queue.name, "idle": queue.idle, "busy": queue.busy, "last_error": queue.last_error or None}
            for queue in worker.queues
        ],
    }


def _workers(call: Invocation, worker_id: str) -> pb.ListWorkersReply:
    with call.connection() as connection:
        return connection.call(connection.admin.ListWorkers, pb.ListWorkersRequest(worker_id=worker_id))
