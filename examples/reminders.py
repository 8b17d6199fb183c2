"""Remind somebody again and again until they opt out or the plan is done.

Shows a Wait for whichever comes first, a Channel message or a Timer, and a Step that schedules itself: a Flow of thirty
daily reminders costs no process and no memory between two of them. Start a server (`dexd serve`), then
`python -m examples.reminders`.
"""

import asyncio
import uuid
from dataclasses import dataclass

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    go_to,
    graceful_complete,
)
from examples.local_worker import run, serving

SENT = Attribute("sent", int)
OPT_OUT = Channel("opt_out", str)


@dataclass(frozen=True)
class ReminderPlan:
    """Whom to remind, how often, and how many seconds lie between two reminders."""

    recipient: str
    times: int
    interval: float = 86_400.0


class RemindStep(Step[ReminderPlan]):
    """One interval: wait, send, go round again."""

    def wait_for(self, context: Context, plan: ReminderPlan) -> Wait:
        return Wait.any_of(Timer.by_duration(plan.interval), OPT_OUT.for_one())

    def execute(self, context: Context, plan: ReminderPlan) -> StepDecision:
        sent = SENT.get(context, default=0)
        if not context.has_timer_fired():
            return graceful_complete(f"opted out after {sent}: {OPT_OUT.results(context)[0]}")
        # A real mail goes out here, with context.idempotency_key, so that a repeated attempt sends none twice.
        context.logger.info("reminder %d to %s", sent + 1, plan.recipient)
        SENT.set(context, sent + 1)
        if sent + 1 >= plan.times:
            return graceful_complete(f"all {plan.times} sent")
        return go_to(RemindStep, plan)


class ReminderFlow(Flow[ReminderPlan]):
    """Remind until opt-out."""

    def get_steps(self) -> StepList[ReminderPlan]:
        return StepList.start_step(RemindStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(SENT, OPT_OUT)


async def play(server: str) -> None:
    """Send three reminders, and let another recipient opt out between two of theirs."""
    async with serving(ReminderFlow(), server) as client:
        patient, annoyed = (f"reminder-{uuid.uuid4().hex[:8]}" for _ in range(2))
        await client.start_flow(ReminderFlow, patient, ReminderPlan("ada@example.org", times=3, interval=0.5))
        await client.start_flow(ReminderFlow, annoyed, ReminderPlan("bob@example.org", times=30))
        await client.publish(annoyed, OPT_OUT, "too many mails")
        results = await asyncio.gather(client.wait_for_flow(patient), client.wait_for_flow(annoyed))
        for flow_id, result in zip((patient, annoyed), results, strict=True):
            print(flow_id, result.status.value, result.single_output(str))


if __name__ == "__main__":
    run(play, __doc__)
