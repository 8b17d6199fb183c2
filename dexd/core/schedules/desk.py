"""What clients command about schedules: from the request to the events and the reply [SCHED-1, SCHED-15]."""

from collections.abc import Iterator

from dexd.core import commands as c
from dexd.core.deadlines import Deadlines
from dexd.core.ids import RequestId, ScheduleId, StreamId
from dexd.core.matching.deadline_keys import DeadlineKey
from dexd.core.outcome import BackfillAccepted, OccurrenceAccepted, ScheduleAccepted
from dexd.core.rejections import Rejection
from dexd.core.runs import Runs
from dexd.core.schedules import commands as sc
from dexd.core.schedules.book import ScheduleBook
from dexd.core.schedules.clockwork import Clockwork
from dexd.core.schedules.events import (
    OccurrenceSkipped,
    ScheduleBackfilled,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleEvent,
    SchedulePaused,
    ScheduleResumed,
    ScheduleTriggered,
    ScheduleUpdated,
    SkipReason,
)
from dexd.core.schedules.executions import Executions
from dexd.core.schedules.occurrences import occurrence_id
from dexd.core.schedules.requests import refuse_existing, refuse_unknown, remembered
from dexd.core.schedules.state import ScheduleState, ScheduleStatus
from dexd.core.starts import Starts
from dexd.core.streams import StreamIds
from dexd.core.turn import Answer, Route, Turn
from dexd.core.values import RequestRecord


