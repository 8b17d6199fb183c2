"""Worker processes side by side: twins, a rolling deployment, and what they do to the machine they run on."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowStatus, HistoryEvent
from dextools.local_processes import CHECKOUT
from tests.support.crash_flows import CrashFlows, HeldFlow, OneStepFlow
from tests.support.deployment import Deployment, deployment
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

WAIT_S = 30.0

LISTENING = "0A"
"""TCP_LISTEN in the kernel's tables."""


@asynccontextmanager
async def new_world(scratch: Path, *arguments: str) -> AsyncIterator[tuple[Deployment, AsyncClient]]:
    async with deployment(scratch, *arguments) as here:
        options = ClientOptions(server_address=here.address)
        async with AsyncClient(CrashFlows().registry, None, options) as client:
            yield here, client
        assert await here.stop_server() == 0
        await here.verify_log()


async def dispatches(client: AsyncClient, flow_id: str) -> Sequence[HistoryEvent]:
    return [event for event in (await client.get_history(flow_id)).events if event.kind == "StepDispatched"]


async def test_w16_newer_twin_wins_and_gets_the_calls_of_the_older_one(tmp_path: Path) -> None:
    """[W16, QUEUE-2, DELIV-1]: the older process ends by itself and says why, and no call is lost."""
    async with new_world(tmp_path) as (here, client):
        older = await here.start_worker(name="twin")
        flow_ids = [f"held-{number}" for number in range(5)]
        for flow_id in flow_ids:
            await client.start_flow(HeldFlow, flow_id, 0.0)
        await here.record.began(5)
        await here.start_worker(name="twin")
        await here.record.began(5, delivery=2)
        assert await asyncio.to_thread(older.wait) == 1
        here.workers.remove(older)
        assert "WORKER_ID_SUPERSEDED" in older.log_path.read_text()
        here.open_gate()
        results = [await client.wait_for_flow(flow_id, WAIT_S) for flow_id in flow_ids]
        assert {result.status for result in results} == {FlowStatus.COMPLETED}
        for flow_id in flow_ids:
            incarnations = [event.data["incarnation"] for event in await dispatches(client, flow_id)]
            assert len(incarnations) == len(set(incarnations)) == 2
        assert len(here.record.calls()) == 10


async def test_rolling_deployment_costs_no_call(tmp_path: Path) -> None:
    """[READY-6, DRAIN-1, DRAIN-2]: start the new one, wait until it is registered, stop the old one; three times."""
    async with new_world(tmp_path) as (here, client):
        worker = await here.start_worker()
        flow_ids: list[str] = []
        is_over = asyncio.Event()

        async def keep_working() -> None:
            while not is_over.is_set():
                flow_id = f"flow-{len(flow_ids)}"
                await client.start_flow(OneStepFlow, flow_id, 1)
                flow_ids.append(flow_id)
                await client.wait_for_flow(flow_id, WAIT_S)

        working = asyncio.create_task(keep_working())
        for _ in range(3):
            successor = await here.start_worker()
            await asyncio.to_thread(worker.terminate)
            assert await asyncio.to_thread(worker.wait) == 0
            here.workers.remove(worker)
            worker = successor
            await eventually(partial(has_worked, here, worker.name), "work on the new worker")
        is_over.set()
        await working
        assert len(here.record.calls()) == len(flow_ids)
        for flow_id in flow_ids:
            numbers = {(event.data["attempt"], event.data["delivery"]) for event in await dispatches(client, flow_id)}
            assert numbers == {(1, 1)}, "an offer that a draining worker declined is no delivery"


async def test_worker_listens_nowhere(tmp_path: Path) -> None:
    """[WIRE-1]: it has a connection to the server, and no socket that others could connect to."""
    async with new_world(tmp_path) as (here, client):
        worker = await here.start_worker()
        await client.start_flow(OneStepFlow, "flow", 1)
        await client.wait_for_flow("flow", WAIT_S)
        states = await asyncio.to_thread(tcp_states, worker.pid)
        assert len(states) >= 1
        assert LISTENING not in states


def has_worked(here: Deployment, name: str) -> bool:
    return any(call.worker == name for call in here.record.calls())


def tcp_states(pid: int) -> list[str]:
    """The state of every TCP socket of a process."""
    own = {path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[3] for row in rows if f"socket:[{row[9]}]" in own]


async def test_program_ends_although_a_handler_swallows_its_cancellation(tmp_path: Path) -> None:
    """[DRAIN-1]: asyncio.run does not wait for a handler that the worker has given up."""
    async with new_world(tmp_path) as (here, _):
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.support.stubborn_program", here.address],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == ["cancellation swallowed", "worker closed", "program ended"]
        assert "handler_abandoned StubbornFlow.StubbornStep" in ran.stderr
