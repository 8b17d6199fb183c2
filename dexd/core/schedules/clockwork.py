"""When schedules fire: the fires that are known, and which schedules want more of them from the shell [SCHED-6].

All of it is derived: after a restart, and whenever too little is known, the shell computes the fires again from where
the schedule's own record ends. A paused schedule has nothing here and costs nothing [SCHED-14].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from dexd.core.deadlines import Deadlines
from dexd.core.ids import StreamId
from dexd.core.matching.deadline_keys import DeadlineKey, FireDue
from dexd.core.schedules.book import ScheduleBook
from dexd.core.schedules.commands import ProvideFires
from dexd.core.schedules.events import FireOutcome, OccurrencesPassed, SkipReason
from dexd.core.schedules.executions import Executions
from dexd.core.schedules.fire_pass import FirePass
from dexd.core.schedules.occurrences import NO_FIRES, Fire, FireCount
from dexd.core.schedules.spec import OverlapPolicy
from dexd.core.schedules.state import ScheduleState, ScheduleStatus
from dexd.core.turn import Answer, Turn

CATCH_UP_WINDOW_MS_MIN = 10_000
"""Shortest catch-up window: a fire that is late by less has been delayed, not missed [SCHED-13]."""


@dataclass(slots=True)
class _Upcoming:
    """Fires of one schedule that are known and not due yet."""

    fires: Sequence[Fire]
    is_last: bool


class Clockwork:
    """Fires schedules."""

    __slots__ = ("_book", "_deadlines", "_executions", "_upcoming", "wanting")

    def __init__(self, book: ScheduleBook, executions: Executions, deadlines: Deadlines[DeadlineKey]) -> None:
        self._book = book
        self._executions = executions
        self._deadlines = deadlines
        self._upcoming: dict[StreamId, _Upcoming] = {}
        self.wanting: dict[StreamId, None] = {}
        """Schedules whose next fires the shell is to compute, longest waiting first."""

    def watch(self, state: ScheduleState) -> None:
        """The schedule changed, or came back: what is known of its fires may not hold any more."""
        self.forget(state)
        if state.status is ScheduleStatus.ACTIVE or state.pauses:
            self.wanting[state.stream_id] = None

    def forget(self, state: ScheduleState) -> None:
        """It does not fire any more."""
        self.wanting.pop(state.stream_id, None)
        if self._upcoming.pop(state.stream_id, None) is not None:
            self._deadlines.disarm(FireDue(state.stream_id))

    def stands(self, state: ScheduleState) -> tuple[bool, bool]:
        """Whether its fires are wanted, and whether there is one to come, for inspection."""
        return state.stream_id in self.wanting, state.stream_id in self._upcoming

    def provide(self, turn: Turn, command: ProvideFires) -> Answer:
        """Take in fires, and handle those that are due [SCHED-13].

        They must be computed at this very instant and from what is in force; otherwise the schedule goes on wanting.
        """
        state = self._book.find(command.stream_id)
        if command.stream_id not in self.wanting or state is None:
            return None
        if command.as_of != turn.now or command.revision != state.revision:
            return None
        del self.wanting[command.stream_id]
        for paused in command.paused:
            self._pass_by(turn, state, paused, FireOutcome.SKIPPED, SkipReason.PAUSED)
        if state.status is not ScheduleStatus.ACTIVE:
            return None
        if command.missed.count:
            self._pass_by(turn, state, command.missed, FireOutcome.MISSED, SkipReason.NONE)
        due = tuple(takewhile(lambda fire: fire.due <= turn.now, command.fires))
        if due:
            self.fire(turn, state, [fire.nominal for fire in due], rest=command.rest)
        self._keep(state, command.fires[len(due) :], is_last=command.is_last)
        return None

    def fire_due(self, turn: Turn, stream_id: StreamId) -> None:
        """The next known fire is due. More than is known, or too late, is for the shell to find out [SCHED-13]."""
        state, upcoming = self._book.of_stream(stream_id), self._upcoming.pop(stream_id)
        due = list(takewhile(lambda fire: fire.due <= turn.now, upcoming.fires))
        is_all = len(due) == len(upcoming.fires) and not upcoming.is_last
        if is_all or due[0].due < turn.now - window_ms(state):
            self.wanting[stream_id] = None
            return
        self.fire(turn, state, [fire.nominal for fire in due])
        self._keep(state, upcoming.fires[len(due) :], is_last=upcoming.is_last)

    def fire(
        self,
        turn: Turn,
        state: ScheduleState,
        nominals: Sequence[int],
        *,
        rest: FireCount = NO_FIRES,
        overlap: OverlapPolicy | None = None,
        by_hand: bool = False,
    ) -> None:
        """Handle fires, planned or by hand, in the order given."""
        fires = FirePass(
            state,
            emit=lambda event: self._book.emit(turn, state, event),
            start=lambda nominal: self._executions.start(turn, state, nominal, waiting=None, by_hand=by_hand),
            overlap=overlap,
            by_hand=by_hand,
        )
        for nominal in nominals:
            fires.fire(nominal)
        fires.fire_rest(rest)
        self._executions.go_on(turn, state)

    def _keep(self, state: ScheduleState, fires: Sequence[Fire], *, is_last: bool) -> None:
        if fires:
            self._upcoming[state.stream_id] = _Upcoming(fires, is_last)
            self._deadlines.arm(FireDue(state.stream_id), fires[0].due)
        elif not is_last:
            self.wanting[state.stream_id] = None

    def _pass_by(
        self, turn: Turn, state: ScheduleState, span: FireCount, outcome: FireOutcome, reason: SkipReason
    ) -> None:
        ends_pause = reason is SkipReason.PAUSED
        passed = OccurrencesPassed(
            outcome, reason, span.first, span.last, span.count, span.is_at_least, ends_pause=ends_pause
        )
        self._book.emit(turn, state, passed)


def window_ms(state: ScheduleState) -> int:
    """How late a fire may be and still be handled [SCHED-13]."""
    return max(state.policy.catch_up_window_ms, CATCH_UP_WINDOW_MS_MIN)
