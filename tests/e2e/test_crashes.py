"""SIGKILL of servers and workers under load; what was acknowledged is compared afterwards [INV-1..4, DELIV-1..4].

Everything is real: processes, sockets, files, fsync. A failure prints its seed and leaves server and worker logs in the
test's temporary directory.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowStatus
from tests.support.crash_comparison import compare, handler_faults, result_faults
from tests.support.crash_flows import CrashFlows, HeldFlow
from tests.support.crash_load import CrashLoad
from tests.support.deployment import FAST_DETECTION, Deployment, Failpoint, deployment
from tests.support.failpoint_server import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

CLIENTS = 16
"""Requests that are open at once."""

PASSAGES = (1, 2, 7, 31)
"""From the first commit of a server's life, when sessions come back, to full load."""

KILL_DELAY_S_MAX = 0.01
"""A kill follows an acknowledgement within this, so that it meets a commit at any point."""


HANDLER_S = 0.05
"""What a handler takes where results have to trickle in: 1,000 of them are two seconds of work for two workers."""

GRACE_S = 10.0
"""The default of api.shutdown_grace."""

PROGRESS_S = 60.0
"""Acknowledgements that do not come within it fail the test."""


class Acknowledgements:
    """Lets tests await the n-th acknowledgement."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: dict[asyncio.Future[None], int] = {}

    def __call__(self) -> None:
        self.count += 1
        for waiter, count in list(self._waiting.items()):
            if count <= self.count:
                del self._waiting[waiter]
                waiter.set_result(None)

    async def reach(self, count: int) -> None:
        """Return when so many were seen."""
        if self.count < count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[waiter] = count
            async with asyncio.timeout(PROGRESS_S):
                await waiter


@asynccontextmanager
async def load_of(here: Deployment, seed: int) -> AsyncIterator[Acknowledgements]:
    """Two workers and a load; afterwards everything has finished and nothing is missing."""
    told = Acknowledgements()
    flows = CrashFlows()
    async with AsyncClient(flows.registry, None, ClientOptions(server_address=here.address)) as client:
        for _ in range(2):
            await here.start_worker()
        load = CrashLoad(client, flows.ledger, seed, told)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(CLIENTS))
            yield told
            load.end()
        faults = await compare(client, load.asked, here.record)
        assert faults == [], f"seed {seed}: {len(faults)} faults"
        assert len(load.told) >= 0.9 * len(load.asked), "a load that is hardly answered proves nothing"
    assert await here.stop_server() == 0
    report = await here.verify_log()
    assert report["runs"] > 0


def failpoints(rounds: int) -> Iterator[Failpoint]:
    for number in range(rounds):
        yield from (Failpoint(point, passage + number) for passage in PASSAGES for point in POINTS)


async def crash_at_failpoints(here: Deployment, rounds: int) -> None:
    async with load_of(here, seed=rounds):
        await here.kill_server()
        for failpoint in failpoints(rounds):
            await here.start_server(failpoint)
            await here.server_killed_itself()
        await here.start_server()
    assert here.server_kills == 1 + rounds * len(PASSAGES) * len(POINTS)


async def crash_at_random(here: Deployment, *, seed: int, cycles: int) -> None:
    """In turn kill the server twice and a worker once."""
    draw = random.Random(seed)
    async with load_of(here, seed) as told:
        for cycle in range(cycles):
            await told.reach(told.count + draw.randint(5, 60))
            await asyncio.sleep(draw.uniform(0, KILL_DELAY_S_MAX))
            if cycle % 3 == 2:
                await here.kill_worker(draw.choice(here.workers))
                await here.start_worker()
            else:
                await here.restart_server()
    assert here.server_kills + here.worker_kills == cycles


async def test_server_is_killed_at_every_failpoint_and_loses_nothing(tmp_path: Path) -> None:
    """[INV-1, INV-2, INV-3, ARCH-3]: before an append, inside it, after the commit and after the effects."""
    async with deployment(tmp_path, *FAST_DETECTION) as here:
        await crash_at_failpoints(here, rounds=1)


async def test_servers_and_workers_are_killed_at_random_and_nothing_is_lost(tmp_path: Path) -> None:
    """[INV-1, INV-3, INV-9, DELIV-1]"""
    async with deployment(tmp_path, *FAST_DETECTION) as here:
        await crash_at_random(here, seed=1, cycles=12)


async def test_thousand_flows_finish_while_the_server_is_killed_ten_times(tmp_path: Path) -> None:
    """[INV-1, INV-4, INV-9]: all open at once, two workers; two kills meet the starts, the others the results."""
    flows, kills = 1_000, 10
    started, finished = Acknowledgements(), Acknowledgements()
    async with deployment(tmp_path, *FAST_DETECTION) as here:
        here.open_gate()
        async with AsyncClient(CrashFlows().registry, None, ClientOptions(server_address=here.address)) as client:
            for _ in range(2):
                await here.start_worker()

            async def play(number: int) -> str:
                run_id = await client.start_flow(HeldFlow, f"flow-{number}", HANDLER_S)
                started()
                result = await client.wait_for_flow(f"flow-{number}")
                finished()
                assert result.status is FlowStatus.COMPLETED
                return run_id

            async with asyncio.TaskGroup() as group:
                playing = [group.create_task(play(number)) for number in range(flows)]
                for count in (1, flows // 2):
                    await started.reach(count)
                    await here.restart_server()
                for kill in range(1, kills - 1):
                    await finished.reach(flows * kill // kills)
                    await here.restart_server()
            infos = await asyncio.gather(*(client.describe_flow(f"flow-{number}") for number in range(flows)))
            assert [info.run_id for info in infos] == [played.result() for played in playing]
            histories = {info.flow_id: (await client.get_history(info.flow_id)).events for info in infos}
            assert [*result_faults(histories), *handler_faults(histories, here.record.calls())] == []
        assert here.server_kills == kills
        assert await here.stop_server() == 0
        assert (await here.verify_log())["runs"] == flows


async def test_servers_that_are_stopped_under_load_drain_within_the_grace_and_lose_nothing(tmp_path: Path) -> None:
    """[DRAIN-3, DRAIN-4, INV-1]: SIGTERM while clients ask and workers work; exit code 0, and the next one goes on."""
    async with deployment(tmp_path, *FAST_DETECTION) as here, load_of(here, seed=2) as told:
        for _ in range(3):
            await told.reach(told.count + 50)
            began = time.monotonic()
            assert await here.stop_server() == 0
            assert time.monotonic() - began < GRACE_S
            await here.start_server()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [11, 12, 13])
async def test_hundred_random_kills(tmp_path: Path, seed: int) -> None:
    """[INV-1, INV-3]; with the failpoints below this is 500 cycles."""
    async with deployment(tmp_path, *FAST_DETECTION) as here:
        await crash_at_random(here, seed=seed, cycles=100)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_two_hundred_kills_at_failpoints(tmp_path: Path) -> None:
    """[INV-1, INV-2, INV-3]"""
    async with deployment(tmp_path, *FAST_DETECTION) as here:
        await crash_at_failpoints(here, rounds=10)
