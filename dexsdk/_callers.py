"""The two ways to carry a conversation: blocking the calling thread, or awaiting on an event loop."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import grpc

from dexsdk._blobs import Blobs
from dexsdk._carriers import converse
from dexsdk._conversation import Answer, Ask, AskOnce, Conversation, Given, Load, Offload, Pause, Turn
from dexsdk._loop_requests import LoopRequests, LoopWaiter
from dexsdk._request_stream import RequestStream
from dexsdk._server_channel import ServerChannel
from dexsdk._status import RemoteStatus, status_of_call

Result = TypeVar("Result")


class BlockingCaller:
    """Carries conversations on the calling thread; any number of threads may use it at once."""

    def __init__(self, channel: ServerChannel, blobs: Blobs) -> None:
        self._channel = channel
        self._blobs = blobs
        self._stream: RequestStream[_Waiter] = RequestStream(channel, _release_all)

    def carry(self, conversation: Conversation[Result]) -> Result:
        """Carry it to its end."""
        answer: Given = None
        while True:
            try:
                turn = conversation.send(answer)
            except StopIteration as end:
                result: Result = end.value
                return result
            answer = self._answer(turn)

    def close(self) -> None:
        """End what is open; returns when the thread is gone."""
        ended = self._stream.close()
        self._blobs.close()
        self._channel.close()
        ended.result()

    def _answer(self, turn: Turn) -> Given:
        match turn:
            case Ask():
                return self._ask(turn)
            case Offload(values=values):
                return self._blobs.offload(values)
            case Load(value=value):
                return self._blobs.load(value)
            case AskOnce():
                try:
                    return self._channel.unary_unary(turn.path)(
                        turn.body, timeout=turn.timeout_s, metadata=self._channel.metadata()
                    )
                except grpc.RpcError as error:
                    return status_of_call(error)
            case Pause():
                time.sleep(turn.seconds)
                return None

    def _ask(self, request: Ask) -> Answer:
        waiter = _Waiter()
        number = self._stream.next_number()
        self._stream.submit([(number, request, waiter)])
        try:
            answer = waiter.wait(request.timeout_s)
        finally:
            if waiter.answer is None:
                self._stream.forget(number)
        return self._stream.give_up(request) if answer is None else answer


class _Waiter:
    """A thread that waits for one answer; a bare lock costs a tenth of a future."""

    __slots__ = ("_lock", "answer")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.answer: Answer | None = None

    def wait(self, timeout_s: float) -> Answer | None:
        self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX))
        return self.answer

    def release(self, answer: Answer) -> None:
        self.answer = answer
        self._lock.release()


def _release_all(answers: Sequence[tuple[_Waiter, Answer]]) -> None:
    for waiter, answer in answers:
        waiter.release(answer)


class LoopCaller:
    """Carries conversations on event loops; the loop is woken once for all answers of one message."""

    def __init__(self, channel: ServerChannel, blobs: Blobs) -> None:
        self._channel = channel
        self._blobs = blobs
        self._stream: RequestStream[LoopWaiter] = RequestStream(channel, _resolve_on_loops)
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopRequests] = {}

    async def carry(self, conversation: Conversation[Result]) -> Result:
        """Carry it to its end."""
        return await converse(conversation, self._answer)

    async def close(self) -> None:
        """End what is open; returns when the thread is gone."""
        self._requests.close()
        ended = self._stream.close()
        self._blobs.close()
        self._channel.close()
        await asyncio.wrap_future(ended)

    @property
    def _requests(self) -> LoopRequests:
        loop = asyncio.get_running_loop()
        return self._by_loop.get(loop) or self._begin_on(loop)

    def _begin_on(self, loop: asyncio.AbstractEventLoop) -> LoopRequests:
        for known in tuple(self._by_loop):
            if known.is_closed():
                self._by_loop.pop(known, None)
        return self._by_loop.setdefault(loop, LoopRequests(loop, self._stream))

    def _answer(self, turn: Turn) -> Awaitable[Given]:
        # No coroutine of its own: it would cost every request one more.
        match turn:
            case Ask():
                return self._requests.ask(turn)
            case Offload(values=values):
                return asyncio.to_thread(self._blobs.offload, values)
            case Load(value=value):
                return asyncio.to_thread(self._blobs.load, value)
            case AskOnce():
                return self._ask_once(turn)
            case Pause():
                return asyncio.sleep(turn.seconds)

    async def _ask_once(self, turn: AskOnce) -> Answer:
        waiter: LoopWaiter = asyncio.get_running_loop().create_future()
        call = self._channel.unary_unary(turn.path).future(
            turn.body, timeout=turn.timeout_s, metadata=self._channel.metadata()
        )
        call.add_done_callback(lambda ended: _resolve_on_loops([(waiter, _answer_of(ended))]))
        try:
            return await waiter
        finally:
            call.cancel()


def _answer_of(ended: "grpc.Future[bytes]") -> Answer:
    try:
        return ended.result()
    except grpc.RpcError as error:
        return status_of_call(error)
    except grpc.FutureCancelledError:
        return RemoteStatus("CANCELLED", "the call was canceled")


def _resolve_on_loops(answers: Sequence[tuple[LoopWaiter, Answer]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[LoopWaiter, Answer]]] = {}
    for waiter, answer in answers:
        by_loop.setdefault(waiter.get_loop(), []).append((waiter, answer))
    for loop, group in by_loop.items():
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(partial(_resolve_all, group))


def _resolve_all(answers: Sequence[tuple[LoopWaiter, Answer]]) -> None:
    for waiter, answer in answers:
        if not waiter.done():
            waiter.set_result(answer)
