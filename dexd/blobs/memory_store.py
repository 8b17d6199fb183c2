"""The store in memory: the double of `LocalBlobStore` for tests and simulation, held to the same contract suite."""

import hashlib
from collections.abc import Iterator
from threading import Lock

from dexd.blobs.store import BlobDamagedError, BlobMissingError, StoredBlob


class MemoryBlobStore:
    """A BlobStore without a directory. It is durable as long as it is referenced."""

    def __init__(self) -> None:
        self._blobs: dict[bytes, tuple[bytes, int]] = {}
        self._lock = Lock()

    def size_of(self, digest: bytes) -> int | None:
        found = self._blobs.get(digest)
        return None if found is None else len(found[0])

    def want(self, digest: bytes, now: int) -> bool:
        with self._lock:
            found = self._blobs.get(digest)
            if found is not None:
                self._blobs[digest] = (found[0], max(found[1], now))
            return found is not None

    def read(self, digest: bytes, offset: int, length: int) -> bytes:
        found = self._blobs.get(digest)
        if found is None:
            raise BlobMissingError(digest.hex())
        return found[0][offset : offset + length]

    def receive(self, digest: bytes, size: int) -> "_Incoming":
        return _Incoming(self, digest, size)

    def stored(self) -> Iterator[StoredBlob]:
        for digest, (data, wanted_at) in sorted(self._blobs.items()):
            yield StoredBlob(digest, len(data), wanted_at)

    def remove(self, digest: bytes, wanted_before: int) -> bool:
        with self._lock:
            found = self._blobs.get(digest)
            if found is not None and found[1] >= wanted_before:
                return False
            self._blobs.pop(digest, None)
            return True

    def put(self, digest: bytes, data: bytes, now: int) -> None:
        """Keep a value, or note that it is wanted."""
        with self._lock:
            self._blobs.setdefault(digest, (data, now))
        self.want(digest, now)


class _Incoming:
    """A value on its way in."""

    def __init__(self, store: MemoryBlobStore, digest: bytes, size: int) -> None:
        self._store = store
        self._digest = digest
        self._size = size
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self._chunks.append(bytes(chunk))

    def keep(self, now: int) -> None:
        data = b"".join(self._chunks)
        if len(data) != self._size or hashlib.sha256(data).digest() != self._digest:
            raise BlobDamagedError(self._digest.hex())
        self._store.put(self._digest, data, now)

    def drop(self) -> None:
        self._chunks.clear()
