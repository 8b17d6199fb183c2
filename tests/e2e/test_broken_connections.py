"""Connections that are reset, cut in one direction, half-open or slow, between real processes [WIRE-7, WIRE-9]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowNotFoundError, FlowStatus, HistoryEvent, StartFlowOptions
from tests.support.crash_comparison import handler_faults, result_faults
from tests.support.crash_flows import END, ENTRIES, CrashFlows, HeldFlow, LedgerFlow, OneStepFlow
from tests.support.deployment import Deployment, deployment
from tests.support.fault_proxy import Direction, FaultProxy

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

SHORT_PING = ("--set", "matching.ping_interval=300ms", "--set", "matching.pong_timeout=300ms")

WAIT_S = 40.0


@dataclass
class World:
    """A deployment, a proxy in front of its server, and a client that does not use the proxy."""

    here: Deployment
    proxy: FaultProxy
    client: AsyncClient

    def proxied_client(self) -> AsyncClient:
        return AsyncClient(CrashFlows().registry, None, ClientOptions(server_address=self.proxy.address))

    async def finish(self, *flow_ids: str) -> list[str]:
        """Wait until they have completed; gives what they returned, "" for nothing."""
        results = await asyncio.gather(*(self.client.wait_for_flow(flow_id, WAIT_S) for flow_id in flow_ids))
        assert {result.status for result in results} == {FlowStatus.COMPLETED}
        return [str(result.completions[0].decode(object)) if result.completions else "" for result in results]

    async def histories(self, *flow_ids: str) -> dict[str, tuple[HistoryEvent, ...]]:
        pages = await asyncio.gather(*(self.client.get_history(flow_id) for flow_id in flow_ids))
        return {flow_id: page.events for flow_id, page in zip(flow_ids, pages, strict=True)}

    async def exists(self, flow_id: str) -> str:
        """Wait until the server knows a Flow; gives its run ID."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    return (await self.client.describe_flow(flow_id)).run_id
                except FlowNotFoundError:
                    await asyncio.sleep(0.005)


@asynccontextmanager
async def new_world(scratch: Path, *arguments: str) -> AsyncIterator[World]:
    async with deployment(scratch, *arguments) as here:
        with FaultProxy(here.address) as proxy:
            options = ClientOptions(server_address=here.address)
            async with AsyncClient(CrashFlows().registry, None, options) as client:
                yield World(here, proxy, client)
        assert await here.stop_server() == 0
        await here.verify_log()


# ---- workers -----------------------------------------------------------------------------------------------------


async def test_w10_session_reset_twenty_times_during_calls_finishes_each_once(tmp_path: Path) -> None:
    """[W10, WIRE-9, WIRE-10]: no result is lost or counted twice, and no call waits for its method timeout of 2 h."""
    flow_ids = [f"call-{number}" for number in range(200)]
    async with new_world(tmp_path) as world:
        world.here.open_gate()
        await world.here.start_worker(tasks=66, server=world.proxy.address)
        for flow_id in flow_ids:
            await world.client.start_flow(HeldFlow, flow_id, 1.0)
        for number in range(20):
            await world.here.sessions_opened(number + 1)
            assert world.proxy.reset() > 0
        await world.finish(*flow_ids)
        histories = await world.histories(*flow_ids)
        assert list(result_faults(histories)) == []
        assert list(handler_faults(histories, world.here.record.calls())) == []
        keys = [call.key for call in world.here.record.calls()]
        assert len(keys) == len(set(keys)) == 200, "what had begun was presented again each time"


async def test_w9_worker_that_hears_nothing_gets_no_calls_and_loses_those_it_had(tmp_path: Path) -> None:
    """[W9, WIRE-7]: only server to worker is cut, its Pongs of its own accord still arrive; after that it is back."""
    async with new_world(tmp_path, *SHORT_PING) as world:
        here = world.here
        deaf = await here.start_worker(server=world.proxy.address)
        await world.client.start_flow(HeldFlow, "had", 0.0)
        await here.record.began(1)
        other = await here.start_worker()
        world.proxy.cut(Direction.TO_CLIENT)
        await here.record.began(1, delivery=2)
        new = [f"new-{number}" for number in range(8)]
        for flow_id in new:
            await world.client.start_flow(HeldFlow, flow_id, 0.0)
        await here.record.began(10)
        here.open_gate()
        assert all(output.endswith(f"on {other.name}") for output in await world.finish("had", *new))

        world.proxy.heal()
        await here.kill_worker(other)
        await world.client.start_flow(OneStepFlow, "back", 1)
        await world.finish("back")
        assert here.record.calls()[-1].worker == deaf.name


