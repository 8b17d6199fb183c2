"""Acceptance examples of the Flow model about decisions, options and failures, with virtual time (flow-model.md 27)."""

import itertools
import math
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from dexsdk import (
    Attribute,
    Channel,
    Context,
    FlowErrorType,
    FlowStatus,
    HistoryEvent,
    NonRetryableError,
    RecoveryError,
    RetryAfter,
    RetryPolicy,
    StartFlowOptions,
    StepDecision,
    StepMovement,
    StepOptions,
    Timer,
    ValueMappingError,
    Wait,
    WaitForFailurePolicy,
    dead_end,
    force_complete,
    go_to_many,
    graceful_complete,
)
from dexsdk.testing import Environment, start_env
from tests.acceptance.acts import Act, Play, WaitingAct, raising

THREE_TIMES = RetryPolicy(maximum_attempts=3)
STATUS = Attribute("status", str)
GO = Channel("go", int)


async def events_of(env: Environment, kind: str, flow_id: str = "f") -> list[HistoryEvent]:
    page = await env.client.get_history(flow_id)
    return [event for event in page.events if event.kind == kind]


async def refused_result(env: Environment, flow_id: str = "f") -> HistoryEvent:
    """The event that refuses a late result; a watch would end with the Flow, before that comes."""
    while not (refused := await events_of(env, "StaleResultRejected", flow_id)):
        pass
    return refused[0]


@pytest.mark.parametrize("policy", [WaitForFailurePolicy.PROCEED, None])
async def test_row_7_wait_for_fails_three_times_of_three(policy: WaitForFailurePolicy | None) -> None:
    """[OPT-3] PROCEED: execute sees the flag and the error; by default the Flow fails."""
    seen: list[tuple[bool, RecoveryError | None, int]] = []

    def execute(context: Context, input: int) -> StepDecision:
        seen.append((context.wait_for_method_failed(), context.recovery_error, input))
        return graceful_complete("proceeded")

    options = StepOptions(wait_for_retry=THREE_TIMES, wait_for_failure=policy)
    play = Play(WaitingAct("A", raising(OSError("no line")), execute, options))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 7)
        result = await env.client.wait_for_flow("f")
        assert [event.data["attempt"] for event in await events_of(env, "WaitForFailed")] == [1, 2, 3]
    if policy is None:
        assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.WORKER_API_FAILED)
        assert "OSError: no line" in (result.error_message or "")
        assert seen == []
    else:
        assert result.single_output(str) == "proceeded"
        assert seen == [(True, RecoveryError("OSError", "no line"), 7)]


