"""Whole statements of searches, around the conditions of `search_sql`."""

from dexd.log import queries
from dexd.log.search_sql import STEP_KEYS, Sql, after, condition, order
from dexd.search.evaluation import Position
from dexd.search.fields import FLOW_TYPE, STATUS, STEP_STATUS
from dexd.search.predicates import CheckedQuery

_GROUPS = {STATUS.name: "runs.status", FLOW_TYPE.name: "runs.flow_type"}


def page(query: CheckedQuery, position: Position | None, limit: int) -> Sql:
    """Positions of the rows behind a position, in order."""
    found = _found(query)
    values, sorted_by = order(query.order)
    where, parameters = found.text, found.parameters
    if position is not None:
        rest = after(query.order, values, position)
        where, parameters = f"{where} AND {rest.text}", (*parameters, *rest.parameters)
    columns = ", ".join(f"{value.text} AS v{i}" for i, value in enumerate(values))
    selected = tuple(parameter for value in values for parameter in value.parameters)
    return Sql(
        f"SELECT {columns} FROM runs WHERE {where} ORDER BY {sorted_by} LIMIT ?", (*selected, *parameters, limit)
    )


def total(query: CheckedQuery) -> Sql:
    """How many rows are found."""
    found = _found(query)
    return Sql(f"SELECT count(*) FROM runs WHERE {found.text}", found.parameters)


def groups(query: CheckedQuery, group_by: str) -> Sql:
    """How many rows there are with each value of a field."""
    found = _found(query)
    if group_by == STEP_STATUS.name:
        return Sql(
            "SELECT steps.value, count(*) FROM runs JOIN index_values AS steps ON steps.stream_id = runs.stream_id "
            f"AND steps.key = ? WHERE {found.text} GROUP BY steps.value",
            (STEP_KEYS[group_by], *found.parameters),
        )
    column = _GROUPS[group_by]
    return Sql(f"SELECT {column}, count(*) FROM runs WHERE {found.text} GROUP BY {column}", found.parameters)


def matching(query: CheckedQuery) -> Sql:
    """Rows of all runs that are found, in order."""
    found = _found(query)
    values, sorted_by = order(query.order)
    columns = ", ".join(f"{value.text} AS v{i}" for i, value in enumerate(values))
    selected = tuple(parameter for value in values for parameter in value.parameters)
    return Sql(
        f"{queries.search.FOUND_ROWS} JOIN ("
        f"SELECT runs.stream_id AS found_id, row_number() OVER () AS number FROM ("
        f"SELECT runs.stream_id, {columns} FROM runs WHERE {found.text} ORDER BY {sorted_by}) AS runs"
        ") AS found ON runs.stream_id = found.found_id ORDER BY found.number",
        (*selected, *found.parameters),
    )


def _found(query: CheckedQuery) -> Sql:
    """The latest runs of executions that the query finds [SEARCH-7]."""
    found = condition(query.predicate)
    return Sql(f"runs.superseded = 0 AND {found.text}", found.parameters)
