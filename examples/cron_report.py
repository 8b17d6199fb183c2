"""Write a report every morning, whatever the clocks do.

Shows a schedule in a time zone, what it does when a report takes longer than the time to the next one, how a report
knows for which morning it is, a look at the mornings to come, and the mornings of last week written after the event.
Start a server (`dexd serve`), then `python -m examples.cron_report`.
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dexsdk import (
    AsyncClient,
    Context,
    Flow,
    OverlapPolicy,
    ScheduleAction,
    SchedulePolicy,
    ScheduleSpec,
    Step,
    StepDecision,
    StepList,
    graceful_complete,
)
from examples.local_worker import run, serving

EVERY_MORNING = ScheduleSpec("30 6 * * *", time_zone="Europe/Berlin")
"""06:30 on the walls of Berlin, in summer and in winter."""

ONE_AFTER_THE_OTHER = SchedulePolicy(OverlapPolicy.BUFFER_ONE)
"""A report that takes until the next morning has the next one wait for its end."""


@dataclass(frozen=True)
class ReportPlan:
    """What a report is about."""

    title: str


class WriteStep(Step[ReportPlan]):
    """Write the report of one morning."""

    def execute(self, context: Context, plan: ReportPlan) -> StepDecision:
        # The planned instant, not the present one: a report that is written late is still that of its own morning.
        morning = context.scheduled_at
        if morning is None:
            return graceful_complete(f"{plan.title}, asked for by hand")
        return graceful_complete(f"{plan.title} of {morning:%Y-%m-%d %H:%M} UTC")


class ReportFlow(Flow[ReportPlan]):
    """One report."""

    def get_steps(self) -> StepList[ReportPlan]:
        return StepList.start_step(WriteStep())


async def schedule_reports(client: AsyncClient, schedule_id: str, title: str) -> None:
    """Have a report written every morning from now on."""
    action = ScheduleAction(ReportFlow, ReportPlan(title))
    await client.schedules.create(schedule_id, EVERY_MORNING, action, ONE_AFTER_THE_OTHER)


async def write_missing(client: AsyncClient, schedule_id: str, since: datetime, until: datetime) -> list[str]:
    """Write the reports of mornings that have passed; those that exist are left alone."""
    mornings = await client.schedules.backfill(schedule_id, since, until, overlap=OverlapPolicy.ALLOW_ALL)
    reports = []
    for morning in mornings:
        result = await client.wait_for_flow(f"{schedule_id}@{morning:%Y-%m-%dT%H:%M:%S}.000Z")
        reports.append(result.single_output(str))
    return reports


async def play(server: str) -> None:
    """Look ahead over a change of the clocks, create the schedule, and write the reports of three past mornings."""
    async with serving(ReportFlow(), server) as client:
        before = datetime(2026, 10, 23, tzinfo=UTC)
        ahead = ScheduleSpec(EVERY_MORNING.cron, time_zone=EVERY_MORNING.time_zone, start_at=before)
        for morning in await client.schedules.preview(ahead, count=4):
            print(f"fires at {morning:%Y-%m-%d %H:%M} UTC")

        schedule_id = f"report-{uuid.uuid4().hex[:8]}"
        await schedule_reports(client, schedule_id, "Sales")
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for number, _ in enumerate(await write_missing(client, schedule_id, today - timedelta(days=3), today), 1):
            print(f"report {number} of the past is written")
        print(await client.schedules.backfill(schedule_id, today - timedelta(days=3), today, dry_run=True))

        occurrence = await client.schedules.trigger_now(schedule_id)
        await client.wait_for_flow(occurrence)
        info = await client.schedules.describe(schedule_id)
        print(f"{info.status.value}: {info.started} of {info.planned} started")
        await client.schedules.delete(schedule_id)


if __name__ == "__main__":
    run(play, __doc__)
