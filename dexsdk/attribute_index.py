"""Indexes of Attributes, by which search finds Flows [ATTR-9]."""

from dataclasses import dataclass
from enum import Enum


class IndexType(Enum):
    """What an index holds, and so what a query may compare it with; docs/search.md tells what each can."""

    KEYWORD = "KEYWORD"
    """A str or enum of at most 4 KiB, found as a whole."""
    FULL_TEXT = "FULL_TEXT"
    """A str, found by its words."""
    KEYWORD_ARRAY = "KEYWORD_ARRAY"
    """A list of str, found by any element."""
    INT = "INT"
    DOUBLE = "DOUBLE"
    BOOL = "BOOL"
    DATETIME = "DATETIME"
    """An aware datetime, to the microsecond."""


@dataclass(frozen=True)
class AttributeIndex:
    """Makes an Attribute searchable under a key, which has one type on the whole server [ATTR-10]."""

    type: IndexType
    index_key: str = ""
    """Field name in queries; empty is the name of the Attribute. An AttributeMap must name one: all its instances write
    that one field, and the last set or delete of any of them wins.
    """
