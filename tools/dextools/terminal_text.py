"""Text for terminals: data may hold escape sequences, a terminal must never see them [SURF-20]."""

import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, direction marks and other invisible ones, surrogates, unassigned code points, line separators."""

_EMOJI_JOINERS = frozenset("\u200d\ufe0f")
"""Format characters that only glue emoji together."""


def printable(text: str) -> str:
    """Give the text with every character that could steer a terminal, or hide, as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def cell(text: str, style: str = "") -> Text:
    """A table cell of data: escaped, and never read as markup."""
    return Text(printable(text), style=style)


def table(*headers: str, rows: Iterable[Iterable[str]], title: str | None = None) -> Table:
    """A plain table of data."""
    shown = Table(title=None if title is None else Text(printable(title), style="bold"), title_justify="left")
    for header in headers:
        shown.add_column(header, overflow="fold")
    for row in rows:
        shown.add_row(*(cell(text, _STATUS_STYLES.get(text, "")) for text in row))
    return shown


def age_text(duration_ms: int) -> str:
    """How long ago, in the unit that fits: `350ms`, `12.5s`, `4m 10s`, `3h 5m`, `2d 7h`."""
    milliseconds = max(0, duration_ms)
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f}s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    if minutes < 60:
        return f"{minutes}m {seconds}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"


def instant_text(instant_ms: int) -> str:
    """An instant as RFC 3339 in UTC, the empty text for 0."""
    if not instant_ms:
        return ""
    seconds, milliseconds = divmod(instant_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def _printable_character(character: str) -> str:
    if unicodedata.category(character) not in _ESCAPED_CATEGORIES or character in _EMOJI_JOINERS:
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_STATUS_STYLES = {
    "RUNNING": "cyan",
    "COMPLETED": "green",
    "FAILED": "red",
    "CANCELED": "yellow",
    "TERMINATED": "yellow",
}
