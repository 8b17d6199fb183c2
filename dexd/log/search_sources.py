"""Which indexes know the executions that a checked query can find.

A source is a SELECT of stream IDs that reads one index from where its rows begin to where they end. It gives at least
what the predicate finds, maybe more, maybe one twice; conditions of `search_sql` then decide about each.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from dexd.core.values import FlowStatus
from dexd.log.search_sql import WORDS_MAX, Sql, end_of_prefix, index_key, join, match_words
from dexd.search import fields
from dexd.search.fields import Field, Kind
from dexd.search.predicates import All, Any, Compares, Has, HasWords, Matches, Not, OneOf, Predicate
from dexd.search.syntax import Operator

_T = TypeVar("_T")

UNITED_MAX = 50
"""Sources side by side in one; SQLite takes 500 SELECTs in a statement."""

TYPES = """
    WITH RECURSIVE types (flow_type) AS (
        SELECT min(flow_type) FROM runs INDEXED BY runs_by_type WHERE superseded = 0
        UNION ALL
        SELECT (
            SELECT min(runs.flow_type) FROM runs INDEXED BY runs_by_type
            WHERE runs.superseded = 0 AND runs.flow_type > types.flow_type
        )
        FROM types WHERE types.flow_type IS NOT NULL
    )
    SELECT flow_type FROM types WHERE flow_type IS NOT NULL
"""
"""The types there are; one step into the index for each, where DISTINCT would read all of it."""


class Source(msgspec.Struct, frozen=True):
    """Where the executions of a predicate are found."""

    sql: Sql
    is_exact: bool = False
    """Whether it gives nothing that the predicate does not find."""
    may_repeat: bool = False
    """Whether it may give one twice."""


class ValueIndex(msgspec.Struct, frozen=True):
    """An index that has the values of one field in order."""

    table: str
    value: str
    stream_id: str
    condition: Sql
    """What is true of the field's rows in it."""

    def ranged(self, *conditions: Sql) -> "ValueIndex":
        """The part of it in which conditions on the value are true.

        They come before older ones, because of two bounds SQLite takes the one that it reads first.
        """
        return msgspec.structs.replace(self, condition=join(" AND ", [*conditions, self.condition]))

    @property
    def streams(self) -> Sql:
        """A source of all its rows."""
        return Sql(
            f"SELECT {self.stream_id} AS stream_id FROM {self.table} WHERE {self.condition.text}",
            self.condition.parameters,
        )


_LATEST = "runs.superseded = 0"

_COLUMNS: Mapping[str, ValueIndex] = {
    field.name: ValueIndex(f"runs INDEXED BY {index}", f"runs.{column}", "runs.stream_id", Sql(condition))
    for field, index, column, condition in (
        (fields.FLOW_ID, "runs_by_flow", "flow_id", "1"),
        (fields.RUN_ID, "sqlite_autoindex_runs_1", "run_id", "1"),
        (fields.FLOW_TYPE, "runs_by_type", "flow_type", _LATEST),
        (fields.START_TIME, "runs_by_start_time", "started_at", _LATEST),
        (fields.CLOSE_TIME, "runs_closed", "closed_at", "runs.closed_at != 0"),
        (fields.PARENT_FLOW_ID, "runs_by_parent", "parent_flow_id", f"{_LATEST} AND runs.parent_flow_id != ''"),
        (fields.SCHEDULE_ID, "runs_by_schedule", "schedule_id", f"{_LATEST} AND runs.schedule_id != ''"),
    )
}
_WITH_SUPERSEDED = (fields.FLOW_ID, fields.RUN_ID, fields.CLOSE_TIME)
"""Fields whose indexes have runs that search does not show; values are removed when a run is superseded."""

_START_INDEXES = {
    fields.PARENT_FLOW_ID: ("runs_by_parent", "runs.parent_flow_id"),
    fields.SCHEDULE_ID: ("runs_by_schedule", "runs.schedule_id"),
}
_NOTHING = Source(Sql("SELECT 0 AS stream_id WHERE 0"), is_exact=True)
_WITH_ERROR = Sql(
    "SELECT runs.stream_id AS stream_id FROM runs INDEXED BY runs_with_error "
    "WHERE runs.superseded = 0 AND runs.last_error != ''"
)


