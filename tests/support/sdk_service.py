"""A Flow's worker and client on a real server, both from the SDK and in the test's own event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dexsdk import AsyncClient, AsyncWorker, ClientOptions, Flow, Registry, WorkerOptions
from tests.support.server_process import ServerProcess

WAIT_S = 30.0
"""How long anything here may take before the test has failed."""


@asynccontextmanager
async def sdk_service(server: ServerProcess, *flows: Flow[Any]) -> AsyncIterator[AsyncClient]:
    """Serve the Flows with one worker, which is ready, and give a client of them."""
    registry = Registry(flows, allow_async_handlers=True)
    worker = AsyncWorker(registry, None, WorkerOptions(server_address=server.address))
    serving = asyncio.create_task(worker.start())
    try:
        async with AsyncClient(registry, None, ClientOptions(server_address=server.address)) as client:
            await worker.wait_pull_registered(WAIT_S)
            yield client
    finally:
        await worker.close()
        await serving
