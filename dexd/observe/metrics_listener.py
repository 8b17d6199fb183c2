"""The metrics endpoint: HTTP GET /metrics on an address of its own, apart from the API [OBS-1].

A listener for one path and one method; anything more would need a web server, which the server does not depend on.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dexd.errors import ListenError
from dexd.settings import ListenAddress

HEAD_BYTES_MAX: Final = 16 * 1024
"""Size of a request's head; a scraper's has a few hundred bytes."""

REQUEST_TIMEOUT_S: Final = 5.0
"""How long a peer may take to ask, and to read the answer."""

CONNECTIONS_MAX: Final = 32
"""Connections at once; further ones are closed at once [ARCH-8]."""

PORTS_TRIED_MAX: Final = 100
"""How far a default port moves when it is taken."""


class MetricsListener:
    """Answers scrapers until `stop`."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        """`render` gives the text; it is called on the event loop."""
        self._render = render
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Listen, and give the address with the port that it became.

        A default port that is taken moves to the next free one [SURF-11].

        Raises:
            ListenError: the address is taken or not one of this machine.
        """
        refused: OSError | None = None
        for port in range(address.port, address.port + (PORTS_TRIED_MAX if address.may_move else 1)):
            try:
                self._server = await asyncio.start_server(self._serve, address.host, port, limit=HEAD_BYTES_MAX)
            except OSError as error:
                refused = error
            else:
                bound = self._server.sockets[0].getsockname()[1]
                if port != address.port:
                    structlog.get_logger().warning("metrics_port_taken", wanted=address.port, listening=bound)
                return ListenAddress(address.host, bound)
        raise ListenError(
            f"cannot listen on {address} for metrics: the address is in use or not one of this machine"
        ) from refused

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            structlog.get_logger().debug("metrics_request_failed", reason=repr(error))
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _response("404 Not Found", "text/plain; charset=utf-8", b"metrics are under /metrics\n")
        if method not in {b"GET", b"HEAD"}:
            return _response("405 Method Not Allowed", "text/plain; charset=utf-8", b"only GET is served\n")
        body = self._render()
        response = _response("200 OK", CONTENT_TYPE_LATEST, body)
        return response[: len(response) - len(body)] if method == b"HEAD" else response


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return head.encode() + body
