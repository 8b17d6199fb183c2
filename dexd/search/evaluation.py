"""What a checked query says of one row: the meaning of the language, in plain values [SEARCH-4, SEARCH-5]."""

from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from operator import ge, gt, le, lt
from typing import TypeAlias, assert_never

from dexd.search.fields import FLOW_ID, Field
from dexd.search.patterns import is_like
from dexd.search.predicates import (
    All,
    Always,
    Any,
    Compares,
    Has,
    HasWords,
    Matches,
    Not,
    OneOf,
    Predicate,
    Scalar,
    SortKey,
)
from dexd.search.syntax import Operator
from dexd.search.words import words_of

Facts: TypeAlias = Mapping[str, Scalar | tuple[str, ...]]
"""Values of a row by field name; a field without a value is not in it, one with many has a tuple of them."""

Position: TypeAlias = tuple[Scalar | None, ...]
"""Where a row stands in an order: its values of the sort keys, None for a missing one, its Flow ID, its stream."""

_ORDERS = {
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}


def holds(predicate: Predicate, facts: Facts) -> bool:
    """Whether the row is found."""
    match predicate:
        case Always():
            return True
        case Has():
            return bool(_values(predicate.field, facts))
        case OneOf():
            return any(value in predicate.values for value in _values(predicate.field, facts))
        case Compares():
            compare = _ORDERS[predicate.operator]
            return any(compare(value, predicate.value) for value in _values(predicate.field, facts))
        case Matches():
            return any(is_like(str(value), predicate.parts) for value in _values(predicate.field, facts))
        case HasWords():
            return any(_has_words(str(value), predicate) for value in _values(predicate.field, facts))
        case Not():
            return not holds(predicate.operand, facts)
        case All():
            return all(holds(operand, facts) for operand in predicate.operands)
        case Any():
            return any(holds(operand, facts) for operand in predicate.operands)
        case _:
            assert_never(predicate)


def position_of(order: Sequence[SortKey], facts: Facts, stream_id: int) -> Position:
    """Where the row stands."""
    return (*(_sorted_value(key.field, facts) for key in order), _sorted_value(FLOW_ID, facts), stream_id)


def comes_before(order: Sequence[SortKey], first: Position, second: Position) -> bool:
    """Whether the one stands before the other [SEARCH-7]."""
    return _compare(order, first, second) < 0


def sorted_positions(order: Sequence[SortKey], positions: Sequence[Position]) -> list[Position]:
    """Put positions in order."""

    def compare(first: Position, second: Position) -> int:
        return _compare(order, first, second)

    return sorted(positions, key=cmp_to_key(compare))


def _compare(order: Sequence[SortKey], first: Position, second: Position) -> int:
    directions = (*(key.is_descending for key in order), False, False)
    for is_descending, one, other in zip(directions, first, second, strict=True):
        if one is None or other is None:
            if (one is None) != (other is None):
                return 1 if one is None else -1
        elif one != other:
            is_less = one < other  # type: ignore[operator]  # values of one field are of one type
            return -1 if is_less != is_descending else 1
    return 0


def _values(field: Field, facts: Facts) -> Sequence[Scalar]:
    value = facts.get(field.name)
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _sorted_value(field: Field, facts: Facts) -> Scalar | None:
    value = facts.get(field.name)
    assert not isinstance(value, tuple), "fields with many values are no sort keys"
    return value


def _has_words(text: str, predicate: HasWords) -> bool:
    words = words_of(text)
    if any(word not in words for word in predicate.words):
        return False
    return not predicate.prefix or any(word.startswith(predicate.prefix) for word in words)
