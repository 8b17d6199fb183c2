"""The requests of one event loop: they leave together once per turn of it, and one timer watches all their deadlines.

A send and a timer for each request would cost more than all else that a client does for one.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from dexsdk._conversation import Answer, Ask, Conversation, Given, Turn
from dexsdk._request_stream import Answered, OpenRequest
from dexsdk._status import RemoteStatus

Result = TypeVar("Result")
LoopWaiter: TypeAlias = "asyncio.Future[Answer]"
LoopRequest: TypeAlias = OpenRequest[LoopWaiter]

SWEEP_S_MIN = 0.01
"""Requests whose deadlines lie closer together than this are given up together."""


class RequestLine(Protocol):
    """The way to the server, as a loop sees it; see RequestStream."""

    def next_number(self) -> int: ...
    def submit(self, requests: Sequence[LoopRequest]) -> None: ...
    def forget(self, number: int) -> None: ...
    def give_up(self, request: Ask) -> RemoteStatus: ...


class LoopRequests:
    """What the tasks of one loop have asked and not yet got; for use on that loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: RequestLine) -> None:
        self._loop = loop
        self._line = line
        self._outgoing: list[LoopRequest] = []
        """Asked in this turn of the loop."""
        self._open: dict[int, LoopRequest] = {}
        """By number; the deadlines are instants of the loop's clock."""
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = math.inf

    async def converse(self, conversation: Conversation[Result], answer: Callable[[Turn], Awaitable[Given]]) -> Result:
        """Carry a conversation to its end; `answer` gives what its turns get that are no requests.

        A request that gets no answer in its time is answered with UNAVAILABLE.
        """
        given: Given = None
        while True:
            try:
                turn = conversation.send(given)
            except StopIteration as end:
                result: Result = end.value
                return result
            if isinstance(turn, Ask):
                # Awaited here, since a coroutine for each request would cost as much as the rest of this loop.
                opened = self._ask(turn)
                try:
                    given = await opened.waiter
                except BaseException:
                    self._forget(opened)
                    raise
            else:
                given = await answer(turn)

    def settle(self, answers: Sequence[Answered[LoopWaiter]]) -> None:
        """Wake the tasks that wait for these answers."""
        for opened, answer in answers:
            self._open.pop(opened.number, None)
            if not opened.waiter.done():
                opened.waiter.set_result(answer)

    def close(self) -> None:
        """Stop the timer; whatever is open is answered by the line, which is closed as well."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep, self._sweep_at = None, math.inf

    def _ask(self, request: Ask) -> LoopRequest:
        loop = self._loop
        number = self._line.next_number()
        deadline = loop.time() + request.timeout_s
        opened = self._open[number] = OpenRequest(number, request, loop.create_future(), deadline)
        if not self._outgoing:
            loop.call_soon(self._send)
        self._outgoing.append(opened)
        if deadline < self._sweep_at:
            self._sweep_by(deadline)
        return opened

    def _forget(self, opened: LoopRequest) -> None:
        self._open.pop(opened.number, None)
        self._line.forget(opened.number)

    def _send(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        self._line.submit([opened for opened in outgoing if not opened.waiter.done()])

    def _sweep_by(self, instant: float) -> None:
        self.close()
        self._sweep = self._loop.call_at(instant, self._give_up_overdue)
        self._sweep_at = instant

    def _give_up_overdue(self) -> None:
        self.close()
        now = self._loop.time()
        for opened in [opened for opened in self._open.values() if opened.deadline <= now]:
            self._forget(opened)
            if not opened.waiter.done():
                opened.waiter.set_result(self._line.give_up(opened.request))
        if self._open:
            earliest = min(opened.deadline for opened in self._open.values())
            self._sweep_by(max(earliest, now + SWEEP_S_MIN))
