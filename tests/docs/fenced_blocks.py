"""Finds the fenced code blocks of a Markdown file."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """All blocks that name a language, in order."""
    content = page.read_text(encoding="utf-8")
    return [Block(match[1], match[2], content.count("\n", 0, match.start()) + 1) for match in _BLOCK.finditer(content)]


def pages() -> list[Path]:
    """Every page for users: README, ARCHITECTURE and docs/, decision records aside."""
    return sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")])
