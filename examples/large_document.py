"""A document of 50 MB that goes through a Flow like any other value.

Shows large values as input, Attribute, RPC reply and output. They lie in the server's store, once for each content;
what travels with the Flow's events and calls are references, which the SDK resolves when a handler reads them. A
BlobCache spares the way to the server for what this process has seen before, and `preload` has a value at hand before
a handler is called, so that a coroutine does not hold up its event loop. Start a server (`dexd serve`), then
`python -m examples.large_document`.
"""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from dexsdk import (
    Attribute,
    BlobCache,
    BlobCacheConfig,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Wait,
    go_to,
    graceful_complete,
    open_blob_cache,
    rpc,
)
from examples.local_worker import run, serving

LINE = "All work and no play makes Jack a dull boy.\n"
LINES = 50_000_000 // len(LINE)

CACHE_BYTES = 500_000_000

DOCUMENT = Attribute("document", str)
LINE_COUNT = Attribute("lines", int)
CORRECTIONS = Channel("corrections", tuple[str, str])


class ImportStep(Step[str]):
    """Keep the input as the Flow's document."""

    async def execute(self, context: Context, text: str) -> StepDecision:
        DOCUMENT.set(context, text)
        return go_to(CountStep)


class CountStep(Step[None]):
    """Count its lines; the document is fetched before the coroutine begins."""

    def get_step_options(self) -> StepOptions:
        return StepOptions(preload=(DOCUMENT,))

    async def execute(self, context: Context, _: None) -> StepDecision:
        LINE_COUNT.set(context, DOCUMENT.get(context).count("\n"))
        return go_to(CorrectStep)


class CorrectStep(Step[None]):
    """Wait for a correction, and give the corrected document as the output."""

    async def wait_for(self, context: Context, _: None) -> Wait:
        return Wait.until(CORRECTIONS.for_one())

    def execute(self, context: Context, _: None) -> StepDecision:
        # A plain function runs in a thread of its own: there the first read may fetch.
        ((wrong, right),) = CORRECTIONS.results(context)
        corrected = DOCUMENT.get(context).replace(wrong, right)
        DOCUMENT.set(context, corrected)
        return graceful_complete(corrected)


class LargeDocumentFlow(Flow[str]):
    """Take a document in, count it, correct it."""

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(ImportStep()).other_steps(CountStep(), CorrectStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(DOCUMENT, LINE_COUNT, CORRECTIONS)

    @rpc(preload=(DOCUMENT,))
    async def head(self, context: Context, characters: int) -> RPCResult[str]:
        """Give the beginning of the document as it stands."""
        return RPCResult(DOCUMENT.get(context)[:characters])


@contextmanager
def blob_cache() -> Iterator[BlobCache]:
    """A cache for the length of the example; a real worker keeps its directory over restarts."""
    with tempfile.TemporaryDirectory() as directory:
        cache = open_blob_cache(BlobCacheConfig(directory, CACHE_BYTES))
        try:
            yield cache
        finally:
            cache.close()


async def play(server: str) -> None:
    """Send a document of 50 MB through the Flow and look at what comes out."""
    text = LINE * LINES
    flow = LargeDocumentFlow()
    with blob_cache() as cache:
        async with serving(flow, server, blob_cache=cache) as client:
            document = f"document-{uuid.uuid4().hex[:8]}"
            await client.start_flow(LargeDocumentFlow, document, text)
            await client.wait_for_attribute_equal(document, LINE_COUNT, LINES, 60)
            print(document, "has", LINES, "lines")
            await client.publish(document, CORRECTIONS, ("dull", "bright"))
            result = await client.wait_for_flow(document, 60)
            corrected = result.single_output(str)
            changed = corrected.count("a bright boy")
            print(document, result.status.value, f"{len(corrected) // 1_000_000} MB,", changed, "lines corrected")
            head: str = await client.invoke_rpc(flow.head, document, len(LINE))
            print(head)


if __name__ == "__main__":
    run(play, __doc__)
