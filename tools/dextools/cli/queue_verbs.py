"""`dex queues`: what waits for workers, and who could take it [SURF-22]."""

from typing import Annotated, Any

import typer

from dexpb.v1 import admin_service_pb2 as pb
from dextools.cli.invocation import Invocation, verb
from dextools.terminal_text import age_text, table


def add_queues_verb(app: typer.Typer) -> None:
    """Register the verb."""
    verb(app, "queues")(queues)


def queues(
    call: Invocation,
    all_queues: Annotated[
        bool, typer.Option("--all", help="Also the queues named after workers, where no call waits.")
    ] = False,
) -> None:
    """List queues by name: calls that wait, since when, with which priorities, and the streams that could take them.

    A queue is named after a Flow type, or after a worker, where calls wait for the one that last served their Flow.
    """
    with call.connection() as connection:
        reply = connection.call(connection.admin.ListQueues, pb.ListQueuesRequest())
    shown = [queue for queue in reply.queues if all_queues or queue.waiting or not queue.is_worker_queue]
    rows = (
        (
            queue.name,
            "worker" if queue.is_worker_queue else "Flow type",
            str(queue.waiting),
            age_text(reply.now - queue.oldest_since) if queue.waiting else "",
            " ".join(f"{priority}:{count}" for priority, count in sorted(queue.waiting_by_priority.items())),
            str(queue.workers),
            str(queue.idle),
            str(queue.busy),
        )
        for queue in shown
    )
    headers = ("queue", "kind", "waiting", "oldest", "by priority", "workers", "idle streams", "busy streams")
    document = {"queues": [_document(queue, reply.now) for queue in shown], "now": reply.now}
    call.output.answer(document, table(*headers, rows=rows))


def _document(queue: pb.QueueInfo, now: int) -> dict[str, Any]:
    return {
        "name": queue.name,
        "is_worker_queue": queue.is_worker_queue,
        "waiting": queue.waiting,
        "oldest_since": queue.oldest_since or None,
        "oldest_wait_ms": max(0, now - queue.oldest_since) if queue.waiting else None,
        "waiting_by_priority": {str(number): count for number, count in sorted(queue.waiting_by_priority.items())},
        "workers": queue.workers,
        "idle": queue.idle,
        "busy": queue.busy,
    }
