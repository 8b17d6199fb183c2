"""Cron text: what is read, and how what cannot be read is told [SCHED-4]."""

import pytest

from dexd.schedules.cron import Cron, CronError, parse_cron

ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS = tuple(range(1, 32)), tuple(range(1, 13)), tuple(range(7))


def parsed(text: str) -> Cron:
    cron = parse_cron(text)
    assert isinstance(cron, Cron)
    return cron


def test_sched_4_five_fields_begin_with_the_minute() -> None:
    cron = parsed("30 2 * * *")
    assert cron == Cron((0,), (30,), (2,), ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, is_every_hour=False, is_either_day=False)


def test_sched_4_six_fields_begin_with_the_second() -> None:
    cron = parsed("*/20 0-10/5 1,3 1 2 *")
    assert (cron.seconds, cron.minutes, cron.hours) == ((0, 20, 40), (0, 5, 10), (1, 3))


@pytest.mark.parametrize("text", ["0 0 1 jan-Mar mon", "0 0 1 1-3 1", " 0  0 1 JAN,feb,mar MON "])
def test_sched_4_names_are_read_in_any_case(text: str) -> None:
    assert (parsed(text).months, parsed(text).weekdays) == ((1, 2, 3), (1,))


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", (0,)),
        ("7", (0,)),
        ("SUN", (0,)),
        ("5-7", (0, 5, 6)),
        ("0-7", ALL_WEEKDAYS),
        ("*/3", (0, 3, 6)),
        ("*/7", (0,)),
        ("1-5/2", (1, 3, 5)),
    ],
)
def test_sched_4_weekday_0_and_7_are_sunday(weekday: str, days: tuple[int, ...]) -> None:
    assert parsed(f"0 0 * * {weekday}").weekdays == days


@pytest.mark.parametrize(
    ("macro", "text"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_sched_4_macros_stand_for_fields(macro: str, text: str) -> None:
    assert parse_cron(macro) == parse_cron(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("@every 90s", 90_000), ("@every 1h30m", 5_400_000), ("@every 1d", 86_400_000), ("@every 1500ms", 1_500)],
)
def test_sched_4_every_is_an_interval(text: str, milliseconds: int) -> None:
    assert parse_cron(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("60 * * * *", "minute: 60"),
        ("* 24 * * *", "hour: 24"),
        ("* * 0 * *", "day of month: 0"),
        ("* * 32 * *", "day of month: 32"),
        ("* * * 13 *", "month: 13"),
        ("* * * JANUARY *", "month: 'JANUARY'"),
        ("* * * * 8", "weekday: 8"),
        ("60 * * * * *", "second: 60"),
        ("*/0 * * * *", "minute: the step"),
        ("*/-1 * * * *", "minute: the step"),
        ("*/x * * * *", "minute: the step"),
        ("* 22-2 * * *", "hour: the range '22-2'"),
        ("* * * * FRI-MON", "weekday: the range 'FRI-MON'"),
        ("5/10 * * * *", "minute: the step in '5/10' needs"),
        (",5 * * * *", "minute: ''"),
        ("1-2-3 * * * *", "minute: '1-2-3'"),
        ("٣ * * * *", "minute: '٣'"),
        ("? * * * *", "minute: '?'"),
        ("99999999999 * * * *", "minute: '99999999999'"),
        ("* * L * *", "day of month: 'L'"),
        ("@often", "macro '@often'"),
        ("@daily now", "macro '@daily now'"),
        ("@every", "@every needs"),
        ("@every 90", "@every needs"),
        ("@every 1h 30m", "@every needs"),
        ("*" * 256, "256 characters"),
    ],
)
def test_sched_4_what_is_wrong_is_named_with_its_field(text: str, named: str) -> None:
    with pytest.raises(CronError) as error:
        parse_cron(text)
    assert named in str(error.value)


def test_sched_5_days_are_alternatives_only_if_both_are_restricted() -> None:
    assert parsed("0 0 1 * MON").is_either_day
    assert not parsed("0 0 */2 * MON").is_either_day
    assert not parsed("0 0 1 * *").is_either_day


def test_sched_7_hour_that_starts_with_a_star_takes_readings_as_they_come() -> None:
    assert parsed("0 */2 * * *").is_every_hour
    assert not parsed("0 0-23 * * *").is_every_hour
