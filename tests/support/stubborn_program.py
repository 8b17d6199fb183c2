"""A program whose handler swallows every cancellation: it starts the handler, closes its worker, and ends."""

import asyncio
import sys

from dexsdk import (
    AsyncClient,
    AsyncWorker,
    ClientOptions,
    Context,
    Flow,
    PullWorkerOptions,
    Registry,
    Step,
    StepDecision,
    StepList,
    WorkerOptions,
)

IS_RUNNING = asyncio.Event()


class StubbornStep(Step[str]):
    async def execute(self, context: Context, input: str) -> StepDecision:
        IS_RUNNING.set()
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                sys.stdout.write("cancellation swallowed\n")


class StubbornFlow(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(StubbornStep())


async def main(server: str) -> None:
    registry = Registry((StubbornFlow(),), allow_async_handlers=True)
    pull = PullWorkerOptions(max_concurrent_tasks=2, stop_drain_timeout=0.1)
    worker = AsyncWorker(registry, None, WorkerOptions(server_address=server, pull=pull))
    running = asyncio.create_task(worker.start())
    async with AsyncClient(registry, None, ClientOptions(server_address=server)) as client:
        await client.start_flow(StubbornFlow, "stubborn", "x")
        await IS_RUNNING.wait()
    await worker.close()
    await running
    sys.stdout.write("worker closed\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    sys.stdout.write("program ended\n")
