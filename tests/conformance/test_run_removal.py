"""What every log does when runs leave it [KEEP-1, KEEP-3] and with the ordinals of their Flow IDs [ID-10]."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from dexd.log import queries
from dexd.log.event_log import ORDINALS_FORGOTTEN_MAX, Batch, EventLog, RunFilter, RunRow, Snapshot, TimerRow
from dexd.log.sqlite_log import SqliteLog
from tests.support.log_author import LogAuthor, Restart, closed, removal, run_row


def end_of(log: EventLog) -> tuple[int, int, int]:
    return log.last_seq, log.last_stream_id, log.last_at


def remove_all(log: EventLog) -> None:
    while log.remove_some(10):
        pass


def full_run(author: LogAuthor, row: RunRow, events: int) -> None:
    """A closed run with rows of every kind."""
    author.start(row, events=events)
    author.append(snapshots=[Snapshot(row.stream_id, 1, 1, b"state")], timers=[TimerRow(row.stream_id, "Wait-1", 5)])


def test_keep_3_a_removed_run_is_not_found_by_anything(log: EventLog, author: LogAuthor) -> None:
    """[KEEP-3] At once, while its events are still there; its neighbours stay as they are."""
    going, staying = closed(run_row(1)), closed(run_row(2))
    full_run(author, going, 30)
    full_run(author, staying, 3)
    neighbour = log.run_by_id("run-2")
    author.append(removals=[removal(going)])
    assert log.run_by_id("run-1") is None
    assert log.latest_run("flow-1") is None
    assert log.run_by_start("flow-1", "") is None
    assert list(log.run_rows("flow-1")) == []
    assert [listed.row for listed in log.list_runs(RunFilter(), 10)] == [staying]
    assert list(log.pending_timers(1)) == []
    assert list(log.closed_runs(10**6, (0, 0), 10)) == [staying]
    assert (log.is_retained(1), log.is_retained(2)) == (False, True)
    assert log.run_by_id("run-2") == neighbour
    assert list(log.pending_timers(2)) == [TimerRow(2, "Wait-1", 5)]


def test_keep_1_events_go_in_bounded_pieces(log: EventLog, author: LogAuthor) -> None:
    """[KEEP-1] So many at a time, over the runs' boundaries, and only those of removed runs."""
    rows = [closed(run_row(stream_id)) for stream_id in (1, 2, 3, 4)]
    for row in rows:
        author.start(row, events=6)
    author.append(removals=[removal(row) for row in rows if row.stream_id != 2])
    assert list(log.streams_leaving()) == [1, 3, 4]
    counts, more = [], True
    while more:
        more = log.remove_some(4)
        counts.append(len(log.read_all(1, 100)))
    assert counts == [20, 16, 12, 8, 6]
    assert not log.remove_some(4)
    assert list(log.streams_leaving()) == []
    assert {event.stream_id for event in log.read_all(1, 100)} == {2}
    assert log.removed_events == 18


def test_keep_1_nothing_is_deleted_where_nothing_was_removed(log: EventLog, author: LogAuthor) -> None:
    author.start(closed(run_row(1)), events=3)
    assert not log.remove_some(100)
    assert (len(log.read_all(1, 100)), log.removed_events) == (3, 0)


def test_keep_1_numbers_never_go_back(log: EventLog, author: LogAuthor, restart: Restart) -> None:
    """[KEEP-1, TIMER-6] Although the newest run, event and instant are gone, also after a restart."""
    author.start(run_row(1))
    author.start(closed(run_row(9)), events=5)
    before = end_of(log)
    author.append(removals=[removal(closed(run_row(9)))])
    assert end_of(log) == before
    remove_all(log)
    assert end_of(log) == before
    log = restart()
    assert end_of(log) == before
    late = LogAuthor(log).event(10)
    log.append(Batch(log.last_seq, [msgspec.structs.replace(late, seq=before[0] + 1, at=before[2] + 1)], [run_row(10)]))
    assert end_of(log) == (before[0] + 1, 10, before[2] + 1)
    assert [event.seq for event in log.read_all(2, 100)] == [before[0] + 1]


def test_keep_1_removal_goes_on_after_a_restart(log: EventLog, author: LogAuthor, restart: Restart) -> None:
    """[KEEP-1] Wherever it was when the server died."""
    author.start(closed(run_row(1)), events=25)
    author.start(run_row(2))
    author.append(removals=[removal(closed(run_row(1)))])
    log = restart()
    assert log.remove_some(10)
    assert len(log.read_all(1, 100)) == 16
    log = restart()
    assert (list(log.streams_leaving()), log.removed_events) == ([1], 10)
    remove_all(log)
    log = restart()
    assert not log.remove_some(10)
    assert [event.stream_id for event in log.read_all(1, 100)] == [2]
    assert log.removed_events == 25


def test_keep_1_what_the_same_commit_adds_to_a_removed_run_goes_with_it(log: EventLog, author: LogAuthor) -> None:
    """[KEEP-1] As a late result, which was decided just before."""
    author.start(closed(run_row(1)), events=2)
    author.append(
        author.event(1, "StaleResultRejected"),
        runs=[closed(run_row(1))],
        snapshots=[Snapshot(1, 3, 1, b"state")],
        timers=[TimerRow(1, "Wait-1", 5)],
        removals=[removal(closed(run_row(1)))],
    )
    remove_all(log)
    assert log.last_seq == 3
    assert list(log.read_all(1, 100)) == []
    assert log.run_by_id("run-1") is None
    assert list(log.pending_timers(1)) == []


