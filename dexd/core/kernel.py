"""The façade of the core: one command in, one `Outcome` out. Routes, and keeps the runs in memory; no rules of its own.

Every call goes the same way: deadlines that are due first, in order [TIMER-5]; then the command; after each of them
what follows by itself (waits, completion), then open calls are brought in line with state, then freed streams take
calls. The log, the clock and the network are the shell's; see `dexd.core` for the contract.
"""

from collections.abc import Callable, Iterable

from dexd.core import commands as c
from dexd.core.client_commands import ClientCommands
from dexd.core.config import KernelConfig
from dexd.core.flow.decide_output import decide_completion, decide_next_timers
from dexd.core.flow.decide_timeout import decide_flow_timeout
from dexd.core.flow.settlement import decide_conditions, waits_to_try
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.forks.time_travels import TimeTravels
from dexd.core.ids import FlowId, RunId, StepExecutionId, StreamId
from dexd.core.jobs.desk import JobDesk
from dexd.core.jobs.state import JobState
from dexd.core.look_ups import LookUps
from dexd.core.matching.deadline_keys import AgeDue, DeadlineKey, FireDue, HeartbeatDue, HoldDue, PingDue, TurnDue
from dexd.core.matching.deliveries import Deliveries
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.matching.workforce import Workforce
from dexd.core.members import FAILED
from dexd.core.outcome import Outcome
from dexd.core.parking import Parking
from dexd.core.roll_overs import RollOvers
from dexd.core.runs import Runs
from dexd.core.schedules.desk import ScheduleDesk
from dexd.core.starts import Starts
from dexd.core.streams import StreamIds, StreamState
from dexd.core.sub_flow_desk import SubFlowDesk
from dexd.core.sub_flows import SubFlowKey
from dexd.core.turn import NEVER, Answer, Route, Turn
from dexd.core.wanted import Wanted
from dexd.core.worker_commands import WorkerCommands


