"""Acceptance examples of the Flow model about time travel, with virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from dexsdk import (
    Attribute,
    AttributeIndex,
    Channel,
    Context,
    DexServiceError,
    Flow,
    FlowInfo,
    FlowNotFoundError,
    FlowStatus,
    HistoryEvent,
    IndexType,
    PersistenceSchema,
    RequestConflictError,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepMovement,
    SubFlow,
    SubFlowOptions,
    SubFlowReusePolicy,
    Timer,
    TimeTravelOptions,
    TimeTravelStepMethod,
    TimeTravelType,
    Wait,
    dead_end,
    force_fail,
    go_to,
    graceful_complete,
    rpc,
)
from dexsdk.testing import Environment, start_env, start_env_sync
from tests.acceptance.acts import Act, Play, WaitingAct

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEGINNING = TimeTravelOptions(TimeTravelType.BEGINNING)
APPROVALS = Channel("approvals", str)
NOTE = Attribute("note", str)


@dataclass
class Journal:
    """What the handlers of an order saw."""

    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Step execution, run, idempotency key."""

    def note(self, context: Context) -> None:
        self.calls.append((context.step_execution_id, context.run_id, context.idempotency_key))

    def keys(self, run_id: str) -> dict[str, str]:
        """Idempotency keys of what one run executed."""
        return {step: key for step, run, key in self.calls if run == run_id}


def _noted(context: Context) -> str:
    try:
        return NOTE.get(context)
    except KeyError:
        return "-"


class Prepare(Step[int]):
    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def execute(self, context: Context, input: int) -> StepDecision:
        self.journal.note(context)
        return go_to(Approve, input)


class Approve(Step[int]):
    """Waits for one approval, a day at most."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def wait_for(self, context: Context, input: int) -> Wait:
        return Wait.any_of(APPROVALS.for_one(), Timer.by_duration(24 * HOUR))

    def execute(self, context: Context, input: int) -> StepDecision:
        self.journal.note(context)
        return go_to(Ship, [*APPROVALS.results(context), _noted(context)])


class Ship(Step[list[str]]):
    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def execute(self, context: Context, input: list[str]) -> StepDecision:
        self.journal.note(context)
        return graceful_complete(input)


class Audit(Step[str]):
    """Scheduled from outside only."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def execute(self, context: Context, input: str) -> StepDecision:
        self.journal.note(context)
        return dead_end()


class Order(Flow[int]):
    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def get_steps(self) -> StepList[int]:
        journal = self.journal
        return StepList.start_step(Prepare(journal)).other_steps(Approve(journal), Ship(journal), Audit(journal))

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(APPROVALS, NOTE)

    @rpc
    def annotate(self, context: Context, input: str) -> RPCResult[int]:
        NOTE.set(context, input)
        return RPCResult.of(len(input), StepMovement.of(Audit, input))


async def history(env: Environment, flow_id: str, run_id: str | None = None) -> Sequence[HistoryEvent]:
    return (await env.client.get_history(flow_id, run_id=run_id)).events


async def seen(env: Environment, flow_id: str, kind: str, count: int = 1) -> None:
    """Return once the latest run has so many events of a kind."""
    async for event in env.client.watch_history(flow_id):
        count -= event.kind == kind
        if not count:
            return


async def order_with_writes(env: Environment, order: Order) -> FlowInfo:
    """A finished order: prepared at 0:00, annotated at 1:00 and approved at 2:00."""
    await env.client.start_flow(order, "order", 7)
    await seen(env, "order", "WaitForCompleted")
    await env.advance(HOUR)
    await env.client.invoke_rpc(order.annotate, "order", "handle with care")
    await env.client.wait_for_step_completion("order", StepExecutionId(Audit))
    await env.advance(HOUR)
    await env.client.publish("order", APPROVALS, "yes")
    assert (await env.client.wait_for_flow("order")).single_output(list[str]) == ["yes", "handle with care"]
    await env.advance(HOUR)
    return await env.client.describe_flow("order")


POINTS = {
    "beginning": (BEGINNING, {"Prepare-1", "Approve-1", "Audit-1", "Ship-1"}),
    "time of the annotation": (
        TimeTravelOptions(TimeTravelType.HISTORY_EVENT_TIME, history_event_time=START + HOUR),
        {"Approve-1", "Audit-1", "Ship-1"},
    ),
    "Step type": (TimeTravelOptions(TimeTravelType.STEP_TYPE, step_type=Approve), {"Approve-1", "Audit-1", "Ship-1"}),
    "wait_for": (
        TimeTravelOptions(
            TimeTravelType.STEP_EXECUTION_ID,
            step_execution_id=StepExecutionId(Approve),
            step_method=TimeTravelStepMethod.WAIT_FOR,
        ),
        {"Approve-1", "Audit-1", "Ship-1"},
    ),
    "execute": (
        TimeTravelOptions(
            TimeTravelType.STEP_EXECUTION_ID,
            step_execution_id=StepExecutionId("Approve"),
            step_method=TimeTravelStepMethod.EXECUTE,
        ),
        {"Approve-1", "Ship-1"},
    ),
}
"""Selectors, and the Step executions that are redone."""


