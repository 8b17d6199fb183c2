"""What is in a data directory, also one of another release: versions, counts, sizes, and who uses it [SURF-23]."""

import fcntl
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from dexd.log import queries
from dexd.log.connection import open_plainly
from dexd.log.directory import log_path
from dexd.log.schema import known_migrations, schema_of
from dexd.log.sqlite_errors import reading_error


class LogFacts(msgspec.Struct, frozen=True):
    """A log and its directory."""

    schema: int
    """Of the file; 0 is an empty one."""
    known_schema: int
    """Of this release."""
    counts: Mapping[str, int] | None
    """Rows by what they are; None where the schema is another than this release's."""
    log_bytes: int
    wal_bytes: int
    server_pid: int
    """Of the server that uses the directory; 0 if none does."""


def read_facts(data_dir: Path) -> LogFacts:
    """Look at a data directory that has a log; nothing is written.

    Raises:
        LogDamagedError: the file is no log.
        LogError: it cannot be read.
        OSError: the directory cannot be read.
    """
    path = log_path(data_dir)
    known = len(known_migrations())
    try:
        with closing(open_plainly(path)) as connection:
            schema = schema_of(connection)
            counts = _counts(connection) if schema == known else None
    except sqlite3.Error as error:
        raise reading_error(error, f"cannot read {path}") from error
    wal = path.with_name(f"{path.name}-wal")
    return LogFacts(
        schema=schema,
        known_schema=known,
        counts=counts,
        log_bytes=path.stat().st_size,
        wal_bytes=wal.stat().st_size if wal.exists() else 0,
        server_pid=server_pid(data_dir),
    )


def server_pid(data_dir: Path) -> int:
    """Process ID of the server that uses a data directory; 0 if none does."""
    try:
        descriptor = os.open(data_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.pread(descriptor, 20, 0) or b"0")
    finally:
        os.close(descriptor)
    return 0


def _counts(connection: sqlite3.Connection) -> Mapping[str, int]:
    cursor = connection.execute(queries.whole_log.COUNTS)
    (row,) = cursor.fetchall()
    return dict(zip((column[0] for column in cursor.description), row, strict=True))