class Kernel:
    """One partition's decisions [ARCH-15]. Not thread-safe and never blocking."""

    def __init__(self, config: KernelConfig, *, last_stream_id: int) -> None:
        self._runs = Runs()
        self._is_serving = False
        self._dispatcher = Dispatcher(config)
        self._rpcs = RpcDesk(self._dispatcher)
        stream_ids = StreamIds(last_stream_id)
        self._starts = Starts(self._runs, self._dispatcher, stream_ids)
        self._sub_flows = SubFlowDesk(self._runs, self._starts)
        self._schedules = ScheduleDesk(self._runs, self._starts, self._dispatcher.deadlines, stream_ids)
        self._jobs = JobDesk(
            self._runs, self._dispatcher.deadlines, stream_ids, lambda turn, call: self._routes[type(call)](turn, call)
        )
        self._deliveries = Deliveries(self._dispatcher, self._rpcs, self._sub_flows)
        self._workforce = Workforce(self._dispatcher, self._deliveries)
        executions = self._schedules.executions
        self._parking = Parking(self._runs, self._dispatcher, self._rpcs, self._starts, self._sub_flows, executions)
        look_ups = LookUps(self._runs, self._schedules, self._jobs)
        self.wanted: Callable[[c.Command], Wanted | None] = look_ups.wanted
        """Tells what the shell must look up in the log, and `adopt` if it exists, before `handle`; None if nothing."""
        self._roll_overs = RollOvers(self._starts, self._dispatcher, self._rpcs)
        self._long_from = config.rollover_events or NEVER
        self._routes: dict[type[c.Command], Route] = {
            **ClientCommands(self._runs, self._starts, self._rpcs, self._roll_overs).routes(),
            **WorkerCommands(self._runs, self._deliveries, self._workforce).routes(),
            **self._sub_flows.routes(),
            **self._schedules.routes(),
            **TimeTravels(self._runs, self._starts, self._dispatcher, self._rpcs, self._sub_flows, executions).routes(),
            **self._jobs.routes(),
            c.Tick: _tick,
            c.BeginServing: self._begin_serving,
            c.BeginShutdown: self._begin_shutdown,
        }

    # ---- what the shell calls ----

    def handle(self, command: c.Command, *, now: int) -> Outcome:
        """Decide about one command at an instant that is not before that of the previous call."""
        turn = Turn(now, self._long_from)
        if self._is_serving and self._dispatcher.deadlines.is_due(now):
            self._fire(turn, now)
        reply = self._routes[type(command)](turn, command)
        self._finish(turn)
        if turn.long:
            self._roll_overs.settle(turn)
        return turn.outcome(reply)

    def fire_due(self, *, until: int, now: int) -> Outcome:
        """Do what was due up to an instant, and leave what was due later for the next call.

        For a shell that brings back runs whose deadlines lie between the two: so all fire in due order [TIMER-5].
        """
        turn = Turn(now, self._long_from)
        self._fire(turn, until)
        if turn.long:
            self._roll_overs.settle(turn)
        return turn.outcome(None)

    def next_deadline(self) -> int | None:
        """When `Tick` is due next; None when nothing waits for time."""
        return self._dispatcher.deadlines.next_at() if self._is_serving else None

    def adopt(self, state: RunState, waiting: Iterable[tuple[SubFlowKey, RunId]] = ()) -> None:
        """Take over a run restored from the log: any before `BeginServing`, a closed or a parked one later.

        `waiting` are the parked parents that wait for executions of its Flow ID, and for which [SUB-5].

        Raises:
            ValueError: the run is in memory already, or it is at work and should never have left it.
        """
        if state.is_open and self._is_serving:
            self._parking.bring_back(state, waiting)
            return
        self._runs.add(state)
        self._sub_flows.remember_waiting(state.flow_id, waiting)

    def can_park(self, run_id: RunId, *, until: int) -> bool:
        """Whether `park` would take the run out, and it sleeps beyond that instant."""
        run = self._runs.by_id.get(run_id)
        return run is not None and self._parking.may_leave(run, until=until)

    def park(self, run_id: RunId) -> bool:
        """Drop an open run in which nothing is under way from memory; False when it must stay [ARCH-11].

        From then on the log is all there is of it: `wanted` asks for it when a command names it, and the shell brings
        it back at its next deadline.
        """
        run = self._runs.by_id.get(run_id)
        if run is None or not self._parking.may_leave(run, until=0):
            return False
        self._parking.take_out(run)
        return True

    def adopt_stream(self, state: StreamState) -> None:
        """Take over a stream that is not a run's: any before `BeginServing`, one that is closed later."""
        if isinstance(state, JobState):
            self._jobs.adopt(state)
        else:
            self._schedules.adopt(state)

    def forget_stream(self, stream_id: StreamId) -> None:
        """Drop a stream that is not a run's and is closed, if it is in memory."""
        self._jobs.forget(stream_id)
        self._schedules.forget(stream_id)

    def note_ordinal(self, flow_id: FlowId, ordinal: int) -> None:
        """Tell the last ordinal of a Flow ID that the log has no run of, before the command that starts it [ID-10]."""
        self._runs.note_ordinal(flow_id, ordinal)

    def forget(self, run_id: RunId) -> bool:
        """Drop a closed run from memory; False when it must stay, because it is open or an RPC is reading it."""
        run = self._runs.by_id.get(run_id)
        if run is None or run.is_open:
            return False
        if self._rpcs.has_calls(run.chain_id) and self._runs.by_chain.get(run.chain_id) is run:
            return False
        self._runs.drop(run)
        return True

    def run(self, flow_id: FlowId) -> RunState | None:
        """The latest run of a Flow ID, if it is in memory. Not to be changed."""
        return self._runs.latest.get(flow_id)

    def run_by_id(self, run_id: RunId) -> RunState | None:
        """The run, if it is in memory. Not to be changed."""
        return self._runs.by_id.get(run_id)

    def newest_of_chain(self, chain_id: RunId) -> RunState | None:
        """The run with which a chain goes on or ended, if it is in memory. Not to be changed."""
        return self._runs.by_chain.get(chain_id)

    @property
    def runs(self) -> dict[RunId, RunState]:
        """All runs in memory, for inspection. Not to be changed."""
        return self._runs.by_id

    def stream(self, stream_id: StreamId) -> StreamState:
        """A stream in memory that is not a run's. Not to be changed."""
        return self._jobs.of_stream(stream_id) or self._schedules.of_stream(stream_id)

    @property
    def jobs(self) -> JobDesk:
        """Batch jobs, for inspection. Not to be changed."""
        return self._jobs

    @property
    def schedules(self) -> ScheduleDesk:
        """Schedules, for inspection. Not to be changed."""
        return self._schedules

    @property
    def dispatcher(self) -> Dispatcher:
        """Open calls and deadlines, for inspection. Not to be changed."""
        return self._dispatcher

    @property
    def workforce(self) -> Workforce:
        """Live sessions, for inspection. Not to be changed."""
        return self._workforce

    @property
    def sub_flows(self) -> SubFlowDesk:
        """Who waits for which child, for inspection. Not to be changed."""
        return self._sub_flows

    @property
    def open_run_count(self) -> int:
        """Open runs."""
        return self._runs.open_count

    @property
    def connected_worker_count(self) -> int:
        """Worker processes with a session."""
        return len(self._dispatcher.matcher.workers)

    @property
    def session_count(self) -> int:
        """Worker sessions."""
        return len(self._workforce.sessions)

    @property
    def is_serving(self) -> bool:
        """Whether `BeginServing` was handled; before it nothing is due."""
        return self._is_serving

    # ---- what follows by itself ----

    def _fire(self, turn: Turn, until: int) -> None:
        while (key := self._dispatcher.deadlines.pop_due(until)) is not None:
            self._expire(turn, key)
            self._finish(turn)

    def _finish(self, turn: Turn) -> None:
        """Repeat until nothing follows any more: waits and completion, then open calls, then freed streams."""
        while True:
            if turn.waits:
                self._settle_waits(turn)
            if turn.closed:
                self._settle_closed(turn)
            if self._dispatcher.locks.conflicts:
                self._rpcs.refuse_conflicts(turn)
            if turn.touched:
                self._settle_calls(turn)
            elif not self._dispatcher.offer_freed(turn):
                return

    def _settle_closed(self, turn: Turn) -> None:
        for run in turn.take_closed():
            self._runs.open_count -= 1
            self._rpcs.flow_closed(turn, run)
            if not run.next_run_id:
                self._sub_flows.child_closed(turn, run)
                if run.terms is not None and run.terms.schedule is not None:
                    self._schedules.executions.execution_closed(turn, run, run.terms.schedule)
            elif run.status is FAILED:
                self._starts.retry(turn, run)
            # Otherwise the run was forked, and the next one has begun already [TT-1].

    def _settle_calls(self, turn: Turn) -> None:
        touched = turn.take_touched()
        if self._is_serving:
            for key, run in touched.items():
                self._dispatcher.reconcile(turn, run, key)

    def _settle_waits(self, turn: Turn) -> None:
        for changes in turn.take_waits().values():
            run = changes.run
            for step_execution_id in waits_to_try(run, changes.steps, changes.channels):
                met = decide_conditions(run, step_execution_id)
                if met is not None:
                    turn.emit(run, met)
            if run.completion_requested:
                turn.emit_all(run, decide_completion(run))

    def _expire(self, turn: Turn, key: DeadlineKey) -> None:
        if isinstance(key, PingDue):
            self._workforce.ping_due(turn, key.session_id)
        elif isinstance(key, HoldDue):
            self._workforce.hold_due(turn, key.worker_id)
        elif isinstance(key, TurnDue):
            self._jobs.turn_due(turn, key.stream_id)
        elif isinstance(key, HeartbeatDue):
            self._deliveries.heartbeat_due(turn, self._dispatcher.calls[key.call_key])
        elif isinstance(key, FireDue):
            self._schedules.clockwork.fire_due(turn, key.stream_id)
        elif isinstance(key, AgeDue):
            self._workforce.age_due(turn, key.session_id)
        else:
            call = self._dispatcher.calls.get(key)
            if call is not None:
                self._deliveries.expire(turn, call)
            else:
                self._wake(turn, self._runs.by_chain[key[0]], StepExecutionId(key[1]))

    def _wake(self, turn: Turn, run: RunState, step_execution_id: StepExecutionId) -> None:
        """A Step's backoff is over, or a timer of its Wait is due; or the Flow's own time is over."""
        step = run.steps.get(step_execution_id)
        if step is None:
            turn.emit_all(run, decide_flow_timeout(run))
        elif step.phase is StepPhase.BACKOFF:
            self._dispatcher.begin_attempt(turn, run, step)
        else:
            turn.emit_all(run, decide_next_timers(step))

    # ---- shell commands ----

    def _begin_serving(self, turn: Turn, _: c.BeginServing) -> Answer:
        """Derive every open call and deadline from the recovered runs."""
        self._is_serving = True
        for run in self._runs.by_id.values():
            if run.timeout_at:
                self._starts.watch_timeout(run)
            self._sub_flows.resume(turn, run)
            self._schedules.executions.resume_run(turn, run)
            # Timers due at one instant fire in the order in which their Waits were installed [TIMER-4].
            # Requests for workers and locks are as old as they were before [LOCK-3].
            self._dispatcher.locks.adopt(run)
            turn.touch_all(run)
        self._schedules.resume_all(turn)
        self._jobs.resume_all(turn)
        return None

    def _begin_shutdown(self, turn: Turn, command: c.BeginShutdown) -> Answer:
        self._workforce.ask_all_to_reconnect(turn, command.reason)
        return None


def _tick(_turn: Turn, _command: c.Tick) -> Answer:
    """Due deadlines were handled already."""
    return None
