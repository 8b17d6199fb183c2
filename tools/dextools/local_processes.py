"""Server and worker processes on this machine, for the demo and for development.

Nothing is guessed and nothing sleeps: both announce themselves with one JSON line on stdout [SURF-11].
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

CHECKOUT = Path(__file__).parents[2]
"""Where the package `examples` lies; it is not part of the distribution."""

STOP_SECONDS = 40.0
"""Longer than a worker drains and a server shuts down."""


class LocalProcess:
    """A child that says on stdout that it is ready; as a context manager it is stopped at the end."""

    def __init__(self, name: str, *arguments: str, log: Path) -> None:
        """Start `python -m ARGUMENTS` and wait for its ready line.

        Args:
            name: How problems call it.
            arguments: Module and arguments.
            log: File that its stderr is appended to.

        Raises:
            RuntimeError: it ended without getting ready; the text holds the end of its log.
        """
        self.name = name
        with log.open("ab") as stderr:
            logged_before = stderr.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=stderr, cwd=CHECKOUT, text=True
            )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        line = self._stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"{name} ended with exit code {code} before it was ready:\n{_tail(log, logged_before)}")
        self.ready: dict[str, Any] = json.loads(line)
        """The ready line."""

    @property
    def pid(self) -> int:
        """Process ID."""
        return self._process.pid

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        """Ask it to end and wait; a child that does not is killed."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._ended()

    def wait(self) -> int:
        """Wait until it ends by itself; gives the exit code."""
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def _ended(self) -> None:
        self._process.wait()
        self._stdout.close()


def start_server(data_dir: Path, listen: str, log: Path) -> LocalProcess:
    """Start `dexd serve`; its address is `ready["address"]`."""
    return LocalProcess("server", "dexd", "serve", "--data-dir", str(data_dir), "--listen", listen, log=log)


def start_worker(server: str, log: Path) -> LocalProcess:
    """Start a worker with the example Flows."""
    return LocalProcess("worker", "examples.worker", "--server", server, log=log)


def _tail(log: Path, begin: int) -> str:
    return "\n".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-20:])
