"""Workers and sessions that come and go by the ten thousand beside steady work: nothing may be left behind [INV-10].

`make soak` runs the long form and prints what it measured.
"""

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from dexpb.v1 import frames
from dexsdk import AsyncClient, ClientOptions, FlowStatus, Registry
from tests.support.api_client import ApiClient, hello
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.fleet_flow import EchoFlow
from tests.support.fleet_process import FleetProcess
from tests.support.resource_use import ResourceUse, descriptor_growth, memory_growth, use_of
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

SOAK_S = 600.0

CYCLES_MIN = 50_000
"""Sessions and streams together that are opened and closed again."""

MEMORY_GROWTH_MAX = 0.01
"""Share of its memory by which a process may grow per minute in the second half of a run; less is noise of allocators.
At this pace a hundred bytes left behind by every cycle would be as much."""

DESCRIPTOR_GROWTH_MAX = 0.5
"""Descriptors per minute; a leak of one in ten thousand cycles is half of one."""

RESET_PAUSE_S = 0.4
ROUND_PAUSE_S = 0.05
WORK_PAUSE_S = 0.04
SAMPLE_PAUSE_S = 1.0

WARM_UP_FLOWS = 5_000

STREAMS_PER_SESSION = 10
WORKERS_RESET = 4
CLIENTS = 2

WAIT_S = 30.0


@dataclass
class Cycles:
    """What came and went."""

    worker_sessions: int = 0
    """Of SDK workers whose connections broke."""
    peer_sessions: int = 0
    """Of peers that said what they had to say and left."""
    streams: int = 0
    flows: int = 0

    @property
    def count(self) -> int:
        return self.worker_sessions + self.peer_sessions + self.streams


@dataclass
class Soak:
    """A server, workers that stay, workers whose connections break, and peers that come and go."""

    server: ServerProcess
    staying: FleetProcess
    breaking: FleetProcess
    proxy: FaultProxy
    cycles: Cycles = field(default_factory=Cycles)
    is_over: threading.Event = field(default_factory=threading.Event)

    def break_connections(self) -> None:
        """Reset the connections of SDK workers again and again."""
        while not self.is_over.wait(RESET_PAUSE_S):
            self.cycles.worker_sessions += self.proxy.reset()

    def come_and_go(self) -> None:
        """Connect as one more worker, open streams, close them, leave."""
        for number in itertools.count():
            if self.is_over.wait(ROUND_PAUSE_S):
                return
            with ApiClient(self.server.address) as api:
                session = api.worker_session()
                session.send(hello(f"passing-{number}", frames.FlowDescriptor("PassingFlow", None, ())))
                session.next_frame(frames.Welcome)
                streams = range(1, STREAMS_PER_SESSION + 1)
                session.send(*(frames.OpenStream(stream, "PassingFlow") for stream in streams))
                for _ in streams:
                    session.next_frame(frames.StreamOpened)
                session.send(*(frames.CloseStream(stream) for stream in streams))
                for _ in streams:
                    session.next_frame(frames.StreamClosed)
                session.send(frames.Goodbye())
                session.finish()
            self.cycles.peer_sessions += 1
            self.cycles.streams += STREAMS_PER_SESSION

    async def keep_working(self, client: AsyncClient, prefix: str) -> None:
        """Run one Flow after the other."""
        for number in itertools.count():
            if self.is_over.is_set():
                return
            await client.start_flow(EchoFlow, f"{prefix}-{number}", number)
            result = await client.wait_for_flow(f"{prefix}-{number}", WAIT_S)
            assert result.status is FlowStatus.COMPLETED
            self.cycles.flows += 1
            await asyncio.sleep(WORK_PAUSE_S)

    async def warm_up(self, client: AsyncClient) -> None:
        """Fill what the server keeps of closed runs, which is bounded by their number."""
        for first in range(0, WARM_UP_FLOWS, 100):
            numbers = range(first, first + 100)
            await asyncio.gather(*(client.start_flow(EchoFlow, f"warm-{number}", number) for number in numbers))
            await asyncio.gather(*(client.wait_for_flow(f"warm-{number}", WAIT_S) for number in numbers))

    async def run(self, seconds: float) -> dict[str, list[ResourceUse]]:
        """Do all of it for so long; gives samples of every process."""
        pids = {"server": self.server.pid, "worker": self.staying.pid, "reset worker": self.breaking.pid}
        samples: dict[str, list[ResourceUse]] = {name: [] for name in pids}
        registry = Registry((EchoFlow(),), allow_async_handlers=True)
        async with AsyncClient(registry, None, ClientOptions(server_address=self.server.address)) as client:
            await self.warm_up(client)
            until = time.monotonic() + seconds
            tasks = [asyncio.create_task(self.keep_working(client, f"client-{number}")) for number in range(CLIENTS)]
            tasks += [
                asyncio.create_task(asyncio.to_thread(churn)) for churn in (self.break_connections, self.come_and_go)
            ]
            while time.monotonic() < until and not any(task.done() for task in tasks):
                for name, pid in pids.items():
                    samples[name].append(use_of(pid))
                await asyncio.sleep(SAMPLE_PAUSE_S)
            self.is_over.set()
            await asyncio.gather(*tasks)
        return samples


@contextmanager
def soak(scratch: Path) -> Iterator[Soak]:
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(scratch / "data"))
        proxy = stack.enter_context(FaultProxy(server.address))
        staying = stack.enter_context(FleetProcess(server.address, 2, scratch / "staying.log"))
        breaking = stack.enter_context(FleetProcess(proxy.address, WORKERS_RESET, scratch / "breaking.log"))
        staying.next_state()
        breaking.next_state()
        yield Soak(server, staying, breaking, proxy)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_memory_and_descriptors_do_not_grow_with_sessions_and_streams(tmp_path: Path) -> None:
    """[INV-10, WIRE-9]: 50,000 cycles beside steady work. Shorter runs say nothing: pools and caches still fill up."""
    with soak(tmp_path) as running:
        samples = await running.run(SOAK_S)
        report = [str(running.cycles)]
        grown = []
        for name, used in samples.items():
            memory, descriptors = memory_growth(used), descriptor_growth(used)
            report.append(
                f"{name}: {memory.mean / 2**20:.1f} MiB, {memory.share_per_minute:+.2%} a minute; "
                f"{descriptors.mean:.1f} descriptors, {descriptors.per_minute:+.3f} a minute"
            )
            if memory.share_per_minute > MEMORY_GROWTH_MAX or descriptors.per_minute > DESCRIPTOR_GROWTH_MAX:
                grown.append(name)
        sys.stdout.write("\n".join(report) + "\n")
        assert not grown, report
        assert running.cycles.count >= CYCLES_MIN
        assert running.staying.stop() == 0
        assert running.breaking.stop() == 0


async def test_connections_that_broke_leave_no_descriptor_behind(tmp_path: Path) -> None:
    """[INV-10, WIRE-9]: after a hundred breaks server and workers hold what they held before."""
    with soak(tmp_path) as running:
        pids = (running.server.pid, running.staying.pid, running.breaking.pid)
        held = [use_of(pid).descriptors for pid in pids]
        broken = 0
        while broken < 100:
            broken += running.proxy.reset()
            await eventually(lambda: running.breaking.state().registered == WORKERS_RESET, "all are back")
        for pid, before in zip(pids, held, strict=True):
            await eventually(partial(holds_at_most, pid, before), f"at most {before} descriptors in {pid}")


def holds_at_most(pid: int, descriptors: int) -> bool:
    return use_of(pid).descriptors <= descriptors
