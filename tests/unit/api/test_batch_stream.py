"""Batching, bounds and ends of a bidirectional call [WIRE-2, WIRE-6, ARCH-8]."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest

from dexd.api.batch_stream import MESSAGE_BYTES_TARGET, BatchStream
from dexd.core.rejections import Code, Rejection

BUFFER_BYTES = 100


class GatedTransport:
    """The part of a gRPC call that is written to: holds each message back until the peer reads it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading = asyncio.Semaphore(0)
        self.arrived = asyncio.Condition()

    async def write(self, message: bytes) -> None:
        self.written.append(message)
        async with self.arrived:
            self.arrived.notify_all()
        await self.reading.acquire()

    async def messages(self, count: int) -> list[bytes]:
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.written) >= count)
        return self.written


def stream_over(transport: GatedTransport) -> BatchStream[bytes]:
    context = cast("grpc.aio.ServicerContext[bytes, bytes]", transport)
    return BatchStream(context, b"".join, buffer_bytes=BUFFER_BYTES)


async def endless() -> AsyncIterator[bytes]:
    await asyncio.get_running_loop().create_future()
    yield b""


async def these(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


def send(stream: BatchStream[bytes], *items: bytes) -> None:
    for item in items:
        stream.send(item, len(item))


async def test_everything_queued_while_a_message_travels_goes_into_the_next_one() -> None:
    """[WIRE-2]"""
    transport = GatedTransport()
    stream = stream_over(transport)
    send(stream, b"a")
    assert await transport.messages(1) == [b"a"]
    send(stream, b"b", b"c", b"d")
    transport.reading.release()
    assert await transport.messages(2) == [b"a", b"bcd"]
    await stream.stop()


async def test_message_ends_before_the_item_that_would_make_it_too_large() -> None:
    """An item of a full frame must not be pushed over the peer's limit by small ones before it."""
    transport = GatedTransport()
    transport.reading.release()
    stream = stream_over(transport)
    large = b"x" * MESSAGE_BYTES_TARGET
    send(stream, b"a", large, b"b")
    transport.reading.release()
    transport.reading.release()
    assert await transport.messages(3) == [b"a", large, b"b"]
    await stream.stop()


async def test_stream_is_full_while_the_peer_does_not_read_and_has_room_afterwards() -> None:
    """[WIRE-6]"""
    transport = GatedTransport()
    stream = stream_over(transport)
    send(stream, b"first")
    await transport.messages(1)
    fullness = []
    for item in (b"x" * (BUFFER_BYTES - 1), b"y"):
        send(stream, item)
        fullness.append(stream.is_full)
    waiting = asyncio.create_task(stream.room())
    transport.reading.release()
    await waiting
    fullness.append(stream.is_full)
    assert fullness == [False, True, False]
    await stream.stop()


async def test_receive_hands_over_messages_in_order_until_the_peer_stops() -> None:
    stream = stream_over(GatedTransport())
    taken: list[bytes] = []
    assert await stream.receive(these(b"1", b"2"), taken.append) is None
    assert taken == [b"1", b"2"]
    await stream.stop()


async def test_end_interrupts_receive_with_its_reason_and_only_the_first_end_counts() -> None:
    stream = stream_over(GatedTransport())
    receiving = asyncio.create_task(stream.receive(endless(), lambda _: None))
    first = Rejection(Code.SESSION_TIMEOUT, "first")
    stream.end(first)
    stream.end(Rejection(Code.SHUTTING_DOWN, "second"))
    assert await receiving == first
    await stream.stop()


async def test_error_while_taking_a_message_is_raised() -> None:
    stream = stream_over(GatedTransport())

    def broken(_: bytes) -> None:
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await stream.receive(these(b"1"), broken)
    await stream.stop()


async def test_flush_returns_when_the_last_message_was_taken() -> None:
    transport = GatedTransport()
    stream = stream_over(transport)
    await stream.flush()
    send(stream, b"a")
    flushing = asyncio.create_task(stream.flush())
    await transport.messages(1)
    assert not flushing.done()
    transport.reading.release()
    await flushing
    await stream.stop()


async def test_failed_write_ends_the_stream() -> None:
    class ClosedTransport(GatedTransport):
        async def write(self, message: bytes) -> None:
            raise asyncio.InvalidStateError("RPC already finished.")

    stream = stream_over(ClosedTransport())
    send(stream, b"a")
    assert await stream.receive(endless(), lambda _: None) is None
    await stream.flush()
    await stream.stop()


async def test_stopped_stream_leaves_no_task() -> None:
    """[WAITAPI-6] for sessions: an abandoned call leaks nothing."""
    before = asyncio.all_tasks()
    stream = stream_over(GatedTransport())
    send(stream, b"a")
    receiving: asyncio.Task[Any] = asyncio.create_task(stream.receive(endless(), lambda _: None))
    await asyncio.sleep(0)
    receiving.cancel()
    await asyncio.wait((receiving,))
    await stream.stop()
    assert asyncio.all_tasks() == before
