"""Computes the next fires of schedules for the kernel, which knows no calendar [SCHED-6].

What was computed is kept, so that a schedule that just goes on costs one step of its calendar per fire.
"""

from collections.abc import Iterator
from itertools import chain

from dexd.core.ids import StreamId
from dexd.core.schedules.clockwork import window_ms
from dexd.core.schedules.commands import ProvideFires
from dexd.core.schedules.fire_pass import CATCH_UP_MAX
from dexd.core.schedules.occurrences import NO_FIRES, Fire, FireCount
from dexd.core.schedules.state import ScheduleState, ScheduleStatus
from dexd.schedules.counting import count_fires
from dexd.schedules.plan import Plan

AHEAD = 16
"""Fires computed ahead: few, because a server may start with thousands of schedules, while one of every second would
hardly be cheaper with more."""

DUE_MAX = CATCH_UP_MAX + 1
"""Fires handled one by one after downtime; whatever is due beyond them ends alike and is counted [SCHED-13]."""


class _Course:
    """The fires of one schedule from some instant on, as far as they were looked at."""

    __slots__ = ("_ahead", "_fires", "_from", "plan", "revision")

    def __init__(self, state: ScheduleState, after: int) -> None:
        self.plan = Plan(state.schedule_id, state.spec)
        self.revision = state.revision
        self._from = after
        self._fires: Iterator[Fire] = self.plan.due_after(after, since=state.since)
        self._ahead: list[Fire] = []

    def covers(self, state: ScheduleState, after: int) -> bool:
        """Whether it can go on from an instant."""
        return self.revision == state.revision and self._from <= after

    def take(self, after: int, now: int) -> tuple[tuple[Fire, ...], bool, bool]:
        """Give the fires after an instant; whether more are due, and whether there are no more.

        Those that are due, up to the most that are handled one by one, and then a few that follow.
        """
        taken: list[Fire] = []
        source = chain([fire for fire in self._ahead if fire.due > after], self._fires)
        due = 0
        for fire in source:
            if fire.due <= after:
                continue
            if fire.due > now and due >= DUE_MAX:
                # Nothing behind these is due, so that the next look begins here.
                self._keep(after, [*taken, fire])
                return tuple(taken), False, False
            if due >= DUE_MAX and fire.due > taken[-1].due:
                self._keep(after, [*taken, fire])
                return tuple(taken), True, False
            taken.append(fire)
            due += fire.due <= now
            if len(taken) - due == AHEAD:
                self._keep(after, taken)
                return tuple(taken), False, False
        self._keep(after, taken)
        return tuple(taken), False, True

    def _keep(self, after: int, fires: list[Fire]) -> None:
        self._from, self._ahead = after, fires


class FirePump:
    """Has the courses of all schedules that fire."""

    __slots__ = ("_courses",)

    def __init__(self) -> None:
        self._courses: dict[StreamId, _Course] = {}

    def provide(self, state: ScheduleState, now: int) -> ProvideFires:
        """Compute what the kernel wants to know of a schedule at this instant."""
        paused = tuple(
            count_fires(Plan(state.schedule_id, span.spec), span.after, span.until, since=span.since)
            for span in state.pauses
        )
        if state.status is not ScheduleStatus.ACTIVE:
            return ProvideFires(state.stream_id, state.revision, now, paused, NO_FIRES, (), NO_FIRES, is_last=True)
        after = max(state.through, now - window_ms(state) - 1)
        course = self._courses.get(state.stream_id)
        if course is None or not course.covers(state, after):
            course = self._courses[state.stream_id] = _Course(state, after)
        missed = self._count(course.plan, state, state.through, after)
        fires, is_more_due, is_last = course.take(after, now)
        rest = self._count(course.plan, state, fires[-1].due, now) if is_more_due else NO_FIRES
        return ProvideFires(state.stream_id, state.revision, now, paused, missed, fires, rest, is_last=is_last)

    def forget(self, stream_id: StreamId) -> None:
        """The schedule does not fire any more."""
        self._courses.pop(stream_id, None)

    def _count(self, plan: Plan, state: ScheduleState, after: int, until: int) -> FireCount:
        return count_fires(plan, after, until, since=state.since) if after < until else NO_FIRES
