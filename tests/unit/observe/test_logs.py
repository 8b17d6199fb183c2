"""Structured logs: one object a line, nothing of a payload [OBS-3]."""

import errno
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from dexd.observe.logs import FIELD_CHARACTERS_MAX, LogFormat, LogLevel, configure_logs


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_a_line_is_an_object_with_event_level_and_instant(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON, LogLevel.INFO)
    structlog.get_logger().warning("disk_slow", commit_ms=12)
    structlog.get_logger().debug("not_wanted")
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["commit_ms"]) == ("disk_slow", "warning", 12)
    assert line["timestamp"].endswith("Z")


def test_records_of_libraries_come_out_in_the_same_format(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON, LogLevel.INFO)
    logging.getLogger("grpc.server").error("failed with %s", "reset")
    (line,) = lines(capsys)
    assert (line["event"], line["logger"], line["text"]) == ("library_record", "grpc.server", "failed with reset")


def test_traceback_shows_no_local_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON, LogLevel.INFO)

    def broken(payload: str) -> None:
        raise RuntimeError(f"a value of {len(payload)} characters does not fit")

    try:
        broken("a customer's secret")
    except RuntimeError as error:
        structlog.get_logger().error("invariant_broken", exc_info=error)
    (line,) = lines(capsys)
    assert "in broken" in line["exception"]
    assert "RuntimeError: a value of 19 characters" in line["exception"]
    assert "customer" not in line["exception"].replace('broken("a customer', "")


def test_long_field_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """No input can blow up a line [ARCH-8]."""
    configure_logs(LogFormat.JSON, LogLevel.INFO)
    structlog.get_logger().info("flow_refused", flow_id="x" * 10_000_000)
    (line,) = lines(capsys)
    assert len(line["flow_id"]) == FIELD_CHARACTERS_MAX + len("...")


def test_console_format_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.CONSOLE, LogLevel.INFO)
    structlog.get_logger().info("server_ready", address="127.0.0.1:1")
    assert "server_ready" in capsys.readouterr().err


class FullDisk(io.StringIO):
    """Where stderr was sent to a file on a disk that is full, or to a pipe that nobody reads any more."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_arch_4_a_line_that_cannot_be_written_is_lost_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """[ARCH-4] The server that logs that its disk is full must go on."""
    monkeypatch.setattr("sys.stderr", FullDisk())
    configure_logs(LogFormat.CONSOLE, LogLevel.INFO)
    structlog.get_logger().error("log_refuses_writes")
    logging.getLogger("grpc.server").error("failed")
