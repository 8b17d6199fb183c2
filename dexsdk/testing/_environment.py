"""The test environment for coroutines [TEST-1..3]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from dexsdk._durations import Duration, from_instant_ms, to_duration_ms, to_instant_ms
from dexsdk._registry import Registry
from dexsdk.async_client import AsyncClient
from dexsdk.flow import AnyFlow
from dexsdk.testing._activity import Activity
from dexsdk.testing._client import InProcessAsyncClient, InProcessCarrier
from dexsdk.testing._clockwork import Clockwork
from dexsdk.testing._server import InProcessServer, find_server
from dexsdk.testing._streams import InProcessStreams
from dexsdk.testing._worker import InProcessWorker

START_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""Where the clock begins unless the test says otherwise: the same instant every time, so that histories are equal."""


class Environment:
    """A server with its clock, and a connected client and Worker; made by `start_env`.

    Belongs to the event loop that made it. A call of the client returns when everything that it set off has settled:
    handlers have run and their decisions are applied, only time has not passed. Fault switches act at once; what
    follows from them has settled after the next call, or after ``advance(0)``.
    """

    client: AsyncClient
    """Calls the server. Its timeouts are real time: they are the patience of the test, not of the Flow."""

    def __init__(self, registry: Registry, server: InProcessServer, *, auto_skip: bool) -> None:
        """Connect a Worker and a client; `start_env` is the way to get an environment."""
        self.registry = registry
        self._server = server
        self._activity = Activity()
        self._incarnations = 1
        self._worker = InProcessWorker(registry, server, self._activity, self._incarnations)
        self._clockwork = Clockwork(server, self._activity, lambda: self._worker, auto_skip=auto_skip)
        self.carrier = InProcessCarrier(server, self._activity, self._clockwork, lambda: self._worker)
        self.streams = InProcessStreams(server, self._activity)
        self.client = InProcessAsyncClient(registry, self.carrier, self.streams)

    @property
    def now(self) -> datetime:
        """The server's time, in UTC."""
        return from_instant_ms(self._server.now())

    async def advance(self, duration: Duration) -> None:
        """Turn the clock forward and return when everything that became due has settled [TEST-2].

        What is due on the way happens in order, each at its own instant: a Flow with a timer every day for a month
        lives through all thirty in ``advance(timedelta(days=30))``. Handlers that run are waited for, but each of them
        no longer than half a second of real time, so that a test can move the clock under a handler that waits.

        Args:
            duration: A timedelta or seconds; 0 only lets things settle.

        Raises:
            ValueError: the duration is negative or longer than 100 years.
        """
        await self._clockwork.advance(to_duration_ms(duration, "duration"))

    def drop_worker(self) -> None:
        """Kill the Worker, and connect a new one in its place [TEST-3].

        Whatever it ran is lost: the server hands it over again, as the same attempt with `context.delivery` 2, or as a
        failed attempt WORKER_LOST if that had happened before [LOST-1, LOST-2]. Handlers that still run are canceled,
        and what they return is ignored.
        """
        self._worker.kill()
        self._incarnations += 1
        self._worker = InProcessWorker(self.registry, self._server, self._activity, self._incarnations)
        self._activity.note()

    def duplicate_next_delivery(self) -> None:
        """Let the next handler that starts run to its end, and lose its result [TEST-3].

        The server hands the call over once more, as the same attempt with `context.delivery` 2. Shows whether a
        handler's side effects are safe under at-least-once execution [STEP-9].
        """
        self._worker.lose_next()

    def crash_server(self) -> None:
        """End the server as kill -9 would: only what is committed is left [TEST-3].

        Until `recover_server`, calls of the client wait and are tried again, as they are with a real server, and the
        clock goes on without anything happening. Handlers that run go on. No effect on a server that is down.
        """
        self._server.crash()
        self._activity.note()

    def recover_server(self) -> None:
        """Start the server again; the Worker connects, and what became due meanwhile happens now [TEST-3].

        No effect on a server that is up.
        """
        if not self._server.is_up:
            self._server.recover()
            self._worker.connect()
            self._activity.note()

    async def run(self) -> None:
        """Let things happen, until canceled."""
        await self._clockwork.run()

    def close(self) -> None:
        """End everything; handlers that still run are canceled."""
        self._worker.close()
        self._server.crash()


@asynccontextmanager
async def start_env(
    *flows: AnyFlow, start_at: datetime | None = None, auto_skip: bool = True, seed: int = 0
) -> AsyncIterator[Environment]:
    """Start a test environment on the running event loop [TEST-1].

    Equal seeds and calls give equal histories, instants and IDs included [TEST-3]: the clock stands until it is turned,
    and handlers run one after the other. A handler that takes longer than half a second of real time is not waited for
    any more, neither by the next handler nor by the test, and then the order depends on the machine.

    Args:
        flows: The Flows that the Worker serves; their handlers may be plain functions or coroutines.
        start_at: Where the clock begins; 2025-01-01 UTC by default.
        auto_skip: Whether the clock jumps to the next deadline by itself, while the test waits in a call of the client
            and neither a handler nor the server has anything to do. Otherwise only `Environment.advance` turns it.
        seed: Of the server's draws, such as the jitter of retries, and of its IDs.

    Raises:
        FlowDefinitionError: the Flows have faults [REG-1].
        RuntimeError: no test server is installed; it comes with the package `dexd`.
        ValueError: `start_at` has no time zone.
    """
    registry = Registry(flows, allow_async_handlers=True)
    server = find_server()(to_instant_ms(START_AT if start_at is None else start_at, "start_at"), seed)
    env = Environment(registry, server, auto_skip=auto_skip)
    running = asyncio.create_task(env.run(), name="dexsdk_test_environment")
    try:
        yield env
    finally:
        env.close()
        running.cancel()
        await asyncio.wait((running,))
