"""What only the log in a file can go through: full disks, locks, failing storage, slow readers."""

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from dexd.log.checkpointer import STEP_BYTES
from dexd.log.connection import WAL_BYTES_KEPT, Synchronous, open_reader, open_writer, set_pragma
from dexd.log.errors import LogFailedError, LogFullError, LogUnavailableError
from dexd.log.event_log import RunFilter, Snapshot
from dexd.log.queries.transactions import CHECKPOINT_PATIENTLY
from dexd.log.sqlite_log import SqliteLog
from dexd.log.sqlite_reader import OfflineLog
from tests.support.log_author import LogAuthor, closed, run_row

MIB = 1 << 20
REPOSITORY = Path(__file__).parents[3]
"""Where the process that is killed finds this package."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def writer(path: Path) -> sqlite3.Connection:
    """The log's own connection, so that tests can spoil it."""
    return open_writer(path, "full")


@pytest.fixture
def log(path: Path, writer: sqlite3.Connection) -> Iterator[SqliteLog]:
    with SqliteLog(path, writer) as opened:
        yield opened


@pytest.fixture
def author(log: SqliteLog) -> LogAuthor:
    author = LogAuthor(log)
    author.start(run_row(1))
    return author


def wal_bytes(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_full_disk_refuses_the_batch_and_takes_it_later(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection
) -> None:
    """[ARCH-4]"""
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    batch = author.batch(author.event(1, payload=bytes(MIB)), runs=[closed(run_row(1))])
    with pytest.raises(LogFullError):
        log.append(batch)
    assert log.last_seq == 1
    assert list(log.run_rows("flow-1")) == [run_row(1)]
    writer.execute("PRAGMA max_page_count = 1000000")
    log.append(batch)
    assert log.last_seq == 2


def test_full_disk_refuses_a_lone_statement_too(log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection) -> None:
    """Events alone are written without BEGIN and COMMIT."""
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LogFullError):
        author.append(author.event(1, payload=bytes(MIB)))
    assert log.last_seq == 1


def test_lock_of_another_program_refuses_the_batch_and_lets_it_pass_later(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection, path: Path
) -> None:
    """[ARCH-4]"""
    writer.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for runs in ([], [closed(run_row(1))]):
            with pytest.raises(LogUnavailableError, match="locked"):
                log.append(author.batch(author.event(1), runs=runs))
        assert log.last_seq == 1
        other.execute("ROLLBACK")
    LogAuthor(log).start(run_row(2))
    assert log.last_seq == 2


def test_empty_batch_shows_whether_the_log_can_be_written(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection, path: Path
) -> None:
    """[ARCH-4]: what the engine tries each second."""
    writer.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailableError):
            author.append()
    author.append()


def test_statement_that_fails_in_the_middle_takes_all_others_back(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection
) -> None:
    """[ARCH-4, ARCH-10]"""
    writer.execute("CREATE TEMP TRIGGER t BEFORE INSERT ON snapshots BEGIN SELECT RAISE(FAIL, 'no snapshots'); END")
    with pytest.raises(LogFailedError, match="no snapshots"):
        author.append(author.event(1), runs=[closed(run_row(1))], snapshots=[Snapshot(1, 2, 1, b"state")])
    assert log.last_seq == 1
    assert list(log.run_rows("flow-1")) == [run_row(1)]
    assert not writer.in_transaction


def test_value_that_sqlite_cannot_hold_leaves_nothing_behind(log: SqliteLog, author: LogAuthor) -> None:
    """A broken invariant; the writer thread turns it into the end of the engine [ARCH-7]."""
    with pytest.raises(OverflowError):
        author.append(author.event(1), runs=[run_row(2**63)])
    assert log.last_seq == 1


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Let every write beyond that size in a file fail with EFBIG, an I/O error as far as SQLite is concerned."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_failed_write_ends_writing_for_good(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[ARCH-4]: after a failed write or fsync nobody knows what is durable, and a second one may lie about it."""
    with largest_file(wal_bytes(path) + 1_000), pytest.raises(LogFailedError, match="SQLITE_IOERR"):
        author.append(author.event(1, payload=bytes(MIB)))
    with pytest.raises(LogFailedError, match="failed before"):
        author.append(author.event(1))
    log.checkpoint()
    log.close()
    with SqliteLog.open(path) as again:
        assert again.last_seq == 1


APPEND_FOREVER = """
import sys
from pathlib import Path
from dexd.log.sqlite_log import SqliteLog
from tests.support.log_author import LogAuthor, run_row
with SqliteLog.open(Path(sys.argv[1])) as log:
    author = LogAuthor(log)
    for stream_id in range(1, 1_000_000):
        author.start(run_row(stream_id), events=5)
        log.checkpoint_if_due()
        print(log.last_seq, flush=True)
"""


