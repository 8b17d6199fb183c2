"""Where calls go: to the worker that last served the Flow, to one that knows the Step, to one that is yet to come.

Acceptance W2 to W6 of the pull workers, with real processes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dexsdk import AsyncClient, ClientOptions, DexServiceError, FlowStatus, HistoryEvent, Registry
from tests.support.crash_flows import END, ENTRIES, CrashFlows, HeldFlow, LedgerFlow, OneStepFlow
from tests.support.deployment import Deployment, deployment
from tests.support.release_flows import GO, PARCEL_FLOW, SHIP_ATTEMPTS, new_registry

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

WAIT_S = 30.0

SHORT_DISPATCH = ("--set", "matching.dispatch_wait=1s", "--set", "matching.sticky_wait=500ms")

ABSENCE_S = 3.0
"""How long no worker is there [W6]."""


class World:
    """A deployment and a client of it."""

    def __init__(self, here: Deployment, client: AsyncClient) -> None:
        self.here = here
        self.client = client

    async def output(self, flow_id: str) -> Any:
        """What it completed with."""
        result = await self.client.wait_for_flow(flow_id, WAIT_S)
        assert result.status is FlowStatus.COMPLETED
        return result.completions[0].decode(object) if result.completions else None

    async def events(self, flow_id: str, kind: str) -> Sequence[HistoryEvent]:
        history = await self.client.get_history(flow_id)
        return [event for event in history.events if event.kind == kind]

    async def last_dispatch(self, flow_id: str) -> dict[str, Any]:
        return dict((await self.events(flow_id, "StepDispatched"))[-1].data)

    async def seen(self, flow_id: str, kind: str) -> HistoryEvent:
        """Wait for an event."""
        async with asyncio.timeout(WAIT_S):
            async for event in self.client.watch_history(flow_id):
                if event.kind == kind:
                    return event
        raise AssertionError(f"{flow_id} ended without {kind}")

    async def parcel_sticks_to_old_release(self, flow_id: str) -> str:
        """Park a Flow in a Step that only the new release knows, and have an old worker serve it last; gives its name.

        No worker of the new release is left then.
        """
        new = await self.here.start_worker(release="new")
        await self.client.start_flow(PARCEL_FLOW, flow_id, "parcel")
        await self.seen(flow_id, "WaitForCompleted")
        await self.here.kill_worker(new)
        old = await self.here.start_worker(release="old")
        assert await self.client.invoke_rpc(PARCEL_FLOW.touch, flow_id, "mine") == "mine"
        return old.name


@asynccontextmanager
async def new_world(scratch: Path, registry: Registry, *arguments: str) -> AsyncIterator[World]:
    async with deployment(scratch, *arguments) as here:
        async with AsyncClient(registry, None, ClientOptions(server_address=here.address)) as client:
            yield World(here, client)
        assert await here.stop_server() == 0
        await here.verify_log()


@pytest.mark.parametrize("wait_ms", [1_000, pytest.param(5_000, marks=pytest.mark.long)])
async def test_w2_call_waits_for_its_busy_sticky_worker_and_then_runs_elsewhere(tmp_path: Path, wait_ms: int) -> None:
    """[W2, ROUTE-2]: declined by the worker that it would rather have, then given to the other one. 5 s is default."""
    async with new_world(tmp_path, CrashFlows().registry, "--set", f"matching.sticky_wait={wait_ms}ms") as world:
        here = world.here
        # Three tasks, two of them for RPCs: one Step keeps it busy.
        sticky = await here.start_worker(tasks=3)
        await world.client.start_flow(LedgerFlow, "ledger")
        await world.seen("ledger", "WaitForCompleted")
        await world.client.start_flow(HeldFlow, "held", 0.0)
        await here.record.began(2)
        other = await here.start_worker()
        await world.client.publish("ledger", ENTRIES, END)
        await world.output("ledger")
        dispatch = await world.last_dispatch("ledger")
        assert (dispatch["worker_id"], dispatch["attempt"]) == (other.name, 1)
        assert wait_ms <= dispatch["waited_ms"] <= wait_ms + 1_000
        assert {offer["worker_id"] for offer in dispatch["declined"]} == {sticky.name}
        assert {offer["reason"] for offer in dispatch["declined"]} == {"NO_CAPACITY"}
        here.open_gate()
        await world.output("held")


async def test_w3_flow_moves_at_once_when_its_idle_sticky_worker_is_killed(tmp_path: Path) -> None:
    """[W3, ROUTE-1]"""
    async with new_world(tmp_path, CrashFlows().registry) as world:
        here = world.here
        sticky = await here.start_worker()
        await world.client.start_flow(LedgerFlow, "ledger")
        await world.seen("ledger", "WaitForCompleted")
        other = await here.start_worker()
        await here.kill_worker(sticky)
        await world.client.publish("ledger", ENTRIES, END)
        await world.output("ledger")
        dispatch = await world.last_dispatch("ledger")
        assert dispatch["worker_id"] == other.name
        assert dispatch["waited_ms"] <= 200


async def test_w4_step_that_its_sticky_worker_lacks_runs_elsewhere_at_once(tmp_path: Path) -> None:
    """[W4, ROUTE-5, ROUTE-9]: in the first attempt, and the history says who was passed over and why."""
    async with new_world(tmp_path, new_registry()) as world:
        old = await world.parcel_sticks_to_old_release("parcel")
        new = await world.here.start_worker(release="new")
        await world.client.publish("parcel", GO, "north")
        assert await world.output("parcel") == "parcel north, attempt 1"
        dispatch = await world.last_dispatch("parcel")
        assert (dispatch["worker_id"], dispatch["attempt"], dispatch["delivery"]) == (new.name, 1, 1)
        assert [(offer["worker_id"], offer["reason"]) for offer in dispatch["declined"]] == [(old, "UNKNOWN_STEP")]
        assert dispatch["waited_ms"] < 1_000, "far less than the sticky wait of 5 s"


async def test_w5_step_and_rpc_that_nobody_knows_fail_by_their_names(tmp_path: Path) -> None:
    """[W5, ROUTE-4, ROUTE-5]: after as many attempts as its policy allows, and after one dispatch wait."""
    async with new_world(tmp_path, new_registry(), *SHORT_DISPATCH) as world:
        await world.parcel_sticks_to_old_release("parcel")
        with pytest.raises(DexServiceError, match="price"):
            await world.client.invoke_rpc(PARCEL_FLOW.price, "parcel")
        await world.client.publish("parcel", GO, "north")
        result = await world.client.wait_for_flow("parcel", WAIT_S)
        assert result.status is FlowStatus.FAILED
        assert result.error_message is not None
        assert "ShipStep" in result.error_message
        failures = await world.events("parcel", "ExecuteFailed")
        assert [failure.data["attempt"] for failure in failures] == [1, SHIP_ATTEMPTS]
        assert {failure.data["output"]["failure"]["error_type"] for failure in failures} == {"NO_WORKER_AVAILABLE"}
        handed_over = [event.data for event in await world.events("parcel", "StepDispatched")]
        assert [(data["step_execution_id"], data["method"]) for data in handed_over] == [
            ("OfferStep-1", "EXECUTE"),
            ("ShipStep-1", "WAIT_FOR"),
        ]


async def test_w6_step_waits_for_a_worker_that_is_yet_to_come(tmp_path: Path) -> None:
    """[W6, ROUTE-3, DRAIN-5]: the dispatch wait is longer than the start of a worker."""
    async with new_world(tmp_path, CrashFlows().registry) as world:
        await world.client.start_flow(OneStepFlow, "flow", 7)
        await asyncio.sleep(ABSENCE_S)
        worker = await world.here.start_worker()
        assert await world.output("flow") == 7
        (dispatch,) = await world.events("flow", "StepDispatched")
        assert (dispatch.data["worker_id"], dispatch.data["attempt"]) == (worker.name, 1)
        assert dispatch.data["waited_ms"] >= ABSENCE_S * 1000


async def test_w6_step_is_tried_again_when_no_worker_came_within_the_dispatch_wait(tmp_path: Path) -> None:
    """[W6, ROUTE-4, DRAIN-5]: attempts are consumed, so the retry policy has to outlast the start of a worker."""
    async with new_world(tmp_path, CrashFlows().registry, *SHORT_DISPATCH) as world:
        await world.client.start_flow(OneStepFlow, "flow", 7)
        failed = await world.seen("flow", "ExecuteFailed")
        assert failed.data["output"]["failure"]["error_type"] == "NO_WORKER_AVAILABLE"
        await world.here.start_worker()
        assert await world.output("flow") == 7
        assert (await world.last_dispatch("flow"))["attempt"] >= 2
