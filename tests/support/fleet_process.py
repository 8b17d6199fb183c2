"""A process of many workers: spawned, asked, ended."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Self

from dextools.local_processes import CHECKOUT

STOP_S = 60.0


class FleetState(NamedTuple):
    """How many workers of a fleet ..."""

    ready: int
    registered: int
    """... have a registered stream on every queue."""


class FleetProcess:
    """Workers of `fleet_worker`; as a context manager it is killed at the end, whatever happened."""

    def __init__(self, server: str, count: int, log: Path) -> None:
        """Start it, without waiting for its workers."""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fleet_worker", "--server", server, "--count", str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=CHECKOUT,
                text=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def next_state(self) -> FleetState:
        """Read the next report; the first one comes when all workers are registered."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the fleet has ended"
        return FleetState(**json.loads(line))

    def state(self) -> FleetState:
        """Ask how the workers stand."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.next_state()

    def stop(self) -> int:
        """Have all workers drained; gives the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
