"""Timeouts, Flow retry, start delay, waits and SubFlows on virtual time, and the examples that show them."""

from datetime import timedelta

import pytest

from dexsdk import (
    Attribute,
    AttributeMatch,
    Context,
    Flow,
    FlowConfig,
    FlowErrorType,
    FlowStatus,
    FlowTimeoutPolicy,
    PersistenceSchema,
    RetryPolicy,
    StartFlowOptions,
    Step,
    StepDecision,
    StepDurability,
    StepList,
    SubFlow,
    Timer,
    Wait,
    force_complete,
    force_fail,
)
from dexsdk.testing import start_env
from examples.parent_child import ANSWER, AskFlow, FirstFlow, GatherFlow, QuorumFlow, Survey
from examples.timeout_handler import PAID, Booking, BookingFlow, limited

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

ROUND = Attribute("round", int)


class SlowStep(Step[int]):
    """Takes so many days, and fails on the first ones."""

    def wait_for(self, context: Context, input: int) -> Wait:
        ROUND.set(context, input)
        return Wait.until(Timer.by_duration(DAY * input))

    def execute(self, context: Context, input: int) -> StepDecision:
        return force_complete(input) if input < 30 else force_fail("too long")


class Slow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(SlowStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ROUND)


class SumStep(Step[int]):
    """Adds what its children gave, who have children of their own."""

    def wait_for(self, context: Context, input: int) -> Wait:
        if input == 0:
            return Wait.skip_immediately()
        return Wait.all_of(SubFlow.run(Sum, input - 1), SubFlow.run(Slow, input))

    def execute(self, context: Context, input: int) -> StepDecision:
        if input == 0:
            return force_complete(0)
        return force_complete(sum(SubFlow.get_condition_results(context, i).single_output(int) for i in (0, 1)))


class Sum(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(SumStep())


async def test_sub_1_children_of_children_end_on_virtual_time() -> None:
    """[TEST-2] Timers of days in several levels."""
    async with start_env(Sum(), Slow()) as env:
        await env.client.start_flow(Sum, "sum", 4)
        assert (await env.client.wait_for_flow("sum", 20)).single_output(int) == 10
        assert (await env.client.describe_flow("sys:sub:sum/SumStep-1/0")).parent_flow_id == "sum"


async def test_dur_3_children_of_async_flows_begin_and_end_as_others() -> None:
    """[DUR-2, SUB-3] They inherit the setting; what one run owes another waits for its commit all the same."""
    settings = FlowConfig(step_durability=StepDurability.ASYNC)
    async with start_env(Sum(), Slow()) as env:
        await env.client.start_flow(Sum, "sum", 4, StartFlowOptions(config_override=settings))
        assert (await env.client.wait_for_flow("sum", 20)).single_output(int) == 10


async def test_time_1_timeout_counts_from_the_end_of_the_delay() -> None:
    """[START-7]"""
    async with start_env(Slow(), auto_skip=False) as env:
        began = env.now
        await env.client.start_flow(Slow, "slow", 5, StartFlowOptions(timeout=DAY, start_delay=DAY))
        await env.advance(DAY * 2 - timedelta(seconds=1))
        assert (await env.client.describe_flow("slow")).status is FlowStatus.RUNNING
        await env.advance(timedelta(seconds=1))
        result = await env.client.wait_for_flow("slow", 20)
        assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT)
        assert (await env.client.describe_flow("slow")).closed_at == began + DAY * 2


class Reply(Slow):
    """Has something to say when its time is over."""

    def handle_timeout(self, context: Context) -> StepDecision:
        return force_complete(-1)


@pytest.mark.parametrize(
    ("flow", "policy", "status"),
    [
        (Slow, FlowTimeoutPolicy.DEFAULT, FlowStatus.FAILED),
        (Reply, FlowTimeoutPolicy.DEFAULT, FlowStatus.COMPLETED),
        (Reply, FlowTimeoutPolicy.FAIL, FlowStatus.FAILED),
        (Reply, FlowTimeoutPolicy.CANCEL, FlowStatus.CANCELED),
        (Reply, FlowTimeoutPolicy.HANDLER, FlowStatus.COMPLETED),
    ],
)
async def test_row_20_timeout_fires_60_s_after_the_original_start(
    flow: type[Slow], policy: FlowTimeoutPolicy, status: FlowStatus
) -> None:
    """[TIME-4] Acceptance row 20: the server dies after 50 s and is back after 55 s."""
    async with start_env(Slow(), Reply(), auto_skip=False) as env:
        began = env.now
        await env.client.start_flow(flow, "slow", 5, StartFlowOptions(timeout=60, timeout_policy=policy))
        await env.advance(timedelta(seconds=50))
        env.crash_server()
        await env.advance(timedelta(seconds=5))
        env.recover_server()
        await env.advance(timedelta(seconds=4.999))
        assert (await env.client.describe_flow("slow")).status is FlowStatus.RUNNING
        await env.advance(timedelta(seconds=1))
        assert (await env.client.wait_for_flow("slow", 20)).status is status
        events = (await env.client.get_history("slow")).events
        (fired,) = [event for event in events if event.kind == "TimerFired"]
        assert fired.at == began + timedelta(seconds=60)


