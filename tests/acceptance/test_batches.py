"""Batch jobs as a user sees them, with virtual time; acceptance example 44 of the Flow model [BATCH-1..3]."""

from datetime import timedelta

import pytest

from dexsdk import (
    Attribute,
    AttributeIndex,
    Channel,
    Context,
    DexServiceError,
    IndexType,
    InvalidQueryError,
    StepDecision,
    StopFlowOptions,
    StopType,
    TimeTravelOptions,
    TimeTravelType,
    Wait,
    graceful_complete,
)
from dexsdk.testing import Environment, start_env
from tests.acceptance.acts import Play, WaitingAct

C = Channel("c", int)
LEVEL = Attribute("level", int)
RANK = Attribute("rank", int, index=AttributeIndex(IndexType.INT, "how_high"))


def waiting() -> Play:
    def take(context: Context, input: int) -> StepDecision:
        return graceful_complete(C.results(context))

    return Play(WaitingAct("A", lambda _context, _input: Wait.until(C.for_one()), take), uses=(C, LEVEL, RANK))


async def started(env: Environment, flow: Play, count: int) -> list[str]:
    names = [f"f{number:02}" for number in range(count)]
    for name in names:
        await env.client.start_flow(flow, name, 0)
    return names


async def open_flows(env: Environment, names: list[str]) -> int:
    return sum([not (await env.client.describe_flow(name)).status.is_terminal for name in names])


async def test_row_44_a_batch_stop_with_an_empty_query_a_typo_and_a_dry_run() -> None:
    """Refused; InvalidQuery; count only [BATCH-2]."""
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        names = await started(env, flow, 3)
        for query in ("", "   "):
            with pytest.raises(ValueError, match="all_flows=True"):
                await env.client.batch.stop(query)
        with pytest.raises(InvalidQueryError) as invalid:
            await env.client.batch.stop("Status = 'RUNNING' ADN FlowId = 'f00'")
        assert invalid.value.position > 0
        with pytest.raises(InvalidQueryError):
            await env.client.batch.stop("Statsu = 'RUNNING'", dry_run=True)
        dry = await env.client.batch.stop("Status = 'RUNNING'", dry_run=True)
        assert (dry.id, dry.status, dry.matched, dry.applied) == ("", "DRY_RUN", 3, 0)
        assert sorted(dry.sample) == names
        await env.advance(timedelta(minutes=1))
        assert await open_flows(env, names) == 3
        assert (await env.client.batch.list()).batches == ()


async def test_batch_2_all_flows_may_be_meant() -> None:
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        names = await started(env, flow, 3)
        await env.client.stop_flow("f00")
        info = await env.client.batch.stop("", all_flows=True)
        await env.advance(timedelta(seconds=1))
        info = await env.client.batch.describe(info.id)
        assert (info.status, info.matched, info.applied, info.skipped) == ("COMPLETED", 3, 2, 1)
        assert info.reasons == {"ALREADY_CLOSED": 1}
        assert await open_flows(env, names) == 0


async def test_batch_1_so_many_a_second_until_it_is_canceled() -> None:
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        names = await started(env, flow, 10)
        info = await env.client.batch.stop("Status = 'RUNNING'", StopFlowOptions(StopType.FAIL, "over"), rate=2)
        assert (info.status, info.matched, info.rate) == ("RUNNING", 10, 2.0)
        await env.advance(timedelta(milliseconds=1_600))
        assert await open_flows(env, names) == 6
        canceled = await env.client.batch.cancel(info.id)
        assert (canceled.status, canceled.applied) == ("CANCELED", 4)
        await env.advance(timedelta(minutes=1))
        assert await open_flows(env, names) == 6
        assert [batch.id for batch in (await env.client.batch.list()).batches] == [info.id]
        with pytest.raises(DexServiceError) as missing:
            await env.client.batch.describe("nobody")
        assert (missing.value.code, missing.value.sub_status) == ("NOT_FOUND", "BATCH_NOT_FOUND")


async def test_batch_1_a_search_sees_what_a_batch_sets() -> None:
    """[ATTR-9] By the key that the Attribute's definition names."""
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        await started(env, flow, 3)
        await env.client.batch.set_attribute("FlowId != 'f01'", RANK, 7)
        await env.advance(timedelta(seconds=1))
        found = await env.client.search_flows("how_high = 7 ORDER BY FlowId")
        assert [row.flow_id for row in found.flows] == ["f00", "f02"]
        await env.client.batch.set_attribute("how_high = 7", RANK, None)
        await env.advance(timedelta(seconds=1))
        assert await env.client.get_attribute("f02", RANK) is None
        assert (await env.client.count_flows("how_high IS NULL")).total == 3


async def test_batch_3_targets_are_fixed_and_looked_at_again() -> None:
    """One that starts later is none; one that does not match any more is skipped."""
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        await started(env, flow, 4)
        info = await env.client.batch.publish("Status = 'RUNNING' ORDER BY FlowId", C, 7, rate=1)
        await env.client.stop_flow("f02")
        await env.client.start_flow(flow, "late", 0)
        await env.advance(timedelta(seconds=10))
        info = await env.client.batch.describe(info.id)
        assert (info.matched, info.applied, info.skipped, info.reasons) == (4, 3, 1, {"NO_MATCH": 1})
        assert [(problem.flow_id, problem.reason) for problem in info.problems] == [("f02", "NO_MATCH")]
        assert (await env.client.wait_for_flow("f03")).single_output(list[int]) == [7]
        assert not (await env.client.describe_flow("late")).status.is_terminal


async def test_batch_1_attributes_are_set_and_a_crash_does_not_end_the_job() -> None:
    """[BATCH-3] Each Flow is written to once, whenever the server dies."""
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        names = await started(env, flow, 6)
        info = await env.client.batch.set_attribute("Status = 'RUNNING'", LEVEL, 3, rate=1)
        for _ in range(3):
            await env.advance(timedelta(seconds=1))
            env.crash_server()
            env.recover_server()
        await env.advance(timedelta(seconds=10))
        assert (await env.client.batch.describe(info.id)).applied == 6
        for name in names:
            assert await env.client.get_attribute(name, LEVEL) == 3
            events = (await env.client.get_history(name)).events
            assert [event.kind for event in events].count("AttributesSet") == 1


async def test_batch_1_time_travel_over_a_query() -> None:
    """[TT-1] Closed Flows go on from their beginning; once each, over a crash of the server too."""
    flow = waiting()
    async with start_env(flow, auto_skip=False) as env:
        names = await started(env, flow, 4)
        for name in names[:3]:
            await env.client.publish(name, C, 1)
        assert await open_flows(env, names) == 1
        back = TimeTravelOptions(TimeTravelType.BEGINNING, skip_writes_reapply=True)
        info = await env.client.batch.time_travel("Status = 'COMPLETED'", back, rate=1)
        await env.advance(timedelta(milliseconds=1_500))
        env.crash_server()
        env.recover_server()
        await env.advance(timedelta(seconds=5))
        info = await env.client.batch.describe(info.id)
        assert (info.operation, info.matched, info.applied) == ("TIME_TRAVEL", 3, 3)
        assert await open_flows(env, names) == 4
        for name in names[:3]:
            events = (await env.client.get_history(name)).events
            assert [event.kind for event in events].count("FlowForked") == 1
