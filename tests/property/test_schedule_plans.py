"""Fires of cron text against a naive evaluator that looks at every minute of a span [SCHED-4..8, SCHED-14]."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dexd.core.ids import ScheduleId
from dexd.core.schedules.spec import FoldPolicy, GapPolicy, ScheduleSpec
from dexd.schedules.counting import count_fires
from dexd.schedules.plan import Plan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SPAN = timedelta(days=3)

CHANGES = (
    ("America/New_York", "2026-03-08T07:00+00:00"),
    ("America/New_York", "2026-11-01T06:00+00:00"),
    ("Europe/London", "2026-03-29T01:00+00:00"),
    ("Europe/London", "2026-10-25T01:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
    ("Pacific/Apia", "2011-12-30T10:00+00:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30+00:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00+00:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00+00:00"),
    ("Africa/Casablanca", "2026-02-15T02:00+00:00"),
    ("UTC", "2028-02-29T12:00+00:00"),
)
"""Zones and instants at which their clocks change: by an hour, by half of one, at midnight, by a whole day."""


def field(smallest: int, largest: int) -> st.SearchStrategy[str]:
    """A field of cron text."""
    number = st.integers(smallest, largest)
    span = st.tuples(number, number).map(sorted)
    item = st.one_of(
        number.map(str),
        span.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(span, st.integers(1, 9)).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
        st.integers(1, 20).map(lambda step: f"*/{step}"),
    )
    return st.one_of(st.just("*"), st.lists(item, min_size=1, max_size=2).map(",".join))


CRON = st.tuples(field(0, 59), field(0, 23), st.just("*") | field(1, 31), st.just("*"), st.just("*") | field(0, 7)).map(
    " ".join
)


def matches(text: str, value: int, largest: int) -> bool:
    """Whether one field has a value, told from the text alone."""
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = ("0-999" if span == "*" else span).partition("-")
        begin = (0 if largest != 31 else 1) if span == "*" else int(first)
        if begin <= value <= int(last or first) and (value - begin) % int(step or 1) == 0:
            return True
    return False


class Reader:
    """Tells whether a wall clock's reading matches cron text."""

    def __init__(self, text: str) -> None:
        minute, hour, day, _, weekday = text.split()
        self.minutes = {value for value in range(60) if matches(minute, value, 59)}
        self.hours = {value for value in range(24) if matches(hour, value, 23)}
        self.days = {value for value in range(1, 32) if matches(day, value, 31)}
        # With a star a step of weekdays counts from Sunday, which has no second number there.
        numbers = range(7) if weekday[0] == "*" else range(8)
        self.weekdays = {value % 7 for value in numbers if matches(weekday, value, 7)}
        self.is_either = day[0] != "*" and weekday[0] != "*"

    def reads(self, reading: datetime) -> bool:
        if reading.minute not in self.minutes or reading.hour not in self.hours:
            return False
        on_day, on_weekday = reading.day in self.days, reading.isoweekday() % 7 in self.weekdays
        return (on_day or on_weekday) if self.is_either else (on_day and on_weekday)


def naive(spec: ScheduleSpec, after: datetime, until: datetime) -> set[datetime]:
    """Go through every reading of the days around the span, and ask what becomes of it."""
    zone = ZoneInfo(spec.time_zone)
    as_it_comes = spec.cron.split()[1].startswith("*")
    reader = Reader(spec.cron)
    found: set[datetime] = set()
    reading = (after - timedelta(days=2)).replace(tzinfo=None)
    while reading < (until + timedelta(days=2)).replace(tzinfo=None):
        if reader.reads(reading):
            passes = [reading.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
            real = [instant for instant in passes if instant.astimezone(zone).replace(tzinfo=None, fold=0) == reading]
            if as_it_comes:
                found.update(real)
            elif not real:
                found.update(passes[:1] if spec.gap_policy is GapPolicy.SHIFT else ())
            elif spec.fold_policy is FoldPolicy.FIRST:
                found.add(min(real))
            elif spec.fold_policy is FoldPolicy.LAST:
                found.add(max(real))
            else:
                found.update(real)
        reading += MINUTE
    return {instant for instant in found if after < instant <= until}


def to_ms(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


@settings(max_examples=50, deadline=None)
@example(CHANGES[0], "30 2 * * *", GapPolicy.SHIFT, FoldPolicy.FIRST, 0)
@example(CHANGES[1], "*/15 1 * * *", GapPolicy.SKIP, FoldPolicy.BOTH, 17)
@example(CHANGES[6], "0 */5 * * *", GapPolicy.SHIFT, FoldPolicy.LAST, 60)
@given(
    st.sampled_from(CHANGES),
    CRON,
    st.sampled_from(GapPolicy),
    st.sampled_from(FoldPolicy),
    st.integers(0, 2_000),
)
def test_sched_8_fires_are_those_of_a_naive_evaluator(
    change: tuple[str, str], cron: str, gap: GapPolicy, fold: FoldPolicy, minutes_before: int
) -> None:
    """[SCHED-14] Their order and their count, too."""
    zone, instant = change
    spec = ScheduleSpec(cron, time_zone=zone, gap_policy=gap, fold_policy=fold)
    after = datetime.fromisoformat(instant) - minutes_before * MINUTE
    until = after + SPAN
    plan = Plan(ScheduleId("s"), spec)
    fires = list(takewhile(lambda fire: fire <= to_ms(until), plan.nominal_after(to_ms(after))))
    expected = sorted(map(to_ms, naive(spec, after, until)))
    assert fires == expected
    assert count_fires(plan, to_ms(after), to_ms(until), since=0).count == len(expected)