class ScheduleDesk:
    """Answers commands about schedules."""

    __slots__ = ("_book", "clockwork", "executions")

    def __init__(self, runs: Runs, starts: Starts, deadlines: Deadlines[DeadlineKey], stream_ids: StreamIds) -> None:
        self._book = ScheduleBook(stream_ids)
        self.executions = Executions(self._book, runs, starts)
        """What they owe their executions, and these them."""
        self.clockwork = Clockwork(self._book, self.executions, deadlines)
        """When they fire."""

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {
            sc.CreateSchedule: self.create,
            sc.UpdateSchedule: self.update,
            sc.PauseSchedule: self.pause,
            sc.ResumeSchedule: self.resume,
            sc.DeleteSchedule: self.delete,
            sc.TriggerSchedule: self.trigger,
            sc.BackfillSchedule: self.backfill,
            sc.ProvideFires: self.clockwork.provide,
            sc.ReachOccurrence: self.executions.reach,
            sc.NoteOccurrence: self.note,
            sc.NoteReopened: self.executions.note_reopened,
            sc.StopOccurrence: self.executions.stop,
        }

    def get(self, schedule_id: ScheduleId) -> ScheduleState | None:
        """The newest schedule of that ID in memory, deleted or not."""
        return self._book.get(schedule_id)

    def of_stream(self, stream_id: StreamId) -> ScheduleState:
        """The schedule of a stream in memory."""
        return self._book.of_stream(stream_id)

    def __iter__(self) -> Iterator[ScheduleState]:
        """All in memory, in the order in which they were created or looked up."""
        return iter(self._book)

    def adopt(self, state: ScheduleState) -> None:
        """Take over a schedule restored from the log."""
        self._book.adopt(state)

    def forget(self, stream_id: StreamId) -> None:
        """Drop a closed schedule, if it is in memory."""
        self._book.forget(stream_id)

    def resume_all(self, turn: Turn) -> None:
        """The server is back: reach for executions, and want the next fires."""
        for state in self._book:
            if not state.is_closed:
                self.executions.resume(turn, state)
                self.clockwork.watch(state)

    def note(self, turn: Turn, command: sc.NoteOccurrence) -> Answer:
        """An execution tells how it stands; its failure may have paused the schedule [SCHED-15]."""
        self.executions.note(turn, command)
        state = self._book.get(command.schedule_id)
        if state is not None and state.status is not ScheduleStatus.ACTIVE:
            self.clockwork.forget(state)
        return None

    # ---- commands of clients ----

    def create(self, turn: Turn, command: sc.CreateSchedule) -> Answer:
        """Create a schedule, unless one of that ID exists; a repeat of the request finds what it made [SCHED-1]."""
        state = self._book.get(command.schedule_id)
        if state is not None and not state.is_deleted:
            known = remembered(state, command.request_id, command.digest)
            if known is None:
                return refuse_existing(state)
            return known if isinstance(known, Rejection) else ScheduleAccepted()
        request = RequestRecord(command.request_id, command.digest)
        created = ScheduleCreated(
            command.schedule_id, command.spec, command.action, command.policy, request, command.is_paused
        )
        self.clockwork.watch(self._book.create(turn, created))
        return ScheduleAccepted()

    def update(self, turn: Turn, command: sc.UpdateSchedule) -> Answer:
        """Replace parts from now on; outcomes stay [SCHED-15]."""
        request = RequestRecord(command.request_id, command.digest)
        return self._write(turn, command, ScheduleUpdated(request, command.spec, command.action, command.policy))

    def pause(self, turn: Turn, command: sc.PauseSchedule) -> Answer:
        """Let nothing fire; of a paused one the note is replaced."""
        request = RequestRecord(command.request_id, command.digest)
        return self._write(turn, command, SchedulePaused(command.note, request))

    def resume(self, turn: Turn, command: sc.ResumeSchedule) -> Answer:
        """Let it fire again; what fell into the pause is skipped [SCHED-13]."""
        state = self._book.get(command.schedule_id)
        if state is not None and state.status is ScheduleStatus.ACTIVE:
            return ScheduleAccepted()
        answer = self._write(turn, command, ScheduleResumed(RequestRecord(command.request_id, command.digest)))
        if state is not None and state.status is ScheduleStatus.ACTIVE:
            self.executions.go_on(turn, state)
        return answer

    def delete(self, turn: Turn, command: sc.DeleteSchedule) -> Answer:
        """Remove it; what waits is skipped, executions are left alone [SCHED-15]."""
        state = self._found(command)
        if not isinstance(state, ScheduleState):
            return state
        for waiting in tuple(state.buffer):
            self._book.emit(turn, state, OccurrenceSkipped(waiting.nominal, SkipReason.DELETED))
        self.clockwork.forget(state)
        self._book.emit(turn, state, ScheduleDeleted(RequestRecord(command.request_id, command.digest)))
        return ScheduleAccepted()

    def trigger(self, turn: Turn, command: sc.TriggerSchedule) -> Answer:
        """Have one occurrence now, in a pause too, at the present instant or the next that is free [SCHED-16]."""
        state = self._found(command)
        if not isinstance(state, ScheduleState):
            known = self._known(command)
            return OccurrenceAccepted(RequestId(known.answer.decode())) if known is not None else state
        nominal = max(turn.now, state.last_nominal + 1)
        occurrence = occurrence_id(state.schedule_id, nominal)
        request = RequestRecord(command.request_id, command.digest, occurrence.encode())
        self._book.emit(turn, state, ScheduleTriggered(nominal, request))
        self.clockwork.fire(turn, state, [nominal], overlap=command.overlap, by_hand=True)
        return OccurrenceAccepted(occurrence)

    def backfill(self, turn: Turn, command: sc.BackfillSchedule) -> Answer:
        """Handle fires of the past once more [SCHED-16]; not those that run already, or are still to come."""
        state = self._found(command)
        if not isinstance(state, ScheduleState):
            known = self._known(command)
            return BackfillAccepted(int(known.answer)) if known is not None else state
        nominals = [fire.nominal for fire in command.fires if fire.due <= turn.now and fire.nominal not in state.open]
        request = RequestRecord(command.request_id, command.digest, str(len(nominals)).encode())
        backfilled = ScheduleBackfilled(command.start_at, command.end_at, len(nominals), request)
        self._book.emit(turn, state, backfilled)
        self.clockwork.fire(turn, state, nominals, overlap=command.overlap, by_hand=True)
        return BackfillAccepted(len(nominals))

    def _write(self, turn: Turn, command: sc.ScheduleCommand, event: ScheduleEvent) -> Answer:
        """Record what a client did to a schedule, once; its fires may be others afterwards."""
        state = self._found(command)
        if not isinstance(state, ScheduleState):
            return state
        self._book.emit(turn, state, event)
        self.clockwork.watch(state)
        return ScheduleAccepted()

    def _found(self, command: sc.ScheduleCommand) -> ScheduleState | ScheduleAccepted | Rejection:
        """The schedule; or the answer, if there is none or the request was applied before [GEN-8]."""
        state = self._book.get(command.schedule_id)
        if state is None:
            return refuse_unknown(command.schedule_id)
        known = remembered(state, command.request_id, command.digest)
        if known is not None:
            return known if isinstance(known, Rejection) else ScheduleAccepted()
        return refuse_unknown(command.schedule_id) if state.is_deleted else state

    def _known(self, command: sc.ScheduleCommand) -> RequestRecord | None:
        """The record of the same request."""
        state = self._book.get(command.schedule_id)
        found = None if state is None else state.requests.get(command.request_id)
        return found if found is not None and found.digest == command.digest else None
