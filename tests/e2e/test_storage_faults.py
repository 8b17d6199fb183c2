"""Storage that is full, locked or broken under a running server [ARCH-4, ERR-2, SURF-12]."""

import asyncio
import os
import resource
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dexd.log.directory import log_path
from dexsdk import AsyncClient, ClientOptions, DexServiceError, FlowNotFoundError, FlowStatus
from tests.support.api_calls import describe, fresh, history, refusal, start, start_request
from tests.support.api_client import ApiClient, RefusedError
from tests.support.crash_flows import CrashFlows, HeldFlow, ParkedFlow
from tests.support.deployment import verify_log
from tests.support.eventually import eventually
from tests.support.handler_record import HandlerRecord
from tests.support.server_process import ServerProcess
from tests.support.small_disk import MISSING, SmallDisk, in_small_disk, is_available
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]

DISK_SIZE = "4m"
SPARE_BYTES = 256 << 10
"""Room for some hundred Flows, so that the disk fills up while they are acknowledged."""

STARTS_MAX = 5_000
"""Starts that fill the disk many times over."""
STARTS_AT_ONCE = 50

FILE_BYTES_MAX = 1 << 20
"""More than an empty log has, less than some hundred Flows need."""

RESUME_S = 20.0
"""A log that refuses writes is tried again each second; this is that on a busy machine."""


# ---- full disk ---------------------------------------------------------------------------------------------------


