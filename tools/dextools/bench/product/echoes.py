"""Workload H: from a publication to the result of the Flow that waited for it."""

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
    Wait,
    graceful_complete,
)

PARKED = 200
"""Flows that are started ahead, so that each has long been waiting when its message comes."""

MESSAGES = Channel("messages", int)


class EchoStep(Step[None]):
    async def wait_for(self, context: Context, input: None) -> Wait:  # noqa: ARG002  the SDK's signature
        return Wait.until(MESSAGES.for_one())

    async def execute(self, context: Context, input: None) -> StepDecision:  # noqa: ARG002  the SDK's signature
        return graceful_complete(MESSAGES.results(context)[0])


class EchoFlow(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.start_step(EchoStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(MESSAGES)


class EchoClient:
    """What counts of each Flow is the time from its message to its result."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def prepare(self) -> None:
        """Park the first Flows."""
        for number in range(PARKED):
            await self._start(number)

    async def run_flow(self, number: int) -> float:
        began_at = perf_counter()
        await self._client.publish(f"echo-{number}", MESSAGES, number)
        result = await self._client.wait_for_flow(f"echo-{number}", timeout=60)
        took_ms = (perf_counter() - began_at) * 1_000
        assert result.single_output(int) == number
        await self._start(number + PARKED)
        return took_ms

    async def _start(self, number: int) -> None:
        await self._client.start_flow(EchoFlow, f"echo-{number}")
