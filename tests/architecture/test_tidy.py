"""The tree obeys the style rules of `tidy`, and every rule reports the offence it is there for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture import tidy
from tests.architecture.source_tree import PACKAGE_ROOTS, REPOSITORY, SourceFile, all_files

Rule = Callable[[SourceFile], Iterator[str]]

RULES: list[Rule] = [
    tidy.banned_names,
    tidy.oversized_file,
    tidy.oversized_functions,
    tidy.open_points,
    tidy.machine_paths,
]

CORE = PACKAGE_ROOTS["dexd"] / "core"
LONG_FUNCTION = "def f() -> None:\n" + "    pass\n" * 70
OFFENCES: list[tuple[Rule, Path, str]] = [
    (tidy.banned_names, REPOSITORY / "dexd" / "string_utils.py", ""),
    (tidy.banned_names, REPOSITORY / "dexsdk" / "_helpers.py", ""),
    (tidy.banned_names, REPOSITORY / "dexd" / "lease.py", "class LeaseManager: ..."),
    (tidy.oversized_file, CORE / "kernel.py", "\n" * 401),
    (tidy.oversized_file, REPOSITORY / "dexd" / "server.py", "\n" * 601),
    (tidy.oversized_functions, REPOSITORY / "dexd" / "server.py", LONG_FUNCTION),
    (tidy.open_points, REPOSITORY / "dexd" / "server.py", "#" + " TODO: later"),
    (tidy.open_points, REPOSITORY / "dexd" / "server.py", "#" + " FIXME(12): later"),
    (tidy.machine_paths, REPOSITORY / "dexd" / "server.py", "DATA = '/" + "home/somebody/data'"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tree_obeys(rule: Rule) -> None:
    findings = [finding for file in all_files() for finding in rule(file)]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(("rule", "path", "text"), OFFENCES)
def test_rule_reports_its_offence(rule: Rule, path: Path, text: str) -> None:
    assert list(rule(SourceFile(path, text)))


def test_tracked_open_point_is_allowed() -> None:
    text = "#" + " TODO(12): answer with the retry delay of the limiter"
    assert not list(tidy.open_points(SourceFile(REPOSITORY / "dexd" / "server.py", text)))
