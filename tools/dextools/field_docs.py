"""Docstrings under fields and enum members, which Python itself throws away: read from the source."""

import ast
import inspect
import itertools
import textwrap
from enum import Enum


def attribute_docs(cls: type) -> dict[str, str]:
    """Field name to the string literal under it, for the fields that have one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        name = _assigned_name(statement)
        text = _literal(following)
        if name and text:
            docs[name] = text
    return docs


def member_docs(cls: type[Enum]) -> list[str]:
    """One text for each member of an enum, in order."""
    docs = attribute_docs(cls)
    return [docs[member.name] for member in cls]


def _assigned_name(statement: ast.stmt) -> str | None:
    target = statement.target if isinstance(statement, ast.AnnAssign) else None
    if isinstance(statement, ast.Assign):
        target = statement.targets[0] if isinstance(statement.targets[0], ast.Name) else None
    return target.id if isinstance(target, ast.Name) else None


def _literal(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else None
    return None
