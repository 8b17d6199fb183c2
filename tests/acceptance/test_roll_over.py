"""Acceptance examples of the Flow model about roll-over, with virtual time: nobody notices it [ROLL-2..5]."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from dexsdk import (
    Attribute,
    Channel,
    ConditionCombination,
    Context,
    Flow,
    FlowConfig,
    FlowNotActiveError,
    FlowStatus,
    FlowTimeoutPolicy,
    PersistenceSchema,
    RetryAfter,
    RetryPolicy,
    StartFlowOptions,
    StepDecision,
    StepExecutionId,
    StepList,
    StepMovement,
    StepOptions,
    StepOutcome,
    SubFlow,
    Timer,
    TimerId,
    Wait,
    dead_end,
    force_complete,
    go_to,
    graceful_complete,
)
from dexsdk.testing import Environment, start_env
from tests.acceptance.acts import Act, Play, WaitingAct, raising

DAY = timedelta(days=1)


def of_events(threshold: int, **options: Any) -> StartFlowOptions:
    """Runs of about so many events."""
    return StartFlowOptions(config_override=FlowConfig(continue_as_new_threshold=threshold), **options)


async def runs_of(env: Environment, flow_id: str) -> list[str]:
    """The runs of a Flow, newest first, along the links that their histories show."""
    runs = [(await env.client.describe_flow(flow_id)).run_id]
    while True:
        page = await env.client.get_history(flow_id, run_id=runs[-1], page_size=2)
        if page.events[-1].kind != "FlowContinued":
            return runs
        runs.append(page.events[-1].data["previous_run_id"])


# ---- recovery and time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_crashing", [False, True])
async def test_row_8_recovery_runs_with_the_same_input_and_sees_the_error_after_a_roll_over(is_crashing: bool) -> None:
    """[OPT-4, ROLL-3] In both its methods."""
    seen: list[tuple[str, int, str]] = []

    def note(context: Context, input: int) -> None:
        assert context.recovery_error is not None
        seen.append((context.run_id, input, context.recovery_error.detail))

    def wait_for(context: Context, input: int) -> Wait:
        note(context, input)
        return Wait.until(Timer.by_duration(DAY))

    def execute(context: Context, input: int) -> StepDecision:
        note(context, input)
        return force_complete(input)

    refund = WaitingAct("Refund", wait_for, execute)
    once = StepOptions(execute_retry=RetryPolicy(maximum_attempts=1)).on_execute_failure_proceed_to(refund)
    play = Play(Act("Charge", raising(ValueError("no money")), once), refund)
    async with start_env(play, auto_skip=False) as env:
        first = await env.client.start_flow(play, "f", 7)
        await env.advance(0)
        await env.client.trigger_continue_as_new("f")
        if is_crashing:
            env.crash_server()
            env.recover_server()
        await env.advance(DAY)
        result = await env.client.wait_for_flow("f")
        assert (result.status, result.single_output(int)) == (FlowStatus.COMPLETED, 7)
        assert [(input, detail) for _, input, detail in seen] == [(7, "no money")] * 2
        assert [run_id == first for run_id, _, _ in seen] == [True, False]


@pytest.mark.parametrize("policy", [FlowTimeoutPolicy.FAIL, FlowTimeoutPolicy.CANCEL, FlowTimeoutPolicy.HANDLER])
async def test_row_20_flow_s_time_is_over_at_the_same_instant_after_roll_overs(policy: FlowTimeoutPolicy) -> None:
    """[TIME-4] Killed at 50 s, back at 55 s, and continued before and after; 60 s from the original start."""
    fired: list[datetime] = []

    class Limited(Play):
        def handle_timeout(self, context: Context) -> StepDecision:
            fired.append(context.first_attempt_at)
            return force_complete(1)

    wait = WaitingAct("A", lambda context, input: Wait.until(Timer.by_duration(DAY)), lambda context, input: dead_end())
    play = Limited(wait)
    async with start_env(play, auto_skip=False) as env:
        begun = env.now
        await env.client.start_flow(play, "f", 0, StartFlowOptions(timeout=60, timeout_policy=policy))
        await env.advance(30)
        await env.client.trigger_continue_as_new("f")
        await env.advance(20)
        env.crash_server()
        await env.advance(5)
        env.recover_server()
        await env.client.trigger_continue_as_new("f")
        await env.advance(4.999)
        assert (await env.client.describe_flow("f")).status is FlowStatus.RUNNING
        await env.advance(0.001)
        ended = {"FAIL": FlowStatus.FAILED, "CANCEL": FlowStatus.CANCELED, "HANDLER": FlowStatus.COMPLETED}
        info = await env.client.describe_flow("f")
        assert (info.status, info.closed_at) == (ended[policy.name], begun + timedelta(seconds=60))
        assert fired == ([begun + timedelta(seconds=60)] if policy is FlowTimeoutPolicy.HANDLER else [])


# ---- everything at once -------------------------------------------------------------------------------------------

GENERATIONS = [60, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3_000)])]
EVENTS_PER_TURN = 3
"""Of the loop: scheduled, dispatched, executed."""

HALF, NEVER, LATE, FEED = (Channel(name, int) for name in ("half", "never", "late", "feed"))
SPUN = Attribute("spun", int)


class Answer(Flow[int]):
    """A child that ends at once, or when it is told to."""

    def get_steps(self) -> StepList[int]:
        def wait_for(context: Context, input: int) -> Wait:
            return Wait.until(LATE.for_one()) if input else Wait.skip_immediately()

        return StepList.start_step(WaitingAct("Say", wait_for, lambda context, input: force_complete(input)))

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(LATE)


ANSWER = Answer()


class Everything:
    """A Flow that waits in every way there is, while a loop goes on until it has spun often enough."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.ends: dict[str, tuple[Any, ...]] = {}
        """What each waiting Step saw in the end."""
        self.tries: list[tuple[int, str]] = []
        waits = {
            "All": lambda: Wait.all_of(HALF.for_n(2), Timer.by_duration(DAY)),
            "Any": lambda: Wait.any_of(NEVER.for_one(), Timer.by_duration(2 * DAY)),
            "Groups": self._groups,
            "Children": lambda: Wait.all_of(SubFlow.run(ANSWER, 0), SubFlow.run(ANSWER, 1)),
            "Skipped": lambda: Wait.until(Timer.by_duration(365 * DAY, "year")),
        }
        self.kinds = tuple(waits)
        steps = [WaitingAct(name, self._waiting(make), self._ending(name)) for name, make in waits.items()]
        self.play = Play(
            Act("Begin", self._begin),
            Act("Spin", self._spin),
            Act("Retry", self._retry),
            *steps,
            uses=(HALF, NEVER, FEED, SPUN),
        )

    def _groups(self) -> Wait:
        feed = FEED.for_n(3, condition_id="feed")
        never = NEVER.for_one(condition_id="never")
        late = Timer.by_duration(3 * DAY, "late")
        return Wait.any_combination_of(ConditionCombination.of(never, late), ConditionCombination.of(feed, late))

    def _begin(self, context: Context, input: int) -> StepDecision:
        return StepDecision.go_to_many(
            *(StepMovement.of(self.play.act(name), 0) for name in ("Spin", "Retry", *self.kinds))
        )

    def _spin(self, context: Context, input: int) -> StepDecision:
        done = SPUN.get(context) + 1 if input else 1
        SPUN.set(context, done)
        if done == self.turns:
            HALF.publish(context, 2)
            FEED.publish(context, 3)
            return graceful_complete("spun")
        return go_to(self.play.act("Spin"), done)

    def _retry(self, context: Context, input: int) -> StepDecision:
        self.tries.append((context.attempt, context.idempotency_key))
        if context.attempt < 3:
            raise RetryAfter(DAY)
        return graceful_complete("tried")

    def _waiting(self, make: Any) -> Any:
        def wait_for(context: Context, input: int) -> Wait:
            context.set_step_execution_local("local", context.step_execution_id)
            return make()

        return wait_for

    def _ending(self, name: str) -> Any:
        def execute(context: Context, input: int) -> StepDecision:
            since = context.first_attempt_at - context.flow_started_at - DAY
            local = context.get_step_execution_local("local", str)
            self.ends[name] = (since, local, *self._results(name, context))
            return graceful_complete(name)

        return execute

    def _results(self, name: str, context: Context) -> tuple[Any, ...]:
        if name == "All":
            return tuple(HALF.results(context))
        if name == "Groups":
            return tuple(FEED.results(context, "feed"))
        if name == "Children":
            results = [SubFlow.get_condition_results(context, number) for number in (0, 1)]
            return tuple(result.single_output(int) for result in results)
        return (context.has_timer_fired(0),)