async def test_half_open_session_is_given_up_and_its_call_runs_elsewhere(tmp_path: Path) -> None:
    """[WIRE-7, WIRE-9]: silence in both directions, as behind a firewall that has forgotten the connection."""
    async with new_world(tmp_path, *SHORT_PING) as world:
        here = world.here
        silent = await here.start_worker(server=world.proxy.address)
        await world.client.start_flow(HeldFlow, "held", 0.0)
        await here.record.began(1)
        other = await here.start_worker()
        world.proxy.cut(Direction.TO_CLIENT, Direction.TO_SERVER)
        await here.record.began(1, delivery=2)
        here.open_gate(other.name)
        await world.finish("held")
        events = (await world.histories("held"))["held"]
        workers = [event.data["worker_id"] for event in events if event.kind == "StepDispatched"]
        assert workers == [silent.name, other.name]


async def test_slow_connection_costs_time_and_nothing_else(tmp_path: Path) -> None:
    """[DELIV-1, DELIV-3]: 100 ms each way are no reason to redeliver."""
    flow_ids = [f"slow-{number}" for number in range(20)]
    async with new_world(tmp_path) as world:
        await world.here.start_worker(server=world.proxy.address)
        world.proxy.delay(0.1)
        for flow_id in flow_ids:
            await world.client.start_flow(OneStepFlow, flow_id, 7)
        assert await world.finish(*flow_ids) == ["7"] * 20
        assert {(call.attempt, call.delivery) for call in world.here.record.calls()} == {(1, 1)}
        assert len(world.here.record.calls()) == 20


# ---- clients -----------------------------------------------------------------------------------------------------


async def test_lost_replies_are_given_again_and_nothing_is_applied_twice(tmp_path: Path) -> None:
    """[GEN-8, START-3, START-6, RPC-12]: the server has committed, its reply is swallowed, the connection breaks."""
    async with new_world(tmp_path) as world, world.proxied_client() as client:
        await world.here.start_worker()
        await client.start_flow(LedgerFlow, "ledger")
        for number in range(5):
            world.proxy.cut(Direction.TO_CLIENT)
            starting = asyncio.create_task(client.start_flow(OneStepFlow, f"start-{number}", number))
            publishing = asyncio.create_task(client.publish("ledger", ENTRIES, f"word-{number}"))
            run_id = await world.exists(f"start-{number}")
            await world.client.wait_for_flow(f"start-{number}", WAIT_S)
            assert not starting.done()
            world.proxy.heal()
            assert await starting == run_id
            await publishing
        await client.publish("ledger", ENTRIES, END)
        await world.finish("ledger")
        events = (await world.histories("ledger"))["ledger"]
        assert published(events) == [*(f"word-{number}" for number in range(5)), END]


async def test_equal_requests_over_breaking_connections_are_one_request(tmp_path: Path) -> None:
    """[GEN-8, START-3, RPC-12]: two clients ask the same with the same request IDs, while their connections break."""
    count = 300
    numbers = range(count)
    async with new_world(tmp_path) as world, world.proxied_client() as one, world.proxied_client() as other:
        await world.here.start_worker()
        await one.start_flow(LedgerFlow, "ledger")

        async def start(client: AsyncClient, number: int) -> str:
            options = StartFlowOptions(request_id=f"start-{number}")
            return await client.start_flow(OneStepFlow, f"flow-{number}", number, options)

        async def publish(client: AsyncClient, number: int) -> None:
            await client.publish("ledger", ENTRIES, f"word-{number}", request_id=f"publish-{number}")

        async with asyncio.TaskGroup() as group:
            starts = [[group.create_task(start(client, number)) for number in numbers] for client in (one, other)]
            for client in (one, other):
                for number in numbers:
                    group.create_task(publish(client, number))
            for number in range(0, count, 30):
                await world.exists(f"flow-{number}")
                world.proxy.reset()
        first, second = ([task.result() for task in tasks] for tasks in starts)
        assert first == second
        assert len(set(first)) == count
        await one.publish("ledger", ENTRIES, END)
        await world.finish("ledger", *(f"flow-{number}" for number in numbers))
        words = published((await world.histories("ledger"))["ledger"])
        assert sorted(words) == sorted([*(f"word-{number}" for number in numbers), END])


def published(events: tuple[HistoryEvent, ...]) -> list[str]:
    """What clients' messages say, in the order of their commits."""
    return [
        message["value"] for event in events if event.kind == "ChannelPublished" for message in event.data["messages"]
    ]
