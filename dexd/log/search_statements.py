"""Whole statements of searches, around the conditions of `search_sql` and the sources of `search_sources`."""

from collections.abc import Sequence

from dexd.log import queries
from dexd.log.search_sources import Source, ValueIndex, conjuncts, range_of, start_index, type_and_status
from dexd.log.search_sql import STEP_KEYS, Sql, after, condition, join, order
from dexd.search.evaluation import Position
from dexd.search.fields import FLOW_TYPE, START_TIME, STATUS, STEP_STATUS
from dexd.search.predicates import Always, CheckedQuery, Predicate, SortKey

_GROUPS = {STATUS.name: "runs.status", FLOW_TYPE.name: "runs.flow_type"}
_IN_INDEX_OF_TYPES = (FLOW_TYPE.name, STATUS.name)

IN_ANY_ORDER = "runs NOT INDEXED"
"""For `along`: all rows are looked at and sorted."""


def among(source: Source, predicate: Predicate, keys: Sequence[SortKey], position: Position | None, limit: int) -> Sql:
    """Positions of rows behind a position, in order, when a source has them: all that it gives is looked at."""
    where = Sql(f"runs.stream_id IN ({source.sql.text})", source.sql.parameters)
    return _page("runs NOT INDEXED", join(" AND ", [where, *_behind(keys, position)]), predicate, keys, limit)


def along(table: str, predicate: Predicate, keys: Sequence[SortKey], position: Position | None, limit: int) -> Sql:
    """The same when an index has the rows in order: it is looked at until enough are found."""
    return _page(table, join(" AND ", _behind(keys, position) or [Sql("1")]), predicate, keys, limit)


def one_type(predicate: Predicate, keys: Sequence[SortKey], position: Position | None) -> Sql:
    """Positions by start of the runs of one type and status, both of which are parameters behind those that it has.

    Of the predicate only conditions on the start count.
    """
    values, sorted_by = order(keys)
    started, _ = range_of(START_TIME, conjuncts(predicate))
    where = join(" AND ", [Sql("runs.superseded = 0"), *_behind(keys, position), *started])
    return join(
        " ",
        [
            _selected(values),
            Sql(f"FROM runs INDEXED BY runs_by_type WHERE {where.text}", where.parameters),
            Sql(f"AND runs.flow_type = ? AND runs.status = ? ORDER BY {sorted_by}"),
        ],
    )


def along_starts(predicate: Predicate, keys: Sequence[SortKey], position: Position | None, limit: int) -> Sql:
    """The same by start, along the index with the fewest others."""
    index, conditions = start_index(conjuncts(predicate))
    where = join(" AND ", [*_behind(keys, position), conditions])
    return _page(f"runs INDEXED BY {index}", where, predicate, keys, limit)


def next_value(index: ValueIndex, bound: Sql, skipped: int, *, is_descending: bool) -> Sql:
    """The value at a place of an index behind a bound."""
    part = index.ranged(bound)
    return Sql(
        f"SELECT {index.value} FROM {index.table} WHERE {part.condition.text} "
        f"ORDER BY {index.value}{' DESC' if is_descending else ''} LIMIT 1 OFFSET ?",
        (*part.condition.parameters, skipped),
    )


def size_up_to(source: Source, limit: int) -> Sql:
    """How many a source gives, counted no further than a limit."""
    return Sql(
        f"SELECT count(*) FROM (SELECT stream_id FROM ({source.sql.text}) LIMIT ?)", (*source.sql.parameters, limit)
    )


def size(source: Source) -> Sql:
    """How many executions an exact source gives."""
    counted = "DISTINCT stream_id" if source.may_repeat else "*"
    return Sql(f"SELECT count({counted}) FROM ({source.sql.text})", source.sql.parameters)


def total(query: CheckedQuery, source: Source | None) -> Sql:
    """How many rows are found, all of which a source gives, if there is one."""
    return join(" ", [Sql("SELECT count(*)"), _found(query, source)])


