"""Wall-clock readings that match a cron expression, from APScheduler's CronTrigger [SCHED-5, SCHED-6].

The trigger works in UTC on what are really readings of some wall clock: it is never given the real zone, because it
repeats the fold hour without end; nor numbers of weekdays, because it reads 0 as Monday; and always an end, because it
would search to the year 9999.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import pairwise
from typing import Any

from apscheduler.triggers.cron import CronTrigger

from dexd.schedules.cron import Cron

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Readings:
    """The readings of an expression in order, after any reading, up to an end."""

    __slots__ = ("_cron", "_end", "_triggers", "resolution")

    def __init__(self, cron: Cron, end: datetime, *, dates_only: bool = False) -> None:
        """`end` is naive, as all readings are; `dates_only` gives midnight of each day that has a reading."""
        self._cron = cron
        self._end = end
        self.resolution = timedelta(days=1) if dates_only else timedelta(seconds=1)
        """Distance of two readings at least."""
        self._triggers = [] if is_impossible(cron) else _triggers(cron, end, dates_only=dates_only)

    def after(self, reading: datetime) -> Iterator[datetime]:
        """All readings at or after that one."""
        if len(self._triggers) == 1:
            return _fired(self._triggers[0], reading)
        return _without_repeats(merge(*(_fired(trigger, reading) for trigger in self._triggers)))


def is_impossible(cron: Cron) -> bool:
    """Whether no year has such a day, as the 30th of February [SCHED-9]; a search would find that out slowly."""
    if cron.is_either_day:
        return False
    return all(day > _LONGEST_MONTHS[month - 1] for month in cron.months for day in cron.days)


def _triggers(cron: Cron, end: datetime, *, dates_only: bool) -> list[Any]:
    """One trigger, or two when a day matching either field fires [SCHED-5]."""
    fields = {"month": _text(cron.months, 1, 12)}
    if dates_only:
        fields |= {"hour": "0", "minute": "0", "second": "0"}
    else:
        fields |= {
            "hour": _text(cron.hours, 0, 23),
            "minute": _text(cron.minutes, 0, 59),
            "second": _text(cron.seconds, 0, 59),
        }
    days = {"day": _text(cron.days, 1, 31)}
    weekdays = {
        "day_of_week": ",".join(_WEEKDAYS[number] for number in cron.weekdays) if len(cron.weekdays) < 7 else "*"
    }
    either = (days, weekdays) if cron.is_either_day else ({**days, **weekdays},)
    last = end.replace(tzinfo=UTC)
    return [CronTrigger(**fields, **restriction, end_date=last, timezone=UTC) for restriction in either]


def _text(values: tuple[int, ...], smallest: int, largest: int) -> str:
    """The values in the trigger's words, short ones, because it tries them one after the other."""
    if len(values) == largest - smallest + 1:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > 2 and len(steps) == 1:
        return f"{values[0]}-{values[-1]}/{steps.pop()}"
    return ",".join(map(str, values))


def _fired(trigger: Any, reading: datetime) -> Iterator[datetime]:
    following = reading.replace(tzinfo=UTC)
    while (found := trigger.get_next_fire_time(None, following)) is not None:
        yield found.replace(tzinfo=None)
        following = found + timedelta(seconds=1)


def _without_repeats(readings: Iterator[datetime]) -> Iterator[datetime]:
    last = None
    for reading in readings:
        if reading != last:
            yield reading
        last = reading
