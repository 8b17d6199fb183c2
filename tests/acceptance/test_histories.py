"""Following the history of a Flow over all its runs, as a user sees it [HIST-5]."""

from datetime import timedelta

from dexsdk import Context, RetryPolicy, StartFlowOptions, StepDecision, force_complete, force_fail
from dexsdk.testing import start_env
from tests.acceptance.acts import Act, Play

AGAIN = StartFlowOptions(start_delay=1, retry_policy=RetryPolicy(maximum_attempts=3))
"""Delayed, so that the first run is still the latest one when the watch begins."""


class Tries:
    """Fails until its third run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, context: Context, input: int) -> StepDecision:
        self.count += 1
        return force_complete(self.count) if self.count == 3 else force_fail("not yet")


async def test_hist_5_a_watch_follows_the_runs_of_an_execution_and_reports_how_it_ended() -> None:
    """[START-8] Each run from its first event on, gap-free; the last event of all names the terminal status."""
    flow = Play(Act("A", Tries()))
    async with start_env(flow) as env:
        first = await env.client.start_flow(flow, "f", 0, AGAIN)
        runs: dict[str, list[int]] = {}
        closed = []
        async for event in env.client.watch_history("f"):
            runs.setdefault(event.run_id, []).append(event.event_id)
            if event.kind == "FlowClosed":
                closed.append((event.data["status"], event.data.get("next_run_id")))
        assert next(iter(runs)) == first
        assert all(ids == list(range(1, len(ids) + 1)) for ids in runs.values())
        _, second, third = runs
        assert closed == [("FAILED", second), ("FAILED", third), ("COMPLETED", None)]
        assert [event.event_id async for event in env.client.watch_history("f")] == runs[third]


async def test_hist_5_a_watch_that_follows_no_runs_ends_with_its_run() -> None:
    flow = Play(Act("A", Tries()))
    async with start_env(flow, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0, AGAIN)
        await env.advance(0)
        watch = env.client.watch_history("f", follow_runs=False, from_event_id=2)
        assert (await anext(watch)).event_id == 2
        await env.advance(timedelta(minutes=1))
        kinds = [event.kind async for event in watch]
        assert kinds.count("FlowClosed") == 1
        assert kinds[-1] == "FlowClosed"


async def test_hist_5_a_watch_goes_on_in_the_right_run_after_a_crash_of_the_server() -> None:
    """The first run is over when the connection breaks; the watch knows where it was."""
    flow = Play(Act("A", Tries()))
    async with start_env(flow, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0, AGAIN)
        watch = env.client.watch_history("f")
        seen = [await anext(watch)]
        env.crash_server()
        env.recover_server()
        await env.advance(timedelta(minutes=1))
        seen += [event async for event in watch]
        places = [(event.run_id, event.event_id) for event in seen]
        assert len(places) == len(set(places))
        assert [event.kind for event in seen].count("FlowClosed") == 3
        assert seen[-1].data["status"] == "COMPLETED"
