"""The test environment for plain functions: the same, on an event loop in a thread of its own [TEST-1]."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime
from threading import Thread
from typing import Any, TypeVar

from dexsdk._durations import Duration
from dexsdk.client import Client
from dexsdk.flow import AnyFlow
from dexsdk.testing._client import BlockingInProcessCarrier, InProcessClient, wait_for
from dexsdk.testing._environment import Environment, start_env

Result = TypeVar("Result")


class SyncEnvironment:
    """A server with its clock, and a connected client and Worker; made by `start_env_sync`.

    See Environment for what the methods do. They may be called from any thread but that of a handler, which may use
    the client all the same.
    """

    client: Client
    """Calls the server. Its timeouts are real time: they are the patience of the test, not of the Flow."""

    def __init__(self, env: Environment, loop: asyncio.AbstractEventLoop) -> None:
        """Wrap an environment that lives on a loop; `start_env_sync` is the way to get one."""
        self._env = env
        self._loop = loop
        carrier = BlockingInProcessCarrier(env.carrier, loop)
        self.client = InProcessClient(env.registry, carrier, env.streams, env.carrier.blobs)

    @property
    def now(self) -> datetime:
        """See Environment."""
        return self._env.now

    def advance(self, duration: Duration) -> None:
        """See Environment."""
        self._run(self._env.advance(duration))

    def drop_worker(self) -> None:
        """See Environment."""
        self._call(self._env.drop_worker)

    def duplicate_next_delivery(self) -> None:
        """See Environment."""
        self._call(self._env.duplicate_next_delivery)

    def crash_server(self) -> None:
        """See Environment."""
        self._call(self._env.crash_server)

    def recover_server(self) -> None:
        """See Environment."""
        self._call(self._env.recover_server)

    def _call(self, switch: Callable[[], None]) -> None:
        async def throw() -> None:
            switch()

        self._run(throw())

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return wait_for(asyncio.run_coroutine_threadsafe(coroutine, self._loop))


@contextmanager
def start_env_sync(
    *flows: AnyFlow, start_at: datetime | None = None, auto_skip: bool = True, seed: int = 0
) -> Iterator[SyncEnvironment]:
    """Start a test environment for code without an event loop; see `start_env`."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="dexsdk-test-environment", daemon=True)
    thread.start()
    opening = start_env(*flows, start_at=start_at, auto_skip=auto_skip, seed=seed)
    try:
        with _entered(opening, loop) as env:
            yield SyncEnvironment(env, loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def _entered(
    opening: AbstractAsyncContextManager[Environment], loop: asyncio.AbstractEventLoop
) -> Iterator[Environment]:
    env = wait_for(asyncio.run_coroutine_threadsafe(_enter(opening), loop))
    try:
        yield env
    finally:
        wait_for(asyncio.run_coroutine_threadsafe(_leave(opening), loop))


async def _enter(opening: AbstractAsyncContextManager[Environment]) -> Environment:
    return await opening.__aenter__()


async def _leave(opening: AbstractAsyncContextManager[Environment]) -> None:
    await opening.__aexit__(None, None, None)
