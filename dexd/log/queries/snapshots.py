"""Snapshots of streams; look-ups read them with the rows of what they belong to."""

from functools import cache

from dexd.log.queries.columns import SNAPSHOT
from dexd.log.queries.many_rows import placeholders


@cache
def put_snapshots(rows: int) -> str:
    """Keep the newest snapshot of each stream."""
    return f"INSERT OR REPLACE INTO snapshots ({SNAPSHOT}) VALUES {placeholders(4, rows)}"
