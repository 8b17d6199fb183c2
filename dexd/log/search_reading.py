"""Searches in the log in SQLite; each sees one committed state of it."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dexd.core.values import FlowStatus
from dexd.log import queries, search_statements
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import FOUND_BYTES_MAX, FoundPage, FoundRun, IndexRow, IsOver, ListedRun, RunRow
from dexd.log.search_facts import texts_bytes
from dexd.log.search_paging import Finder
from dexd.log.search_sources import exact_source
from dexd.log.search_sql import STEP_KEYS
from dexd.search.evaluation import Position
from dexd.search.fields import STATUS
from dexd.search.predicates import CheckedQuery

STEPS_BETWEEN_LOOKS = 20_000
"""Instructions of SQLite after which a search asks whether its time is over; less than a millisecond."""

_RUN_COLUMNS = len(RunRow.__struct_fields__)


def search(
    connection: sqlite3.Connection, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver
) -> FoundPage:
    """See EventLog.search."""
    with _one_state(connection, is_over):
        wanted = Finder(connection, is_over).page(query.predicate, query.order, after, limit + 1)
        found: list[FoundRun] = []
        room = FOUND_BYTES_MAX
        for position in wanted[:limit]:
            run = _found_run(connection, position)
            room -= texts_bytes(run)
            if found and room < 0:
                break
            found.append(run)
        return FoundPage(found, len(found) < len(wanted))


def count(connection: sqlite3.Connection, query: CheckedQuery, group_by: str, is_over: IsOver) -> Mapping[str, int]:
    """See EventLog.count."""
    with _one_state(connection, is_over):
        finder = Finder(connection, is_over)
        source = None if search_statements.is_in_index_of_types(query) else finder.few(query.predicate)
        exact = exact_source(query.predicate)
        total = search_statements.total(query, source) if exact is None else search_statements.size(exact)
        ((found,),) = finder.rows(total)
        groups = finder.rows(search_statements.groups(query, source, group_by)) if group_by else []
    if group_by == STATUS.name:
        groups = [(FlowStatus(status).name, number) for status, number in groups]
    return {"": found, **dict(groups)}


def matching(connection: sqlite3.Connection, query: CheckedQuery, is_over: IsOver) -> Sequence[RunRow]:
    """See EventLog.matching."""
    with _one_state(connection, is_over):
        finder = Finder(connection, is_over)
        statement = search_statements.matching(query, finder.few(query.predicate))
        return [RunRow(*row) for row in finder.rows(statement)]


def index_rows(connection: sqlite3.Connection, stream_id: int) -> list[IndexRow]:
    """See EventLog.index_rows."""
    values: dict[tuple[str, bool], list[str | int | float]] = {}
    for key, value, is_text, _ in connection.execute(queries.search.INDEX_ROWS, {"stream_id": stream_id}):
        values.setdefault((key, bool(is_text)), []).append(value)
    return [IndexRow(stream_id, key, tuple(found), is_text) for (key, is_text), found in values.items()]


def _found_run(connection: sqlite3.Connection, position: Position) -> FoundRun:
    stream_id = position[-1]
    assert isinstance(stream_id, int)
    row = connection.execute(queries.search.FOUND_RUN, (stream_id,)).fetchone()
    listed = ListedRun(RunRow(*row[:_RUN_COLUMNS]), *row[_RUN_COLUMNS:])
    indexed = [entry for entry in index_rows(connection, stream_id) if entry.key not in STEP_KEYS.values()]
    return FoundRun(listed, indexed, position)


@contextmanager
def _one_state(connection: sqlite3.Connection, is_over: IsOver) -> Iterator[None]:
    """Read in one transaction, and give up when it is over."""
    connection.set_progress_handler(is_over, STEPS_BETWEEN_LOOKS)
    try:
        connection.execute(queries.transactions.BEGIN_READING)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)
            connection.execute(queries.transactions.COMMIT)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise QueryTooSlowError("the search took too long") from error
        raise
