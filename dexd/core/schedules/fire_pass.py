"""What fires lead to, one after the other in one turn [SCHED-11..14]."""

from collections.abc import Callable

from dexd.core.schedules.events import FireOutcome, OccurrenceBuffered, OccurrencesPassed, ScheduleEvent, SkipReason
from dexd.core.schedules.occurrences import FireCount
from dexd.core.schedules.spec import OverlapPolicy
from dexd.core.schedules.state import ScheduleState, ScheduleStatus

BUFFER_MAX = 1_000
"""Occurrences that may wait [SCHED-11]."""

CATCH_UP_MAX = 1_000
"""Starts after downtime, those that have to wait included [SCHED-13]."""

_REPLACING = (OverlapPolicy.CANCEL_OTHER, OverlapPolicy.TERMINATE_OTHER)


class FirePass:
    """Takes the fires of one span, in the order in which they are due, and records what becomes of each.

    Consecutive ones that lead to nothing become one record [SCHED-14]. `close` it at the end.
    """

    __slots__ = ("_by_hand", "_count", "_emit", "_first", "_last", "_left", "_overlap", "_start", "_state", "_verdict")

    def __init__(
        self,
        state: ScheduleState,
        *,
        emit: Callable[[ScheduleEvent], None],
        start: Callable[[int], None],
        overlap: OverlapPolicy | None = None,
        by_hand: bool = False,
    ) -> None:
        """Begin.

        Args:
            state: The schedule; it changes with every event.
            emit: Records and folds an event.
            start: Begins the start of an occurrence.
            overlap: In place of the schedule's policy.
            by_hand: A client asks for them; then nothing limits the number of starts.
        """
        self._state = state
        self._emit = emit
        self._start = start
        self._overlap = state.policy.overlap if overlap is None else overlap
        self._by_hand = by_hand
        self._left = CATCH_UP_MAX
        self._verdict: tuple[FireOutcome, SkipReason] | None = None
        self._count = self._first = self._last = 0

    def fire(self, nominal: int) -> None:
        """Decide about one fire."""
        outcome, reason = self._decide(nominal)
        if outcome in (FireOutcome.STARTED, FireOutcome.BUFFERED):
            self.close()
            self._left -= not self._by_hand
            if outcome is FireOutcome.STARTED:
                self._start(nominal)
            else:
                self._emit(OccurrenceBuffered(nominal, self._overlap, self._by_hand))
            return
        if self._verdict != (outcome, reason):
            self.close()
            self._verdict, self._first = (outcome, reason), nominal
        self._last = nominal
        self._count += 1

    def fire_rest(self, rest: FireCount) -> None:
        """Decide about all that follow: more than can start, so that they all end alike [SCHED-13]."""
        self.close()
        if rest.count:
            outcome, reason = _REST.get(self._overlap, _MISSED)
            self._emit(OccurrencesPassed(outcome, reason, rest.first, rest.last, rest.count, rest.is_at_least))

    def close(self) -> None:
        """Record what is not recorded yet."""
        if self._verdict is not None:
            outcome, reason = self._verdict
            self._emit(OccurrencesPassed(outcome, reason, self._first, self._last, self._count, by_hand=self._by_hand))
        self._verdict = None
        self._count = 0

    def _decide(self, nominal: int) -> tuple[FireOutcome, SkipReason]:
        """Decide by the policy.

        1. An occurrence that waits or runs already is not started again [SCHED-2].
        2. Without an open execution of the schedule, and with ALLOW_ALL in any case, it starts.
        3. SKIP skips it; the others have it wait while there is room [SCHED-11].
        4. After downtime only so many start, the others are missed [SCHED-13].
        """
        state, overlap = self._state, self._overlap
        if nominal <= state.last_nominal and _is_under_way(state, nominal):
            return _OVERLAP
        if overlap is OverlapPolicy.ALLOW_ALL or not state.open:
            return _STARTED if self._left else _MISSED
        if overlap is OverlapPolicy.SKIP:
            return _OVERLAP
        room = 1 if overlap is OverlapPolicy.BUFFER_ONE else BUFFER_MAX
        if len(state.buffer) >= room:
            return _MISSED if overlap in _REPLACING else _BUFFER_FULL
        return _BUFFERED if self._left else _REST.get(overlap, _MISSED)


def next_waiting(state: ScheduleState) -> bool:
    """Whether the first occurrence that waits may go on; in a pause only one that a client asked for."""
    return bool(state.buffer) and (state.status is ScheduleStatus.ACTIVE or state.buffer[0].by_hand)


def is_replacing(overlap: OverlapPolicy) -> bool:
    """Whether open executions are stopped for it."""
    return overlap in _REPLACING


def _is_under_way(state: ScheduleState, nominal: int) -> bool:
    return nominal in state.open or any(waiting.nominal == nominal for waiting in state.buffer)


_STARTED = FireOutcome.STARTED, SkipReason.NONE
_BUFFERED = FireOutcome.BUFFERED, SkipReason.NONE
_MISSED = FireOutcome.MISSED, SkipReason.NONE
_OVERLAP = FireOutcome.SKIPPED, SkipReason.OVERLAP
_BUFFER_FULL = FireOutcome.SKIPPED, SkipReason.BUFFER_FULL

_REST = {
    OverlapPolicy.SKIP: _OVERLAP,
    OverlapPolicy.BUFFER_ONE: _BUFFER_FULL,
    OverlapPolicy.BUFFER_ALL: _BUFFER_FULL,
}
