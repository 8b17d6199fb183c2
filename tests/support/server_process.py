"""A real server process: spawned, waited for by its ready line, stopped or killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVE = (sys.executable, "-m", "dexd", "serve")


class ServerProcess:
    """One `dexd serve`; as a context manager it is killed at the end, whatever happened."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        command: Sequence[str] = SERVE,
        listen: str = "127.0.0.1:0",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until it is ready, or has failed; `ready` is empty then.

        Args:
            data_dir: Its data directory; the log goes to a file beside it.
            arguments: Further arguments.
            command: What to run, for servers with failpoints.
            listen: HOST:PORT; port 0 lets the operating system choose.
            environ: Additional environment variables.
        """
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(f"{data_dir.name}.log")
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*command, "--data-dir", str(data_dir), "--listen", listen, "--log-format", "json"),
                    # Many servers of tests run at once; those that are about metrics say where, which then counts.
                    *("--set", "metrics.listen=", *arguments),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environ or {})},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready: dict[str, Any] = json.loads(line) if line else {}

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self.ready["address"])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def log_events(self) -> list[dict[str, Any]]:
        """All log lines so far, of earlier servers on the same directory too; not one that is just being written."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines(True) if line.endswith("\n")]

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._process.kill()
        self.wait()

    def wait(self, timeout: float = 30) -> int:
        """Wait for the end; gives the exit code."""
        code = self._process.wait(timeout)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _stack: TracebackType | None
    ) -> None:
        self.kill()
