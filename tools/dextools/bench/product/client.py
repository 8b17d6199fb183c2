"""The product's client process: ``ADDRESS PLAN`` on the command line."""

import statistics
import sys
from collections.abc import Awaitable, Callable

import msgspec
import uvloop

from dexsdk import AsyncClient, ClientOptions
from dextools.bench.load import ClosedLoop
from dextools.bench.measurement import LoadResult, quantile
from dextools.bench.notice import announce
from dextools.bench.product.echoes import EchoClient
from dextools.bench.product.entities import EntityClient
from dextools.bench.product.fan_out import FanOutClient
from dextools.bench.product.flows import ChainFlow, Growth, GrowthFlow, growth_ratio, registry
from dextools.bench.product.timers import SleepClient
from dextools.bench.workloads import LoadPlan, Shape


class FlowEndedError(Exception):
    """A Flow of the benchmark did not complete."""


class ChainClient:
    """Starts chains and waits for their results."""

    def __init__(self, client: AsyncClient, steps: int) -> None:
        self._client = client
        self._input = steps - 1

    async def run_flow(self, number: int) -> None:
        flow_id = f"chain-{number}"
        await self._client.start_flow(ChainFlow, flow_id, self._input)
        result = await self._client.wait_for_flow(flow_id, timeout=60)
        if not result.single_output(bool):
            raise FlowEndedError(f"Flow {flow_id} ended as {result.status}")


class GrowthClient:
    """Runs long Flows and keeps how their time per Step grew."""

    def __init__(self, client: AsyncClient, steps: int) -> None:
        self._client = client
        self._steps = steps
        self.ratios: list[float] = []

    async def run_flow(self, number: int) -> None:
        flow_id = f"growth-{number}"
        await self._client.start_flow(GrowthFlow, flow_id, Growth(self._steps))
        result = await self._client.wait_for_flow(flow_id, timeout=60)
        self.ratios.append(growth_ratio(result.single_output(list[float])))


async def drive(address: str, plan: LoadPlan) -> None:
    """Runs the load and announces what it measured."""
    async with AsyncClient(registry(), None, ClientOptions(server_address=address)) as client:
        result = await DRIVERS[plan.shape](client, plan)
    announce("load_result", result=result)


async def _drive_chains(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    return await ClosedLoop(ChainClient(client, plan.steps).run_flow, plan).run()


async def _drive_growth(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    growth = GrowthClient(client, plan.steps)
    result = await ClosedLoop(growth.run_flow, plan).run()
    return msgspec.structs.replace(result, growth_ratio=statistics.median(growth.ratios))


async def _drive_fan_out(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    fan_out = FanOutClient(client, plan.steps)
    result = await ClosedLoop(fan_out.run_flow, plan).run()
    return msgspec.structs.replace(result, join_p99_ms=quantile(sorted(fan_out.joins_ms), 0.99))


async def _drive_timers(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    return await ClosedLoop(SleepClient(client).run_flow, plan).run()


async def _drive_reads(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    entities = EntityClient(client)
    await entities.prepare()
    return await ClosedLoop(entities.read, plan).run()


async def _drive_writes(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    entities = EntityClient(client)
    await entities.prepare()
    return await ClosedLoop(entities.write, plan).run()


async def _drive_echoes(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    echoes = EchoClient(client)
    await echoes.prepare()
    return await ClosedLoop(echoes.run_flow, plan).run()


DRIVERS: dict[Shape, Callable[[AsyncClient, LoadPlan], Awaitable[LoadResult]]] = {
    Shape.CHAIN: _drive_chains,
    Shape.GROWTH: _drive_growth,
    Shape.FAN_OUT: _drive_fan_out,
    Shape.TIMER: _drive_timers,
    Shape.RPC_READ: _drive_reads,
    Shape.RPC_WRITE: _drive_writes,
    Shape.ECHO: _drive_echoes,
}
"""How the Flows of each shape are driven."""


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], msgspec.json.decode(sys.argv[2], type=LoadPlan)))
