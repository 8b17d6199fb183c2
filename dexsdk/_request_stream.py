"""The client's session: many unary calls over one stream, kept until each is answered [START-6, GEN-8].

The stream is opened with the first request and again whenever it breaks while requests are open; all of them are then
sent again. Whether that is safe is the caller's business, see `_conversation`.
"""

import itertools
import logging
import math
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
import msgspec
from google.protobuf.message import DecodeError

from dexpb.v1.flow_service_pb2 import ClientBatch, ServerBatch
from dexsdk._announcement import Announcement
from dexsdk._backoff import Backoff
from dexsdk._conversation import Answer, Ask
from dexsdk._server_channel import ServerChannel
from dexsdk._status import PERMANENT_CODES, RemoteStatus, status_of_call, status_of_reply
from dexsdk._transport import Connection
from dexsdk._wire import BATCH_BYTES_MAX

SESSION_METHOD = "/dexpb.v1.FlowService/Session"

CLOSED = RemoteStatus("CANCELLED", "the client was closed")

logger = logging.getLogger("dexsdk.client")

Waiter = TypeVar("Waiter")


class OpenRequest(msgspec.Struct, Generic[Waiter], frozen=True, eq=False):
    """A request that waits for its answer."""

    number: int
    """By which its answer is known."""
    request: Ask
    waiter: Waiter
    deadline: float = math.inf
    """When it is given up, by the clock of whoever watches over it."""


Answered: TypeAlias = tuple[OpenRequest[Waiter], Answer]
Deliver: TypeAlias = Callable[[Sequence[Answered[Waiter]]], None]
"""Wakes waiters with their answers, all of one message at once."""


