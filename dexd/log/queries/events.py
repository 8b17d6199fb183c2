"""Events, and pages of them."""

from functools import cache

from dexd.log.queries.many_rows import placeholders

EVENT = "seq, stream_id, version, at, type, type_version, payload"


@cache
def insert_events(rows: int) -> str:
    """Append events."""
    return f"INSERT INTO events ({EVENT}) VALUES {placeholders(7, rows)}"


READ_STREAM = f"SELECT {EVENT} FROM events WHERE stream_id = ? AND version >= ? ORDER BY version LIMIT ?"

READ_STREAM_OF_TYPES = f"""
    SELECT {EVENT} FROM events
    WHERE stream_id = ? AND version >= ? AND type IN (SELECT value FROM json_each(?))
    ORDER BY version LIMIT ?
"""

READ_ALL = f"SELECT {EVENT} FROM events WHERE seq >= ? ORDER BY seq LIMIT ?"

READ_HISTORY_PAGE = f"""
    WITH page AS (
        SELECT seq, version, sum(payload_bytes) OVER (ORDER BY version) AS bytes
        FROM (
            SELECT seq, version, length(payload) AS payload_bytes FROM events
            WHERE stream_id = :stream_id AND version >= :from_version
                AND EXISTS (SELECT 1 FROM runs WHERE runs.stream_id = :stream_id)
            ORDER BY version LIMIT :limit
        )
    )
    SELECT {", ".join(f"events.{column}" for column in EVENT.split(", "))}
    FROM page JOIN events ON events.seq = page.seq
    WHERE page.bytes <= :bytes_max OR page.version = (SELECT min(version) FROM page)
    ORDER BY page.version
"""
"""Events of a retained run up to a number of bytes, but at least one. Lengths are summed up first; payloads beyond it
stay unread."""
