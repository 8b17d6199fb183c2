"""Streams that are not runs'."""

from functools import cache

from dexd.log.queries.columns import SNAPSHOT
from dexd.log.queries.many_rows import placeholders

_STREAM = "stream_id, kind, name, status, created_at, is_closed, closed_at"


@cache
def put_streams(rows: int) -> str:
    """Insert rows of streams that are not runs', or bring existing ones up to date."""
    return f"""
        INSERT INTO streams ({_STREAM}) VALUES {placeholders(7, rows)}
        ON CONFLICT (stream_id) DO UPDATE SET
            status = excluded.status,
            is_closed = excluded.is_closed,
            closed_at = excluded.closed_at
    """


_STREAM_WITH_SNAPSHOT = f"""
    SELECT
        {", ".join(f"streams.{column}" for column in _STREAM.split(", "))},
        {", ".join(f"snapshots.{column}" for column in SNAPSHOT.split(", "))}
    FROM streams {{how}}
    LEFT JOIN snapshots ON snapshots.stream_id = streams.stream_id
"""

OPEN_STREAMS = f"""
    {_STREAM_WITH_SNAPSHOT.format(how="INDEXED BY streams_open")}
    WHERE NOT streams.is_closed ORDER BY streams.stream_id
"""

STREAM_BY_NAME = f"""
    {_STREAM_WITH_SNAPSHOT.format(how="INDEXED BY streams_by_name")}
    WHERE streams.kind = ? AND streams.name = ? ORDER BY streams.stream_id DESC LIMIT 1
"""

LIST_STREAMS = f"""
    SELECT {_STREAM} FROM streams
    WHERE kind = ? AND stream_id < coalesce(nullif(?, 0), 9223372036854775807)
    ORDER BY stream_id DESC LIMIT ?
"""

CLOSED_STREAMS = f"""
    SELECT {_STREAM} FROM streams INDEXED BY streams_closed
    WHERE closed_at != 0 AND closed_at <= ? AND (closed_at, stream_id) > (?, ?)
    ORDER BY closed_at, stream_id LIMIT ?
"""
