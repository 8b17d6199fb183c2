"""The requests of one event loop: they leave together once per turn of it, and one timer watches all their deadlines.

A send and a timer for each request would cost more than all else that a client does for one.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from dexsdk._conversation import Answer, Ask
from dexsdk._status import RemoteStatus

LoopWaiter: TypeAlias = "asyncio.Future[Answer]"

SWEEP_S_MIN = 0.01
"""Requests whose deadlines lie closer together than this are given up together."""


class RequestLine(Protocol):
    """The way to the server, as a loop sees it; see RequestStream."""

    def next_number(self) -> int: ...
    def submit(self, requests: Sequence[tuple[int, Ask, LoopWaiter]]) -> None: ...
    def forget(self, number: int) -> None: ...
    def give_up(self, request: Ask) -> RemoteStatus: ...


class LoopRequests:
    """What the tasks of one loop have asked and not yet got; for use on that loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: RequestLine) -> None:
        self._loop = loop
        self._line = line
        self._outgoing: list[tuple[int, Ask, LoopWaiter]] = []
        """Asked in this turn of the loop."""
        self._open: dict[int, tuple[float, Ask, LoopWaiter]] = {}
        """By number, with the instant of the loop's clock at which each is given up."""
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = math.inf

    async def ask(self, request: Ask) -> Answer:
        """Send a request and give its answer; one that gets none in its time is answered with UNAVAILABLE."""
        loop = self._loop
        number = self._line.next_number()
        waiter: LoopWaiter = loop.create_future()
        if not self._outgoing:
            loop.call_soon(self._send)
        self._outgoing.append((number, request, waiter))
        deadline = loop.time() + request.timeout_s
        if deadline < self._sweep_at:
            self._sweep_by(deadline)
        self._open[number] = (deadline, request, waiter)
        try:
            return await waiter
        except BaseException:
            self._line.forget(number)
            raise
        finally:
            del self._open[number]

    def close(self) -> None:
        """Stop the timer; whatever is open is answered by the line, which is closed as well."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep, self._sweep_at = None, math.inf

    def _send(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        self._line.submit([entry for entry in outgoing if not entry[2].done()])

    def _sweep_by(self, instant: float) -> None:
        self.close()
        self._sweep = self._loop.call_at(instant, self._give_up_overdue)
        self._sweep_at = instant

    def _give_up_overdue(self) -> None:
        self.close()
        now = self._loop.time()
        earliest = math.inf
        for number, (deadline, request, waiter) in self._open.items():
            if waiter.done():
                continue
            if deadline <= now:
                self._line.forget(number)
                waiter.set_result(self._line.give_up(request))
            else:
                earliest = min(earliest, deadline)
        if earliest < math.inf:
            self._sweep_by(max(earliest, now + SWEEP_S_MIN))
