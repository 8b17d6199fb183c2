"""Readings of a wall clock and instants: which instants a reading stands for [SCHED-7, SCHED-8].

Readings are naive datetimes, instants and offsets milliseconds. `zoneinfo` says by the two values of `fold` how a
reading stands: equal offsets are a plain reading; the larger one first is a reading that comes twice; the smaller one
first is a reading in a gap, which does not exist, and the first is the offset before the change.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dexd.core.schedules.spec import FoldPolicy, GapPolicy

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - readings have no zone
_MILLISECOND = timedelta(milliseconds=1)
_HOUR_MS = 3_600_000

NEAR_HOURS = (-26, -13, -3, 0, 3, 13, 26)
"""Where to look for a clock change near an instant: none was larger than a day, and none is closer to the next one than
these are to each other."""


class WallClock:
    """A zone's clock."""

    __slots__ = ("_zone",)

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def offset_at(self, instant: int) -> int:
        """Milliseconds that the clock is ahead of UTC."""
        utc = (_EPOCH + instant * _MILLISECOND).replace(tzinfo=UTC)
        return _milliseconds(utc.astimezone(self._zone).utcoffset())

    def earliest_reading(self, instant: int) -> datetime:
        """A reading before which none stands for a later instant, whatever the policies."""
        smallest = min(self.offset_at(instant + hours * _HOUR_MS) for hours in NEAR_HOURS)
        return to_reading(instant + smallest)

    def latest_reading(self, instant: int) -> datetime:
        """A reading after which none stands for an earlier or that instant."""
        largest = max(self.offset_at(instant + hours * _HOUR_MS) for hours in NEAR_HOURS)
        return to_reading(instant + largest)

    def offsets(self, reading: datetime) -> tuple[int, int]:
        """The offsets of the first and of the second pass."""
        aware = reading.replace(tzinfo=self._zone)
        return _milliseconds(aware.utcoffset()), _milliseconds(aware.replace(fold=1).utcoffset())

    def instants(self, reading: datetime, gap: GapPolicy, fold: FoldPolicy) -> tuple[int, ...]:
        """The instants that a reading stands for, ascending: none, one, or both passes."""
        before, after = self.offsets(reading)
        wall = from_reading(reading)
        if before == after:
            return (wall - before,)
        if before < after:
            return (wall - before,) if gap is GapPolicy.SHIFT else ()
        if fold is FoldPolicy.BOTH:
            return wall - before, wall - after
        return (wall - before if fold is FoldPolicy.FIRST else wall - after,)

    def is_even(self, date: datetime) -> bool:
        """Whether no clock change is near that day."""
        midnight = from_reading(date) - self.offsets(date)[0]
        offset = self.offset_at(midnight)
        return all(
            self.offset_at(midnight + hours * _HOUR_MS) == offset for hours in (-26, -13, -3, 6, 12, 18, 24, 37, 50)
        )


def to_reading(wall: int) -> datetime:
    """The reading of a clock that shows so many milliseconds since the epoch, to the second below."""
    return _EPOCH + timedelta(seconds=wall // 1_000)


def from_reading(reading: datetime) -> int:
    """Milliseconds that a clock shows."""
    return (reading - _EPOCH) // _MILLISECOND


def _milliseconds(offset: timedelta | None) -> int:
    assert offset is not None, "the datetime has a zone"
    return offset // _MILLISECOND
