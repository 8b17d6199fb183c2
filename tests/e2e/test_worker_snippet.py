"""The worker snippet of the specification as written, against a real server, in a Flow of its own [W1]."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dexsdk import (
    AsyncClient,
    AsyncWorker,
    Attribute,
    BlobCacheConfig,
    ClientOptions,
    Context,
    Flow,
    FlowStatus,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOutcome,
    WorkerOptions,
    dead_end,
    open_blob_cache,
    rpc,
)
from tests.support.server_process import ServerProcess

GREETING = Attribute("greeting", str)


class GreetStep(Step[str]):
    async def execute(self, context: Context, name: str) -> StepDecision:
        GREETING.set(context, f"Hello, {name}!")
        return dead_end()


class GreetingFlow(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(GreetStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GREETING)

    @rpc
    async def read(self, context: Context) -> RPCResult[str]:
        return RPCResult.of(GREETING.get(context))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


def sdk_threads() -> list[threading.Thread]:
    """Threads that the SDK made, those of its gRPC channels included."""
    marks = ("dexsdk", "channel_spin", "consume_request")
    return [thread for thread in threading.enumerate() if any(mark in thread.name for mark in marks)]


async def test_w1_worker_snippet_runs_as_written(server: ServerProcess, tmp_path: Path) -> None:
    """[W1, DRAIN-1]: the RPC reads what the Step stored; no task, thread or stream is left, no signal is taken."""
    flow = GreetingFlow()
    registry = Registry((flow,), allow_async_handlers=True)
    cache = open_blob_cache(BlobCacheConfig(tmp_path / "cache", max_bytes=1 << 20))
    tasks_before = asyncio.all_tasks()
    signals_before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    worker = AsyncWorker(
        registry,
        cache,
        WorkerOptions(
            server_address=server.address, pull=PullWorkerOptions(max_concurrent_tasks=8, reserved_rpc_tasks=1)
        ),
    )
    task = asyncio.create_task(worker.start())
    await worker.wait_pull_registered(timeout=30)
    state = worker.pull_registration_state()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == signals_before
    declines = worker.pull_reserved_rpc_declines

    async with AsyncClient(registry, cache, ClientOptions(server_address=server.address)) as client:
        await client.start_flow(flow, "greeting-1", "Ada")
        outcome = await client.wait_for_step_completion("greeting-1", StepExecutionId(GreetStep), timeout=30)
        greeting = await client.invoke_rpc(flow.read, "greeting-1")
        info = await client.describe_flow("greeting-1")

    await worker.close()
    await task
    cache.close()

    assert state.is_ready
    assert [queue.has_registered_stream for queue in state.queues] == [True, True]
    assert state.queues[1].name == "GreetingFlow"
    assert declines == 0
    assert outcome is StepOutcome.COMPLETED
    assert greeting == "Hello, Ada!"
    assert info.status is FlowStatus.RUNNING
    for thread in sdk_threads():
        await asyncio.to_thread(thread.join, 10)
    assert sdk_threads() == []
    assert asyncio.all_tasks() <= tasks_before
