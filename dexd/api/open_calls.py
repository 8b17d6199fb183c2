"""How many calls are being answered, so that a server that stops waits for them and for nothing else [DRAIN-4]."""

import asyncio
from types import TracebackType


class OpenCalls:
    """Counts calls; each is a `with` block of its handler."""

    def __init__(self) -> None:
        self._count = 0
        self._is_none = asyncio.Event()
        self._is_none.set()

    async def ended(self) -> None:
        """Wait until no call is open."""
        await self._is_none.wait()

    def __enter__(self) -> None:
        self._count += 1
        self._is_none.clear()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _stack: TracebackType | None
    ) -> None:
        self._count -= 1
        if not self._count:
            self._is_none.set()
