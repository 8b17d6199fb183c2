"""Checked queries as parameterised SQL [SEARCH-6].

What a user wrote stands in parameters only. Every expression is 0 or 1 and never NULL, so that NOT means what it says
[SEARCH-4]. Chains of AND and OR are nested in groups, the deepest operand first, because SQLite's parser and its
expression trees have small limits and a query may have thousands of comparisons side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import assert_never

import msgspec

from dexd.core.values import FlowStatus
from dexd.search import fields
from dexd.search.evaluation import Position
from dexd.search.fields import Field, Kind
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
from dexd.search.words import indexed_word

IS_LIKE = "is_like"
"""SQL function of two arguments, value and pattern, for the values that GLOB cannot see to their end."""

GROUP_MAX = 12
"""Operands side by side in one expression."""

WORDS_MAX = 16
"""Words that the full-text index is asked for at once."""

STEP_KEYS: Mapping[str, str] = {
    fields.STEP_STATUS.name: f"sys:{fields.STEP_STATUS.name}",
    fields.ACTIVE_STEP_TYPES.name: f"sys:{fields.ACTIVE_STEP_TYPES.name}",
}
"""Keys under which what Steps do stands among the index values."""

_COLUMNS: Mapping[str, str] = {
    fields.FLOW_ID.name: "runs.flow_id",
    fields.RUN_ID.name: "runs.run_id",
    fields.FLOW_TYPE.name: "runs.flow_type",
    fields.STATUS.name: "runs.status",
    fields.START_TIME.name: "runs.started_at",
    fields.CLOSE_TIME.name: "runs.closed_at",
    fields.PARENT_FLOW_ID.name: "runs.parent_flow_id",
    fields.SCHEDULE_ID.name: "runs.schedule_id",
    fields.LAST_ERROR.name: "runs.last_error",
}
_EMPTY: Mapping[str, str] = {
    fields.CLOSE_TIME.name: "0",
    fields.PARENT_FLOW_ID.name: "''",
    fields.SCHEDULE_ID.name: "''",
    fields.LAST_ERROR.name: "''",
}
"""What a column has instead of a value."""

_STATUS_NAME = (
    "CASE runs.status " + " ".join(f"WHEN {status.value} THEN '{status.name}'" for status in FlowStatus) + " END"
)
_HIGHEST = "\U0010ffff"


class Sql(msgspec.Struct, frozen=True):
    """A piece of SQL and the parameters of its question marks."""

    text: str
    parameters: tuple[object, ...] = ()
    depth: int = 0
    """How deep groups stand in it."""


# As parameters, because SQLite finds no way along an index that is named when it sees that nothing will be found.
_TRUE = Sql("?", (1,))
_FALSE = Sql("?", (0,))


def condition(predicate: Predicate) -> Sql:
    """Whether a row of `runs` is found."""
    match predicate:
        case Always():
            return _TRUE
        case Has():
            return _has(predicate.field)
        case OneOf():
            return _one_of(predicate)
        case Compares():
            return _compares(predicate)
        case Matches():
            return _matches(predicate)
        case HasWords():
            return _has_words(predicate)
        case Not():
            operand = condition(predicate.operand)
            return Sql(f"NOT ({operand.text})", operand.parameters, operand.depth + 1)
        case All():
            return _chain("AND", tuple(map(condition, predicate.operands)))
        case Any():
            return _chain("OR", tuple(map(condition, predicate.operands)))
        case _:
            assert_never(predicate)


def order(keys: Sequence[SortKey]) -> tuple[Sequence[Sql], str]:
    """What to sort by.

    Returns:
        One expression for each value of a position, and the ORDER BY list that sorts by them as v0, v1, ...
    """
    values = [_sorted_value(key.field) for key in keys]
    values += [Sql("runs.flow_id"), Sql("runs.stream_id")]
    terms: list[str] = []
    for i, (key, value) in enumerate(zip(keys, values, strict=False)):
        # Plain columns in their own order are what indexes have.
        terms += [] if _is_plain(key.field) else [f"v{i} IS NULL"]
        terms.append(f"{value.text if _is_plain(key.field) else f'v{i}'}{' DESC' if key.is_descending else ''}")
    return values, ", ".join([*terms, "runs.flow_id", "runs.stream_id"])


def after(keys: Sequence[SortKey], values: Sequence[Sql], position: Position) -> Sql:
    """Whether a row stands behind a position."""
    directions = [*(key.is_descending for key in keys), False, False]
    operands: list[Sql] = []
    equal: list[Sql] = []
    for value, known, is_descending in zip(values, position, directions, strict=True):
        behind = _behind(value, known, is_descending=is_descending)
        if behind is not None:
            operands.append(join(" AND ", [*equal, behind]))
        equal.append(Sql(f"{value.text} IS ?", (*value.parameters, known)))
    is_after = join(" OR ", [Sql(f"({operand.text})", operand.parameters) for operand in operands])
    is_after = Sql(f"({is_after.text})", is_after.parameters)
    if not keys or _is_plain(keys[0].field):
        # Implied, and what an index can begin at.
        bound = "<=" if directions[0] else ">="
        return join(" AND ", [Sql(f"{values[0].text} {bound} ?", (position[0],)), is_after])
    return is_after


def match_words(predicate: HasWords) -> Sql | None:
    """The streams whose texts have the first words, as the full-text index knows; None if there are no words."""
    terms = [f'"{indexed_word(word)}"' for word in predicate.words[:WORDS_MAX]]
    if predicate.prefix:
        terms.append(f'"{indexed_word(predicate.prefix)}"*')
    if not terms:
        return None
    return Sql(
        "SELECT i.stream_id AS stream_id FROM index_words CROSS JOIN index_texts AS i "
        "ON i.text_id = index_words.rowid WHERE index_words MATCH ? AND i.key = ?",
        (" ".join(terms), index_key(predicate.field)),
    )


def index_key(field: Field) -> str:
    """Under which key its values stand among the index values."""
    return field.name if field.is_index_key else STEP_KEYS[field.name]


def end_of_prefix(prefix: str) -> str | None:
    """The smallest text behind all that begin with the prefix; None if there is none."""
    kept = prefix.rstrip(_HIGHEST)
    if not kept:
        return None
    # Surrogates are no characters of UTF-8.
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


def join(separator: str, pieces: Sequence[Sql], *, wrap: bool = False) -> Sql:
    """Put pieces side by side, with their parameters in the same order."""
    text = separator.join(piece.text for piece in pieces)
    parameters = tuple(parameter for piece in pieces for parameter in piece.parameters)
    return Sql(f"({text})" if wrap else text, parameters)


def register(create_function: Callable[..., object]) -> None:
    """Give a connection the function that conditions call; `create_function` is the connection's own."""
    create_function(IS_LIKE, 2, _is_like, deterministic=True)