def test_keep_1_closed_runs_come_in_the_order_of_their_closing(log: EventLog, author: LogAuthor) -> None:
    """[KEEP-1] Up to an instant, in pages; open runs never."""
    for stream_id, closed_at in ((1, 50), (2, 0), (3, 40), (4, 50), (5, 60), (6, 10)):
        row = run_row(stream_id)
        author.start(msgspec.structs.replace(row, status=2, closed_at=closed_at) if closed_at else row)
    pages, after = [], (0, 0)
    while page := log.closed_runs(50, after, 2):
        pages.append([row.stream_id for row in page])
        after = page[-1].closed_at, page[-1].stream_id
    assert pages == [[6, 3], [1, 4]]
    assert list(log.closed_runs(0, (0, 0), 10)) == []
    assert [row.stream_id for row in log.closed_runs(60, (50, 1), 10)] == [4, 5]


# ---- ordinals ----------------------------------------------------------------------------------------------------


def test_id_10_ordinal_is_kept_when_the_last_run_goes(log: EventLog, author: LogAuthor, restart: Restart) -> None:
    """[ID-10] The highest one; a Flow ID with runs needs none."""
    rows = [closed(run_row(stream, flow_id="order", ordinal=ordinal)) for stream, ordinal in ((1, 1), (2, 2), (3, 2))]
    for row in rows:
        author.start(row)
    author.append(removals=[removal(rows[0], expires_at=500)])
    assert log.last_ordinal("order") == 0
    author.append(removals=[removal(rows[1], expires_at=600), removal(rows[2], expires_at=600)])
    log = restart()
    assert log.last_ordinal("order") == 2
    assert log.last_ordinal("other") == 0
    assert log.flow_ids_in_use(["order", "other"]) == {"order"}


def test_id_10_ordinal_of_a_later_execution_takes_the_place(log: EventLog, author: LogAuthor) -> None:
    """[ID-10] With its own expiry."""
    first, second = (closed(run_row(stream, flow_id="order", ordinal=stream)) for stream in (1, 2))
    author.start(first)
    author.append(removals=[removal(first, expires_at=500)])
    author.start(second)
    author.append(removals=[removal(second, expires_at=900)])
    author.append_forgetting(500)
    assert log.last_ordinal("order") == 2
    author.append_forgetting(900)
    assert log.last_ordinal("order") == 0


def test_id_10_execution_that_begins_with_the_same_commit_needs_no_ordinal(log: EventLog, author: LogAuthor) -> None:
    first, second = (closed(run_row(stream, flow_id="order", ordinal=stream)) for stream in (1, 2))
    author.start(first)
    author.append(author.event(2), runs=[second], removals=[removal(first)])
    assert log.last_ordinal("order") == 0
    assert list(log.run_rows("order")) == [second]


def test_id_10_ordinals_are_forgotten_when_they_expire(log: EventLog, author: LogAuthor, restart: Restart) -> None:
    """[ID-10] 0 is for ever; few at a time, the oldest first."""
    count = ORDINALS_FORGOTTEN_MAX + 10
    rows = [closed(run_row(stream)) for stream in range(1, count + 3)]
    author.append(*(author.event(row.stream_id) for row in rows), runs=rows)
    author.append(removals=[removal(row, expires_at=100 + row.stream_id) for row in rows[:count]])
    author.append(removals=[removal(rows[count]), removal(rows[count + 1], expires_at=10**6)])
    assert not log.has_expired_ordinals(100)
    assert log.has_expired_ordinals(101)
    author.append_forgetting(10**5)
    flow_ids = [row.flow_id for row in rows]
    assert log.flow_ids_in_use(flow_ids) == set(flow_ids[ORDINALS_FORGOTTEN_MAX:])
    author.append_forgetting(10**5)
    log = restart()
    assert log.flow_ids_in_use(flow_ids) == set(flow_ids[count:])
    assert not log.has_expired_ordinals(10**5)


# ---- what belongs to runs ----------------------------------------------------------------------------------------


def test_keep_3_a_run_that_goes_while_it_is_looked_up_is_not_found(tmp_path: Path) -> None:
    """[KEEP-3] Its removal may be committed between the look at its row and the look at row and events together."""
    with SqliteLog.open(tmp_path / "log.db") as log:
        author = LogAuthor(log)
        full_run(author, closed(run_row(1)), 3)
        reader = log._reader()

        leaving = Batch(log.last_seq, (), removals=[removal(closed(run_row(1)))])
        seen: list[str] = []

        def remove_before(statement: str) -> None:
            seen.append(statement)
            if statement == queries.transactions.BEGIN_READING and seen.count(statement) == 1:
                log.append(leaving)

        reader.set_trace_callback(remove_before)
        assert log.latest_run("flow-1") is None
        assert queries.transactions.BEGIN_READING in seen


OF_NO_RUN = {"events", "removals", "streams"}
"""Tables whose rows go in another way, or whose streams are no runs."""


def test_keep_3_no_table_keeps_rows_of_a_removed_run(tmp_path: Path) -> None:
    """[KEEP-3] Whatever table there is with rows of runs is named where runs are removed."""
    path = tmp_path / "log.db"
    with SqliteLog.open(path) as log:
        author = LogAuthor(log)
        full_run(author, closed(run_row(77)), 3)
        author.append(removals=[removal(closed(run_row(77)))])
        remove_all(log)
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in tables}
        of_runs = [table for table, names in columns.items() if "stream_id" in names]
        left = {
            table: connection.execute(f"SELECT count(*) FROM {table} WHERE stream_id = 77").fetchone()[0]
            for table in of_runs
        }
    assert {"runs", "snapshots", "pending_timers", "events"} <= set(of_runs)
    assert left == dict.fromkeys(of_runs, 0)
    statements = " ".join(queries.removals.REMOVE_RUNS)
    assert [table for table in of_runs if table not in OF_NO_RUN and f"FROM {table} " not in statements] == []
