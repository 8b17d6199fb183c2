"""Crawl a site with several workers, and stop them with a call.

Shows loops that run side by side, each a Step that schedules itself, and that stop because of an Attribute: an RPC sets
it, and each loop sees it in the snapshot of its next turn, after it has finished the page that it works on. Nothing is
cut off, which is what a stop of the Flow would do. Start a server (`dexd serve`), then
`python -m examples.interruptible_worker`.
"""

import uuid
from dataclasses import dataclass, replace

from dexsdk import (
    Attribute,
    AttributeMap,
    AttributeMatch,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Timer,
    Wait,
    go_to,
    go_to_many,
    graceful_complete,
    rpc,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Crawl:
    """How many loops run, and how many seconds each of them leaves between two pages."""

    loops: int
    pause: float = 60.0


@dataclass(frozen=True)
class Turn:
    """The next turn of one loop."""

    loop: str
    pause: float
    pages: int = 0


STOP_REASON = Attribute("stop_reason", str)
PAGES = AttributeMap("pages", int)


class BeginStep(Step[Crawl]):
    """Begin all loops."""

    def execute(self, context: Context, crawl: Crawl) -> StepDecision:
        turns = (Turn(f"loop-{number}", crawl.pause) for number in range(1, crawl.loops + 1))
        return go_to_many(*(StepMovement.of(CrawlStep, turn) for turn in turns))


class CrawlStep(Step[Turn]):
    """One page of one loop, unless somebody has asked to stop."""

    def wait_for(self, context: Context, turn: Turn) -> Wait:
        return Wait.until(Timer.by_duration(turn.pause))

    def execute(self, context: Context, turn: Turn) -> StepDecision:
        if (reason := STOP_REASON.get(context, default=None)) is not None:
            return graceful_complete(f"{turn.loop}: {turn.pages} pages, {reason}")
        # The page is fetched here.
        turn = replace(turn, pages=turn.pages + 1)
        PAGES.set(context, turn.loop, turn.pages)
        return go_to(CrawlStep, turn)


class CrawlFlow(Flow[Crawl]):
    """Crawl until told to stop."""

    def get_steps(self) -> StepList[Crawl]:
        return StepList.start_step(BeginStep()).other_steps(CrawlStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STOP_REASON, PAGES)

    @rpc
    def stop(self, context: Context, reason: str) -> RPCResult[int]:
        """Ask all loops to stop; gives how many pages there are so far."""
        STOP_REASON.set(context, reason)
        return RPCResult(sum(PAGES.get(context, loop) for loop in PAGES.get_all_instance_keys(context)))


async def play(server: str) -> None:
    """Stop three loops once the first of them has two pages."""
    flow = CrawlFlow()
    async with serving(flow, server) as client:
        flow_id = f"crawl-{uuid.uuid4().hex[:8]}"
        await client.start_flow(CrawlFlow, flow_id, Crawl(loops=3, pause=0.1))
        await client.wait_for_attribute_match(flow_id, PAGES, "loop-1", AttributeMatch.greater_or_equal(2))
        await client.invoke_rpc(flow.stop, flow_id, "enough")
        result = await client.wait_for_flow(flow_id)
        reasons = {completion.decode(str).split(", ")[1] for completion in result.completions}
        print(flow_id, result.status.value, f"{len(result.completions)} loops, {reasons}")


if __name__ == "__main__":
    run(play, __doc__)
