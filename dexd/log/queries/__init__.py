"""Every SQL statement that reads or writes the log's tables, by subject and name [ARCH-12].

Values are always parameters. What varies in the text is only how many rows an INSERT has.
"""

from dexd.log.queries import (
    blobs,
    columns,
    events,
    many_rows,
    parked,
    removals,
    runs,
    search,
    snapshots,
    streams,
    timers,
    transactions,
    whole_log,
)

__all__ = (
    "blobs",
    "columns",
    "events",
    "many_rows",
    "parked",
    "removals",
    "runs",
    "search",
    "snapshots",
    "streams",
    "timers",
    "transactions",
    "whole_log",
)
