"""Parked runs."""

_CHILD_WAIT = "stream_id, run_id, step_execution_id, number, child_flow_id, execution_id"

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

# One without a snapshot has a row all the same, of a version that nobody can read: it must not be overlooked.
_SNAPSHOT_OF_RUN = "runs.stream_id, ifnull(version, 0), ifnull(state_version, 0), ifnull(payload, x'')"

PARKED_RUNS = f"""
    SELECT {_SNAPSHOT_OF_RUN}
    FROM runs LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
    WHERE runs.stream_id IN (SELECT value FROM json_each(?)) AND runs.parked = 1
"""

PARKED_RUNS_OF_FLOWS = f"""
    SELECT {_SNAPSHOT_OF_RUN}
    FROM runs INDEXED BY runs_by_flow LEFT JOIN snapshots ON snapshots.stream_id = runs.stream_id
    WHERE runs.flow_id IN (SELECT value FROM json_each(?)) AND runs.parked = 1
"""

PARKING = "SELECT parked, wakes_at FROM runs WHERE stream_id = ?"
PARKED_WAITS = f"SELECT {_CHILD_WAIT} FROM parked_waits WHERE stream_id = ? ORDER BY step_execution_id, number"

PARKED_WAITS_FOR = f"""
    SELECT {_CHILD_WAIT} FROM json_each(?) AS wanted
    CROSS JOIN parked_waits INDEXED BY parked_waits_by_child ON parked_waits.child_flow_id = wanted.value
    ORDER BY stream_id, step_execution_id, number
"""
