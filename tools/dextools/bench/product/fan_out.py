"""Workload D: one Step schedules many, and a last one waits for all their messages."""

from time import perf_counter

from dexsdk import (
    AsyncClient,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Wait,
    dead_end,
    go_to_many,
    graceful_complete,
)

ENDED = Channel("ended", float)
"""When each leaf returned, by the worker's clock in seconds."""


class SplitStep(Step[int]):
    """Schedules the join and that many leaves."""

    async def execute(self, context: Context, input: int) -> StepDecision:  # noqa: ARG002  the SDK's signature
        leaves = [StepMovement.of(LeafStep, number) for number in range(input)]
        return go_to_many(StepMovement.of(JoinStep, input), *leaves)


class LeafStep(Step[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:  # noqa: ARG002  the SDK's signature
        ENDED.publish(context, perf_counter())
        return dead_end()


class JoinStep(Step[int]):
    """Completes with the milliseconds since the last leaf."""

    async def wait_for(self, context: Context, input: int) -> Wait:  # noqa: ARG002  the SDK's signature
        return Wait.until(ENDED.for_n(input))

    async def execute(self, context: Context, input: int) -> StepDecision:  # noqa: ARG002  the SDK's signature
        return graceful_complete((perf_counter() - max(ENDED.results(context))) * 1_000)


class FanOutFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(SplitStep()).other_steps(LeafStep(), JoinStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ENDED)


class FanOutClient:
    """Runs fan-outs and keeps how long each join took after its last leaf."""

    def __init__(self, client: AsyncClient, steps: int) -> None:
        self._client = client
        self._leaves = steps - 2
        self.joins_ms: list[float] = []

    async def run_flow(self, number: int) -> None:
        flow_id = f"fan-{number}"
        await self._client.start_flow(FanOutFlow, flow_id, self._leaves)
        result = await self._client.wait_for_flow(flow_id, timeout=60)
        self.joins_ms.append(result.single_output(float))
