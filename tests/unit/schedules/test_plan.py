"""When a spec fires: zones, clock changes, bounds, jitter, counts [SCHED-3, SCHED-5..10, SCHED-14]."""

import time
from datetime import datetime
from itertools import islice, takewhile

import pytest

from dexd.core.ids import ScheduleId
from dexd.core.schedules.occurrences import Fire, due_at, instant_text
from dexd.core.schedules.spec import FoldPolicy, GapPolicy, ScheduleSpec
from dexd.schedules.check import spec_fault
from dexd.schedules.counting import COUNT_MAX, count_fires
from dexd.schedules.plan import Plan

NAME = ScheduleId("s")
NEW_YORK, LONDON, APIA, LORD_HOWE = "America/New_York", "Europe/London", "Pacific/Apia", "Australia/Lord_Howe"
NOW = "2026-11-30T12:00Z"


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def fires(spec: ScheduleSpec, after: str, count: int) -> list[str]:
    """The next fires, to the minute."""
    return [instant_text(instant)[:16] for instant in islice(Plan(NAME, spec).nominal_after(at(after)), count)]


# ---- clock changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap_policy", "first"), [(GapPolicy.SHIFT, "2026-03-08T07:30"), (GapPolicy.SKIP, "2026-03-09T06:30")]
)
def test_sched_8_reading_in_a_gap(gap_policy: GapPolicy, first: str) -> None:
    """Row 40: 02:30 in New York on 2026-03-08 fires at 03:30 new time, or not at all."""
    spec = ScheduleSpec("30 2 * * *", time_zone=NEW_YORK, gap_policy=gap_policy)
    assert fires(spec, "2026-03-08T00:00Z", 1) == [first]
    assert fires(spec, "2026-03-07T00:00Z", 1) == ["2026-03-07T07:30"]


@pytest.mark.parametrize(
    ("fold_policy", "on_that_day"),
    [
        (FoldPolicy.FIRST, ["2026-11-01T05:30"]),
        (FoldPolicy.LAST, ["2026-11-01T06:30"]),
        (FoldPolicy.BOTH, ["2026-11-01T05:30", "2026-11-01T06:30"]),
    ],
)
def test_sched_8_reading_that_comes_twice(fold_policy: FoldPolicy, on_that_day: list[str]) -> None:
    """Row 40: 01:30 in New York on 2026-11-01."""
    spec = ScheduleSpec("30 1 * * *", time_zone=NEW_YORK, fold_policy=fold_policy)
    assert fires(spec, "2026-11-01T00:00Z", len(on_that_day) + 1) == [*on_that_day, "2026-11-02T06:30"]


def test_sched_8_search_that_begins_between_the_passes_finds_the_second_only() -> None:
    for fold_policy, first in ((FoldPolicy.FIRST, "2026-11-02T06:30"), (FoldPolicy.BOTH, "2026-11-01T06:30")):
        spec = ScheduleSpec("30 1 * * *", time_zone=NEW_YORK, fold_policy=fold_policy)
        assert fires(spec, "2026-11-01T05:30Z", 1) == [first]


def test_sched_8_readings_that_land_on_one_instant_are_one_occurrence() -> None:
    """02:30 is shifted to 03:30, which fires as well."""
    spec = ScheduleSpec("30 2,3 * * *", time_zone=NEW_YORK)
    assert fires(spec, "2026-03-08T00:00Z", 2) == ["2026-03-08T07:30", "2026-03-09T06:30"]


def test_sched_8_shifted_readings_come_in_order_among_the_others() -> None:
    spec = ScheduleSpec("15,45 2-3 * * *", time_zone=NEW_YORK)
    assert fires(spec, "2026-03-08T00:00Z", 3) == ["2026-03-08T07:15", "2026-03-08T07:45", "2026-03-09T06:15"]
    half = ScheduleSpec("10 2 * * *", time_zone=LORD_HOWE)
    assert fires(half, "2026-10-03T00:00Z", 1) == ["2026-10-03T15:40"]


def test_sched_7_every_quarter_of_an_hour_is_absolute_time() -> None:
    """Row 41: London on 2026-10-25, 00:15Z to 02:30Z."""
    spec = ScheduleSpec("*/15 * * * *", time_zone=LONDON)
    found = fires(spec, "2026-10-25T00:00Z", 10)
    assert found == [f"2026-10-25T{minute // 60:02}:{minute % 60:02}" for minute in range(15, 151, 15)]


def test_sched_7_readings_of_a_gap_do_not_exist() -> None:
    spec = ScheduleSpec("30 * * * *", time_zone=NEW_YORK)
    assert fires(spec, "2026-03-08T06:00Z", 2) == ["2026-03-08T06:30", "2026-03-08T07:30"]


