"""Why the server process ends, and with which exit code [SURF-12]."""

from enum import IntEnum

from dexd.log.errors import DataDirectoryInUseError, LogDamagedError, LogError


class ExitCode(IntEnum):
    """What the process tells its starter [SURF-12]."""

    STOPPED = 0
    """Stopped because it was asked to."""
    BROKEN = 1
    """A bug: an invariant is broken, a restart replays from the log [ARCH-7]."""
    CONFIGURATION = 2
    """Wrong usage or configuration, an address that is taken included."""
    DATA_DIRECTORY_IN_USE = 3
    """Another process serves this data directory."""
    LOG_DAMAGED = 4
    """The log is damaged, or newer than this release."""
    STORAGE_FAILED = 5
    """Storage failed, at start or while running; a data directory that cannot be made or written included."""


class ConfigError(Exception):
    """The configuration cannot be used; every fault is listed, not only the first."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class ListenError(Exception):
    """The server cannot listen on its address."""


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code for what ended the server."""
    match error:
        case ConfigError() | ListenError():
            return ExitCode.CONFIGURATION
        case DataDirectoryInUseError():
            return ExitCode.DATA_DIRECTORY_IN_USE
        case LogDamagedError():
            return ExitCode.LOG_DAMAGED
        case LogError() | OSError():
            return ExitCode.STORAGE_FAILED
        case _:
            return ExitCode.BROKEN
