"""What a partition holds in memory, derived from its log: the kernel with its runs, and what follows from its events.

It is thrown away and built again from the log when a commit was refused: nothing in it may outlive that [ARCH-4].
"""

from collections.abc import Callable, Iterable, Sequence

from dexd.core.commands import Command, NoteSubFlow, ReachSubFlow, StartFlow
from dexd.core.config import KernelConfig
from dexd.core.effects import SubmitCommand
from dexd.core.events import (
    AttributesSet,
    ExecuteCompleted,
    FlowClosed,
    FlowForked,
    FlowStarted,
    RpcCompleted,
    StepDispatched,
    WaitForCompleted,
)
from dexd.core.flow.state import RunState
from dexd.core.flow.wakeups import WAKE_UP_EVENTS
from dexd.core.ids import FlowId, StreamId
from dexd.core.jobs.commands import ReachTarget
from dexd.core.outcome import Outcome, RecordedEvent, RecordedStreamEvent, Reply
from dexd.core.rejections import Rejection
from dexd.core.schedules.state import ScheduleStatus
from dexd.core.wanted import FiresRef, StreamRef
from dexd.engine.batch import OpenBatch
from dexd.engine.commits import Commits
from dexd.engine.early_effects import EarlyEffects
from dexd.engine.fire_pump import FirePump
from dexd.engine.index_keys import IndexKeys
from dexd.engine.mailbox import Letter
from dexd.engine.parking_lot import Bounds, ParkingLot
from dexd.engine.pending_timers import PendingTimers
from dexd.engine.recovery import rebuild_kernel
from dexd.engine.run_cache import RunCache
from dexd.engine.search_rows import SearchRows
from dexd.engine.stream_cache import StreamCache
from dexd.engine.system import stopwatch_ms
from dexd.engine.waits import Waits
from dexd.log.event_log import EventLog, RunRow, StreamRow

WOKEN_MAX = 128
"""Parked runs that are brought back for their deadlines at once."""


