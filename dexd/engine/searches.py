"""Searches over all Flows, as strong as any read: what was acknowledged before is seen [SEARCH-7]."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from dexd.codec.search_requests import CountQuery, FlowsCounted, FlowsFound, SearchQuery, refuse_query
from dexd.core.flow.state import RunState
from dexd.core.index_values import IndexKeyTypes
from dexd.core.rejections import Code, Rejection
from dexd.engine.batch import row_of
from dexd.engine.ports import OnAnswer
from dexd.engine.search_rows import SearchRows, index_rows, step_rows
from dexd.engine.system import stopwatch_ms
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import IsOver, RunRow
from dexd.log.reading import LogPages
from dexd.log.search_facts import facts_of
from dexd.search.checking import check
from dexd.search.evaluation import holds
from dexd.search.predicates import CheckedQuery
from dexd.search.syntax import QueryError

QUERY_MS_MAX = 5_000
"""Time of one search, from the moment it has a thread [SEARCH-9]."""

Found = TypeVar("Found")
ReadLater = Callable[[Callable[[], Coroutine[Any, Any, Any]], OnAnswer[Any]], None]
"""Reads the log off the loop once everything decided so far is in it; see `Reads`."""


class Searched(Protocol):
    """What the engine does for searches."""

    @property
    def search_rows(self) -> SearchRows:
        """What search reads of runs."""
        ...

    def announce(self, named: IndexKeyTypes) -> Rejection | None:
        """Keep the types of these index keys, or refuse them all."""
        ...

    def settle_steps(self) -> Rejection | None:
        """Have what Steps do written with the open batch, or tell why that cannot be."""
        ...


class Searches:
    """Finds and counts Flows. Queries come read from the codec, and are checked against the keys known now."""

    __slots__ = ("_pages", "_read_later", "_searched")

    def __init__(self, searched: Searched, pages: LogPages, read_later: ReadLater) -> None:
        self._searched = searched
        self._pages = pages
        self._read_later = read_later

    def search(self, query: SearchQuery, on_answer: OnAnswer[FlowsFound]) -> None:
        """Tell a page of what a query finds."""
        checked = self._checked(query.text, query.index_keys)
        if isinstance(checked, Rejection):
            on_answer(checked)
        else:
            self._read_later(partial(self._search, checked, query), on_answer)

    def count(self, query: CountQuery, on_answer: OnAnswer[FlowsCounted]) -> None:
        """Tell how many a query finds."""
        checked = self._checked(query.text, query.index_keys, is_volatile=query.group_by == "StepStatus")
        if isinstance(checked, Rejection):
            on_answer(checked)
        else:
            self._read_later(partial(self._count, checked, query), on_answer)

    def matching(self, text: str, on_answer: OnAnswer[Sequence[RunRow]]) -> None:
        """Tell the latest runs of all executions that a query finds at this instant, in its order [BATCH-3].

        A hundred bytes for each; nothing of them is locked or kept.
        """
        checked = self._checked(text, {})
        if isinstance(checked, Rejection):
            on_answer(checked)
        else:
            self._read_later(partial(self._in_time, partial(self._pages.matching, checked)), on_answer)

    def matches(self, text: str, run: RunState) -> bool | Rejection:
        """Whether a query finds the execution of this run, its latest, as it is decided now; asks no log [BATCH-3]."""
        rows = self._searched.search_rows
        try:
            checked = check(text, rows.keys.types)
        except QueryError as error:
            return refuse_query(error)
        types = rows.keys.types
        indexed = (*index_rows(run, types), *(row for row in step_rows(run, rows.default_mode) if row.values))
        return holds(checked.predicate, facts_of(row_of(run), indexed, types))

    def _checked(self, text: str, named: IndexKeyTypes, *, is_volatile: bool = False) -> CheckedQuery | Rejection:
        refused = self._searched.announce(named)
        if refused is not None:
            return refused
        try:
            checked = check(text, self._searched.search_rows.keys.types)
        except QueryError as error:
            return refuse_query(error)
        if checked.is_volatile or is_volatile:
            refused = self._searched.settle_steps()
        return refused or checked

    async def _search(self, checked: CheckedQuery, query: SearchQuery) -> FlowsFound | Rejection:
        page = await self._in_time(partial(self._pages.search, checked, query.after, query.limit))
        if isinstance(page, Rejection):
            return page
        return FlowsFound(page, self._searched.search_rows.keys.types)

    async def _count(self, checked: CheckedQuery, query: CountQuery) -> FlowsCounted | Rejection:
        counts = await self._in_time(partial(self._pages.count, checked, query.group_by))
        if isinstance(counts, Rejection):
            return counts
        groups = dict(counts)
        return FlowsCounted(groups.pop(""), groups)

    async def _in_time(self, read: Callable[[IsOver], Coroutine[Any, Any, Found]]) -> Found | Rejection:
        deadline: list[float] = []

        def is_over() -> bool:
            # Asked for the first time where the search begins: waiting for a thread does not count.
            now = stopwatch_ms()
            if not deadline:
                deadline.append(now + QUERY_MS_MAX)
            return now >= deadline[0]

        try:
            return await read(is_over)
        except QueryTooSlowError:
            return Rejection(
                Code.QUERY_TOO_SLOW, f"the search took longer than {QUERY_MS_MAX} ms", {"limit_ms": str(QUERY_MS_MAX)}
            )
