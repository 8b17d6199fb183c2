"""A TCP proxy on the test's event loop that can cut, or silently drop one direction, as networks do."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class TcpProxy:
    """Listens on a port of its own and forwards to one address."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.is_answering = True
        """False swallows what the target sends, and tells nobody."""

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _stack: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._pump(reader, upstream_writer, is_answer=False)
        self._pump(upstream_reader, writer, is_answer=True)

    def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        task = asyncio.create_task(self._forward(reader, writer, is_answer=is_answer))
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1 << 16):
                    if self.is_answering or not is_answer:
                        writer.write(data)
                        await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()
