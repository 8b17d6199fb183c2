"""Acceptance examples of the Flow model about waits, timers, Channels and RPCs, with virtual time."""

import asyncio
from datetime import timedelta

import pytest

from dexsdk import (
    AsyncClient,
    Attribute,
    Channel,
    ConditionCombination,
    Context,
    Flow,
    FlowNotActiveError,
    FlowStatus,
    PersistenceSchema,
    RetryPolicy,
    RpcLockConflictError,
    RPCResult,
    SkipTimerOutcome,
    StartFlowOptions,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOptions,
    Timer,
    TimerId,
    Wait,
    WorkerInvocationError,
    dead_end,
    graceful_complete,
    rpc,
)
from dexsdk.testing import Environment, start_env
from tests.acceptance.acts import Act, Play, WaitingAct

C = Channel("c", int)
HOUR = timedelta(hours=1)
LATER = StartFlowOptions(start_delay=HOUR)
"""So that messages and skips are there before the Step waits."""


async def installed(env: Environment, flow_id: str, count: int = 1) -> None:
    """Return once so many Waits are installed."""
    seen = 0
    async for event in env.client.watch_history(flow_id):
        seen += event.kind == "WaitForCompleted"
        if seen == count:
            return


def taking(*waits: Wait, uses: Channel[int] = C) -> Play:
    """Each Step execution waits for one of these and outputs what it took and whether its Timer fired."""

    def wait_for(context: Context, input: int) -> Wait:
        return waits[input]

    def execute(context: Context, input: int) -> StepDecision:
        return graceful_complete([int(context.has_timer_fired()), *uses.results(context)])

    return Play(WaitingAct("A", wait_for, execute), uses=(uses,))


async def output_of(client: AsyncClient, flow_id: str) -> list[int]:
    return (await client.wait_for_flow(flow_id)).single_output(list[int])


