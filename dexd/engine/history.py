"""Pages of a run's history, read off the loop and shown on it in small portions [HIST-5].

Showing a page needs the state that the events before it left behind. Clients page forwards, so the view of each page is
kept for the next one; only a jump into the middle folds again from the first event.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from dexd.codec.event_codec import from_stored
from dexd.codec.history_view import HistoryView
from dexd.codec.views import HistoryEntry, HistoryPage
from dexd.core.config import KernelConfig
from dexd.core.events import FlowContinued, FlowForked
from dexd.core.flow.carrying import from_carried
from dexd.core.flow.decide_roll_over import BEGINNING_EVENTS
from dexd.core.ids import StepExecutionId
from dexd.core.values import StepOutcome
from dexd.engine.recovery import PAGE_EVENTS
from dexd.engine.waits import OUTCOME_EVENTS, outcome_of
from dexd.log.event_log import StoredEvent
from dexd.log.reading import LogPages

PORTION_EVENTS = 64
"""Events folded or shown before the loop may do something else; about a millisecond."""

PAGE_BYTES_MAX = 4 * 1024 * 1024
"""JSON of a page; a single larger event makes a page of its own [HIST-5]."""

VIEWS_MAX = 32
"""Readers that page at the same time without folding again."""


class HistoryReader:
    """Reads histories for any number of readers at once."""

    __slots__ = ("_config", "_pages", "_views")

    def __init__(self, pages: LogPages, config: KernelConfig) -> None:
        self._pages = pages
        self._config = config
        self._views: OrderedDict[tuple[int, int], HistoryView] = OrderedDict()
        """Views by stream and the version that they show next."""

    async def page(self, stream_id: int, from_version: int, limit: int) -> HistoryPage | None:
        """Events from a version on, as many as the limits allow.

        None if the run was removed meanwhile: a page is told whole or not at all [KEEP-3].
        """
        view = await self._view_at(stream_id, from_version)
        events = await self._pages.history(stream_id, from_version, limit)
        if events is None:
            return None
        entries = await _show(view, events)
        next_version = from_version + len(entries)
        self._keep(stream_id, next_version, view)
        rest = await self._pages.history(stream_id, next_version, 1)
        return None if rest is None else HistoryPage(tuple(entries), next_version if rest else 0)

    async def step_outcome(self, streams: Sequence[int], step: StepExecutionId) -> StepOutcome | None:
        """How a Step execution that is not active any more ended, in one of the runs of a chain, oldest first.

        What a run began with says whether the Step had ended before it, so not every run needs to be read.
        """
        first, last = 0, len(streams) - 1
        while first < last:
            middle = (first + last + 1) // 2
            if await self._is_past_at_beginning(streams[middle], step):
                last = middle - 1
            else:
                first = middle
        return await self._outcome_in(streams[first], step)

    async def fork_of(self, stream_id: int) -> FlowForked | None:
        """How the run began, if it goes on from an earlier point of its execution [TT-1]."""
        second = await self._pages.history(stream_id, BEGINNING_EVENTS, 1)
        event = from_stored(second[0]).event if second else None
        return event if isinstance(event, FlowForked) else None

    async def _is_past_at_beginning(self, stream_id: int, step: StepExecutionId) -> bool:
        """Whether the Step execution had ended before the run, which continues another one."""
        continued = await self._pages.history(stream_id, BEGINNING_EVENTS, 1)
        if not continued:
            return False  # the run has just left the log
        event = from_stored(continued[0]).event
        assert isinstance(event, FlowContinued), "only the first run of a chain begins anew"
        return from_carried(event.carried).is_past(step)

    async def _outcome_in(self, stream_id: int, step: StepExecutionId) -> StepOutcome | None:
        async for stored in self._events(stream_id, 1):
            if stored.type in OUTCOME_EVENTS:
                event = from_stored(stored).event
                if getattr(event, "step_execution_id", None) == step and (outcome := outcome_of(event)) is not None:
                    return outcome
        return None

    async def _view_at(self, stream_id: int, version: int) -> HistoryView:
        view = self._views.pop((stream_id, version), None)
        if view is None:
            view = HistoryView(self._config)
            async for stored in self._events(stream_id, 1):
                if stored.version >= version:
                    break
                view.skip(from_stored(stored))
        return view

    async def _events(self, stream_id: int, version: int) -> AsyncIterator[StoredEvent]:
        """All events of a stream from a version on, with pauses for the loop."""
        while events := await self._pages.history(stream_id, version, PAGE_EVENTS):
            for number, stored in enumerate(events, start=1):
                yield stored
                if number % PORTION_EVENTS == 0:
                    await asyncio.sleep(0)
            version = events[-1].version + 1

    def _keep(self, stream_id: int, version: int, view: HistoryView) -> None:
        self._views[stream_id, version] = view
        if len(self._views) > VIEWS_MAX:
            self._views.popitem(last=False)


async def _show(view: HistoryView, events: Sequence[StoredEvent]) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    page_bytes = 0
    for number, stored in enumerate(events, start=1):
        entry = view.show(from_stored(stored))
        entries.append(entry)
        page_bytes += len(entry.data)
        if page_bytes >= PAGE_BYTES_MAX:
            break
        if number % PORTION_EVENTS == 0:
            await asyncio.sleep(0)
    return entries
