"""Tells whether two requests have the same content [GEN-8]."""

import hashlib


def content_digest(verb: str, *parts: str | bytes) -> bytes:
    """Hash a request's content; every part is preceded by its length, so that no two contents look alike."""
    digest = hashlib.sha256(verb.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
