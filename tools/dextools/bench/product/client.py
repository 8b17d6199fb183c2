"""The product's client process: ``ADDRESS PLAN`` on the command line."""

import statistics
import sys

import msgspec
import uvloop

from dexsdk import AsyncClient, ClientOptions
from dextools.bench.load import ClosedLoop
from dextools.bench.measurement import LoadResult
from dextools.bench.notice import announce
from dextools.bench.product.flows import ChainFlow, Growth, GrowthFlow, growth_ratio, registry
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
        result = await (_drive_growth(client, plan) if plan.shape is Shape.GROWTH else _drive_chains(client, plan))
    announce("load_result", result=result)


async def _drive_chains(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    return await ClosedLoop(ChainClient(client, plan.steps).run_flow, plan).run()


async def _drive_growth(client: AsyncClient, plan: LoadPlan) -> LoadResult:
    growth = GrowthClient(client, plan.steps)
    result = await ClosedLoop(growth.run_flow, plan).run()
    return msgspec.structs.replace(result, growth_ratio=statistics.median(growth.ratios))


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], msgspec.json.decode(sys.argv[2], type=LoadPlan)))
