"""The product's worker process: ``ADDRESS`` on the command line."""

import asyncio
import signal
import sys

import uvloop

from dexsdk import AsyncWorker, PullWorkerOptions, WorkerOptions
from dextools.bench.notice import announce
from dextools.bench.product.flows import registry
from dextools.bench.workloads import AT_ONCE


async def work(address: str) -> None:
    """Serves calls until SIGTERM."""
    pull = PullWorkerOptions(max_concurrent_tasks=AT_ONCE)
    worker = AsyncWorker(registry(), None, WorkerOptions(server_address=address, pull=pull))
    running = asyncio.create_task(worker.start())
    await worker.wait_pull_registered(timeout=30)
    announce("worker_ready")
    told_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_end.set)
    await told_to_end.wait()
    await worker.close()
    await running


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
