"""The two ways to carry a conversation: blocking the calling thread, or awaiting on an event loop."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import grpc

from dexsdk._blobs import Blobs
from dexsdk._conversation import Answer, Ask, AskOnce, Conversation, Given, Load, Offload, Pause, Turn
from dexsdk._loop_requests import LoopRequests, LoopWaiter
from dexsdk._request_stream import Answered, OpenRequest, RequestStream
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
        opened = OpenRequest(self._stream.next_number(), request, waiter)
        self._stream.submit([opened])
        try:
            answer = waiter.wait(request.timeout_s)
        finally:
            if waiter.answer is None:
                self._stream.forget(opened.number)
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


def _release_all(answers: Sequence[Answered[_Waiter]]) -> None:
    for opened, answer in answers:
        opened.waiter.release(answer)


class LoopCaller:
    """Carries conversations on event loops; the loop is woken once for all answers of one message."""

    def __init__(self, channel: ServerChannel, blobs: Blobs) -> None:
        self._channel = channel
        self._blobs = blobs
        self._stream: RequestStream[LoopWaiter] = RequestStream(channel, self._deliver)
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopRequests] = {}

    def carry(self, conversation: Conversation[Result]) -> Coroutine[Any, Any, Result]:
        """Carry it to its end."""
        return self._requests.converse(conversation, self._answer)

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

    async def _answer(self, turn: Turn) -> Given:
        match turn:
            case Ask():
                raise AssertionError("the loop's requests answer it")
            case Offload(values=values):
                return await asyncio.to_thread(self._blobs.offload, values)
            case Load(value=value):
                return await asyncio.to_thread(self._blobs.load, value)
            case AskOnce():
                return await self._ask_once(turn)
            case Pause():
                await asyncio.sleep(turn.seconds)
                return None

    async def _ask_once(self, turn: AskOnce) -> Answer:
        waiter: LoopWaiter = asyncio.get_running_loop().create_future()
        call = self._channel.unary_unary(turn.path).future(
            turn.body, timeout=turn.timeout_s, metadata=self._channel.metadata()
        )
        call.add_done_callback(lambda ended: _wake(waiter, _answer_of(ended)))
        try:
            return await waiter
        finally:
            call.cancel()

    def _deliver(self, answers: Sequence[Answered[LoopWaiter]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Answered[LoopWaiter]]] = {}
        for answered in answers:
            loop = answered[0].waiter.get_loop()
            group = by_loop.get(loop)
            if group is None:
                group = by_loop[loop] = []
            group.append(answered)
        for loop, group in by_loop.items():
            # A loop that was closed has nobody left who waits.
            with suppress(RuntimeError, KeyError):
                loop.call_soon_threadsafe(self._by_loop[loop].settle, group)


def _answer_of(ended: "grpc.Future[bytes]") -> Answer:
    try:
        return ended.result()
    except grpc.RpcError as error:
        return status_of_call(error)
    except grpc.FutureCancelledError:
        return RemoteStatus("CANCELLED", "the call was canceled")


def _wake(waiter: LoopWaiter, answer: Answer) -> None:
    # A loop that was closed has nobody left who waits.
    with suppress(RuntimeError):
        waiter.get_loop().call_soon_threadsafe(_settle, waiter, answer)


def _settle(waiter: LoopWaiter, answer: Answer) -> None:
    if not waiter.done():
        waiter.set_result(answer)
