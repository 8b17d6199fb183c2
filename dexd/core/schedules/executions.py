"""Executions between the commits of schedule and run [SCHED-2, SCHED-11, SCHED-15, ARCH-14].

A schedule and a run are different streams, so what one owes the other goes as a command of its own, after the commit:

    schedule: OccurrenceStarting -> ReachOccurrence -> run: FlowStarted -> NoteOccurrence -> schedule: OccurrenceStarted
                                                       run: FlowClosed  -> NoteOccurrence -> schedule: OccurrenceClosed

After a restart a schedule reaches for every execution that it has not seen end, and finds what was done before.
"""

import msgspec

from dexd.core.effects import SubmitCommand
from dexd.core.events import FlowStarted
from dexd.core.flow.decide_external import decide_stop
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.decide_start import decide_start
from dexd.core.flow.state import RunState
from dexd.core.ids import RequestId, RunId
from dexd.core.rejections import Rejection
from dexd.core.runs import Runs
from dexd.core.schedules.book import ScheduleBook
from dexd.core.schedules.commands import NoteOccurrence, NoteReopened, ReachOccurrence, StopOccurrence
from dexd.core.schedules.events import (
    OccurrenceClosed,
    OccurrenceReopened,
    OccurrenceSkipped,
    OccurrenceStarted,
    OccurrenceStarting,
    SchedulePaused,
    SkipReason,
)
from dexd.core.schedules.fire_pass import is_replacing, next_waiting
from dexd.core.schedules.occurrences import flow_id_of, occurrence_id
from dexd.core.schedules.spec import OverlapPolicy
from dexd.core.schedules.state import Execution, ScheduleState, ScheduleStatus, Waiting
from dexd.core.start_command import StartFlow
from dexd.core.starts import Starts
from dexd.core.terms import FlowTerms, ScheduledBy
from dexd.core.turn import Answer, Turn
from dexd.core.values import FlowStatus, IdReusePolicy, StopType


