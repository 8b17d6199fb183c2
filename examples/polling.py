"""Wait for an export of another system that calls nobody back: three ways to ask again and again.

- PollByTimerFlow asks in a Step that waits for a Timer and schedules itself. Choose it when something may interrupt the
  wait; every look is a Step in the history.
- PollByRetryFlow asks in attempts of one Step, which raises RetryAfter. Choose it when nothing else happens meanwhile;
  it is the least code.
- PollInOneGoFlow asks in one long execute, which sends heartbeats. Choose it when there is something to do all the
  time, as to fetch what is finished.

The first two cost no Worker between two looks. The third keeps a slot of one; its heartbeats show that it lives, and
their value is the checkpoint where the next attempt goes on. Start a server (`dexd serve`), then
`python -m examples.polling`.
"""

import asyncio
import uuid
from dataclasses import dataclass

from dexsdk import (
    Context,
    Flow,
    RetryAfter,
    RetryPolicy,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Timer,
    Wait,
    go_to,
    graceful_complete,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Job:
    """An export of that many parts, and how many seconds lie between two looks at it."""

    name: str
    parts: int
    interval: float = 60.0


class ExportSystem:
    """Stands for a system that finishes one part from one look to the next, and hands out each part in a moment."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.looks = 0
        self.fetched: list[int] = []
        self._fails_at = fails_at
        self._finished: dict[str, int] = {}

    def finished(self, job: str) -> int:
        """Say how many parts are finished."""
        self.looks += 1
        self._finished[job] = self._finished.get(job, -1) + 1
        return self._finished[job]

    async def fetch(self, part: int) -> None:
        """Give one part; the connection breaks once at the part that was told."""
        await asyncio.sleep(0.001)
        if part == self._fails_at:
            self._fails_at = None
            raise ConnectionError(f"lost at part {part}")
        self.fetched.append(part)


class LookStep(Step[Job]):
    """One look per Step execution."""

    def __init__(self, system: ExportSystem) -> None:
        self._system = system

    def wait_for(self, context: Context, job: Job) -> Wait:
        return Wait.until(Timer.by_duration(job.interval))

    def execute(self, context: Context, job: Job) -> StepDecision:
        if self._system.finished(job.name) < job.parts:
            return go_to(LookStep, job)
        return graceful_complete(f"done at {context.step_execution_id}")


class AttemptStep(Step[Job]):
    """One look per attempt. Attempts that only look are no failures, so nothing limits them."""

    def __init__(self, system: ExportSystem) -> None:
        self._system = system

    def execute(self, context: Context, job: Job) -> StepDecision:
        if self._system.finished(job.name) < job.parts:
            raise RetryAfter(job.interval)
        return graceful_complete(f"done at attempt {context.attempt}")


class FetchStep(Step[Job]):
    """All parts in one execute. A Worker that is lost is noticed by its silence, long before the method's timeout."""

    def __init__(self, system: ExportSystem) -> None:
        self._system = system

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=0.1, maximum_interval=60.0)
        return StepOptions(heartbeat_timeout=30.0, execute_retry=retry)

    async def execute(self, context: Context, job: Job) -> StepDecision:
        begun_at = context.last_heartbeat_value(int) or 0
        for part in range(begun_at, job.parts):
            await self._system.fetch(part)
            await context.heartbeat(part + 1)
        return graceful_complete(f"done, attempt {context.attempt} began at part {begun_at}")


class PollByTimerFlow(Flow[Job]):
    """The loop is made of Steps."""

    def __init__(self, system: ExportSystem | None = None) -> None:
        self._step = LookStep(system or ExportSystem())

    def get_steps(self) -> StepList[Job]:
        return StepList.start_step(self._step)


class PollByRetryFlow(Flow[Job]):
    """The loop is made of attempts."""

    def __init__(self, system: ExportSystem | None = None) -> None:
        self._step = AttemptStep(system or ExportSystem())

    def get_steps(self) -> StepList[Job]:
        return StepList.start_step(self._step)


class PollInOneGoFlow(Flow[Job]):
    """The loop is an ordinary one."""

    def __init__(self, system: ExportSystem | None = None) -> None:
        self._step = FetchStep(system or ExportSystem())

    def get_steps(self) -> StepList[Job]:
        return StepList.start_step(self._step)


async def play(server: str) -> None:
    """Wait for one export in each way; the third loses its connection once."""
    for flow in (PollByTimerFlow(), PollByRetryFlow(), PollInOneGoFlow(ExportSystem(fails_at=3))):
        async with serving(flow, server) as client:
            flow_id = f"poll-{uuid.uuid4().hex[:8]}"
            await client.start_flow(flow, flow_id, Job("sales", parts=4, interval=0.1))
            result = await client.wait_for_flow(flow_id)
            print(flow_id, flow.get_flow_type(), result.status.value, result.single_output(str))


if __name__ == "__main__":
    run(play, __doc__)
