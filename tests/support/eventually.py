"""Waits for what other processes do: a condition with a deadline, for tests that have nothing better to await."""

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 30.0
POLL_S = 0.005


async def eventually(is_met: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Return once the condition is met; fail the test, naming it, if it is not in time."""
    deadline = time.monotonic() + deadline_s
    while not is_met():
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(POLL_S)


def eventually_in_thread(is_met: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """The same for tests without a loop."""
    deadline = time.monotonic() + deadline_s
    while not is_met():
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        time.sleep(POLL_S)
