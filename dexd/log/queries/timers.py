"""Pending timers of Step executions that wake up by themselves."""

from functools import cache

from dexd.log.queries.many_rows import placeholders, remove_rows

_TIMER = "stream_id, step_execution_id, at"


@cache
def put_timers(rows: int) -> str:
    """Keep the newest timer row of each Step execution."""
    return f"INSERT OR REPLACE INTO pending_timers ({_TIMER}) VALUES {placeholders(3, rows)}"


REMOVE_TIMERS = remove_rows("pending_timers", "step_execution_id")


PENDING_TIMERS = f"SELECT {_TIMER} FROM pending_timers WHERE stream_id = ? ORDER BY step_execution_id"