@pytest.mark.parametrize("name", POINTS)
async def test_row_24_finished_flow_goes_on_from_each_selector(name: str) -> None:
    """[TT-1, TT-2, TT-5, ID-9] A forked run, the old one kept, external writes again, the same idempotency keys."""
    journal = Journal()
    options, redone = POINTS[name]
    order = Order(journal)
    async with start_env(order, start_at=START, auto_skip=False) as env:
        before = await order_with_writes(env, order)
        old_history = await history(env, "order")
        forked = await env.client.time_travel("order", options)
        result = await env.client.wait_for_flow("order")
        assert result.single_output(list[str]) == ["yes", "handle with care"]
        assert set(journal.keys(forked)) == redone
        assert journal.keys(forked).items() <= journal.keys(before.run_id).items()
        after = await env.client.describe_flow("order")
        assert (after.run_id, after.first_run_id, after.ordinal) == (forked, before.run_id, before.ordinal)
        assert after.started_at == before.started_at
        kept = await history(env, "order", before.run_id)
        assert list(kept[:-1]) == list(old_history)
        assert (kept[-1].kind, kept[-1].data["next_run_id"]) == ("FlowReopened", forked)
        first, second = (await history(env, "order"))[:2]
        assert (first.kind, second.kind, second.data["from_run_id"]) == ("FlowStarted", "FlowForked", before.run_id)


@pytest.mark.parametrize("name", ["beginning", "time of the annotation", "Step type", "wait_for"])
async def test_row_24_writes_may_be_dropped(name: str) -> None:
    """[TT-5] Without them the order waits for its approval again; with a new one it ends otherwise."""
    journal = Journal()
    options = POINTS[name][0]
    options = TimeTravelOptions(**{**vars(options), "skip_writes_reapply": True})
    order = Order(journal)
    async with start_env(order, start_at=START, auto_skip=False) as env:
        await order_with_writes(env, order)
        forked = await env.client.time_travel("order", options)
        info = await env.client.describe_flow("order")
        assert (info.status, info.closed_at) == (FlowStatus.RUNNING, None)
        if name != "time of the annotation":
            await seen(env, "order", "WaitForCompleted")
        assert await env.client.get_attribute("order", NOTE) is None
        await env.client.publish("order", APPROVALS, "no")
        assert (await env.client.wait_for_flow("order")).single_output(list[str]) == ["no", "-"]
        assert "Audit-1" not in journal.keys(forked)


async def test_row_24_large_values_travel_along() -> None:
    """[TT-4, TT-5, BLOB-4] One of the state at the point, and one that is applied again."""
    journal = Journal()
    note, approval = "n" * 100_000, "a" * 100_000
    order = Order(journal)
    async with start_env(order, start_at=START, auto_skip=False) as env:
        await env.client.start_flow(order, "order", 7)
        await env.client.invoke_rpc(order.annotate, "order", note)
        await env.advance(HOUR)
        await env.client.publish("order", APPROVALS, approval)
        assert (await env.client.wait_for_flow("order")).single_output(list[str]) == [approval, note]
        at = TimeTravelOptions(TimeTravelType.HISTORY_EVENT_TIME, history_event_time=START + HOUR)
        await env.client.time_travel("order", at)
        assert (await env.client.wait_for_flow("order")).single_output(list[str]) == [approval, note]


async def test_row_24_redone_wait_has_new_timers_and_a_restored_one_keeps_its_own() -> None:
    """[TT-4] The deadline of a restored Wait is absolute; that of a redone one counts from now."""
    journal = Journal()
    order = Order(journal)
    async with start_env(order, start_at=START, auto_skip=False) as env:
        await order_with_writes(env, order)
        await env.advance(20 * HOUR)
        dropping = {"skip_writes_reapply": True}
        await env.client.time_travel("order", TimeTravelOptions(**{**vars(POINTS["wait_for"][0]), **dropping}))
        await seen(env, "order", "WaitForCompleted")
        await env.advance(23 * HOUR)
        assert (await env.client.describe_flow("order")).status is FlowStatus.RUNNING
        await env.advance(HOUR)
        assert (await env.client.wait_for_flow("order")).single_output(list[str]) == ["-"]
        at = TimeTravelOptions(TimeTravelType.HISTORY_EVENT_TIME, history_event_time=START + HOUR)
        await env.client.time_travel("order", TimeTravelOptions(**{**vars(at), **dropping}))
        # Its deadline, 24 hours after the start, is long over: it fires at once.
        assert (await env.client.wait_for_flow("order")).single_output(list[str]) == ["-"]


