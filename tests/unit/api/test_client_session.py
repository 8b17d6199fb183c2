"""Requests and answers of a client session, over a fake transport [ERR-A, ERR-B, WIRE-2, WAITAPI-6]."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from dexd.api import client_session
from dexd.api.client_session import ClientSession
from dexd.core.rejections import Code, Rejection
from dexd.engine.ports import Abandon, OnAnswer
from dexd.engine.request_times import RequestTimes
from dexpb.v1.flow_service_pb2 import ClientBatch, ClientRequest, ServerBatch, ServerReply


class FakeTransport:
    """A gRPC call: what the client sends is queued, what it gets is collected."""

    def __init__(self) -> None:
        self.inbound: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.outbound: asyncio.Queue[list[ServerReply]] = asyncio.Queue()

    def invocation_metadata(self) -> None:
        """None, as from a client without a key for uploads."""

    def send(self, *requests: ClientRequest) -> None:
        self.inbound.put_nowait(ClientBatch(requests=requests).SerializeToString())

    def half_close(self) -> None:
        self.inbound.put_nowait(None)

    async def requests(self) -> AsyncIterator[bytes]:
        while (message := await self.inbound.get()) is not None:
            yield message

    async def write(self, message: bytes) -> None:
        self.outbound.put_nowait(list(ServerBatch.FromString(message).replies))


class ManualCalls:
    """Unary methods that answer when the test says so."""

    def __init__(self) -> None:
        self.open: dict[bytes, OnAnswer[bytes]] = {}
        self.abandoned: list[bytes] = []
        self.begun = asyncio.Semaphore(0)

    def begin(self, method: str, body: bytes, on_answer: OnAnswer[bytes], session: bytes) -> Abandon | None:
        if method == "Echo":
            on_answer(body)
            return None
        self.open[body] = on_answer
        self.begun.release()
        return lambda: self.abandoned.append(body)

    def answer(self, body: bytes, answer: bytes | Rejection) -> None:
        self.open.pop(body)(answer)


class Session:
    """A session that is being served."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.calls = ManualCalls()
        context = cast("grpc.aio.ServicerContext[bytes, bytes]", self.transport)
        self.times = RequestTimes(["Echo", "Wait"])
        self.session = ClientSession(self.calls, context, self.times, buffer_bytes=1_000)
        self.task = asyncio.create_task(self.session.serve(self.transport.requests()))

    async def taken(self, count: int) -> None:
        for _ in range(count):
            await self.calls.begun.acquire()


async def test_replies_that_are_ready_together_go_out_in_one_message() -> None:
    """[WIRE-2]"""
    session = Session()
    session.transport.send(*(ClientRequest(id=n, method="Echo", body=b"%d" % n) for n in range(1, 201)))
    replies = await session.transport.outbound.get()
    assert [(reply.id, reply.code, reply.body) for reply in replies] == [(n, 0, b"%d" % n) for n in range(1, 201)]
    session.transport.half_close()
    await session.task


async def test_answers_come_back_in_any_order_under_their_request_ids() -> None:
    session = Session()
    session.transport.send(
        ClientRequest(id=7, method="Wait", body=b"slow"), ClientRequest(id=9, method="Wait", body=b"quick")
    )
    await session.taken(2)
    session.calls.answer(b"quick", b"q")
    assert [(reply.id, reply.body) for reply in await session.transport.outbound.get()] == [(9, b"q")]
    session.calls.answer(b"slow", b"s")
    assert [(reply.id, reply.body) for reply in await session.transport.outbound.get()] == [(7, b"s")]
    session.transport.half_close()
    await session.task


async def test_refusal_is_a_status_with_reason_inside_the_reply() -> None:
    """[ERR-A]"""
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"))
    await session.taken(1)
    session.calls.answer(b"x", Rejection(Code.FLOW_NOT_FOUND, "no Flow", {"flow_id": "f"}))
    (reply,) = await session.transport.outbound.get()
    status, info = Status.FromString(reply.status), ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (reply.code, status.message, info.reason, info.metadata["flow_id"]) == (5, "no Flow", "FLOW_NOT_FOUND", "f")
    session.transport.half_close()
    await session.task


