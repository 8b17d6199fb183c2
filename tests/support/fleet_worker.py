"""Many workers in one process, run as a program.

It says on stdout when all of them are registered, answers each line on stdin with how they stand, and ends when stdin
does.
"""

import argparse
import asyncio
import json
import sys
import threading

from dexsdk import AsyncWorker, PullWorkerOptions, Registry, WorkerOptions
from tests.support.fleet_flow import EchoFlow

READY_TIMEOUT_S = 120


async def work(server: str, count: int) -> None:
    pull = PullWorkerOptions(max_concurrent_tasks=4, stop_drain_timeout=5)
    options = WorkerOptions(server_address=server, pull=pull)
    registry = Registry((EchoFlow(),), allow_async_handlers=True)
    workers = [AsyncWorker(registry, None, options) for _ in range(count)]
    running = [asyncio.create_task(worker.start()) for worker in workers]
    await asyncio.gather(*(worker.wait_pull_registered(READY_TIMEOUT_S) for worker in workers))
    report(workers)
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def answer() -> None:
        for _ in sys.stdin:
            report(workers)
        loop.call_soon_threadsafe(is_over.set)

    threading.Thread(target=answer, daemon=True).start()
    await is_over.wait()
    await asyncio.gather(*(worker.close() for worker in workers))
    await asyncio.gather(*running)


def report(workers: list[AsyncWorker]) -> None:
    """Say how many are ready, and how many have a registered stream on every queue."""
    states = [worker.pull_registration_state() for worker in workers]
    counts = {
        "ready": sum(state.is_ready for state in states),
        "registered": sum(all(queue.has_registered_stream for queue in state.queues) for state in states),
    }
    sys.stdout.write(json.dumps(counts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--count", type=int, required=True)
    arguments = parser.parse_args()
    asyncio.run(work(arguments.server, arguments.count))
