"""Closed Flows leave a real server when their retention is over [KEEP-1..3, ID-10]."""

import json
import os
import signal
import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dexd.log.directory import log_path
from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import Client, ClientOptions, Context, Flow, Registry, Step, StepDecision, StepList, force_complete, go_to
from dextools.cli.app import build_app
from tests.support.api_calls import describe, fresh, publish, start, start_request, stop
from tests.support.api_client import ApiClient, RefusedError
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = pytest.mark.slow


def kept(retention: str, *more: str) -> tuple[str, ...]:
    """Arguments of a server with that retention."""
    settings = (f"store.retention={retention}", *more)
    return tuple(argument for setting in settings for argument in ("--set", setting))


def is_gone(api: ApiClient, flow_id: str) -> bool:
    try:
        describe(api, flow_id)
    except RefusedError as refused:
        if (refused.code, refused.reason) != ("NOT_FOUND", "FLOW_NOT_FOUND"):
            raise
        return True
    return False


def dex(*arguments: str) -> Any:
    result = CliRunner().invoke(build_app(), ["--json", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TellKey(Step[None]):
    """Ends the Flow with the key under which it would ask others."""

    def execute(self, context: Context, input: None) -> StepDecision:
        return force_complete(context.idempotency_key)


class Keyed(Flow[None]):
    """Ends with its own idempotency key."""

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(TellKey())


async def test_id_10_key_of_a_flow_id_is_not_reissued_after_deletion(tmp_path: Path) -> None:
    """[ID-10, ID-8, KEEP-1, KEEP-2] What went is in the archive, and can be looked at in another log."""
    registry = Registry([Keyed()])
    arguments = kept("200ms", f"store.archive_dir={tmp_path / 'archive'}")
    with (
        ServerProcess(tmp_path / "data", *arguments) as server,
        running_worker(registry, server.address),
        Client(registry, None, ClientOptions(server_address=server.address)) as client,
        ApiClient(server.address) as api,
    ):
        run_ids, keys = [], []
        for _ in range(3):
            run_ids.append(client.start_flow(Keyed, "order", None))
            keys.append(client.wait_for_flow("order").single_output(str))
            await eventually(lambda: is_gone(api, "order"), "the Flow is deleted")
        assert keys == ["order/TellKey-1", "order/TellKey-1~2", "order/TellKey-1~3"]
    files = sorted((tmp_path / "archive").rglob("*.jsonl"), key=lambda path: path.name)
    assert [path.name for path in files] == [
        f"order~{number}-{run_id}.jsonl" for number, run_id in enumerate(run_ids, 1)
    ]
    imported = dex("log", "import", *map(str, files), "--data-dir", str(tmp_path / "other"))["imported"]
    assert imported[0]["run_ids"] == run_ids
    assert dex("log", "verify", "--data-dir", str(tmp_path / "other"))["faults"] == []
    shown = dex("log", "replay", run_ids[1], "--data-dir", str(tmp_path / "other"))["state"]
    assert (shown["status"], shown["ordinal"]) == ("COMPLETED", 2)


async def test_keep_2_archive_that_cannot_be_written_keeps_the_flow_and_is_shown(tmp_path: Path) -> None:
    """[KEEP-2] In the log of the server and in `dex health`; it goes when the archive can be written."""
    archive = tmp_path / "archive"
    archive.write_bytes(b"in the way")
    arguments = kept("200ms", f"store.archive_dir={archive}")
    with ServerProcess(tmp_path / "data", *arguments) as server, ApiClient(server.address) as api:
        start(api, "a")
        stop(api, "a")
        await eventually(
            lambda: dex("health", "--server", server.address)["postponed_executions"] == 1, "the failure is shown"
        )
        assert "archive" in dex("health", "--server", server.address)["archive_error"]
        assert not is_gone(api, "a")
        archive.unlink()
        await eventually(lambda: is_gone(api, "a"), "the Flow is deleted")
        await eventually(
            lambda: dex("health", "--server", server.address)["postponed_executions"] == 0, "nothing is postponed"
        )
        assert next(event["flow_id"] for event in server.log_events() if event["event"] == "archive_failed") == "a"
    assert len(list(archive.rglob("*.jsonl"))) == 1


def page_from(api: ApiClient, run_id: str, from_event_id: int) -> pb.GetHistoryReply:
    request = pb.GetHistoryRequest(flow_id="long", run_id=run_id, from_event_id=from_event_id, page_size=10)
    return api.call("GetHistory", request, pb.GetHistoryReply)


def read_whole(api: ApiClient, run_id: str, total: int) -> None:
    """Page through the run; every page is what it must be, or the call is refused."""
    first = 1
    while first:
        page = page_from(api, run_id, first)
        assert [event.event_id for event in page.events] == list(range(first, min(first + 10, total + 1)))
        assert page.next_event_id == (first + 10 if first + 10 <= total else 0)
        first = page.next_event_id


def read_for_ever(api: ApiClient, run_id: str, total: int) -> None:
    while True:
        read_whole(api, run_id, total)


async def test_keep_3_reader_that_pages_gets_not_found_and_never_half_an_answer(tmp_path: Path) -> None:
    """[KEEP-3] Readers page round and round until the run is gone; each page is full, or there is none."""
    with ServerProcess(tmp_path / "data", *kept("700ms")) as server, ApiClient(server.address) as api:
        run_id = start(api, "long")
        for number in range(198):
            publish(api, "long", b"1", request_id=f"p{number}")
        stop(api, "long")
        total = describe(api, "long").history_events
        read_whole(api, run_id, total)
        with pytest.raises(RefusedError, match="NOT_FOUND/FLOW_NOT_FOUND"):
            read_for_ever(api, run_id, total)
        await eventually(lambda: is_gone(api, "long"), "everybody is told the same")


def counts(data_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = dex("log", "inspect", "--data-dir", str(data_dir))
    return found


async def test_keep_1_removal_goes_on_after_kill_9_in_the_middle_of_it(tmp_path: Path) -> None:
    """[KEEP-1] The log is whole whenever that is, and at last all are gone; the open Flow is served all along."""
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir, *kept("0s")) as server, ApiClient(server.address) as api:
        start_and_stop(api, 400, messages=20)
        start(api, "open")
    for _ in range(3):
        with ServerProcess(data_dir, *kept("100ms")) as server, ApiClient(server.address) as api:
            before = removed_events(data_dir)
            await eventually(partial(has_removed_more, data_dir, before), "some events are deleted")
            describe(api, "open")
            os.kill(server.pid, signal.SIGKILL)
        assert dex("log", "verify", "--data-dir", str(data_dir))["faults"] == []
    with ServerProcess(data_dir, *kept("100ms")) as server, ApiClient(server.address) as api:
        await eventually(lambda: len(listed(api)) == 1 and is_clean(data_dir), "all but the open Flow are gone")
        assert listed(api) == ["open"]
        start(api, "later")
    found = counts(data_dir)
    assert found["removed_events"] + found["events"] == found["last_seq"]
    assert (found["runs"], found["remembered_ordinals"]) == (2, 400)
    assert dex("log", "verify", "--data-dir", str(data_dir))["faults"] == []


def listed(api: ApiClient) -> list[str]:
    reply = api.call("SearchFlows", pb.SearchFlowsRequest(page_size=1_000), pb.SearchFlowsReply)
    return [found.info.flow_id for found in reply.flows]


def scalar(data_dir: Path, query: str) -> int:
    with closing(sqlite3.connect(f"{log_path(data_dir).as_uri()}?mode=ro", uri=True)) as database:
        return int(database.execute(query).fetchone()[0])


def removed_events(data_dir: Path) -> int:
    return scalar(data_dir, "SELECT removed_events FROM log_end")


def has_removed_more(data_dir: Path, than: int) -> bool:
    return removed_events(data_dir) > than


def is_clean(data_dir: Path) -> bool:
    return not scalar(data_dir, "SELECT count(*) FROM removals")


def start_and_stop(api: ApiClient, flows: int, messages: int = 0) -> None:
    """Leave so many closed Flows behind, over one session."""
    session = api.client_session()
    for first in range(0, flows, 500):
        flow_ids = [f"old-{number}" for number in range(first, min(first + 500, flows))]
        starts = [request("StartFlow", number, start_request(flow_id)) for number, flow_id in enumerate(flow_ids)]
        session.send(*starts)
        session.replies(len(starts))
        others = [
            pb.PublishRequest(flow_id=flow_id, channel="news", values=[b"1"], request_id=fresh("p"))
            for flow_id in flow_ids
            for _ in range(messages)
        ]
        stops = [pb.StopFlowRequest(flow_id=flow_id, reason="enough", request_id=fresh("s")) for flow_id in flow_ids]
        session.send(*(request("Publish", number, other) for number, other in enumerate(others)))
        session.replies(len(others))
        session.send(*(request("StopFlow", number, other) for number, other in enumerate(stops)))
        session.replies(len(stops))
    session.finish()


def request(method: str, number: int, message: Any) -> pb.ClientRequest:
    return pb.ClientRequest(id=number + 1, method=method, body=message.SerializeToString())


# ---- load --------------------------------------------------------------------------------------------------------

REMOVED_FLOWS = 10_000
STEPS = 100
RATIO_MAX = 2.0
"""How much longer a Step may take in the median while runs are removed. The machine is shared, so the bound is wide;
about 1.1 is usual."""


class Hop(Step[int]):
    """One of a chain."""

    def execute(self, context: Context, input: int) -> StepDecision:
        return go_to(Hop, input - 1) if input else force_complete("done")


class Chain(Flow[int]):
    """Steps one after the other."""

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Hop())


def chain_seconds(client: Client, number: int) -> float:
    begun = time.perf_counter()
    client.start_flow(Chain, f"chain-{number}", STEPS)
    client.wait_for_flow(f"chain-{number}")
    return time.perf_counter() - begun


@pytest.mark.long
def test_keep_1_removal_of_ten_thousand_runs_does_not_delay_dispatch(tmp_path: Path) -> None:
    """[KEEP-1] Chains of Steps take as long while they are removed as when nothing is."""
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir, *kept("0s")) as server, ApiClient(server.address) as api:
        start_and_stop(api, REMOVED_FLOWS)
    registry = Registry([Chain()])
    with chains(data_dir, registry, "0s") as client:
        alone = [chain_seconds(client, number) for number in range(20)]
    meanwhile: list[float] = []
    with chains(data_dir, registry, "1s") as client:
        while removed_events(data_dir) < 4 * REMOVED_FLOWS:
            meanwhile.append(chain_seconds(client, 1_000 + len(meanwhile)))
    assert len(meanwhile) >= 3, "the removal was over before it could be measured"
    assert statistics.median(meanwhile) < RATIO_MAX * statistics.median(alone)


@contextmanager
def chains(data_dir: Path, registry: Registry, retention: str) -> Iterator[Client]:
    """A client of a server with that retention, and a worker that runs chains."""
    with (
        ServerProcess(data_dir, *kept(retention)) as server,
        running_worker(registry, server.address),
        Client(registry, None, ClientOptions(server_address=server.address)) as client,
    ):
        yield client
