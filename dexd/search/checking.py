"""Syntax to a checked query: fields exist, literals fit them, operators mean something [SEARCH-3..6]."""

from difflib import get_close_matches
from operator import ge, gt, le, lt

from dexd.core.index_values import IndexKeyTypes
from dexd.search import syntax
from dexd.search.fields import EXPECTED, SYSTEM_FIELDS, Field, Kind, index_field
from dexd.search.instants import parse_instant
from dexd.search.parsing import parse
from dexd.search.patterns import is_like, literal_parts
from dexd.search.predicates import (
    DEFAULT_ORDER,
    All,
    Always,
    Any,
    CheckedQuery,
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
from dexd.search.syntax import Literal, Name, Operator, QueryError
from dexd.search.words import is_word_character, words_of

_ORDERS = {
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}


def check(text: str, index_keys: IndexKeyTypes) -> CheckedQuery:
    """Read a query and fit it to the fields there are.

    Args:
        text: The query.
        index_keys: Every index key that is known.

    Raises:
        QueryError: it is no query, names an unknown field, or compares what cannot be compared.
    """
    query = parse(text)
    checker = _Checker(index_keys)
    predicate: Predicate = Always() if query.condition is None else checker.condition(query.condition)
    order = tuple(checker.sort_key(term) for term in query.order)
    # A field that stands twice decides nothing the second time.
    distinct = {key.field.name: key for key in reversed(order)}
    sorted_by = tuple(key for key in order if distinct[key.field.name] is key)
    return CheckedQuery(text, predicate, sorted_by or DEFAULT_ORDER, tuple(checker.fields))


class _Checker:
    """Checks one query."""

    def __init__(self, index_keys: IndexKeyTypes) -> None:
        self._index_keys = index_keys
        self.fields: dict[str, None] = {}

    def condition(self, node: syntax.Condition) -> Predicate:
        match node:
            case syntax.Conjunction():
                return All(tuple(map(self.condition, node.operands)))
            case syntax.Disjunction():
                return Any(tuple(map(self.condition, node.operands)))
            case syntax.Negation():
                return Not(self.condition(node.operand))
            case syntax.Missing():
                return Not(Has(self._field(node.field)))
            case syntax.Among():
                return self._one_of(self._field(node.field), node.literals)
            case syntax.Like():
                return self._like(self._field(node.field), node.pattern)
            case syntax.Compared():
                return self._compared(self._field(node.field), node)

    def sort_key(self, term: syntax.OrderTerm) -> SortKey:
        field = self._field(term.field)
        if field.is_many or field.kind is Kind.WORDS:
            raise QueryError(term.field.position, f"{field.name} has no order; expected a field with one short value")
        return SortKey(field, term.is_descending)

    def _field(self, name: Name) -> Field:
        field = SYSTEM_FIELDS.get(name.text)
        if field is None:
            key_type = self._index_keys.get(name.text)
            if key_type is None:
                raise QueryError(name.position, self._unknown(name.text))
            field = index_field(name.text, key_type)
        self.fields[field.name] = None
        return field

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name[:255], [*SYSTEM_FIELDS, *self._index_keys], n=1)
        hint = f", did you mean {near[0]}?" if near else "."
        shown = repr(name if len(name) <= 255 else f"{name[:255]}...")
        return (
            f"there is no field {shown}{hint} Expected {', '.join(SYSTEM_FIELDS)}, or an index key that a worker or "
            "client has named; names are case-sensitive"
        )

    def _compared(self, field: Field, node: syntax.Compared) -> Predicate:
        if node.operator is Operator.EQUAL:
            return self._one_of(field, (node.literal,))
        if node.operator is Operator.NOT_EQUAL:
            return All((Has(field), Not(self._one_of(field, (node.literal,)))))
        position = node.field.position
        if field.is_many or field.kind in (Kind.WORDS, Kind.BOOL):
            raise QueryError(position, f"{field.name} has no order; expected =, !=, IN or IS NULL")
        if field.kind is Kind.INSTANT:
            return _compared_instant(field, node.operator, node.literal)
        value = _value(field, node.literal)
        if field.domain:
            holds = _ORDERS[node.operator]
            return OneOf(field, tuple(member for member in field.domain if holds(member, value)))
        return Compares(field, node.operator, value)

    def _one_of(self, field: Field, literals: tuple[Literal, ...]) -> Predicate:
        if field.kind is Kind.WORDS:
            texts = [HasWords(field, words_of(_text(field, literal))) for literal in literals]
            return texts[0] if len(texts) == 1 else Any(tuple(texts))
        if field.kind is Kind.INSTANT:
            instants = [_instant(field, literal) for literal in literals]
            return OneOf(field, tuple(units for units, is_exact in instants if is_exact))
        values = [_value(field, literal) for literal in literals]
        for literal, value in zip(literals, values, strict=True):
            if field.domain and value not in field.domain:
                raise QueryError(literal.position, f"{field.name} is never {value!r}; {_one_of_domain(field)}")
        return OneOf(field, tuple(values))

    def _like(self, field: Field, pattern: Literal) -> Predicate:
        parts = literal_parts(_text(field, pattern)) if field.kind in (Kind.TEXT, Kind.WORDS) else None
        if parts is None:
            raise QueryError(pattern.position, f"{field.name} is no text; expected =, !=, <, <=, >, >=, IN or IS NULL")
        if field.domain:
            return OneOf(field, tuple(member for member in field.domain if is_like(member, parts)))
        if field.kind is Kind.TEXT:
            return Matches(field, parts)
        prefix = words_of(parts[0])
        if len(parts) != 2 or parts[1] or len(prefix) != 1 or not all(map(is_word_character, parts[0])):
            raise QueryError(
                pattern.position, f"{field.name} is a full text; expected the beginning of one word and %, as 'abc%'"
            )
        return HasWords(field, (), prefix[0])


def _value(field: Field, literal: Literal) -> Scalar:
    value = literal.value
    match field.kind:
        case Kind.INT | Kind.DOUBLE:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.BOOL:
            fits = isinstance(value, bool)
        case _:
            fits = isinstance(value, str)
    if not fits:
        raise QueryError(literal.position, f"{field.name} is not compared with this; expected {EXPECTED[field.kind]}")
    return value


def _text(field: Field, literal: Literal) -> str:
    return str(_value(field, literal))


def _instant(field: Field, literal: Literal) -> tuple[int, bool]:
    found = parse_instant(_text(field, literal), field.fraction_digits)
    if found is None:
        raise QueryError(literal.position, f"this is no instant; expected {EXPECTED[field.kind]}")
    return found


def _compared_instant(field: Field, operator: Operator, literal: Literal) -> Predicate:
    units, is_exact = _instant(field, literal)
    if not is_exact:
        # Between two values that the field can have: smaller is at most the lower one, larger is above it.
        operator = Operator.LESS_OR_EQUAL if operator in (Operator.LESS, Operator.LESS_OR_EQUAL) else Operator.GREATER
    return Compares(field, operator, units)


def _one_of_domain(field: Field) -> str:
    return f"expected {', '.join(field.domain)}"
