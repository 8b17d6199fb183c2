"""Large values between real processes [BLOB-1..5, LIM-1..3]."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dexsdk import BlobCache, BlobCacheConfig, Client, ClientOptions, Registry, open_blob_cache
from tests.support.document_flow import DOCUMENT, DOCUMENT_FLOW, INBOX
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
    """[BLOB-1, BLOB-2, BLOB-5] Input, message, Attribute, RPC and output; no cache, a cold and a warm one."""
    text = "0123456789abcdef" * (size // 16)
    round_trip(server, "uncached", text, None)
    cache = open_blob_cache(BlobCacheConfig(tmp_path / "cache", 200 * MB))
    try:
        round_trip(server, "cold", text, cache)
        assert cache.get(hashlib.sha256(encoded(text)).hexdigest()) == encoded(text)
        round_trip(server, "warm", text, cache)
    finally:
        cache.close()
    assert stored(server) == {hashlib.sha256(encoded(text)).hexdigest(): len(encoded(text))}
