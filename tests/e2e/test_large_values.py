"""Large values between real processes [BLOB-1..5, LIM-1..3]."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dexsdk import (
    AttributeMatch,
    BlobCache,
    BlobCacheConfig,
    Client,
    ClientOptions,
    Context,
    Flow,
    LongPollTimeoutError,
    Registry,
    ScheduleAction,
    ScheduleSpec,
    Step,
    StepDecision,
    StepList,
    WaitForAttributeOptions,
    graceful_complete,
    open_blob_cache,
)
from tests.support.api_client import ApiClient
from tests.support.document_flow import DOCUMENT, DOCUMENT_FLOW, INBOX, SHELF
from tests.support.eventually import eventually_in_thread
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

MB = 1_000_000
REGISTRY = Registry((DOCUMENT_FLOW,))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


def stored(server: ServerProcess) -> dict[str, int]:
    """Every file in the store with its size."""
    return {path.name: path.stat().st_size for path in (server.data_dir / "blobs").rglob("*") if path.is_file()}


def encoded(text: str) -> bytes:
    return f'"{text}"'.encode()


def round_trip(server: ServerProcess, flow_id: str, text: str, cache: BlobCache | None) -> None:
    """Send the text through every place that values pass, and look whether it is what comes out."""
    with (
        running_worker(REGISTRY, server.address, cache),
        Client(REGISTRY, cache, ClientOptions(server.address)) as client,
    ):
        client.start_flow(DOCUMENT_FLOW, flow_id, text)
        assert client.invoke_rpc(DOCUMENT_FLOW.echo, flow_id, text) == text
        client.publish(flow_id, INBOX, text)
        result = client.wait_for_flow(flow_id, 60)
        assert result.single_output(str) == text
        assert client.get_attribute(flow_id, DOCUMENT) == text


@pytest.mark.slow
@pytest.mark.parametrize("size", [3 * MB, 60 * MB])
def test_row_34_large_values_come_out_as_they_went_in_and_lie_in_one_file(
    server: ServerProcess, tmp_path: Path, size: int
) -> None:
    """[BLOB-1, BLOB-2, BLOB-5] Input, message, Attribute, RPC and output; with a cold cache, then with a warm one."""
    text = "0123456789abcdef" * (size // 16)
    name = hashlib.sha256(encoded(text)).hexdigest()
    cache = open_blob_cache(BlobCacheConfig(tmp_path / "cache", 200 * MB))
    try:
        round_trip(server, "cold", text, cache)
        assert cache.get(name) == encoded(text)
        assert stored(server) == {name: len(encoded(text))}
        with Client(REGISTRY, cache, ClientOptions(server.address)) as client:
            (server.data_dir / "blobs" / name[:2] / name).unlink()
            assert client.get_attribute("cold", DOCUMENT) == text
    finally:
        cache.close()
    assert memory_peak_mb(server) < 200


def memory_peak_mb(server: ServerProcess) -> int:
    """The server never holds a value as a whole."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1_000


class BrokenCache:
    """A cache that can do nothing."""

    config = BlobCacheConfig("nowhere", 1)

    def get(self, id: str) -> bytes | None:  # noqa: A002 - the surface's word
        raise OSError(id)

    def put(self, id: str, data: bytes) -> bool:  # noqa: A002 - see get
        raise OSError(id)

    def delete(self, id: str) -> None:  # noqa: A002 - see get
        raise OSError(id)

    def delete_all(self) -> None:
        raise OSError

    def close(self) -> None:
        raise OSError


@pytest.mark.parametrize("cache", [None, BrokenCache()], ids=["none", "broken"])
def test_blob_5_without_a_cache_that_works_everything_only_takes_longer(
    server: ServerProcess, cache: BlobCache | None
) -> None:
    round_trip(server, "uncached", "x" * 100_000, cache)


@pytest.mark.slow
def test_chan_8_a_pending_message_of_20_mb_is_listed_by_a_handler(server: ServerProcess) -> None:
    """It needs no frame of its own size."""
    with (
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server.address)) as client,
    ):
        client.start_flow(DOCUMENT_FLOW, "f", "input")
        client.publish("f", SHELF, "x" * 20 * MB)
        assert client.invoke_rpc(DOCUMENT_FLOW.shelved, "f") == [20 * MB]
        (message,) = client.list_channel_messages("f", SHELF)
        assert len(message.value) == 20 * MB


