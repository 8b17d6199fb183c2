"""Three ways to poll."""

from datetime import timedelta

import pytest

from dexsdk.testing import start_env, start_env_sync
from examples.polling import ExportSystem, Job, PollByRetryFlow, PollByTimerFlow, PollInOneGoFlow

HOUR = timedelta(hours=1)
DAILY = Job("sales", parts=24, interval=3_600)


def test_a_loop_of_timers_looks_once_an_interval() -> None:
    """[TIMER-1] the first look comes after the first interval."""
    with start_env_sync(PollByTimerFlow(ExportSystem())) as env:
        begun = env.now
        env.client.start_flow(PollByTimerFlow, "poll", DAILY)
        assert env.client.wait_for_flow("poll", timeout=10).single_output(str) == "done at LookStep-25"
        assert env.now - begun == 25 * HOUR


def test_retry_after_looks_once_an_interval_in_one_step_execution() -> None:
    """[RETRY-6] the delay is neither doubled nor cut at the cap of 100 s, and attempts do not run out."""
    system = ExportSystem()
    with start_env_sync(PollByRetryFlow(system)) as env:
        begun = env.now
        env.client.start_flow(PollByRetryFlow, "poll", DAILY)
        assert env.client.wait_for_flow("poll", timeout=10).single_output(str) == "done at attempt 25"
        assert env.now - begun == 24 * HOUR
        kinds = [event.kind for event in env.client.get_history("poll").events]
        assert kinds.count("StepScheduled") == 1
    assert system.looks == 25


async def test_a_long_execute_goes_on_at_its_checkpoint_after_a_failure() -> None:
    """[HB-2] the second attempt begins at the newest heartbeat of the first."""
    system = ExportSystem(fails_at=17)
    async with start_env(PollInOneGoFlow(system)) as env:
        await env.client.start_flow(PollInOneGoFlow, "poll", DAILY)
        result = await env.client.wait_for_flow("poll", timeout=10)
        assert result.single_output(str) == "done, attempt 2 began at part 17"
    assert system.fetched == list(range(24))


async def test_a_worker_that_is_lost_with_its_result_costs_what_followed_its_last_heartbeat() -> None:
    """[HB-2, LOST-2] the loss is a failed attempt; the next one begins at what the server had heard of."""
    system = ExportSystem()
    async with start_env(PollInOneGoFlow(system)) as env:
        env.duplicate_next_delivery()
        await env.client.start_flow(PollInOneGoFlow, "poll", DAILY)
        result = await env.client.wait_for_flow("poll", timeout=10)
        assert result.single_output(str).startswith("done, attempt 2 began at part ")
    begun_at = int(result.single_output(str).split()[-1])
    assert begun_at >= 1
    assert system.fetched == [*range(24), *range(begun_at, 24)]


@pytest.mark.parametrize("flow", [PollByTimerFlow, PollByRetryFlow])
def test_a_server_that_is_killed_between_two_looks_goes_on_looking(
    flow: type[PollByTimerFlow] | type[PollByRetryFlow],
) -> None:
    """[RETRY-7, TIMER-4]"""
    system = ExportSystem()
    with start_env_sync(flow(system), auto_skip=False) as env:
        env.client.start_flow(flow, "poll", DAILY)
        env.advance(10.5 * HOUR)
        env.crash_server()
        env.advance(5 * HOUR)
        env.recover_server()
        env.advance(20 * HOUR)
        assert env.client.wait_for_flow("poll", timeout=10).status.value == "COMPLETED"
    assert system.looks == 25