def test_sched_8_day_that_a_country_left_out() -> None:
    """Samoa had no 2011-12-30."""
    spec = ScheduleSpec("0 12 * * *", time_zone=APIA, gap_policy=GapPolicy.SKIP)
    assert fires(spec, "2011-12-29T00:00Z", 2) == ["2011-12-29T22:00", "2011-12-30T22:00"]


def test_sched_9_gap_is_not_searched_second_by_second() -> None:
    spec = ScheduleSpec("* * 2 * * *", time_zone=NEW_YORK, gap_policy=GapPolicy.SKIP)
    begun = time.perf_counter()
    assert fires(spec, "2026-03-08T06:59Z", 1) == ["2026-03-09T06:00"]
    assert time.perf_counter() - begun < 0.5


# ---- days, bounds, intervals -------------------------------------------------------------------------------------


def test_sched_5_day_that_matches_either_field_fires() -> None:
    assert fires(ScheduleSpec("0 0 13 * FRI"), "2026-11-01T00:00Z", 4) == [
        "2026-11-06T00:00",
        "2026-11-13T00:00",
        "2026-11-20T00:00",
        "2026-11-27T00:00",
    ]
    assert fires(ScheduleSpec("0 0 */31 * SUN"), "2026-10-31T00:00Z", 2) == ["2026-11-01T00:00", "2027-08-01T00:00"]


def test_sched_6_weekday_numbers_are_those_of_cron() -> None:
    """2026-11-29 is a Sunday."""
    for sunday in ("0", "7", "sun"):
        assert fires(ScheduleSpec(f"0 0 * * {sunday}"), "2026-11-25T00:00Z", 1) == ["2026-11-29T00:00"]


def test_sched_3_fires_lie_after_the_start_and_up_to_the_end() -> None:
    spec = ScheduleSpec("0 * * * *", start_at=at("2026-11-30T13:00Z"), end_at=at("2026-11-30T15:00Z"))
    assert fires(spec, NOW, 9) == ["2026-11-30T14:00", "2026-11-30T15:00"]


def test_sched_3_interval_counts_from_the_start_or_the_epoch() -> None:
    assert fires(ScheduleSpec(interval_ms=7 * 3_600_000), "1970-01-01T00:00Z", 2) == [
        "1970-01-01T07:00",
        "1970-01-01T14:00",
    ]
    spec = ScheduleSpec(interval_ms=90 * 60_000, start_at=at("2026-11-30T12:10Z"), time_zone=NEW_YORK)
    assert fires(spec, NOW, 2) == ["2026-11-30T13:40", "2026-11-30T15:10"]
    assert fires(ScheduleSpec("@every 90m", start_at=spec.start_at), NOW, 2) == ["2026-11-30T13:40", "2026-11-30T15:10"]


def test_sched_9_leap_day_is_found_and_impossible_day_is_refused_at_once() -> None:
    """Row 42."""
    assert fires(ScheduleSpec("30 2 29 2 *"), NOW, 1) == ["2028-02-29T02:30"]
    begun = time.perf_counter()
    assert "within 100 years" in spec_fault(ScheduleSpec("0 0 30 2 *"), now=at(NOW))
    assert time.perf_counter() - begun < 0.05
    assert fires(ScheduleSpec("0 0 30 2 *"), NOW, 1) == []
    assert fires(ScheduleSpec("0 0 30 2 MON"), NOW, 1) == ["2027-02-01T00:00"]


def test_sched_9_search_ends_after_a_hundred_years() -> None:
    yearly = list(Plan(NAME, ScheduleSpec("@yearly")).nominal_after(at(NOW)))
    assert len(yearly) == 100
    assert len(list(Plan(NAME, ScheduleSpec(interval_ms=10 * 365 * 86_400_000)).nominal_after(at(NOW)))) == 10
    rare = ScheduleSpec(interval_ms=36_525 * 86_400_000, start_at=at(NOW) - 1)
    assert len(list(Plan(NAME, rare).nominal_after(at(NOW)))) == 1


# ---- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (ScheduleSpec(), "exactly one"),
        (ScheduleSpec("* * * * *", interval_ms=1_000), "exactly one"),
        (ScheduleSpec(interval_ms=999), "interval: 999 ms"),
        (ScheduleSpec(interval_ms=36_525 * 86_400_000 + 1), "interval:"),
        (ScheduleSpec("@every 10ms"), "interval: 10 ms"),
        (ScheduleSpec("* * * * *", time_zone=""), "time zone ''"),
        (ScheduleSpec("* * * * *", time_zone="Mars/Olympus"), "'Mars/Olympus' is not known"),
        (ScheduleSpec("* * * * *", time_zone="../UTC"), "is not known"),
        (ScheduleSpec("61 * * * *"), "cron '61 * * * *': minute: 61"),
        (ScheduleSpec("* * * * *", jitter_ms=-1), "jitter"),
        (ScheduleSpec("* * * * *", jitter_ms=86_400_001), "jitter"),
        (ScheduleSpec("* * * * *", start_at=5, end_at=5), "end_at"),
    ],
)
def test_sched_3_what_is_wrong_with_a_spec_is_told(spec: ScheduleSpec, fault: str) -> None:
    assert fault in spec_fault(spec, now=at(NOW))


