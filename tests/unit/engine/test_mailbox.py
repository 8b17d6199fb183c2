"""What waits for the kernel keeps its order, also when a drain takes more than it decides [ARCH-8]."""

import asyncio

import pytest

from dexd.core.commands import Tick
from dexd.engine.mailbox import Mailbox


async def test_what_was_taken_and_not_decided_goes_back_to_its_place() -> None:
    mailbox = Mailbox(10)
    commands = [Tick() for _ in range(5)]
    mailbox.put_all(commands)
    taken = mailbox.take(4)
    assert [command for command, _ in taken] == commands[:4]
    mailbox.put_back(taken[1:])
    assert all(found is put for (found, _), put in zip(mailbox.take(10), commands[1:], strict=True))
    assert not len(mailbox)


@pytest.mark.parametrize(("taken", "is_full"), [(0, True), (1, True), (2, False)])
async def test_room_is_there_again_once_enough_was_taken(taken: int, *, is_full: bool) -> None:
    mailbox = Mailbox(2)
    mailbox.put_all([Tick(), Tick(), Tick()])
    mailbox.take(taken)
    mailbox.put_back([])
    assert mailbox.is_full is is_full
    waiting = asyncio.ensure_future(mailbox.room())
    await asyncio.wait((waiting,), timeout=0.01)
    assert waiting.done() is not is_full
    waiting.cancel()


async def test_what_goes_back_into_a_full_mailbox_lets_nobody_in_meanwhile() -> None:
    """[ARCH-8] Also not whoever waited before the round began."""
    mailbox = Mailbox(2)
    mailbox.put_all([Tick(), Tick(), Tick()])
    waiting = asyncio.ensure_future(mailbox.room())
    await asyncio.sleep(0)
    mailbox.put_back(mailbox.take(3))
    await asyncio.wait((waiting,), timeout=0.01)
    assert not waiting.done()
    mailbox.put_back(mailbox.take(3)[2:])
    await waiting
