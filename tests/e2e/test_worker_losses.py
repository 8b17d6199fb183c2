"""Worker processes that are killed or frozen while they run calls, and servers that come back meanwhile [LOST-1..3]."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowStatus, HistoryEvent
from tests.support.crash_comparison import handler_faults
from tests.support.crash_flows import CrashFlows, HeldFlow
from tests.support.deployment import Deployment, deployment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

SHORT_RESUME = ("--set", "matching.resume_wait=300ms")
FROZEN_S = 60.0
"""How long the worker of the long form of W12 is frozen; twice as long as the server takes to miss it by default."""

AWAY_S = 12.0
"""How long a server is away until delays between tries have reached their longest."""

SHORT_PING = ("--set", "matching.ping_interval=300ms", "--set", "matching.pong_timeout=300ms")

WAIT_S = 30.0


class World:
    """A deployment and a client of it."""

    def __init__(self, here: Deployment, client: AsyncClient) -> None:
        self.here = here
        self.client = client

    async def hold(self, count: int, prefix: str = "held") -> list[str]:
        """Start Flows whose handlers wait for their gate."""
        flow_ids = [f"{prefix}-{number}" for number in range(count)]
        for flow_id in flow_ids:
            await self.client.start_flow(HeldFlow, flow_id, 0.0)
        return flow_ids

    async def finish(self, flow_ids: Sequence[str]) -> list[str]:
        """Wait until they have completed; gives what their handlers returned."""
        results = [await self.client.wait_for_flow(flow_id, WAIT_S) for flow_id in flow_ids]
        assert {result.status for result in results} == {FlowStatus.COMPLETED}
        return [result.single_output(str) for result in results]

    async def history(self, flow_id: str) -> Sequence[HistoryEvent]:
        return (await self.client.get_history(flow_id)).events

    async def seen(self, flow_id: str, kind: str) -> HistoryEvent:
        """Wait for an event, after the Flow's end too."""
        async with asyncio.timeout(WAIT_S):
            while True:
                async for event in self.client.watch_history(flow_id):
                    if event.kind == kind:
                        return event


@asynccontextmanager
async def new_world(scratch: Path, *arguments: str) -> AsyncIterator[World]:
    async with deployment(scratch, *arguments) as here:
        options = ClientOptions(server_address=here.address)
        async with AsyncClient(CrashFlows().registry, None, options) as client:
            yield World(here, client)
        assert await here.stop_server() == 0
        await here.verify_log()


def hand_overs(events: Sequence[HistoryEvent]) -> list[tuple[str, int, int]]:
    """Worker, attempt and delivery of every dispatch."""
    return [
        (event.data["worker_id"], event.data["attempt"], event.data["delivery"])
        for event in events
        if event.kind == "StepDispatched"
    ]


async def test_row_27_call_of_a_killed_worker_is_redelivered_once_and_then_backs_off(tmp_path: Path) -> None:
    """[LOST-1, LOST-2, DELIV-1]: delivery 2 of the same attempt, then WORKER_LOST and attempt 2 after a second."""
    async with new_world(tmp_path, *SHORT_RESUME) as world:
        here = world.here
        first = await here.start_worker()
        (flow_id,) = await world.hold(1)
        await here.record.began(1)
        second = await here.start_worker()
        await here.kill_worker(first)
        await here.record.began(1, delivery=2)
        third = await here.start_worker()
        await here.kill_worker(second)
        await here.record.began(1, attempt=2)
        here.open_gate()
        await world.finish([flow_id])

        events = await world.history(flow_id)
        assert hand_overs(events) == [(first.name, 1, 1), (second.name, 1, 2), (third.name, 2, 1)]
        assert sum(event.kind == "StepDeliveryLost" for event in events) == 2
        (failed,) = [event for event in events if event.kind == "ExecuteFailed"]
        assert failed.data["output"]["failure"]["error_type"] == "WORKER_LOST"
        assert events[-3].at - failed.at >= timedelta(seconds=1), "the default backoff"
        keys = {call.key for call in here.record.calls()}
        assert keys == {f"{flow_id}/HoldStep-1"}, "one key for all attempts and deliveries [ID-9]"


