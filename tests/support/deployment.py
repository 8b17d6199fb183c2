"""A server and its workers as processes that are killed and come back, for crash tests.

The address stays the same over all servers, as behind a name in production. Calls that wait for a process run beside
the event loop, so that the clients of the test go on meanwhile.
"""

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dextools.local_processes import CHECKOUT
from tests.support.autopsy import history_faults, recovery_faults
from tests.support.eventually import eventually
from tests.support.handler_record import HandlerRecord
from tests.support.server_process import SERVE, ServerProcess
from tests.support.worker_process import WorkerProcess

KILLED = -signal.SIGKILL
ADDRESS_TAKEN = 2
BIND_TRIES_MAX = 5

DEX = (sys.executable, "-c", "from dextools.cli import main; main()")

FAILPOINT_SERVER = str(Path(__file__).with_name("failpoint_server.py"))

FAST_DETECTION = ("--set", "matching.resume_wait=1s")
"""A killed worker's calls are given to another one after a second instead of five."""


class Failpoint(NamedTuple):
    """Where a server ends itself."""

    point: str
    passage: int

    @property
    def command(self) -> Sequence[str]:
        """What to run instead of `dexd serve`."""
        return (sys.executable, FAILPOINT_SERVER, "--at", self.point, "--passage", str(self.passage))


class Deployment:
    """One server at a time, any number of workers, one data directory."""

    def __init__(self, scratch: Path, *arguments: str) -> None:
        self.scratch = scratch
        self.data_dir = scratch / "data"
        self.record = HandlerRecord(scratch / "calls.jsonl")
        self.workers: list[WorkerProcess] = []
        self.server_kills = 0
        self.worker_kills = 0
        self._arguments = arguments
        self._gates = scratch / "gates"
        self._gates.mkdir()
        self._names = itertools.count(1)
        self.server = ServerProcess(self.data_dir, *arguments)
        self.address = self.server.address

    # ---- server --------------------------------------------------------------------------------------------------

    async def kill_server(self) -> None:
        """SIGKILL."""
        await asyncio.to_thread(self.server.kill)
        await self._note_server_kill()

    async def server_killed_itself(self) -> None:
        """Return when the server has reached its failpoint."""
        code = await asyncio.to_thread(self.server.wait)
        assert code == KILLED, f"the server ended with {code} instead of at its failpoint: {self.server.log_path}"
        await self._note_server_kill()

    async def start_server(self, failpoint: Failpoint | None = None) -> None:
        """Start a server where the last one was."""
        command = SERVE if failpoint is None else failpoint.command
        for _ in range(BIND_TRIES_MAX):
            self.server = await asyncio.to_thread(self._spawn_server, command)
            if self.server.ready or self.server.wait() != ADDRESS_TAKEN:
                # One with a failpoint may have reached it before it was ready.
                return
            # While nobody listens there, the system may lend the port to an outgoing connection for a moment.
        raise AssertionError(f"{self.address} stays taken: {self.server.log_path}")

    async def restart_server(self) -> None:
        """SIGKILL, and the next one."""
        await self.kill_server()
        await self.start_server()

    async def stop_server(self) -> int:
        """SIGTERM; gives the exit code."""
        self.server.terminate()
        return await asyncio.to_thread(self.server.wait)

    async def _note_server_kill(self) -> None:
        self.server_kills += 1
        faults = await asyncio.to_thread(recovery_faults, self.data_dir)
        assert faults == [], f"after kill {self.server_kills} the log has runs that are not sound"

    def _spawn_server(self, command: Sequence[str]) -> ServerProcess:
        return ServerProcess(self.data_dir, *self._arguments, command=command, listen=self.address)

    # ---- workers -------------------------------------------------------------------------------------------------

    async def start_worker(
        self, *, tasks: int = 16, server: str | None = None, name: str | None = None, release: str = ""
    ) -> WorkerProcess:
        """Start a worker.

        Args:
            tasks: Handlers that it runs at once.
            server: Where it connects to if not directly to the server.
            name: Its app worker ID; None takes one that no other had.
            release: "old" or "new" of `release_flows`; "" serves `crash_flows`.
        """
        name = name or f"worker-{next(self._names)}"
        address = server or self.address
        worker = await asyncio.to_thread(WorkerProcess, address, self.scratch, name, tasks=tasks, release=release)
        assert worker.ready, worker.log_path.read_text()
        self.workers.append(worker)
        return worker

    async def kill_worker(self, worker: WorkerProcess) -> None:
        """SIGKILL."""
        self.workers.remove(worker)
        await asyncio.to_thread(worker.kill)
        self.worker_kills += 1

    async def sessions_opened(self, count: int) -> None:
        """Return when all servers together have opened so many sessions of workers."""

        def is_met() -> bool:
            return sum(event["event"] == "worker_session_opened" for event in self.server.log_events()) >= count

        await eventually(is_met, f"{count} worker sessions")

    def open_gate(self, name: str = "all") -> None:
        """Let held handlers of one worker, or of all, go on."""
        (self._gates / name).touch()

    # ---- the end -------------------------------------------------------------------------------------------------

    async def verify_log(self) -> dict[str, Any]:
        """Run `dex log verify` and check every history; fails the test unless nothing is found."""
        assert await asyncio.to_thread(history_faults, self.data_dir) == []
        return await asyncio.to_thread(verify_log, self.data_dir)

    async def close(self) -> None:
        """Kill what is left."""
        for worker in self.workers:
            await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(self.server.kill)
        self.record.close()


@asynccontextmanager
async def deployment(scratch: Path, *arguments: str) -> AsyncIterator[Deployment]:
    """A deployment without workers yet; everything is killed at the end."""
    here = await asyncio.to_thread(Deployment, scratch, *arguments)
    try:
        yield here
    finally:
        await here.close()


def verify_log(data_dir: Path) -> dict[str, Any]:
    """Check a whole log offline [SURF-23, INV-8]; gives the report."""
    command = (*DEX, "--json", "log", "verify", "--data-dir", str(data_dir))
    checked = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, timeout=600, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    report: dict[str, Any] = json.loads(checked.stdout)
    assert report["fault_count"] == 0
    return report
