"""One run of one system: its processes from start to end, and what they cost inside the window."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from dextools.bench.measurement import CpuSeconds, LoadResult, Run
from dextools.bench.process import Child
from dextools.bench.systems import System, profiled
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


async def perform(system: System, plan: LoadPlan, profiles: Path | None = None) -> Run:
    """Runs the plan on fresh processes and an empty data directory, under the profiler if its reports have a place."""
    async with staged(system, plan, profiles) as cast:
        await cast.client.expect("window_open", plan.warm_up_s + CLIENT_MARGIN_S)
        before = cast.cpu()
        await cast.client.expect("window_closed", plan.window_s + CLIENT_MARGIN_S)
        after = cast.cpu()
        report = await cast.client.expect("load_result", CLIENT_MARGIN_S)
        await cast.client.ended()
    load = msgspec.json.decode(report, type=_LoadReport).result
    return Run(load=load, cpu=_difference(before, after))


@asynccontextmanager
async def staged(system: System, plan: LoadPlan, profiles: Path | None = None) -> AsyncIterator[Cast]:
    """Starts the processes in order, each when the one before it is ready, and ends them the other way round."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dexd-bench-")))
        stage = _Stage(stack, directory, profiles)
        server, address, worker = None, "", None
        if system.server:
            server = await stage.spawn("server", system.server_argv(directory))
            address = msgspec.json.decode(await server.expect("server_ready"), type=_ServerReady).address
        if system.worker:
            worker = await stage.spawn("worker", system.worker_argv(address))
            await worker.expect("worker_ready")
        client = await stage.spawn("client", system.client_argv(address, plan))
        yield Cast(server, worker, client)


class _Stage:
    def __init__(self, stack: AsyncExitStack, directory: Path, profiles: Path | None) -> None:
        self._stack = stack
        self._directory = directory
        self._profiles = profiles

    async def spawn(self, name: str, argv: tuple[str, ...]) -> Child:
        if self._profiles is not None:
            argv = profiled(argv, self._profiles / f"{name}.txt")
        child = await Child.spawn(name, argv, self._directory / f"{name}.log")
        self._stack.push_async_callback(child.stop)
        return child


def _difference(before: CpuSeconds, after: CpuSeconds) -> CpuSeconds:
    return CpuSeconds(
        server=after.server - before.server, worker=after.worker - before.worker, client=after.client - before.client
    )
