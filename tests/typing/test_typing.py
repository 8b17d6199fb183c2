"""Users' code under ``mypy --strict``: what is right passes, what is wrong is refused line by line [TYPE-1, TYPE-2]."""

import re
from pathlib import Path

import pytest
from mypy import api

REPOSITORY = Path(__file__).parents[2]
SNIPPETS = Path(__file__).parent / "snippets"

_ERROR = re.compile(r"^(?P<path>[^:]+):(?P<line>\d+): error: (?P<message>.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Messages by file name and line; one run for all snippets, as starting mypy costs most of it."""
    paths = sorted(str(path) for path in SNIPPETS.glob("*.py"))
    cache = tmp_path_factory.mktemp("mypy")
    output, problems, _ = api.run(
        ["--config-file", str(REPOSITORY / "pyproject.toml"), "--strict", "--cache-dir", str(cache), *paths]
    )
    assert not problems, problems
    found: dict[str, dict[int, str]] = {Path(path).name: {} for path in paths}
    for match in _ERROR.finditer(output):
        # A wrong line elsewhere, in the SDK itself, would have no entry and fails here.
        found[Path(match["path"]).name].setdefault(int(match["line"]), match["message"])
    return found


@pytest.mark.slow
def test_type_1_what_users_write_type_checks(errors: dict[str, dict[int, str]]) -> None:
    assert errors["accepted.py"] == {}


@pytest.mark.slow
def test_type_2_every_wrong_line_is_refused_and_no_other(errors: dict[str, dict[int, str]]) -> None:
    lines = (SNIPPETS / "rejected.py").read_text().splitlines()
    expected = {number for number, line in enumerate(lines, start=1) if line.endswith("# error")}
    assert len(expected) > 30
    accepted = {number: lines[number - 1] for number in sorted(expected - errors["rejected.py"].keys())}
    refused = {number: errors["rejected.py"][number] for number in sorted(errors["rejected.py"].keys() - expected)}
    assert (accepted, refused) == ({}, {})
