"""Style rules that no linter knows, each as a function from one source file to its findings."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.source_tree import SourceFile

CORE_LINES_MAX = 400
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

BANNED_NAMES = {
    "base": "the noun that the classes share",
    "common": "what the things have in common, as a noun",
    "helper": "what it does for whom, as a noun",
    "helpers": "what they do for whom, as a noun",
    "impl": "what distinguishes this implementation",
    "manager": "what it owns: table, ledger, pool",
    "misc": "one module per subject",
    "processor": "the verb it performs, as a noun",
    "util": "the subject of the functions",
    "utils": "the subject of the functions",
    "wrapper": "what it adds",
}
"""Names that say nothing, with what to say instead."""

OPEN_POINT = re.compile(r"#\s*(TODO|FIXME|XXX|HACK)\b(?P<issue>\(\d+\):)?")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/\w")


def banned_names(file: SourceFile) -> Iterator[str]:
    """Yield module names and class suffixes that hide what the thing is."""
    for word in file.path.stem.strip("_").split("_"):
        if word in BANNED_NAMES:
            yield f"{file.name}: module name contains '{word}'; name {BANNED_NAMES[word]}"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef):
            last_word = re.split(r"(?=[A-Z])", node.name)[-1].lower()
            if last_word in BANNED_NAMES:
                yield f"{file.name}:{node.lineno}: class {node.name}; name {BANNED_NAMES[last_word]}"


def oversized_file(file: SourceFile) -> Iterator[str]:
    """Yield the file when it is longer than its layer allows."""
    lines_max = CORE_LINES_MAX if file.is_core else FILE_LINES_MAX
    lines = file.text.count("\n")
    if lines > lines_max:
        yield f"{file.name}: {lines} lines, at most {lines_max}; split by event family or direction"


def oversized_functions(file: SourceFile) -> Iterator[str]:
    """Yield functions that nobody can read in one piece."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{file.name}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def open_points(file: SourceFile) -> Iterator[str]:
    """Yield open points that no issue tracks; FIXME and its kin are never allowed."""
    for number, line in enumerate(file.text.splitlines(), start=1):
        found = OPEN_POINT.search(line)
        if found and not (found[1] == "TODO" and found["issue"]):
            yield f"{file.name}:{number}: {found[1]} without an issue; write # TODO(123): ..."


def machine_paths(file: SourceFile) -> Iterator[str]:
    """Yield paths that exist on one person's machine only."""
    for number, line in enumerate(file.text.splitlines(), start=1):
        if MACHINE_PATH.search(line):
            yield f"{file.name}:{number}: absolute path of a particular machine"
