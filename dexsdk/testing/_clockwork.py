"""Drives a test environment: one handler after the other, and the clock only when nothing else can happen [TEST-2].

A turn begins when neither the server nor the event loop has anything to do. Then the next handler starts, or whoever
waits for things to settle goes on, or the clock jumps. Nothing depends on how fast a thread is, so that equal tests
have equal histories [TEST-3].
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dexsdk.testing._activity import Activity
from dexsdk.testing._server import InProcessServer
from dexsdk.testing._worker import InProcessWorker

TURNS: Final = 8
"""Turns of the loop without anything new after which nothing more is expected of it; an answer takes a few from the
server through the client to the test's next call."""

FAILURES_MAX: Final = 5_000
"""Handlers that fail one after the other, and none that succeeds, before the clock stops to jump for them: no test
means to wait for six days of retries, but a Step with a bug is retried for ever."""


class Clockwork:
    """Decides what happens next. `run` does the work; everybody else asks it."""

    def __init__(
        self, server: InProcessServer, activity: Activity, worker: Callable[[], InProcessWorker], *, auto_skip: bool
    ) -> None:
        self._server = server
        self._activity = activity
        self._worker = worker
        self._auto_skip = auto_skip
        self._turned_by_hand = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._asking: set[asyncio.Future[Any]] = set()
        """What the server owes to calls."""
        self._failure: Exception | None = None

    async def settled(self) -> None:
        """Return when nothing more happens at this instant; a handler that takes long is not waited for.

        Raises:
            RuntimeError: the environment has ended, or the server has, which is a bug of it.
        """
        if self._failure is not None:
            raise self._failure
        self._worker().failures.clear()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._activity.note()
        await waiter

    @contextmanager
    def asking(self, answered: "asyncio.Future[Any]") -> Iterator[None]:
        """Let a call wait for this answer, which is an exception when nothing can come of it any more."""
        if self._failure is not None:
            raise self._failure
        self._asking.add(answered)
        try:
            yield
        finally:
            self._asking.discard(answered)

    async def advance(self, milliseconds: int) -> None:
        """Turn the clock through everything that is due, in order, and settle after each turn."""
        self._turned_by_hand += 1
        try:
            target = self._server.now() + milliseconds
            await self.settled()
            while (at := self._server.next_deadline) is not None and at <= target:
                self._turn_to(at)
                await self.settled()
            self._server.turn_to(max(target, self._server.now()))
            await self.settled()
        finally:
            self._turned_by_hand -= 1

    async def run(self) -> None:
        """Drive the environment until canceled."""
        try:
            seen = 0
            while True:
                seen = await self._activity.beyond(seen)
                while await self._take_turn():
                    pass
        except asyncio.CancelledError:
            self._end(RuntimeError("the test environment has ended"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it at its next call
            self._end(error)

    def _end(self, failure: Exception) -> None:
        self._failure = failure
        _fail(self._waiters, failure)
        _fail(self._asking, failure)

    async def _take_turn(self) -> bool:
        """Do the next thing; False if there is none until something happens."""
        await self._quiet()
        worker = self._worker()
        if worker.start_next():
            return True
        if worker.is_worth_waiting_for:
            return False
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()
            return True
        at = self._server.next_deadline
        if not self._may_skip or worker.is_busy or at is None:
            return False
        if worker.failures.count >= FAILURES_MAX:
            _fail(self._asking, RuntimeError(f"{worker.failures}; nothing else has happened meanwhile"))
            return False
        self._turn_to(at)
        return True

    @property
    def _may_skip(self) -> bool:
        return self._auto_skip and self._activity.is_test_waiting and not self._turned_by_hand

    def _turn_to(self, at: int) -> None:
        # What is due already and did not happen would not by looking again at the same instant.
        self._server.turn_to(max(at, self._server.now() + 1))

    async def _quiet(self) -> None:
        """Return when neither the server nor the loop has anything to do."""
        count = None
        while count != self._activity.count:
            count = self._activity.count
            await self._server.settled()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        if self._server.failure is not None:
            raise RuntimeError("the server ended by itself") from self._server.failure


def _fail(waiting: Iterable["asyncio.Future[Any]"], failure: Exception) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_exception(failure)
