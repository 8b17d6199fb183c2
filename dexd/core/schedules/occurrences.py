"""Occurrences: the names of fires, and the fires as they come in from outside [SCHED-2, SCHED-10]."""

import hashlib

import msgspec

from dexd.core.ids import FlowId, RequestId, ScheduleId
from dexd.core.schedules.spec import ScheduleAction

SCHEDULE_ID_LENGTH_MAX = 230
"""Longest schedule ID; with an instant it is a Flow ID still [SCHED-1]."""

_DAY_MS = 86_400_000


class Fire(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A planned fire."""

    nominal: int
    """What the plan says; names the occurrence."""
    due: int
    """When it happens, late by its jitter."""


class FireCount(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fires of a span of time, counted up to a limit [SCHED-14]."""

    count: int = 0
    first: int = 0
    """Nominal instant of the first; 0 if there is none."""
    last: int = 0
    """That of the last, or the end of the span."""
    is_at_least: bool = False
    """There were more than were counted."""


NO_FIRES = FireCount()


def occurrence_id(schedule_id: ScheduleId, nominal: int) -> RequestId:
    """[SCHED-2] Schedule ID, `@`, UTC instant."""
    return RequestId(f"{schedule_id}@{instant_text(nominal)}")


def flow_id_of(schedule_id: ScheduleId, action: ScheduleAction, nominal: int) -> FlowId:
    """The Flow ID of an occurrence's execution [SCHED-2]."""
    return action.flow_id or FlowId(occurrence_id(schedule_id, nominal))


def due_at(schedule_id: ScheduleId, nominal: int, jitter_ms: int) -> int:
    """When an occurrence fires: its jitter follows from its ID, so that preview equals reality [SCHED-10]."""
    if not jitter_ms:
        return nominal
    digest = hashlib.sha256(occurrence_id(schedule_id, nominal).encode()).digest()
    return nominal + int.from_bytes(digest[:8], "big") % (jitter_ms + 1)


def instant_text(instant: int) -> str:
    """An instant as RFC 3339 text in UTC with milliseconds, as `2026-03-08T07:30:00.000Z`."""
    days, rest = divmod(instant, _DAY_MS)
    year, month, day = _civil(days)
    seconds, milliseconds = divmod(rest, 1_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The date so many days after 1970-01-01; in years that begin in March a leap day is the last one."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, day
