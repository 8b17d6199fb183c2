"""Acceptance example 46 of the Flow model: a Flow that is blocked in each way, and what explain says of it.

Workers are the subject of tests/conformance/test_live_state_api.py, which has a server of its own.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dexsdk import (
    Attribute,
    Channel,
    Context,
    FlowNotFoundError,
    RetryPolicy,
    StartFlowOptions,
    StepDecision,
    StepOptions,
    SubFlow,
    Timer,
    Wait,
    dead_end,
)
from dexsdk.testing import Environment, start_env
from tests.acceptance.acts import Act, Play, WaitingAct, raising

C = Channel("c", int)
STOCK = Attribute("stock", int)
HOUR = timedelta(hours=1)
SLOW = RetryPolicy(initial_interval=HOUR, maximum_interval=HOUR)


class Child(Play):
    """Waits for a message that nobody sends."""


def ends(context: Context, input: int) -> StepDecision:
    return dead_end()


CHILD = Child(WaitingAct("Begin", lambda _context, _input: Wait.until(C.for_one()), ends), uses=(C,))


def play(wait_for: Callable[[], Wait]) -> Play:
    return Play(WaitingAct("A", lambda _context, _input: wait_for(), ends), uses=(C, STOCK))


def failing() -> Play:
    locked = StepOptions(execute_retry=SLOW, execute_lock_attributes=[STOCK.lock()])
    return Play(Act("A", raising(OSError("no line")), locked), uses=(C, STOCK))


async def blockers(env: Environment, flow_id: str) -> list[tuple[str, str, str]]:
    explanation = await env.client.explain(flow_id)
    return [(blocker.step_execution_id, blocker.kind, blocker.text) for blocker in explanation.blockers]


WAITS: list[Any] = [
    pytest.param(
        lambda: Wait.until(C.for_n(3)), "CHANNEL", "waiting on Channel 'c' with 2 of 3 messages", id="channel"
    ),
    pytest.param(
        lambda: Wait.until(Timer.by_duration(HOUR, "t")),
        "TIMER",
        "Timer 't' until 2025-01-01T01:00:00.000Z",
        id="timer",
    ),
    pytest.param(
        lambda: Wait.until(SubFlow.run(CHILD, 0)),
        "SUBFLOW",
        "SubFlow 'sys:sub:f/A-1/0' of type 'Child' is RUNNING",
        id="sub_flow",
    ),
]


@pytest.mark.parametrize(("wait_for", "kind", "text"), WAITS)
async def test_row_46_a_flow_that_waits(wait_for: Callable[[], Wait], kind: str, text: str) -> None:
    """[HIST-6] The true blocker, over a crash of the server too."""
    flow = play(wait_for)
    async with start_env(flow, CHILD, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0)
        await env.client.publish("f", C, 1, 2)
        assert await blockers(env, "f") == [("A-1", kind, text)]
        env.crash_server()
        env.recover_server()
        assert await blockers(env, "f") == [("A-1", kind, text)]


async def test_row_46_a_flow_that_is_tried_again_later_and_one_that_waits_for_its_lock() -> None:
    """[HIST-6, LOCK-2] RETRY and LOCK; since and until are the instants of the failure and of the next attempt."""
    flow = failing()
    async with start_env(flow, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0, StartFlowOptions().with_attribute(STOCK, 1))
        await env.client.invoke_rpc(flow.schedule, "f", "A")
        retry, lock = (await env.client.explain("f")).blockers
        assert (retry.step_execution_id, retry.kind) == ("A-1", "RETRY")
        assert retry.text == "retry at 2025-01-01T01:00:00.000Z (attempt 2 of execute) after OSError: no line"
        assert (retry.since, retry.until) == (env.now, env.now + HOUR)
        assert (lock.step_execution_id, lock.kind) == ("A-2", "LOCK")
        assert lock.text == "lock on Attribute 'stock' held by A-1"
        state = await env.client.get_flow_state("f")
        assert [(held.name, held.by) for held in state.locks.held] == [("stock", "A-1")]
        assert [(awaited.name, awaited.by) for awaited in state.locks.awaited] == [("stock", "A-2")]
        last = state.steps[0].last_failure
        assert last is not None
        assert (last.error_type, last.detail, last.attempt, last.worker_id, last.at) == (
            "OSError",
            "no line",
            1,
            "test-worker",
            env.now,
        )


async def test_row_46_a_flow_that_begins_later_and_one_without_steps() -> None:
    """[HIST-6, START-7] START_DELAY, and NO_STEPS for a Flow that has none or is closed."""
    flow = play(lambda: Wait.skip_immediately())
    async with start_env(flow, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0, StartFlowOptions(start_delay=HOUR))
        (delay,) = (await env.client.explain("f")).blockers
        assert (delay.kind, delay.text) == ("START_DELAY", "start delay until 2025-01-01T01:00:00.000Z")
        assert (delay.since, delay.until) == (env.now, env.now + HOUR)
        await env.advance(HOUR)
        ((step, kind, _),) = await blockers(env, "f")
        assert (step, kind) == ("", "NO_STEPS")
        await env.client.stop_flow("f")
        ((_, kind, text),) = await blockers(env, "f")
        assert (kind, text) == ("NO_STEPS", "no active Step: the Flow is CANCELED since 2025-01-01T01:00:00.000Z")
        with pytest.raises(FlowNotFoundError):
            await env.client.explain("nobody")


async def test_hist_1_the_live_state_of_a_waiting_flow() -> None:
    """What a client gets: instants as datetimes, values as they are."""
    flow = play(lambda: Wait.any_of(Timer.by_duration(HOUR, "t"), C.for_n(3)))
    async with start_env(flow, auto_skip=False) as env:
        options = StartFlowOptions(timeout=HOUR * 2).with_attribute(STOCK, 2**53 + 1)
        run_id = await env.client.start_flow(flow, "f", 7, options)
        await env.client.publish("f", C, 1)
        state = await env.client.get_flow_state("f")
        assert (state.flow_id, state.run_id, state.status.value, state.ordinal) == ("f", run_id, "RUNNING", 1)
        assert (state.started_at, state.closed_at) == (env.now, None)
        assert state.timeout is not None
        assert (state.timeout.at, state.timeout.policy.value) == (env.now + HOUR * 2, "FAIL")
        assert [(row.name, row.instance, row.value) for row in state.attributes] == [("stock", None, 2**53 + 1)]
        (channel,) = state.channels
        assert (channel.name, channel.count, [message.value for message in channel.messages]) == ("c", 1, [1])
        (step,) = state.steps
        assert (step.step_execution_id, step.phase, step.input, step.since) == ("A-1", "WAITING", 7, env.now)
        assert step.wait is not None
        timer, messages = step.wait.conditions
        assert (timer.status, timer.deadline) == ("PENDING", env.now + HOUR)
        assert (messages.status, messages.queued, messages.at_least) == ("WAITING", 1, 3)
        info = await env.client.describe_flow("f")
        assert (state.history_events, state.first_run_id) == (info.history_events, info.first_run_id)
        await env.advance(HOUR)
        assert (await env.client.get_flow_state("f")).steps == ()


async def test_row_46_blockers_are_told_over_a_roll_over_too() -> None:
    """[ROLL-3] Calls and locks belong to the chain of runs; so does what is said of them."""
    flow = failing()
    async with start_env(flow, auto_skip=False) as env:
        await env.client.start_flow(flow, "f", 0, StartFlowOptions().with_attribute(STOCK, 1))
        await env.client.invoke_rpc(flow.schedule, "f", "A")
        before = await blockers(env, "f")
        first = await env.client.get_flow_state("f")
        await env.client.trigger_continue_as_new("f")
        assert await blockers(env, "f") == before
        state = await env.client.get_flow_state("f")
        assert state.run_id != first.run_id
        assert (state.first_run_id, state.locks, state.steps) == (first.first_run_id, first.locks, first.steps)
