"""Ask several route planners at once and take the first answer.

Shows Steps that run side by side on the same question, a winner that cancels its siblings, and handlers that stop when
nobody wants their result any more: an async one gets asyncio.CancelledError, a sync one asks
context.is_cancellation_requested() between two pieces of work. Start a server (`dexd serve`), then
`python -m examples.parallel_first_win`.
"""

import asyncio
import time
import uuid
from dataclasses import dataclass

from dexsdk import (
    Context,
    Flow,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    dead_end,
    go_to_many,
    graceful_complete,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Route:
    """Where to go, and how many seconds the planners need."""

    start: str
    end: str
    remote_seconds: tuple[float, ...]
    local_seconds: float


@dataclass(frozen=True)
class RemoteQuestion:
    """What one remote planner is asked."""

    planner: str
    seconds: float


class Notes:
    """What the planners did, for the reader of the example."""

    def __init__(self) -> None:
        self.stopped: list[str] = []


class AskStep(Step[Route]):
    """Begin the race: some remote planners, and one on this machine."""

    def execute(self, context: Context, route: Route) -> StepDecision:
        remote = (
            StepMovement.of(RemoteStep, RemoteQuestion(f"planner-{number}", seconds))
            for number, seconds in enumerate(route.remote_seconds, 1)
        )
        return go_to_many(*remote, StepMovement.of(LocalStep, route))


class RemoteStep(Step[RemoteQuestion]):
    """Wait for a remote planner; a cancellation arrives as an exception, wherever the handler awaits."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def execute(self, context: Context, question: RemoteQuestion) -> StepDecision:
        try:
            await asyncio.sleep(question.seconds)
        except asyncio.CancelledError:
            # The planner is told here that its answer is not needed any more.
            self._notes.stopped.append(question.planner)
            raise
        return graceful_complete(question.planner).with_canceling_sibling_steps(RemoteStep, LocalStep)


class LocalStep(Step[Route]):
    """Search on this machine, in a thread; it has to look whether anybody still waits for it."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def execute(self, context: Context, route: Route) -> StepDecision:
        ends_at = time.monotonic() + route.local_seconds
        while time.monotonic() < ends_at:
            if context.is_cancellation_requested():
                self._notes.stopped.append("local")
                return dead_end()
            time.sleep(0.005)  # One piece of the search.
        return graceful_complete("local").with_canceling_sibling_steps(RemoteStep)


class RouteFlow(Flow[Route]):
    """The first answer is the answer."""

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes or Notes()

    def get_steps(self) -> StepList[Route]:
        return StepList.start_step(AskStep()).other_steps(RemoteStep(self._notes), LocalStep(self._notes))


async def play(server: str) -> None:
    """Let a remote planner win one race and the local one another."""
    notes = Notes()
    async with serving(RouteFlow(notes), server) as client:
        for remote_seconds, local_seconds in (((60.0, 0.3), 60.0), ((60.0, 60.0), 0.3)):
            flow_id = f"route-{uuid.uuid4().hex[:8]}"
            await client.start_flow(RouteFlow, flow_id, Route("Rome", "Oslo", remote_seconds, local_seconds))
            result = await client.wait_for_flow(flow_id)
            print(flow_id, result.status.value, result.single_output(str))
    # The worker has ended, and with it every handler.
    print("stopped:", sorted(notes.stopped))


if __name__ == "__main__":
    run(play, __doc__)
