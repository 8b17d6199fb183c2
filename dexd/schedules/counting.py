"""How many fires lie in a span of time, without going through them one by one where that would be long [SCHED-14].

On a day without a change of the clock every matching day has the same times, so that only its ends need arithmetic.
"""

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from itertools import product, takewhile

from dexd.core.schedules.occurrences import FireCount
from dexd.schedules.cron import Cron
from dexd.schedules.plan import CronNominals, IntervalNominals, Plan
from dexd.schedules.readings import Readings
from dexd.schedules.wall_clock import from_reading

COUNT_MAX = 100_000
"""From so many fires on a count says "at least" [SCHED-14]."""

EDGE_MAX = 10_000
"""Fires whose jitter is looked at one by one at either end of a span."""


def count_fires(plan: Plan, after: int, until: int, *, since: int) -> FireCount:
    """Count the fires due after an instant and not after another, of those planned after `since`."""
    first = next(iter(plan.due_after(after, since=since)), None)
    if first is None or first.due > until:
        return FireCount()
    jitter_ms = plan.spec.jitter_ms
    if not jitter_ms:
        found = _count_nominals(plan, max(after, since), until)
        is_at_least = found >= COUNT_MAX
    else:
        middle = max(after, since), until - jitter_ms
        found = _count_nominals(plan, *middle) if middle[0] < middle[1] else 0
        before, was_cut = _count_edge(plan, max(since, after - jitter_ms), middle[0], (after, until))
        behind, is_cut = _count_edge(plan, max(middle), until, (after, until))
        found += before + behind
        is_at_least = found >= COUNT_MAX or was_cut or is_cut
    counted = min(found, COUNT_MAX)
    return FireCount(counted, first.nominal, first.nominal if counted == 1 else until, is_at_least)


def _count_edge(plan: Plan, after: int, until: int, due: tuple[int, int]) -> tuple[int, bool]:
    found = 0
    for seen, nominal in enumerate(takewhile(lambda nominal: nominal <= until, plan.nominal_after(after))):
        if seen == EDGE_MAX:
            return found, True
        found += plan.is_due_within(nominal, *due)
    return found, False


def _count_nominals(plan: Plan, after: int, until: int) -> int:
    """Count nominal instants after one instant and not after another; stops soon after the most that is told."""
    spec = plan.spec
    if spec.start_at is not None:
        after = max(after, spec.start_at)
    if spec.end_at is not None:
        until = min(until, spec.end_at)
    if until <= after:
        return 0
    nominals = plan.nominals
    if isinstance(nominals, IntervalNominals):
        interval_ms, base = nominals.interval_ms, nominals.base
        return (until - base) // interval_ms - (after - base) // interval_ms
    assert isinstance(nominals, CronNominals)
    return _count_days(nominals, after, until)


def _count_days(nominals: CronNominals, after: int, until: int) -> int:
    clock, times = nominals.clock, _Times(nominals.cron)
    first_day = clock.earliest_reading(after).replace(hour=0, minute=0, second=0)
    last_reading = clock.latest_reading(until)
    found = 0
    uneven: set[int] = set()
    for day in Readings(nominals.cron, last_reading, dates_only=True).after(first_day):
        if clock.is_even(day):
            midnight = from_reading(day) - clock.offsets(day)[0]
            found += times.up_to(until - midnight) - times.up_to(after - midnight)
        else:
            uneven.update(
                instant
                for reading in times.readings(day)
                for instant in nominals.instants(reading)
                if after < instant <= until
            )
        if found + len(uneven) >= COUNT_MAX:
            break
    return found + len(uneven)


class _Times:
    """The times of day of an expression."""

    __slots__ = ("_cron",)

    def __init__(self, cron: Cron) -> None:
        self._cron = cron

    def up_to(self, since_midnight_ms: int) -> int:
        """How many there are until then."""
        if since_midnight_ms < 0:
            return 0
        cron = self._cron
        minutes, second = divmod(since_midnight_ms // 1_000, 60)
        hour, minute = divmod(minutes, 60)
        of_minute, of_hour = len(cron.seconds), len(cron.minutes) * len(cron.seconds)
        found = bisect_left(cron.hours, hour) * of_hour
        if hour in cron.hours:
            found += bisect_left(cron.minutes, minute) * of_minute
            if minute in cron.minutes:
                found += bisect_right(cron.seconds, second)
        return found

    def readings(self, day: datetime) -> list[datetime]:
        """All of a day."""
        cron = self._cron
        return [
            day + timedelta(hours=hour, minutes=minute, seconds=second)
            for hour, minute, second in product(cron.hours, cron.minutes, cron.seconds)
        ]
