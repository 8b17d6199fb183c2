"""A queue that closes when it is empty, and loses nothing."""

import asyncio
from datetime import timedelta

from dexsdk.testing import start_env
from examples.drain_channel import LETTERS, Printer, PrintQueueFlow, submit


def printed(printer: Printer) -> list[str]:
    return [letter for batch in printer.batches.values() for letter in batch]


async def test_a_queue_takes_what_is_there_in_batches_and_closes() -> None:
    """[DEC-4, CHAN-4] what came in one publish is seen as a whole; each batch takes ten at most."""
    printer = Printer()
    async with start_env(PrintQueueFlow(printer), auto_skip=False) as env:
        await env.client.start_flow(PrintQueueFlow, "ada")
        await env.client.publish("ada", LETTERS, *map(str, range(25)))
        assert (await env.client.wait_for_flow("ada", timeout=10)).single_output(int) == 25
    assert [len(batch) for batch in printer.batches.values()] == [10, 10, 5]
    assert printed(printer) == [str(number) for number in range(25)]


async def test_a_letter_for_a_closed_queue_opens_it_again_under_the_same_flow_id() -> None:
    """[START-4, ID-8] each execution has keys of its own, so that its letters are printed too."""
    printer = Printer()
    async with start_env(PrintQueueFlow(printer), auto_skip=False) as env:
        for day in range(3):
            await submit(env.client, "ada", f"day {day}")
            await env.advance(timedelta(days=1))
        assert (await env.client.describe_flow("ada")).ordinal == 3
    assert printed(printer) == ["day 0", "day 1", "day 2"]


async def test_writers_who_race_the_end_of_the_queue_lose_nothing() -> None:
    """[DEC-5] acceptance row 13: each letter was printed, or its publish was refused and repeated."""
    printer = Printer()
    async with start_env(PrintQueueFlow(printer), auto_skip=False) as env:

        async def write(writer: int) -> None:
            for number in range(10):
                await submit(env.client, "ada", f"{writer}.{number}")

        await asyncio.gather(*(write(writer) for writer in range(5)))
        assert (await env.client.describe_flow("ada")).ordinal > 1
    assert sorted(printed(printer)) == sorted(f"{writer}.{number}" for writer in range(5) for number in range(10))


async def test_a_queue_that_stays_empty_closes_after_a_while() -> None:
    """Who started it may have died before it could publish."""
    async with start_env(PrintQueueFlow()) as env:
        await env.client.start_flow(PrintQueueFlow, "ada")
        begun = env.now
        assert (await env.client.wait_for_flow("ada", timeout=10)).single_output(int) == 0
        assert env.now - begun == timedelta(minutes=1)
