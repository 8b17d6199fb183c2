"""The bare pipeline's worker process, which answers every assignment at once: ``ADDRESS`` on the command line.

A Step's input is the number of Steps still to come; the last one completes the Flow.
"""

import asyncio
import sys

import grpc
import msgspec
import uvloop

from dexpb.v1 import frames
from dexpb.v1 import worker_service_pb2 as worker_pb
from dextools.bench.calls import WorkerCall, open_worker_session
from dextools.bench.notice import announce
from dextools.bench.outbox import Outbox

encode = msgspec.msgpack.Encoder().encode
decode_frames = msgspec.msgpack.Decoder(list[frames.ServerFrame]).decode


async def work(address: str) -> None:
    """Runs one session until the server ends it."""
    out: Outbox[frames.WorkerFrame] = Outbox()
    out.put(frames.Hello(1, 1, "bench-host-12345-abcdefgh", "abcdefghijklmnop", "pipeline", "0", 128, 0, ()))
    async with grpc.aio.insecure_channel(address) as channel:
        call = open_worker_session(channel)
        sender = asyncio.create_task(_send(out, call))
        try:
            await _receive(out, call)
        finally:
            sender.cancel()


async def _send(out: Outbox[frames.WorkerFrame], call: WorkerCall) -> None:
    while True:
        await call.write(worker_pb.SessionBatch(frames=encode(await out.take())))


async def _receive(out: Outbox[frames.WorkerFrame], call: WorkerCall) -> None:
    async for batch in call:
        for frame in decode_frames(batch.frames):
            if isinstance(frame, frames.Assign):
                out.put(frames.Output(frame.stream, frame.token, decision=decide(frame)))
            elif isinstance(frame, frames.Welcome):
                announce("worker_ready")


def decide(call: frames.Assign) -> frames.Decision:
    """What the product's chain Step would return."""
    left = int(call.input)
    if left == 0:
        return frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b"true")
    movement = frames.Movement(call.name, str(left - 1).encode(), False)
    return frames.Decision(frames.DECISION_GO_TO, (movement,))


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
