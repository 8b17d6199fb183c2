"""Cron text [SCHED-4]: a grammar of our own, so that every fault is named with its field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

TEXT_LENGTH_MAX = 255
_MINUTE_MS = 60_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": _MINUTE_MS, "h": 60 * _MINUTE_MS, "d": 24 * 60 * _MINUTE_MS}
_DURATION = re.compile(r"(?:\d+(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+)(ms|s|m|h|d)")

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


class CronError(ValueError):
    """The text is no cron expression; the message names the field."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression: of each field the values that match, ascending."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """0 is Sunday."""
    is_every_hour: bool
    """The hour field starts with `*`, so readings are taken as they come [SCHED-7]."""
    is_either_day: bool
    """Day and weekday are both restricted, so that a day matching either fires [SCHED-5]."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    smallest: int
    largest: int
    names: Mapping[str, int]


def _numbered(text: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(text.split(), first)}


_SECOND = _Field("second", 0, 59, {})
_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1)),
    _Field("weekday", 0, 7, _numbered("SUN MON TUE WED THU FRI SAT", 0)),
)


def parse_cron(text: str) -> Cron | int:
    """Read an expression, or the milliseconds of an `@every` interval.

    Raises:
        CronError: it is neither.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise CronError(f"cron text has {len(text)} characters, at most {TEXT_LENGTH_MAX} are allowed")
    words = text.split()
    if words and words[0].startswith("@"):
        if words[0].lower() == "@every":
            return _interval(words[1:])
        macro = _MACROS.get(words[0].lower()) if len(words) == 1 else None
        if macro is None:
            known = ", ".join((*_MACROS, "@every <duration>"))
            raise CronError(f"cron macro {text.strip()!r} is unknown; known are {known}")
        words = macro.split()
    if len(words) not in (5, 6):
        raise CronError(f"cron text has {len(words)} fields; 5 or, with seconds first, 6 are needed")
    seconds = _values(_SECOND, words[0]) if len(words) == 6 else (0,)
    minute, hour, day, month, weekday = words[-5:]
    return Cron(
        seconds,
        _values(_FIELDS[0], minute),
        _values(_FIELDS[1], hour),
        _values(_FIELDS[2], day),
        _values(_FIELDS[3], month),
        tuple(sorted({number % 7 for number in _values(_FIELDS[4], weekday)})),
        is_every_hour=hour.startswith("*"),
        is_either_day=not day.startswith("*") and not weekday.startswith("*"),
    )


def _interval(words: list[str]) -> int:
    if len(words) != 1 or _DURATION.fullmatch(words[0]) is None:
        raise CronError("@every needs one duration such as 90s, 15m or 1h30m")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _DURATION_PART.findall(words[0]))


def _values(field: _Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for item in text.split(","):
        found.update(_item(field, item))
    return tuple(sorted(found))


def _item(field: _Field, item: str) -> range:
    span, has_step, step_text = item.partition("/")
    step = 1
    if has_step:
        if not _is_number(step_text) or int(step_text) == 0:
            raise CronError(f"{field.name}: the step in {item!r} must be a number above 0")
        step = int(step_text)
    if span == "*":
        # Of weekdays, 7 is another name of Sunday and no day of its own that a step could reach.
        largest = 6 if field.largest == 7 else field.largest
        return range(field.smallest, largest + 1, step)
    first_text, is_range, last_text = span.partition("-")
    first = _number(field, first_text, item)
    if not is_range:
        if has_step:
            raise CronError(f"{field.name}: the step in {item!r} needs * or a range before it")
        return range(first, first + 1)
    last = _number(field, last_text, item)
    if last < first:
        raise CronError(f"{field.name}: the range {span!r} ends before it begins; write it as two")
    return range(first, last + 1, step)


def _number(field: _Field, text: str, item: str) -> int:
    named = field.names.get(text.upper())
    if named is not None:
        return named
    if not _is_number(text):
        raise CronError(f"{field.name}: {item!r} is no number, name, range or *")
    number = int(text)
    if not field.smallest <= number <= field.largest:
        raise CronError(f"{field.name}: {number} is outside {field.smallest} to {field.largest}")
    return number


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
