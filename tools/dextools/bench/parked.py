"""Workload I: a restart on a log of many Flows that wait, what the server takes for it, and how fast it wakes some."""

import asyncio
import socket
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from time import time

import msgspec

from dexd.engine.projections import refresh_projections
from dexd.log.directory import locked
from dexd.log.sqlite_log import SqliteLog
from dextools.bench.measurement import quantile
from dextools.bench.parked_log import FlowAuthor
from dextools.bench.process import Child
from dextools.bench.rows import Environment, Row
from dextools.bench.workloads import AT_ONCE

WOKEN = 10_000
"""Flows that get their message at the end."""

MILLION = 1_000_000
PARKED = {"I": 100_000, "I-million": MILLION}
"""Flows that wait, by workload."""

START_TIMEOUT_S = 120.0
WAKE_TIMEOUT_S = 600.0


class _At(msgspec.Struct):
    at: float


class _Woken(msgspec.Struct):
    seconds: float
    latencies_ms: list[float]


async def measure_parked(letter: str, environment: Environment, *, parked: int = 0, woken: int = WOKEN) -> Row:
    """Write the log, start the server on it, and take the figures; `parked` overrides the workload's number."""
    count = parked or PARKED[letter]
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dexd-bench-")))
        await asyncio.to_thread(write_log, directory / "data", count)
        address = f"127.0.0.1:{_free_port()}"
        waking = (sys.executable, "-m", "dextools.bench.product.waking")
        worker = await Child.spawn("worker", (*waking, "worker", address), directory / "worker.log")
        stack.push_async_callback(worker.stop)
        client = await Child.spawn("client", (*waking, "client", address, str(woken)), directory / "client.log")
        stack.push_async_callback(client.stop)
        await worker.expect("armed")
        await client.expect("armed")
        began_at = time()
        data = str(directory / "data")
        argv = (sys.executable, "-m", "dexd", "serve", "--data-dir", data, "--listen", address)
        server = await Child.spawn("server", argv, directory / "server.log")
        stack.push_async_callback(server.stop)
        await server.expect("server_ready", START_TIMEOUT_S)
        ready_s = time() - began_at
        first = msgspec.json.decode(await client.expect("first_result", START_TIMEOUT_S), type=_At)
        rss_mib = server.memory_bytes() / (1 << 20)
        before = server.cpu_seconds()
        done = msgspec.json.decode(await client.expect("woken", WAKE_TIMEOUT_S), type=_Woken)
        return Row(
            workload=letter,
            system="dexd",
            at_once=AT_ONCE,
            flows_per_s=round(woken / done.seconds, 1),
            p50_ms=round(quantile(done.latencies_ms, 0.5), 3),
            p99_ms=round(quantile(done.latencies_ms, 0.99), 3),
            cpu_us_per_step={"server": round((server.cpu_seconds() - before) / woken * 1e6, 1)},
            parked=count,
            ready_s=round(ready_s, 3),
            first_result_s=round(first.at - began_at, 3),
            rss_mib=round(rss_mib, 1),
            rss_after_mib=round(server.memory_bytes() / (1 << 20), 1),
            spread=[round(woken / done.seconds, 1)],
            environment=environment,
        )


def write_log(data_dir: Path, parked: int) -> None:
    """A log as a server leaves it behind that was killed with so many Flows waiting."""
    with ExitStack() as stack:
        path = stack.enter_context(locked(data_dir))
        log = stack.enter_context(SqliteLog.open(path))
        refresh_projections(log)
        FlowAuthor(log, now=round(time() * 1_000)).write_parked(parked)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