# ---- parts ------------------------------------------------------------------------------------------------------


def _has(field: Field) -> Sql:
    column = _COLUMNS.get(field.name) if not field.is_index_key else None
    if column is not None:
        empty = _EMPTY.get(field.name)
        return _TRUE if empty is None else Sql(f"{column} != {empty}")
    table = "index_texts" if field.kind is Kind.WORDS else "index_values"
    return Sql(
        f"EXISTS (SELECT 1 FROM {table} AS i WHERE i.stream_id = runs.stream_id AND i.key = ?)", (index_key(field),)
    )


def _one_of(predicate: OneOf) -> Sql:
    field, values = predicate.field, predicate.values
    if not values:
        return _FALSE
    if field.name == fields.STATUS.name and not field.is_index_key:
        values = tuple(FlowStatus[str(value)].value for value in values)
    marks = f"= {'?'}" if len(values) == 1 else f"IN ({', '.join('?' * len(values))})"
    return _compared(field, marks, values)


def _compares(predicate: Compares) -> Sql:
    operator = Operator(predicate.operator).value
    return _compared(predicate.field, f"{operator} ?", (predicate.value,))


def _compared(field: Field, comparison: str, values: Sequence[Scalar]) -> Sql:
    if not field.is_index_key and field.name in _COLUMNS:
        text = f"{_COLUMNS[field.name]} {comparison}"
        empty = _EMPTY.get(field.name)
        return Sql(text if empty is None else f"({text} AND {_COLUMNS[field.name]} != {empty})", tuple(values))
    return _found_value(field, f"+i.value {comparison}", values)


def _found_value(field: Field, text: str, values: Sequence[object]) -> Sql:
    # Looked up for the one run. With a bare value SQLite might read the index of all values instead.
    found = f"EXISTS (SELECT 1 FROM index_values AS i WHERE i.stream_id = runs.stream_id AND i.key = ? AND {text})"
    return Sql(found, (index_key(field), *values))


