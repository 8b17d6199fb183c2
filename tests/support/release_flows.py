"""Two releases of one Flow: the new one has a Step and an RPC that the old one does not know [ROUTE-5, READY-6]."""

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    Registry,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Wait,
    go_to,
    graceful_complete,
    rpc,
)

GO = Channel("go", str)
TOUCHES = Attribute("touches", str)

SHIP_ATTEMPTS = 2


class OfferStep(Step[str]):
    """Both releases have it."""

    async def execute(self, context: Context, input: str) -> StepDecision:
        return go_to(ShipStep, input)


class ShipStep(Step[str]):
    """Only the new release has it."""

    async def wait_for(self, context: Context, input: str) -> Wait:
        return Wait.until(GO.for_one())

    async def execute(self, context: Context, input: str) -> StepDecision:
        return graceful_complete(f"{input} {GO.results(context)[0]}, attempt {context.attempt}")

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(initial_interval=0.1, maximum_attempts=SHIP_ATTEMPTS))


class OldRelease(Flow[str]):
    """Knows neither ShipStep nor the RPC `price`."""

    def get_flow_type(self) -> str:
        return "ParcelFlow"

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(OfferStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GO, TOUCHES)

    @rpc
    async def touch(self, context: Context, word: str) -> RPCResult[str]:
        """Have an effect, so that the Flow sticks to this worker [ROUTE-6]."""
        TOUCHES.set(context, word)
        return RPCResult.of(word)


class NewRelease(OldRelease):
    """Knows everything."""

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(OfferStep()).other_steps(ShipStep())

    @rpc
    async def price(self, context: Context) -> RPCResult[int]:
        return RPCResult.of(7)


PARCEL_FLOW = NewRelease()
"""What clients name."""


def old_registry() -> Registry:
    return Registry((OldRelease(),), allow_async_handlers=True)


def new_registry() -> Registry:
    return Registry((PARCEL_FLOW,), allow_async_handlers=True)
