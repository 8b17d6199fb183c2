"""Commands on their way to the kernel, in the order of their arrival [ARCH-8]."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from dexd.core.commands import Command
from dexd.core.outcome import Reply
from dexd.engine.ports import OnAnswer

Letter: TypeAlias = tuple[Command, OnAnswer[Reply] | None]
"""A command, and who gets its reply."""


class Mailbox:
    """A bounded queue.

    Requests of clients are refused when it is full; sessions are held back by `room` and never refused, because what a
    worker says cannot be said again.
    """

    __slots__ = ("_capacity", "_has_room", "_is_holding_back", "_letters")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._letters: deque[Letter] = deque()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_holding_back = False

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def is_full(self) -> bool:
        """Whether the capacity is used up."""
        return len(self._letters) >= self._capacity

    async def room(self) -> None:
        """Return when it is not full."""
        await self._has_room.wait()

    def put(self, command: Command, on_answer: OnAnswer[Reply] | None = None) -> None:
        """Append a command."""
        self._letters.append((command, on_answer))
        if len(self._letters) >= self._capacity:
            self._is_holding_back = True
            self._has_room.clear()

    def put_all(self, commands: Sequence[Command]) -> None:
        """Append commands whose reply nobody waits for."""
        self._letters.extend([(command, None) for command in commands])
        if len(self._letters) >= self._capacity:
            self._is_holding_back = True
            self._has_room.clear()

    def take(self, limit: int) -> list[Letter]:
        """Remove the oldest commands, that many at most, until `put_back` tells which of them were not decided."""
        popleft = self._letters.popleft
        return [popleft() for _ in range(min(limit, len(self._letters)))]

    def put_back(self, letters: Sequence[Letter]) -> None:
        """Return the last of what was taken, perhaps nothing, to where it was; only now is there room for others."""
        self._letters.extendleft(reversed(letters))
        if self._is_holding_back and len(self._letters) < self._capacity:
            self._let_in()

    def take_all(self) -> list[Letter]:
        """Remove everything."""
        letters = list(self._letters)
        self._letters.clear()
        self._let_in()
        return letters

    def _let_in(self) -> None:
        self._is_holding_back = False
        self._has_room.set()
