"""A fleet of workers whose server is restarted [W15]."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from dexsdk import AsyncClient, ClientOptions, FlowStatus, Registry
from tests.support.eventually import eventually
from tests.support.fleet_flow import EchoFlow
from tests.support.fleet_process import FleetProcess
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

PROCESSES = 3

BACK_WITHIN_S = 15.0

HEALTH_S_MAX = 3.0
"""Longest answer to a health check on a machine whose cores the fleet takes, too."""

WAIT_S = 60.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "down_s",
    [pytest.param(0.0, id="restarted-at-once"), pytest.param(12.0, id="down-for-long", marks=pytest.mark.long)],
)
async def test_w15_fleet_is_back_soon_after_its_server(tmp_path: Path, down_s: float) -> None:
    """[W15, WIRE-9]: 300 workers, and the server answers health checks and runs Flows all the while.

    When it was down for long, every worker has reached its longest backoff.
    """
    data_dir = tmp_path / "data"
    with ExitStack() as stack:
        server = await asyncio.to_thread(stack.enter_context, ServerProcess(data_dir))
        fleets = [
            stack.enter_context(FleetProcess(server.address, 300 // PROCESSES, tmp_path / f"fleet-{number}.log"))
            for number in range(PROCESSES)
        ]
        for fleet in fleets:
            await asyncio.to_thread(fleet.next_state)
        await asyncio.to_thread(server.kill)
        await eventually(lambda: not any(fleet.state().registered for fleet in fleets), "all noticed it")
        await asyncio.sleep(down_s)
        restarted = await asyncio.to_thread(ServerProcess, data_dir, listen=server.address)
        stack.enter_context(restarted)
        began = time.monotonic()
        async with AsyncClient(
            Registry((EchoFlow(),), allow_async_handlers=True), None, ClientOptions(server_address=server.address)
        ) as client:
            waiting = asyncio.create_task(asyncio.to_thread(back_after_s, fleets, began))
            answers = []
            while not waiting.done():
                asked = time.monotonic()
                assert (await client.health_check()).condition == "SERVING"
                answers.append(time.monotonic() - asked)
                await client.start_flow(EchoFlow, f"flow-{len(answers)}", len(answers))
            assert await waiting <= BACK_WITHIN_S
            assert max(answers) <= HEALTH_S_MAX
            for number in range(1, len(answers) + 1):
                result = await client.wait_for_flow(f"flow-{number}", WAIT_S)
                assert result.status is FlowStatus.COMPLETED
        for fleet in fleets:
            assert await asyncio.to_thread(fleet.stop) == 0


def back_after_s(fleets: list[FleetProcess], began: float) -> float:
    """Wait until every worker is registered again, and none was unready meanwhile."""
    while True:
        states = [fleet.state() for fleet in fleets]
        assert sum(state.ready for state in states) == 300
        if sum(state.registered for state in states) == 300:
            return time.monotonic() - began
        assert time.monotonic() < began + WAIT_S, f"not back: {states}"