async def test_one_request_of_a_message_is_timed_and_stands_for_all() -> None:
    """[OBS-1] Every request is begun and answered, be it the timed one or before or behind it."""
    session = Session()
    for first in range(1, 71, 7):
        ids = [*range(first, first + 7)]
        session.transport.send(*(ClientRequest(id=n, method="Echo", body=b"x") for n in ids))
        assert [reply.id for reply in await session.transport.outbound.get()] == ids
    session.transport.send(ClientRequest(id=1, method="Invented", body=b"x"))
    await session.taken(1)
    session.calls.answer(b"x", b"")
    await session.transport.outbound.get()
    assert sum(session.times.by_method["Echo"].classes) == 70
    assert sum(session.times.of_unknown.classes) == 1, "no series for a method that a client made up [ARCH-8]"
    session.transport.half_close()
    await session.task


async def test_request_whose_client_has_gone_is_not_timed() -> None:
    """[OBS-1]"""
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"))
    await session.taken(1)
    session.task.cancel()
    await asyncio.wait((session.task,))
    assert session.calls.abandoned == [b"x"]
    assert sum(session.times.by_method["Wait"].classes) == 0


async def test_client_that_stops_sending_still_gets_every_answer() -> None:
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"))
    session.transport.half_close()
    await session.taken(1)
    assert not session.task.done()
    session.calls.answer(b"x", b"late")
    await session.task
    assert [reply.body for reply in session.transport.outbound.get_nowait()] == [b"late"]
    assert session.calls.abandoned == []


async def test_open_calls_of_a_client_that_is_gone_are_abandoned() -> None:
    """[WAITAPI-6]"""
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"), ClientRequest(id=2, method="Wait", body=b"y"))
    await session.taken(2)
    session.task.cancel()
    await asyncio.wait((session.task,))
    assert session.calls.abandoned == [b"x", b"y"]
    session.calls.answer(b"x", b"nobody listens")


async def test_shutdown_answers_what_is_open_and_then_ends_with_the_reason() -> None:
    """[DRAIN-4]"""
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"))
    await session.taken(1)
    session.session.end(Rejection(Code.SHUTTING_DOWN, "bye"))
    session.calls.answer(b"x", Rejection(Code.SHUTTING_DOWN, "bye"))
    assert await session.task == Rejection(Code.SHUTTING_DOWN, "bye")
    assert [reply.code for reply in session.transport.outbound.get_nowait()] == [14]


@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"\x0a\x7f", b"\x0a\x05\x12\x03\xff\xfe\xfd"])
async def test_message_that_is_no_batch_ends_this_session_with_a_typed_error(message: bytes) -> None:
    """[ERR-B]"""
    session = Session()
    session.transport.inbound.put_nowait(message)
    assert await session.task == Rejection(Code.MALFORMED, "the message is not a ClientBatch")


async def test_reused_id_of_an_open_request_ends_the_session() -> None:
    """[ERR-B]: two answers under one id could not be told apart."""
    session = Session()
    session.transport.send(ClientRequest(id=3, method="Wait", body=b"x"), ClientRequest(id=3, method="Wait", body=b"y"))
    ended = await session.task
    assert ended is not None
    assert ended.code is Code.PROTOCOL_VIOLATION
    assert session.calls.abandoned == [b"x"]


async def test_request_beyond_the_bound_of_open_calls_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """[ARCH-8]"""
    monkeypatch.setattr(client_session, "OPEN_CALLS_MAX", 1)
    session = Session()
    session.transport.send(ClientRequest(id=1, method="Wait", body=b"x"), ClientRequest(id=2, method="Wait", body=b"y"))
    (reply,) = await session.transport.outbound.get()
    assert (reply.id, reply.code) == (2, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    session.calls.answer(b"x", b"fine")
    assert [reply.body for reply in await session.transport.outbound.get()] == [b"fine"]
    session.transport.half_close()
    await session.task