@pytest.mark.parametrize("rounds", [200, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.slow
async def test_row_1_a_message_around_the_installation_is_consumed_once(rounds: int) -> None:
    """[WAIT-4, CHAN-1] Before the Step waits, and up to five round trips of a client later."""
    play = taking(Wait.until(C.for_one()))
    async with start_env(play, auto_skip=False) as env:

        async def play_round(number: int) -> list[int]:
            flow_id = f"f-{number}"
            await env.client.start_flow(play, flow_id, 0)
            for _ in range(number % 6):
                await env.client.describe_flow(flow_id)
            await env.client.publish(flow_id, C, number)
            return await output_of(env.client, flow_id)

        for first in range(0, rounds, 50):
            results = await asyncio.gather(*(play_round(number) for number in range(first, first + 50)))
            assert results == [[0, number] for number in range(first, first + 50)]
            assert not [
                message
                for number in range(first, first + 50, 10)
                for message in await env.client.list_channel_messages(f"f-{number}", C)
            ]


async def test_row_2_a_due_timer_beats_a_queued_message() -> None:
    """[WAIT-5, WAIT-9] The message stays queued."""
    play = taking(Wait.any_of(C.for_one(), Timer.by_duration(0)))
    async with start_env(play, auto_skip=False) as env:
        await env.client.start_flow(play, "f", 0, LATER)
        await env.client.publish("f", C, 7)
        await env.advance(HOUR)
        assert await output_of(env.client, "f") == [1]
        assert [message.value for message in await env.client.list_channel_messages("f", C)] == [7]


async def test_row_3_upper_bounds_are_caps_and_no_preconditions() -> None:
    """[WAIT-8, CHAN-4] at_most(3) of nothing goes on at once; for_range(1, 3) of five takes three and leaves two."""
    play = taking(Wait.until(C.at_most(3)), Wait.until(C.for_range(at_least=1, at_most=3)))
    async with start_env(play) as env:
        await env.client.start_flow(play, "empty", 0)
        assert await output_of(env.client, "empty") == [0]
        await env.client.start_flow(play, "five", 1)
        await env.client.publish("five", C, 1, 2, 3, 4, 5)
        assert await output_of(env.client, "five") == [0, 1, 2, 3]
        assert [message.value for message in await env.client.list_channel_messages("five", C)] == [4, 5]


async def test_row_4_conditions_on_one_channel_never_share_a_message() -> None:
    """[WAIT-7, WAIT-11] Two and one need three; each gets its own."""
    seen: list[list[int]] = []

    def wait_for(context: Context, input: int) -> Wait:
        return Wait.all_of(C.for_n(2, condition_id="two"), C.for_one(condition_id="one"))

    def execute(context: Context, input: int) -> StepDecision:
        seen.extend([C.results(context, "two"), C.results(context, "one")])
        return graceful_complete()

    play = Play(WaitingAct("A", wait_for, execute), uses=(C,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        await env.client.publish("f", C, 1, 2)
        await installed(env, "f")
        assert (await env.client.describe_flow("f")).status is FlowStatus.RUNNING
        assert seen == []
        await env.client.publish("f", C, 3)
        await env.client.wait_for_flow("f")
    assert seen == [[1, 2], [3]]


def test_row_5_combinations_need_ids_that_are_unique() -> None:
    """[WAIT-3] The same object in two groups is accepted."""
    one, other = C.for_one(condition_id="x"), Timer.by_duration(1, "y")
    with pytest.raises(ValueError, match="has no condition_id"):
        ConditionCombination.of(C.for_one())
    with pytest.raises(ValueError, match="two conditions with the ID"):
        Wait.any_combination_of(ConditionCombination.of(one), ConditionCombination.of(Timer.by_duration(1, "x")))
    Wait.any_combination_of(ConditionCombination.of(one, other), ConditionCombination.of(one))


async def test_row_6_a_skipped_hour_is_over_at_once_also_when_the_server_crashes_before_the_wait() -> None:
    """[TIMER-8, TIMER-9] REMEMBERED skips survive."""
    play = taking(Wait.until(Timer.by_duration(HOUR)))
    async with start_env(play, auto_skip=False) as env:
        await env.client.start_flow(play, "f", 0, LATER)
        skip = await env.client.skip_timer("f", StepExecutionId("A", 1), TimerId.by_condition_index(0))
        assert skip is SkipTimerOutcome.REMEMBERED
        env.crash_server()
        env.recover_server()
        await env.advance(HOUR)
        assert await output_of(env.client, "f") == [1]


NOTE: Attribute[str] = Attribute("note", str)


class Notes(Flow[None]):
    """Driven by RPCs only."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NOTE)

    @rpc
    def read(self, context: Context) -> RPCResult[str]:
        return RPCResult.of(NOTE.get(context))

    @rpc
    def write(self, context: Context, text: str) -> RPCResult[None]:
        NOTE.set(context, text)
        if text == "boom":
            raise LookupError("no such note")
        return RPCResult.of(None)


async def test_rows_16_and_17_rpcs_of_closed_flows_and_rpcs_that_raise() -> None:
    """[RPC-3, RPC-4] Type, detail and stack reach the caller; a closed Flow answers reads and takes no writes."""
    notes = Notes()
    async with start_env(notes) as env:
        await env.client.start_flow(notes, "n")
        await env.client.invoke_rpc(notes.write, "n", "kept")
        with pytest.raises(WorkerInvocationError) as failed:
            await env.client.invoke_rpc(notes.write, "n", "boom")
        assert failed.value.worker_error_type == "LookupError"
        assert failed.value.worker_error_detail == "no such note"
        assert "in write" in failed.value.worker_stack
        await env.client.stop_flow("n")
        before = (await env.client.describe_flow("n")).history_events
        assert await env.client.invoke_rpc(notes.read, "n") == "kept"
        with pytest.raises(FlowNotActiveError):
            await env.client.invoke_rpc(notes.write, "n", "late")
        assert await env.client.get_attribute("n", NOTE) == "kept"
        assert (await env.client.describe_flow("n")).history_events == before


@pytest.mark.parametrize("timers", [500, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.slow
async def test_row_33_every_timer_fires_once_whatever_restarts(timers: int) -> None:
    """[TIMER-3, TIMER-4] Of 0 to 50 ms, with two crashes of the server in between."""

    def wait_for(context: Context, input: int) -> Wait:
        return Wait.all_of(*(Timer.by_duration(timedelta(milliseconds=n % 51)) for n in range(500)), C.for_one())

    def execute(context: Context, input: int) -> StepDecision:
        assert all(context.has_timer_fired(index) for index in range(500))
        return dead_end()

    play = Play(WaitingAct("A", wait_for, execute), uses=(C,))
    async with start_env(play, auto_skip=False) as env:
        flow_ids = [f"f-{number}" for number in range(timers // 500)]
        for flow_id in flow_ids:
            await env.client.start_flow(play, flow_id, 0)
            await installed(env, flow_id)
        for _ in range(2):
            await env.advance(timedelta(milliseconds=20))
            env.crash_server()
            env.recover_server()
        await env.advance(timedelta(milliseconds=20))
        for flow_id in flow_ids:
            events = (await env.client.get_history(flow_id)).events
            fired = [event.data["condition_index"] for event in events if event.kind == "TimerFired"]
            assert sorted(fired) == list(range(500))
            installed_at = next(event.at for event in events if event.kind == "WaitForCompleted")
            for event in events:
                if event.kind == "TimerFired":
                    assert event.at >= installed_at + timedelta(milliseconds=event.data["condition_index"] % 51)


STOCK: Attribute[int] = Attribute("stock", int)


class Keep(Play):
    """A Play whose RPC locks the stock."""

    @rpc(lock_attributes=[STOCK.lock()])
    def refill(self, context: Context) -> RPCResult[int]:
        STOCK.set(context, STOCK.get(context) + 10)
        return RPCResult.of(STOCK.get(context))


async def test_row_15_a_lock_is_held_in_backoff_also_over_a_crash_of_the_server() -> None:
    """[LOCK-2, LOCK-3, LOCK-4] The RPC is refused at once; the second Step with the lock waits for the first."""
    order: list[int] = []

    def execute(context: Context, input: int) -> StepDecision:
        if context.step_execution_id == "A-1" and context.attempt == 1:
            raise OSError("no line")
        order.append(STOCK.get(context))
        STOCK.set(context, STOCK.get(context) - 1)
        return dead_end()

    slow = StepOptions(
        execute_lock_attributes=[STOCK.lock()], execute_retry=RetryPolicy(initial_interval=HOUR, maximum_interval=HOUR)
    )
    keep = Keep(Act("A", execute, slow), uses=(STOCK,))
    async with start_env(keep, auto_skip=False) as env:
        await env.client.start_flow(keep, "f", 0, StartFlowOptions().with_attribute(STOCK, 5))
        async for event in env.client.watch_history("f"):
            if event.kind == "ExecuteFailed":
                break
        await env.client.invoke_rpc(keep.schedule, "f", "A")
        env.crash_server()
        env.recover_server()
        with pytest.raises(RpcLockConflictError, match="A-1 has locked"):
            await env.client.invoke_rpc(keep.refill, "f")
        _, second = (await env.client.explain("f")).blockers
        assert (second.step_execution_id, second.kind) == ("A-2", "LOCK")
        assert second.text == "lock on Attribute 'stock' held by A-1"
        await env.advance(timedelta(minutes=50))
        assert order == []
        await env.advance(timedelta(minutes=10))
        assert order == [5, 4]
        assert await env.client.invoke_rpc(keep.refill, "f") == 13
