"""Index values of Attributes: which a definition may have, and what a Python value gives [ATTR-9, LIM-2]."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, get_args, get_origin

from dexpb.v1 import frames
from dexsdk._call import Definition
from dexsdk._names import owned_name_fault
from dexsdk.attribute import Attribute, AttributeMap
from dexsdk.attribute_index import AttributeIndex, IndexType
from dexsdk.errors import FlowDefinitionError, ValueTooLargeError

IndexValue: TypeAlias = str | int | float | bool | tuple[str, ...]

KEYWORD_BYTES_MAX = 4 * 1024
FULL_TEXT_BYTES_MAX = 1024 * 1024
ARRAY_ELEMENTS_MAX = 1_000

SYSTEM_FIELDS = frozenset(
    {
        "FlowId",
        "RunId",
        "FlowType",
        "Status",
        "StartTime",
        "CloseTime",
        "ParentFlowId",
        "ScheduleId",
        "ActiveStepTypes",
        "StepStatus",
        "LastError",
    }
)
"""Search fields that every Flow has, which no index key may hide [SEARCH-3]."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = {
    IndexType.KEYWORD: frames.INDEX_KEYWORD,
    IndexType.FULL_TEXT: frames.INDEX_FULL_TEXT,
    IndexType.KEYWORD_ARRAY: frames.INDEX_KEYWORD_ARRAY,
    IndexType.INT: frames.INDEX_INT,
    IndexType.DOUBLE: frames.INDEX_DOUBLE,
    IndexType.BOOL: frames.INDEX_BOOL,
    IndexType.DATETIME: frames.INDEX_DATETIME,
}
INDEX_TYPES: Mapping[int, IndexType] = {number: member for member, number in _NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class Indexing:
    """How a registered Attribute is indexed."""

    key: str
    type: IndexType
    convert: Callable[[Any], IndexValue]

    @property
    def announced(self) -> frames.IndexKey:
        """The key as it travels."""
        return frames.IndexKey(self.key, _NUMBERS[self.type])

    def write(self, value: Any, place: str) -> frames.IndexWrite:
        """Give the index value of a value that is written, which fits its annotation; None deletes.

        Raises:
            ValueTooLargeError: it is larger than an index value may be [LIM-3].
        """
        if value is None:
            return frames.IndexWrite(self.key, _NUMBERS[self.type])
        converted = self.convert(value)
        if isinstance(converted, str):
            limit = FULL_TEXT_BYTES_MAX if self.type is IndexType.FULL_TEXT else KEYWORD_BYTES_MAX
            self._check(place, converted, limit)
        elif isinstance(converted, tuple):
            if len(converted) > ARRAY_ELEMENTS_MAX:
                what = f"{self.type.name} index value"
                raise ValueTooLargeError.of(what, place, len(converted), ARRAY_ELEMENTS_MAX)
            for element in converted:
                self._check(place, element, KEYWORD_BYTES_MAX)
        return frames.IndexWrite(self.key, _NUMBERS[self.type], converted)

    def _check(self, place: str, text: str, limit: int) -> None:
        size = len(text.encode())
        if size > limit:
            raise ValueTooLargeError.of(f"{self.type.name} index value", place, size, limit)


def indexing_of(definition: Definition) -> Indexing | None:
    """Give how a definition is indexed; None if it is not.

    Raises:
        FlowDefinitionError: the index does not fit the Attribute.
    """
    if not isinstance(definition, Attribute | AttributeMap) or definition.index is None:
        return None
    index = definition.index
    given: Any = index
    if not isinstance(given, AttributeIndex) or not isinstance(given.type, IndexType):
        raise FlowDefinitionError(f"its index is {index!r}, an AttributeIndex with an IndexType is needed")
    if isinstance(definition, AttributeMap) and not index.index_key:
        raise FlowDefinitionError("an AttributeMap must name the index_key that all its instances write")
    key = index.index_key or definition.name
    fault = owned_name_fault(key, "index key")
    if fault is not None:
        raise FlowDefinitionError(fault)
    if key in SYSTEM_FIELDS:
        raise FlowDefinitionError(f"index key {key!r} is the name of a search field that every Flow has")
    convert = _converter(index.type, definition.value_type)
    if convert is None:
        shown = getattr(definition.value_type, "__name__", str(definition.value_type))
        raise FlowDefinitionError(f"a {index.type.name} index needs {_NEEDED[index.type]}, its values are {shown}")
    return Indexing(key, index.type, convert)


_NEEDED = {
    IndexType.KEYWORD: "values of str or an enum",
    IndexType.FULL_TEXT: "values of str",
    IndexType.KEYWORD_ARRAY: "values of list[str]",
    IndexType.INT: "values of int",
    IndexType.DOUBLE: "values of float or int",
    IndexType.BOOL: "values of bool",
    IndexType.DATETIME: "values of datetime",
}
_PLAIN: Mapping[tuple[IndexType, Any], Callable[[Any], IndexValue]] = {
    (IndexType.KEYWORD, str): str,
    (IndexType.FULL_TEXT, str): str,
    (IndexType.INT, int): int,
    (IndexType.DOUBLE, float): float,
    (IndexType.DOUBLE, int): float,
    (IndexType.BOOL, bool): bool,
}


def _converter(index_type: IndexType, value_type: Any) -> Callable[[Any], IndexValue] | None:
    plain = _PLAIN.get((index_type, value_type)) if isinstance(value_type, type) else None
    if plain is not None:
        return plain
    if index_type is IndexType.KEYWORD and _is_enum(value_type):
        return _enum_text
    if index_type is IndexType.DATETIME and value_type is datetime:
        return _microseconds
    if index_type is IndexType.KEYWORD_ARRAY and get_origin(value_type) in (list, tuple, set, frozenset):
        element, *others = get_args(value_type)
        if element is str and others in ([], [...]):
            return _sorted_texts if get_origin(value_type) in (set, frozenset) else tuple
        if _is_enum(element) and others in ([], [...]):
            return _enum_texts
    return None


def _is_enum(value_type: Any) -> bool:
    return isinstance(value_type, type) and issubclass(value_type, enum.Enum)


def _enum_text(member: enum.Enum) -> str:
    return str(member.value)


def _enum_texts(members: Any) -> tuple[str, ...]:
    return tuple(sorted(map(_enum_text, members)) if isinstance(members, set | frozenset) else map(_enum_text, members))


def _sorted_texts(texts: Any) -> tuple[str, ...]:
    return tuple(sorted(texts))


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(number: int) -> datetime:
    """Give the datetime of a DATETIME index value."""
    return _EPOCH + timedelta(microseconds=number)
