"""Data never steers the terminal [SURF-20]."""

import io

import pytest
from rich.console import Console

from dextools.terminal_text import age_text, instant_text, printable, table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", "plain text"),
        ("a/b é 漢字 👩\u200d🚀", "a/b é 漢字 👩\u200d🚀"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\x9bd", "a\\x0ab\\x09c\\x9bd"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("line\u2028next", "line\\u2028next"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, expected: str) -> None:
    """[SURF-20] controls, direction marks and surrogates; everything else, emoji included, stays."""
    assert printable(text) == expected


def test_a_table_shows_hostile_data_as_text() -> None:
    """[SURF-20] neither markup nor escape sequences of the data reach the terminal."""
    stream = io.StringIO()
    Console(file=stream, width=80).print(table("id", rows=[["[bold]x[/bold]\x1b]0;title\x07"]]))
    shown = stream.getvalue()
    assert "[bold]x[/bold]\\x1b]0;title\\x07" in shown
    assert "\x1b" not in shown


def test_an_instant_is_shown_in_utc_with_milliseconds() -> None:
    """[SCHED-2] the form of instants in texts."""
    assert instant_text(1_772_955_000_007) == "2026-03-08T07:30:00.007Z"
    assert instant_text(0) == ""


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (-5, "0ms"),
        (350, "350ms"),
        (12_540, "12.5s"),
        (250_000, "4m 10s"),
        (3 * 3_600_000 + 300_000, "3h 5m"),
        (55 * 3_600_000, "2d 7h"),
    ],
)
def test_ages_are_shown_in_the_unit_that_fits(duration_ms: int, text: str) -> None:
    assert age_text(duration_ms) == text
