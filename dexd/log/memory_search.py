"""The searchable half of the log in memory: index rows, and searches that look at one row after the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import IndexKeyRow, IndexRow, IsOver, RunRow
from dexd.log.search_facts import facts_of
from dexd.search.evaluation import Facts, Position, comes_before, holds, position_of, sorted_positions
from dexd.search.predicates import CheckedQuery


class MemorySearch:
    """Index rows of runs, and what a query finds among runs."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, IndexRow]] = {}
        self.keys: IndexKeyTypes = {}

    def learn(self, keys: Iterable[IndexKeyRow]) -> None:
        """Keep the type of new keys."""
        for row in keys:
            self.keys.setdefault(row.key, IndexType(row.type))

    def keep(self, rows: Iterable[IndexRow]) -> None:
        """Put rows in place of those of the same runs and keys."""
        for row in rows:
            of_stream = self._rows.setdefault(row.stream_id, {})
            if row.values:
                of_stream[row.key] = row
            else:
                of_stream.pop(row.key, None)

    def forget(self, stream_id: int) -> None:
        """Another run goes on with the execution, or the run is gone."""
        self._rows.pop(stream_id, None)

    def rows_of(self, stream_id: int) -> Sequence[IndexRow]:
        """Rows of a run by key."""
        return [row for _, row in sorted(self._rows.get(stream_id, {}).items())]

    def positions(
        self, query: CheckedQuery, runs: Iterable[RunRow], after: Position | None, is_over: IsOver
    ) -> Sequence[Position]:
        """Where the runs stand that a query finds, in its order."""
        found = [position_of(query.order, facts, row.stream_id) for row, facts in self._found(query, runs, is_over)]
        if after is not None:
            found = [position for position in found if comes_before(query.order, after, position)]
        return sorted_positions(query.order, found)

    def count(self, query: CheckedQuery, group_by: str, runs: Iterable[RunRow], is_over: IsOver) -> Mapping[str, int]:
        """See EventLog.count."""
        groups = {"": 0}
        for _, facts in self._found(query, runs, is_over):
            value = facts.get(group_by, ())
            for member in ("", *(value if isinstance(value, tuple) else (str(value),))):
                groups[member] = groups.get(member, 0) + 1
        return groups

    def _found(self, query: CheckedQuery, runs: Iterable[RunRow], is_over: IsOver) -> Iterator[tuple[RunRow, Facts]]:
        for row in runs:
            if is_over():
                raise QueryTooSlowError("the search took too long")
            facts = facts_of(row, self.rows_of(row.stream_id), self.keys)
            if holds(query.predicate, facts):
                yield row, facts