@pytest.mark.parametrize(
    ("frozen_s", "settings"),
    [
        pytest.param(0.0, SHORT_PING, id="short-pings"),
        pytest.param(FROZEN_S, (), id="defaults", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
async def test_w12_result_of_a_frozen_worker_is_stale_once_another_one_has_answered(
    tmp_path: Path, frozen_s: float, settings: Sequence[str]
) -> None:
    """[W12, LOST-3, DELIV-2, WIRE-7]"""
    async with new_world(tmp_path, *settings) as world:
        here = world.here
        frozen = await here.start_worker()
        (flow_id,) = await world.hold(1)
        await here.record.began(1)
        other = await here.start_worker()
        frozen.freeze()
        frozen_at = time.monotonic()
        await here.record.began(1, delivery=2, deadline_s=FROZEN_S)
        here.open_gate(other.name)
        (output,) = await world.finish([flow_id])
        await asyncio.sleep(frozen_at + frozen_s - time.monotonic())
        # Its handler is done when it wakes up; so it has a result, and nobody has told it yet that nobody wants it.
        here.open_gate(frozen.name)
        frozen.thaw()

        stale = await world.seen(flow_id, "StaleResultRejected")
        assert (stale.data["worker_id"], stale.data["attempt"], stale.data["delivery"]) == (frozen.name, 1, 1)
        assert output.endswith(f"on {other.name}")
        assert (await world.finish([flow_id])) == [output], "a late result changes nothing"
        assert hand_overs(await world.history(flow_id)) == [(frozen.name, 1, 1), (other.name, 1, 2)]


async def test_w13_running_calls_survive_server_after_server_without_redelivery(tmp_path: Path) -> None:
    """[W13, WIRE-10, DELIV-4]: killed twice before the worker is back, and once more after that."""
    async with new_world(tmp_path) as world:
        here = world.here
        worker = await here.start_worker()
        flow_ids = await world.hold(10)
        await here.record.began(10)
        await here.restart_server()
        await here.restart_server()
        await here.sessions_opened(2)
        await here.restart_server()
        here.open_gate()
        await world.finish(flow_ids)
        for flow_id in flow_ids:
            assert hand_overs(await world.history(flow_id)) == [(worker.name, 1, 1)]
        assert len(here.record.calls()) == 10


@pytest.mark.long
async def test_w13_running_calls_survive_a_server_that_was_away_for_long(tmp_path: Path) -> None:
    """[W13, WIRE-9, WIRE-11]: the worker's delays have grown, and it still comes before its calls are given up."""
    async with new_world(tmp_path) as world:
        here = world.here
        worker = await here.start_worker()
        flow_ids = await world.hold(10)
        await here.record.began(10)
        for _ in range(3):
            await here.kill_server()
            await asyncio.sleep(AWAY_S)
            await here.start_server()
        here.open_gate()
        await world.finish(flow_ids)
        for flow_id in flow_ids:
            assert hand_overs(await world.history(flow_id)) == [(worker.name, 1, 1)]
        assert len(here.record.calls()) == 10


async def test_calls_are_redelivered_when_server_and_worker_are_both_killed(tmp_path: Path) -> None:
    """[WIRE-11, DELIV-4]: the time for re-presenting counts from listening."""
    async with new_world(tmp_path, *SHORT_RESUME) as world:
        here = world.here
        lost = await here.start_worker()
        flow_ids = await world.hold(5)
        await here.record.began(5)
        await here.kill_server()
        await here.kill_worker(lost)
        await here.start_server()
        successor = await here.start_worker()
        here.open_gate()
        await world.finish(flow_ids)
        histories = {flow_id: await world.history(flow_id) for flow_id in flow_ids}
        for events in histories.values():
            assert hand_overs(events) == [(lost.name, 1, 1), (successor.name, 1, 2)]
        assert list(handler_faults(histories, here.record.calls())) == []


async def test_w11_terminated_worker_drains_and_nothing_is_run_again(tmp_path: Path) -> None:
    """[W11, DRAIN-1, DRAIN-2]: SIGTERM during a call; its result counts, and new calls go elsewhere."""
    async with new_world(tmp_path) as world:
        here = world.here
        draining = await here.start_worker()
        (flow_id,) = await world.hold(1)
        await here.record.began(1)
        other = await here.start_worker()
        await asyncio.to_thread(draining.terminate)
        (later,) = await world.hold(1, "later")
        await here.record.began(2)
        here.open_gate()
        await world.finish([flow_id, later])
        assert await asyncio.to_thread(draining.wait) == 0
        assert hand_overs(await world.history(flow_id)) == [(draining.name, 1, 1)]
        assert hand_overs(await world.history(later)) == [(other.name, 1, 1)]
