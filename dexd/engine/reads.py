"""What clients read: decided state, revealed once everything that it rests on is committed [DUR-3].

State is read the moment it is asked for, and the answer waits in the current batch like a reply. So a read sees every
write that was acknowledged before it [RPC-10] and none that may still be lost.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog

from dexd.codec.flow_queries import (
    AttributeQuery,
    AttributeWaitQuery,
    FlowWaitQuery,
    HistoryQuery,
    MessagesQuery,
    RunKey,
    StepWaitQuery,
    WatchQuery,
)
from dexd.codec.live_state_view import LiveState, live_state
from dexd.codec.views import (
    AttributeView,
    AttributeWait,
    FlowSummary,
    FlowWait,
    HistoryEntry,
    HistoryPage,
    MessagePage,
    StepWait,
    end_of,
    message_page,
    summary_of_run,
)
from dexd.core.explain.blockers import Explanation
from dexd.core.explain.explanation import explain
from dexd.core.flow.decide_external import refuse_closed, refuse_unknown
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.kernel import Kernel
from dexd.core.rejections import Code, Rejection
from dexd.engine.growth import Growth
from dexd.engine.history import PAGE_BYTES_MAX, HistoryReader
from dexd.engine.ports import Abandon, Clock, OnAnswer
from dexd.engine.run_cache import RunCache
from dexd.engine.waits import Waits
from dexd.log.reading import LogPages

View = TypeVar("View")


class Decided(Protocol):
    """What the engine knows beyond the log."""

    @property
    def runs(self) -> RunCache:
        """Runs as they are decided."""
        ...

    @property
    def kernel(self) -> Kernel:
        """What matching knows of their calls."""
        ...

    @property
    def stopping(self) -> Rejection | None:
        """Why nobody may begin to wait any more, if so."""
        ...

    def reveal(self, on_answer: OnAnswer[Any], answer: Any) -> None:
        """Answer once everything decided so far is committed."""
        ...


class Reads:
    """All reads of one partition. Queries come checked from the codec."""

    __slots__ = ("_clock", "_decided", "_growth", "_history", "_pages", "_tasks", "_waits")

    def __init__(
        self, decided: Decided, pages: LogPages, history: HistoryReader, waits: Waits, growth: Growth, clock: Clock
    ) -> None:
        self._decided = decided
        self._pages = pages
        self._history = history
        self._waits = waits
        self._growth = growth
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        """Reads of the log that are under way."""

    def close(self) -> None:
        """Refuse what is still being read from the log."""
        for task in self._tasks:
            task.cancel()

    # ---- state ----

    def describe(self, key: RunKey, on_answer: OnAnswer[FlowSummary]) -> None:
        """Tell about the latest run, or the one named."""
        run = self._find(key)
        self._decided.reveal(on_answer, run if type(run) is Rejection else summary_of_run(run))

    def live_state(self, key: RunKey, on_answer: OnAnswer[LiveState]) -> None:
        """Tell everything that a decision about the run could read now, also of a closed one [HIST-1]."""
        run = self._find(key)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        else:
            self._decided.reveal(on_answer, live_state(run, self._decided.kernel.dispatcher))

    def explain(self, key: RunKey, on_answer: OnAnswer[Explanation]) -> None:
        """Tell why each active Step does not get on [HIST-6]."""
        run = self._find(key)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        else:
            self._decided.reveal(on_answer, explain(run, self._decided.kernel.dispatcher, now=self._clock.now()))

    def attribute(self, query: AttributeQuery, on_answer: OnAnswer[AttributeView]) -> None:
        """Tell an Attribute's value, also of a closed Flow [ATTR-5]."""
        run = self._find(query.key)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        else:
            self._decided.reveal(on_answer, AttributeView(run.attributes.get(query.name)))

    def messages(self, query: MessagesQuery, on_answer: OnAnswer[MessagePage]) -> None:
        """Tell a Channel's pending messages, also of a closed Flow [CHAN-9]."""
        run = self._find(query.key)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        else:
            page = message_page(run, query.channel, after=query.after, count_max=query.limit, bytes_max=PAGE_BYTES_MAX)
            self._decided.reveal(on_answer, page)

    def _find(self, key: RunKey) -> RunState | Rejection:
        if key.run_id is None:
            return self._decided.runs.latest_run(key.flow_id) or refuse_unknown(key.flow_id)
        run = self._decided.runs.run_by_id(key.run_id)
        if run is not None and run.flow_id == key.flow_id:
            return run
        return _refuse_run(key.flow_id, key.run_id)

    # ---- waits ----

    def wait_for_flow(self, query: FlowWaitQuery, on_answer: OnAnswer[FlowWait]) -> Abandon | None:
        """Answer when the execution that is latest now, or the one named, has ended [WAITAPI-1, WAITAPI-2].

        Returns:
            What withdraws the wait; None when it is answered without one.
        """
        run = self._find_execution(query)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        elif not run.is_open:
            self._decided.reveal(on_answer, FlowWait(run.run_id, end_of(run)))
        elif query.wait_ms == 0:
            self._decided.reveal(on_answer, FlowWait(run.run_id))
        elif self._decided.stopping is not None:
            on_answer(self._decided.stopping)
        else:
            return self._waits.for_flow(run, on_answer, until=self._clock.now() + query.wait_ms)
        return None

    def _find_execution(self, query: FlowWaitQuery) -> RunState | Rejection:
        """The last run of the execution. The first one, its name, may have been removed while others go on [KEEP-1]."""
        found = self._find(RunKey(query.flow_id, query.first_run_id))
        if type(found) is Rejection:
            first_run_id = query.first_run_id
            if first_run_id is None:
                return found
            return self._decided.runs.last_run_of_execution(query.flow_id, first_run_id) or found
        return self._decided.runs.last_run_from(found) or _refuse_run(found.flow_id, found.run_id)

    def wait_for_step(self, query: StepWaitQuery, on_answer: OnAnswer[StepWait]) -> Abandon | None:
        """Answer when a Step execution has ended, whether it is past, present or yet to come [WAITAPI-3].

        Needs an active Flow [WAITAPI-7]. Returns as `wait_for_flow` does.
        """
        run = self._find(RunKey(query.flow_id, None))
        step = query.step_execution_id
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        elif (refusal := refuse_closed(run)) is not None:
            self._decided.reveal(on_answer, refusal)
        elif run.is_past(step):
            self.read_later(partial(self._past_step, run, step), on_answer)
        elif query.wait_ms == 0:
            self._decided.reveal(on_answer, StepWait(None))
        elif self._decided.stopping is not None:
            on_answer(self._decided.stopping)
        else:
            return self._waits.for_step(run, step, on_answer, until=self._clock.now() + query.wait_ms)
        return None

    def wait_for_attribute(self, query: AttributeWaitQuery, on_answer: OnAnswer[AttributeWait]) -> Abandon | None:
        """Answer when an Attribute has a value that matches; it is tested at once and after every write [WAITAPI-5].

        Needs an active Flow [WAITAPI-7]. Returns as `wait_for_flow` does.
        """
        run = self._find(RunKey(query.flow_id, None))
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        elif (refusal := refuse_closed(run)) is not None:
            self._decided.reveal(on_answer, refusal)
        elif query.matches(value := run.attributes.get(query.name)):
            self._decided.reveal(on_answer, AttributeWait(value))
        elif query.wait_ms == 0:
            self._decided.reveal(on_answer, AttributeWait(None))
        elif self._decided.stopping is not None:
            on_answer(self._decided.stopping)
        else:
            until = self._clock.now() + query.wait_ms
            return self._waits.for_attribute(run, query.name, query.matches, on_answer, until=until)
        return None

    # ---- what only the log has ----

    def history(self, query: HistoryQuery, on_answer: OnAnswer[HistoryPage]) -> None:
        """Tell a page of a run's history [HIST-5]."""
        run = self._find(query.key)
        if type(run) is Rejection:
            self._decided.reveal(on_answer, run)
        else:
            self.read_later(partial(self._page_of, run, query.from_event_id, query.limit), on_answer)

    async def watch_history(self, query: WatchQuery) -> AsyncIterator[HistoryEntry | Rejection]:
        """Tell the history as it grows, until the run is closed, or with it its execution; a refusal is the last item.

        The event that closes the last run, with its status, is the last one of all [HIST-5].
        """
        key, version = query.key, query.from_event_id
        while True:
            run = self._find(key)
            if type(run) is Rejection:
                yield run
                return
            # Both are asked before the page is read, so that nothing committed in between is missed: the page of a run
            # that is closed now holds its end.
            grown, is_complete = self._growth.of(run.stream_id), not run.is_open
            page = await self._page(run, version, query.page_events)
            if type(page) is Rejection:
                yield page
                return
            for entry in page.entries:
                yield entry
            key, version = RunKey(run.flow_id, run.run_id), version + len(page.entries)
            if page.next_event_id:
                continue
            if is_complete and query.follow_runs and run.next_run_id:
                key, version = RunKey(run.flow_id, run.next_run_id), 1
                continue
            if is_complete:
                return
            if self._decided.stopping is not None:
                yield self._decided.stopping
                return
            await asyncio.shield(grown)

    async def _page(self, run: RunState, version: int, limit: int) -> HistoryPage | Rejection:
        answered: asyncio.Future[HistoryPage | Rejection] = asyncio.get_running_loop().create_future()
        self.read_later(partial(self._page_of, run, version, limit), partial(_resolve, answered))
        return await answered

    async def _page_of(self, run: RunState, version: int, limit: int) -> HistoryPage | Rejection:
        """[KEEP-3] A page, or NOT_FOUND if the run was removed since it was found."""
        page = await self._history.page(run.stream_id, version, limit)
        return page if page is not None else _refuse_run(run.flow_id, run.run_id)

    async def _past_step(self, run: RunState, step: StepExecutionId) -> StepWait | Rejection:
        streams: Sequence[int] = (run.stream_id,)
        if run.chain_id != run.run_id:
            streams = await self._pages.chain_streams(run.chain_id)
        while (outcome := await self._history.step_outcome(streams, step)) is None:
            streams = await self._streams_before_fork(run, streams[0])
            if not streams:
                message = f"{step} of Flow {run.flow_id!r} ended in a run that was deleted when its retention was over"
                return Rejection(Code.FLOW_NOT_FOUND, message, {"flow_id": run.flow_id, "step_execution_id": step})
        return StepWait(outcome)

    async def _streams_before_fork(self, run: RunState, stream_id: int) -> Sequence[int]:
        """Runs that led to the point at which the run of that stream was forked, oldest first; none if it was not."""
        forked = await self._history.fork_of(stream_id)
        rows = () if forked is None else await self._pages.run_rows(run.flow_id)
        for row in rows:
            if forked is not None and row.run_id == forked.from_run_id:
                streams = await self._pages.chain_streams(row.chain_id or row.run_id)
                return [stream for stream in streams if stream <= row.stream_id]
        return ()

    def read_later(self, read: Callable[[], Coroutine[Any, Any, View | Rejection]], on_answer: OnAnswer[View]) -> None:
        """Read the log off the loop, once everything decided so far is in it."""

        def begin(settled: Rejection | None) -> None:
            if type(settled) is Rejection:
                on_answer(settled)
                return
            task = asyncio.get_running_loop().create_task(read(), name="log_read")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_finish, on_answer))

        self._decided.reveal(begin, None)


def _refuse_run(flow_id: FlowId, run_id: RunId) -> Rejection:
    message = f"Flow {flow_id!r} has no run {run_id!r}"
    return Rejection(Code.FLOW_NOT_FOUND, message, {"flow_id": flow_id, "run_id": run_id})


def _resolve(future: "asyncio.Future[View | Rejection]", answer: View | Rejection) -> None:
    if not future.done():
        future.set_result(answer)


def _finish(on_answer: OnAnswer[View], task: asyncio.Task[View | Rejection]) -> None:
    if task.cancelled():
        on_answer(Rejection(Code.SHUTTING_DOWN, "the server is stopping"))
        return
    error = task.exception()
    if error is None:
        on_answer(task.result())
        return
    # Whatever it is concerns this reader only: the engine has what it needs in memory, and its own reads fail loudly.
    structlog.get_logger().error("log_read_failed", error=repr(error))
    on_answer(Rejection(Code.STORAGE_UNAVAILABLE, "the log cannot be read now"))
