"""Finds one page of a search by the cheapest of several ways.

SQLite does not know how many executions a condition finds. Here each index is asked first, which stops at a few ten
thousand. What an index knows to be few is read as a whole and sorted. Otherwise rows are read in their order, until
enough are found.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice, product
from typing import Any

import msgspec

from dexd.core.values import FlowStatus
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import IsOver
from dexd.log.search_sources import (
    TYPES,
    Source,
    ValueIndex,
    conjuncts,
    finds_nothing,
    listed,
    range_of,
    sources,
    statuses_of,
    types_of,
    value_index,
)
from dexd.log.search_sql import Sql
from dexd.log.search_statements import (
    IN_ANY_ORDER,
    along,
    along_starts,
    among,
    next_value,
    one_type,
    size_up_to,
)
from dexd.search import fields
from dexd.search.evaluation import Position
from dexd.search.fields import Field
from dexd.search.predicates import All, Always, Compares, Has, Matches, Not, OneOf, Predicate, Scalar, SortKey
from dexd.search.syntax import Operator


class Bounds(msgspec.Struct, frozen=True):
    """Where one way becomes cheaper than another."""

    few: int = 20_000
    """So many executions are looked at one by one in well below 100 ms."""
    counted_max: int = 60_000
    """Beyond it sources give much, and it does not matter how much."""
    detour: int = 4
    """How many rows are passed in order while one of a source is looked up."""
    sources_max: int = 12
    """Sources that are asked how much they give."""
    passed_max: int = 60_000
    """Rows that are read in an order in which they do not lie, until all are read as they lie and sorted."""
    pairs_max: int = 500
    """Pairs of a type and a status that are followed one by one."""
    block_max: int = 4_096
    """Rows that are read at once of an index that has values in order."""


BOUNDS = Bounds()

_STATUSES = tuple(status.value for status in FlowStatus)
_START_TIME_SERVES = (fields.FLOW_TYPE, fields.STATUS, fields.START_TIME)


class _TooFarError(Exception):
    """The page would be cheaper if everything was looked at."""


class Finder:
    """One search, in one transaction."""

    __slots__ = ("_bounds", "_connection", "_is_over", "_left", "_runs", "_sizes")

    def __init__(self, connection: sqlite3.Connection, is_over: IsOver, bounds: Bounds = BOUNDS) -> None:
        self._bounds = bounds
        self._connection = connection
        self._is_over = is_over
        self._sizes: dict[Sql, int] = {}
        self._left = bounds.passed_max
        ((self._runs,),) = self.rows(Sql("SELECT coalesce(max(stream_id), 1) FROM runs"))

    def rows(self, statement: Sql) -> list[Any]:
        """Execute a statement.

        Raises:
            QueryTooSlowError: the search is over.
        """
        # Short statements do not live to see the connection's own look.
        if self._is_over():
            raise QueryTooSlowError("the search took too long")
        return self._connection.execute(statement.text, statement.parameters).fetchall()

    def page(self, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int) -> list[Position]:
        """Where the first rows stand that are found behind a position, in order."""
        try:
            return self._ordered(predicate, keys, after, limit)
        except _TooFarError:
            source = self.few(predicate)
        if source is not None:
            return self.rows(among(source, predicate, keys, after, limit))
        return self.rows(along(IN_ANY_ORDER, predicate, keys, after, limit))

    def few(self, predicate: Predicate) -> Source | None:
        """The source that gives least of what the predicate finds, unless all give much."""
        source, size = self._smallest(self._sizes_of(predicate))
        return source if size < self._bounds.counted_max else None

    def _sizes_of(self, predicate: Predicate) -> list[tuple[Source, int]]:
        return [(source, self._size(source)) for source in islice(sources(predicate), self._bounds.sources_max)]

    def _smallest(self, sizes: Sequence[tuple[Source, int]]) -> tuple[Source | None, int]:
        return min(sizes, key=lambda one: one[1], default=(None, self._bounds.counted_max))

    def _size(self, source: Source) -> int:
        size = self._sizes.get(source.sql)
        if size is None:
            ((size,),) = self.rows(size_up_to(source, self._bounds.counted_max))
            self._sizes[source.sql] = size
        return size

    def _source(self, predicate: Predicate, keys: Sequence[SortKey], limit: int) -> Source | None:
        """The source that is better than the order, if there is one."""
        if keys and keys[0].field == fields.START_TIME and _is_served(predicate):
            return None
        sizes = self._sizes_of(predicate)
        source, smallest = self._smallest(sizes)
        if smallest <= self._bounds.few:
            return source
        if smallest == self._bounds.counted_max:
            return None
        # How far to go for enough, if conditions have nothing to do with each other.
        distance = float(limit)
        for _, size in sizes:
            distance *= max(1.0, self._runs / size)
        return source if smallest * self._bounds.detour < distance else None

    def _ordered(
        self, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> list[Position]:
        if finds_nothing(conjuncts(predicate)):
            return []
        source = self._source(predicate, keys, limit)
        if source is not None:
            return self.rows(among(source, predicate, keys, after, limit))
        first = keys[0].field if keys else fields.FLOW_ID
        if first == fields.START_TIME:
            return self._by_start_time(predicate, keys, after, limit)
        if first in (fields.FLOW_ID, fields.RUN_ID):
            return self._by_id(first, predicate, keys, after, limit)
        return list(islice(self._by_value(predicate, keys, after, limit), limit))

    def _by_id(
        self, field: Field, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> list[Position]:
        index = value_index(field)
        assert index is not None, "IDs are indexed"
        is_descending = bool(keys) and keys[0].is_descending
        bound = Sql("1") if after is None else _from(index, str(after[0]), is_descending=is_descending)
        ahead = self.rows(next_value(index, bound, self._left, is_descending=is_descending))
        if not ahead:
            return self.rows(along(index.table, predicate, keys, after, limit))
        end = Compares(field, Operator.GREATER if is_descending else Operator.LESS, ahead[0][0])
        found = self.rows(along(index.table, All((predicate, end)), keys, after, limit))
        if len(found) < limit:
            raise _TooFarError
        return found

    def _pass(self, rows: int) -> None:
        """Note that so many rows have been read in an order in which they do not lie."""
        self._left -= rows
        if self._left < 0:
            raise _TooFarError

    def _by_start_time(
        self, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> list[Position]:
        parts = conjuncts(predicate)
        types, statuses = types_of(parts), statuses_of(parts)
        if len(keys) == 1 and (types is not None or statuses is not None):
            if types is None:
                types = tuple(name for (name,) in self.rows(Sql(TYPES)))
            pairs = list(product(types, statuses or _STATUSES))
            if len(pairs) <= self._bounds.pairs_max:
                return list(islice(self._merged(pairs, predicate, keys, after, limit), limit))
        return self.rows(along_starts(predicate, keys, after, limit))

    def _merged(
        self,
        pairs: Sequence[tuple[str, int]],
        predicate: Predicate,
        keys: Sequence[SortKey],
        after: Position | None,
        limit: int,
    ) -> Iterator[Position]:
        """Runs of each type and status are in the order of their start; each is read as far as the page goes."""
        one = one_type(predicate, keys, after)
        legs = [self._connection.execute(one.text, (*one.parameters, *pair)) for pair in pairs]
        sign = -1 if keys[0].is_descending else 1
        merged: Iterator[Any] = merge(*legs, key=lambda position: (sign * position[0], *position[1:]))
        try:
            if _is_served(predicate):
                yield from merged
            block = limit
            while positions := list(islice(merged, block)):
                yield from self.rows(among(listed([one[-1] for one in positions]), predicate, keys, None, limit))
                block = min(2 * block, max(limit, self._bounds.block_max))
        finally:
            for leg in legs:
                leg.close()

    def _by_value(
        self, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> Iterator[Position]:
        """Values in order, then what has none; in each group of equal values the order that is left."""
        field = keys[0].field
        known = None if after is None else after[0]
        wanted = limit
        parts = conjuncts(predicate)
        if (after is None or known is not None) and Not(Has(field)) not in parts:
            index = value_index(field)
            if field == fields.STATUS:
                found = self._by_status(predicate, keys, after, limit)
            elif index is None:
                source = next(sources(Has(field)))
                found = iter(self.rows(among(source, predicate, keys, after, limit)))
            else:
                found = self._by_indexed_value(index, predicate, keys, after, limit)
            for position in found:
                wanted -= 1
                yield position
        if wanted > 0 and not _has_value(field, parts):
            missing = All((predicate, Not(Has(field))))
            rest = after[1:] if after is not None and known is None else None
            for position in self._ordered(missing, keys[1:], rest, wanted):
                yield (None, *position)

    def _by_status(
        self, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> Iterator[Position]:
        possible = statuses_of(conjuncts(predicate)) or tuple(status.value for status in FlowStatus)
        names = sorted((FlowStatus(number).name for number in possible), reverse=keys[0].is_descending)
        if after is not None:
            names = names[names.index(str(after[0])) :] if after[0] in names else []
        for name in names:
            rest = after[1:] if after is not None and name == after[0] else None
            yield from self._group(predicate, keys, name, rest, limit)

    def _by_indexed_value(
        self, index: ValueIndex, predicate: Predicate, keys: Sequence[SortKey], after: Position | None, limit: int
    ) -> Iterator[Position]:
        """In blocks of few values each; a value that many have has a block of its own."""
        key = keys[0]
        conditions, _ = range_of(key.field, conjuncts(predicate))
        index = index.ranged(*conditions)
        bound = Sql("1")
        if after is not None and after[0] is not None:
            yield from self._group(predicate, keys, after[0], after[1:], limit)
            bound = _beyond(index, after[0], is_descending=key.is_descending)
        block = limit
        while (first := self._value(index, bound, 0, key)) is not None:
            ahead = self._value(index, bound, block, key)
            if ahead == first:
                yield from self._group(predicate, keys, first, None, limit)
                bound = _beyond(index, first, is_descending=key.is_descending)
            else:
                end = Sql("1") if ahead is None else _beyond(index, ahead, is_descending=not key.is_descending)
                self._pass(block)
                part = Source(index.ranged(bound, end).streams)
                yield from self.rows(among(part, predicate, keys, None, limit))
                if ahead is None:
                    return
                bound = _from(index, ahead, is_descending=key.is_descending)
            block = min(2 * block, max(limit, self._bounds.block_max))

    def _value(self, index: ValueIndex, bound: Sql, skipped: int, key: SortKey) -> Scalar | None:
        rows = self.rows(next_value(index, bound, skipped, is_descending=key.is_descending))
        return rows[0][0] if rows else None

    def _group(
        self, predicate: Predicate, keys: Sequence[SortKey], value: Scalar, after: Position | None, limit: int
    ) -> Iterator[Position]:
        same = All((predicate, OneOf(keys[0].field, (value,))))
        for position in self._ordered(same, keys[1:], after, limit):
            yield (value, *position)


def _is_served(predicate: Predicate) -> bool:
    """Whether nothing has to be passed over on the way along the starts."""
    for part in conjuncts(predicate):
        if isinstance(part, Always):
            continue
        if not isinstance(part, OneOf | Compares) or part.field not in _START_TIME_SERVES:
            return False
        if isinstance(part, OneOf) == (part.field == fields.START_TIME):
            return False
    return True


def _has_value(field: Field, parts: Sequence[Predicate]) -> bool:
    """Whether conjuncts are only true of what has a value of the field."""
    return field in (fields.STATUS, fields.FLOW_TYPE) or any(
        isinstance(part, OneOf | Compares | Matches | Has) and part.field == field for part in parts
    )


def _beyond(index: ValueIndex, value: Scalar, *, is_descending: bool) -> Sql:
    return Sql(f"{index.value} {'<' if is_descending else '>'} ?", (value,))


def _from(index: ValueIndex, value: Scalar, *, is_descending: bool) -> Sql:
    return Sql(f"{index.value} {'<=' if is_descending else '>='} ?", (value,))
