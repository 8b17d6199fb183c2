"""Pages of a run's history, read and shown off the loop [HIST-5].

Showing a page needs the state that the events before it left behind. Clients page forwards, so the view of each page is
kept for the next one; only a jump into the middle folds again from the first event.
"""

from collections import OrderedDict
from collections.abc import Iterable

from dexd.codec.event_codec import from_stored
from dexd.codec.history_view import HistoryView
from dexd.codec.views import HistoryEntry, HistoryPage
from dexd.core.config import KernelConfig
from dexd.core.ids import StepExecutionId
from dexd.core.values import StepOutcome
from dexd.engine.recovery import PAGE_EVENTS
from dexd.engine.waits import OUTCOME_EVENTS, outcome_of
from dexd.log.event_log import EventLog, StoredEvent

PAGE_BYTES_MAX = 4 * 1024 * 1024
"""JSON of a page; a single larger event makes a page of its own [HIST-5]."""

VIEWS_MAX = 32
"""Readers that page at the same time without folding again."""


class HistoryReader:
    """Reads histories; to be used from one thread at a time."""

    __slots__ = ("_config", "_log", "_views")

    def __init__(self, log: EventLog, config: KernelConfig) -> None:
        self._log = log
        self._config = config
        self._views: OrderedDict[tuple[int, int], HistoryView] = OrderedDict()
        """Views by stream and the version that they show next."""

    def page(self, stream_id: int, from_version: int, limit: int) -> HistoryPage:
        """Events from a version on, as many as the limits allow."""
        view = self._view_at(stream_id, from_version)
        events = self._log.read_stream(stream_id, from_version, limit + 1)
        entries = _show(view, events[:limit])
        next_version = from_version + len(entries)
        self._keep(stream_id, next_version, view)
        return HistoryPage(tuple(entries), next_version if len(entries) < len(events) else 0)

    def step_outcome(self, stream_id: int, step: StepExecutionId) -> StepOutcome | None:
        """How a Step execution that is not active any more ended."""
        version = 1
        while events := self._log.read_stream(stream_id, version, PAGE_EVENTS, OUTCOME_EVENTS):
            for stored in events:
                event = from_stored(stored).event
                if getattr(event, "step_execution_id", None) == step and (outcome := outcome_of(event)) is not None:
                    return outcome
            version = events[-1].version + 1
        return None

    def _view_at(self, stream_id: int, version: int) -> HistoryView:
        view = self._views.pop((stream_id, version), None)
        if view is None:
            view = HistoryView(self._config)
            at = 1
            while at < version and (events := self._log.read_stream(stream_id, at, min(PAGE_EVENTS, version - at))):
                for stored in events:
                    view.skip(from_stored(stored))
                at = events[-1].version + 1
        return view

    def _keep(self, stream_id: int, version: int, view: HistoryView) -> None:
        self._views[stream_id, version] = view
        if len(self._views) > VIEWS_MAX:
            self._views.popitem(last=False)


def _show(view: HistoryView, events: Iterable[StoredEvent]) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    page_bytes = 0
    for stored in events:
        entry = view.show(from_stored(stored))
        entries.append(entry)
        page_bytes += len(entry.data)
        if page_bytes >= PAGE_BYTES_MAX:
            break
    return entries
