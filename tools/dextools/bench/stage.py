"""One run of one system: its processes from start to end, and what they cost inside the window."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from dextools.bench.measurement import CpuSeconds, LoadResult, Run
from dextools.bench.process import Child
from dextools.bench.systems import System
from dextools.bench.workloads import LoadPlan

CLIENT_MARGIN_S = 60.0
"""How long the open Flows may take to end after the window."""


class Cast(NamedTuple):
    """The processes of a run. What a system does not have is None."""

    server: Child | None
    worker: Child | None
    client: Child

    def cpu(self) -> CpuSeconds:
        server, worker, client = (child.cpu_seconds() if child else 0.0 for child in self)
        return CpuSeconds(server=server, worker=worker, client=client)


class _ServerReady(msgspec.Struct):
    address: str


class _LoadReport(msgspec.Struct):
    result: LoadResult


async def perform(system: System, plan: LoadPlan) -> Run:
    """Runs the plan on fresh processes and an empty data directory."""
    async with cast_of(system, plan) as cast:
        await cast.client.expect("window_open", plan.warm_up_s + CLIENT_MARGIN_S)
        before = cast.cpu()
        await cast.client.expect("window_closed", plan.window_s + CLIENT_MARGIN_S)
        after = cast.cpu()
        report = await cast.client.expect("load_result", CLIENT_MARGIN_S)
    load = msgspec.json.decode(report, type=_LoadReport).result
    return Run(load=load, cpu=_difference(before, after))


@asynccontextmanager
async def cast_of(system: System, plan: LoadPlan) -> AsyncIterator[Cast]:
    """Starts the processes in order, each when the one before it is ready, and ends them the other way round."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dexd-bench-")))
        server, address, worker = None, "", None
        if system.server:
            server = await _spawn(stack, "server", system.server_argv(directory / "data"), directory)
            address = msgspec.json.decode(await server.expect("server_ready"), type=_ServerReady).address
        if system.worker:
            worker = await _spawn(stack, "worker", system.worker_argv(address), directory)
            await worker.expect("worker_ready")
        client = await _spawn(stack, "client", system.client_argv(address, plan), directory)
        yield Cast(server, worker, client)


async def _spawn(stack: AsyncExitStack, name: str, argv: Sequence[str], directory: Path) -> Child:
    (directory / "data").mkdir(exist_ok=True)
    child = await Child.spawn(name, argv, directory / f"{name}.log")
    stack.push_async_callback(child.stop)
    return child


def _difference(before: CpuSeconds, after: CpuSeconds) -> CpuSeconds:
    return CpuSeconds(
        server=after.server - before.server, worker=after.worker - before.worker, client=after.client - before.client
    )
