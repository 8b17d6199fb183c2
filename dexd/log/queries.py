"""Every SQL statement that reads or writes the log's tables, by name [ARCH-12].

Values are always parameters. What varies in the text is only how many rows an INSERT has: one statement for many rows
instead of one per row, because each execution gives up the interpreter lock and has to wait for it again, up to the
switch interval.
"""

from functools import cache

_EVENT = "seq, stream_id, version, at, type, type_version, payload"
_RUN = (
    "stream_id, run_id, flow_id, ordinal, flow_type, status, started_at, closed_at, error_type, error_message, "
    "start_request_id, first_run_id, chain_id, parent_flow_id, schedule_id, last_error"
)
_SNAPSHOT = "stream_id, version, state_version, payload"
_TIMER = "stream_id, step_execution_id, at"
_STREAM = "stream_id, kind, name, status, created_at, is_closed, closed_at"
_CHILD_WAIT = "stream_id, run_id, step_execution_id, number, child_flow_id, execution_id"
_BLOB = "stream_id, digest, size"
_UPLOAD = "session, digest, at"

# ---- transactions and writing ---------------------------------------------------------------------------------------

BEGIN = "BEGIN IMMEDIATE"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
BEGIN_READING = "BEGIN"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
CHECKPOINT_PATIENTLY = "PRAGMA wal_checkpoint(RESTART)"
PROBE = "UPDATE probe SET writes = writes + 1"

INSERT_ROWS_MAX = 512
"""Rows of one INSERT. A prepared statement holds some 200 bytes per row, and no more is gained beyond this."""


