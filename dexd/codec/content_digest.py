"""Tells whether two requests have the same content [GEN-8]."""

import hashlib


def content_digest(verb: str, *parts: str | bytes) -> bytes:
    """Hash a request's content; every part is preceded by its length, so that no two contents look alike."""
    content = [verb.encode()]
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        content += (len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(content)).digest()
