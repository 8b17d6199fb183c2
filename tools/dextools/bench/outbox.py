"""Items on their way out of one session: everything that is queued leaves in one message."""

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """A list that one task empties, for use on one event loop."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._waiter is not None:
            self._waiter.set_result(None)
            self._waiter = None

    async def take(self) -> list[T]:
        """All items queued so far; waits while there is none."""
        if not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        items, self._items = self._items, []
        return items
