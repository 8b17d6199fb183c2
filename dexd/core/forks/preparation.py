"""How a fork is prepared: what to read of the log, in which order, and what comes of it. No IO: it asks for events.

It is a generator that yields which events it wants next and is sent them, so that the shell can read off the event loop
and pause between portions, and tests can do without a log.
"""

from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.forks.external_writes import RunWrites, writes_after
from dexd.core.forks.plan import ForkPlan, ForkPoint, fork_point, last_request, refuse_excess
from dexd.core.forks.search import StepSearch, TimeSearch
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, RunId, StreamId
from dexd.core.outcome import RecordedEvent
from dexd.core.rejections import Code, Rejection

T = TypeVar("T")
_EPOCH = datetime.fromtimestamp(0, UTC)


class Want(NamedTuple):
    """Events of a stream from a version on, as many as suit the reader; none at all says that there are no more."""

    stream_id: StreamId
    version: int


Reading: TypeAlias = Generator[Want, Sequence[RecordedEvent], T]


class RetainedRun(NamedTuple):
    """A run of the execution that is in the log."""

    run_id: RunId
    stream_id: StreamId


class ForkPreparation:
    """Prepares one fork. `plan` comes first; `plan_again` follows a run that grew meanwhile."""

    def __init__(
        self,
        flow_id: FlowId,
        execution_id: RunId,
        runs: Sequence[RetainedRun],
        selector: Selector,
        new_run_id: RunId,
        *,
        is_dropping_writes: bool,
    ) -> None:
        """Prepare nothing yet.

        Args:
            flow_id: Whose execution it is.
            execution_id: Its first run, retained or not.
            runs: Its retained runs, newest first; there is at least one.
            selector: The point.
            new_run_id: What the forked run will be called.
            is_dropping_writes: External writes after the point are not applied again [TT-5].
        """
        self._flow_id = flow_id
        self._runs = runs
        self._is_whole = runs[-1].run_id == execution_id
        self._selector = selector
        self._new_run_id = new_run_id
        self._is_dropping_writes = is_dropping_writes
        self._point: ForkPoint | None = None
        self._writes: list[RunWrites] = []
        """Of the run of the point and all newer ones, oldest first."""
        self._newest: RunState | None = None
        """The newest run as far as it was read."""

    @property
    def newest_run_id(self) -> RunId:
        """The run that the new one would follow."""
        return self._runs[0].run_id

    def plan(self) -> Reading[ForkPlan | Rejection]:
        """Find the point, restore its state and collect what came from outside after it."""
        self._newest = None
        found = yield from self._search()
        if found is None:
            return (yield from self._refuse())
        stream_id, version = found
        runs = list(self._runs[: 1 + [run.stream_id for run in self._runs].index(StreamId(stream_id))])
        origin = runs[-1]
        self._writes = [RunWrites(run.run_id, after=version if run is origin else 0) for run in reversed(runs)]
        self._point = yield from self._restore(origin, version)
        if self._is_dropping_writes:
            if self._selector.type is TimeTravelType.STEP_TYPE:
                yield from self._follow_newest(None)
        else:
            for run, writes in zip(reversed(runs[1:]), self._writes, strict=False):
                yield from _each(run, 1, writes.look_at)
            yield from self._follow_newest(self._writes[-1])
        return self._planned()

    def plan_again(self) -> Reading[ForkPlan | Rejection]:
        """Read what the newest run has got since; the selector may name another execution of a Step now."""
        if self._selector.type is TimeTravelType.STEP_TYPE:
            return (yield from self.plan())
        yield from self._follow_newest(self._writes[-1])
        return self._planned()

    def _planned(self) -> ForkPlan | Rejection:
        assert self._point is not None, "the point is found before it is planned"
        writes = () if self._is_dropping_writes else tuple(writes_after(self._point.event_id, self._writes))
        newest, step_type = self._newest, self._selector.step_type
        is_by_type = self._selector.type is TimeTravelType.STEP_TYPE
        plan = ForkPlan(
            self._runs[0].run_id,
            None if newest is None else last_request(newest),
            (step_type, newest.counters.get(step_type, 0)) if is_by_type and newest is not None else None,
            self._point,
            writes,
            self._is_dropping_writes,
        )
        return refuse_excess(self._flow_id, plan) or plan

    # ---- the point ----

    def _search(self) -> Reading[tuple[int, int] | None]:
        kind = self._selector.type
        if kind is TimeTravelType.BEGINNING:
            return (yield from self._look_into(TimeSearch(0), self._runs[-1:] if self._is_whole else ()))
        if kind is TimeTravelType.HISTORY_EVENT_TIME:
            return (yield from self._search_instant(self._selector.at))
        return (yield from self._look_into(StepSearch(self._selector), self._runs))

    def _search_instant(self, at: int) -> Reading[tuple[int, int] | None]:
        """Look into the newest run that began before the instant, then into newer ones.

        An instant before all of them names the start of the execution, unless that is not retained any more.
        """
        newer: list[RetainedRun] = []
        for run in self._runs:
            newer.insert(0, run)
            begun_at = yield from _begun_at(run)
            if begun_at < at:
                return (yield from self._look_into(TimeSearch(at), newer))
        return (yield from self._look_into(TimeSearch(at), newer)) if self._is_whole else None

    def _look_into(
        self, search: TimeSearch | StepSearch, runs: Sequence[RetainedRun]
    ) -> Reading[tuple[int, int] | None]:
        for run in runs:
            yield from _each(run, 1, search.look_at)
            found = search.end_of_run()
            if found is not None:
                return found
        return None

    def _refuse(self) -> Reading[Rejection]:
        oldest = yield from _begun_at(self._runs[-1])
        fields = {"flow_id": self._flow_id, "oldest_reachable_at": str(oldest)}
        message = (
            f"no retained run of Flow {self._flow_id!r} has the point that the time travel names; the oldest reachable "
            f"instant is {_shown(oldest)}"
        )
        return Rejection(Code.TIME_TRAVEL_POINT_NOT_FOUND, message, fields)

    # ---- what follows from it ----

    def _restore(self, run: RetainedRun, version: int) -> Reading[ForkPoint]:
        state: RunState | None = None

        def fold(recorded: RecordedEvent) -> bool:
            nonlocal state
            state = evolve(state, recorded)
            return recorded.version == version

        yield from _each(run, 1, fold)
        assert state is not None, "the point is in the log"
        return fork_point(state, self._new_run_id)

    def _follow_newest(self, writes: RunWrites | None) -> Reading[None]:
        def follow(recorded: RecordedEvent) -> None:
            self._newest = evolve(self._newest, recorded)
            if writes is not None:
                writes.look_at(recorded)

        yield from _each(self._runs[0], 1 if self._newest is None else self._newest.version + 1, follow)


def _each(run: RetainedRun, version: int, see: Callable[[RecordedEvent], Any]) -> Reading[None]:
    """Show the events of a run from a version on, until that says true."""
    while page := (yield Want(run.stream_id, version)):
        for recorded in page:
            if see(recorded):
                return
        version = page[-1].version + 1


def _shown(instant: int) -> str:
    return (_EPOCH + timedelta(milliseconds=instant)).isoformat(timespec="milliseconds")


def _begun_at(run: RetainedRun) -> Reading[int]:
    page = yield Want(run.stream_id, 1)
    return page[0].at
