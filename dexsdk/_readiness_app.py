"""A worker's readiness over HTTP, for probes of orchestrators [READY-8]."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

import msgspec

from dexsdk._readiness import PullQueueState, PullRegistrationState

AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[AsgiMessage, AsgiReceive, AsgiSend], Awaitable[None]]
"""An ASGI 3 application."""


class RegisteringWorker(Protocol):
    """Worker or AsyncWorker."""

    def pull_registration_state(self) -> PullRegistrationState:
        """Tell how the queues stand now."""


def readiness_app(worker: RegisteringWorker) -> AsgiApp:
    """Make a tiny ASGI app that answers every HTTP request with the worker's readiness [READY-8].

    The status is 200 while `is_ready`, else 503. The body is JSON: `is_ready`, and in `queues` each queue's `name`,
    `has_registered_stream` and `last_permanent_error`, which is null or has `code` and `details`. Mount it in any ASGI
    framework or serve it with any ASGI server, on the path that the probe asks for; the app looks at no path or
    header. It says nothing about spare capacity [READY-6], and it still says ready while the worker drains [READY-5].

    Args:
        worker: A Worker or AsyncWorker, started or not, served by this or another thread.
    """

    async def app(scope: AsgiMessage, _receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            # The specification asks for an exception; servers take it as an app without a lifespan or WebSockets.
            raise ValueError(f"readiness_app serves http only, not {scope['type']!r}")
        state = worker.pull_registration_state()
        body = msgspec.json.encode(
            {"is_ready": state.is_ready, "queues": [_queue_document(queue) for queue in state.queues]}
        )
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        status = 200 if state.is_ready else 503
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app


def _queue_document(queue: PullQueueState) -> dict[str, object]:
    error = queue.last_permanent_error
    return {
        "name": queue.name,
        "has_registered_stream": queue.has_registered_stream,
        "last_permanent_error": None if error is None else {"code": error.code, "details": error.details},
    }
