"""What an Attribute with an index says of itself to search: a key, its type, a value [ATTR-9..11].

Whoever writes the Attribute knows its Python value and sends the index value beside it; the bytes of the Attribute
stay opaque here. A run folds the latest value of each key, so that whatever carries a run's state carries these too.
"""

from enum import IntEnum
from typing import TypeAlias

import msgspec

KEYWORD_BYTES_MAX = 4 * 1024
"""UTF-8 bytes of one KEYWORD value, and of one element of a KEYWORD_ARRAY [LIM-2]."""

FULL_TEXT_BYTES_MAX = 1024 * 1024
"""UTF-8 bytes of one FULL_TEXT value; it stands in the event, in the state and in the index."""

ARRAY_ELEMENTS_MAX = 1_000
"""Elements of one KEYWORD_ARRAY value."""


class IndexType(IntEnum):
    """What values an index key has [ATTR-9]."""

    KEYWORD = 1
    FULL_TEXT = 2
    KEYWORD_ARRAY = 3
    INT = 4
    DOUBLE = 5
    BOOL = 6
    DATETIME = 7
    """Microseconds since the epoch in UTC."""


IndexValue: TypeAlias = str | int | float | bool | tuple[str, ...]


class IndexWrite(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One key is set or, with None, deleted; the last one of a run counts [ATTR-9]."""

    key: str
    type: IndexType
    value: IndexValue | None = None


IndexKeyTypes: TypeAlias = dict[str, IndexType]
"""The type of every key that anybody has named [ATTR-10]."""
