"""A document whose edits are accepted at once and published a little later.

Shows a write RPC that answers with a revision without waiting for the work behind it, and a client that waits for just
that revision with wait_for_attribute_match, as a web page does that wants to show the result of its own edit. The RPC
locks the Attribute that it counts in, so that two edits never get the same revision. Start a server (`dexd serve`),
then `python -m examples.responsive_update`.
"""

import asyncio
import random
import uuid
from dataclasses import dataclass

from dexsdk import (
    AsyncClient,
    Attribute,
    AttributeMatch,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RpcLockConflictError,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    WaitForAttributeOptions,
    go_to,
    rpc,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Edit:
    """A text, and the revision that it makes."""

    revision: int
    text: str


ACCEPTED = Attribute("accepted_revision", int)
PUBLISHED = Attribute("published_revision", int)
TEXT = Attribute("text", str)
EDITS = Channel("edits", Edit)


class TakeStep(Step[float]):
    """Wait for edits; of several, the newest is enough."""

    def wait_for(self, context: Context, seconds: float) -> Wait:
        return Wait.until(EDITS.at_least(1))

    def execute(self, context: Context, seconds: float) -> StepDecision:
        return go_to(PublishStep, Edition(EDITS.results(context)[-1], seconds))


@dataclass(frozen=True)
class Edition:
    """An edit, and how many seconds it takes to publish one."""

    edit: Edit
    seconds: float


class PublishStep(Step[Edition]):
    """Publish one edit, which takes its time; those that come meanwhile wait in the Channel."""

    def wait_for(self, context: Context, edition: Edition) -> Wait:
        return Wait.until(Timer.by_duration(edition.seconds))

    def execute(self, context: Context, edition: Edition) -> StepDecision:
        TEXT.set(context, edition.edit.text)
        PUBLISHED.set(context, edition.edit.revision)
        return go_to(TakeStep, edition.seconds)


class DocumentFlow(Flow[float]):
    """Accept and publish, for as long as the document exists; the input is how long publishing takes."""

    def get_steps(self) -> StepList[float]:
        return StepList.start_step(TakeStep()).other_steps(PublishStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ACCEPTED, PUBLISHED, TEXT, EDITS)

    @rpc(lock_attributes=(ACCEPTED.lock(),))
    def edit(self, context: Context, text: str) -> RPCResult[int]:
        """Accept a text; gives its revision. The lock keeps two edits from becoming the same one."""
        revision = ACCEPTED.get(context, default=0) + 1
        ACCEPTED.set(context, revision)
        EDITS.publish(context, Edit(revision, text))
        return RPCResult(revision)


async def edit(client: AsyncClient, flow: DocumentFlow, document: str, text: str) -> int:
    """Edit, and try again when somebody else does so at this very moment; gives the revision [LOCK-4]."""
    while True:
        try:
            return await client.invoke_rpc(flow.edit, document, text)
        except RpcLockConflictError:
            await asyncio.sleep(random.uniform(0.001, 0.02))


async def wait_until_published(client: AsyncClient, document: str, revision: int, patience: float = 30.0) -> int:
    """Return once a revision, or a newer one, can be read; gives which.

    Raises:
        LongPollTimeoutError: that took longer than the patience, in seconds; the edit stays accepted.
    """
    return await client.wait_for_attribute_match(
        document, PUBLISHED, AttributeMatch.greater_or_equal(revision), WaitForAttributeOptions(patience)
    )


async def play(server: str) -> None:
    """Edit a document three times, and read it once the third edit is published."""
    flow = DocumentFlow()
    async with serving(flow, server) as client:
        document = f"document-{uuid.uuid4().hex[:8]}"
        await client.start_flow(DocumentFlow, document, 0.2)
        revision = 0
        for text in ("It was", "It was a dark", "It was a dark night"):
            revision = await edit(client, flow, document, text)
            print(document, "accepted revision", revision)
        published = await wait_until_published(client, document, revision)
        print(document, "shows revision", published, "-", await client.get_attribute(document, TEXT))
        await client.stop_flow(document)


if __name__ == "__main__":
    run(play, __doc__)
