"""A query that fits the fields: what the log compiles to SQL, and what is evaluated row by row.

Every predicate is true or false of a row, never unknown: a comparison with a missing value is false [SEARCH-4].
"""

from typing import TypeAlias

import msgspec

from dexd.search.fields import START_TIME, VOLATILE_FIELDS, Field
from dexd.search.syntax import Operator

Scalar: TypeAlias = str | int | float | bool
"""A value of a field; an instant is a number of the field's units."""


class Always(msgspec.Struct, frozen=True):
    """True of every row."""


class Has(msgspec.Struct, frozen=True):
    """The field has a value."""

    field: Field


class OneOf(msgspec.Struct, frozen=True):
    """Some value of the field is one of these; false without any."""

    field: Field
    values: tuple[Scalar, ...]


class Compares(msgspec.Struct, frozen=True):
    """The one value of the field is smaller or larger than another."""

    field: Field
    operator: Operator
    """One of the four of order."""
    value: Scalar


class Matches(msgspec.Struct, frozen=True):
    """Some value of the field is like a pattern."""

    field: Field
    parts: tuple[str, ...]
    """See `patterns.literal_parts`."""


class HasWords(msgspec.Struct, frozen=True):
    """The text of the field has all these words, and a word that begins with the prefix if there is one."""

    field: Field
    words: tuple[str, ...]
    prefix: str = ""


class Not(msgspec.Struct, frozen=True):
    """The opposite."""

    operand: "Predicate"


class All(msgspec.Struct, frozen=True):
    """Each of two or more."""

    operands: tuple["Predicate", ...]


class Any(msgspec.Struct, frozen=True):
    """At least one of two or more."""

    operands: tuple["Predicate", ...]


Predicate: TypeAlias = Always | Has | OneOf | Compares | Matches | HasWords | Not | All | Any


class SortKey(msgspec.Struct, frozen=True):
    """One field of the order. Rows without a value come last, whatever the direction."""

    field: Field
    is_descending: bool


DEFAULT_ORDER = (SortKey(START_TIME, is_descending=True),)
"""Newest start first [SEARCH-7]."""


class CheckedQuery(msgspec.Struct, frozen=True):
    """What to look for and how to sort it; rows that are equal so far are sorted by Flow ID [SEARCH-7]."""

    text: str
    predicate: Predicate
    order: tuple[SortKey, ...]
    fields: tuple[str, ...]
    """Names of all fields that it looks at, each once."""

    @property
    def is_volatile(self) -> bool:
        """Whether it looks at what changes with every Step."""
        return any(name in VOLATILE_FIELDS for name in self.fields)
