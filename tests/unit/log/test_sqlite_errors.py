"""What each SQLite error means: wait, end, or refuse to start [ARCH-4, SURF-12]."""

import sqlite3

import pytest

from dexd.log.errors import (
    LogDamagedError,
    LogError,
    LogFailedError,
    LogFullError,
    LogUnavailableError,
    SequenceConflictError,
)
from dexd.log.sqlite_errors import reading_error, writing_error


def sqlite_error(name: str) -> sqlite3.Error:
    """An error as the sqlite3 module makes it."""
    error = sqlite3.OperationalError("something went wrong")
    error.sqlite_errorcode = getattr(sqlite3, name)
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("SQLITE_FULL", LogFullError, LogFullError),
        ("SQLITE_IOERR_SHMSIZE", LogFullError, LogFullError),
        ("SQLITE_BUSY", LogUnavailableError, LogUnavailableError),
        ("SQLITE_BUSY_RECOVERY", LogUnavailableError, LogUnavailableError),
        ("SQLITE_LOCKED", LogUnavailableError, LogUnavailableError),
        ("SQLITE_CANTOPEN", LogUnavailableError, LogUnavailableError),
        ("SQLITE_IOERR_FSYNC", LogFailedError, LogFailedError),
        ("SQLITE_IOERR_WRITE", LogFailedError, LogFailedError),
        ("SQLITE_READONLY", LogFailedError, LogFailedError),
        ("SQLITE_CORRUPT", LogFailedError, LogDamagedError),
        ("SQLITE_CORRUPT_INDEX", LogFailedError, LogDamagedError),
        ("SQLITE_NOTADB", LogFailedError, LogDamagedError),
        ("SQLITE_ERROR", LogFailedError, LogDamagedError),
        ("SQLITE_CONSTRAINT_PRIMARYKEY", SequenceConflictError, LogFailedError),
        ("SQLITE_CONSTRAINT_UNIQUE", SequenceConflictError, LogFailedError),
        ("SQLITE_CONSTRAINT_NOTNULL", LogFailedError, LogFailedError),
    ],
)
def test_meaning(name: str, written: type[LogError], read: type[LogError]) -> None:
    error = sqlite_error(name)
    assert type(writing_error(error, "batch after 7")) is written
    assert type(reading_error(error, "list")) is read


def test_text_says_what_was_done_and_which_code_came_back() -> None:
    shown = str(writing_error(sqlite_error("SQLITE_FULL"), "batch after 7"))
    assert shown == "batch after 7: something went wrong (SQLITE_FULL)"


def test_error_of_the_module_itself_ends_the_process() -> None:
    """It has no code, and means that the connection is used wrongly."""
    assert type(writing_error(sqlite3.ProgrammingError("closed"), "append")) is LogFailedError