async def test_start_8_retries_wait_longer_and_longer_and_survive_a_crash() -> None:
    """[TIME-4, RETRY-2] Delays of 1 and 2 hours between three runs of 30 days each."""
    again = RetryPolicy(initial_interval=HOUR, maximum_interval=DAY, maximum_attempts=3)
    async with start_env(Slow(), auto_skip=False) as env:
        began = env.now
        await env.client.start_flow(Slow, "slow", 30, StartFlowOptions(retry_policy=again))
        await env.advance(DAY * 30 + HOUR / 2)
        env.crash_server()
        env.recover_server()
        await env.advance(DAY * 61)
        result = await env.client.wait_for_flow("slow", 20)
        assert result.status is FlowStatus.FAILED
        assert (await env.client.describe_flow("slow")).closed_at == began + DAY * 90 + HOUR * 3


async def test_waitapi_5_attribute_of_a_later_run_matches() -> None:
    async with start_env(Slow()) as env:
        await env.client.start_flow(Slow, "slow", 3)
        match = AttributeMatch.greater_or_equal(3)
        assert await env.client.wait_for_attribute_match("slow", ROUND, match) == 3


# ---- the examples -------------------------------------------------------------------------------------------------


async def test_parent_child_gathers_answers_over_a_crash_of_the_server() -> None:
    """[SUB-5, ARCH-14]"""
    async with start_env(GatherFlow(), AskFlow()) as env:
        await env.client.start_flow(GatherFlow, "survey", Survey("tea?", ["Ada", "Nobody"]))
        env.crash_server()
        env.recover_server()
        await env.client.publish("sys:sub:survey/GatherStep-1/0", ANSWER, "yes")
        answers = (await env.client.wait_for_flow("survey", 20)).single_output(list[str])
        assert answers == ["Ada says yes", "FAILED: there is nobody"]


async def test_parent_child_is_content_with_the_first_end_or_with_a_quorum() -> None:
    """[SUB-5, WAIT-6] Who has not ended by then reads as RUNNING, and one end is not yet a quorum."""
    async with start_env(FirstFlow(), QuorumFlow(), AskFlow()) as env:
        people = ["Ada", "Alan", "Grace"]
        await env.client.start_flow(FirstFlow, "first", Survey("tea?", people))
        await env.client.publish("sys:sub:first/FirstStep-1/1", ANSWER, "yes")
        first = (await env.client.wait_for_flow("first", 20)).single_output(list[str])
        assert first == ["RUNNING", "Alan says yes", "RUNNING"]

        await env.client.start_flow(QuorumFlow, "quorum", Survey("tea?", people))
        await env.client.publish("sys:sub:quorum/QuorumStep-1/2", ANSWER, "no")
        await env.client.wait_for_flow("sys:sub:quorum/QuorumStep-1/2", 20)
        assert (await env.client.describe_flow("quorum")).status is FlowStatus.RUNNING
        await env.client.publish("sys:sub:quorum/QuorumStep-1/0", ANSWER, "yes")
        quorum = (await env.client.wait_for_flow("quorum", 20)).single_output(list[str])
        assert quorum == ["Ada says yes", "RUNNING", "Grace says no"]


@pytest.mark.parametrize(
    ("booking", "said"),
    [
        (Booking("A2"), "A2 is on sale again"),
        (Booking("A3", is_returnable=False), "call the hall: A3, sold on paper, cannot be returned"),
    ],
)
async def test_timeout_handler_gives_the_seat_back(booking: Booking, said: str) -> None:
    """[TIME-3] Ten minutes pass in no time."""
    async with start_env(BookingFlow()) as env:
        began = env.now
        await env.client.start_flow(BookingFlow, "booking", booking, limited(600))
        result = await env.client.wait_for_flow("booking", 20)
        assert (result.error_message or result.single_output(str)) == said
        closed_at = (await env.client.describe_flow("booking")).closed_at
        assert closed_at is not None
        assert closed_at - began == timedelta(minutes=10)


async def test_timeout_handler_sells_what_is_paid_in_time() -> None:
    async with start_env(BookingFlow(), auto_skip=False) as env:
        await env.client.start_flow(BookingFlow, "booking", Booking("A1"), limited(600))
        await env.advance(timedelta(minutes=9))
        await env.client.publish("booking", PAID, 42)
        assert (await env.client.wait_for_flow("booking", 20)).single_output(str) == "A1 sold for 42"
