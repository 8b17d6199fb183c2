"""Opens the log of a data directory for tools.

For reading only, whether a server runs on it, was killed, or has never ended; or for writing, if no server runs on it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dexd.log.directory import locked, log_path
from dexd.log.errors import DataDirectoryInUseError, LogDamagedError, LogError
from dexd.log.event_log import EventLog
from dexd.log.sqlite_log import SqliteLog
from dexd.log.sqlite_reader import OfflineLog
from dextools.cli.errors import CommandError, ExitCode


@contextmanager
def open_offline(data_dir: Path) -> Iterator[EventLog]:
    """Give the log of a data directory or of a copy of one.

    Raises:
        CommandError: there is none, or it cannot be read; reading problems inside the block end so, too.
    """
    path = existing_log(data_dir)
    with reported(), OfflineLog(path) as log:
        yield log


@contextmanager
def open_exclusively(data_dir: Path, *, is_new_allowed: bool = False) -> Iterator[SqliteLog]:
    """Give the log of a data directory for writing; brings its schema up to date as the server would.

    Args:
        data_dir: The data directory.
        is_new_allowed: Make directory and log if there is none.

    Raises:
        CommandError: there is none, a server runs on it, or it cannot be read or written; problems inside the block end
            so, too.
    """
    if not is_new_allowed:
        existing_log(data_dir)
    with reported(), locked(data_dir) as path, SqliteLog.open(path) as log:
        yield log


def existing_log(data_dir: Path) -> Path:
    """The file of a data directory's log.

    Raises:
        CommandError: there is none.
    """
    path = log_path(data_dir)
    if not path.is_file():
        raise CommandError(f"{data_dir} holds no log: there is no {path}", ExitCode.NOT_FOUND, code="LOG_NOT_FOUND")
    return path


@contextmanager
def reported() -> Iterator[None]:
    """Say what is wrong with the log in the terms of the command line."""
    try:
        yield
    except DataDirectoryInUseError as error:
        raise CommandError(f"{error}; stop it first", ExitCode.CONFLICT, code="DATA_DIRECTORY_IN_USE") from error
    except LogDamagedError as error:
        raise CommandError(str(error), ExitCode.FAILED, code="LOG_DAMAGED") from error
    except (LogError, OSError) as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE, code="LOG_UNAVAILABLE") from error
