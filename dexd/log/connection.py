"""Connections to the log's database: opened in one way, with settings that are read back.

One connection writes and checkpoints; all others are read-only and never checkpoint, not even when they are the last
to close. SQLite before 3.51.3 can lose committed pages when two connections checkpoint and write at once [ARCH-5].
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from dexd.log.errors import LogDamagedError, LogUnavailableError
from dexd.log.queries.search import DRAW_SIGNING_KEY, SIGNING_KEY
from dexd.log.schema import check_header, known_migrations, migrate
from dexd.log.sqlite_errors import reading_error

SQLITE_MIN = (3, 38, 0)
"""The first with STRICT tables and JSON functions in every build."""

BUSY_TIMEOUT_MS = 1_000
"""How long a lock of another program is waited for. Longer is reported, and tried again by the caller [ARCH-4]."""

WAL_BYTES_KEPT = 16 << 20
"""The WAL file is cut to this when it starts over: overwriting it is faster than growing it anew."""

CACHED_STATEMENTS = 512
"""Prepared statements kept, more than there are texts in `queries`."""

# sqlite3 looks for a way to adapt every value that is no plain int, float, str or bytearray. Without an entry that
# search raises and catches an error inside, for each payload of each event; with one it is a look into a table.
sqlite3.register_adapter(bytes, bytes)

Synchronous: TypeAlias = Literal["full", "extra"]

_SYNCHRONOUS_LEVEL: Mapping[Synchronous, int] = {"full": 2, "extra": 3}


def open_writer(path: Path, synchronous: Synchronous) -> sqlite3.Connection:
    """Open the one connection that writes, create the database if there is none, and migrate it.

    Raises:
        LogDamagedError: the file is no log, is damaged, or is newer than this release; it was not touched.
        LogError: it cannot be opened or written.
    """
    connection = _connect(f"{path.resolve().as_uri()}?mode=rwc")
    try:
        known = known_migrations()
        check_header(connection, known)
        set_pragma(connection, "journal_mode", "wal")
        set_pragma(connection, "synchronous", _SYNCHRONOUS_LEVEL[synchronous])
        set_pragma(connection, "foreign_keys", 1)
        set_pragma(connection, "wal_autocheckpoint", 0)
        set_pragma(connection, "journal_size_limit", WAL_BYTES_KEPT)
        migrate(connection, known)
        if connection.execute(SIGNING_KEY).fetchone() is None:
            connection.execute(DRAW_SIGNING_KEY)
    except sqlite3.Error as error:
        connection.close()
        raise reading_error(error, f"cannot open {path}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that can only read.

    Raises:
        LogDamagedError: the file is no log, is damaged, or has not the schema of this release.
        LogError: it cannot be opened.
    """
    connection = _connect(f"{path.resolve().as_uri()}?mode=ro")
    try:
        known = known_migrations()
        schema = check_header(connection, known)
        if schema < len(known):
            raise LogDamagedError(
                f"{path} has schema {schema}, this release reads {len(known)}; start the server on it"
            )
        set_pragma(connection, "query_only", 1)
        set_pragma(connection, "wal_autocheckpoint", 0)
    except sqlite3.Error as error:
        connection.close()
        raise reading_error(error, f"cannot open {path}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_plainly(path: Path) -> sqlite3.Connection:
    """Open a connection that can only read, to a file of whatever release.

    Raises:
        LogError: it cannot be opened.
    """
    return _connect(f"{path.resolve().as_uri()}?mode=ro")


def _connect(uri: str) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise LogUnavailableError(f"SQLite {sqlite3.sqlite_version} is too old, {SQLITE_MIN} is needed")
    try:
        # Autocommit: transactions are begun and ended by name. Threads: the module's users see to it that each
        # connection has one user at a time.
        return sqlite3.connect(
            uri,
            uri=True,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        raise reading_error(error, f"cannot open {uri}") from error


def set_pragma(connection: sqlite3.Connection, pragma: str, value: int | str) -> None:
    """Set a pragma and read it back, because SQLite ignores what it cannot do without a word."""
    connection.execute(f"PRAGMA {pragma} = {value}")
    (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    if found != value:
        raise LogUnavailableError(f"pragma {pragma} is {found}, not {value}: the log would not keep its promises")
