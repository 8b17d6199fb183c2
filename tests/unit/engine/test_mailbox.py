"""What waits for the kernel keeps its order, also when a drain takes more than it decides [ARCH-8]."""

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


async def test_room_is_there_again_once_enough_was_taken() -> None:
    mailbox = Mailbox(2)
    mailbox.put_all([Tick(), Tick(), Tick()])
    assert mailbox.is_full
    mailbox.take(1)
    assert mailbox.is_full
    mailbox.take(1)
    assert not mailbox.is_full
    await mailbox.room()
