"""Structured logs on stderr: constant event names, ids as fields, never a payload or a token [OBS-3].

Configured once, by the composition root. Modules take their logger from `structlog.get_logger()`. Records of libraries,
which use the standard logging module, come out in the same format.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Self, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

FIELD_CHARACTERS_MAX = 1_000
"""Longer texts in a field are cut, so that no input can blow up a line [ARCH-8]."""


class LogFormat(StrEnum):
    """How a log line looks."""

    CONSOLE = "console"
    """For people."""
    JSON = "json"
    """One object a line, for machines."""


class LogLevel(StrEnum):
    """The least important line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logs(log_format: LogFormat, level: LogLevel) -> None:
    """Send structlog's and the standard library's records to stderr."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=_processors(log_format),
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        # The stream is looked up now: a test that swaps stderr must not be written to after it has ended.
        logger_factory=_LineLogger.factory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_StructuredHandler()]
    root.setLevel(max(threshold, logging.INFO))


class _LineLogger:
    """Writes lines; one that cannot be written is lost, for the server must go on when its disk is full [ARCH-4]."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def factory(cls, stream: TextIO) -> Callable[..., Self]:
        """What structlog makes loggers with."""
        return lambda *_: cls(stream)

    def write(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: the stream was closed
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg = log = write


def _processors(log_format: LogFormat) -> list[Processor]:
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _cut_long_fields,
        # Tracebacks without local variables: those hold payloads.
        structlog.processors.format_exc_info,
    ]
    if log_format is LogFormat.JSON:
        return [*shared, structlog.processors.JSONRenderer()]
    return [*shared, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def _cut_long_fields(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for name, value in event.items():
        if isinstance(value, str) and len(value) > FIELD_CHARACTERS_MAX:
            event[name] = value[:FIELD_CHARACTERS_MAX] + "..."
    return event


class _StructuredHandler(logging.Handler):
    """Passes a library's record on as the event ``library_record``."""

    def emit(self, record: logging.LogRecord) -> None:
        log: FilteringBoundLogger = structlog.get_logger()
        log.log(
            record.levelno, "library_record", logger=record.name, text=record.getMessage(), exc_info=record.exc_info
        )
