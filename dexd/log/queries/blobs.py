"""Large values: who refers to them, and who has uploaded them."""

from functools import cache

from dexd.log.queries.many_rows import placeholders

_BLOB = "stream_id, digest, size"
_UPLOAD = "session, digest, at"


@cache
def put_blobs(rows: int) -> str:
    """Note which large values streams refer to; what is noted stays."""
    return f"INSERT OR IGNORE INTO blobs ({_BLOB}) VALUES {placeholders(3, rows)}"


@cache
def put_uploads(rows: int) -> str:
    """Note which sessions have uploaded which large values, and when last."""
    return f"INSERT OR REPLACE INTO uploads ({_UPLOAD}) VALUES {placeholders(3, rows)}"


FORGET_UPLOADS = "DELETE FROM uploads WHERE at < ?"

REFERS_TO = """
    SELECT 1 FROM blobs INDEXED BY blobs_by_digest CROSS JOIN runs ON runs.stream_id = blobs.stream_id
    WHERE blobs.digest = :digest AND :chain_id IN (runs.run_id, runs.chain_id) LIMIT 1
"""

WAS_UPLOADED = "SELECT 1 FROM uploads WHERE session = ? AND digest = ?"


@cache
def blobs_in_use(digests: int) -> str:
    """Which of so many values any stream refers to."""
    return f"SELECT DISTINCT digest FROM blobs INDEXED BY blobs_by_digest WHERE digest IN ({', '.join('?' * digests)})"
