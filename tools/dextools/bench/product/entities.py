"""Workload G: RPCs that read and write the state of open Flows."""

from dexsdk import AsyncClient, Attribute, Context, Flow, PersistenceSchema, RPCResult, StepList, rpc

ENTITIES = 64
"""Open Flows among which the calls go round."""

BALANCE = Attribute("balance", int)


class EntityFlow(Flow[None]):
    """Lives on RPCs alone."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(BALANCE)

    @rpc
    async def read(self, context: Context) -> RPCResult[int]:
        try:
            return RPCResult(BALANCE.get(context))
        except KeyError:
            return RPCResult(0)

    @rpc
    async def write(self, context: Context, amount: int) -> RPCResult[None]:
        BALANCE.set(context, amount)
        return RPCResult(None)


ENTITY = EntityFlow()


class EntityClient:
    """Each call counts as a Flow of one Step."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def prepare(self) -> None:
        """Start the Flows."""
        for number in range(ENTITIES):
            await self._client.start_flow(EntityFlow, f"entity-{number}")

    async def read(self, number: int) -> None:
        await self._client.invoke_rpc(ENTITY.read, f"entity-{number % ENTITIES}")

    async def write(self, number: int) -> None:
        await self._client.invoke_rpc(ENTITY.write, f"entity-{number % ENTITIES}", number)
