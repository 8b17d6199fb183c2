"""Which clauses of the specification the tests cite, and which ones they must cite.

`clauses/required.txt` names the clauses, `clauses/pending.txt` those of them that are not built yet.
A citation stands in a test file and is one of

- the name of a test, `test_wait_5_...`,
- ids in brackets, in a docstring or a comment of the test: one id, ids with commas, or a range such as `WAIT-1..3`.

The docstring of a whole module tells what the file is about and counts as no citation: a list of ids up there says
nothing about which test would fail.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.source_tree import REPOSITORY, SourceFile

CLAUSES = Path(__file__).parent / "clauses"
TESTS = REPOSITORY / "tests"

CLAUSE = re.compile(r"(?P<family>[A-Z]+)-(?P<first>\d+)(?:\.\.(?P<last>\d+))?")
BRACKETS = re.compile(r"\[(?P<content>[A-Z]+-?\d[^\[\]]*)\]")
TEST_NAME = re.compile(r"def test_(?P<family>[a-z]+)_(?P<number>\d+)_")


def listed(file_name: str) -> list[str]:
    """Return the ids of a clause list, in its order; a line that begins with # is a heading."""
    lines = (CLAUSES / file_name).read_text(encoding="utf-8").splitlines()
    return [clause for line in lines if not line.startswith("#") for clause in line.split()]


def cited_by_tests() -> set[str]:
    """Return every id that some test cites."""
    modules = sorted(TESTS.rglob("test_*.py")) + sorted((TESTS / "typing" / "snippets").glob("*.py"))
    scripts = sorted((TESTS / "scenarios").glob("*.txt"))
    texts = [_without_module_docstring(SourceFile(path, path.read_text(encoding="utf-8"))) for path in modules]
    texts += [path.read_text(encoding="utf-8") for path in scripts]
    return {clause for text in texts for clause in citations(text)}


def citations(text: str) -> Iterator[str]:
    """Yield the ids that a piece of a test file cites, ranges written out."""
    for name in TEST_NAME.finditer(text):
        yield f"{name['family'].upper()}-{name['number']}"
    for brackets in BRACKETS.finditer(text):
        for clause in CLAUSE.finditer(brackets["content"]):
            first = int(clause["first"])
            for number in range(first, int(clause["last"] or first) + 1):
                yield f"{clause['family']}-{number}"


def faults(required: Iterable[str], pending: Iterable[str], cited: set[str]) -> Iterator[str]:
    """Yield one line for every clause whose place in the lists and whose tests disagree."""
    required, pending = list(required), list(pending)
    for clause in sorted({clause for clause in required + pending if (required + pending).count(clause) > 1}):
        if required.count(clause) > 1 or pending.count(clause) > 1:
            yield f"{clause} is listed twice"
    for clause in pending:
        if clause not in required:
            yield f"{clause} is pending but not required"
        elif clause in cited:
            yield f"{clause} has a test: delete it from tests/architecture/clauses/pending.txt"
    for clause in required:
        if clause not in cited and clause not in pending:
            yield f"{clause} has no test that cites it"


def _without_module_docstring(file: SourceFile) -> str:
    statements = file.tree.body
    if not statements or ast.get_docstring(file.tree, clean=False) is None:
        return file.text
    docstring = statements[0]
    lines = file.text.splitlines(keepends=True)
    return "".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])
