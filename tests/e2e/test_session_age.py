"""Real workers replace their sessions when the server asks them to [DRAIN-3]."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowStatus, HistoryEvent
from tests.support.crash_comparison import handler_faults, result_faults
from tests.support.crash_flows import CrashFlows, HeldFlow
from tests.support.deployment import Deployment, deployment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

YOUNG = ("--set", "matching.session_max_age=1s")

WAIT_S = 40.0


@dataclass
class World:
    """A deployment whose sessions grow old at once, and a client of it."""

    here: Deployment
    client: AsyncClient

    async def finish(self, flow_ids: Sequence[str]) -> Mapping[str, Sequence[HistoryEvent]]:
        """Wait until they have completed; gives their histories, which agree with what handlers did."""
        results = await asyncio.gather(*(self.client.wait_for_flow(flow_id, WAIT_S) for flow_id in flow_ids))
        assert {result.status for result in results} == {FlowStatus.COMPLETED}
        pages = await asyncio.gather(*(self.client.get_history(flow_id) for flow_id in flow_ids))
        histories = {flow_id: page.events for flow_id, page in zip(flow_ids, pages, strict=True)}
        assert list(result_faults(histories)) == []
        assert list(handler_faults(histories, self.here.record.calls())) == []
        return histories


@asynccontextmanager
async def new_world(scratch: Path, *arguments: str) -> AsyncIterator[World]:
    async with deployment(scratch, *YOUNG, *arguments) as here:
        options = ClientOptions(server_address=here.address)
        async with AsyncClient(CrashFlows().registry, None, options) as client:
            yield World(here, client)
        assert await here.stop_server() == 0
        await here.verify_log()


def unwanted(histories: Mapping[str, Sequence[HistoryEvent]]) -> list[str]:
    """What would show that a session took a call with it."""
    kinds = {"StepDeliveryLost", "StaleResultRejected", "ExecuteFailed"}
    return [event.kind for events in histories.values() for event in events if event.kind in kinds]


async def test_drain_3_worker_under_load_replaces_its_session_and_no_call_notices(tmp_path: Path) -> None:
    """Every handler runs once and every result is accepted once, over several sessions of one worker."""
    flow_ids = [f"call-{number}" for number in range(300)]
    async with new_world(tmp_path, "--set", "matching.dispatch_wait=30s") as world:
        world.here.open_gate()
        await world.here.start_worker(tasks=18)
        await asyncio.gather(*(world.client.start_flow(HeldFlow, flow_id, 0.25) for flow_id in flow_ids))
        histories = await world.finish(flow_ids)
        await world.here.sessions_opened(4)
        assert unwanted(histories) == []
        keys = [call.key for call in world.here.record.calls()]
        assert len(keys) == len(set(keys)) == len(flow_ids)


async def test_drain_3_handler_that_outlasts_its_sessions_goes_on_in_the_next_ones(tmp_path: Path) -> None:
    """[WIRE-10] It began once, and the worker takes other calls meanwhile."""
    async with new_world(tmp_path, "--set", "matching.dispatch_wait=1s") as world:
        await world.here.start_worker(tasks=4)
        await world.client.start_flow(HeldFlow, "long", 0.0)
        await world.here.record.began(1)
        await world.here.sessions_opened(4)
        await world.client.start_flow(HeldFlow, "other", 0.0)
        await world.here.record.began(2)
        world.here.open_gate()
        histories = await world.finish(["long", "other"])
        assert unwanted(histories) == []
        assert [call.delivery for call in world.here.record.calls()] == [1, 1]
