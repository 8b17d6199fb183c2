"""The fires of a schedule: every instant of its spec, in order and counted [SCHED-3, SCHED-7..10, SCHED-14]."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from typing import Protocol
from zoneinfo import ZoneInfo, available_timezones

from dexd.core.ids import ScheduleId
from dexd.core.schedules.occurrences import Fire, due_at
from dexd.core.schedules.spec import FoldPolicy, GapPolicy, ScheduleSpec
from dexd.schedules.cron import Cron, parse_cron
from dexd.schedules.readings import Readings
from dexd.schedules.wall_clock import WallClock, from_reading, to_reading

HORIZON_MS = 36_525 * 86_400_000
"""How far a search for the next fire goes: a hundred years [SCHED-9]."""


class Nominals(Protocol):
    """The nominal instants of a spec."""

    def after(self, instant: int) -> Iterator[int]:
        """All of them after an instant, ascending, for a hundred years at most."""
        ...


class Plan:
    """What a schedule plans to do."""

    __slots__ = ("_schedule_id", "nominals", "spec")

    def __init__(self, schedule_id: ScheduleId, spec: ScheduleSpec) -> None:
        """The spec was checked. Jitter follows from the schedule's ID."""
        self._schedule_id = schedule_id
        self.spec = spec
        self.nominals: Nominals = nominals_of(spec)

    def nominal_after(self, instant: int) -> Iterator[int]:
        """Nominal instants after an instant, within the spec's bounds."""
        start_at, end_at = self.spec.start_at, self.spec.end_at
        after = instant if start_at is None else max(instant, start_at)
        for nominal in self.nominals.after(after):
            if end_at is not None and nominal > end_at:
                return
            yield nominal

    def due_after(self, instant: int, *, since: int) -> Iterator[Fire]:
        """Fires that happen after an instant, in the order in which they do, of those planned after `since`."""
        jitter_ms = self.spec.jitter_ms
        waiting: list[tuple[int, int]] = []
        for nominal in self.nominal_after(max(since, instant - jitter_ms)):
            # Whatever comes later is not due before this nominal instant.
            while waiting and waiting[0][0] <= nominal:
                yield _fire(*heappop(waiting))
            due = due_at(self._schedule_id, nominal, jitter_ms)
            if due > instant:
                heappush(waiting, (due, nominal))
            while waiting and waiting[0][0] <= nominal:
                yield _fire(*heappop(waiting))
        while waiting:
            yield _fire(*heappop(waiting))

    def fire_of(self, nominal: int) -> Fire:
        """The fire of a nominal instant."""
        return Fire(nominal, due_at(self._schedule_id, nominal, self.spec.jitter_ms))

    def is_due_within(self, nominal: int, after: int, until: int) -> bool:
        """Whether an occurrence happens after an instant and not after another one."""
        return after < due_at(self._schedule_id, nominal, self.spec.jitter_ms) <= until


def nominals_of(spec: ScheduleSpec) -> Nominals:
    """The instants of a checked spec, without its bounds."""
    parsed = parse_cron(spec.cron) if spec.cron else spec.interval_ms
    if isinstance(parsed, int):
        return IntervalNominals(parsed, spec.start_at or 0)
    return CronNominals(parsed, WallClock(zone(spec.time_zone)), spec.gap_policy, spec.fold_policy)


@lru_cache(maxsize=1)
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=1_000)
def zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name; ValueError if the server does not know it."""
    if name not in _known_zones():
        raise ValueError(f"time zone {name!r} is not known to the server; give an IANA name such as Europe/Berlin")
    return ZoneInfo(name)


class IntervalNominals:
    """Every so many milliseconds of absolute time; the zone does not matter [SCHED-7]."""

    __slots__ = ("base", "interval_ms")

    def __init__(self, interval_ms: int, base: int) -> None:
        self.interval_ms = interval_ms
        self.base = base

    def after(self, instant: int) -> Iterator[int]:
        first = self.base + ((instant - self.base) // self.interval_ms + 1) * self.interval_ms
        last = max(instant + HORIZON_MS, first)
        for nominal in count(first, self.interval_ms):
            if nominal > last:
                return
            yield nominal


class CronNominals:
    """The readings of a cron expression as instants of a zone."""

    __slots__ = ("_fold", "_gap", "clock", "cron")

    def __init__(self, cron: Cron, clock: WallClock, gap: GapPolicy, fold: FoldPolicy) -> None:
        self.cron = cron
        self.clock = clock
        # Readings taken as they come: what does not exist does not fire, what comes twice fires twice [SCHED-7].
        self._gap = GapPolicy.SKIP if cron.is_every_hour else gap
        self._fold = FoldPolicy.BOTH if cron.is_every_hour else fold

    def after(self, instant: int) -> Iterator[int]:
        """Readings come in order, instants not always: around a change of the clock they wait for each other."""
        clock = self.clock
        last = instant
        waiting: list[int] = []
        for reading in self._readings(instant):
            before, after = clock.offsets(reading)
            # No later reading stands for an earlier instant than this.
            bound = from_reading(reading) - max(before, after)
            for found in clock.instants(reading, self._gap, self._fold):
                heappush(waiting, found)
            while waiting and waiting[0] <= bound:
                found = heappop(waiting)
                if found > last:
                    last = found
                    yield found
        while waiting:
            found = heappop(waiting)
            if found > last:
                last = found
                yield found

    def instants(self, reading: datetime) -> tuple[int, ...]:
        """What one reading stands for."""
        return self.clock.instants(reading, self._gap, self._fold)

    def _readings(self, instant: int) -> Iterator[datetime]:
        end = self.clock.latest_reading(instant + HORIZON_MS)
        readings = Readings(self.cron, end)
        following: datetime | None = self.clock.earliest_reading(instant)
        while following is not None:
            begun, following = following, None
            for reading in readings.after(begun):
                before, after = self.clock.offsets(reading)
                if before < after and self._gap is GapPolicy.SKIP:
                    # A second by second search through the gap would take longer than anybody waits [SCHED-9].
                    following = self._end_of_gap(reading, before, after)
                    break
                yield reading

    def _end_of_gap(self, reading: datetime, before: int, after: int) -> datetime:
        """The first reading after the gap that this one is in."""
        earlier, later = from_reading(reading) - after, from_reading(reading) - before
        while later - earlier > 1:
            middle = (earlier + later) // 2
            if self.clock.offset_at(middle) == before:
                earlier = middle
            else:
                later = middle
        return max(to_reading(later + after), reading + timedelta(seconds=1))


def _fire(due: int, nominal: int) -> Fire:
    return Fire(nominal, due)
