"""Round trips of empty frames in batches: ``ADDRESS PLAN`` on the command line.

A Flow of n Steps makes n + 1 round trips: its start and result to the client, and each Step to the worker.
"""

import asyncio
import sys

import grpc
import msgspec
import uvloop

from dexpb.v1 import worker_service_pb2 as worker_pb
from dextools.bench.calls import WorkerCall, open_worker_session
from dextools.bench.load import ClosedLoop
from dextools.bench.notice import announce
from dextools.bench.outbox import Outbox
from dextools.bench.workloads import LoadPlan

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[int]).decode


class EchoSession:
    """Frames that are nothing but the number under which their sender waits."""

    def __init__(self, call: WorkerCall, steps: int) -> None:
        self._call = call
        self._round_trips = steps + 1
        self._out: Outbox[int] = Outbox()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def run_flow(self, number: int) -> None:
        for _ in range(self._round_trips):
            returned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[number] = returned
            self._out.put(number)
            await returned

    async def send(self) -> None:
        while True:
            await self._call.write(worker_pb.SessionBatch(frames=encode(await self._out.take())))

    async def receive(self) -> None:
        async for batch in self._call:
            for number in decode(batch.frames):
                self._waiting.pop(number).set_result(None)


async def drive(address: str, plan: LoadPlan) -> None:
    """Runs the load and announces what it measured."""
    async with grpc.aio.insecure_channel(address) as channel:
        session = EchoSession(open_worker_session(channel), plan.steps)
        pumps = [asyncio.create_task(session.send()), asyncio.create_task(session.receive())]
        result = await ClosedLoop(session.run_flow, plan).run()
        for pump in pumps:
            pump.cancel()
    announce("load_result", result=result)


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], msgspec.json.decode(sys.argv[2], type=LoadPlan)))
