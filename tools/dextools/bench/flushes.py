"""Flushes per Flow, so that no figure is won by losing durability.

Flows run one at a time, so that no commit is shared. Two counts stand side by side: the server's own fsync and
fdatasync calls as strace sees them, and the flush requests that the block device completed, to which others add.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from dextools.bench.stage import CLIENT_MARGIN_S, Cast, staged
from dextools.bench.systems import System
from dextools.bench.workloads import LoadPlan, Workload

FLOWS = 100
"""Enough that what the server flushes of its own accord now and then does not show."""

WARM_UP_S = 1.0
WINDOW_MAX_S = 30.0

DISKSTATS_FLUSHES = 18
"""Column of completed flush requests in /proc/diskstats, counted from 0; Linux 5.5 and newer have it."""


class FlushCount(msgspec.Struct, frozen=True, kw_only=True):
    """Flushes per Flow that runs alone; None where it cannot be counted."""

    fsyncs_per_flow: float | None
    device_flushes_per_flow: float | None


async def count_flushes(system: System, workload: Workload) -> FlushCount:
    """Runs some Flows of the workload one after the other and counts."""
    plan = LoadPlan(steps=workload.steps, at_once=1, warm_up_s=WARM_UP_S, window_s=WINDOW_MAX_S, flows_max=FLOWS)
    async with staged(system, plan) as cast:
        assert cast.server is not None, "only systems with a log are asked"
        trace = await SyscallTrace.attach(cast.server.pid)
        try:
            return await _count(cast, trace)
        finally:
            await trace.detach()


async def _count(cast: Cast, trace: "SyscallTrace") -> FlushCount:
    await cast.client.expect("window_open")
    syncs, flushes = trace.count(), device_flushes()
    await cast.client.expect("window_closed", WINDOW_MAX_S + CLIENT_MARGIN_S)
    syncs_after, flushes_after = trace.count(), device_flushes()
    return FlushCount(
        # Flows ran during the warm-up: a trace that saw nothing was not let in.
        fsyncs_per_flow=(syncs_after - syncs) / FLOWS if syncs else None,
        device_flushes_per_flow=None if flushes is None or flushes_after is None else (flushes_after - flushes) / FLOWS,
    )


class SyscallTrace:
    """Counts fsync and fdatasync calls of a running process; counts nothing where strace is absent or not allowed."""

    def __init__(self, process: asyncio.subprocess.Process | None, lines: Path) -> None:
        self._process = process
        self._lines = lines

    @classmethod
    async def attach(cls, pid: int) -> "SyscallTrace":
        descriptor, name = tempfile.mkstemp(prefix="dexd-bench-strace-")
        os.close(descriptor)
        strace = shutil.which("strace")
        if strace is None:
            return cls(None, Path(name))
        argv = (strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", name, "-p", str(pid))
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        return cls(process, Path(name))

    def count(self) -> int:
        # A call that another thread interrupts is printed as unfinished and as resumed: one line each.
        return sum("resumed>" not in line for line in self._lines.read_text().splitlines())

    async def detach(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        self._lines.unlink()


def device_flushes() -> int | None:
    """Flush requests completed so far by the device that holds temporary directories; None where that is not told."""
    device = Path(tempfile.gettempdir()).stat().st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[:2] == wanted and len(fields) > DISKSTATS_FLUSHES:
            return int(fields[DISKSTATS_FLUSHES])
    return None
