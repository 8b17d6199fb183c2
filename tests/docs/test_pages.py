"""What a reader may rely on in every page."""

import re
from pathlib import Path

import pytest

from tests.docs.fenced_blocks import ROOT, pages

ARCHITECTURE_LINES_MAX = 300
"""An architecture page that is longer is not read (style.md)."""

_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")
_CODE_PATH = re.compile(r"`((?:dexd|dexsdk|proto|tools|tests|examples|docs|migrations)/[\w./]*\w/?)`")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    """A stranger finds their way."""
    missing = [
        target for target in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_paths_named_in_pages_exist(page: Path) -> None:
    """A file that a page names is there."""
    paths = _CODE_PATH.findall(page.read_text(encoding="utf-8"))
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_the_architecture_page_is_short_and_begins_with_the_glossary() -> None:
    """ARCHITECTURE has at most 300 lines, glossary first (style.md)."""
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= ARCHITECTURE_LINES_MAX
    assert next(line for line in lines if line.startswith("## ")) == "## Glossary"
