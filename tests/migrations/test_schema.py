"""The schema's files run once each, in order, whole or not at all; whatever else is in a file is refused untouched."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from dexd.core.values import FlowStatus
from dexd.errors import ExitCode, exit_code_of
from dexd.log import queries
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import RunRow, Snapshot, StoredEvent
from dexd.log.schema import APPLICATION_ID, Migration, check_header, known_migrations, migrate
from dexd.log.sqlite_log import SqliteLog
from dexd.log.sqlite_reader import OfflineLog
from dexd.search.checking import check
from tests.support.log_author import LogAuthor, closed, run_row

KNOWN = known_migrations()
NEXT = Migration(
    len(KNOWN) + 1,
    "9999_next.sql",
    """
    -- A column; and a trigger, whose body has semicolons.
    ALTER TABLE runs ADD COLUMN color TEXT NOT NULL DEFAULT 'blue';
    CREATE TRIGGER repaint AFTER INSERT ON snapshots BEGIN
        UPDATE runs SET color = 'red'; UPDATE runs SET color = 'green';
    END;
    """,
)
BROKEN = msgspec.structs.replace(
    NEXT, sql="CREATE TABLE half (done INTEGER) STRICT;\nINSERT INTO missing VALUES (1);\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def shape(connection: sqlite3.Connection) -> object:
    """All that a schema consists of."""
    return (
        connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall(),
        connection.execute("PRAGMA user_version").fetchone(),
        connection.execute("PRAGMA application_id").fetchone(),
        connection.execute("SELECT * FROM migrations ORDER BY version").fetchall(),
    )


def refused(path: Path) -> LogDamagedError:
    """The error with which both ways to open refuse the file, which must stay as it is."""
    content = path.read_bytes()
    with pytest.raises(LogDamagedError) as by_reader:
        OfflineLog(path)
    with pytest.raises(LogDamagedError) as by_writer:
        SqliteLog.open(path)
    assert str(by_reader.value) == str(by_writer.value)
    assert path.read_bytes() == content
    assert exit_code_of(by_writer.value) == ExitCode.LOG_DAMAGED
    return by_writer.value


@pytest.mark.parametrize("first_count", range(len(KNOWN) + 1))
def test_fresh_equals_upgraded(database: sqlite3.Connection, first_count: int) -> None:
    known = [*KNOWN, NEXT]
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    migrate(fresh, known)
    migrate(database, known[:first_count])
    migrate(database, known)
    assert shape(database) == shape(fresh)
    fresh.close()


def test_upgrade_keeps_what_was_written(path: Path, database: sqlite3.Connection) -> None:
    with SqliteLog.open(path) as log:
        LogAuthor(log).start(run_row(1), events=3)
    migrate(database, [*KNOWN, NEXT])
    assert database.execute("SELECT run_id, color FROM runs").fetchall() == [("run-1", "blue")]
    assert database.execute("SELECT count(*) FROM events").fetchone() == (3,)


def test_search_8_runs_of_an_old_log_are_found_by_new_indexes(path: Path, database: sqlite3.Connection) -> None:
    migrate(database, KNOWN[:9])
    running, ended = run_row(1), closed(run_row(2, flow_type="Bill"))
    child = msgspec.structs.replace(run_row(3), parent_flow_id="flow-1", last_error="ValueError: no")
    rows = [msgspec.structs.astuple(row) for row in (running, ended, child)]
    database.executemany(queries.runs.put_runs(1), rows)
    database.close()
    with SqliteLog.open(path) as log:
        for query, expected in {
            "FlowType = 'Order' AND Status = 'RUNNING'": [3, 1],
            "Status = 'COMPLETED'": [2],
            "ParentFlowId = 'flow-1'": [3],
            "LastError LIKE 'ValueError%'": [3],
        }.items():
            page = log.search(check(query, {}), None, 10)
            assert [found.listed.row.stream_id for found in page.runs] == expected
            assert log.count(check(query, {})) == {"": len(expected)}


def test_migrating_again_changes_nothing(database: sqlite3.Connection) -> None:
    migrate(database, KNOWN)
    before = shape(database)
    migrate(database, KNOWN)
    assert shape(database) == before


def test_half_a_migration_leaves_nothing(database: sqlite3.Connection) -> None:
    migrate(database, KNOWN)
    before = shape(database)
    with pytest.raises(sqlite3.OperationalError, match="missing"):
        migrate(database, [*KNOWN, BROKEN])
    assert shape(database) == before
    migrate(database, [*KNOWN, NEXT])
    assert check_header(database, [*KNOWN, NEXT]) == len(KNOWN) + 1


def test_first_migration_that_fails_leaves_a_new_file(database: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="missing"):
        migrate(database, [msgspec.structs.replace(BROKEN, version=1)])
    assert check_header(database, KNOWN) == 0


def test_newer_log_is_refused(path: Path, database: sqlite3.Connection) -> None:
    """[SURF-12]"""
    migrate(database, [*KNOWN, NEXT])
    database.close()
    assert "newer release" in str(refused(path))


def test_log_of_an_edited_migration_is_refused(path: Path, database: sqlite3.Connection) -> None:
    """A released file is never edited: the database says which content it ran."""
    edited = msgspec.structs.replace(KNOWN[0], sql=KNOWN[0].sql + "-- a comment is a change, too\n")
    migrate(database, [edited, *KNOWN[1:]])
    database.close()
    assert KNOWN[0].name in str(refused(path))


def test_log_with_lost_records_is_refused(path: Path, database: sqlite3.Connection) -> None:
    migrate(database, KNOWN)
    database.execute("DELETE FROM migrations")
    database.close()
    assert "records 0 migrations" in str(refused(path))


def test_database_of_somebody_else_is_refused(path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE addresses (name TEXT)")
    database.close()
    assert "not a log" in str(refused(path))


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 4_080])
def test_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path)


def test_log_with_a_damaged_header_is_refused(path: Path) -> None:
    SqliteLog.open(path).close()
    content = bytearray(path.read_bytes())
    content[0:16] = bytes(16)
    path.write_bytes(content)
    refused(path)


def test_log_of_an_older_schema_is_not_read_before_its_upgrade(path: Path, database: sqlite3.Connection) -> None:
    """Readers never write, so they cannot migrate."""
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute("CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT, checksum TEXT)")
    database.close()
    with pytest.raises(LogDamagedError, match="start the server"):
        OfflineLog(path)


def test_files_are_numbered_without_gap_and_recorded_with_their_checksums(database: sqlite3.Connection) -> None:
    assert [migration.version for migration in KNOWN] == list(range(1, len(KNOWN) + 1))
    assert all(re.fullmatch(rf"{migration.version:04}_[a-z_]+\.sql", migration.name) for migration in KNOWN)
    migrate(database, KNOWN)
    recorded = database.execute("SELECT version, name, checksum FROM migrations ORDER BY version").fetchall()
    expected = [(known.version, known.name, hashlib.sha256(known.sql.encode()).hexdigest()) for known in KNOWN]
    assert recorded == expected


@pytest.mark.parametrize(("table", "kind"), [("events", StoredEvent), ("runs", RunRow), ("snapshots", Snapshot)])
def test_columns_are_the_fields_of_the_port(
    database: sqlite3.Connection, table: str, kind: type[msgspec.Struct]
) -> None:
    migrate(database, KNOWN)
    columns = database.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
    apart = {"parked", "wakes_at", "superseded"}  # `ParkingRow` has its own, and the log finds out what is superseded
    assert [name for (name,) in columns if name not in apart] == list(kind.__struct_fields__)


def test_events_have_one_index(database: sqlite3.Connection) -> None:
    """Every further one is paid with every event."""
    migrate(database, KNOWN)
    indexes = database.execute("SELECT name FROM pragma_index_list('events')").fetchall()
    assert indexes == [("events_by_stream",)]


def test_tables_are_strict(database: sqlite3.Connection) -> None:
    migrate(database, KNOWN)
    strict = "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    assert all(is_strict for _, is_strict in database.execute(strict))


def test_people_read_flows_and_history_with_an_sqlite_shell(path: Path, database: sqlite3.Connection) -> None:
    with SqliteLog.open(path) as log:
        author = LogAuthor(log)
        author.start(closed(run_row(1)))
        author.append(author.event(1, "FlowClosed", b"12345"))
    flows = "SELECT flow_id, run_id, status, started_at, closed_at FROM flows"
    assert database.execute(flows).fetchall() == [
        ("flow-1", "run-1", "COMPLETED", "1970-01-01 00:00:01.000", "1970-01-01 00:00:01.500")
    ]
    history = "SELECT event_id, at, kind, payload_bytes FROM history WHERE flow_id = 'flow-1' ORDER BY seq"
    assert database.execute(history).fetchall() == [
        (1, "1970-01-01 00:00:01.001", "StepScheduled", 7),
        (2, "1970-01-01 00:00:01.002", "FlowClosed", 5),
    ]


def test_view_names_every_status(path: Path, database: sqlite3.Connection) -> None:
    """[FLOW-6]"""
    rows: Sequence[RunRow] = [
        msgspec.structs.replace(run_row(int(status)), status=int(status)) for status in FlowStatus
    ]
    with SqliteLog.open(path) as log:
        LogAuthor(log).append(runs=rows)
    shown = database.execute("SELECT status FROM flows ORDER BY stream_id").fetchall()
    assert [name for (name,) in shown] == [status.name for status in FlowStatus]
