"""JSON documents of the server as frozen dataclasses: fields by name, instants as datetimes, enums by value.

Fields that this release does not know are ignored, so that a newer server can say more.
"""

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dexsdk._durations import from_instant_ms

T = TypeVar("T")

Reader = Callable[[Any], Any]


def read_document(kind: type[T], data: bytes) -> T:
    """Read a JSON object as a dataclass."""
    hint: Any = kind
    document: T = _reader(hint)(msgspec.json.decode(data))
    return document


@cache
def _reader(hint: Any) -> Reader:
    """What turns JSON into a value of the hint; whatever has no meaning here stays as it is."""
    if hint is datetime:
        return from_instant_ms
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    if get_origin(hint) is types.UnionType:
        return _optional(_reader(next(part for part in get_args(hint) if part is not types.NoneType)))
    if get_origin(hint) is tuple:
        return _each(_reader(get_args(hint)[0]))
    return lambda value: value


def _dataclass_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}

    def read(value: dict[str, Any]) -> Any:
        return kind(**{name: reader(value[name]) for name, reader in readers.items() if name in value})

    return read


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _each(read: Reader) -> Reader:
    return lambda values: tuple(map(read, values))
