"""The benchmark's closed loop, its outgoing queue and the marks of long Flows."""

import asyncio

import msgspec
import pytest

from dextools.bench.load import ClosedLoop
from dextools.bench.outbox import Outbox
from dextools.bench.product.client import DRIVERS
from dextools.bench.workloads import WORKLOADS, LoadPlan, Shape

PLAN = LoadPlan(steps=5, at_once=4, warm_up_s=0.0, window_s=30.0, flows_max=20)


class CountingFlows:
    """Flows of two loop turns each, which note how many are open."""

    def __init__(self) -> None:
        self.open = 0
        self.open_max = 0

    async def run_flow(self, number: int) -> None:
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.open -= 1


async def test_closed_loop_keeps_the_planned_number_of_flows_open_and_lets_them_end() -> None:
    flows = CountingFlows()
    await ClosedLoop(flows.run_flow, PLAN).run()
    assert flows.open_max == PLAN.at_once
    assert flows.open == 0


async def test_flows_may_say_how_much_of_their_time_counts() -> None:
    async def run_flow(number: int) -> float:
        await asyncio.sleep(0)
        return float(number)

    result = await ClosedLoop(run_flow, msgspec.structs.replace(PLAN, at_once=1, flows_max=3)).run()
    assert result.latencies_ms[:3] == [float(result.latencies_ms[0]) + n for n in range(3)]


def test_every_shape_of_load_has_a_driver() -> None:
    assert set(DRIVERS) == set(Shape)
    assert {workload.shape for workload in WORKLOADS.values()} == set(Shape)


async def test_window_ends_with_the_planned_number_of_flows() -> None:
    result = await ClosedLoop(CountingFlows().run_flow, PLAN).run()
    assert result.flows >= PLAN.flows_max
    assert result.steps == result.flows * PLAN.steps
    assert len(result.latencies_ms) == result.flows
    assert result.latencies_ms == sorted(result.latencies_ms)


async def test_failing_flow_fails_the_run() -> None:
    async def run_flow(number: int) -> None:
        raise ValueError(number)

    with pytest.raises(ExceptionGroup) as raised:
        await ClosedLoop(run_flow, PLAN).run()
    assert raised.group_contains(ValueError)


async def test_window_is_announced_to_the_parent(capsys: pytest.CaptureFixture[str]) -> None:
    await ClosedLoop(CountingFlows().run_flow, PLAN).run()
    lines = capsys.readouterr().out.splitlines()
    assert [msgspec.json.decode(line)["event"] for line in lines] == ["window_open", "window_closed"]


async def test_outbox_gives_everything_that_is_queued_at_once_and_then_waits() -> None:
    outbox: Outbox[int] = Outbox()
    outbox.put(1)
    outbox.put(2)
    assert await outbox.take() == [1, 2]
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.put(3)
    outbox.put(4)
    assert await taking == [3, 4]
