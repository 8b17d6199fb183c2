"""Durations and instants as integer milliseconds, the one unit that leaves the process [TIMER-2]."""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Duration: TypeAlias = timedelta | float
"""A timedelta, or a number of seconds."""

DURATION_DAYS_MAX = 36_525
"""100 years; the longest duration anywhere in the product [TIMER-2]."""

_SECONDS_MAX = DURATION_DAYS_MAX * 86_400
_LONGEST = timedelta(days=DURATION_DAYS_MAX)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_duration_ms(duration: Duration, what: str) -> int:
    """Convert to whole milliseconds, parts of one rounded up [TIMER-2].

    Raises:
        ValueError: not a duration, negative, longer than 100 years, NaN or infinite; the text names ``what``.
    """
    if type(duration) is int and 0 <= duration <= _SECONDS_MAX:
        return duration * 1000
    exact = _to_timedelta(duration, what)
    if not timedelta(0) <= exact <= _LONGEST:
        raise ValueError(f"{what} is {duration!r}, allowed are 0 to {DURATION_DAYS_MAX} days")
    # Integer floor division of timedeltas is exact; negating both sides makes it a ceiling.
    return -(-exact // _MILLISECOND)


def optional_duration_ms(duration: Duration | None, what: str) -> int | None:
    """Convert a duration that may be unset."""
    return None if duration is None else to_duration_ms(duration, what)


def to_instant_ms(instant: datetime, what: str) -> int:
    """Convert an aware datetime, parts of a millisecond rounded up so that nothing fires early [TIMER-1, TIMER-4].

    Raises:
        ValueError: not a datetime, or a naive one.
    """
    if not isinstance(instant, datetime):
        raise ValueError(f"{what} is {instant!r}, a datetime with a time zone is needed")
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise ValueError(f"{what} is the naive datetime {instant.isoformat()}, a time zone is needed")
    return -(-(instant - _EPOCH) // _MILLISECOND)


def from_instant_ms(instant_ms: int) -> datetime:
    """Give the aware UTC datetime of an instant."""
    return _EPOCH + timedelta(milliseconds=instant_ms)


def _to_timedelta(duration: Duration, what: str) -> timedelta:
    if isinstance(duration, timedelta):
        return duration
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise ValueError(f"{what} is {duration!r}, a timedelta or a number of seconds is needed")
    # The comparison also refuses NaN, infinity and ints that no float can hold, each without an OverflowError.
    if not 0 <= duration <= _SECONDS_MAX:
        raise ValueError(f"{what} is {duration!r} s, allowed are 0 to {DURATION_DAYS_MAX} days")
    exact = timedelta(seconds=duration)
    # timedelta rounds to microseconds; what it rounds to nothing is still a part of a millisecond.
    return exact if duration == 0 or exact else timedelta(microseconds=1)
