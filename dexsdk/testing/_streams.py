"""Calls that stream their answers, without a connection: read in any thread, fed by the environment's loop."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any, TypeAlias

import grpc

from dexsdk._status import STATUS_DETAILS_KEY, status_of_reply
from dexsdk.testing._activity import Activity
from dexsdk.testing._server import InProcessServer

Item: TypeAlias = tuple[bytes, int, bytes]


class StreamEndedError(grpc.RpcError):
    """A stream ended with another status than OK; reads like the errors of gRPC."""

    def __init__(self, code: int, status: bytes) -> None:
        read = status_of_reply(code, status)
        super().__init__(read.message)
        self._code = grpc.StatusCode[read.code]
        self._details = read.message
        self._status = status

    def code(self) -> grpc.StatusCode:
        """See grpc.Call."""
        return self._code

    def details(self) -> str:
        """See grpc.Call."""
        return self._details

    def trailing_metadata(self) -> Any:
        """See grpc.Call."""
        return ((STATUS_DETAILS_KEY, self._status),)


class InProcessStreams:
    """Opens history watches; see StreamSource. May be called from any thread."""

    def __init__(self, server: InProcessServer, activity: Activity) -> None:
        self._server = server
        self._activity = activity
        self._loop = asyncio.get_running_loop()

    def open_stream(self, method: str, body: bytes) -> "InProcessStream":
        """See StreamSource; there is one method that streams."""
        assert method.endswith("/WatchHistory"), method
        return InProcessStream(self._server, self._activity, self._loop, body)


class InProcessStream:
    """One watch; see ByteStream."""

    def __init__(
        self, server: InProcessServer, activity: Activity, loop: asyncio.AbstractEventLoop, body: bytes
    ) -> None:
        self._server = server
        self._activity = activity
        self._loop = loop
        self._items: SimpleQueue[Item] = SimpleQueue()
        self._open = ExitStack()
        """Closed on the loop, when the watch is over."""
        loop.call_soon_threadsafe(self._begin, body)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            body, code, status = self._items.get()
            if code:
                raise StreamEndedError(code, status)
            if not body:
                return
            yield body

    def cancel(self) -> None:
        """See ByteStream."""
        # A loop that was closed has ended the watch.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._open.close)
        self._items.put((b"", 0, b""))

    def _begin(self, body: bytes) -> None:
        self._open.enter_context(self._activity.waiting())
        self._open.callback(self._server.watch(body, self._take))

    def _take(self, body: bytes, code: int, status: bytes) -> None:
        self._activity.note()
        self._items.put((body, code, status))
        if code or not body:
            self._open.close()
