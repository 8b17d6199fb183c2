"""Handlers that call other Flows, in the test environment: they wait for the server as the test does [TEST-1]."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dexsdk import (
    AsyncClient,
    Channel,
    Client,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    dead_end,
    graceful_complete,
    rpc,
)
from dexsdk.testing import _worker, start_env, start_env_sync

HOUR = 3_600
NUMBERS = Channel("numbers", int)


class TakeStep(Step[None]):
    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.all_of(NUMBERS.for_n(3), Timer.by_duration(1.5 * HOUR))

    def execute(self, context: Context, input: None) -> StepDecision:
        return graceful_complete(sum(NUMBERS.results(context)))


class Target(Flow[None]):
    """Is called by the others."""

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(TakeStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NUMBERS)

    @rpc
    def size(self, context: Context) -> RPCResult[int]:
        return RPCResult(NUMBERS.size(context))


TARGET = Target()


class Clients:
    """Set once there is an environment."""

    loop: AsyncClient
    blocking: Client


class AskStep(Step[None]):
    """Publishes, and asks what became of it in a handler that has to run meanwhile."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.until(Timer.by_duration(HOUR))

    async def execute(self, context: Context, input: None) -> StepDecision:
        sizes = []
        for number in (1, 2):
            await self._clients.loop.publish("target", NUMBERS, number)
            sizes.append(await self._clients.loop.invoke_rpc(TARGET.size, "target"))
        await self._clients.loop.publish("target", NUMBERS, 3)
        result = await self._clients.loop.wait_for_flow("target")
        return graceful_complete([*sizes, result.single_output(int)])


class BlockingAskStep(Step[None]):
    """Does the same in a thread."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def execute(self, context: Context, input: None) -> StepDecision:
        self._clients.blocking.publish("target", NUMBERS, 1)
        return graceful_complete(self._clients.blocking.invoke_rpc(TARGET.size, "target"))


class FollowStep(Step[None]):
    """Waits for the target's end."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def execute(self, context: Context, input: None) -> StepDecision:
        return graceful_complete((await self._clients.loop.wait_for_flow("target")).single_output(int))


class StallStep(Step[None]):
    """Calls, and then does not end."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def execute(self, context: Context, input: None) -> StepDecision:
        self._clients.blocking.publish("target", NUMBERS, 1)
        while not context.is_cancellation_requested():
            time.sleep(0.005)
        return dead_end()


class Caller(Flow[None]):
    """Calls the target in a Step."""

    def __init__(self, step: Step[None]) -> None:
        self._step = step

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self._step)


@pytest.fixture
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever waits for a handler in vain does so for half a minute."""
    monkeypatch.setattr(_worker, "HANDLER_PATIENCE_S", 30.0)
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 30


@pytest.mark.usefixtures("_without_patience")
async def test_test_1_a_handler_that_calls_other_flows_is_not_waited_for_meanwhile() -> None:
    """[TEST-2] what it calls runs meanwhile, and the clock jumps while both it and the test wait for a Flow."""
    clients = Clients()
    caller = Caller(AskStep(clients))
    async with start_env(caller, TARGET) as env:
        clients.loop = env.client
        await env.client.start_flow(Target, "target")
        await env.client.start_flow(caller, "caller")
        begun = env.now
        result = await env.client.wait_for_flow("caller", timeout=20)
        assert result.single_output(list[int]) == [1, 2, 6]
        assert env.now - begun == timedelta(seconds=1.5 * HOUR)


@pytest.mark.usefixtures("_without_patience")
async def test_test_2_the_clock_stands_between_calls_of_the_test_although_a_handler_waits() -> None:
    clients = Clients()
    caller = Caller(FollowStep(clients))
    async with start_env(caller, TARGET) as env:
        clients.loop = env.client
        await env.client.start_flow(Target, "target")
        await env.client.publish("target", NUMBERS, 1, 2, 3)
        await env.client.start_flow(caller, "caller")
        begun = env.now
        for _ in range(200):
            await asyncio.sleep(0)
        assert env.now == begun
        assert (await env.client.wait_for_flow("caller", timeout=20)).single_output(int) == 6
        assert env.now - begun == timedelta(seconds=1.5 * HOUR)


@pytest.mark.usefixtures("_without_patience")
def test_test_1_a_sync_handler_may_call_with_the_blocking_client() -> None:
    clients = Clients()
    caller = Caller(BlockingAskStep(clients))
    with start_env_sync(caller, TARGET, auto_skip=False) as env:
        clients.blocking = env.client
        env.client.start_flow(Target, "target")
        env.client.start_flow(caller, "caller")
        assert env.client.wait_for_flow("caller", timeout=20).single_output(int) == 1


def test_test_1_a_handler_that_is_stuck_after_its_call_loses_patience_as_any_other() -> None:
    clients = Clients()
    caller = Caller(StallStep(clients))
    with start_env_sync(caller, TARGET, auto_skip=False) as env:
        clients.blocking = env.client
        env.client.start_flow(Target, "target")
        env.client.start_flow(caller, "caller")
        assert env.client.invoke_rpc(TARGET.size, "target") == 1
        env.client.stop_flow("caller")


def test_test_3_calls_of_handlers_give_equal_histories() -> None:
    histories = []
    for _ in range(2):
        clients = Clients()
        caller = Caller(BlockingAskStep(clients))
        with start_env_sync(caller, TARGET, auto_skip=False) as env:
            clients.blocking = env.client
            env.client.start_flow(Target, "target")
            for number in range(3):
                env.client.start_flow(caller, f"caller-{number}")
            histories.append([str(env.client.get_history(f"caller-{number}").events) for number in range(3)])
    assert histories[0] == histories[1]