class RequestStream(Generic[Waiter]):
    """Requests of one client on their way to the server."""

    def __init__(self, channel: ServerChannel, deliver: Deliver[Waiter]) -> None:
        self._channel = channel
        self._deliver = deliver
        self._numbers = itertools.count(1)
        self._lock = Lock()
        """Guards what is open and the connection it goes out on."""
        self._open: dict[int, OpenRequest[Waiter]] = {}
        self._connection: Connection[OpenRequest[Waiter]] | None = None
        self._has_work = Event()
        self._closed = Event()
        self._ended = Announcement()
        self._thread: Thread | None = None
        self._last_end: RemoteStatus | None = None
        """How the last connection ended; tells why a request has no answer."""
        self._is_outage_told = False

    def next_number(self) -> int:
        """Mint the number of a request."""
        return next(self._numbers)

    def submit(self, requests: Sequence[OpenRequest[Waiter]]) -> None:
        """Send requests together; each waiter is woken once, unless its request is forgotten before."""
        with self._lock:
            if not self._closed.is_set():
                for opened in requests:
                    self._open[opened.number] = opened
                if self._connection is not None:
                    self._connection.send(requests)
                else:
                    self._wake()
                return
        self._deliver([(opened, CLOSED) for opened in requests])

    def forget(self, number: int) -> None:
        """Stop waiting for an answer; the server may still act on the request [WAITAPI-6]."""
        with self._lock:
            self._open.pop(number, None)

    def give_up(self, request: Ask) -> RemoteStatus:
        """Give the answer of a request that got none in its time."""
        detail = f"the server did not answer within {request.timeout_s:.1f} s"
        if self._last_end is not None:
            detail += f"; the last connection ended with {self._last_end.code}: {self._last_end.message}"
        return RemoteStatus("UNAVAILABLE", detail)

    def close(self) -> "Future[None]":
        """End the stream and answer all open requests with CANCELLED; the future ends when the thread is gone."""
        self._closed.set()
        with self._lock:
            connection = self._connection
            has_thread = self._thread is not None
        self._answer_all(CLOSED)
        self._has_work.set()
        if connection is not None:
            connection.cancel()
        if not has_thread:
            self._ended.make()
        return self._ended.waiter()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="dexsdk-client", daemon=True)
            self._thread.start()
        self._has_work.set()

    def _run(self) -> None:
        backoff = Backoff()
        try:
            while not self._closed.is_set():
                self._has_work.wait()
                if self._converse():
                    backoff.reset()
                self._closed.wait(backoff.next_delay_ms(random.random()) / 1000)
        finally:
            self._ended.make()

    def _converse(self) -> bool:
        """Hold one connection until it ends; True when something was answered on it."""
        was_answered = False
        try:
            for message in self._connect().messages():
                was_answered = True
                self._receive(message)
            end = RemoteStatus("UNAVAILABLE", "the server ended the session")
        except grpc.RpcError as error:
            end = status_of_call(error)
        except (OSError, ValueError) as error:
            end = RemoteStatus("UNAUTHENTICATED", f"the credential gives no token: {error}")
        except DecodeError as error:
            end = RemoteStatus("INTERNAL", f"the server sent a message that is no ServerBatch: {error}")
        self._is_outage_told = self._is_outage_told and not was_answered
        self._disconnect(end)
        return was_answered

    def _connect(self) -> Connection[OpenRequest[Waiter]]:
        connection = Connection[OpenRequest[Waiter]](self._channel, SESSION_METHOD, encode_batches)
        with self._lock:
            self._connection = connection
            connection.send(tuple(self._open.values()))
            if self._closed.is_set():
                connection.cancel()
        return connection

    def _receive(self, message: bytes) -> None:
        answers: list[Answered[Waiter]] = []
        replies = ServerBatch.FromString(message).replies
        with self._lock:
            for reply in replies:
                opened = self._open.pop(reply.id, None)
                if opened is not None:
                    code = reply.code
                    answers.append((opened, status_of_reply(code, reply.status) if code else reply.body))
        if answers:
            self._deliver(answers)

    def _disconnect(self, end: RemoteStatus) -> None:
        self._tell(end)
        self._last_end = end
        with self._lock:
            if self._connection is not None:
                self._connection.cancel()
            self._connection = None
        if end.code in PERMANENT_CODES:
            self._answer_all(end)
        elif end.code == "RESOURCE_EXHAUSTED":
            # Only a request that travels alone can exceed the server's message limit. Sent again, it would end the
            # session again, and everybody else's requests with it.
            self._answer_all(end, larger_than=BATCH_BYTES_MAX)
        with self._lock:
            if not self._open:
                self._has_work.clear()

    def _tell(self, end: RemoteStatus) -> None:
        """Log it; a warning once per outage in which somebody waits, who otherwise hears nothing for half a minute."""
        is_warning = bool(self._open) and not self._is_outage_told and not self._closed.is_set()
        self._is_outage_told = self._is_outage_told or is_warning
        level = logging.WARNING if is_warning else logging.DEBUG
        logger.log(level, "client_session_ended code=%s details=%s", end.code, end.message)

    def _answer_all(self, status: RemoteStatus, *, larger_than: int = -1) -> None:
        with self._lock:
            chosen = [opened for opened in self._open.values() if len(opened.request.body) > larger_than]
            for opened in chosen:
                del self._open[opened.number]
        if chosen:
            self._deliver([(opened, status) for opened in chosen])


def encode_batches(requests: Sequence[OpenRequest[Any]]) -> Iterator[bytes]:
    """Give the ClientBatch messages for these requests, each within BATCH_BYTES_MAX unless one request is larger."""
    batch = ClientBatch()
    size = 0
    for opened in requests:
        request = opened.request
        body = request.body
        if size and size + len(body) > BATCH_BYTES_MAX:
            yield batch.SerializeToString()
            batch, size = ClientBatch(), 0
        # Made in its place, since a message that is made apart is copied, and filled in afterwards, which is cheaper
        # than keywords.
        added = batch.requests.add()
        added.id = opened.number
        added.method = request.method
        added.body = body
        size += len(body)
    yield batch.SerializeToString()
