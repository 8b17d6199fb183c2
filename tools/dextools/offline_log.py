"""Opens the log of a data directory for reading only, whether a server runs on it, was killed, or has never ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dexd.log.directory import log_path
from dexd.log.errors import LogDamagedError, LogError
from dexd.log.event_log import EventLog
from dexd.log.sqlite_reader import OfflineLog
from dextools.cli.errors import CommandError, ExitCode


@contextmanager
def open_offline(data_dir: Path) -> Iterator[EventLog]:
    """Give the log of a data directory or of a copy of one.

    Raises:
        CommandError: there is none, or it cannot be read; reading problems inside the block end so, too.
    """
    path = log_path(data_dir)
    if not path.is_file():
        raise CommandError(f"{data_dir} holds no log: there is no {path}", ExitCode.NOT_FOUND, code="LOG_NOT_FOUND")
    try:
        with OfflineLog(path) as log:
            yield log
    except LogDamagedError as error:
        raise CommandError(str(error), ExitCode.FAILED, code="LOG_DAMAGED") from error
    except LogError as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE, code="LOG_UNAVAILABLE") from error