@pytest.mark.slow
@pytest.mark.parametrize("generations", GENERATIONS)
async def test_row_25_nothing_is_lost_over_any_number_of_roll_overs(generations: int) -> None:
    """[ROLL-3] Every kind of wait with messages, Timers, locals and half-done SubFlows, and a run every 10 events."""
    everything = Everything(turns=generations * 10 // EVENTS_PER_TURN)
    play = everything.play
    async with start_env(play, ANSWER, auto_skip=False) as env:
        client = env.client
        first = await client.start_flow(play, "f", 0, of_events(10, start_delay=DAY))
        await client.publish("f", HALF, 1)
        await client.publish("f", FEED, 1, 2)
        await client.skip_timer("f", StepExecutionId("Skipped"), TimerId.by_condition_id("year"))
        await env.advance(DAY)
        begun = env.now
        await client.wait_for_step_completion("f", StepExecutionId("Spin", everything.turns))
        assert env.now == begun, "the clock stands while the loop spins"
        info = await client.describe_flow("f")
        assert (info.first_run_id, info.ordinal, info.started_at) == (first, 1, begun - DAY)
        assert info.history_events < 40
        for step in (1, everything.turns // 2, everything.turns):
            outcome = await client.wait_for_step_completion("f", StepExecutionId("Spin", step))
            assert outcome is StepOutcome.COMPLETED, f"Spin-{step} ended in some run"
        await client.publish("sys:sub:f/Children-1/1", LATE, 9)
        await env.advance(4 * DAY)
        result = await client.wait_for_flow("f")
        assert result.status is FlowStatus.COMPLETED
        outputs = sorted(done.decode(str) for done in result.completions)
        assert outputs == sorted(["spun", "tried", *everything.kinds])
        assert everything.ends == {
            "Skipped": (timedelta(0), "Skipped-1", True),
            "Children": (timedelta(0), "Children-1", 0, 1),
            "All": (DAY, "All-1", 1, 2),
            "Any": (2 * DAY, "Any-1", True),
            "Groups": (3 * DAY, "Groups-1", 1, 2, 3),
        }
        assert everything.tries == [(attempt, "f/Retry-1") for attempt in (1, 2, 3)]
        assert await client.get_attribute("f", SPUN) == everything.turns
        if generations < 1_000:
            assert len(await runs_of(env, "f")) >= generations * 8 // 10
        pages = [flow.flow_id async for flow in _children(env)]
        assert pages == ["sys:sub:f/Children-1/0", "sys:sub:f/Children-1/1"]


async def _children(env: Environment) -> AsyncIterator[Any]:
    for number in (0, 1):
        info = await env.client.describe_flow(f"sys:sub:f/Children-1/{number}")
        assert info.status is FlowStatus.COMPLETED
        yield info


# ---- clients -----------------------------------------------------------------------------------------------------


async def test_roll_5_earlier_runs_can_be_read_by_their_ids() -> None:
    """[ID-5, HIST-2] And the handler is in the run that was current when it began [CTX-1]."""
    ids: list[str] = []

    flow = Play(WaitingAct("A", lambda context, input: Wait.until(NEVER.for_one()), _noting(ids)), uses=(NEVER,))
    async with start_env(flow) as env:
        first = await env.client.start_flow(flow, "f", 0)
        await env.client.trigger_continue_as_new("f")
        await env.client.trigger_continue_as_new("f")
        await env.client.publish("f", NEVER, 5)
        assert (await env.client.wait_for_flow("f")).single_output(int) == 5
        third, second, oldest = await runs_of(env, "f")
        assert (oldest, ids) == (first, [third])
        kinds = {}
        for run_id in (first, second, third):
            page = await env.client.get_history("f", run_id=run_id)
            kinds[run_id] = [event.kind for event in page.events]
            info = await env.client.describe_flow("f", run_id=run_id)
            is_last = run_id == third
            assert info.status is (FlowStatus.COMPLETED if is_last else FlowStatus.CONTINUED_AS_NEW)
            assert info.first_run_id == first
        assert kinds[second] == ["FlowStarted", "FlowContinued", "FlowClosed"]
        assert kinds[third][:2] == ["FlowStarted", "FlowContinued"]


def _noting(ids: list[str]) -> Any:
    def execute(context: Context, input: int) -> StepDecision:
        ids.append(context.run_id)
        return force_complete(NEVER.results(context)[0])

    return execute


async def test_roll_2_trigger_needs_an_active_flow() -> None:
    """[WAITAPI-7]"""
    flow = Play(Act("A", lambda context, input: force_complete(1)))
    async with start_env(flow) as env:
        await env.client.start_flow(flow, "f", 0)
        await env.client.wait_for_flow("f")
        with pytest.raises(FlowNotActiveError):
            await env.client.trigger_continue_as_new("f")
