"""Rows of runs: what lists, look-ups and recovery read."""

from functools import cache

from dexd.log.queries.columns import RUN, SNAPSHOT
from dexd.log.queries.events import EVENT
from dexd.log.queries.many_rows import placeholders


@cache
def put_runs(rows: int) -> str:
    """Insert rows of runs, or bring existing ones up to date; what is fixed at a run's start is not touched."""
    return f"""
        INSERT INTO runs ({RUN}) VALUES {placeholders(16, rows)}
        ON CONFLICT (stream_id) DO UPDATE SET
            status = excluded.status,
            closed_at = excluded.closed_at,
            error_type = excluded.error_type,
            error_message = excluded.error_message,
            last_error = excluded.last_error
    """


RUN_WITH_SNAPSHOT = f"""
    SELECT
        {", ".join(f"runs.{column}" for column in RUN.split(", "))},
        {", ".join(f"snapshots.{column}" for column in SNAPSHOT.split(", "))},
        runs.parked
    FROM runs {{how}}
    LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
"""

LATEST_RUN = f"""
    {RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_by_flow")}
    WHERE runs.flow_id = ? ORDER BY runs.ordinal DESC, runs.stream_id DESC LIMIT 1
"""

FLOW_IDS_IN_USE = """
    SELECT wanted.value FROM json_each(?) AS wanted
    WHERE EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_flow WHERE runs.flow_id = wanted.value)
        OR EXISTS (SELECT 1 FROM ordinals WHERE ordinals.flow_id = wanted.value)
"""

RUN_BY_ID = f"{RUN_WITH_SNAPSHOT.format(how='')} WHERE runs.run_id = ?"

NEWEST_OF_CHAIN = f"""
    {RUN_WITH_SNAPSHOT.format(how="")}
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
    {RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_by_flow")}
    WHERE runs.flow_id = ? AND runs.ordinal = ? ORDER BY runs.stream_id DESC LIMIT 1
"""

RUN_BY_START = f"""
    {RUN_WITH_SNAPSHOT.format(how="")}
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
    {RUN_WITH_SNAPSHOT.format(how="INDEXED BY runs_active")}
    WHERE runs.closed_at = 0 AND runs.parked = 0 ORDER BY runs.stream_id
"""

ACTIVE_RUN_EVENTS = f"""
    SELECT {", ".join(f"events.{column}" for column in EVENT.split(", "))}
    FROM runs INDEXED BY runs_active
    LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
    CROSS JOIN events ON events.stream_id = runs.stream_id AND events.version > coalesce(snapshots.version, 0)
    WHERE runs.closed_at = 0 AND runs.parked = 0 ORDER BY runs.stream_id, events.version
"""
"""The events of `ACTIVE_RUNS` in the same order, so that both can be read side by side."""

RUN_ROWS = f"SELECT {RUN} FROM runs WHERE flow_id = ? ORDER BY ordinal DESC, stream_id DESC"

LIST_RUNS = f"""
    SELECT
        {RUN},
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
    SELECT {RUN} FROM runs INDEXED BY runs_closed
    WHERE closed_at != 0 AND closed_at <= ? AND (closed_at, stream_id) > (?, ?)
    ORDER BY closed_at, stream_id LIMIT ?
"""

IS_RETAINED = "SELECT EXISTS (SELECT 1 FROM runs WHERE stream_id = ?)"
