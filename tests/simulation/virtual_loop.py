"""An asyncio loop without a world: its clock jumps to the next timer whenever nothing can run.

There is no I/O and there are no threads, so the order of everything is a function of what the program does. A loop that
has neither ready callbacks nor timers would sleep for ever; it raises instead.
"""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class DeadlockError(RuntimeError):
    """Nothing can run and no timer is set."""


class _NoSelector(selectors.BaseSelector):
    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("nothing can run and no timer is set")
        self.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, 0, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds of this loop cost nothing."""

    def __init__(self) -> None:
        self._virtual = _NoSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now
