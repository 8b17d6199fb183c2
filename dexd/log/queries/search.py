"""What search reads and what is written for it; whole searches are in `search_statements`."""

from functools import cache

from dexd.log.queries.columns import RUN
from dexd.log.queries.many_rows import placeholders, remove_rows


@cache
def put_index_values(rows: int) -> str:
    """Write index values; what was there of the same runs and keys has been removed."""
    return f"INSERT INTO index_values (stream_id, key, position, value) VALUES {placeholders(4, rows)}"


REMOVE_INDEX_VALUES = remove_rows("index_values", "key")
REMOVE_INDEX_TEXTS = remove_rows("index_texts", "key")


@cache
def put_index_texts(rows: int) -> str:
    """Write index values that are searched by word."""
    return f"INSERT INTO index_texts (stream_id, key, value, words) VALUES {placeholders(4, rows)}"


@cache
def put_index_keys(rows: int) -> str:
    """Keep the type of new keys."""
    return f"INSERT OR IGNORE INTO index_keys (key, type) VALUES {placeholders(2, rows)}"


_SUPERSEDED = "flow_id = ? AND ordinal = ? AND stream_id < ?"

SUPERSEDE = (
    f"DELETE FROM index_values WHERE stream_id IN (SELECT stream_id FROM runs WHERE {_SUPERSEDED})",
    f"DELETE FROM index_texts WHERE stream_id IN (SELECT stream_id FROM runs WHERE {_SUPERSEDED})",
    f"UPDATE runs SET superseded = 1 WHERE {_SUPERSEDED} AND superseded = 0",
)
"""A run goes on with the execution of others: search does not show those any more [SEARCH-7]."""

INDEX_KEYS = "SELECT key, type FROM index_keys ORDER BY key"
SIGNING_KEY = "SELECT secret FROM page_secret"

DRAW_SIGNING_KEY = """
    INSERT INTO page_secret (id, secret) SELECT 1, randomblob(32) WHERE NOT EXISTS (SELECT 1 FROM page_secret)
"""

INDEX_ROWS = """
    SELECT key, value, 0 AS is_text, position FROM index_values WHERE stream_id = :stream_id
    UNION ALL
    SELECT key, value, 1, 0 FROM index_texts WHERE stream_id = :stream_id
    ORDER BY key, position
"""

FOUND_RUN = f"""
    SELECT
        {RUN},
        coalesce((SELECT max(version) FROM events WHERE events.stream_id = runs.stream_id), 0),
        coalesce((SELECT min(at) FROM pending_timers WHERE pending_timers.stream_id = runs.stream_id), 0)
    FROM runs WHERE stream_id = ?
"""

FOUND_ROWS = f"SELECT {RUN} FROM runs"