@pytest.fixture
def mount_point(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    if not is_available(path):
        if "DEXD_TEST_REQUIRE_ALL" in os.environ:
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return path


@pytest.fixture
def cramped(mount_point: Path) -> Iterator[ServerProcess]:
    """A server on a small disk."""
    with ServerProcess(mount_point / "data", command=in_small_disk(mount_point, DISK_SIZE)) as process:
        yield process


async def start_until_refused(client: AsyncClient) -> tuple[dict[str, str], list[str]]:
    """Start Flows until the server refuses some; gives the run IDs of acknowledged ones, and the refused Flow IDs."""
    acknowledged: dict[str, str] = {}
    for first in range(0, STARTS_MAX, STARTS_AT_ONCE):
        flow_ids = [f"parked-{number}" for number in range(first, first + STARTS_AT_ONCE)]
        answers = await asyncio.gather(
            *(client.start_flow(ParkedFlow, flow_id) for flow_id in flow_ids), return_exceptions=True
        )
        refused = []
        for flow_id, answer in zip(flow_ids, answers, strict=True):
            if isinstance(answer, str):
                acknowledged[flow_id] = answer
            else:
                assert isinstance(answer, DexServiceError), answer
                assert (answer.code, answer.sub_status) == ("RESOURCE_EXHAUSTED", "DISK_FULL")
                refused.append(flow_id)
        if refused:
            return acknowledged, refused
    raise AssertionError("the disk never filled up")


async def run_ids(client: AsyncClient, flow_ids: Sequence[str]) -> list[str]:
    return [info.run_id for info in await asyncio.gather(*map(client.describe_flow, flow_ids))]


async def test_full_disk_refuses_writes_serves_reads_and_ends_without_restart(
    cramped: ServerProcess, mount_point: Path, tmp_path: Path
) -> None:
    """[ERR-2, ARCH-4, GEN-2, INV-1]: nothing acknowledged is lost, nothing refused is applied, no Flow ends of it."""
    disk = SmallDisk(cramped, mount_point)
    (tmp_path / "gates").mkdir()
    record = HandlerRecord(tmp_path / "calls.jsonl")
    options = ClientOptions(server_address=cramped.address)
    with closing(record), WorkerProcess(cramped.address, tmp_path, "worker-1") as worker:
        assert worker.ready
        async with AsyncClient(CrashFlows().registry, None, options) as client:
            await client.start_flow(HeldFlow, "held", 0.0)
            await record.began(1)
            disk.fill(spare_bytes=SPARE_BYTES)
            acknowledged, refused = await start_until_refused(client)
            # The result of a call that was running cannot be taken now; its worker keeps it.
            (tmp_path / "gates" / "all").touch()

            assert acknowledged, "at first there is room"
            assert await run_ids(client, list(acknowledged)) == list(acknowledged.values())
            assert (await client.describe_flow("held")).status is FlowStatus.RUNNING
            with pytest.raises(DexServiceError, match="DISK_FULL"):
                await client.health_check()

            disk.free()
            assert (await client.wait_for_flow("held", RESUME_S)).status is FlowStatus.COMPLETED
            assert (await client.health_check()).condition == "SERVING"
            await client.start_flow(ParkedFlow, "after")
            assert await run_ids(client, list(acknowledged)) == list(acknowledged.values())
            for flow_id in refused:
                with pytest.raises(FlowNotFoundError):
                    await client.describe_flow(flow_id)
        assert {(call.attempt, call.delivery) for call in record.calls() if call.key.startswith("held/")} == {(1, 1)}
    disk.copy("data", tmp_path / "copy")
    verify_log(tmp_path / "copy")
    cramped.terminate()
    assert cramped.wait() == 0


def test_log_survives_a_kill_while_the_disk_is_full(tmp_path: Path, mount_point: Path) -> None:
    """[INV-1, ARCH-4]: what is on the full disk then, moved to a larger one, has everything that was acknowledged."""
    run_ids: dict[str, str] = {}
    with ServerProcess(mount_point / "data", command=in_small_disk(mount_point, DISK_SIZE)) as server:
        disk = SmallDisk(server, mount_point)
        disk.fill(spare_bytes=SPARE_BYTES)
        with ApiClient(server.address) as api:
            refused = start_one_by_one(api, run_ids)
        assert refused.reason == "DISK_FULL"
        disk.copy("data", tmp_path / "moved")
    recovered(tmp_path / "moved", run_ids)


# ---- others ------------------------------------------------------------------------------------------------------


async def test_log_that_another_program_locks_refuses_writes_until_it_is_free(tmp_path: Path) -> None:
    """[ARCH-4]: UNAVAILABLE with a retry hint, reads go on, no restart."""
    before = fresh("before")
    with ServerProcess(tmp_path / "data") as server, ApiClient(server.address) as api:
        start(api, before)
        with closing(sqlite3.connect(log_path(server.data_dir), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = refusal(api, "StartFlow", start_request(fresh("refused")))
            assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
            assert refused.retry_after_ms == 1_000
            assert describe(api, before).status == "RUNNING"
            assert len(history(api, before)) == 2
            other.execute("ROLLBACK")

        def is_written() -> bool:
            try:
                start(api, fresh("after"))
            except RefusedError as error:
                if error.reason == "STORAGE_UNAVAILABLE":
                    return False
                raise
            return True

        await eventually(is_written, "writes again", deadline_s=RESUME_S)
        server.terminate()
        assert server.wait() == 0
    verify_log(server.data_dir)


def test_failed_write_ends_the_server_with_5_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """[ARCH-4, SURF-12, INV-1]: an I/O error that is no full disk; here the file may not grow."""
    run_ids: dict[str, str] = {}
    with ServerProcess(tmp_path / "data") as server, ApiClient(server.address) as api:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
        refused = start_one_by_one(api, run_ids)
        assert refused.code == "UNAVAILABLE"
        assert server.wait() == 5
    recovered(server.data_dir, run_ids)


def start_one_by_one(api: ApiClient, run_ids: dict[str, str]) -> RefusedError:
    """Start Flows until one is refused; what is acknowledged goes into `run_ids`, by Flow ID."""
    for _ in range(STARTS_MAX):
        flow_id = fresh("parked")
        try:
            run_ids[flow_id] = start(api, flow_id)
        except RefusedError as error:
            return error
    raise AssertionError("no start was ever refused")


def recovered(data_dir: Path, run_ids: dict[str, str]) -> None:
    """Start a server on that directory and compare with what was acknowledged."""
    assert run_ids, "something was acknowledged before"
    with ServerProcess(data_dir) as server, ApiClient(server.address) as api:
        assert {flow_id: describe(api, flow_id).run_id for flow_id in run_ids} == run_ids
        server.terminate()
        assert server.wait() == 0
    verify_log(data_dir)