def value_index(field: Field) -> ValueIndex | None:
    """The index of a field's values, if it has one."""
    if not field.is_index_key and field.name in _COLUMNS:
        return _COLUMNS[field.name]
    if field.kind is Kind.WORDS or field in (fields.STATUS, fields.LAST_ERROR):
        return None
    table = "index_values AS i INDEXED BY index_values_by_value"
    return ValueIndex(table, "i.value", "i.stream_id", Sql("i.key = ?", (index_key(field),)))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Predicates of which each is true where the one is."""
    if isinstance(predicate, All):
        return tuple(part for operand in predicate.operands for part in conjuncts(operand))
    if isinstance(predicate, Not):
        negated = predicate.operand
        if isinstance(negated, OneOf) and negated.field == fields.STATUS:
            # Every run has a status, so that it is one of the others.
            others = tuple(status.name for status in FlowStatus if status.name not in negated.values)
            return (OneOf(fields.STATUS, others),)
        if isinstance(negated, Not):
            return conjuncts(negated.operand)
        if isinstance(negated, Any):
            return tuple(part for operand in negated.operands for part in conjuncts(Not(operand)))
    return (predicate,)


def finds_nothing(parts: Sequence[Predicate]) -> bool:
    """Whether one conjunct, or two of type or status, are false of every run."""
    is_false = any(isinstance(part, OneOf) and not part.values for part in parts)
    return is_false or () in (statuses_of(parts), types_of(parts))


def range_of(field: Field, parts: Sequence[Predicate]) -> tuple[list[Sql], bool]:
    """What conjuncts say of a field's value in its index, and whether that is all that they say of it."""
    index = value_index(field)
    own = [part for part in parts if isinstance(part, OneOf | Compares | Matches) and part.field == field]
    if index is None:
        return [], not own
    for part in own:
        if isinstance(part, OneOf):
            # Alone, because SQLite may take a bound beside it instead.
            marks = "= ?" if len(part.values) == 1 else f"IN ({', '.join('?' * len(part.values))})"
            return [Sql(f"{index.value} {marks}", part.values)], len(own) == 1
    conditions: list[Sql] = []
    is_exact = True
    for part in own:
        if isinstance(part, Compares):
            conditions.append(Sql(f"{index.value} {Operator(part.operator).value} ?", (part.value,)))
        elif isinstance(part, Matches):
            conditions += _bounds(index.value, part.parts)
            is_exact = is_exact and (len(part.parts) == 1 or part.parts[1:] == ("",))
    return conditions, is_exact


def sources(predicate: Predicate) -> Iterator[Source]:
    """Each source that gives all that the predicate finds."""
    parts = conjuncts(predicate)
    if finds_nothing(parts):
        yield _NOTHING
        return
    named = {part.field: None for part in parts if isinstance(part, OneOf | Compares | Matches | Has)}
    for field in named:
        yield from _by_value(field, parts)
    for part in parts:
        if isinstance(part, HasWords):
            terms = match_words(part)
            if terms is not None:
                yield Source(terms, is_exact=len(parts) == 1 and len(part.words) <= WORDS_MAX)
        elif isinstance(part, Any):
            united = _united(part.operands)
            if united is not None:
                yield Source(united)
    yield from _by_type_and_status(parts)


def start_index(parts: Sequence[Predicate]) -> tuple[str, Sql]:
    """The index by start with the fewest runs that conjuncts leave out, and what is true of those in it."""
    for part in parts:
        if isinstance(part, OneOf) and len(part.values) == 1 and part.field in _START_INDEXES:
            index, column = _START_INDEXES[part.field]
            return index, Sql(f"{column} != '' AND {column} = ?", part.values)
    if any(isinstance(part, OneOf | Compares | Matches | Has) and part.field == fields.LAST_ERROR for part in parts):
        return "runs_with_error", Sql("runs.last_error != ''")
    return "runs_by_start_time", Sql("1")


def listed(stream_ids: Sequence[int]) -> Source:
    """A source of streams that are known."""
    return Source(Sql("SELECT value AS stream_id FROM json_each(?)", (msgspec.json.encode(stream_ids).decode(),)))


