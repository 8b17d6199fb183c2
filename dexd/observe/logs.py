"""Structured logs on stderr: constant event names, ids as fields, never a payload or a token [OBS-3].

Configured once, by the composition root. Modules take their logger from `structlog.get_logger()`. Records of libraries,
which use the standard logging module, come out in the same format.
"""

import logging
import sys
from enum import StrEnum

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
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_StructuredHandler()]
    root.setLevel(max(threshold, logging.INFO))


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
