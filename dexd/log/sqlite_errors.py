"""What an SQLite error means for the log: whether anything was written, and whether to try again [ARCH-4]."""

import sqlite3

from dexd.log.errors import (
    LogDamagedError,
    LogError,
    LogFailedError,
    LogFullError,
    LogUnavailableError,
    SequenceConflictError,
)

_REFUSED: dict[int, type[LogError]] = {
    sqlite3.SQLITE_FULL: LogFullError,
    sqlite3.SQLITE_BUSY: LogUnavailableError,
    sqlite3.SQLITE_LOCKED: LogUnavailableError,
    sqlite3.SQLITE_CANTOPEN: LogUnavailableError,
    # The shared memory beside the WAL cannot grow, before anything is written to the WAL.
    sqlite3.SQLITE_IOERR_SHMSIZE: LogFullError,
}
"""Nothing was written, and the cause may go away."""

_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # a statement names a table or column that is not there
}
_CONFLICTS = {
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
}


def writing_error(error: sqlite3.Error, context: str) -> LogError:
    """What a failed write means; whatever is not known to be harmless ends the process."""
    code = _code(error)
    kind = SequenceConflictError if code in _CONFLICTS else _refusal(code) or LogFailedError
    return kind(f"{context}: {_text(error)}")


def reading_error(error: sqlite3.Error, context: str) -> LogError:
    """What a failed read means."""
    code = _code(error)
    kind = LogDamagedError if code & 0xFF in _DAMAGED else _refusal(code) or LogFailedError
    return kind(f"{context}: {_text(error)}")


def _refusal(code: int) -> type[LogError] | None:
    return _REFUSED.get(code) or _REFUSED.get(code & 0xFF)


def _code(error: sqlite3.Error) -> int:
    """The extended result code; its low byte is the primary one. 0 if Python's module made the error itself."""
    return getattr(error, "sqlite_errorcode", 0)


def _text(error: sqlite3.Error) -> str:
    return f"{error} ({getattr(error, 'sqlite_errorname', 'no SQLite code')})"