def exact_source(predicate: Predicate) -> Source | None:
    """A source that gives just what the predicate finds."""
    return next((source for source in sources(predicate) if source.is_exact), None)


def statuses_of(parts: Sequence[Predicate]) -> tuple[int, ...] | None:
    """Which statuses conjuncts leave; None if they say nothing of it."""
    return _common(
        [
            tuple(FlowStatus[str(value)].value for value in part.values)
            for part in parts
            if isinstance(part, OneOf) and part.field == fields.STATUS
        ]
    )


def types_of(parts: Sequence[Predicate]) -> tuple[str, ...] | None:
    """Which types conjuncts leave; None if they do not name them."""
    return _common(
        [tuple(map(str, part.values)) for part in parts if isinstance(part, OneOf) and part.field == fields.FLOW_TYPE]
    )


def type_and_status(parts: Sequence[Predicate]) -> Sql:
    """What conjuncts say of type and status, so that the index of both is read no further than where that is true."""
    types, _ = range_of(fields.FLOW_TYPE, parts)
    statuses = statuses_of(parts)
    if statuses is None:
        return join(" AND ", types or [Sql("1")])
    is_status = Sql(f"runs.status IN ({', '.join('?' * len(statuses))})", statuses)
    return join(" AND ", [*(types or [Sql(f"runs.flow_type IN ({TYPES})")]), is_status])


# ---- parts ------------------------------------------------------------------------------------------------------


def _by_value(field: Field, parts: Sequence[Predicate]) -> Iterator[Source]:
    if field == fields.LAST_ERROR:
        yield Source(_WITH_ERROR)
    index = value_index(field)
    if index is None:
        return
    own = [part for part in parts if isinstance(part, OneOf | Compares | Matches | Has) and part.field == field]
    # Two conditions on a field with many values may be true of different ones.
    for among in [[part] for part in own] if field.is_many else [own]:
        conditions, is_exact = range_of(field, among)
        if conditions or any(isinstance(part, Has) for part in among):
            is_all = len(among) == len(parts) and field not in _WITH_SUPERSEDED
            yield Source(index.ranged(*conditions).streams, is_exact and is_all, _may_repeat(field, among))


def _may_repeat(field: Field, among: Sequence[Predicate]) -> bool:
    """Of what Steps do each value stands once, of an array as often as it is in it."""
    is_one = all(isinstance(part, OneOf) and len(part.values) == 1 for part in among)
    return field.is_many and (field.is_index_key or not is_one)


def _by_type_and_status(parts: Sequence[Predicate]) -> Iterator[Source]:
    if statuses_of(parts) is not None:
        where = type_and_status(parts)
        yield Source(
            Sql(
                "SELECT runs.stream_id AS stream_id FROM runs INDEXED BY runs_by_type "
                f"WHERE runs.superseded = 0 AND {where.text}",
                where.parameters,
            )
        )


def _united(operands: Sequence[Predicate]) -> Sql | None:
    """A source of whatever one of several predicates finds."""
    values: dict[Field, tuple[object, ...]] = {}
    for operand in operands:
        if isinstance(operand, OneOf):
            values[operand.field] = values.get(operand.field, ()) + operand.values
    others = [operand for operand in operands if not isinstance(operand, OneOf)]
    one_of = [OneOf(field, found) for field, found in values.items()]  # type: ignore[arg-type]  # of that field
    found = [next(sources(operand), None) for operand in (*one_of, *others)]
    known = [source.sql for source in found if source is not None]
    if len(known) < len(found) or len(known) > UNITED_MAX:
        return None
    return join(" UNION ALL ", known)


def _bounds(value: str, parts: Sequence[str]) -> list[Sql]:
    """Where texts begin and end that are like a pattern."""
    prefix = parts[0]
    if len(parts) == 1:
        return [Sql(f"{value} = ?", (prefix,))]
    if not prefix:
        return []
    end = end_of_prefix(prefix)
    return [Sql(f"{value} >= ?", (prefix,)), *([] if end is None else [Sql(f"{value} < ?", (end,))])]


def _common(tuples: Sequence[tuple[_T, ...]]) -> tuple[_T, ...] | None:
    if not tuples:
        return None
    first, *rest = tuples
    return tuple(dict.fromkeys(value for value in first if all(value in other for other in rest)))
