"""A query as it is written: names and literals with their positions, nothing resolved."""

from enum import StrEnum
from typing import TypeAlias

import msgspec


class QueryError(Exception):
    """The text is no query, or does not fit the fields [SEARCH-6]."""

    def __init__(self, position: int, problem: str) -> None:
        """Tell what is wrong and what is expected.

        Args:
            position: Where, in code points from 0.
            problem: A sentence without a full stop.
        """
        super().__init__(f"{problem}, at position {position}")
        self.position = position


class Operator(StrEnum):
    """How a field is compared with one literal."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Name(msgspec.Struct, frozen=True, gc=False):
    """A field as it is named."""

    text: str
    position: int


class Literal(msgspec.Struct, frozen=True, gc=False):
    """A value as it is written."""

    value: str | int | float | bool
    position: int


class Compared(msgspec.Struct, frozen=True):
    """`field operator literal`."""

    field: Name
    operator: Operator
    literal: Literal


class Among(msgspec.Struct, frozen=True):
    """`field IN (literal, ...)`."""

    field: Name
    literals: tuple[Literal, ...]


class Like(msgspec.Struct, frozen=True):
    """`field LIKE pattern`."""

    field: Name
    pattern: Literal


class Missing(msgspec.Struct, frozen=True):
    """`field IS NULL`."""

    field: Name


class Negation(msgspec.Struct, frozen=True):
    """`NOT operand`."""

    operand: "Condition"
    depth: int


class Conjunction(msgspec.Struct, frozen=True):
    """`operand AND ...`; two or more."""

    operands: tuple["Condition", ...]
    depth: int


class Disjunction(msgspec.Struct, frozen=True):
    """`operand OR ...`; two or more."""

    operands: tuple["Condition", ...]
    depth: int


Condition: TypeAlias = Compared | Among | Like | Missing | Negation | Conjunction | Disjunction


class OrderTerm(msgspec.Struct, frozen=True, gc=False):
    """One field of ORDER BY."""

    field: Name
    is_descending: bool


class Query(msgspec.Struct, frozen=True):
    """A whole query; without a condition it finds everything."""

    condition: Condition | None = None
    order: tuple[OrderTerm, ...] = ()
