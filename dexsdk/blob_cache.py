"""A bounded cache of large values on disk; disposable: without it everything only takes longer [BLOB-5]."""

import fcntl
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

_LOCK_NAME = "lock"
_PARTIAL_SUFFIX = ".partial"


@dataclass(frozen=True)
class BlobCacheConfig:
    """Where a cache lives and how large it may grow."""

    directory: Path | str
    """Belongs to one process at a time."""
    max_bytes: int
    """Total size of the cached data."""
    frequency_counters: int = 10_000
    """IDs whose number of uses is remembered, also of blobs that are not cached."""

    def __post_init__(self) -> None:
        for name in ("max_bytes", "frequency_counters"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}, an int of at least 1 is needed")


class BlobCache(Protocol):
    """What a worker or client keeps of large values; any thread may call it."""

    @property
    def config(self) -> BlobCacheConfig:
        """The bounds it keeps."""
        ...

    def get(self, id: str) -> bytes | None:  # noqa: A002 -- the surface's word
        """Give a blob, or None when it is not cached or cannot be read."""
        ...

    def put(self, id: str, data: bytes) -> bool:  # noqa: A002 -- the surface's word
        """Keep a blob; False when it was not worth the room or could not be written."""
        ...

    def delete(self, id: str) -> None:  # noqa: A002 -- the surface's word
        """Forget a blob."""
        ...

    def delete_all(self) -> None:
        """Forget everything."""
        ...

    def close(self) -> None:
        """Give the directory free; idempotent."""
        ...


def open_blob_cache(config: BlobCacheConfig) -> BlobCache:
    """Open a cache in its directory; what an earlier process left there is used.

    Raises:
        OSError: the directory cannot be made or belongs to another process.
    """
    directory = Path(config.directory)
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / _LOCK_NAME).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return _DiskBlobCache(config, directory, lock)


class _DiskBlobCache:
    """One file per blob, named by a digest of its ID; the least recently used one makes room.

    A newcomer that is used less often than the blob it would push out is not admitted, so that one pass over many
    large values does not empty the cache.
    """

    def __init__(self, config: BlobCacheConfig, directory: Path, lock: IO[bytes]) -> None:
        self.config = config
        self._directory = directory
        self._lock = lock
        self._guard = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """Size by file name, least recently used first."""
        self._bytes = 0
        self._uses: dict[str, int] = {}
        self._load()

    def get(self, id: str) -> bytes | None:  # noqa: A002 -- the surface's word
        name = _file_name(id)
        with self._guard:
            self._count_use(name)
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
            try:
                return (self._directory / name).read_bytes()
            except OSError:
                self._forget(name)
                return None

    def put(self, id: str, data: bytes) -> bool:  # noqa: A002 -- the surface's word
        name = _file_name(id)
        with self._guard:
            if self._lock.closed or len(data) > self.config.max_bytes:
                return False
            self._count_use(name)
            if name in self._sizes:
                self._drop(name)
            if not self._make_room(name, len(data)) or not self._write(name, data):
                return False
            self._sizes[name] = len(data)
            self._bytes += len(data)
            return True

    def delete(self, id: str) -> None:  # noqa: A002 -- the surface's word
        with self._guard:
            self._drop(_file_name(id))

    def delete_all(self) -> None:
        with self._guard:
            for name in tuple(self._sizes):
                self._drop(name)

    def close(self) -> None:
        with self._guard:
            self._lock.close()

    def _load(self) -> None:
        entries = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in entries:
            if path.name.endswith(_PARTIAL_SUFFIX):
                path.unlink(missing_ok=True)
            elif path.name != _LOCK_NAME:
                self._sizes[path.name] = path.stat().st_size
                self._bytes += self._sizes[path.name]
        while self._bytes > self.config.max_bytes:
            self._drop(next(iter(self._sizes)))

    def _count_use(self, name: str) -> None:
        self._uses[name] = self._uses.get(name, 0) + 1
        if len(self._uses) > self.config.frequency_counters:
            # Halving lets old fame fade, and drops what was used once.
            self._uses = {name: uses // 2 for name, uses in self._uses.items() if uses > 1}

    def _make_room(self, newcomer: str, size: int) -> bool:
        room = self.config.max_bytes - self._bytes
        victims: list[str] = []
        for name, victim_size in self._sizes.items():
            if room >= size:
                break
            if self._uses.get(name, 0) > self._uses.get(newcomer, 0):
                return False
            victims.append(name)
            room += victim_size
        for name in victims:
            self._drop(name)
        return True

    def _write(self, name: str, data: bytes) -> bool:
        partial = self._directory / (name + _PARTIAL_SUFFIX)
        try:
            partial.write_bytes(data)
            # A crash leaves either the whole blob or a partial file that the next start removes.
            partial.replace(self._directory / name)
        except OSError:
            return False
        return True

    def _drop(self, name: str) -> None:
        if name in self._sizes:
            self._forget(name)
            (self._directory / name).unlink(missing_ok=True)

    def _forget(self, name: str) -> None:
        self._bytes -= self._sizes.pop(name)


def _file_name(blob_id: str) -> str:
    """Any text may be an ID, so files are named by its digest."""
    return hashlib.sha256(blob_id.encode(errors="surrogatepass")).hexdigest()
