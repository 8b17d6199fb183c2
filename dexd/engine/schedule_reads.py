"""What clients read of schedules: how they stand, when they fire next, what became of their fires [SCHED-1, SCHED-12].

State is read as it is decided and revealed once that is committed, as in `reads`; outcomes come from the log.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any, Protocol

from dexd.codec.event_codec import stream_event_from_stored
from dexd.codec.schedule_requests import (
    BackfillQuery,
    OutcomesQuery,
    PreviewQuery,
    ScheduleListQuery,
    ScheduleQuery,
)
from dexd.codec.schedule_views import OutcomePage, OutcomeView, ScheduleListPage, ScheduleView, from_schedule
from dexd.core.ids import ScheduleId
from dexd.core.kernel import Kernel
from dexd.core.outcome import BackfillAccepted, RecordedStreamEvent, Reply
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules.commands import BackfillSchedule
from dexd.core.schedules.events import (
    FireOutcome,
    OccurrenceSkipped,
    OccurrencesPassed,
    OccurrenceStarted,
    SkipReason,
)
from dexd.core.schedules.occurrences import Fire
from dexd.core.schedules.requests import refuse_unknown
from dexd.core.schedules.state import PausedSpan, ScheduleState, ScheduleStatus
from dexd.engine.ports import Clock, OnAnswer
from dexd.log.event_log import EventLog
from dexd.schedules.counting import count_fires
from dexd.schedules.plan import Plan

BACKFILL_MAX = 10_000
"""Fires of one backfill [SCHED-16]."""

PAGE_EVENTS = 1_000
"""Events of a schedule read at once."""

_FINAL = ("OccurrenceStarted", "OccurrenceSkipped", "OccurrencesPassed")


class Decided(Protocol):
    """What the engine knows beyond the log."""

    @property
    def kernel(self) -> Kernel:
        """Schedules as they are decided."""
        ...

    def reveal(self, on_answer: OnAnswer[Any], answer: Any) -> None:
        """Answer once everything decided so far is committed."""
        ...

    def request(self, command: Any, on_answer: OnAnswer[Reply]) -> None:
        """Submit a command."""
        ...


class ScheduleReads:
    """All reads of schedules of one partition, and the preparation of backfills. Queries come checked."""

    __slots__ = ("_clock", "_decided", "_log")

    def __init__(self, decided: Decided, log: EventLog, clock: Clock) -> None:
        self._decided = decided
        self._log = log
        self._clock = clock

    def describe(self, query: ScheduleQuery, on_answer: OnAnswer[Any]) -> None:
        """Tell how a schedule stands, the fires of a pause counted up to now [SCHED-14]."""
        state = self._find(query.schedule_id)
        self._decided.reveal(on_answer, state if isinstance(state, Rejection) else from_schedule(self._view(state)))

    def list_schedules(self, query: ScheduleListQuery, on_answer: OnAnswer[ScheduleListPage]) -> None:
        """Tell about the schedules that are not deleted, by ID."""
        names = sorted(
            state.schedule_id
            for state in self._decided.kernel.schedules
            if not state.is_deleted and state.schedule_id > query.after
        )
        shown = names[: query.limit]
        states = [state for name in shown if isinstance(state := self._find(name), ScheduleState)]
        page = tuple(from_schedule(self._view(state)) for state in states)
        self._decided.reveal(on_answer, ScheduleListPage(page, shown[-1] if len(names) > len(shown) else ""))

    def preview(self, query: PreviewQuery, on_answer: OnAnswer[tuple[int, ...]]) -> None:
        """Tell the next fires: from the spec's start if it has one, even in the past, else from now [SCHED-3]."""
        if query.schedule_id is None:
            plan = Plan(ScheduleId(""), query.spec)
            begin = self._clock.now() if query.spec.start_at is None else query.spec.start_at
            on_answer(tuple(islice(plan.nominal_after(begin), query.count)))
            return
        state = self._find(query.schedule_id)
        if isinstance(state, Rejection):
            self._decided.reveal(on_answer, state)
            return
        begin = self._clock.now() if state.spec.start_at is None else state.spec.start_at
        since = state.since if state.spec.start_at is None else begin
        fires = Plan(state.schedule_id, state.spec).due_after(begin, since=since)
        self._decided.reveal(on_answer, tuple(fire.due for fire in islice(fires, query.count)))

    def outcomes(self, query: OutcomesQuery, on_answer: OnAnswer[OutcomePage]) -> None:
        """Tell what became of the fires, from an event of the schedule on."""
        state = self._find(query.schedule_id)
        if isinstance(state, Rejection):
            self._decided.reveal(on_answer, state)
            return
        found = list(islice(self._final(state, query.from_version), query.limit + 1))
        outcomes = [_outcome(recorded) for recorded in found[: query.limit]]
        next_version = found[-1].version if len(found) > query.limit else 0
        if not next_version:
            outcomes += _waiting(state)
        self._decided.reveal(on_answer, OutcomePage(query.schedule_id, tuple(outcomes), next_version))

    def backfill(self, query: BackfillQuery, on_answer: OnAnswer[tuple[int, ...]]) -> None:
        """Find out which fires of a span are to be handled, and have them handled unless it is a dry run [SCHED-16].

        Those that were started before are left out, as the schedule's own record tells [SCHED-2].
        """
        state = self._find(query.schedule_id)
        if isinstance(state, Rejection):
            self._decided.reveal(on_answer, state)
            return
        now = self._clock.now()
        if query.end_at > now:
            field = {"field": "end_at", "schedule_id": state.schedule_id}
            message = "end_at lies in the future; a backfill handles fires of the past"
            on_answer(Rejection(Code.INVALID_ARGUMENT, message, field))
            return
        fires = self._unstarted(state, query, now)
        if len(fires) > BACKFILL_MAX:
            message = f"the span has more than {BACKFILL_MAX} fires; backfill it in parts"
            on_answer(Rejection(Code.INVALID_ARGUMENT, message, {"field": "end_at", "schedule_id": state.schedule_id}))
            return
        nominals = tuple(fire.nominal for fire in fires)
        if query.is_dry_run:
            self._decided.reveal(on_answer, nominals)
            return
        command = BackfillSchedule(
            query.schedule_id,
            query.request_id,
            query.digest,
            query.start_at,
            query.end_at,
            tuple(fires),
            query.overlap,
        )
        self._decided.request(command, partial(_answer_backfill, nominals, on_answer))

    def _find(self, schedule_id: ScheduleId) -> ScheduleState | Rejection:
        state = self._decided.kernel.schedules.get(schedule_id)
        return refuse_unknown(schedule_id) if state is None or state.is_deleted else state

    def _view(self, state: ScheduleState) -> ScheduleView:
        now = self._clock.now()
        skipped = {SkipReason(reason): count for reason, count in state.counts.skipped.items()}
        is_at_least = state.counts.is_at_least
        pauses = list(state.pauses)
        if state.status is ScheduleStatus.PAUSED:
            pauses.append(PausedSpan(state.spec, state.since, state.through, now))
        for span in pauses:
            plan = Plan(state.schedule_id, span.spec)
            counted = count_fires(plan, span.after, span.until, since=span.since)
            skipped[SkipReason.PAUSED] = skipped.get(SkipReason.PAUSED, 0) + counted.count
            is_at_least = is_at_least or counted.is_at_least
        following = next(Plan(state.schedule_id, state.spec).due_after(now, since=state.since), None)
        if following is None:
            return ScheduleView(state, "EXHAUSTED", 0, skipped, is_at_least)
        next_fire_at = following.due if state.status is ScheduleStatus.ACTIVE else 0
        return ScheduleView(state, state.status.name, next_fire_at, skipped, is_at_least)

    def _unstarted(self, state: ScheduleState, query: BackfillQuery, now: int) -> Sequence[Fire]:
        plan = Plan(state.schedule_id, state.spec)
        until = query.end_at
        started = {
            recorded.event.nominal
            for recorded in self._final(state, self._first_version_at(state, query.start_at))
            if isinstance(recorded.event, OccurrenceStarted)
        }
        found: list[Fire] = []
        for fire in takewhile(lambda fire: fire.nominal < until, _fires(plan, query.start_at - 1)):
            if fire.nominal not in started and fire.nominal not in state.open and fire.due <= now:
                found.append(fire)
                if len(found) > BACKFILL_MAX:
                    break
        return found

    def _final(self, state: ScheduleState, from_version: int) -> Iterator[RecordedStreamEvent]:
        """Committed events that tell a final outcome."""
        version = from_version
        while page := self._log.read_stream(state.stream_id, version, PAGE_EVENTS, _FINAL):
            yield from map(stream_event_from_stored, page)
            version = page[-1].version + 1

    def _first_version_at(self, state: ScheduleState, instant: int) -> int:
        """The first event at or after an instant: instants do not run back, so halving finds it."""
        smallest, largest = 1, state.version
        while smallest < largest:
            middle = (smallest + largest) // 2
            page = self._log.read_stream(state.stream_id, middle, 1)
            if page and page[0].at < instant:
                smallest = middle + 1
            else:
                largest = middle
        return smallest


