"""What every implementation of the BlobStore port must do [BLOB-1, BLOB-4]."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from dexd.blobs.local_store import LocalBlobStore
from dexd.blobs.memory_store import MemoryBlobStore
from dexd.blobs.store import BlobDamagedError, BlobMissingError, BlobStore, StoredBlob

Restart: TypeAlias = Callable[[], BlobStore]

DATA = b"0123456789" * 1_000
DIGEST = hashlib.sha256(DATA).digest()
OTHER = b"other"
OTHER_DIGEST = hashlib.sha256(OTHER).digest()


@pytest.fixture(params=["memory", "local"])
def restart(request: pytest.FixtureRequest, tmp_path: Path) -> Restart:
    """Open the store again with what it keeps over a restart."""
    kept = MemoryBlobStore()
    return lambda: kept if request.param == "memory" else LocalBlobStore(tmp_path / "deep" / "blobs")


@pytest.fixture
def store(restart: Restart) -> BlobStore:
    return restart()


def put(store: BlobStore, data: bytes, now: int) -> None:
    incoming = store.receive(hashlib.sha256(data).digest(), len(data))
    incoming.write(data[:7])
    incoming.write(data[7:])
    incoming.keep(now)
    incoming.drop()


def test_blob_1_a_value_is_kept_under_its_digest_and_survives_a_restart(restart: Restart) -> None:
    store = restart()
    assert store.size_of(DIGEST) is None
    assert list(store.stored()) == []
    put(store, DATA, 50)
    store = restart()
    assert store.size_of(DIGEST) == len(DATA)
    assert store.read(DIGEST, 3, 4) == b"3456"
    assert store.read(DIGEST, len(DATA) - 2, 100) == b"89"
    assert list(store.stored()) == [StoredBlob(DIGEST, len(DATA), 50)]


def test_blob_1_equal_content_is_kept_once(store: BlobStore) -> None:
    incoming = store.receive(DIGEST, len(DATA))
    incoming.write(DATA)
    put(store, DATA, 50)
    incoming.keep(60)
    assert [blob.digest for blob in store.stored()] == [DIGEST]
    assert store.read(DIGEST, 0, len(DATA)) == DATA


@pytest.mark.parametrize(("digest", "size"), [(OTHER_DIGEST, len(DATA)), (DIGEST, len(DATA) - 1)])
def test_blob_1_other_bytes_than_were_announced_are_not_kept(restart: Restart, digest: bytes, size: int) -> None:
    store = restart()
    incoming = store.receive(digest, size)
    incoming.write(DATA)
    with pytest.raises(BlobDamagedError):
        incoming.keep(50)
    incoming.drop()
    assert list(restart().stored()) == []


def test_blob_4_a_value_that_never_came_whole_leaves_nothing(restart: Restart, tmp_path: Path) -> None:
    store = restart()
    crashed = store.receive(DIGEST, len(DATA))
    crashed.write(DATA[:100])
    dropped = store.receive(OTHER_DIGEST, len(OTHER))
    dropped.write(OTHER)
    dropped.drop()
    assert list(restart().stored()) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    crashed.drop()


def test_blob_4_a_value_is_removed_unless_it_was_wanted_since(store: BlobStore) -> None:
    put(store, DATA, 50)
    put(store, OTHER, 70)
    assert not store.remove(DIGEST, 50)
    assert store.want(DIGEST, 90)
    assert not store.remove(DIGEST, 80)
    assert store.want(DIGEST, 60)
    assert [blob.wanted_at for blob in store.stored() if blob.digest == DIGEST] == [90]
    assert store.remove(DIGEST, 91)
    assert store.remove(DIGEST, 91)
    assert [blob.digest for blob in store.stored()] == [OTHER_DIGEST]
    assert not store.want(DIGEST, 99)
    with pytest.raises(BlobMissingError):
        store.read(DIGEST, 0, 1)
