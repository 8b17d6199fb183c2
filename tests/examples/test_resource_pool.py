"""A controller Flow that hands slots to other Flows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from dexsdk import FlowStatus
from dexsdk.testing import Environment, start_env
from examples.flow_caller import FlowCaller
from examples.resource_pool import Job, JobFlow, PoolFlow, Slots

HOUR = timedelta(hours=1)
CALLER = FlowCaller()
POOL = PoolFlow(CALLER)


@asynccontextmanager
async def pool_of(*slots: Slots) -> AsyncIterator[Environment]:
    async with start_env(POOL, JobFlow(CALLER), auto_skip=False) as env:
        CALLER.connect(env.client)
        await env.client.start_flow(PoolFlow, "pool", list(slots))
        yield env


async def start(env: Environment, *jobs: str, kind: str = "gpu", is_faulty: bool = False) -> None:
    for job in jobs:
        await env.client.start_flow(JobFlow, job, Job("pool", kind, 3_600, is_faulty))


async def statuses(env: Environment, *jobs: str) -> list[FlowStatus]:
    return [(await env.client.describe_flow(job)).status for job in jobs]


async def work_began(env: Environment, job: str) -> datetime:
    events = (await env.client.get_history(job)).events
    return next(event.at for event in events if event.kind == "ChannelPublished")


async def test_no_more_jobs_run_than_there_are_slots_and_the_oldest_come_first() -> None:
    """[CHAN-3, WAIT-7] five jobs of an hour on two machines take three hours."""
    async with pool_of(Slots("gpu", 2)) as env:
        begun = env.now
        jobs = [f"job-{number}" for number in range(5)]
        await start(env, *jobs)
        assert await env.client.invoke_rpc(POOL.free, "pool", "gpu") == 0
        await env.advance(3 * HOUR)
        assert await statuses(env, *jobs) == [FlowStatus.COMPLETED] * 5
        assert [(await work_began(env, job) - begun) / HOUR for job in jobs] == [0, 0, 1, 1, 2]
        slots = [(await env.client.wait_for_flow(job, timeout=10)).single_output(str) for job in jobs]
        assert set(slots[0:2]) == set(slots[2:4]) == {"gpu-1", "gpu-2"}
        assert await env.client.invoke_rpc(POOL.free, "pool", "gpu") == 2


async def test_kinds_do_not_wait_for_each_other() -> None:
    """[CHAN-6] each instance is a queue of its own."""
    async with pool_of(Slots("gpu", 1), Slots("cpu", 1)) as env:
        await start(env, "job-1", "job-2")
        await start(env, "job-3", kind="cpu")
        await env.advance(HOUR)
        assert await statuses(env, "job-1", "job-3", "job-2") == [
            FlowStatus.COMPLETED,
            FlowStatus.COMPLETED,
            FlowStatus.RUNNING,
        ]


async def test_a_job_that_fails_or_is_stopped_while_it_waits_costs_no_slot() -> None:
    """[OPT-4] the recovery Step gives the slot back."""
    async with pool_of(Slots("gpu", 1)) as env:
        await start(env, "faulty", is_faulty=True)
        await start(env, "stopped", "last")
        await env.client.stop_flow("stopped")
        await env.advance(HOUR + timedelta(seconds=1))
        result = await env.client.wait_for_flow("faulty", timeout=10)
        assert (result.status, result.error_message) == (FlowStatus.FAILED, "broke down on gpu-1")
        await env.advance(HOUR)
        assert await statuses(env, "last") == [FlowStatus.COMPLETED]
        assert await env.client.invoke_rpc(POOL.free, "pool", "gpu") == 1


async def test_a_job_whose_request_is_sent_twice_gets_one_slot() -> None:
    """[RPC-12, STEP-9] the second publication with the same request ID is the first one."""
    async with pool_of(Slots("gpu", 2)) as env:
        env.duplicate_next_delivery()
        await start(env, "job")
        kinds = [event.kind for event in (await env.client.get_history("job")).events]
        assert "StepDeliveryLost" in kinds
        assert await env.client.invoke_rpc(POOL.free, "pool", "gpu") == 1
        await env.advance(HOUR)
        assert await env.client.invoke_rpc(POOL.free, "pool", "gpu") == 2


async def test_server_and_worker_may_be_killed_meanwhile() -> None:
    async with pool_of(Slots("gpu", 1)) as env:
        await start(env, "job-1", "job-2")
        env.crash_server()
        await env.advance(HOUR / 2)
        env.recover_server()
        env.drop_worker()
        await env.advance(2 * HOUR)
        assert await statuses(env, "job-1", "job-2") == [FlowStatus.COMPLETED] * 2