async def test_row_8_recovery_step_gets_the_input_and_sees_the_error_in_both_methods() -> None:
    """[OPT-4, OPT-5] Also after a crash of the server; the Step after it sees none."""
    seen: list[tuple[str, int, RecoveryError | None]] = []

    def note(name: str, context: Context, input: int) -> None:
        seen.append((name, input, context.recovery_error))

    def mend_wait(context: Context, input: int) -> Wait:
        note("wait_for", context, input)
        return Wait.until(GO.for_one())

    def mend(context: Context, input: int) -> StepDecision:
        note("execute", context, input)
        return StepDecision.go_to(last, input)

    def end(context: Context, input: int) -> StepDecision:
        note("after", context, input)
        return graceful_complete()

    last = Act("Last", end)
    mender = WaitingAct("Mend", mend_wait, mend)
    options = StepOptions(execute_retry=THREE_TIMES).on_execute_failure_proceed_to(mender)
    play = Play(Act("A", raising(KeyError("lost")), options), mender, last, uses=(GO,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 3)
        await env.advance(timedelta(minutes=1))
        env.crash_server()
        env.recover_server()
        await env.client.publish("f", GO, 1)
        assert (await env.client.wait_for_flow("f")).status is FlowStatus.COMPLETED
    error = RecoveryError("KeyError", "'lost'")
    assert seen == [("wait_for", 3, error), ("execute", 3, error), ("after", 3, None)]


async def test_row_9_a_failed_attempt_leaves_nothing_behind() -> None:
    """[GEN-7, ATTR-2]"""
    seen: list[tuple[int, bool]] = []

    def execute(context: Context, input: int) -> StepDecision:
        try:
            STATUS.get(context)
            is_set = True
        except KeyError:
            is_set = False
        seen.append((context.attempt, is_set))
        STATUS.set(context, "written")
        if context.attempt == 1:
            raise OSError
        return graceful_complete()

    play = Play(Act("A", execute), uses=(STATUS,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        await env.client.wait_for_flow("f")
    assert seen == [(1, False), (2, False)]


async def test_row_10_graceful_completion_waits_for_the_other_branch_and_keeps_both_outputs() -> None:
    """[DEC-2, DEC-7]"""

    def fork(context: Context, input: int) -> StepDecision:
        return go_to_many(StepMovement.of(quick, 1), StepMovement.of(waiting, 2))

    quick = Act("Quick", lambda context, input: graceful_complete(input))
    waiting = WaitingAct(
        "Waiting", lambda context, input: Wait.until(GO.for_one()), lambda context, input: graceful_complete(input)
    )
    play = Play(Act("Fork", fork), quick, waiting, uses=(GO,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        await env.advance(timedelta(hours=1))
        assert (await env.client.describe_flow("f")).status is FlowStatus.RUNNING
        await env.client.publish("f", GO, 1)
        result = await env.client.wait_for_flow("f")
    assert [(done.step_type, done.decode(int)) for done in result.completions] == [("Quick", 1), ("Waiting", 2)]


async def test_row_11_a_flow_without_steps_runs_on_until_an_rpc_schedules_one() -> None:
    """[FLOW-7, RPC-2]"""
    later = Act("Later", lambda context, input: graceful_complete("ran"))
    play = Play(Act("A", lambda context, input: dead_end()), later)
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        await env.advance(timedelta(days=1))
        assert (await env.client.describe_flow("f")).status is FlowStatus.RUNNING
        await env.client.invoke_rpc(play.schedule, "f", "Later")
        assert (await env.client.wait_for_flow("f")).single_output(str) == "ran"


@pytest.mark.slow
async def test_row_12_writes_of_a_sibling_that_runs_past_force_complete_are_refused() -> None:
    """[DEC-3, LOST-3, FLOW-8]"""
    runs, may_end = threading.Event(), threading.Event()

    def fork(context: Context, input: int) -> StepDecision:
        return go_to_many(StepMovement.of(slow, 0), StepMovement.of(winner, 0))

    def write_late(context: Context, input: int) -> StepDecision:
        runs.set()
        assert may_end.wait(30)
        STATUS.set(context, "too late")
        return graceful_complete("too late")

    def win(context: Context, input: int) -> StepDecision:
        assert runs.wait(30)
        STATUS.set(context, "won")
        return force_complete("won")

    slow, winner = Act("Slow", write_late), Act("Winner", win)
    play = Play(Act("Fork", fork), slow, winner, uses=(STATUS,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        result = await env.client.wait_for_flow("f")
        may_end.set()
        assert (await refused_result(env)).data["step_execution_id"] == "Slow-1"
        assert await env.client.get_attribute("f", STATUS) == "won"
        assert (await env.client.wait_for_flow("f")).completions == result.completions


async def test_row_29_a_crash_in_backoff_neither_repeats_nor_skips_an_attempt() -> None:
    """[RETRY-7] Exactly 3 attempts, 1 s and 2 s apart."""
    attempts: list[tuple[int, datetime]] = []

    def execute(context: Context, input: int) -> StepDecision:
        attempts.append((context.attempt, env.now))
        raise OSError

    play = Play(Act("A", execute, StepOptions(execute_retry=THREE_TIMES)))
    async with start_env(play, auto_skip=False) as env:
        await env.client.start_flow(play, "f", 0)
        await env.advance(timedelta(0))
        for backoff in (1.0, 2.0):
            await env.advance(timedelta(seconds=backoff / 2))
            env.crash_server()
            env.recover_server()
            await env.advance(timedelta(seconds=backoff / 2))
        result = await env.client.wait_for_flow("f")
    assert result.error_type is FlowErrorType.WORKER_API_FAILED
    assert [attempt for attempt, _ in attempts] == [1, 2, 3]
    instants = [at for _, at in attempts]
    assert [(b - a).total_seconds() for a, b in itertools.pairwise(instants)] == [1.0, 2.0]


@pytest.mark.slow
async def test_row_30_delays_grow_to_the_cap_and_stay_there_over_400_failures() -> None:
    """[RETRY-2]"""
    started_at: list[datetime] = []

    def execute(context: Context, input: int) -> StepDecision:
        started_at.append(context.deadline - timedelta(hours=2))
        if context.attempt <= 400:
            raise OSError
        return graceful_complete()

    policy = RetryPolicy(backoff_coefficient=10, maximum_interval=timedelta(hours=1))
    play = Play(Act("A", execute, StepOptions(execute_retry=policy)))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        await env.client.wait_for_flow("f")
    delays = [(b - a).total_seconds() for a, b in itertools.pairwise(started_at)]
    assert delays == [1, 10, 100, 1_000, *[3_600] * 396]


async def test_retry_5_and_6_handlers_choose_when_there_is_no_next_attempt_or_when_it_is() -> None:
    """[RETRY-4] RetryAfter is not cut by the cap; a NonRetryableError and a listed class end the attempts."""
    started_at: list[datetime] = []

    def execute(context: Context, input: int) -> StepDecision:
        started_at.append(context.first_attempt_at)
        if context.attempt == 1:
            raise RetryAfter(timedelta(days=400), OSError("busy"))
        raise NonRetryableError("enough") if input else LookupError("listed by its base")

    options = StepOptions(non_retryable_errors=(LookupError,))
    play = Play(Act("A", execute, options))
    async with start_env(play) as env:
        for flow_id, input, error in (("f", 1, "NonRetryableError: enough"), ("g", 0, "LookupError: listed")):
            began = env.now
            await env.client.start_flow(play, flow_id, input)
            result = await env.client.wait_for_flow(flow_id)
            assert error in (result.error_message or "")
            assert env.now - began == timedelta(days=400)
    assert started_at[0] == started_at[1], "first_attempt_at is that of attempt 1 [CTX-3]"


DURATIONS_ACCEPTED: tuple[Any, ...] = (0, timedelta(0), 2**31, timedelta(days=36_525), 0.0001)
DURATIONS_REJECTED: tuple[Any, ...] = (
    -0.001,
    timedelta(milliseconds=-1),
    math.nan,
    math.inf,
    -math.inf,
    timedelta(days=36_526),
    10**12,
    "1s",
    True,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda duration: Timer.by_duration(duration),
        lambda duration: StepOptions(wait_for_method_timeout=duration),
        lambda duration: StepOptions(execute_method_timeout=duration),
        lambda duration: StepOptions(heartbeat_timeout=duration),
        lambda duration: RetryPolicy(total_duration=duration),
        lambda duration: StartFlowOptions(start_delay=duration),
        lambda duration: StartFlowOptions(timeout=duration),
    ],
)
def test_row_31_durations_are_taken_from_0_to_100_years_and_refused_before_anything_is_sent(
    make: Callable[[Any], object],
) -> None:
    """[TIMER-2, GEN-2]"""
    for duration in DURATIONS_ACCEPTED:
        make(duration)
    for duration in DURATIONS_REJECTED:
        with pytest.raises(ValueError, match=r"duration|timeout|delay|seconds"):
            make(duration)


HUGE = "x" * (65 * 1024 * 1024)


@pytest.mark.slow
@pytest.mark.parametrize("is_one_value", [True, False])
async def test_row_35_a_result_that_is_too_large_is_not_repeated(is_one_value: bool) -> None:
    """[LIM-3, RETRY-5] A typed error names size and limit; the recovery Step runs, the Flow can be viewed."""
    calls: list[int] = []
    seen: list[RecoveryError | None] = []

    def execute(context: Context, input: int) -> StepDecision:
        calls.append(context.attempt)
        if is_one_value:
            return graceful_complete(HUGE)
        for _ in range(17 * 32):
            BIG.publish(context, "x" * 32 * 1024)
        return graceful_complete()

    def mend(context: Context, input: int) -> StepDecision:
        seen.append(context.recovery_error)
        return graceful_complete("mended")

    mender = Act("Mend", mend)
    play = Play(Act("A", execute, StepOptions().on_execute_failure_proceed_to(mender)), mender, uses=(BIG,))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 0)
        assert (await env.client.wait_for_flow("f")).single_output(str) == "mended"
        (failed,) = await events_of(env, "ExecuteFailed")
    assert calls == [1]
    (error,) = seen
    assert error is not None
    assert error.error_type == "ValueTooLargeError"
    limit = 64 * 1024 * 1024 if is_one_value else 16 * 1024 * 1024
    assert f"the limit is {limit}" in error.detail
    assert failed.data["output"]["failure"]["detail"] == error.detail


BIG = Channel("big", str)


async def test_row_37_unusual_texts_and_numbers_are_exact_or_refused_with_their_path() -> None:
    """[VAL-2, VAL-5, OPT-6] As input, output and exception text."""
    exact: dict[str, Any] = {"nul": "a\0b", "line": "a\u2028b", "int": 2**53 + 1, "least": -(2**63)}
    seen: list[str] = []

    def echo(context: Context, input: int) -> StepDecision:
        for wrong in (float("nan"), 2**63, "\ud800"):
            try:
                graceful_complete({"a": [wrong]})
            except ValueMappingError as error:
                seen.append(error.path)
        if context.attempt == 1:
            raise OSError("half a pair \ud800 and NUL \0")
        return graceful_complete(exact)

    play = Play(Act("A", echo))
    async with start_env(play) as env:
        await env.client.start_flow(play, "f", 2**53 + 1)
        result = await env.client.wait_for_flow("f")
        assert result.single_output(dict) == exact
        (failed,) = await events_of(env, "ExecuteFailed")
        assert failed.data["output"]["failure"]["detail"] == "half a pair \ufffd and NUL \0"
        (first, *_) = await events_of(env, "StepScheduled")
        assert first.data["input"] == 2**53 + 1
        for wrong in (2**63, -(2**63) - 1):
            with pytest.raises(ValueMappingError, match=r"\$"):
                await env.client.start_flow(play, "g", wrong)
    assert seen == ["$.a[0]"] * 6


@pytest.mark.slow
async def test_row_28_a_late_result_of_an_attempt_that_timed_out_changes_nothing() -> None:
    """[OPT-2, LOST-3] Attempt 2 has completed the Flow with B when attempt 1 comes with A."""
    may_end = threading.Event()

    def execute(context: Context, input: int) -> StepDecision:
        if context.attempt == 1:
            assert may_end.wait(30)
            return graceful_complete("A")
        return graceful_complete("B")

    play = Play(Act("A", execute, StepOptions(execute_method_timeout=0.2, execute_retry=RetryPolicy(0.05))))
    async with start_env(play, auto_skip=False) as env:
        await env.client.start_flow(play, "f", 0)
        await env.advance(timedelta(seconds=0.2))
        await env.advance(timedelta(seconds=0.05))
        assert (await env.client.wait_for_flow("f")).single_output(str) == "B"
        may_end.set()
        refused = await refused_result(env)
        assert (refused.data["attempt"], refused.data["method"]) == (1, "EXECUTE")
        assert (await env.client.wait_for_flow("f")).single_output(str) == "B"
        assert (await events_of(env, "ExecuteFailed"))[0].data["output"]["failure"]["error_type"] == "METHOD_TIMEOUT"
