"""Serve a Flow from a pull worker that says whether it is ready, and whether it is short of capacity.

Shows the life of a worker: start it, wait until its queues are registered, serve a readiness probe, read its
diagnostics, stop it. The Flow's Step stores a greeting, and its RPC reads it; one of eight task slots is kept for RPCs,
so that the greeting is read at once however many Steps run. Start a server (`dexd serve`), then
`python -m examples.pull_greeting`.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from dexsdk import (
    AsyncClient,
    AsyncWorker,
    Attribute,
    ClientOptions,
    Context,
    Flow,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    WorkerOptions,
    dead_end,
    readiness_app,
    rpc,
)
from examples.local_worker import run

GREETING = Attribute("greeting", str)

AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]


class GreetStep(Step[str]):
    """Store a greeting; the Flow stays open, so that it can be asked for it."""

    async def execute(self, context: Context, name: str) -> StepDecision:
        GREETING.set(context, f"Hello, {name}!")
        return dead_end()


class GreetingFlow(Flow[str]):
    """A greeting for one person."""

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(GreetStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GREETING)

    @rpc
    async def greeting(self, context: Context) -> RPCResult[str]:
        return RPCResult.of(GREETING.get(context))


@dataclass(frozen=True)
class Diagnostics:
    """What a monitoring system wants to know of a worker."""

    is_ready: bool
    reserved_rpc_declines: int
    """Steps turned away because only the slots for RPCs were left: if its rate rises, Steps are short of capacity."""


def diagnostics_of(worker: AsyncWorker) -> Diagnostics:
    """Read the worker's state; cheap, from any thread, also after its end."""
    return Diagnostics(worker.pull_registration_state().is_ready, worker.pull_reserved_rpc_declines)


async def answer_probe(app: AsgiApp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one HTTP request with an ASGI app.

    An ASGI server does this better and in one line, for example `uvicorn.run(readiness_app(worker))`. These lines need
    nothing but the standard library, in a process that serves nothing else over HTTP.
    """
    method, path, _ = (await reader.readline()).decode("latin-1").split(" ", 2)

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": b""}

    async def send(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            writer.write(b"HTTP/1.1 %d -\r\nconnection: close\r\n" % message["status"])
            writer.writelines(b"%s: %s\r\n" % header for header in message["headers"])
            writer.write(b"\r\n")
        else:
            writer.write(message["body"])

    await app({"type": "http", "method": method, "path": path, "headers": []}, receive, send)
    writer.close()


async def ask_probe(port: int) -> str:
    """Ask as an orchestrator does; gives the status code."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.split(b" ")[1].decode()


async def play(server: str) -> None:
    """Serve one greeting, and ask probe and diagnostics before and after."""
    flow = GreetingFlow()
    registry = Registry((flow,), allow_async_handlers=True)
    # Keep one slot for RPCs, so that Flows stay responsive.
    pull = PullWorkerOptions(max_concurrent_tasks=8, reserved_rpc_tasks=1)
    worker = AsyncWorker(registry, None, WorkerOptions(server_address=server, pull=pull))
    client = AsyncClient(registry, None, ClientOptions(server_address=server))
    probe = await asyncio.start_server(partial(answer_probe, readiness_app(worker)), "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    print("probe before the start:", await ask_probe(port))

    running = asyncio.create_task(worker.start())
    try:
        await worker.wait_pull_registered(timeout=30)
        print("probe once registered:", await ask_probe(port))
        flow_id = f"greeting-{uuid.uuid4().hex[:8]}"
        await client.start_flow(GreetingFlow, flow_id, "Ada")
        await client.wait_for_step_completion(flow_id, StepExecutionId(GreetStep))
        greeting = await client.invoke_rpc(flow.greeting, flow_id)
        print(flow_id, "says", greeting)
    finally:
        probe.close()
        await client.close()
        await worker.close()
        await running
    print(diagnostics_of(worker))


if __name__ == "__main__":
    run(play, __doc__)
