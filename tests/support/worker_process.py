"""A real worker process with the crash Flows: spawned, waited for by its ready line, frozen, killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from dextools.local_processes import CHECKOUT

STOP_S = 40.0
"""Longer than a worker drains."""


class WorkerProcess:
    """One worker; as a context manager it is killed at the end, whatever happened."""

    def __init__(self, server: str, scratch: Path, name: str, *, tasks: int = 16, release: str = "") -> None:
        """Start it and wait until every queue is registered, or it has failed; `ready` is empty then.

        Args:
            server: Where it connects to.
            scratch: Directory of the record of calls and of the gates; its log goes there, too.
            name: Its app worker ID, new for every process.
            tasks: Handlers that run at once.
            release: "old" or "new" of `release_flows`; "" serves `crash_flows`.
        """
        self.name = name
        self.log_path = scratch / f"{name}.log"
        arguments = ["--server", server, "--scratch", str(scratch), "--name", name, "--tasks", str(tasks)]
        if release:
            arguments += ["--release", release]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.crash_worker", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=CHECKOUT,
            )
        self.ready = self._announced()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def freeze(self) -> None:
        """Send SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._process.kill()
        self.wait()

    def terminate(self) -> None:
        """Send SIGTERM and return when it has begun to drain."""
        self._process.terminate()
        assert self._announced(), "the worker ended before it drained"

    def wait(self) -> int:
        """Wait for its end; gives the exit code."""
        code = self._process.wait(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def _announced(self) -> dict[str, Any]:
        """Read the next line that it says about itself; empty at its end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
