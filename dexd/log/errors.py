"""What can go wrong with the log; all are IO conditions, none is a refusal of a command [ARCH-7]."""


class LogError(Exception):
    """Root of the log's errors."""


class SequenceConflictError(LogError):
    """Another writer has appended; this writer is fenced off."""


class LogUnavailableError(LogError):
    """Writes are refused now, nothing was written, and a retry may succeed."""


class LogFullError(LogUnavailableError):
    """The disk is full; nothing was written."""


class LogFailedError(LogError):
    """An I/O error or failed fsync: what is durable is unknown until the log is opened again."""


class QueryTooSlowError(LogError):
    """A search was given up because its time was over [SEARCH-9]."""


class LogDamagedError(LogError):
    """The file is not a log, is damaged, or was written by a newer release."""


class DataDirectoryInUseError(LogError):
    """Another process serves this data directory; the message names its pid [ARCH-6]."""


class DataDirectoryUnusableError(LogError):
    """The data directory cannot be made or written; the message names it and tells why."""
