"""A race whose winner cancels the others."""

import pytest

from dexsdk import FlowStatus
from dexsdk.testing import start_env
from examples.parallel_first_win import Notes, Route, RouteFlow
from tests.support.eventually import eventually


async def test_the_first_answer_cancels_those_that_have_not_begun() -> None:
    """[DEC-9, DEC-11] they are dropped from the queue, and no handler of theirs runs."""
    notes = Notes()
    async with start_env(RouteFlow(notes)) as env:
        await env.client.start_flow(RouteFlow, "route", Route("Rome", "Oslo", (0, 60, 60), 60))
        result = await env.client.wait_for_flow("route", timeout=10)
        assert (result.status, result.single_output(str)) == (FlowStatus.COMPLETED, "planner-1")
        events = (await env.client.get_history("route")).events
        canceled = [event.data["step_execution_id"] for event in events if event.kind == "StepCanceled"]
        assert canceled == ["RemoteStep-2", "RemoteStep-3", "LocalStep-1"]
    assert notes.stopped == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("route", "winner", "loser"),
    [
        (Route("Rome", "Oslo", (60, 0), 60), "planner-2", "planner-1"),
        (Route("Rome", "Oslo", (60,), 0), "local", "planner-1"),
        (Route("Rome", "Oslo", (0.7,), 60), "planner-1", "local"),
    ],
)
async def test_a_handler_that_runs_is_told_to_stop(route: Route, winner: str, loser: str) -> None:
    """[DEC-11, STOP-5] the Flow does not wait for it, be it async or one that has to ask."""
    notes = Notes()
    async with start_env(RouteFlow(notes)) as env:
        await env.client.start_flow(RouteFlow, "route", route)
        result = await env.client.wait_for_flow("route", timeout=10)
        assert result.single_output(str) == winner
        await eventually(lambda: notes.stopped == [loser], f"{loser} stops")
