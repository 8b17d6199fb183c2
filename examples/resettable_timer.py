"""Log somebody out after ten minutes without a sign of life; each sign begins the ten minutes anew.

Shows a countdown that a message restarts: a Wait for a Timer or any number of messages, in a Step that schedules
itself. The Timer comes first: once it is due it beats messages that are queued, which stay unread, so nobody is kept
logged in by a sign that came too late; and an operator who skips the Timer logs somebody out at once. Start a server
(`dexd serve`), then `python -m examples.resettable_timer`.
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

IDLE = "idle"
"""The Timer's condition ID, by which an operator names it."""

ACTIVITY = Channel("activity", str)
RESTARTS = Attribute("restarts", int)


@dataclass(frozen=True)
class Session:
    """Who is logged in, and how many seconds without activity end that."""

    user: str
    idle: float = 600.0


class WatchStep(Step[Session]):
    """One countdown."""

    def wait_for(self, context: Context, session: Session) -> Wait:
        # at_least takes all that is queued: ten clicks restart the countdown once.
        return Wait.any_of(Timer.by_duration(session.idle, IDLE), ACTIVITY.at_least(1))

    def execute(self, context: Context, session: Session) -> StepDecision:
        restarts = RESTARTS.get(context, default=0)
        if context.has_timer_fired():
            unread = ACTIVITY.size(context)
            return graceful_complete(f"{session.user} logged out after {restarts} restarts, {unread} unread")
        RESTARTS.set(context, restarts + 1)
        return go_to(WatchStep, session)


class SessionFlow(Flow[Session]):
    """Watch until nothing happens any more."""

    def get_steps(self) -> StepList[Session]:
        return StepList.start_step(WatchStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ACTIVITY, RESTARTS)


async def play(server: str) -> None:
    """Be active three times, each time before the countdown has ended, and then no more."""
    async with serving(SessionFlow(), server) as client:
        flow_id = f"session-{uuid.uuid4().hex[:8]}"
        await client.start_flow(SessionFlow, flow_id, Session("Ada", idle=0.8))
        for page in ("home", "cart", "checkout"):
            await asyncio.sleep(0.1)
            await client.publish(flow_id, ACTIVITY, page)
        result = await client.wait_for_flow(flow_id)
        print(flow_id, result.status.value, result.single_output(str))


if __name__ == "__main__":
    run(play, __doc__)