class Executions:
    """Carries starts and stops to executions and their ends to schedules."""

    __slots__ = ("_book", "_reopened", "_runs", "_starts", "_stopping")

    def __init__(self, book: ScheduleBook, runs: Runs, starts: Starts) -> None:
        self._book = book
        self._runs = runs
        self._starts = starts
        self._stopping: set[RunId] = set()
        """Executions that were told to stop and have not been seen to end; looked at one by one only."""
        self._reopened: set[RunId] = set()
        """Executions that are open again, of which word is on its way to their schedules; looked at one by one only."""

    # ---- the schedule's side ----

    def start(self, turn: Turn, state: ScheduleState, nominal: int, *, waiting: Waiting | None, by_hand: bool) -> None:
        """Begin the start of an occurrence, one that waited if there is one."""
        flow_id = flow_id_of(state.schedule_id, state.action, nominal)
        self._book.emit(turn, state, OccurrenceStarting(nominal, flow_id, by_hand, was_buffered=waiting is not None))
        self._reach(turn, state, state.open[nominal])

    def go_on(self, turn: Turn, state: ScheduleState) -> None:
        """Let the first that waits start as soon as nothing is open, and stop what is in its way [SCHED-11]."""
        while next_waiting(state):
            waiting = state.buffer[0]
            if state.open:
                if is_replacing(waiting.overlap):
                    self._stop_open(turn, state, waiting.overlap)
                return
            self.start(turn, state, waiting.nominal, waiting=waiting, by_hand=waiting.by_hand)

    def resume(self, turn: Turn, state: ScheduleState) -> None:
        """After a restart: reach for every execution that has not been seen to end."""
        for execution in state.open.values():
            self._reach(turn, state, execution)
        self.go_on(turn, state)

    def note(self, turn: Turn, command: NoteOccurrence) -> Answer:
        """Let a schedule know how an execution stands; [SCHED-15] one that FAILED may pause it."""
        is_asked = command.stream_id is not None
        state = self._book.find(command.stream_id) if is_asked else self._book.get(command.schedule_id)
        execution = None if state is None or state.is_closed else state.open.get(command.nominal)
        if state is None or execution is None or execution.run_id not in ("", command.run_id):
            return None
        if not command.run_id:
            self._book.emit(turn, state, OccurrenceSkipped(command.nominal, SkipReason.FLOW_ID_IN_USE))
        elif not execution.run_id:
            self._book.emit(turn, state, OccurrenceStarted(command.nominal, command.run_id, execution.flow_id))
        if command.status is not None and not state.is_closed:
            self._closed(turn, state, command, command.status)
        if not state.is_deleted:
            self.go_on(turn, state)
        return None

    def note_reopened(self, turn: Turn, command: NoteReopened) -> Answer:
        """Count an execution as open again: whatever fires from now on finds it so [SCHED-11].

        Only one that this schedule started, and not another one of the same ID before it.
        """
        self._reopened.discard(command.run_id)
        state = self._book.get(command.schedule_id)
        if state is None or state.is_deleted or command.nominal in state.open:
            return None
        if command.run_id == _run_id_of(state, command.nominal):
            self._book.emit(turn, state, OccurrenceReopened(command.nominal, command.run_id, command.flow_id))
            self.go_on(turn, state)
        return None

    def _closed(self, turn: Turn, state: ScheduleState, command: NoteOccurrence, status: FlowStatus) -> None:
        self._stopping.discard(command.run_id)
        self._book.emit(turn, state, OccurrenceClosed(command.nominal, status))
        is_failure = status is FlowStatus.FAILED and state.policy.pause_on_failure
        if is_failure and state.status is ScheduleStatus.ACTIVE:
            occurrence = occurrence_id(state.schedule_id, command.nominal)
            note = f"execution of {occurrence} FAILED: {command.error_message}"
            self._book.emit(turn, state, SchedulePaused(note[:_NOTE_LENGTH_MAX]))

    def _stop_open(self, turn: Turn, state: ScheduleState, overlap: OverlapPolicy) -> None:
        for execution in state.open.values():
            if execution.run_id and execution.run_id not in self._stopping:
                self._stopping.add(execution.run_id)
                is_terminated = overlap is OverlapPolicy.TERMINATE_OTHER
                stop = StopOccurrence(state.schedule_id, execution.flow_id, execution.run_id, is_terminated)
                turn.perform(SubmitCommand(stop))

    def _reach(self, turn: Turn, state: ScheduleState, execution: Execution) -> None:
        start = _start_of(state, execution)
        turn.perform(SubmitCommand(ReachOccurrence(state.stream_id, execution.nominal, start, execution.run_id)))

    # ---- the run's side ----

    def reach(self, turn: Turn, command: ReachOccurrence) -> Answer:
        """Start the execution or find it, and tell the schedule; an occurrence is started once [SCHED-2]."""
        start = command.start
        run = self._known(start)
        schedule = start.terms.schedule if start.terms is not None else None
        assert schedule is not None, "a schedule starts it"
        note = NoteOccurrence(schedule.schedule_id, command.nominal, command.run_id, command.stream_id)
        if run is None and command.run_id:
            # Nothing of it is retained any more, so it ended long ago.
            note = msgspec.structs.replace(note, status=FlowStatus.TERMINATED)
        elif run is None:
            latest = self._runs.latest.get(start.flow_id)
            last_ordinal = 0 if latest is not None else self._runs.last_ordinal(start.flow_id)
            decided = decide_start(latest, start, now=turn.now, last_ordinal=last_ordinal)
            if isinstance(decided, FlowStarted):
                run = self._starts.begin(turn, decided, start.start_step)
            else:
                assert isinstance(decided, Rejection), "another request than any that is known"
        if run is not None:
            status = None if run.is_open or run.next_run_id else run.status
            note = msgspec.structs.replace(
                note, run_id=run.execution_id, status=status, error_message=run.error_message
            )
        turn.perform(SubmitCommand(note))
        return None

    def stop(self, turn: Turn, command: StopOccurrence) -> Answer:
        """Stop the execution, if it is still open."""
        run = self._runs.latest.get(command.flow_id)
        if run is not None and run.is_open and run.execution_id == command.run_id:
            stop = StopType.TERMINATE if command.is_terminated else StopType.CANCEL
            reason = f"replaced by the next execution of schedule {command.schedule_id!r}"
            request_id = RequestId(f"sys:schedule-{command.run_id}")
            turn.emit_all(run, decide_stop(run, stop, reason, request_id))
        return None

    def execution_closed(self, turn: Turn, run: RunState, schedule: ScheduledBy) -> None:
        """An execution ended for good: tell the schedule that started it."""
        note = NoteOccurrence(
            schedule.schedule_id,
            schedule.scheduled_at,
            run.execution_id,
            status=run.status,
            error_message=run.error_message,
        )
        turn.perform(SubmitCommand(note))

    def tell_reopened(self, turn: Turn, run: RunState) -> None:
        """Time travel goes on with an execution that had ended: tell the schedule that started it, if one did."""
        schedule = None if run.terms is None else run.terms.schedule
        if schedule is not None:
            self._reopened.add(run.execution_id)
            note = NoteReopened(schedule.schedule_id, schedule.scheduled_at, run.flow_id, run.execution_id)
            turn.perform(SubmitCommand(note))

    def resume_run(self, turn: Turn, run: RunState) -> None:
        """After a restart: word of a reopening may have got lost, and is told again."""
        if may_be_reopened(run):
            self.tell_reopened(turn, run)

    def owes_word(self, run: RunState) -> bool:
        """Whether word of the run is on its way to its schedule; it stays in memory so long, to be told again."""
        return run.execution_id in self._reopened

    def _known(self, start: StartFlow) -> RunState | None:
        latest = self._runs.latest.get(start.flow_id)
        if latest is None or latest.start_request_id == start.request_id:
            return latest
        return self._runs.started_by(start.flow_id, start.request_id)


_NOTE_LENGTH_MAX = 1_000
"""A longer error message is cut; the Flow has all of it."""


def may_be_reopened(run: RunState) -> bool:
    """Whether the run goes on with an execution of a schedule, and not as a roll-over does: by time travel or retry."""
    return run.is_open and run.terms is not None and run.terms.schedule is not None and run.chain_id != run.execution_id


def _run_id_of(state: ScheduleState, nominal: int) -> RunId:
    """The first run of an occurrence's execution; no other schedule of the same ID has the same."""
    return derived_run_id(f"{occurrence_id(state.schedule_id, nominal)}/{state.stream_id}")


def _start_of(state: ScheduleState, execution: Execution) -> StartFlow:
    """The start of an occurrence [SCHED-2]; everything about it follows from the schedule and the instant."""
    action = state.action
    request_id = occurrence_id(state.schedule_id, execution.nominal)
    run_id = _run_id_of(state, execution.nominal)
    schedule = ScheduledBy(state.schedule_id, execution.nominal)
    return StartFlow(
        execution.flow_id,
        action.flow_type,
        run_id,
        # Not secret and not shared: it only spreads the retries of this run.
        int(run_id[:15], 16),
        request_id,
        action.digest,
        action.start_step,
        action.attributes,
        IdReusePolicy.ALLOW_IF_NOT_RUNNING,
        action.standing,
        msgspec.structs.replace(action.terms or FlowTerms(), schedule=schedule),
        action.indexed,
    )
