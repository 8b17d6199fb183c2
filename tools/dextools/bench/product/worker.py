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
    # No slot is kept for RPCs, since with one less than there are Flows the worker would decline calls all the time.
    pull = PullWorkerOptions(max_concurrent_tasks=AT_ONCE, reserved_rpc_tasks=0)
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
