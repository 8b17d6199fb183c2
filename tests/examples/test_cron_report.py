"""The report of every morning, in virtual time [SCHED-3, SCHED-8, SCHED-11, SCHED-16]."""

from datetime import UTC, datetime, timedelta

from dexsdk.testing import start_env
from examples.cron_report import ReportFlow, schedule_reports, write_missing

FRIDAY = datetime(2026, 10, 23, tzinfo=UTC)


async def test_reports_follow_the_clocks_of_berlin() -> None:
    """Summer time ends on the Sunday: 04:30 UTC before, 05:30 after."""
    async with start_env(ReportFlow(), start_at=FRIDAY) as env:
        await schedule_reports(env.client, "report", "Sales")
        expected = [FRIDAY + timedelta(hours=4.5), FRIDAY + timedelta(days=1, hours=4.5)]
        expected += [FRIDAY + timedelta(days=days, hours=5.5) for days in (2, 3)]
        assert await env.client.schedules.preview("report", 4) == expected
        await env.advance(timedelta(days=4))
        outcomes = (await env.client.schedules.outcomes("report")).outcomes
        assert [outcome.first for outcome in outcomes] == expected
        last = await env.client.wait_for_flow(outcomes[-1].flow_id or "")
        assert last.single_output(str) == "Sales of 2026-10-26 05:30 UTC"


async def test_mornings_before_the_schedule_are_written_once() -> None:
    """[SCHED-2, SCHED-16] A second backfill of the same days finds nothing to do."""
    async with start_env(ReportFlow(), start_at=FRIDAY) as env:
        await schedule_reports(env.client, "report", "Sales")
        days = (FRIDAY - timedelta(days=3), FRIDAY)
        assert await write_missing(env.client, "report", *days) == [
            f"Sales of 2026-10-{day} 04:30 UTC" for day in (20, 21, 22)
        ]
        assert await write_missing(env.client, "report", *days) == []
        assert (await env.client.schedules.describe("report")).started == 3