class LiveState:
    """Decides about commands, and puts what is owed for them into the open batch."""

    __slots__ = (
        "_commits",
        "_early",
        "_fill_target",
        "_fires",
        "_log",
        "_snapshot_every",
        "_timers",
        "_waits",
        "kernel",
        "parking",
        "runs",
        "search_rows",
        "streams",
    )

    def __init__(
        self,
        log: EventLog,
        config: KernelConfig,
        *,
        commits: Commits,
        early: EarlyEffects,
        waits: Waits,
        snapshot_every: int,
        bounds: Bounds,
        fill_target: Callable[[ReachTarget], ReachTarget],
    ) -> None:
        """Recover: every open run that is not parked is folded into memory [ARCH-2, ARCH-11].

        Args:
            log: Where runs are read from.
            config: Numbers of the rules.
            commits: Has the open batch.
            early: Sorts effects that need not wait for it.
            waits: Whom events may wake.
            snapshot_every: Versions of a run between two snapshots.
            bounds: Of what may be in memory.
            fill_target: Tells what a batch job asks about a Flow.
        """
        begun_ms = stopwatch_ms()
        self.kernel = rebuild_kernel(log, config)
        commits.counters.replayed(len(self.kernel.runs), stopwatch_ms() - begun_ms)
        self._log = log
        self.runs = RunCache(log, self.kernel, self)
        self.streams = StreamCache(log, self.kernel)
        self.search_rows = SearchRows(self.kernel.runs.values(), IndexKeys(log.index_keys()), config.active_step_search)
        self.parking = ParkingLot(log, self.kernel, self.runs, bounds, self.search_rows.run_parks)
        self._fires = FirePump()
        self._timers = PendingTimers(self.kernel.runs.values())
        self._commits = commits
        self._early = early
        self._waits = waits
        self._snapshot_every = snapshot_every
        self._fill_target = fill_target

    def expect(self, letters: Sequence[Letter]) -> None:
        """Learn which Flow IDs these commands start that the log does not know, in one look-up.

        And bring back, in another, the parked runs that they concern.
        """
        wanted = self.kernel.wanted
        if self.parking.parked:
            run = self.kernel.run
            flow_ids: list[FlowId] = [getattr(command, "flow_id", FlowId("")) for command, _ in letters]
            self.runs.take_parked_of(
                [flow_id for flow_id in dict.fromkeys(flow_ids) if flow_id and run(flow_id) is None]
            )
        self.runs.note_absent(
            [
                command.flow_id
                for command, _ in letters
                if (type(command) is StartFlow or type(command) is ReachSubFlow) and wanted(command) is not None
            ]
        )

    def decide(self, command: Command, *, now: int) -> Reply | Rejection | None:
        """Decide about a command; gives the reply, which may leave with the open batch."""
        wanted = self.kernel.wanted(command)
        if wanted is not None:
            if type(wanted) is StartFlow:  # by far the most frequent
                self.runs.look_up(wanted)
            elif isinstance(wanted, StreamRef):
                self.streams.look_up(wanted)
            elif isinstance(wanted, FiresRef):
                self.provide_fires(wanted.stream_id, now=now)
            elif isinstance(wanted, ReachTarget):
                # The kernel applies it, so a run that is read where it is parked would not do.
                self.runs.look_up(wanted.flow_id)
                command = self._fill_target(wanted)
            else:
                self.runs.look_up(wanted)
        outcome = self.kernel.handle(command, now=now)
        self._collect(outcome)
        return outcome.reply

    def provide_fires(self, stream_id: StreamId, *, now: int) -> None:
        """Let a schedule that wants its next fires have them."""
        state = self.kernel.schedules.of_stream(stream_id)
        self._collect(self.kernel.handle(self._fires.provide(state, now), now=now))

    def remove(self, rows: Iterable[RunRow], ordinal_expires_at: int) -> Sequence[RunRow]:
        """Have closed runs leave the log with the open batch; gives those that leave, an RPC may hold others.

        The runs of a Flow ID leave from the oldest on, so that what is retained of it always ends with its latest run.
        """
        leaving: list[RunRow] = []
        staying: set[str] = set()
        for row in rows:
            if row.flow_id in staying or not self.runs.let_go(row):
                staying.add(row.flow_id)
            else:
                leaving.append(row)
                self._commits.open.note_removal(row, ordinal_expires_at)
        return leaving

    def remove_streams(self, rows: Iterable[StreamRow]) -> None:
        """Have closed streams that are not runs' leave the log with the open batch."""
        self._commits.open.stream_removals += self.streams.let_go(rows)

    def have_left(self, batch: OpenBatch) -> None:
        """What was to leave the log with a batch has left it."""
        for run_id in batch.leaving:
            self.runs.has_left(run_id)
        if batch.stream_removals:
            self.streams.have_left(batch.stream_removals)

    def next_deadline(self) -> int | None:
        """When the rules want to act next, be the run in memory or not."""
        kernel = self.kernel
        at = kernel.next_deadline()
        parked_at = self.parking.next_at() if kernel.is_serving else None
        return parked_at if at is None or (parked_at is not None and parked_at < at) else at

    def count_due(self, now: int) -> int:
        """How much the rules would do now, be the runs in memory or not; for inspection."""
        kernel = self.kernel
        if not kernel.is_serving:
            return 0
        return kernel.dispatcher.deadlines.count_due(now) + self.parking.count_due(now)

    def is_parked_run_due(self, now: int) -> bool:
        """Whether a parked run is to be woken before anything else is decided [TIMER-5]."""
        at = self.parking.next_at() if self.kernel.is_serving else None
        return at is not None and at <= now

    def wake_parked(self, *, now: int) -> None:
        """Bring back the next few parked runs that are due, and do what was due up to then, in due order [TIMER-5]."""
        due = self.parking.pop_due(now, WOKEN_MAX)
        self.runs.take_parked([deadline.stream_id for deadline in due])
        following = self.parking.next_at()
        is_last = following is None or following > now
        self._collect(self.kernel.fire_due(until=now if is_last else due[-1].at, now=now))

    def fire_due(self, *, now: int) -> None:
        """Do what is due before any command is looked at, which does so itself but may want to know what came of it.

        A schedule that is overdue, because the machine slept, asks for its fires now, and a deletion that comes first
        thing afterwards finds them decided [SCHED-12].
        """
        at = self.kernel.next_deadline()
        if at is not None and at <= now:
            self._collect(self.kernel.fire_due(until=now, now=now))

    # ---- runs that come and go [ARCH-11] ----

    def came_back(self, run: RunState) -> None:
        """See `Traffic`."""
        self._timers.recall(run)
        self.search_rows.run_came(run)
        self.parking.bring_back(run)

    def left(self, run: RunState) -> None:
        """See `Traffic`."""
        self._timers.forget(run.stream_id)
        self.search_rows.run_left(run.stream_id)
        self._early.forget(run.stream_id)

    def _keep_for_word(self, outcome: Outcome) -> None:
        """A child's end is told to its parent after the commit: a parent that is parked is not, from that commit on.

        Otherwise, if word of it got lost in a crash, nobody would ask again [SUB-5, ARCH-14].
        """
        for effect in outcome.effects:
            if type(effect) is SubmitCommand and type(effect.command) is NoteSubFlow:
                parent = self.runs.take_chain(effect.command.key.run_id)
                if parent is not None:
                    self.parking.unmark(parent.stream_id, self._commits.open)

    def _collect(self, outcome: Outcome) -> None:
        batch = self._commits.open
        early = outcome.early
        batch.effects += outcome.effects if early is None else self._early.sort(outcome, early)
        events = outcome.events
        batch.record(events)
        if outcome.stream_events:
            self._collect_streams(outcome.stream_events)
        if not self.parking.is_empty():
            self.parking.moved(events, batch)
            self._keep_for_word(outcome)
        snapshot_every, is_watched = self._snapshot_every, self._waits.parts_of or self._timers.rows
        for recorded in events:
            event = recorded.event
            kind = type(event)
            if kind in _FOLLOWED or (is_watched and self._is_followed(recorded)):
                self._follow(recorded)
            if kind in _INDEXING and event.indexed:  # type: ignore[union-attr]  # the table says so
                self._index(recorded)
            if not recorded.version % snapshot_every:
                batch.note_snapshot(self.runs.of_stream(recorded.stream_id))

    def _collect_streams(self, events: Sequence[RecordedStreamEvent]) -> None:
        """Write events of streams that are not runs', and what is derived from them."""
        batch = self._commits.open
        batch.record(events)
        for state in {event.stream_id: self.kernel.stream(event.stream_id) for event in events}.values():
            batch.note_stream(state)
            if state.status is not ScheduleStatus.ACTIVE:
                self._fires.forget(state.stream_id)
        for recorded in events:
            if not recorded.version % self._snapshot_every:
                batch.note_stream_snapshot(self.kernel.stream(recorded.stream_id))

    def _is_followed(self, recorded: RecordedEvent) -> bool:
        """Whether something else than what follows from its type may have to change with the event."""
        if self._waits.parts_of:
            return True
        return type(recorded.event) is StepDispatched and recorded.stream_id in self._timers.rows

    def _follow(self, recorded: RecordedEvent) -> None:
        """Keep what is derived from events up to date."""
        event = recorded.event
        if type(event) is FlowStarted:
            self._run_started(event)
        elif type(event) is FlowClosed:
            self._run_closed(recorded.stream_id)
        elif type(event) is FlowForked:
            self._timers.run_started(self.runs.of_stream(recorded.stream_id), self._commits.open)
        else:
            run = self.runs.of_stream(recorded.stream_id)
            if type(event) in WAKE_UP_EVENTS or type(event) is StepDispatched:
                step_id = event.step_execution_id  # type: ignore[union-attr]  # the table says so
                self._timers.may_move(run, step_id, self._commits.open)
            if self._waits.parts_of:
                self._waits.event_happened(run, event)

    def _index(self, recorded: RecordedEvent) -> None:
        """Keep the index values of a run that go with an event [ATTR-11]."""
        run = self.runs.of_stream(recorded.stream_id)
        self.search_rows.index_changed(run, recorded.event.indexed, self._commits.open)  # type: ignore[union-attr]

    def _run_started(self, event: FlowStarted) -> None:
        run = self.kernel.run_by_id(event.run_id)
        assert run is not None
        self.runs.begin(run)
        self.parking.begin(run)
        self._commits.open.note_run(run)
        if run.indexed:
            self.search_rows.run_started(run, self._commits.open)
        if run.timeout_at or run.eligible_at or run.chain_id != run.run_id:
            self._timers.run_started(run, self._commits.open)

    def _run_closed(self, stream_id: int) -> None:
        batch = self._commits.open
        run = self.runs.of_stream(stream_id)
        batch.note_run(run)
        self._timers.run_closed(stream_id, batch)
        self.search_rows.run_closed(stream_id, batch)
        batch.closed.append(run)
        self._early.forget(stream_id)
        self.parking.close(run)
        following = self.kernel.run_by_id(run.next_run_id) if run.next_run_id else None
        if following is None:
            self._waits.run_closed(run)
        else:
            self._waits.run_followed(run, following)


_INDEXING = frozenset({ExecuteCompleted, WaitForCompleted, RpcCompleted, AttributesSet})
"""Events that may change index values; a start is looked at as a whole."""

_FOLLOWED = WAKE_UP_EVENTS | {FlowStarted, FlowClosed, FlowForked}
"""Events after which something derived may have to change; nothing else costs more than this look."""
