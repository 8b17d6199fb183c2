"""The SDK's transfers against servers that are away, old, or slow to come [BLOB-2, WIRE-9]."""

import threading
from functools import partial
from pathlib import Path

import pytest

from dexpb.v1.blobs import make_reference, read_reference
from dexsdk import DexServiceError
from dexsdk._blob_transfer import UNLIMITED, GrpcBlobTransfer, new_session_key
from dexsdk._blobs import Blobs
from dexsdk._server_channel import ServerChannel
from tests.support.scripted_peer import ScriptedPeer
from tests.support.server_process import ServerProcess

DATA = b'"' + b"d" * 200_000 + b'"'


def transfer_to(address: str, patience_s: float | None = None) -> GrpcBlobTransfer:
    return GrpcBlobTransfer(partial(ServerChannel, address, None, None, new_session_key()), patience_s)


def test_blob_2_a_server_that_takes_no_uploads_gets_everything_inline() -> None:
    """One of before large values had a service of their own."""
    with ScriptedPeer() as peer:
        transfer = transfer_to(peer.address)
        assert transfer.terms(lambda: True).threshold_bytes == UNLIMITED
        assert Blobs(transfer, None).offload([DATA]) == [DATA]
        transfer.close()


def test_wire_9_a_transfer_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        address = first.address
    transfer = transfer_to(address)
    sent: list[bytes] = []
    thread = threading.Thread(target=lambda: sent.extend(Blobs(transfer, None).offload([DATA])))
    thread.start()
    with ServerProcess(tmp_path / "data", listen=address):
        thread.join(30)
        assert sent == [make_reference(DATA)]
        assert transfer.download(read_reference(sent[0]), lambda: True) == DATA
        with pytest.raises(DexServiceError) as raised:
            transfer.download(read_reference(make_reference(b"other")), lambda: True)
        assert raised.value.sub_status == "BLOB_NOT_FOUND"
    transfer.close()


@pytest.mark.parametrize("end", ["patience", "unwanted", "closed"])
def test_wire_9_a_transfer_ends_when_nobody_waits_for_it_any_more(tmp_path: Path, end: str) -> None:
    with ServerProcess(tmp_path / "data") as server:
        address = server.address
    transfer = transfer_to(address, 0.3 if end == "patience" else None)
    looks: list[None] = []

    def is_wanted() -> bool:
        looks.append(None)
        if end == "closed" and len(looks) == 3:
            transfer.close()
        return end != "unwanted" or len(looks) < 3

    with pytest.raises(DexServiceError) as raised:
        transfer.terms(is_wanted)
    assert raised.value.code == ("UNAVAILABLE" if end == "patience" else "CANCELLED")
    transfer.close()
