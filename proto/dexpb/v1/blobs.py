r"""References that stand for large values, as they travel in frames and messages [BLOB-1, BLOB-2].

A value of more than the server's threshold is uploaded through BlobService, and a reference takes its place in the
request or frame: the mark, the SHA-256 of the value's bytes, their number as eight bytes, big end first. Its first byte
``\xc1`` begins no JSON text and no MessagePack item. References that a server hands out are resolved through
BlobService as well; a reference is accepted only from a session that uploaded the value, or from a call that it was
handed out to [BLOB-3].
"""

import hashlib
from typing import NamedTuple

REFERENCE_MARK = b"\xc1dexblob"
REFERENCE_BYTES = len(REFERENCE_MARK) + 32 + 8

THRESHOLD_BYTES = 64 * 1024
"""Largest value that travels inline, whatever a server announces [LIM-1]."""
THRESHOLD_BYTES_MIN = 1024
"""Smallest threshold that a server can announce: below it nobody needs to ask."""
CHUNK_BYTES = 256 * 1024
"""Part of a value in one message. Larger ones gain nothing and hold up what shares the connection."""

SESSION_KEY = "dex-session"
"""Metadata of every call of one client or worker process: 16 to 64 characters that nobody else can guess. What was
uploaded under it may be referred to under it."""


class Reference(NamedTuple):
    """Names one large value."""

    digest: bytes
    size: int

    @property
    def name(self) -> str:
        """The digest as people write it."""
        return self.digest.hex()


def make_reference(data: bytes) -> bytes:
    """Give the bytes that stand for a value."""
    return REFERENCE_MARK + hashlib.sha256(data).digest() + len(data).to_bytes(8, "big")


def is_reference(value: bytes) -> bool:
    """Whether the bytes stand for a value that lies elsewhere."""
    return len(value) == REFERENCE_BYTES and value.startswith(REFERENCE_MARK)


def read_reference(value: bytes) -> Reference:
    """Read bytes of which `is_reference` holds."""
    start = len(REFERENCE_MARK)
    return Reference(value[start : start + 32], int.from_bytes(value[-8:], "big"))
