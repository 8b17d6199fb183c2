"""A TCP proxy on loopback that breaks connections in every way a network can, except by losing bytes and going on.

It runs on an event loop of its own thread, so that blocking and async tests use it alike. Faults apply to connections
that are open, and, but for `reset`, to those that are made until `heal`.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, Self, TypeVar

T = TypeVar("T")

CHUNK_BYTES = 1 << 16
CALL_TIMEOUT_S = 10.0

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends RST instead of FIN and drops what is unsent."""


class Direction(Enum):
    """Where bytes go."""

    TO_SERVER = auto()
    TO_CLIENT = auto()


class FaultProxy:
    """Listens on a port of its own and connects every client to the target; a context manager, blocking or async."""

    def __init__(self, target: str) -> None:
        """Start.

        Args:
            target: HOST:PORT; need not listen yet.
        """
        self._target_host, _, self._target_port = target.rpartition(":")
        self._cut: set[Direction] = set()
        self._delay_s = 0.0
        self._links: list[_Link] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        """Where clients connect to."""

    # ---- faults --------------------------------------------------------------------------------------------------

    def reset(self) -> int:
        """Break all open connections with RST on both sides; gives their number."""
        return self._call(self._reset)

    def cut(self, *directions: Direction) -> None:
        """Swallow all bytes in these directions, without a sign to anybody; both directions make it half-open."""
        self._call(lambda: self._cut.update(directions))

    def delay(self, seconds: float) -> None:
        """Hold back every chunk that long, in both directions."""
        self._call(lambda: setattr(self, "_delay_s", seconds))

    def heal(self) -> None:
        """Forward again, and reset connections that have lost bytes, since nothing can mend them."""

        def heal() -> None:
            self._delay_s = 0.0
            if self._cut:
                self._cut.clear()
                self._reset()

        self._call(heal)

    def close(self) -> None:
        """Break everything off and end the thread."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # ---- on the loop ---------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        client = _End(reader, writer)
        try:
            server = _End(*await asyncio.open_connection(self._target_host, int(self._target_port)))
        except OSError:
            client.reset()
            return
        link = _Link(client, server)
        self._links.append(link)
        try:
            await asyncio.gather(
                self._pump(client, server, Direction.TO_SERVER), self._pump(server, client, Direction.TO_CLIENT)
            )
        finally:
            self._links.remove(link)
            link.reset()

    async def _pump(self, source: "_End", sink: "_End", direction: Direction) -> None:
        try:
            while data := await source.reader.read(CHUNK_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if direction not in self._cut:
                    sink.writer.write(data)
                    await sink.writer.drain()
            if direction not in self._cut:
                sink.writer.write_eof()
        except OSError:
            # One side broke off, so the other one learns it the same way.
            sink.reset()

    def _reset(self) -> int:
        for link in self._links:
            link.reset()
        return len(self._links)

    async def _end(self) -> None:
        self._server.close()
        self._reset()
        if self._serving:
            await asyncio.wait(self._serving)

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._run(call())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_TIMEOUT_S)


class _End:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def reset(self) -> None:
        """Close it with RST; idempotent."""
        transport = self.writer.transport
        if not transport.is_closing():
            opened: socket.socket = transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            transport.abort()


class _Link:
    """A client's connection and the one that was made for it."""

    def __init__(self, client: _End, server: _End) -> None:
        self._ends = (client, server)

    def reset(self) -> None:
        for end in self._ends:
            end.reset()
