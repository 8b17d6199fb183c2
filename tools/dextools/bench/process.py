"""Processes that the benchmark starts, watches and ends."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec

READY_TIMEOUT_S = 30.0
"""A server or worker that is not ready by then never will be."""

STOP_TIMEOUT_S = 10.0
"""As long as the product may take to shut down [DRAIN-4]; then the process is killed."""

LOG_TAIL_BYTES = 4_000
"""How much of a process's stderr an error shows."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ChildError(Exception):
    """A process ended, or stayed silent, when it should have announced something."""


class Child:
    """One process that announces events as JSON lines on its stdout; its stderr goes to a file."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def spawn(cls, name: str, argv: Sequence[str], log: Path) -> "Child":
        with log.open("wb") as stderr:
            # A result line holds every latency of a run: some hundred thousand numbers.
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr, limit=1 << 26
            )
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def expect(self, event: str, timeout_s: float = READY_TIMEOUT_S) -> msgspec.Raw:
        """The next line that announces ``event``; other lines before it are skipped.

        Raises:
            ChildError: the process ended first, or the time is over.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next_line_of(event)
        except TimeoutError:
            raise ChildError(f"{self.name}: no {event!r} within {timeout_s} s\n{self._log_tail()}") from None

    async def _next_line_of(self, event: str) -> msgspec.Raw:
        stdout = self._process.stdout
        assert stdout is not None, "spawned with a pipe"
        while line := await stdout.readline():
            if msgspec.json.decode(line, type=_Announcement).event == event:
                return msgspec.Raw(line)
        raise ChildError(f"{self.name}: ended before {event!r}\n{self._log_tail()}")

    def cpu_seconds(self) -> float:
        """User and system time of the process and its threads so far, to 10 ms."""
        # The command name stands in parentheses and may itself contain spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_bytes(self) -> int:
        """Resident memory of the process now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (resident,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(resident) * 1024

    async def ended(self) -> None:
        """Waits until the process has ended of its own accord.

        Raises:
            ChildError: it failed, or does not end.
        """
        try:
            code = await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            raise ChildError(f"{self.name}: still running after its result") from None
        if code != 0:
            raise ChildError(f"{self.name}: ended with {code}\n{self._log_tail()}")

    async def stop(self) -> None:
        """Asks the process to end and kills it when it does not."""
        if self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _log_tail(self) -> str:
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


class _Announcement(msgspec.Struct):
    event: str
