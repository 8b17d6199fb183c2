"""What every log does when streams that are not runs' leave it [KEEP-1, KEEP-3]."""

import sqlite3
from contextlib import closing
from pathlib import Path

from dexd.log import queries
from dexd.log.event_log import BlobRow, EventLog, Snapshot, StreamRow
from dexd.log.sqlite_log import SqliteLog
from tests.support.log_author import LogAuthor, run_row

DIGEST = b"d" * 32


def closed_stream(stream_id: int, *, closed_at: int = 50, kind: str = "job") -> StreamRow:
    return StreamRow(stream_id, kind, f"s{stream_id}", 2, 5, closed_at != 0, closed_at)


def full_stream(author: LogAuthor, row: StreamRow, events: int = 3) -> None:
    """A stream with rows of every kind."""
    author.append(
        *(author.event(row.stream_id) for _ in range(events)),
        streams=[row],
        snapshots=[Snapshot(row.stream_id, 1, 1, b"state")],
    )
    author.append_large(author.event(row.stream_id), blobs=[BlobRow(row.stream_id, DIGEST, 9)])


def test_keep_1_closed_streams_come_in_the_order_of_their_closing(log: EventLog) -> None:
    """[KEEP-1] Up to an instant, in pages, whatever they belong to; open ones never."""
    author = LogAuthor(log)
    for stream_id, closed_at in ((1, 50), (2, 0), (3, 40), (4, 50), (5, 60)):
        kind = "schedule" if stream_id % 2 else "job"
        full_stream(author, closed_stream(stream_id, closed_at=closed_at, kind=kind))
    pages, after = [], (0, 0)
    while page := log.closed_streams(50, after, 2):
        pages.append([row.stream_id for row in page])
        after = page[-1].closed_at, page[-1].stream_id
    assert pages == [[3, 1], [4]]
    assert list(log.closed_streams(0, (0, 0), 10)) == []


def test_keep_3_a_removed_stream_is_not_found_by_anything(log: EventLog) -> None:
    """[KEEP-3, BLOB-4] At once; its neighbours stay as they are, and numbers never go back."""
    author = LogAuthor(log)
    author.start(run_row(1), events=2)
    full_stream(author, closed_stream(2))
    full_stream(author, closed_stream(3))
    before = log.last_seq, log.last_stream_id, log.last_at
    author.append_stream_removals(3)
    assert log.stream_by_name("job", "s3") is None
    assert [row.stream_id for row in log.list_streams("job", 0, 10)] == [2]
    assert [row.stream_id for row in log.closed_streams(100, (0, 0), 10)] == [2]
    assert log.blobs_in_use([DIGEST]) == {DIGEST}
    assert list(log.streams_leaving()) == [3]
    author.append_stream_removals(2)
    assert log.blobs_in_use([DIGEST]) == frozenset()
    while log.remove_some(3):
        pass
    assert [event.stream_id for event in log.read_all(1, 100)] == [1, 1]
    assert log.removed_events == 8
    assert (log.last_seq, log.last_stream_id, log.last_at) == before


OF_RUNS = {"events", "runs", "pending_timers", "parked_waits", "imports", "index_values", "index_texts", "removals"}
"""Tables whose rows go in another way, or that only runs have rows in."""


def test_keep_3_no_table_keeps_rows_of_a_removed_stream(tmp_path: Path) -> None:
    """[KEEP-3] Whatever table there is with rows of such streams is named where they are removed."""
    path = tmp_path / "log.db"
    with SqliteLog.open(path) as log:
        author = LogAuthor(log)
        full_stream(author, closed_stream(77))
        author.append_stream_removals(77)
        while log.remove_some(10):
            pass
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in tables}
        with_rows = [table for table, names in columns.items() if "stream_id" in names]
        left = [
            connection.execute(f"SELECT count(*) FROM {table} WHERE stream_id = 77").fetchone() for table in with_rows
        ]
    assert left == [(0,)] * len(with_rows)
    statements = " ".join(queries.removals.REMOVE_STREAMS)
    assert [table for table in with_rows if table not in OF_RUNS and f"FROM {table} " not in statements] == []
