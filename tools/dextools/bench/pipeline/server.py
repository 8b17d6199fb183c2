"""The bare pipeline's server process: ``DATA_DIR`` on the command line."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import msgspec
import uvloop

from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import frames
from dexpb.v1 import worker_service_pb2 as worker_pb
from dextools.bench.notice import announce
from dextools.bench.pipeline.journal import Journal
from dextools.bench.pipeline.relay import Relay, Replies

SWITCH_INTERVAL_S = 0.0005
"""How long the writer thread waits for the interpreter lock after each statement while the loop is busy."""

GC_THRESHOLDS = (50_000, 50, 50)
"""With Python's own thresholds full collections cost a fifth of the throughput and lift p99 above 40 ms."""

ClientContext = grpc.aio.ServicerContext[flow_pb.ClientBatch, flow_pb.ServerBatch]
WorkerContext = grpc.aio.ServicerContext[worker_pb.SessionBatch, worker_pb.SessionBatch]

encode = msgspec.msgpack.Encoder().encode
decode_frames = msgspec.msgpack.Decoder(list[frames.WorkerFrame]).decode


class Sessions:
    """The two services of the bare pipeline, each with its one session method."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def serve_client(self, batches: AsyncIterator[flow_pb.ClientBatch], context: ClientContext) -> None:
        out = Replies()
        sender = asyncio.create_task(self._send_replies(out, context))
        try:
            async for batch in batches:
                for request in batch.requests:
                    self._relay.on_request(request, out)
        finally:
            sender.cancel()

    async def _send_replies(self, out: Replies, context: ClientContext) -> None:
        while True:
            await context.write(flow_pb.ServerBatch(replies=await out.take()))

    async def serve_worker(self, batches: AsyncIterator[worker_pb.SessionBatch], context: WorkerContext) -> None:
        sender = asyncio.create_task(self._send_frames(context))
        try:
            async for batch in batches:
                for frame in decode_frames(batch.frames):
                    self._relay.on_frame(frame)
        finally:
            sender.cancel()

    async def _send_frames(self, context: WorkerContext) -> None:
        while True:
            await context.write(worker_pb.SessionBatch(frames=encode(await self._relay.worker_out.take())))

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        client_session = grpc.stream_stream_rpc_method_handler(
            self.serve_client, flow_pb.ClientBatch.FromString, flow_pb.ServerBatch.SerializeToString
        )
        worker_session = grpc.stream_stream_rpc_method_handler(
            self.serve_worker, worker_pb.SessionBatch.FromString, worker_pb.SessionBatch.SerializeToString
        )
        return (
            grpc.method_handlers_generic_handler("dexpb.v1.FlowService", {"Session": client_session}),
            grpc.method_handlers_generic_handler("dexpb.v1.WorkerService", {"Session": worker_session}),
        )


async def serve(data_dir: Path) -> None:
    """Serves until the process is told to end."""
    journal = Journal(data_dir / "journal.sqlite")
    journal.open()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(Sessions(Relay(journal)).handlers())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce("server_ready", address=f"127.0.0.1:{port}", pid=os.getpid())
    await server.wait_for_termination()


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(serve(Path(sys.argv[1])))