def _matches(predicate: Matches) -> Sql:
    field = predicate.field
    if not field.is_index_key and field.name in _COLUMNS:
        like = _like(_COLUMNS[field.name], predicate.parts, may_have_nul=field.name == fields.LAST_ERROR.name)
        return join(" AND ", [like, _has(field)], wrap=True) if field.name in _EMPTY else like
    like = _like("+i.value", predicate.parts, may_have_nul=field.is_index_key)
    return _found_value(field, like.text, like.parameters)


def _like(value: str, parts: Sequence[str], *, may_have_nul: bool) -> Sql:
    if len(parts) == 1:
        return Sql(f"{value} = ?", (parts[0],))
    # GLOB sees texts as C does, up to the first NUL.
    has_nul = any("\0" in part for part in parts)
    glob = _FALSE if has_nul else Sql(f"{value} GLOB ?", ("*".join(map(_glob_literal, parts)),))
    if may_have_nul:
        pattern = msgspec.json.encode(parts).decode()
        glob = Sql(
            f"CASE WHEN instr({value}, char(0)) THEN {IS_LIKE}({value}, ?) ELSE {glob.text} END",
            (pattern, *glob.parameters),
        )
    prefix = parts[0]
    if not prefix:
        return Sql(f"({glob.text})", glob.parameters)
    # Implied, and what an index can begin and end at.
    end = end_of_prefix(prefix)
    bounds = Sql(f"{value} >= ?", (prefix,)) if end is None else Sql(f"{value} >= ? AND {value} < ?", (prefix, end))
    return Sql(f"({bounds.text} AND {glob.text})", (*bounds.parameters, *glob.parameters))


def _glob_literal(text: str) -> str:
    return text.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")


def _has_words(predicate: HasWords) -> Sql:
    # In the index words are letters and digits with single spaces between them.
    terms = [f" {indexed_word(word)} " for word in predicate.words]
    if predicate.prefix:
        terms.append(f" {indexed_word(predicate.prefix)}")
    return Sql(
        "EXISTS (SELECT 1 FROM index_texts AS i WHERE i.stream_id = runs.stream_id AND i.key = ? AND NOT EXISTS "
        "(SELECT 1 FROM json_each(?) AS term WHERE NOT instr(' ' || i.words || ' ', term.value)))",
        (index_key(predicate.field), msgspec.json.encode(terms).decode()),
    )


def _sorted_value(field: Field) -> Sql:
    if field.is_index_key:
        return Sql(
            "(SELECT i.value FROM index_values AS i WHERE i.stream_id = runs.stream_id AND i.key = ? "
            "AND i.position = 0)",
            (field.name,),
        )
    if field.name == fields.STATUS.name:
        return Sql(_STATUS_NAME)
    column, empty = _COLUMNS[field.name], _EMPTY.get(field.name)
    return Sql(column if empty is None else f"nullif({column}, {empty})")


def _is_plain(field: Field) -> bool:
    """Whether its order is that of a column which has a value in every row."""
    is_column = not field.is_index_key and field.name in _COLUMNS
    return is_column and field.name not in _EMPTY and field != fields.STATUS


def _behind(value: Sql, known: Scalar | None, *, is_descending: bool) -> Sql | None:
    """Rows without a value are last, so nothing is behind one without."""
    if known is None:
        return None
    operator = "<" if is_descending else ">"
    text = f"({value.text} {operator} ? OR {value.text} IS NULL)"
    return Sql(text, (*value.parameters, known, *value.parameters))


def _chain(operator: str, operands: Sequence[Sql]) -> Sql:
    if len(operands) > GROUP_MAX:
        size = GROUP_MAX
        while len(operands) > size * GROUP_MAX:
            size *= GROUP_MAX
        groups = [_chain(operator, operands[i : i + size]) for i in range(0, len(operands), size)]
        return _chain(operator, groups)
    if len(operands) == 1:
        return operands[0]
    # The parser keeps what stands before a bracket on its stack until the bracket closes.
    deepest_first = sorted(operands, key=lambda operand: -operand.depth)
    joined = join(f" {operator} ", deepest_first)
    return Sql(f"({joined.text})", joined.parameters, deepest_first[0].depth + 1)


def _is_like(value: str, pattern: str) -> bool:
    return is_like(value, _parts(pattern))


@lru_cache(maxsize=64)
def _parts(pattern: str) -> tuple[str, ...]:
    return msgspec.json.decode(pattern, type=tuple[str, ...])
