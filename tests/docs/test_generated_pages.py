"""Generated pages equal what the code says now; `make docs` writes them."""

import pytest

from dextools.cli.errors import ExitCode
from dextools.docgen import DOCS, PAGES
from dextools.field_docs import attribute_docs, member_docs


@pytest.mark.parametrize("name", sorted(PAGES))
def test_generated_page_is_current(name: str) -> None:
    """[ERR-A, SURF-13] tables of errors, settings and commands do not drift."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), f"docs/{name} is old: run `make docs`"


def test_docstrings_below_fields_are_read_from_the_source() -> None:
    """What the tables call a meaning."""
    assert len(member_docs(ExitCode)) == len(ExitCode)
    assert attribute_docs(ExitCode)["USAGE"].startswith("The command line is wrong")


def test_every_setting_and_option_says_what_it_means() -> None:
    """[SURF-13] no empty cell in the table of settings, no option without help."""
    rows = [line for line in PAGES["configuration.md"]().splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
    options = [line for line in PAGES["cli.md"]().splitlines() if line.startswith("- `")]
    assert [line for line in options if line.endswith("`: ")] == []
