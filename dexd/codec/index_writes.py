"""Index values and keys from outside, checked, and index rows as clients see them [ATTR-9, ATTR-10, LIM-2].

Raises ValueError for what is no index value; the text names key, type and what is allowed.
"""

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec

from dexd.codec.faults import owned_name_fault
from dexd.core.index_values import (
    ARRAY_ELEMENTS_MAX,
    FULL_TEXT_BYTES_MAX,
    KEYWORD_BYTES_MAX,
    IndexKeyTypes,
    IndexType,
    IndexValue,
    IndexWrite,
)
from dexd.log.event_log import IndexRow
from dexd.search.fields import SYSTEM_FIELDS
from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames

_TYPES = {member.value: member for member in IndexType}
_INT64 = range(-(2**63), 2**63)
_decoder: msgspec.json.Decoder[IndexValue] = msgspec.json.Decoder(str | int | float | bool | tuple[str, ...])


class IndexValueTooLargeError(ValueError):
    """An index value exceeds its limit [LIM-3]."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size} bytes, the limit is {limit}")
        self.what = what
        self.size = size
        self.limit = limit


def writes_of_frames(writes: Iterable[frames.IndexWrite]) -> tuple[IndexWrite, ...]:
    """Take the index values of a handler's result."""
    return tuple(_checked(entry.key, entry.type, entry.value) for entry in writes)


def writes_of_proto(writes: Iterable[pb.IndexWrite]) -> tuple[IndexWrite, ...]:
    """Take the index values of a client's request."""
    return tuple(
        _checked(entry.key, entry.type, _decoded(entry) if entry.HasField("value") else None) for entry in writes
    )


def to_index_keys(keys: Iterable[frames.IndexKey | pb.IndexKey]) -> IndexKeyTypes:
    """Take the keys that a worker or client names."""
    types: IndexKeyTypes = {}
    for entry in keys:
        found = _type_of(entry.key, entry.type)
        if types.setdefault(entry.key, found) is not found:
            raise ValueError(f"index key {entry.key!r} is named as {types[entry.key].name} and as {found.name}")
    return types


def from_index_row(row: IndexRow, types: IndexKeyTypes) -> pb.IndexWrite:
    """Show what is indexed under a key."""
    type_ = types.get(row.key, IndexType.FULL_TEXT if row.is_text else IndexType.KEYWORD)
    value: object
    match type_:
        case IndexType.KEYWORD_ARRAY:
            value = row.values
        case IndexType.BOOL:
            value = bool(row.values[0])
        case _:
            value = row.values[0]
    return pb.IndexWrite(key=row.key, type=type_.value, value=msgspec.json.encode(value))


def _decoded(entry: pb.IndexWrite) -> IndexValue:
    try:
        return _decoder.decode(entry.value)
    except msgspec.DecodeError as error:
        raise ValueError(f"the value of index key {entry.key[:255]!r} is no JSON of an index value") from error


def _type_of(key: str, number: int) -> IndexType:
    fault = owned_name_fault(key, "index key")
    if fault is not None:
        raise ValueError(fault)
    if key in SYSTEM_FIELDS:
        raise ValueError(f"index key {key!r} is the name of a search field that every Flow has")
    found = _TYPES.get(number)
    if found is None:
        allowed = ", ".join(f"{member.value} ({member.name})" for member in IndexType)
        raise ValueError(f"index key {key!r} has the type {number}, allowed are {allowed}")
    return found


def _checked(key: str, number: int, value: IndexValue | None) -> IndexWrite:
    type_ = _type_of(key, number)
    # An array without elements has nothing to be found by, as if it were not set.
    if value is None or value == ():
        return IndexWrite(key, type_)
    if not _fits(type_, value):
        raise ValueError(f"index key {key!r} is {type_.name}, its value is {_shown(value)}")
    if isinstance(value, str):
        limit = FULL_TEXT_BYTES_MAX if type_ is IndexType.FULL_TEXT else KEYWORD_BYTES_MAX
        _check_size(f"{type_.name} index value of {key!r}", len(value.encode()), limit)
    elif isinstance(value, tuple):
        if len(value) > ARRAY_ELEMENTS_MAX:
            raise ValueError(f"index key {key!r} has {len(value)} elements, at most {ARRAY_ELEMENTS_MAX} are allowed")
        for element in value:
            _check_size(f"element of the index value of {key!r}", len(element.encode()), KEYWORD_BYTES_MAX)
    elif type_ is IndexType.DOUBLE:
        # Whole numbers are written without a point by some encoders.
        value = float(value)
    return IndexWrite(key, type_, value)


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise IndexValueTooLargeError(what, size, limit)


def _fits(type_: IndexType, value: IndexValue) -> bool:
    match type_:
        case IndexType.KEYWORD | IndexType.FULL_TEXT:
            return isinstance(value, str)
        case IndexType.KEYWORD_ARRAY:
            return isinstance(value, tuple)
        case IndexType.BOOL:
            return isinstance(value, bool)
        case IndexType.INT | IndexType.DATETIME:
            return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
        case IndexType.DOUBLE:
            return (
                isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1.7976931348623157e308
            )
        case _:
            assert_never(type_)


def _shown(value: Any) -> str:
    return (
        f"an array of {len(value)} texts"
        if isinstance(value, tuple)
        else f"the {type(value).__name__} {str(value)[:80]!r}"
    )
