"""FlowService.Session: the unary methods, many at a time over one call.

No task, no log line and no gRPC message per request: a request is handed to the same code as the unary call, its answer
comes back through a callback, and all answers that are ready go out together [WIRE-2].
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from dexd.api.batch_stream import BatchStream
from dexd.api.session_key import session_of
from dexd.api.status import grpc_code, status_of
from dexd.core.rejections import Code, Rejection
from dexd.engine.ports import Abandon, OnAnswer
from dexd.engine.request_times import RequestTimes
from dexpb.v1.flow_service_pb2 import ClientBatch, ClientRequest, ServerBatch

OPEN_CALLS_MAX: Final = 50_000
"""Requests of one session that wait for an answer, long polls included. A waiting request holds 1-2 KiB; a client with
more of them than this opens another session."""
RETRY_AFTER_MS: Final = 1_000
"""Hint for a client with too many open requests; most of them are polls that end by themselves."""


_Reply: TypeAlias = tuple[int, int, bytes]
"""ID of the request, gRPC status code, and the serialized answer, or the serialized status if the code is not 0."""


class FlowCalls(Protocol):
    """The unary methods by name; `flow_methods` has the real ones."""

    def begin(self, method: str, body: bytes, on_answer: OnAnswer[bytes], session: bytes) -> Abandon | None:
        """Begin a call of a session, see `session_key`.

        `on_answer` gets its answer exactly once, unless it is withdrawn by what this returns.
        """
        ...


class ClientSession:
    """One session of one client."""

    def __init__(
        self,
        calls: FlowCalls,
        context: grpc.aio.ServicerContext[bytes, bytes],
        times: RequestTimes,
        *,
        buffer_bytes: int,
    ) -> None:
        self._calls = calls
        self._times = times
        self._uploader = session_of(context)
        self._stream: BatchStream[_Reply] = BatchStream(context, _join, buffer_bytes=buffer_bytes)
        self._open: dict[int, Abandon | None] = {}
        """What abandons each unanswered request, by its id."""
        self._has_answered_all = asyncio.Event()
        """Set when the last of them is answered; there may be new ones since."""

    async def serve(self, requests: AsyncIterator[bytes]) -> Rejection | None:
        """Answer requests until the client stops sending, then what is open; gives the refusal to end the call with."""
        try:
            rejection = await self._stream.receive(self._paced(requests), self._take)
            if rejection is None or rejection.code is Code.SHUTTING_DOWN:
                while self._open:
                    self._has_answered_all.clear()
                    await self._has_answered_all.wait()
                await self._stream.flush()
        finally:
            self._abandon_all()
            await self._stream.stop()
        return rejection

    def end(self, rejection: Rejection) -> None:
        """Take no more requests and end with the refusal; for SHUTTING_DOWN once everything open is answered."""
        self._stream.end(rejection)

    async def _paced(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Read on only while the client reads its answers; the transport's flow control then holds it back."""
        async for message in requests:
            await self._stream.room()
            yield message

    def _take(self, message: bytes) -> None:
        try:
            batch = ClientBatch.FromString(message)
        except DecodeError:
            # No request can be told from another, so none can be refused alone.
            self.end(Rejection(Code.MALFORMED, "the message is not a ClientBatch"))
            return
        requests, answer, times = batch.requests, self._answer, self._times
        count = len(requests)
        rest = iter(requests)
        if count > 1:
            for request in islice(rest, times.draw(count)):
                self._begin(request, answer)
        for request in rest:
            self._begin(request, times.timed(request.method, answer, count))
            break
        for request in rest:
            self._begin(request, answer)

    def _begin(self, request: ClientRequest, answer: Callable[[int, bytes | Rejection], None]) -> None:
        request_id = request.id
        if request_id in self._open:
            # Answering it would settle the other request of that id.
            self.end(Rejection(Code.PROTOCOL_VIOLATION, f"request id {request_id} is still open in this session"))
            return
        if len(self._open) >= OPEN_CALLS_MAX:
            self._reply(request_id, _too_many_calls())
            return
        self._open[request_id] = None
        abandon = self._calls.begin(request.method, request.body, partial(answer, request_id), self._uploader)
        if request_id in self._open:
            self._open[request_id] = abandon

    def _answer(self, request_id: int, answer: bytes | Rejection) -> None:
        # Absent when the client has gone and everything was abandoned.
        if self._open.pop(request_id, _GONE) is not _GONE:
            self._reply(request_id, answer)
            if not self._open:
                self._has_answered_all.set()

    def _reply(self, request_id: int, answer: bytes | Rejection) -> None:
        if type(answer) is Rejection:
            status = status_of(answer).SerializeToString()
            self._stream.send((request_id, grpc_code(answer), status), len(status))
        else:
            self._stream.send((request_id, 0, answer), len(answer))

    def _abandon_all(self) -> None:
        """The client is gone: forget its requests [WAITAPI-6]."""
        abandons, self._open = [*self._open.values()], {}
        for abandon in abandons:
            if abandon is not None:
                abandon()


def _gone() -> None:
    """Stands for a request that is not open."""


_GONE: Final = _gone


def _join(replies: list[_Reply]) -> bytes:
    batch = ServerBatch()
    add = batch.replies.add
    for request_id, code, content in replies:
        # Made in its place, since a message that is made apart is copied, and filled in afterwards, which is cheaper
        # than keywords.
        reply = add()
        reply.id = request_id
        if code:
            reply.code = code
            reply.status = content
        else:
            reply.body = content
    return batch.SerializeToString()


def _too_many_calls() -> Rejection:
    return Rejection(
        Code.MAILBOX_FULL,
        f"{OPEN_CALLS_MAX} requests of this session wait for an answer",
        {"limit": str(OPEN_CALLS_MAX)},
        RETRY_AFTER_MS,
    )
