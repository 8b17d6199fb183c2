"""A worker inside the process of an example, so that each example needs nothing but a running server."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from dexsdk import AsyncClient, AsyncWorker, BlobCache, ClientOptions, Flow, PullWorkerOptions, Registry, WorkerOptions

DEFAULT_SERVER = "127.0.0.1:8801"


@asynccontextmanager
async def serving(
    flow: Flow[Any], server: str, *others: Flow[Any], blob_cache: BlobCache | None = None
) -> AsyncIterator[AsyncClient]:
    """Run a worker for one or more Flows and give a client; both are closed at the end."""
    registry = Registry((flow, *others), allow_async_handlers=True)
    worker = AsyncWorker(
        registry, blob_cache, WorkerOptions(server_address=server, pull=PullWorkerOptions(max_concurrent_tasks=4))
    )
    running = asyncio.create_task(worker.start())
    client = AsyncClient(registry, blob_cache, ClientOptions(server_address=server))
    try:
        try:
            await worker.wait_pull_registered(timeout=10)
        except TimeoutError as error:
            raise SystemExit(f"is a server running at {server}? `dexd serve` starts one: {error}") from None
        yield client
    finally:
        await client.close()
        await worker.close()
        await running


def run(play: Callable[[str], Coroutine[Any, Any, None]], description: str | None) -> None:
    """Read the server's address from the command line and play an example against it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--server", default=DEFAULT_SERVER, help=f"address of dexd (default {DEFAULT_SERVER})")
    asyncio.run(play(parser.parse_args().server))
