"""Workload E: many Flows that do nothing but wait for a Timer."""

from time import perf_counter

from dexsdk import AsyncClient, Context, Flow, Step, StepDecision, StepList, Timer, Wait, graceful_complete

TIMER_S = 1.0


class SleepStep(Step[None]):
    async def wait_for(self, context: Context, input: None) -> Wait:  # noqa: ARG002  the SDK's signature
        return Wait.until(Timer.by_duration(TIMER_S))

    async def execute(self, context: Context, input: None) -> StepDecision:  # noqa: ARG002  the SDK's signature
        return graceful_complete(True)


class SleepFlow(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.start_step(SleepStep())


class EarlyTimerError(Exception):
    """A Flow ended before its Timer was due [TIMER-4]."""


class SleepClient:
    """What counts of each Flow is what it took beyond its Timer."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def run_flow(self, number: int) -> float:
        flow_id = f"sleep-{number}"
        began_at = perf_counter()
        await self._client.start_flow(SleepFlow, flow_id)
        await self._client.wait_for_flow(flow_id, timeout=60)
        late_ms = (perf_counter() - began_at - TIMER_S) * 1_000
        if late_ms < 0:
            raise EarlyTimerError(f"Flow {flow_id} ended {-late_ms:.1f} ms early")
        return late_ms
