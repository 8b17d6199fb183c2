"""Where a verb's answer goes: JSON or a table on stdout, failures on stderr [SURF-20]."""

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from dextools.cli.errors import CommandError
from dextools.terminal_text import cell, printable

PIPE_WIDTH = 10_000
"""Columns when nobody looks: tables in pipes and files are not folded, so that one row is one line."""


class Output:
    """Shows answers in the form that the caller asked for; a verb gives both and does not ask which it is."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        self._console = Console(highlight=False, emoji=False, markup=False, width=width)

    def answer(self, document: Mapping[str, Any], human: RenderableType) -> None:
        """Show one answer: an object as one JSON line, or its form for people."""
        if self.as_json:
            sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
            sys.stdout.flush()
        else:
            self._console.print(human)

    def fields(self, document: Mapping[str, Any], human: Mapping[str, Any] | None = None) -> None:
        """Show one object: as JSON, or as one `name  value` line for each field of `human` that is set.

        A tuple of texts is shown one below the other.
        """
        texts = {name: _lines_of(value) for name, value in (document if human is None else human).items()}
        width = max(map(len, texts))
        lines = [
            cell(f"{'' if number else name:{width}}  {line}")
            for name, below in texts.items()
            for number, line in enumerate(below)
            if line
        ]
        self.answer(document, Text("\n").join(lines))

    def fail(self, error: CommandError) -> None:
        """Say on stderr what went wrong."""
        if self.as_json:
            problem = {"code": error.code, "message": error.message, "metadata": error.metadata}
            sys.stderr.write(msgspec.json.encode({"error": problem}).decode() + "\n")
        else:
            sys.stderr.write(printable(f"dex: {error.message}") + "\n")


def _lines_of(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (text_of(value),)


def text_of(value: Any) -> str:
    """A field for people: texts as they are, stored values as their JSON, unset ones empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode("utf-8", "replace")
