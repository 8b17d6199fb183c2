"""What leaves the log, what stays known of it, and what came from another one."""

_REMOVED = "(SELECT value ->> 0 FROM json_each(?))"

REMOVE_RUNS = (
    "INSERT INTO removals (stream_id) SELECT value ->> 0 FROM json_each(?)",
    f"DELETE FROM runs WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM snapshots WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM pending_timers WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM parked_waits WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM imports WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM blobs WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM index_values WHERE stream_id IN {_REMOVED}",
    f"DELETE FROM index_texts WHERE stream_id IN {_REMOVED}",
    """
    INSERT INTO ordinals (flow_id, ordinal, expires_at)
    SELECT value ->> 1, max(value ->> 2), value ->> 3 FROM json_each(?) AS removal
    WHERE NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_flow WHERE runs.flow_id = removal.value ->> 1)
    GROUP BY 1
    ON CONFLICT (flow_id) DO UPDATE SET
        ordinal = max(ordinal, excluded.ordinal),
        expires_at = excluded.expires_at
    """,
)
"""Take runs out of sight, and keep the ordinals of Flow IDs that have none left; the parameter is a JSON array of
arrays with the fields of `Removal`. Every table with rows of runs has its line here."""

_REMOVED_STREAMS = "(SELECT value FROM json_each(?))"

REMOVE_STREAMS = (
    "INSERT INTO removals (stream_id) SELECT value FROM json_each(?)",
    f"DELETE FROM streams WHERE stream_id IN {_REMOVED_STREAMS}",
    f"DELETE FROM snapshots WHERE stream_id IN {_REMOVED_STREAMS}",
    f"DELETE FROM blobs WHERE stream_id IN {_REMOVED_STREAMS}",
)
"""Take streams that are not runs' out of sight; the parameter is a JSON array of their IDs. Every table with rows of
such streams has its line here."""

REMOVE_EVENTS = """
    DELETE FROM events WHERE seq IN (
        SELECT events.seq FROM removals
        CROSS JOIN events INDEXED BY events_by_stream ON events.stream_id = removals.stream_id
        LIMIT ?
    )
"""

COUNT_REMOVED = "UPDATE log_end SET removed_events = removed_events + ?"

END_REMOVALS = """
    DELETE FROM removals WHERE stream_id < coalesce(
        (
            SELECT stream_id FROM removals
            WHERE EXISTS (SELECT 1 FROM events WHERE events.stream_id = removals.stream_id)
            ORDER BY stream_id LIMIT 1
        ),
        9223372036854775807
    )
"""
"""Streams are emptied in order, so those before the first one with events are done."""

STREAMS_LEAVING = "SELECT stream_id FROM removals ORDER BY stream_id"
HAS_REMOVALS = "SELECT EXISTS (SELECT 1 FROM removals)"
REMOVED_EVENTS = "SELECT removed_events FROM log_end"

FORGET_ORDINALS = """
    DELETE FROM ordinals WHERE flow_id IN (
        SELECT flow_id FROM ordinals INDEXED BY ordinals_expiring
        WHERE expires_at != 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""

HAS_EXPIRED_ORDINALS = """
    SELECT EXISTS (SELECT 1 FROM ordinals INDEXED BY ordinals_expiring WHERE expires_at != 0 AND expires_at <= ?)
"""

LAST_ORDINAL = "SELECT ordinal FROM ordinals WHERE flow_id = ?"
NOTE_IMPORTS = "INSERT INTO imports (stream_id) SELECT value FROM json_each(?)"
IMPORTED_STREAMS = "SELECT stream_id FROM imports ORDER BY stream_id"
