"""Where the log ends, what is in it, and its projections as a whole."""

KEEP_END = """
    UPDATE log_end SET
        last_seq = max(last_seq, coalesce((SELECT max(seq) FROM events), 0)),
        last_stream_id = max(
            last_stream_id,
            coalesce((SELECT max(stream_id) FROM events), 0),
            coalesce((SELECT max(stream_id) FROM runs), 0),
            coalesce((SELECT max(stream_id) FROM streams), 0)
        ),
        last_at = max(last_at, coalesce((SELECT at FROM events ORDER BY seq DESC LIMIT 1), 0))
"""

LAST_SEQ = "SELECT max(last_seq, coalesce((SELECT max(seq) FROM events), 0)) FROM log_end"
LAST_AT = "SELECT max(last_at, coalesce((SELECT at FROM events ORDER BY seq DESC LIMIT 1), 0)) FROM log_end"

LAST_STREAM_ID = """
    SELECT max(
        last_stream_id,
        coalesce((SELECT max(stream_id) FROM events), 0),
        coalesce((SELECT max(stream_id) FROM runs), 0),
        coalesce((SELECT max(stream_id) FROM streams), 0)
    )
    FROM log_end
"""

REMOVE_PROJECTIONS = (
    "DELETE FROM runs",
    "DELETE FROM snapshots",
    "DELETE FROM pending_timers",
    "DELETE FROM parked_waits",
    "DELETE FROM streams",
    "DELETE FROM blobs",
    "DELETE FROM index_values",
    "DELETE FROM index_texts",
)

NOTE_PROJECTIONS = "UPDATE projections SET version = ?"
PROJECTION_VERSION = "SELECT version FROM projections"

COUNTS = """
    SELECT
        (SELECT count(*) FROM events) AS events,
        (SELECT removed_events FROM log_end) AS removed_events,
        (SELECT count(*) FROM runs) AS runs,
        (SELECT count(*) FROM runs WHERE closed_at = 0) AS open_runs,
        (SELECT count(DISTINCT flow_id) FROM runs) AS flow_ids,
        (SELECT count(*) FROM streams) AS other_streams,
        (SELECT count(*) FROM snapshots) AS snapshots,
        (SELECT count(*) FROM pending_timers) AS pending_timers,
        (SELECT count(DISTINCT digest) FROM blobs) AS large_values,
        (SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT digest, size FROM blobs)) AS large_value_bytes,
        (SELECT count(*) FROM removals) AS streams_being_removed,
        (SELECT count(*) FROM ordinals) AS remembered_ordinals,
        (SELECT count(*) FROM imports) AS imported_runs,
        (SELECT version FROM projections) AS projection_version
"""
"""One row, named as it is shown."""
