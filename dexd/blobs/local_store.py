"""The store in a directory: one file per value, named by its digest, in 256 folders [BLOB-1].

    <directory>/3f/3fa91c...        a value
    <directory>/3f/tmp-x8c0...      a value on its way in

A file gets its name only when all of it is on disk, and its name is on disk before anybody hears of it. So a crash
leaves whole values, and at most parts that nobody refers to; the next start removes those. When a value was last wanted
is the time of its file, in server time.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from dexd.blobs.store import BlobDamagedError, BlobMissingError, StoredBlob

PARTIAL_PREFIX: Final = "tmp-"
_NS_PER_MS: Final = 1_000_000
_DIGEST_CHARACTERS: Final = 64


class LocalBlobReader:
    """A BlobReader of such a directory; writes nothing, and whether a server uses it does not matter."""

    def __init__(self, directory: Path) -> None:
        """Name the directory, which need not exist."""
        self._directory = directory

    def size_of(self, digest: bytes) -> int | None:
        try:
            return self._path(digest).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, digest: bytes, offset: int, length: int) -> bytes:
        try:
            descriptor = os.open(self._path(digest), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BlobMissingError(digest.hex()) from None
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._directory / name[:2] / name


class LocalBlobStore(LocalBlobReader):
    """A BlobStore in a directory that belongs to one server."""

    def __init__(self, directory: Path) -> None:
        """Create the directory if need be, and remove what a crash left half-written.

        Raises:
            OSError: the directory cannot be created, read or written.
        """
        super().__init__(directory)
        self._lock = Lock()
        """Makes looking at a file's time and acting on it one step."""
        if not directory.is_dir():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync(directory.parent)
        for partial in directory.glob(f"??/{PARTIAL_PREFIX}*"):
            partial.unlink(missing_ok=True)

    def want(self, digest: bytes, now: int) -> bool:
        path = self._path(digest)
        with self._lock:
            try:
                wanted_ns = max(path.stat().st_mtime_ns, now * _NS_PER_MS)
                os.utime(path, ns=(wanted_ns, wanted_ns))
            except FileNotFoundError:
                return False
        return True

    def receive(self, digest: bytes, size: int) -> "_Incoming":
        path = self._path(digest)
        with self._lock:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=0o700)
                _sync(self._directory)
        return _Incoming(path, digest, size)

    def stored(self) -> Iterator[StoredBlob]:
        for folder in sorted(self._directory.iterdir()):
            for path in sorted(folder.iterdir()):
                if len(path.name) != _DIGEST_CHARACTERS:
                    continue
                # Removed meanwhile: it is no orphan any more.
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield StoredBlob(bytes.fromhex(path.name), status.st_size, status.st_mtime_ns // _NS_PER_MS)

    def remove(self, digest: bytes, wanted_before: int) -> bool:
        path = self._path(digest)
        with self._lock:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime_ns >= wanted_before * _NS_PER_MS:
                    return False
                path.unlink()
            return True


class _Incoming:
    """A value on its way into its file."""

    def __init__(self, path: Path, digest: bytes, size: int) -> None:
        self._path = path
        self._digest = digest
        self._size = size
        self._hash = hashlib.sha256()
        self._written = 0
        descriptor, name = tempfile.mkstemp(prefix=PARTIAL_PREFIX, dir=path.parent)
        self._partial: Path | None = Path(name)
        self._file = os.fdopen(descriptor, "wb", buffering=0)

    def write(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._written += len(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[self._file.write(rest) :]

    def keep(self, now: int) -> None:
        try:
            if self._written != self._size or self._hash.digest() != self._digest:
                raise BlobDamagedError(self._digest.hex())
            assert self._partial is not None, "it is kept once"
            os.utime(self._partial, ns=(now * _NS_PER_MS, now * _NS_PER_MS))
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
            self._partial = None
            _sync(self._path.parent)
        finally:
            self.drop()

    def drop(self) -> None:
        self._file.close()
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)
            self._partial = None


def _sync(directory: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