def _fires(plan: Plan, after: int) -> Iterator[Fire]:
    """Fires by nominal instant."""
    return (plan.fire_of(nominal) for nominal in plan.nominal_after(after))


def _outcome(recorded: RecordedStreamEvent) -> OutcomeView:
    event = recorded.event
    if isinstance(event, OccurrenceStarted):
        return OutcomeView(
            FireOutcome.STARTED,
            SkipReason.NONE,
            event.nominal,
            event.nominal,
            1,
            flow_id=event.flow_id,
            run_id=event.run_id,
            at=recorded.at,
        )
    if isinstance(event, OccurrenceSkipped):
        return OutcomeView(FireOutcome.SKIPPED, event.reason, event.nominal, event.nominal, 1, at=recorded.at)
    assert isinstance(event, OccurrencesPassed), "the types that were read"
    return OutcomeView(
        event.outcome, event.reason, event.first, event.last, event.count, event.is_at_least, at=recorded.at
    )


def _waiting(state: ScheduleState) -> list[OutcomeView]:
    """What is decided and not final."""
    starting = [execution.nominal for execution in state.open.values() if not execution.run_id]
    return [
        OutcomeView(FireOutcome.BUFFERED, SkipReason.NONE, nominal, nominal, 1)
        for nominal in (*starting, *(waiting.nominal for waiting in state.buffer))
    ]


def _answer_backfill(nominals: tuple[int, ...], on_answer: OnAnswer[Any], reply: Reply | Rejection) -> None:
    on_answer(nominals if isinstance(reply, BackfillAccepted) else reply)
