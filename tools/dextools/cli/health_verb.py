"""`dex health`: the whole path of a write, from the connection to the disk and back [OBS-4]."""

import typer

from dexpb.v1 import admin_service_pb2 as pb
from dextools.cli.errors import ExitCode
from dextools.cli.invocation import Invocation, verb
from dextools.terminal_text import instant_text

SERVING = "SERVING"


def add_health_verb(app: typer.Typer) -> None:
    """Register the verb."""
    verb(app, "health")(health)


def health(call: Invocation) -> None:
    """Check a server: a durable write, the engine, the clock, the archive. Exit code 5 when it does not serve."""
    with call.connection() as connection:
        reply = connection.call(connection.admin.CheckHealth, pb.CheckHealthRequest())
    document = {
        "condition": reply.condition,
        "server": call.server,
        "hostname": reply.hostname,
        "version": reply.version,
        "commit_ms": round(reply.commit_ms, 3),
        "now": reply.now,
        "open_runs": reply.open_runs,
        "connected_workers": reply.connected_workers,
        "postponed_executions": reply.postponed_executions,
        "archive_error": reply.archive_error or None,
    }
    call.output.fields(document, document | {"now": instant_text(reply.now)})
    if reply.condition != SERVING:
        raise typer.Exit(ExitCode.UNAVAILABLE)