@pytest.mark.slow
def test_acknowledged_batches_survive_kill_9_and_no_batch_is_torn(path: Path) -> None:
    """[INV-1, INV-8]"""
    command = [sys.executable, "-c", APPEND_FOREVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(200)]
        process.kill()
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    with SqliteLog.open(path) as log:
        assert log.last_seq >= acknowledged[-1] >= 1_000
        assert log.last_seq % 5 == 0
        assert [len(stored.events) for stored in log.active_runs()] == [5] * (log.last_seq // 5)


# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("extra", 3)])
def test_writer_syncs_every_commit_and_checkpoints_only_when_told(
    path: Path, synchronous: Synchronous, level: int
) -> None:
    """[ARCH-5]"""
    with closing(open_writer(path, synchronous)) as connection:
        names = ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    assert found == ["wal", level, 1, 0]


def test_setting_that_does_not_take_effect_is_an_error() -> None:
    """[ARCH-5]: SQLite keeps silent about it."""
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(LogUnavailableError, match="journal_mode is memory, not wal"),
    ):
        set_pragma(connection, "journal_mode", "wal")


def test_readers_can_neither_write_nor_checkpoint(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[ARCH-5]"""
    before = path.read_bytes()
    with closing(open_reader(path)) as reader:
        assert reader.execute("PRAGMA query_only").fetchone() == (1,)
        assert reader.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM events")
        with pytest.raises(sqlite3.OperationalError):
            reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert path.read_bytes() == before


def test_missing_log_is_not_created_by_a_reader(path: Path) -> None:
    with pytest.raises(LogUnavailableError, match=r"log\.db"):
        OfflineLog(path)
    assert not path.exists()


# ---- offline -----------------------------------------------------------------------------------------------------


def test_offline_log_shows_a_running_log_and_refuses_writes(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[SURF-23]"""
    with OfflineLog(path) as offline:
        author.append(author.event(1))
        assert offline.last_seq == 2
        with pytest.raises(LogUnavailableError, match="reading only"):
            offline.append(author.batch(author.event(1)))


def test_offline_log_shows_what_a_killed_server_left(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[SURF-23, INV-1]: all is still in the WAL, and looking at it does not move it."""
    copy = path.with_name("copy.db")
    wal = path.with_name("log.db-wal").read_bytes()
    copy.write_bytes(path.read_bytes())
    copy.with_name("copy.db-wal").write_bytes(wal)
    with OfflineLog(copy) as offline:
        assert [listed.row.run_id for listed in offline.list_runs(RunFilter(), 10)] == ["run-1"]
    assert copy.with_name("copy.db-wal").read_bytes() == wal


# ---- the WAL -----------------------------------------------------------------------------------------------------


def write_mib(author: LogAuthor, log: SqliteLog, path: Path, count: int) -> int:
    """Write so much as the writer thread would; gives the largest size the WAL had."""
    largest = 0
    for _ in range(count):
        author.append(author.event(1, payload=bytes(MIB)))
        log.checkpoint_if_due()
        largest = max(largest, wal_bytes(path))
    return largest


@pytest.mark.slow
def test_wal_keeps_its_size_without_readers(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[INV-10]"""
    assert write_mib(author, log, path, 64) <= WAL_BYTES_KEPT + 3 * STEP_BYTES


@pytest.mark.slow
def test_wal_stays_bounded_under_a_slow_reader(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[ARCH-5]: 64 MiB, with clients that page through the log while it grows, one page always being read."""
    is_over = Event()

    def page_through() -> None:
        with OfflineLog(path) as reader:
            while not is_over.is_set():
                reader.read_all(1, 4)

    readers = [Thread(target=page_through) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        assert write_mib(author, log, path, 128) <= 64 * MIB
    finally:
        is_over.set()
        for reader in readers:
            reader.join()


@pytest.mark.slow
def test_writer_waits_for_readers_before_the_wal_gets_too_long(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection, path: Path
) -> None:
    """[ARCH-5]: readers that overlap never let go of the WAL all at once, unless the writer pauses for them."""
    waits = Event()
    writer.set_trace_callback(lambda statement: waits.set() if statement == CHECKPOINT_PATIENTLY else None)
    runs = log.active_runs()
    next(runs)

    def finish_reading() -> None:
        waits.wait()
        runs.close()

    reader = Thread(target=finish_reading)
    reader.start()
    largest = 0
    while not waits.is_set():
        largest = max(largest, write_mib(author, log, path, 1))
    reader.join()
    assert largest <= 64 * MIB
    assert write_mib(author, log, path, 1) <= WAL_BYTES_KEPT


@pytest.mark.slow
def test_forgotten_reader_does_not_stop_the_writer_again_and_again(
    log: SqliteLog, author: LogAuthor, writer: sqlite3.Connection, path: Path
) -> None:
    """A shell that somebody left open inside a transaction: the WAL grows, and the server goes on."""
    waits: list[str] = []
    writer.execute("PRAGMA busy_timeout = 0")
    writer.set_trace_callback(lambda statement: waits.append(statement) if "RESTART" in statement else None)
    with closing(log.active_runs()) as runs:
        next(runs)
        assert write_mib(author, log, path, 68) > 64 * MIB
    assert 1 <= len(waits) <= 2
    write_mib(author, log, path, 1 + STEP_BYTES // MIB)
    assert write_mib(author, log, path, 1) <= WAL_BYTES_KEPT


def test_idle_checkpoint_moves_everything_into_the_database(log: SqliteLog, author: LogAuthor, path: Path) -> None:
    """[ARCH-5]"""
    log.checkpoint()
    alone = path.with_name("alone.db")
    alone.write_bytes(path.read_bytes())
    with OfflineLog(alone) as offline:
        assert offline.last_seq == log.last_seq