@pytest.mark.slow
def test_blob_4_a_crash_during_an_upload_leaves_nothing_and_the_client_uploads_again(tmp_path: Path) -> None:
    """[BLOB-1, BLOB-4, START-6] kill -9 in the middle; the same call then succeeds against the server that is back."""
    data = encoded("y" * 5 * MB)
    digest = hashlib.sha256(data).digest()
    with ServerProcess(tmp_path / "data") as first:
        with ApiClient(first.address, "a key that nobody else has") as api:
            call = api.upload_call()
            call.offer(data)
            wanted = call.reply()
            call.send(data=data[: wanted.length // 2])
            eventually_in_thread(lambda: any(stored(first).values()), "part of the value is written")
            first.kill()
            call.cancel()
        assert [name[:4] for name in stored(first)] == ["tmp-"]
        address = first.address
    with ThreadPoolExecutor(1) as pool, Client(REGISTRY, None, ClientOptions(address)) as client:
        started = pool.submit(client.start_flow, DOCUMENT_FLOW, "f", "y" * 5 * MB)
        with ServerProcess(tmp_path / "data", listen=address) as second:
            assert started.result(30)
            assert stored(second) == {digest.hex(): len(data)}
            second.kill()
    with OfflineLog(log_path(tmp_path / "data")) as log:
        found = log.latest_run("f")
        assert found is not None
        assert log.refers_to(found.row.run_id, digest)


class GatedStep(Step[str]):
    """Waits for the test before it gives twice its input."""

    def __init__(self, entered: threading.Event, gate: threading.Event) -> None:
        self._entered, self._gate = entered, gate

    def execute(self, context: Context, input: str) -> StepDecision:
        self._entered.set()
        assert self._gate.wait(30)
        return graceful_complete(input + input)


class GatedFlow(Flow[str]):
    def __init__(self) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(GatedStep(self.entered, self.gate))


@pytest.mark.slow
def test_blob_3_a_result_survives_the_server_that_its_call_came_from(tmp_path: Path) -> None:
    """[BLOB-3, WIRE-10] Uploads are remembered over a restart, and what was handed out with a call is in the log."""
    flow = GatedFlow()
    registry = Registry((flow,))
    with ServerProcess(tmp_path / "data") as first:
        address = first.address
        with running_worker(registry, address), Client(registry, None, ClientOptions(address)) as client:
            client.start_flow(flow, "f", "z" * 300_000)
            assert flow.entered.wait(10)
            first.kill()
            flow.gate.set()
            with ServerProcess(tmp_path / "data", listen=address) as second:
                assert client.wait_for_flow("f", 30).single_output(str) == "z" * 600_000
                kinds = [event.kind for event in client.get_history("f").events]
                assert "ExecuteFailed" not in kinds
                assert len(stored(second)) == 2


@pytest.mark.slow
def test_blob_2_a_transfer_of_60_mb_holds_up_nobody_else(server: ServerProcess) -> None:
    """Calls of the same client go on while it uploads."""
    with (
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server.address)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.start_flow(DOCUMENT_FLOW, "busy", "small")
        upload = pool.submit(client.start_flow, DOCUMENT_FLOW, "large", "u" * 60 * MB)
        calls = 0
        while not upload.done():
            assert client.invoke_rpc(DOCUMENT_FLOW.echo, "busy", "ping") == "ping"
            calls += 1
        assert upload.result()
        assert calls > 5


def test_blob_3_schedules_and_batches_carry_large_values(server: ServerProcess) -> None:
    """[BLOB-3, BLOB-4, SCHED-2, BATCH-1] Uploaded first, kept for the schedule, the job and every Flow."""
    first, second, third = (letter * 100_000 for letter in "abc")
    digests = [hashlib.sha256(encoded(text)).digest() for text in (first, second, third)]
    with (
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server.address)) as client,
    ):
        spec = ScheduleSpec(interval=86_400)
        client.schedules.create("s", spec, ScheduleAction(DOCUMENT_FLOW, first))
        assert client.schedules.describe("s").input == first
        (listed,) = client.schedules.list().schedules
        assert listed.input == {"$blob": {"sha256": digests[0].hex(), "size": 100_002}}
        flow_id = client.schedules.trigger_now("s")
        eventually_in_thread(
            lambda: client.count_flows(f"FlowId = '{flow_id}'").total == 1, "the occurrence is started"
        )
        query = f"FlowId = '{flow_id}'"
        ended = client.batch.set_attribute(query, DOCUMENT, second)
        eventually_in_thread(lambda: client.batch.describe(ended.id).status == "COMPLETED", "the job has ended")
        assert client.get_attribute(flow_id, DOCUMENT) == second
        client.schedules.update("s", action=ScheduleAction(DOCUMENT_FLOW, third))
        assert client.schedules.describe("s").input == third
        client.batch.publish(query, INBOX, first)
        assert client.wait_for_flow(flow_id, 60).single_output(str) == first
        client.schedules.delete("s")
    assert sorted(stored(server)) == sorted(digest.hex() for digest in digests)
    with OfflineLog(log_path(server.data_dir)) as log:
        assert log.blobs_in_use(digests) == set(digests)
        found = log.latest_run(flow_id)
        assert found is not None
        assert [log.refers_to(found.row.run_id, digest) for digest in digests] == [True, True, False]


def test_waitapi_4_a_large_text_matches_by_its_content(server: ServerProcess) -> None:
    """[WAITAPI-4, WAITAPI-5, BLOB-1] Nothing is uploaded for it; the value that matches is given as a whole."""
    first, second = ("".join((letter, "x" * 100_000)) for letter in "ab")
    with (
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server.address)) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        client.start_flow(DOCUMENT_FLOW, "f", "input")
        equal = pool.submit(client.wait_for_attribute_equal, "f", DOCUMENT, second, 30)
        another = pool.submit(client.wait_for_attribute_match, "f", DOCUMENT, AttributeMatch.not_equal("short"))
        assert stored(server) == {}
        client.set_attribute("f", DOCUMENT, first)
        assert another.result(30) == first
        assert not equal.done()
        client.set_attribute("f", DOCUMENT, second)
        equal.result(30)
        with pytest.raises(LongPollTimeoutError):
            client.wait_for_attribute_match(
                "f", DOCUMENT, AttributeMatch.not_equal(second), WaitForAttributeOptions(timeout=0)
            )
