"""Flows that wait are on disk: a restart and the memory of a server follow what is at work [ARCH-11, INV-10]."""

import asyncio
import json
import random
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import time

import pytest

from dexd.engine.projections import refresh_projections
from dexd.log.directory import locked, log_path
from dexd.log.sqlite_log import SqliteLog
from dexd.log.sqlite_reader import OfflineLog
from dexsdk import AsyncClient, AsyncWorker, ClientOptions, PullWorkerOptions, WorkerOptions
from dextools.bench.parked import measure_parked, write_log
from dextools.bench.parked_log import FlowAuthor
from dextools.bench.product.echoes import MESSAGES, EchoFlow
from dextools.bench.product.flows import registry
from dextools.bench.rows import Environment
from dextools.log_verification import verify_log
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

HERE = Environment(commit="", cores=2, versions={})
MIB = 1 << 20


def memory_mib(server: ServerProcess) -> float:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (resident,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(resident) * 1024 / MIB


def cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


# ---- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_arch_11_restart_does_not_load_what_is_parked(tmp_path: Path) -> None:
    """Counted all the same, in the ready line and in health."""
    write_log(tmp_path / "data", 3_000)
    with ServerProcess(tmp_path / "empty") as server:
        empty_mib = memory_mib(server)
    with ServerProcess(tmp_path / "data") as server:
        assert server.ready["recovered_runs"] == 3_000
        assert memory_mib(server) < empty_mib + 8


@pytest.mark.slow
async def test_arch_11_parked_flows_are_woken_by_a_message_each_after_a_restart() -> None:
    """Workload I in small: it measures what it says."""
    row = await measure_parked("I", HERE, parked=400, woken=100)
    assert (row.workload, row.parked) == ("I", 400)
    assert row.flows_per_s is not None
    assert row.flows_per_s > 0
    assert row.ready_s is not None
    assert row.first_result_s is not None
    assert 0 < row.ready_s <= row.first_result_s
    assert row.rss_mib is not None
    assert row.rss_mib > 0


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_arch_11_hundred_thousand_flows_that_wait_are_a_normal_day() -> None:
    """Workload I: restart, memory, and ten thousand of them woken by a message each.

    Its figures are in docs/performance.md; here stand bounds that hold on a machine that does other things as well.
    """
    row = await measure_parked("I", HERE)
    assert row.rss_mib is not None
    assert row.rss_after_mib is not None
    assert row.first_result_s is not None
    assert row.rss_mib <= 150
    assert row.rss_after_mib <= 300
    assert row.first_result_s <= 10


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_arch_11_start_on_a_hundred_thousand_costs_what_an_empty_one_costs(tmp_path: Path) -> None:
    """In processor time, which other work on the machine does not change much."""
    write_log(tmp_path / "data", 100_000)
    with ServerProcess(tmp_path / "empty") as server:
        empty_s = cpu_seconds(server)
    with ServerProcess(tmp_path / "data") as server:
        assert server.ready["recovered_runs"] == 100_000
        assert cpu_seconds(server) < empty_s + 1


# ---- kill -9 --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_inv_1_nothing_is_lost_when_the_server_is_killed_while_runs_leave_and_come_back(tmp_path: Path) -> None:
    """Ten open runs may be in memory; the server dies several times in between, at no particular moment."""
    address, dice = free_address(), random.Random(11)
    few = ("--set", "store.resident_runs_max=10")

    def start() -> ServerProcess:
        return ServerProcess(tmp_path / "data", *few, listen=address)

    server = start()
    pull = PullWorkerOptions(max_concurrent_tasks=16, reserved_rpc_tasks=0)
    worker = AsyncWorker(registry(), None, WorkerOptions(server_address=address, pull=pull))
    working = asyncio.create_task(worker.start())
    try:
        async with AsyncClient(registry(), None, ClientOptions(server_address=address)) as client:
            waiting: list[str] = []
            for life in range(4):
                started = [f"echo-{life}-{number}" for number in range(30)]
                await asyncio.gather(*(client.start_flow(EchoFlow, flow_id) for flow_id in started))
                waiting += started
                await parked_runs(tmp_path / "data", at_least=len(waiting) // 2)
                dice.shuffle(waiting)
                woken, waiting = waiting[:12], waiting[12:]
                await asyncio.gather(*(client.publish(flow_id, MESSAGES, 7) for flow_id in woken))
                await asyncio.to_thread(server.kill)
                server = await asyncio.to_thread(start)
            await asyncio.gather(*(client.publish(flow_id, MESSAGES, 7) for flow_id in waiting))
            flow_ids = [f"echo-{life}-{number}" for life in range(4) for number in range(30)]
            results = await asyncio.gather(*(client.wait_for_flow(flow_id, timeout=60) for flow_id in flow_ids))
            assert [result.single_output(int) for result in results] == [7] * 120
    finally:
        await worker.close()
        await working
        server.kill()
    with closing(OfflineLog(log_path(tmp_path / "data"))) as log:
        assert verify_log(log, lambda _: None).faults == []


async def parked_runs(data_dir: Path, *, at_least: int) -> None:
    """Return when so many are parked."""
    with closing(OfflineLog(log_path(data_dir))) as log:
        await eventually(lambda: log.parked_counts().runs >= at_least, f"{at_least} runs are parked")


# ---- verified -------------------------------------------------------------------------------------------------------


def finished(data_dir: Path, count: int) -> None:
    """A log of Flows that have ended."""
    with locked(data_dir) as path, closing(SqliteLog.open(path)) as log:
        refresh_projections(log)
        FlowAuthor(log, now=round(time() * 1_000)).write_finished(count)


# The kernel's own maximum for children would count every child before, and what this process is at a fork.
VERIFY = """
import sys
from dextools.cli import main
try:
    main()
finally:
    status = open("/proc/self/status").read()
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


def verified(data_dir: Path) -> tuple[int, dict[str, object], float]:
    """The exit code, the report, and the most memory it took in MiB."""
    argv = (
        sys.executable,
        "-c",
        VERIFY,
        "log",
        "verify",
        "--data-dir",
        str(data_dir),
        "--json",
    )
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    return done.returncode, json.loads(done.stdout), int(done.stderr.split()[-1]) * 1024 / MIB


def damage(data_dir: Path) -> None:
    """Change a row and an instant, and take a run's last event away."""
    with closing(sqlite3.connect(log_path(data_dir))) as connection:
        connection.execute("UPDATE runs SET status = 3 WHERE stream_id = 7")
        connection.execute("UPDATE events SET at = at - 1000 WHERE stream_id = 9 AND version = 2")
        connection.execute("DELETE FROM events WHERE stream_id = 11 AND type = 'FlowClosed'")
        connection.commit()


@pytest.mark.slow
def test_inv_8_verify_is_clean_on_finished_flows_and_finds_planted_damage(tmp_path: Path) -> None:
    """[SURF-23]"""
    check_verification(tmp_path / "data", 500)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_inv_8_verify_takes_a_hundred_thousand_finished_flows(tmp_path: Path) -> None:
    """[SURF-23] In bounded memory."""
    assert check_verification(tmp_path / "data", 100_000) < 150


def check_verification(data_dir: Path, count: int) -> float:
    """See it agree, and then find damage; gives the most memory it took in MiB."""
    finished(data_dir, count)
    code, report, peak_mib = verified(data_dir)
    assert (code, report["runs"], report["events"], report["faults"]) == (0, count, 5 * count, [])
    damage(data_dir)
    code, report, peak_found_mib = verified(data_dir)
    assert code == 1
    texts = json.dumps(report["faults"])
    for part in (
        "status is 3, replay says 2",
        "is before that of the event before it",
        "1 sequence numbers are missing",
    ):
        assert part in texts, part
    return max(peak_mib, peak_found_mib)
