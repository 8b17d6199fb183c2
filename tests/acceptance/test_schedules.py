"""The examples about schedules: clock changes, overlap over a day, a month's pause (rows 40 to 43)."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from dexsdk import (
    Context,
    DexServiceError,
    Flow,
    FoldPolicy,
    GapPolicy,
    OverlapPolicy,
    ScheduleAction,
    ScheduleAlreadyExistsError,
    ScheduleNotFoundError,
    ScheduleOutcomeKind,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleStatus,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    graceful_complete,
)
from dexsdk.testing import start_env

NEW_YORK = "America/New_York"


class RunStep(Step[int]):
    """Takes as many seconds as it is told to."""

    def wait_for(self, _context: Context, input: int) -> Wait:
        return Wait.until(Timer.by_duration(input)) if input else Wait.skip_immediately()

    def execute(self, context: Context, input: int) -> StepDecision:
        return graceful_complete(context.scheduled_at)


class Report(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(RunStep())


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("spec", "begin", "expected"),
    [
        (ScheduleSpec("30 2 * * *", time_zone=NEW_YORK), "2026-03-08", ["2026-03-08T07:30Z"]),
        (
            ScheduleSpec("30 2 * * *", time_zone=NEW_YORK, gap_policy=GapPolicy.SKIP),
            "2026-03-08",
            ["2026-03-09T06:30Z"],
        ),
        (
            ScheduleSpec("30 1 * * *", time_zone=NEW_YORK, fold_policy=FoldPolicy.FIRST),
            "2026-11-01",
            ["2026-11-01T05:30Z", "2026-11-02T06:30Z"],
        ),
        (
            ScheduleSpec("30 1 * * *", time_zone=NEW_YORK, fold_policy=FoldPolicy.LAST),
            "2026-11-01",
            ["2026-11-01T06:30Z", "2026-11-02T06:30Z"],
        ),
        (
            ScheduleSpec("30 1 * * *", time_zone=NEW_YORK, fold_policy=FoldPolicy.BOTH),
            "2026-11-01",
            ["2026-11-01T05:30Z", "2026-11-01T06:30Z", "2026-11-02T06:30Z"],
        ),
    ],
)
async def test_row_40_clock_changes_in_new_york(spec: ScheduleSpec, begin: str, expected: list[str]) -> None:
    """[SCHED-8] Preview and reality agree."""
    async with start_env(Report(), start_at=instant(f"{begin}T00:00Z")) as env:
        schedules = env.client.schedules
        assert await schedules.preview(spec, len(expected)) == list(map(instant, expected))
        await schedules.create("report", spec, ScheduleAction(Report, 0))
        assert await schedules.preview("report", len(expected)) == list(map(instant, expected))
        await env.advance(timedelta(days=2))
        page = await schedules.outcomes("report")
        assert [outcome.first for outcome in page.outcomes][: len(expected)] == list(map(instant, expected))
        assert {outcome.outcome for outcome in page.outcomes} == {ScheduleOutcomeKind.STARTED}


async def test_row_41_every_quarter_of_an_hour_in_london() -> None:
    """[SCHED-7] Absolute time over the end of summer time."""
    async with start_env(Report(), start_at=instant("2026-10-25T00:00Z")) as env:
        await env.client.schedules.create(
            "quarterly", ScheduleSpec("*/15 * * * *", time_zone="Europe/London"), ScheduleAction(Report, 0)
        )
        await env.advance(timedelta(hours=2, minutes=30))
        page = await env.client.schedules.outcomes("quarterly")
        begin = instant("2026-10-25T00:15Z")
        assert [outcome.first for outcome in page.outcomes] == [begin + n * timedelta(minutes=15) for n in range(10)]
        info = await env.client.describe_flow(page.outcomes[0].flow_id or "")
        assert (info.flow_id, info.schedule_id) == ("quarterly@2026-10-25T00:15:00.000Z", "quarterly")
        result = await env.client.wait_for_flow(info.flow_id)
        assert result.single_output(datetime) == begin


async def test_row_42_day_that_never_comes_is_refused_and_leap_day_is_found() -> None:
    """[SCHED-9] In less than 50 ms."""
    async with start_env(Report(), start_at=instant("2026-11-30T00:00Z")) as env:
        schedules = env.client.schedules
        begun = time.perf_counter()
        with pytest.raises(DexServiceError, match="within 100 years") as refused:
            await schedules.create("never", ScheduleSpec("0 0 30 2 *"), ScheduleAction(Report, 0))
        assert time.perf_counter() - begun < 0.05
        assert refused.value.code == "INVALID_ARGUMENT"
        assert await schedules.preview(ScheduleSpec("0 0 30 2 *")) == []
        assert (await schedules.preview(ScheduleSpec("30 2 29 2 *"), 1)) == [instant("2028-02-29T02:30Z")]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (OverlapPolicy.SKIP, {"started": 720, "skipped": 720}),
        pytest.param(OverlapPolicy.BUFFER_ONE, {"started": 1416, "skipped": 23, "buffered": 1}, marks=pytest.mark.long),
        pytest.param(OverlapPolicy.BUFFER_ALL, {"started": 1416, "buffered": 24}, marks=pytest.mark.long),
        pytest.param(OverlapPolicy.CANCEL_OTHER, {"started": 1440}, marks=pytest.mark.long),
        pytest.param(OverlapPolicy.TERMINATE_OTHER, {"started": 1440}, marks=pytest.mark.long),
        pytest.param(OverlapPolicy.ALLOW_ALL, {"started": 1440}, marks=pytest.mark.long),
    ],
)
async def test_row_42_day_of_runs_that_take_61_seconds(overlap: OverlapPolicy, expected: dict[str, int]) -> None:
    """[SCHED-11, SCHED-12] Under every policy the outcomes of a day add up to 1,440."""
    async with start_env(Report(), start_at=instant("2026-11-30T00:00Z")) as env:
        action, policy = ScheduleAction(Report, 61), SchedulePolicy(overlap)
        await env.client.schedules.create("minutely", ScheduleSpec("* * * * *"), action, policy)
        await env.advance(timedelta(days=1))
        info = await env.client.schedules.describe("minutely")
        counts = {"started": info.started, "skipped": info.skipped, "missed": info.missed, "buffered": info.buffered}
        assert (info.planned, sum(counts.values())) == (1_440, 1_440)
        assert {name: count for name, count in counts.items() if count} == expected


@pytest.mark.parametrize("window", [timedelta(0), timedelta(minutes=1), timedelta(days=365)])
async def test_row_43_month_of_pause_of_a_schedule_of_every_second(window: timedelta) -> None:
    """[SCHED-13, SCHED-14] No paused fire starts; the month costs nothing."""
    async with start_env(Report(), start_at=instant("2026-11-01T00:00Z")) as env:
        schedules = env.client.schedules
        spec, policy = ScheduleSpec(interval=1), SchedulePolicy(catch_up_window=window)
        await schedules.create("secondly", spec, ScheduleAction(Report, 0), policy)
        await schedules.pause("secondly", "holidays")
        begun = time.perf_counter()
        await env.advance(timedelta(days=30))
        assert time.perf_counter() - begun < 1
        paused = await schedules.describe("secondly")
        assert (paused.status, paused.note, paused.next_fire_at) == (ScheduleStatus.PAUSED, "holidays", None)
        assert (paused.skipped, paused.is_at_least, paused.started) == (100_000, True, 0)
        await schedules.resume("secondly")
        info = await schedules.describe("secondly")
        assert (info.status, info.planned, info.skipped_by_reason) == (
            ScheduleStatus.ACTIVE,
            100_000,
            {"PAUSED": 100_000},
        )
        await env.advance(timedelta(seconds=3))
        assert (await schedules.describe("secondly")).started == 3


async def test_sched_1_verbs_of_a_schedule() -> None:
    """[SCHED-15, SCHED-16] Create, describe, list, update, pause, resume, trigger, backfill, delete."""
    async with start_env(Report(), start_at=instant("2026-11-30T00:00Z")) as env:
        schedules = env.client.schedules
        hourly = ScheduleSpec("0 * * * *")
        for name in ("a", "b", "c"):
            await schedules.create(
                name, hourly, ScheduleAction(Report, 3_600), paused=True, request_id=f"create-{name}"
            )
        await schedules.create("a", hourly, ScheduleAction(Report, 3_600), paused=True, request_id="create-a")
        with pytest.raises(ScheduleAlreadyExistsError) as exists:
            await schedules.create("a", hourly, ScheduleAction(Report, 0))
        assert (exists.value.code, exists.value.sub_status) == ("ALREADY_EXISTS", "SCHEDULE_ALREADY_EXISTS")
        assert exists.value.schedule_id == "a"
        first = await schedules.list(page_size=2)
        rest = await schedules.list(page_size=2, token=first.next_page_token)
        assert [info.schedule_id for info in (*first.schedules, *rest.schedules)] == ["a", "b", "c"]
        assert rest.next_page_token == ""

        await env.advance(timedelta(hours=4, minutes=30))
        span = (instant("2026-11-30T01:00Z"), instant("2026-11-30T04:00Z"))
        fires = [instant(f"2026-11-30T0{hour}:00Z") for hour in (1, 2, 3)]
        assert await schedules.backfill("a", *span, dry_run=True) == fires
        assert await schedules.backfill("a", *span, overlap=OverlapPolicy.BUFFER_ALL) == fires
        assert (await schedules.describe("a")).buffered == 2
        page = await schedules.outcomes("a")
        assert [(outcome.outcome.value, outcome.first) for outcome in page.outcomes] == [
            ("STARTED", fires[0]),
            ("BUFFERED", fires[1]),
            ("BUFFERED", fires[2]),
        ]
        await env.advance(timedelta(hours=3))
        assert await schedules.backfill("a", *span, dry_run=True) == []

        occurrence = await schedules.trigger_now("b")
        assert occurrence == "b@2026-11-30T07:30:00.000Z"
        assert (await env.client.describe_flow(occurrence)).schedule_id == "b"
        await schedules.update(
            "b", ScheduleSpec(interval=timedelta(minutes=10)), policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL)
        )
        await schedules.resume("b")
        await env.advance(timedelta(minutes=20))
        info = await schedules.describe("b")
        assert (info.started, info.skipped_by_reason) == (3, {"PAUSED": 7})
        assert info.open[0].flow_id == occurrence

        await schedules.delete("b")
        with pytest.raises(ScheduleNotFoundError):
            await schedules.describe("b")
        assert (await env.client.describe_flow(occurrence)).status.value == "RUNNING"


async def test_sched_9_schedule_past_its_last_fire_is_exhausted() -> None:
    async with start_env(Report(), start_at=instant("2026-11-30T00:00Z")) as env:
        spec = ScheduleSpec(interval=60, end_at=instant("2026-11-30T00:02Z"))
        await env.client.schedules.create("short", spec, ScheduleAction(Report, 0))
        await env.advance(timedelta(minutes=5))
        info = await env.client.schedules.describe("short")
        assert (info.status, info.started, info.next_fire_at) == (ScheduleStatus.EXHAUSTED, 2, None)
        assert await env.client.schedules.preview("short") == []


async def test_sched_13_server_that_was_down_catches_up() -> None:
    async with start_env(Report(), start_at=instant("2026-11-30T00:00Z")) as env:
        await env.client.schedules.create(
            "minutely", ScheduleSpec("* * * * *"), ScheduleAction(Report, 0), SchedulePolicy(OverlapPolicy.ALLOW_ALL)
        )
        await env.advance(timedelta(minutes=2))
        env.crash_server()
        await env.advance(timedelta(minutes=90))
        env.recover_server()
        await env.advance(timedelta(0))
        info = await env.client.schedules.describe("minutely")
        assert (info.started, info.missed, info.planned) == (63, 29, 92)
