"""Statements for many rows at once.

One statement for many rows instead of one per row, because each execution gives up the interpreter lock and has to wait
for it again, up to the switch interval.
"""

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


def remove_rows(table: str, column: str) -> str:
    """Take rows away by stream and another column, which holds names; the parameter is a JSON array of such pairs.

    One text for any number of rows: preparing one that lists a hundred pairs costs three times what executing it does.
    Without the first condition SQLite would look at the whole table.
    """
    return f"""
        WITH gone (stream_id, name) AS MATERIALIZED (SELECT value ->> 0, value ->> 1 FROM json_each(?))
        DELETE FROM {table}
        WHERE stream_id IN (SELECT stream_id FROM gone)
            AND (stream_id, {column}) IN (SELECT stream_id, name FROM gone)
    """


def placeholders(columns: int, rows: int) -> str:
    """Give so many rows of so many parameters, as VALUES takes them."""
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)
