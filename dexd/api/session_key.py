"""What calls of one client or worker process have in common, so that it is known who uploaded what [BLOB-3]."""

import hashlib
from typing import Any, Final

import grpc

from dexpb.v1.blobs import SESSION_KEY

LENGTH_MIN: Final = 16
"""Shorter keys could be guessed."""
LENGTH_MAX: Final = 64

NOBODY: Final = b""
"""Stands for a call without a key; nothing can be uploaded under it."""


def session_of(context: "grpc.aio.ServicerContext[Any, Any]") -> bytes:
    """Digest of the key in the call's metadata, or NOBODY."""
    for name, value in context.invocation_metadata() or ():
        if name == SESSION_KEY:
            return digest_of(value)
    return NOBODY


def digest_of(key: str | bytes) -> bytes:
    """What is kept of a key, whose holder alone knows it; NOBODY if it cannot be one."""
    if not LENGTH_MIN <= len(key) <= LENGTH_MAX:
        return NOBODY
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).digest()
