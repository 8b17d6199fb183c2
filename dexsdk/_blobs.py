"""Large values on their way out of and into a process: what is uploaded, fetched, verified and cached [BLOB-2, BLOB-5].

Everything here blocks its thread. Where values are kept on the other side is the business of a transfer.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from dexpb.v1.blobs import (
    THRESHOLD_BYTES_MIN,
    Reference,
    is_reference,
    make_reference,
    read_reference,
)
from dexsdk.blob_cache import BlobCache
from dexsdk.errors import DexServiceError, ValueTooLargeError

logger = logging.getLogger("dexsdk.blobs")


class BlobTerms(NamedTuple):
    """What the server says about sizes."""

    threshold_bytes: int
    """Values of more bytes are uploaded."""
    max_bytes: int


def _always() -> bool:
    return True


class BlobTransfer(Protocol):
    """Moves large values between this process and a server."""

    def terms(self, is_wanted: Callable[[], bool]) -> BlobTerms:
        """Give what the server says about sizes; asked once.

        Raises:
            DexServiceError: it cannot be asked, or `is_wanted` became false before it could.
        """
        ...

    def upload(self, blobs: Sequence[tuple[Reference, bytes]], is_wanted: Callable[[], bool]) -> None:
        """Return when all are on the server's disk; what it has already is not sent again.

        Raises:
            DexServiceError: the server refused one, could not be reached, or `is_wanted` became false.
        """
        ...

    def download(self, reference: Reference, is_wanted: Callable[[], bool]) -> bytes:
        """Give a value's bytes as they come.

        Raises:
            DexServiceError: as `upload`.
        """
        ...

    def close(self) -> None:
        """End what is under way."""
        ...


class Blobs:
    """The large values of one client or worker."""

    def __init__(self, transfer: BlobTransfer, cache: BlobCache | None) -> None:
        self._transfer = transfer
        self._cache = cache
        self._threshold_bytes = THRESHOLD_BYTES_MIN

    def may_offload(self, size: int) -> bool:
        """Whether values of so many bytes in all need `offload`, which may block; always until terms are known."""
        return size > self._threshold_bytes

    def offload(self, values: Sequence[bytes], is_wanted: Callable[[], bool] = _always) -> list[bytes]:
        """Upload what is too large to travel inline, and give all values with references in the place of those.

        Raises:
            ValueTooLargeError: one exceeds what the server takes [LIM-1].
            DexServiceError: see `BlobTransfer.upload`.
        """
        if max(map(len, values), default=0) <= THRESHOLD_BYTES_MIN:
            return list(values)
        terms = self._transfer.terms(is_wanted)
        self._threshold_bytes = terms.threshold_bytes
        blobs: dict[bytes, tuple[Reference, bytes]] = {}
        outgoing = [self._outgoing(value, terms, blobs) for value in values]
        if blobs:
            self._transfer.upload(list(blobs.values()), is_wanted)
            for reference, data in blobs.values():
                self._put(reference.name, data)
        return outgoing

    def load(self, value: bytes, is_wanted: Callable[[], bool] = _always) -> bytes:
        """Give the value that the bytes stand for, from the cache or the server; other bytes are the value itself.

        Raises:
            DexServiceError: the server does not have it any more, or sent other bytes; see `BlobTransfer.download`.
        """
        if not is_reference(value):
            return value
        reference = read_reference(value)
        data = self._get(reference.name)
        if data is not None and _is_sound(reference, data):
            return data
        if data is not None:
            self._delete(reference.name)
        data = self._transfer.download(reference, is_wanted)
        if not _is_sound(reference, data):
            detail = f"the server sent {len(data)} bytes that are not the large value {reference.name}"
            raise DexServiceError(detail, code="DATA_LOSS", sub_status="BLOB_MISMATCH", operation="download")
        self._put(reference.name, data)
        return data

    def close(self) -> None:
        """End transfers that are under way; the cache is the user's."""
        self._transfer.close()

    @staticmethod
    def _outgoing(value: bytes, terms: BlobTerms, blobs: dict[bytes, tuple[Reference, bytes]]) -> bytes:
        if len(value) <= terms.threshold_bytes:
            return value
        if len(value) > terms.max_bytes:
            raise ValueTooLargeError.of("value", "upload", len(value), terms.max_bytes)
        reference = make_reference(value)
        blobs[reference] = (read_reference(reference), value)
        return reference

    # A cache that fails is one that is cold [BLOB-5].

    def _get(self, name: str) -> bytes | None:
        if self._cache is None:
            return None
        try:
            return self._cache.get(name)
        except Exception as error:  # noqa: BLE001 -- whatever a cache of the user raises, the server has the value
            logger.debug("blob_cache_failed get %s: %r", name, error)
            return None

    def _put(self, name: str, data: bytes) -> None:
        if self._cache is not None:
            try:
                self._cache.put(name, data)
            except Exception as error:  # noqa: BLE001 -- see _get
                logger.debug("blob_cache_failed put %s: %r", name, error)

    def _delete(self, name: str) -> None:
        if self._cache is not None:
            try:
                self._cache.delete(name)
            except Exception as error:  # noqa: BLE001 -- see _get
                logger.debug("blob_cache_failed delete %s: %r", name, error)


def _is_sound(reference: Reference, data: bytes) -> bool:
    return len(data) == reference.size and hashlib.sha256(data).digest() == reference.digest