async def test_tt_1_running_flow_is_terminated_and_its_waiter_follows_the_fork() -> None:
    """[WAITAPI-2] Whoever waits for the execution gets the end of the forked run."""
    journal = Journal()
    async with start_env(Order(journal), start_at=START, auto_skip=False) as env:
        old = await env.client.start_flow(Order, "order", 7)
        await seen(env, "order", "WaitForCompleted")
        waiting = asyncio.create_task(env.client.wait_for_flow("order"))
        await asyncio.sleep(0)
        wrong = TimeTravelOptions(TimeTravelType.BEGINNING, reason="wrong order")
        forked = await env.client.time_travel("order", wrong)
        ended = (await history(env, "order", old))[-1]
        assert (ended.kind, ended.data["status"], ended.data["next_run_id"]) == ("FlowClosed", "TERMINATED", forked)
        assert "wrong order" in ended.data["error_message"]
        await env.client.publish("order", APPROVALS, "yes")
        assert (await waiting).single_output(list[str]) == ["yes", "-"]


async def test_tt_3_point_that_is_not_retained_is_not_found_and_changes_nothing() -> None:
    """The refusal names the oldest reachable instant."""
    journal = Journal()
    async with start_env(Order(journal), start_at=START, auto_skip=False) as env:
        await env.client.start_flow(Order, "order", 7)
        await seen(env, "order", "WaitForCompleted")
        before = await history(env, "order")
        with pytest.raises(DexServiceError) as raised:
            await env.client.time_travel("order", TimeTravelOptions(TimeTravelType.STEP_TYPE, step_type=Ship))
        assert (raised.value.code, raised.value.sub_status) == ("NOT_FOUND", "TIME_TRAVEL_POINT_NOT_FOUND")
        assert "2026-01-01T00:00:00.000+00:00" in raised.value.detail
        with pytest.raises(FlowNotFoundError):
            await env.client.time_travel("nobody", BEGINNING)
        assert await history(env, "order") == before


async def test_rpc_12_repeated_time_travel_is_applied_once() -> None:
    """The same request ID gets the same run; with other content it is a conflict."""
    once = TimeTravelOptions(TimeTravelType.BEGINNING, request_id="once")
    journal = Journal()
    async with start_env(Order(journal), start_at=START, auto_skip=False) as env:
        await env.client.start_flow(Order, "order", 7)
        forked = await env.client.time_travel("order", once)
        assert await env.client.time_travel("order", once) == forked
        assert (await env.client.describe_flow("order")).run_id == forked
        with pytest.raises(RequestConflictError):
            await env.client.time_travel("order", TimeTravelOptions(**{**vars(once), "reason": "other"}))


def test_sdk_1_blocking_client_travels_too() -> None:
    """Same calls, same answers; a Step may be named by its class."""
    journal = Journal()
    with start_env_sync(Order(journal), start_at=START) as env:
        old = env.client.start_flow(Order, "order", 7)
        env.client.publish("order", APPROVALS, "yes")
        env.client.wait_for_flow("order")
        forked = env.client.time_travel("order", TimeTravelOptions(TimeTravelType.STEP_TYPE, step_type=Ship))
        assert env.client.wait_for_flow("order").single_output(list[str]) == ["yes", "-"]
        assert journal.keys(forked) == {"Ship-1": "order/Ship-1"}
        assert env.client.describe_flow("order", run_id=old).status is FlowStatus.COMPLETED


CITY = Attribute("city", str, index=AttributeIndex(IndexType.KEYWORD))


async def test_tt_1_search_shows_the_execution_as_the_fork_has_it() -> None:
    """[SEARCH-7, ATTR-11] One row: RUNNING, with the index values of the point; then as it ends again."""
    wait = WaitingAct("W", lambda context, input: Wait.until(APPROVALS.for_one()), _says)
    play = Play(wait, uses=(CITY, APPROVALS))
    async with start_env(play, start_at=START, auto_skip=False) as env:

        async def found(query: str) -> list[FlowStatus]:
            return [flow.status for flow in (await env.client.search_flows(query)).flows]

        await env.client.start_flow(play, "f", 0)
        await env.client.set_attribute("f", CITY, "Rome")
        await env.advance(HOUR)
        await env.client.set_attribute("f", CITY, "Oslo")
        await env.client.publish("f", APPROVALS, "go")
        await env.client.wait_for_flow("f")
        assert await found("city = 'Oslo'") == [FlowStatus.COMPLETED]
        point = TimeTravelOptions(
            TimeTravelType.HISTORY_EVENT_TIME, history_event_time=START + HOUR, skip_writes_reapply=True
        )
        await env.client.time_travel("f", point)
        assert await found("city = 'Oslo'") == []
        assert await found("city = 'Rome' AND StepStatus = 'waiting'") == [FlowStatus.RUNNING]
        assert await found("") == [FlowStatus.RUNNING]


