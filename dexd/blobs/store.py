"""The port: a store of large values by content, each kept once under its SHA-256 [BLOB-1].

All methods may be called from any thread and may wait for a disk. Implementations pass tests/conformance/blob_store.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec


class BlobMissingError(LookupError):
    """The store has no such value."""


class BlobDamagedError(Exception):
    """The bytes are not those of the digest they go by."""


class StoredBlob(msgspec.Struct, frozen=True):
    """One value in a store."""

    digest: bytes
    size: int
    wanted_at: int
    """When it was last uploaded or asked for; younger ones are no orphans yet [BLOB-4]."""


class IncomingBlob(Protocol):
    """A value on its way in. Exactly one of `keep` and `drop` ends it."""

    def write(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            OSError: they cannot be written; only `drop` is left.
        """
        ...

    def keep(self, now: int) -> None:
        """Store it, durably when this returns; equal content that is there already stays the only one.

        Raises:
            BlobDamagedError: size or digest differ from what was announced; nothing is kept.
            OSError: it cannot be written; nothing is kept.
        """
        ...

    def drop(self) -> None:
        """Forget it; no effect after `keep`."""
        ...


class BlobReader(Protocol):
    """Values by content, for those who only look."""

    def size_of(self, digest: bytes) -> int | None:
        """Size of a value; None if the store does not have it."""
        ...

    def read(self, digest: bytes, offset: int, length: int) -> bytes:
        """Bytes of a value; fewer at its end.

        Raises:
            BlobMissingError: there is no such value.
        """
        ...


class BlobStore(BlobReader, Protocol):
    """Values by content."""

    def want(self, digest: bytes, now: int) -> bool:
        """Somebody is about to refer to the value, so that it is no orphan for a while; False if it is not there."""
        ...

    def receive(self, digest: bytes, size: int) -> IncomingBlob:
        """Begin to take a value in.

        Raises:
            OSError: nothing can be written.
        """
        ...

    def stored(self) -> Iterator[StoredBlob]:
        """Every value, in the order of digests. What is added or removed meanwhile may or may not be among them."""
        ...

    def remove(self, digest: bytes, wanted_before: int) -> bool:
        """Remove a value unless it was wanted since; gives whether it is gone now."""
        ...
