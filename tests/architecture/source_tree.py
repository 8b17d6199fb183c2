"""The project's own Python files, for the checks of this folder. Generated modules are left out."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

PACKAGE_ROOTS = {
    "dexd": REPOSITORY / "dexd",
    "dexsdk": REPOSITORY / "dexsdk",
    "dexpb": REPOSITORY / "proto" / "dexpb",
    "dextools": REPOSITORY / "tools" / "dextools",
}
"""Import packages of the distribution and the folders that hold them."""


@dataclass(frozen=True)
class SourceFile:
    """One Python file, parsed on first use."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The path below the repository, as a person would type it."""
        return self.path.relative_to(REPOSITORY).as_posix()

    @property
    def is_core(self) -> bool:
        """Whether the file belongs to the pure core [ARCH-1]."""
        return self.path.is_relative_to(PACKAGE_ROOTS["dexd"] / "core")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)


def source_files(*roots: Path) -> Iterator[SourceFile]:
    """Yield the hand-written Python files below the roots, in path order."""
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            if "_pb2" not in path.stem:
                yield SourceFile(path, path.read_text(encoding="utf-8"))


def product_files() -> list[SourceFile]:
    """Return the files of the four import packages."""
    return list(source_files(*PACKAGE_ROOTS.values()))


def all_files() -> list[SourceFile]:
    """Return the files of the import packages, the tests and the examples."""
    return [*product_files(), *source_files(REPOSITORY / "tests", REPOSITORY / "examples")]