def row_counts(rows: int) -> list[int]:
    """How many rows each INSERT carries, so that few statements do and few different texts exist.

    Up to 127 rows every count has its own text, so that common batches need one statement; above it come powers of two
    and a rest. That is at most 130 texts per table, all of which stay prepared.
    """
    counts = [INSERT_ROWS_MAX] * (rows // INSERT_ROWS_MAX)
    rest = rows % INSERT_ROWS_MAX
    counts += [power for power in (256, 128) if rest & power]
    if rest % 128:
        counts.append(rest % 128)
    return counts


@cache
def insert_events(rows: int) -> str:
    """Append events."""
    return f"INSERT INTO events ({_EVENT}) VALUES {_placeholders(7, rows)}"


@cache
def put_runs(rows: int) -> str:
    """Insert rows of runs, or bring existing ones up to date; what is fixed at a run's start is not touched."""
    return f"""
        INSERT INTO runs ({_RUN}) VALUES {_placeholders(16, rows)}
        ON CONFLICT (stream_id) DO UPDATE SET
            status = excluded.status,
            closed_at = excluded.closed_at,
            error_type = excluded.error_type,
            error_message = excluded.error_message,
            last_error = excluded.last_error
    """


@cache
def put_snapshots(rows: int) -> str:
    """Keep the newest snapshot of each stream."""
    return f"INSERT OR REPLACE INTO snapshots ({_SNAPSHOT}) VALUES {_placeholders(4, rows)}"


@cache
def put_timers(rows: int) -> str:
    """Keep the newest timer row of each Step execution."""
    return f"INSERT OR REPLACE INTO pending_timers ({_TIMER}) VALUES {_placeholders(3, rows)}"


@cache
def put_streams(rows: int) -> str:
    """Insert rows of streams that are not runs', or bring existing ones up to date."""
    return f"""
        INSERT INTO streams ({_STREAM}) VALUES {_placeholders(7, rows)}
        ON CONFLICT (stream_id) DO UPDATE SET
            status = excluded.status,
            is_closed = excluded.is_closed,
            closed_at = excluded.closed_at
    """


@cache
def remove_timers(rows: int) -> str:
    """Take the timer rows of Step executions away."""
    return _remove("pending_timers", "step_execution_id", rows)


@cache
def put_blobs(rows: int) -> str:
    """Note which large values streams refer to; what is noted stays."""
    return f"INSERT OR IGNORE INTO blobs ({_BLOB}) VALUES {_placeholders(3, rows)}"


@cache
def put_uploads(rows: int) -> str:
    """Note which sessions have uploaded which large values, and when last."""
    return f"INSERT OR REPLACE INTO uploads ({_UPLOAD}) VALUES {_placeholders(3, rows)}"


FORGET_UPLOADS = "DELETE FROM uploads WHERE at < ?"


@cache
def put_index_values(rows: int) -> str:
    """Write index values; what was there of the same runs and keys has been removed."""
    return f"INSERT INTO index_values (stream_id, key, position, value) VALUES {_placeholders(4, rows)}"


@cache
def remove_index_values(rows: int) -> str:
    """Take the index values of runs and keys away."""
    return _remove("index_values", "key", rows)


@cache
def put_index_texts(rows: int) -> str:
    """Write index values that are searched by word."""
    return f"INSERT INTO index_texts (stream_id, key, value, words) VALUES {_placeholders(4, rows)}"


@cache
def remove_index_texts(rows: int) -> str:
    """Take the texts of runs and keys away."""
    return _remove("index_texts", "key", rows)


@cache
def put_index_keys(rows: int) -> str:
    """Keep the type of new keys."""
    return f"INSERT OR IGNORE INTO index_keys (key, type) VALUES {_placeholders(2, rows)}"


_SUPERSEDED = "flow_id = ? AND ordinal = ? AND stream_id < ?"

SUPERSEDE = (
    f"DELETE FROM index_values WHERE stream_id IN (SELECT stream_id FROM runs WHERE {_SUPERSEDED})",
    f"DELETE FROM index_texts WHERE stream_id IN (SELECT stream_id FROM runs WHERE {_SUPERSEDED})",
    f"UPDATE runs SET superseded = 1 WHERE {_SUPERSEDED} AND superseded = 0",
)
"""A run goes on with the execution of others: search does not show those any more [SEARCH-7]."""

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


def _remove(table: str, column: str, rows: int) -> str:
    """Take rows away by stream and another column; without the first condition SQLite would look at the whole table."""
    return f"""
        WITH gone (stream_id, name) AS (VALUES {_placeholders(2, rows)})
        DELETE FROM {table}
        WHERE stream_id IN (SELECT stream_id FROM gone)
            AND (stream_id, {column}) IN (SELECT stream_id, name FROM gone)
    """


def _placeholders(columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


# ---- removing ----------------------------------------------------------------------------------------------------

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

# ---- where the log ends ------------------------------------------------------------------------------------------

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

# ---- runs --------------------------------------------------------------------------------------------------------

_RUN_WITH_SNAPSHOT = f"""
    SELECT
        {", ".join(f"runs.{column}" for column in _RUN.split(", "))},
        {", ".join(f"snapshots.{column}" for column in _SNAPSHOT.split(", "))},
        runs.parked
    FROM runs {{how}}
    LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
"""

LATEST_RUN = f"""
    {_RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_by_flow")}
    WHERE runs.flow_id = ? ORDER BY runs.ordinal DESC, runs.stream_id DESC LIMIT 1
"""
FLOW_IDS_IN_USE = """
    SELECT wanted.value FROM json_each(?) AS wanted
    WHERE EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_flow WHERE runs.flow_id = wanted.value)
        OR EXISTS (SELECT 1 FROM ordinals WHERE ordinals.flow_id = wanted.value)
"""
RUN_BY_ID = f"{_RUN_WITH_SNAPSHOT.format(how='')} WHERE runs.run_id = ?"

NEWEST_OF_CHAIN = f"""
    {_RUN_WITH_SNAPSHOT.format(how="")}
    WHERE runs.stream_id = coalesce(
        (SELECT max(stream_id) FROM runs INDEXED BY runs_by_chain WHERE chain_id = :chain_id AND chain_id != ''),
        (SELECT stream_id FROM runs WHERE run_id = :chain_id)
    )
"""
CHAIN_STREAMS = """
    SELECT stream_id FROM runs WHERE run_id = :chain_id
    UNION ALL
    SELECT stream_id FROM runs INDEXED BY runs_by_chain WHERE chain_id = :chain_id AND chain_id != ''
    ORDER BY stream_id
"""
LAST_RUN = f"""
    {_RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_by_flow")}
    WHERE runs.flow_id = ? AND runs.ordinal = ? ORDER BY runs.stream_id DESC LIMIT 1
"""

RUN_BY_START = f"""
    {_RUN_WITH_SNAPSHOT.format(how="")}
    WHERE runs.stream_id = (
        SELECT stream_id FROM runs INDEXED BY runs_by_start
        WHERE flow_id = :flow_id AND start_request_id = :request_id AND ordinal > 1
        UNION ALL
        SELECT stream_id FROM runs INDEXED BY runs_by_flow
        WHERE flow_id = :flow_id AND start_request_id = :request_id AND ordinal = 1
        LIMIT 1
    )
"""

ACTIVE_RUNS = f"""
    {_RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_active")}
    WHERE runs.closed_at = 0 AND runs.parked = 0 ORDER BY runs.stream_id
"""
ACTIVE_RUN_EVENTS = f"""
    SELECT {", ".join(f"events.{column}" for column in _EVENT.split(", "))}
    FROM runs INDEXED BY runs_active
    LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
    CROSS JOIN events ON events.stream_id = runs.stream_id AND events.version > coalesce(snapshots.version, 0)
    WHERE runs.closed_at = 0 AND runs.parked = 0 ORDER BY runs.stream_id, events.version
"""
"""The events of `ACTIVE_RUNS` in the same order, so that both can be read side by side."""

RUN_ROWS = f"SELECT {_RUN} FROM runs WHERE flow_id = ? ORDER BY ordinal DESC, stream_id DESC"

LIST_RUNS = f"""
    SELECT
        {_RUN},
        coalesce((SELECT max(version) FROM events WHERE events.stream_id = runs.stream_id), 0),
        coalesce((SELECT min(at) FROM pending_timers WHERE pending_timers.stream_id = runs.stream_id), 0)
    FROM runs
    WHERE stream_id < coalesce(nullif(:before_stream_id, 0), 9223372036854775807)
        AND (:flow_type = '' OR flow_type = :flow_type)
        AND (:status = 0 OR status = :status)
        AND substr(flow_id, 1, length(:flow_id_prefix)) = :flow_id_prefix
        AND NOT EXISTS (
            SELECT 1 FROM runs AS later
            WHERE later.flow_id = runs.flow_id AND later.ordinal = runs.ordinal AND later.stream_id > runs.stream_id
        )
    ORDER BY stream_id DESC LIMIT :limit
"""

CLOSED_RUNS = f"""
    SELECT {_RUN} FROM runs INDEXED BY runs_closed
    WHERE closed_at != 0 AND closed_at <= ? AND (closed_at, stream_id) > (?, ?)
    ORDER BY closed_at, stream_id LIMIT ?
"""

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
        {_RUN},
        coalesce((SELECT max(version) FROM events WHERE events.stream_id = runs.stream_id), 0),
        coalesce((SELECT min(at) FROM pending_timers WHERE pending_timers.stream_id = runs.stream_id), 0)
    FROM runs WHERE stream_id = ?
"""
FOUND_ROWS = f"SELECT {_RUN} FROM runs"

PENDING_TIMERS = f"SELECT {_TIMER} FROM pending_timers WHERE stream_id = ? ORDER BY step_execution_id"

# ---- streams that are not runs' ------------------------------------------------------------------------------------

_STREAM_WITH_SNAPSHOT = f"""
    SELECT
        {", ".join(f"streams.{column}" for column in _STREAM.split(", "))},
        {", ".join(f"snapshots.{column}" for column in _SNAPSHOT.split(", "))}
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

# ---- large values ------------------------------------------------------------------------------------------------

REFERS_TO = """
    SELECT 1 FROM blobs INDEXED BY blobs_by_digest CROSS JOIN runs ON runs.stream_id = blobs.stream_id
    WHERE blobs.digest = :digest AND :chain_id IN (runs.run_id, runs.chain_id) LIMIT 1
"""
WAS_UPLOADED = "SELECT 1 FROM uploads WHERE session = ? AND digest = ?"


@cache
def blobs_in_use(digests: int) -> str:
    """Which of so many values any stream refers to."""
    return f"SELECT DISTINCT digest FROM blobs INDEXED BY blobs_by_digest WHERE digest IN ({', '.join('?' * digests)})"


# ---- parked runs -------------------------------------------------------------------------------------------------

PARK = """
    UPDATE runs SET parked = 1, wakes_at = json_extract(row.value, '$[1]') FROM json_each(?) AS row
    WHERE runs.stream_id = json_extract(row.value, '$[0]')
"""
UNPARK = "UPDATE runs SET parked = 0, wakes_at = 0 WHERE stream_id IN (SELECT value FROM json_each(?))"
REMOVE_PARKED_WAITS = "DELETE FROM parked_waits WHERE stream_id IN (SELECT value FROM json_each(?))"
PUT_PARKED_WAITS = f"""
    INSERT INTO parked_waits ({_CHILD_WAIT})
    SELECT {", ".join(f"json_extract(value, '$[{column}]')" for column in range(6))} FROM json_each(?)
"""

PARKED_COUNTS = """
    SELECT (SELECT count(*) FROM runs INDEXED BY runs_parked WHERE parked = 1), (SELECT count(*) FROM parked_waits)
"""
PARKED_DEADLINES = """
    SELECT wakes_at, stream_id FROM runs INDEXED BY runs_parked
    WHERE parked = 1 AND wakes_at > 0 AND (wakes_at, stream_id) > (?, ?)
    ORDER BY wakes_at, stream_id LIMIT ?
"""
PARKED_RUNS = f"""
    {_RUN_WITH_SNAPSHOT.format(how="")}
    WHERE runs.stream_id IN (SELECT value FROM json_each(?)) AND runs.parked = 1
"""
PARKED_RUNS_OF_FLOWS = f"""
    {_RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_by_flow")}
    WHERE runs.flow_id IN (SELECT value FROM json_each(?)) AND runs.parked = 1
"""
PARKING = "SELECT parked, wakes_at FROM runs WHERE stream_id = ?"
PARKED_WAITS = f"SELECT {_CHILD_WAIT} FROM parked_waits WHERE stream_id = ? ORDER BY step_execution_id, number"
PARKED_WAITS_FOR = f"""
    SELECT {_CHILD_WAIT} FROM json_each(?) AS wanted
    CROSS JOIN parked_waits INDEXED BY parked_waits_by_child ON parked_waits.child_flow_id = wanted.value
    ORDER BY stream_id, step_execution_id, number
"""

# ---- events ------------------------------------------------------------------------------------------------------

READ_STREAM = f"SELECT {_EVENT} FROM events WHERE stream_id = ? AND version >= ? ORDER BY version LIMIT ?"
READ_STREAM_OF_TYPES = f"""
    SELECT {_EVENT} FROM events
    WHERE stream_id = ? AND version >= ? AND type IN (SELECT value FROM json_each(?))
    ORDER BY version LIMIT ?
"""
READ_ALL = f"SELECT {_EVENT} FROM events WHERE seq >= ? ORDER BY seq LIMIT ?"

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
    SELECT {", ".join(f"events.{column}" for column in _EVENT.split(", "))}
    FROM page JOIN events ON events.seq = page.seq
    WHERE page.bytes <= :bytes_max OR page.version = (SELECT min(version) FROM page)
    ORDER BY page.version
"""
"""Events of a retained run up to a number of bytes, but at least one. Lengths are summed up first; payloads beyond it
stay unread."""

IS_RETAINED = "SELECT EXISTS (SELECT 1 FROM runs WHERE stream_id = ?)"
