"""A queue per customer that exists only while there is something in it.

Shows a Flow that takes what its Channel holds until it is empty, and then closes, both in one atomic check: a message
that is published at that moment is either seen by the check, and the Flow goes on, or refused. Who is refused starts
the Flow again under the same Flow ID and publishes once more, so nothing is lost and nothing waits. Start a server
(`dexd serve`), then `python -m examples.drain_channel`.
"""

import asyncio
import uuid
from contextlib import suppress

from dexsdk import (
    AsyncClient,
    Attribute,
    Channel,
    Context,
    Flow,
    FlowAlreadyStartedError,
    FlowNotActiveError,
    PersistenceSchema,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Timer,
    Wait,
    force_complete_if_channels_empty,
)
from examples.local_worker import run, serving

BATCH = 10
IDLE = 60.0
"""Seconds after which a queue that was started and never filled closes again."""

LETTERS = Channel("letters", str)
PRINTED = Attribute("printed", int)


class Printer:
    """Stands for a printer that does not print the same batch twice."""

    def __init__(self) -> None:
        self.batches: dict[str, list[str]] = {}

    def print(self, letters: list[str], *, key: str) -> None:
        """Print a batch, once per key."""
        self.batches.setdefault(key, letters)


class PrintStep(Step[None]):
    """Take a batch, print it, and close unless there is more."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.any_of(LETTERS.for_range(at_least=1, at_most=BATCH), Timer.by_duration(IDLE))

    def execute(self, context: Context, input: None) -> StepDecision:
        letters = LETTERS.results(context)
        if letters:
            self._printer.print(letters, key=context.idempotency_key)
        printed = PRINTED.get(context, default=0) + len(letters)
        PRINTED.set(context, printed)
        return force_complete_if_channels_empty(printed, StepMovement.of(PrintStep), LETTERS)


class PrintQueueFlow(Flow[None]):
    """Print until the queue is empty."""

    def __init__(self, printer: Printer | None = None) -> None:
        self._step = PrintStep(printer or Printer())

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self._step)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(LETTERS, PRINTED)


async def submit(client: AsyncClient, queue_id: str, letter: str) -> None:
    """Put a letter into a queue, and start the queue first if it does not run; many may do so at once."""
    while True:
        try:
            await client.publish(queue_id, LETTERS, letter)
        except FlowNotActiveError:  # Never started, or just closed.
            with suppress(FlowAlreadyStartedError):  # Somebody else was faster.
                await client.start_flow(PrintQueueFlow, queue_id)
        else:
            return


async def play(server: str) -> None:
    """Let five writers send fifty letters through one queue."""
    printer = Printer()
    async with serving(PrintQueueFlow(printer), server) as client:
        queue_id = f"letters-{uuid.uuid4().hex[:8]}"

        async def write(writer: int) -> None:
            for number in range(10):
                await submit(client, queue_id, f"{writer}.{number}")

        await asyncio.gather(*(write(writer) for writer in range(5)))
        result = await client.wait_for_flow(queue_id)
        letters = [letter for batch in printer.batches.values() for letter in batch]
        print(queue_id, result.status.value, f"{len(letters)} letters, {len(set(letters))} different ones")


if __name__ == "__main__":
    run(play, __doc__)
