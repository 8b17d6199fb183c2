"""A worker process for `crash_flows`, or a release of `release_flows`, run as a program.

It says on stdout when it is ready and, after SIGTERM, when it drains.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from dexsdk import AsyncWorker, PullWorkerOptions, Registry, WorkerOptions
from tests.support.crash_flows import CrashFlows, Workshop
from tests.support.handler_record import HandlerRecord
from tests.support.release_flows import new_registry, old_registry

READY_TIMEOUT_S = 60


async def work(options: argparse.Namespace) -> None:
    pull = PullWorkerOptions(
        max_concurrent_tasks=options.tasks, idle_streams_per_queue=2, reserved_rpc_tasks=2, app_worker_id=options.name
    )
    worker = AsyncWorker(registry_of(options), None, WorkerOptions(server_address=options.server, pull=pull))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    running = asyncio.create_task(worker.start())
    await worker.wait_pull_registered(timeout=READY_TIMEOUT_S)
    announce("worker_ready")
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    # The worker takes nothing any more.
    announce("worker_draining")
    await closing
    await running


def registry_of(options: argparse.Namespace) -> Registry:
    if options.release:
        return {"old": old_registry, "new": new_registry}[options.release]()
    scratch: Path = options.scratch
    workshop = Workshop(HandlerRecord(scratch / "calls.jsonl"), options.name, scratch / "gates")
    return CrashFlows(workshop).registry


def announce(event: str) -> None:
    sys.stdout.write(json.dumps({"event": event, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--release", choices=("old", "new"))
    asyncio.run(work(parser.parse_args()))
