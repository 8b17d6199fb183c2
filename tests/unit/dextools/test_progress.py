"""Progress bars [SURF-26]."""

import io
import sys

import pytest

from dextools.cli.progress import progress


class Terminal(io.StringIO):
    """A stream that says that somebody watches."""

    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *, patience: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("events", total=2, patience=patience) as advance:
        advance(1)
        advance(1)
    return stream.getvalue()


def test_a_bar_is_shown_where_somebody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SURF-26] once the time is over."""
    assert "events" in shown(Terminal(), monkeypatch, patience=0.0)


def test_what_is_quick_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SURF-26] not before two seconds."""
    assert shown(Terminal(), monkeypatch, patience=3600.0) == ""


def test_no_bar_is_written_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SURF-26] off when not a terminal."""
    assert shown(io.StringIO(), monkeypatch, patience=0.0) == ""