@pytest.mark.parametrize(
    "spec",
    [
        ScheduleSpec("* * * * *", time_zone=NEW_YORK),
        ScheduleSpec(interval_ms=1_000),
        ScheduleSpec("@every 1s"),
        ScheduleSpec("* * * * *", end_at=at(NOW) - 1),
    ],
)
def test_sched_3_sound_specs_have_no_fault(spec: ScheduleSpec) -> None:
    assert spec_fault(spec, now=at(NOW)) == ""


# ---- jitter ------------------------------------------------------------------------------------------------------


def test_sched_10_fires_come_in_the_order_in_which_they_are_due() -> None:
    plan = Plan(NAME, ScheduleSpec(interval_ms=60_000, jitter_ms=300_000))
    begin = at(NOW)
    found = list(islice(plan.due_after(begin, since=0), 200))
    assert [fire.due for fire in found] == sorted(fire.due for fire in found)
    assert all(fire == Fire(fire.nominal, due_at(NAME, fire.nominal, 300_000)) for fire in found)
    assert {fire.due - fire.nominal for fire in found} <= set(range(300_001))
    until = found[-1].due
    nominals = takewhile(lambda nominal: nominal <= until, plan.nominal_after(begin - 300_000))
    assert {n for n in nominals if begin < due_at(NAME, n, 300_000) <= until} == {fire.nominal for fire in found}
    again = list(islice(plan.due_after(found[99].due, since=0), 100))
    assert again == found[100:]
    assert all(fire.nominal > begin for fire in islice(plan.due_after(begin, since=begin), 20))


# ---- counts ------------------------------------------------------------------------------------------------------

SPECS = [
    ScheduleSpec("*/7 * * * *", time_zone=NEW_YORK),
    ScheduleSpec("15 30 1,2 * * *", time_zone=NEW_YORK, fold_policy=FoldPolicy.BOTH),
    ScheduleSpec("30 2,3 * * *", time_zone=NEW_YORK),
    ScheduleSpec("30 2 * * *", time_zone=NEW_YORK, gap_policy=GapPolicy.SKIP, fold_policy=FoldPolicy.LAST),
    ScheduleSpec("0 12 13 * FRI", time_zone=APIA),
    ScheduleSpec(interval_ms=3_600_000),
    ScheduleSpec(interval_ms=3_600_000, start_at=at("2026-03-07T00:10Z"), end_at=at("2026-03-09T00:10Z")),
    ScheduleSpec("0 * * * *", jitter_ms=5 * 3_600_000),
]


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
@pytest.mark.parametrize(
    ("after", "until"),
    [
        ("2026-03-07T12:00:00.5Z", "2026-03-10T00:00Z"),
        ("2026-03-08T06:30Z", "2026-03-08T07:30Z"),
        ("2026-10-28T00:00Z", "2026-11-03T00:00Z"),
        ("2026-11-01T05:30Z", "2026-11-01T06:30Z"),
        ("2026-05-05T05:05Z", "2026-05-05T05:06Z"),
        ("2025-12-31T00:00Z", "2026-02-01T11:11Z"),
    ],
)
def test_sched_14_count_is_what_going_through_them_gives(spec: ScheduleSpec, after: str, until: str) -> None:
    plan = Plan(NAME, spec)
    found = list(takewhile(lambda fire: fire.due <= at(until), plan.due_after(at(after), since=0)))
    counted = count_fires(plan, at(after), at(until), since=0)
    assert (counted.count, counted.is_at_least) == (len(found), False)
    assert counted.first == (found[0].nominal if found else 0)


def test_sched_14_count_says_at_least_from_a_hundred_thousand_on() -> None:
    begun = time.perf_counter()
    for spec in (ScheduleSpec(interval_ms=1_000), ScheduleSpec("* * * * * *", time_zone=NEW_YORK)):
        counted = count_fires(Plan(NAME, spec), at("2026-05-01T00:00Z"), at("2026-05-31T00:00Z"), since=0)
        assert (counted.count, counted.is_at_least) == (COUNT_MAX, True)
    edgy = count_fires(
        Plan(NAME, ScheduleSpec(interval_ms=1_000, jitter_ms=12_000_000)), at(NOW), at(NOW) + 20_000_000, since=0
    )
    assert edgy.is_at_least
    assert time.perf_counter() - begun < 5


def test_sched_15_only_what_is_planned_after_an_update_counts() -> None:
    plan = Plan(NAME, ScheduleSpec(interval_ms=60_000))
    assert count_fires(plan, at(NOW), at(NOW) + 600_000, since=at(NOW) + 300_000).count == 5
