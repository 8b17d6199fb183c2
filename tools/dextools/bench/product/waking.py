"""Workload I: ``worker|client ADDRESS [COUNT]`` on the command line; both wait until the server listens.

They have everything loaded by then, so that what the client measures is the server's restart and not their own.
"""

import asyncio
import sys
from collections.abc import Iterator
from time import perf_counter, time

import uvloop

from dexsdk import AsyncClient, ClientOptions
from dextools.bench.notice import announce
from dextools.bench.product.echoes import MESSAGES
from dextools.bench.product.flows import registry
from dextools.bench.product.worker import work
from dextools.bench.workloads import AT_ONCE

LOOK_EVERY_S = 0.005


async def listening(address: str) -> None:
    """Return when somebody listens there."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(LOOK_EVERY_S)
        else:
            writer.close()
            return


async def serve(address: str) -> None:
    """The worker."""
    announce("armed")
    await listening(address)
    await work(address)


async def wake(address: str, count: int) -> None:
    """The client: the first Flow as soon as possible, the others when that has ended."""
    known = registry()
    announce("armed")
    await listening(address)
    async with AsyncClient(known, None, ClientOptions(server_address=address)) as client:
        await _wake_one(client, 0)
        announce("first_result", at=time())
        numbers = iter(range(1, count + 1))
        latencies_ms: list[float] = []
        began_at = perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(_wake_some(client, numbers, latencies_ms))
        announce("woken", seconds=perf_counter() - began_at, latencies_ms=sorted(latencies_ms))


async def _wake_some(client: AsyncClient, numbers: Iterator[int], latencies_ms: list[float]) -> None:
    for number in numbers:
        began_at = perf_counter()
        await _wake_one(client, number)
        latencies_ms.append((perf_counter() - began_at) * 1_000)


async def _wake_one(client: AsyncClient, number: int) -> None:
    await client.publish(f"echo-{number}", MESSAGES, number)
    result = await client.wait_for_flow(f"echo-{number}", timeout=60)
    assert result.single_output(int) == number


if __name__ == "__main__":
    role, server, *rest = sys.argv[1:]
    uvloop.run(serve(server) if role == "worker" else wake(server, int(rest[0])))
