"""What clients command about schedules: from the request to the events and the reply [SCHED-1, SCHED-15]."""

from collections.abc import Iterator

from dexd.core import commands as c
from dexd.core.ids import ScheduleId, StreamId
from dexd.core.outcome import ScheduleAccepted
from dexd.core.rejections import Rejection
from dexd.core.schedules import commands as sc
from dexd.core.schedules.book import ScheduleBook
from dexd.core.schedules.events import (
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleEvent,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
)
from dexd.core.schedules.requests import refuse_existing, refuse_unknown, remembered
from dexd.core.schedules.state import ScheduleState, ScheduleStatus
from dexd.core.streams import StreamIds
from dexd.core.turn import Answer, Route, Turn
from dexd.core.values import RequestRecord


class ScheduleDesk:
    """Answers commands about schedules."""

    __slots__ = ("_book",)

    def __init__(self, stream_ids: StreamIds) -> None:
        self._book = ScheduleBook(stream_ids)

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {
            sc.CreateSchedule: self.create,
            sc.UpdateSchedule: self.update,
            sc.PauseSchedule: self.pause,
            sc.ResumeSchedule: self.resume,
            sc.DeleteSchedule: self.delete,
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
        self._book.create(turn, created)
        return ScheduleAccepted()

    def update(self, turn: Turn, command: sc.UpdateSchedule) -> Answer:
        """Replace parts from now on; outcomes stay [SCHED-15]."""
        request = RequestRecord(command.request_id, command.digest)
        updated = ScheduleUpdated(request, command.spec, command.action, command.policy)
        return self._write(turn, command, updated)

    def pause(self, turn: Turn, command: sc.PauseSchedule) -> Answer:
        """Let nothing fire; of a paused one the note is replaced."""
        request = RequestRecord(command.request_id, command.digest)
        return self._write(turn, command, SchedulePaused(command.note, request))

    def resume(self, turn: Turn, command: sc.ResumeSchedule) -> Answer:
        """Let it fire again; what fell into the pause is skipped [SCHED-13]."""
        state = self._book.get(command.schedule_id)
        if state is not None and state.status is ScheduleStatus.ACTIVE:
            return ScheduleAccepted()
        return self._write(turn, command, ScheduleResumed(RequestRecord(command.request_id, command.digest)))

    def delete(self, turn: Turn, command: sc.DeleteSchedule) -> Answer:
        """Remove it; its executions are left alone [SCHED-15]."""
        return self._write(turn, command, ScheduleDeleted(RequestRecord(command.request_id, command.digest)))

    def _write(self, turn: Turn, command: sc.ScheduleCommand, event: ScheduleEvent) -> Answer:
        """Record what a client did to a schedule that exists, once [GEN-8]."""
        state = self._book.get(command.schedule_id)
        if state is None:
            return refuse_unknown(command.schedule_id)
        known = remembered(state, command.request_id, command.digest)
        if isinstance(known, Rejection):
            return known
        if known is None:
            if state.is_deleted:
                return refuse_unknown(command.schedule_id)
            self._book.emit(turn, state, event)
        return ScheduleAccepted()
