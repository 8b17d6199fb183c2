"""Who is doing something in a test environment: the clock may only jump while nobody is [TEST-2]."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Activity:
    """Counts what happens, and the calls in which the test waits for the server. Of one event loop."""

    def __init__(self) -> None:
        self.count = 0
        """Grows with everything that may lead to something else."""
        self._waiting = 0
        self._happened = asyncio.Event()

    @property
    def is_test_waiting(self) -> bool:
        """Whether the test waits for an answer of the server."""
        return self._waiting > 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Say that the test waits for the server meanwhile."""
        self._waiting += 1
        self.note()
        try:
            yield
        finally:
            self._waiting -= 1
            self.note()

    def note(self) -> None:
        """Something happened."""
        self.count += 1
        self._happened.set()

    async def beyond(self, count: int) -> int:
        """Wait until more than that has happened; gives how much has."""
        while self.count <= count:
            self._happened.clear()
            await self._happened.wait()
        return self.count
