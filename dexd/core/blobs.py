"""References that stand for large values [BLOB-1].

Values are opaque bytes to the rules. One above 64 KiB lies in the blob store, and everywhere else a reference takes its
place: a mark, the SHA-256 of the value, its size. The mark's first byte occurs neither in UTF-8, which all values are,
nor as a type in MessagePack, so that the references inside encoded events, requests and frames are found by a search
for the mark, without decoding anything. `dexpb.v1.blobs` is what peers know of this form.
"""

import msgspec

REFERENCE_MARK = b"\xc1dexblob"
DIGEST_BYTES = 32
_SIZE_BYTES = 8
REFERENCE_BYTES = len(REFERENCE_MARK) + DIGEST_BYTES + _SIZE_BYTES


class BlobReference(msgspec.Struct, frozen=True, gc=False):
    """Names one large value."""

    digest: bytes
    """SHA-256 of its bytes."""
    size: int
    """How many they are."""

    def to_value(self) -> bytes:
        """The bytes that stand for the value."""
        return REFERENCE_MARK + self.digest + self.size.to_bytes(_SIZE_BYTES, "big")


def reference_of(value: bytes) -> BlobReference | None:
    """The reference that a value is; None for one that is there itself."""
    if len(value) != REFERENCE_BYTES or not value.startswith(REFERENCE_MARK):
        return None
    return _read(value, 0)


def references_in(encoded: bytes) -> list[BlobReference]:
    """All references in something encoded, each once, in order."""
    found: dict[BlobReference, None] = {}
    position = encoded.find(REFERENCE_MARK)
    while 0 <= position <= len(encoded) - REFERENCE_BYTES:
        found[_read(encoded, position)] = None
        position = encoded.find(REFERENCE_MARK, position + len(REFERENCE_MARK))
    return list(found)


def value_bytes(value: bytes) -> int:
    """Size of a value, wherever it lies; limits count this [CHAN-10, STEP-5]."""
    size = len(value)
    if size == REFERENCE_BYTES and value.startswith(REFERENCE_MARK):
        return int.from_bytes(value[-_SIZE_BYTES:], "big")
    return size


def _read(encoded: bytes, position: int) -> BlobReference:
    start = position + len(REFERENCE_MARK)
    end = start + DIGEST_BYTES
    return BlobReference(encoded[start:end], int.from_bytes(encoded[end : end + _SIZE_BYTES], "big"))