class Part(Flow[str]):
    """A child that ends at once, saying how often it was run."""

    def __init__(self) -> None:
        self.act = PartStep()

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(self.act)


class PartStep(Step[str]):
    def __init__(self) -> None:
        self.runs = 0

    def execute(self, context: Context, input: str) -> StepDecision:
        self.runs += 1
        return force_fail("broken") if input == "fails" else graceful_complete(f"{input} {self.runs}")


@dataclass
class Gather(Step[str]):
    policy: SubFlowReusePolicy

    def wait_for(self, context: Context, input: str) -> Wait:
        return Wait.until(SubFlow.run(Part, input, SubFlowOptions(reuse_policy=self.policy)))

    def execute(self, context: Context, input: str) -> StepDecision:
        child = SubFlow.get_condition_results(context, 0)
        said = child.single_output(str) if child.status is FlowStatus.COMPLETED else child.status.value
        return graceful_complete(said)


class Whole(Flow[str]):
    def __init__(self, policy: SubFlowReusePolicy) -> None:
        self.policy = policy

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(Gather(self.policy))


ATTACH, RESTART_ABNORMAL, RESTART = (
    SubFlowReusePolicy.ATTACH,
    SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY,
    SubFlowReusePolicy.ALWAYS_RESTART,
)


@pytest.mark.parametrize(
    ("policy", "input", "expected", "ordinal"),
    [
        (ATTACH, "works", "works 1", 1),
        (RESTART_ABNORMAL, "works", "works 1", 1),
        (RESTART, "works", "works 2", 2),
        (ATTACH, "fails", "FAILED", 1),
        (RESTART_ABNORMAL, "fails", "FAILED", 2),
        (RESTART, "fails", "FAILED", 2),
    ],
)
async def test_row_21_child_is_met_again_under_its_reuse_policy(
    policy: SubFlowReusePolicy, input: str, expected: str, ordinal: int
) -> None:
    """[TT-6, SUB-6] The parent went back to before it asked for the child."""
    async with start_env(Whole(policy), Part()) as env:
        await env.client.start_flow(Whole, "whole", input)
        first = await env.client.wait_for_flow("whole")
        assert first.single_output(str) == expected.replace("2", "1")
        await env.client.time_travel("whole", BEGINNING)
        assert (await env.client.wait_for_flow("whole")).single_output(str) == expected
        child = await env.client.describe_flow("sys:sub:whole/Gather-1/0")
        assert child.ordinal == ordinal


async def test_row_21_loser_of_any_of_runs_on() -> None:
    """[SUB-4] Time travel of the parent stops no child; the fork attaches to the one that still runs."""
    waiting = WaitingAct("W", lambda context, input: Wait.until(APPROVALS.for_one()), _says)
    slow = Slow(waiting)

    def wait_for(context: Context, input: int) -> Wait:
        return Wait.any_of(SubFlow.run(slow, 1), Timer.by_duration(HOUR))

    def execute(context: Context, input: int) -> StepDecision:
        return graceful_complete(SubFlow.get_condition_results(context, 0).status.value)

    race = Play(WaitingAct("Race", wait_for, execute))
    async with start_env(race, slow, auto_skip=False) as env:
        await env.client.start_flow(race, "race", 0)
        await seen(env, "race", "SubFlowStarted")
        await env.advance(HOUR)
        assert (await env.client.wait_for_flow("race")).single_output(str) == "RUNNING"
        await env.client.time_travel("race", BEGINNING)
        child = "sys:sub:race/Race-1/0"
        assert (await env.client.describe_flow(child)).status is FlowStatus.RUNNING
        await seen(env, "race", "SubFlowStarted")
        await env.client.publish(child, APPROVALS, "go")
        assert (await env.client.wait_for_flow("race")).single_output(str) == "COMPLETED"
        assert (await env.client.describe_flow(child)).ordinal == 1


class Slow(Play):
    def __init__(self, act: Act) -> None:
        super().__init__(act, uses=(APPROVALS,))


def _says(context: Context, input: int) -> StepDecision:
    return graceful_complete(APPROVALS.results(context)[0])