def groups(query: CheckedQuery, source: Source | None, group_by: str) -> Sql:
    """How many rows there are with each value of a field."""
    if group_by == STEP_STATUS.name:
        return _step_groups(query)
    column = _GROUPS[group_by]
    found = _found(query, source)
    # Pairs come in the order of the index.
    return Sql(
        f"SELECT {column}, sum(number) FROM (SELECT runs.flow_type, runs.status, count(*) AS number {found.text} "
        f"GROUP BY runs.flow_type, runs.status) AS runs GROUP BY {column}",
        found.parameters,
    )


def is_in_index_of_types(query: CheckedQuery) -> bool:
    """Whether one index has all that a query looks at."""
    return all(name in _IN_INDEX_OF_TYPES for name in query.fields)


def matching(query: CheckedQuery, source: Source | None) -> Sql:
    """Rows of all runs that are found, in order."""
    found = _found(query, source)
    values, sorted_by = order(query.order)
    columns = ", ".join(f"{value.text} AS v{i}" for i, value in enumerate(values))
    selected = tuple(parameter for value in values for parameter in value.parameters)
    return Sql(
        f"{queries.search.FOUND_ROWS} JOIN ("
        f"SELECT runs.stream_id AS found_id, row_number() OVER () AS number FROM ("
        f"SELECT runs.stream_id, {columns} {found.text} ORDER BY {sorted_by}) AS runs"
        ") AS found ON runs.stream_id = found.found_id ORDER BY found.number",
        (*selected, *found.parameters),
    )


# ---- parts ------------------------------------------------------------------------------------------------------


def _page(table: str, where: Sql, predicate: Predicate, keys: Sequence[SortKey], limit: int) -> Sql:
    """The latest runs of executions that the predicate finds, in order [SEARCH-7]."""
    values, sorted_by = order(keys)
    found = condition(predicate)
    return join(
        " ",
        [
            _selected(values),
            Sql(f"FROM {table} WHERE runs.superseded = 0 AND {where.text}", where.parameters),
            Sql(f"AND {found.text} ORDER BY {sorted_by} LIMIT ?", (*found.parameters, limit)),
        ],
    )


def _selected(values: Sequence[Sql]) -> Sql:
    columns = [Sql(f"{value.text} AS v{i}", value.parameters) for i, value in enumerate(values)]
    return join(" ", [Sql("SELECT"), join(", ", columns)])


def _behind(keys: Sequence[SortKey], position: Position | None) -> list[Sql]:
    """First among the conditions, because of two bounds of an index SQLite takes the one that it reads first."""
    return [] if position is None else [after(keys, order(keys)[0], position)]


def _found(query: CheckedQuery, source: Source | None) -> Sql:
    """What is found, from FROM to WHERE, in no order."""
    found = condition(query.predicate)
    if source is not None:
        where = Sql(f"runs.stream_id IN ({source.sql.text})", source.sql.parameters)
        return join(" AND ", [Sql("FROM runs NOT INDEXED WHERE runs.superseded = 0"), where, found])
    if is_in_index_of_types(query):
        where = join(" AND ", [Sql("runs.superseded = 0"), type_and_status(conjuncts(query.predicate)), found])
        return Sql(f"FROM runs INDEXED BY runs_by_type WHERE {where.text}", where.parameters)
    return Sql(f"FROM runs WHERE runs.superseded = 0 AND {found.text}", found.parameters)


def _step_groups(query: CheckedQuery) -> Sql:
    steps = "FROM index_values AS steps INDEXED BY index_values_by_value"
    key = STEP_KEYS[STEP_STATUS.name]
    if isinstance(query.predicate, Always):
        return Sql(f"SELECT steps.value, count(*) {steps} WHERE steps.key = ? GROUP BY steps.value", (key,))
    found = condition(query.predicate)
    return Sql(
        f"SELECT steps.value, count(*) {steps} CROSS JOIN runs ON runs.stream_id = steps.stream_id "
        f"WHERE steps.key = ? AND runs.superseded = 0 AND {found.text} GROUP BY steps.value",
        (key, *found.parameters),
    )
