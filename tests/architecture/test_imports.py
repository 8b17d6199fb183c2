"""Who may import whom: the contracts of pyproject.toml, and what the pure core may use of the outside."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE_ROOTS, REPOSITORY, SourceFile, source_files

CORE = PACKAGE_ROOTS["dexd"] / "core"

CORE_MAY_IMPORT = {
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "dexd",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "msgspec",
    "operator",
    "re",
    "typing",
}
"""Data and arithmetic only [ARCH-1]. import-linter bans what is known to be impure; this list bans what is unknown.
Of `datetime` the calendar is data; its clocks are banned by dexd/core/ruff.toml."""

CORE_MAY_NOT_CALL = {"hash", "id", "input", "open", "print"}
"""Builtins that touch the world, or whose result differs from one process to the next [ARCH-1]."""


def imported_modules(file: SourceFile) -> Iterator[str]:
    """Yield the absolute name of every module that the file imports, wherever the import stands."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_import_contracts_hold() -> None:
    """The contracts of pyproject.toml are kept [ARCH-1, ARCH-12]."""
    linter = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linter.returncode == 0, linter.stdout + linter.stderr


def test_core_imports_data_modules_only() -> None:
    """The core uses nothing beyond data and arithmetic [ARCH-1]."""
    findings = [
        f"{file.name} imports {module}"
        for file in source_files(CORE)
        for module in imported_modules(file)
        if module.partition(".")[0] not in CORE_MAY_IMPORT
    ]
    assert not findings, "\n".join(findings)


def called_builtins(file: SourceFile) -> Iterator[str]:
    """Yield the plain names that the file calls and the core may not, with the line."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CORE_MAY_NOT_CALL:
            yield f"{file.name}:{node.lineno}: {node.func.id}()"


def test_core_calls_no_impure_builtin() -> None:
    """The core neither prints nor depends on addresses or string hashes [ARCH-1]."""
    findings = [finding for file in source_files(CORE) for finding in called_builtins(file)]
    assert not findings, "\n".join(findings)
    assert list(called_builtins(SourceFile(CORE / "ids.py", "X = hash('name')\n")))


@pytest.mark.parametrize(
    "offence",
    [
        "import time\n",
        "import asyncio\n",
        "from uuid import uuid4\n",
        "import random\n\nX = random.random()\n",
        "import datetime\n\nX = datetime.datetime.now(tz=datetime.UTC)\n",
    ],
)
def test_impure_call_in_core_is_reported(offence: str) -> None:
    """Clocks, randomness, and the event loop are banned in the core [ARCH-1]."""
    assert "TID251" in rules_broken(offence, path="dexd/core/offence.py")


def test_clock_outside_engine_system_is_reported() -> None:
    """Only dexd/engine/system.py reads the clock [ARCH-1]."""
    reads_clock = "import time\n\nX = time.time()\n"
    assert "TID251" in rules_broken(reads_clock, path="dexd/api/offence.py")
    assert "TID251" not in rules_broken(reads_clock, path="dexd/engine/system.py")


def rules_broken(text: str, *, path: str) -> str:
    """Lint `text` as if it stood at `path` and return the report."""
    linter = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--output-format",
            "concise",
            "--stdin-filename",
            path,
            "-",
        ],
        cwd=REPOSITORY,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return linter.stdout
