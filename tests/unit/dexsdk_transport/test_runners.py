"""How a blocked event loop is noticed [worker API: a warning names the Step]."""

import asyncio

import pytest

from dexsdk import Registry
from dexsdk._runners import BLOCKED_AFTER_MS, CHECK_EVERY_MS, LoopRunner


async def test_loop_that_does_not_turn_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """[WIRE-7]: this test's own task is what blocks the loop here."""
    runner = LoopRunner(Registry(()))
    runner.bind(asyncio.get_running_loop())
    asked_at = 10 * CHECK_EVERY_MS
    runner.check(asked_at)
    runner.check(asked_at + BLOCKED_AFTER_MS - 1)
    assert caplog.text == ""
    runner.check(asked_at + BLOCKED_AFTER_MS)
    runner.check(asked_at + 2 * BLOCKED_AFTER_MS)
    assert caplog.text.count("event_loop_blocked") == 1
    assert "test_loop_that_does_not_turn_is_reported_once" in caplog.text


async def test_loop_that_turns_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """[WIRE-7]"""
    runner = LoopRunner(Registry(()))
    runner.bind(asyncio.get_running_loop())
    for second in range(10, 30):
        runner.check(second * CHECK_EVERY_MS)
        await asyncio.sleep(0)
    assert caplog.text == ""


def test_loop_that_was_closed_ends_the_worker() -> None:
    """[DRAIN-1]"""
    loop = asyncio.new_event_loop()
    loop.close()
    runner = LoopRunner(Registry(()))
    runner.bind(loop)
    with pytest.raises(RuntimeError, match="closed before"):
        runner.check(0)
