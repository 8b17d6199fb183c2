"""Sends back every batch as it came: the server of the echo floor."""

import os
from collections.abc import AsyncIterator

import grpc
import uvloop

from dexpb.v1 import worker_service_pb2 as worker_pb
from dextools.bench.notice import announce


async def echo(
    batches: AsyncIterator[worker_pb.SessionBatch],
    context: grpc.aio.ServicerContext[worker_pb.SessionBatch, worker_pb.SessionBatch],
) -> None:
    async for batch in batches:
        await context.write(batch)


async def serve() -> None:
    """Serves until the process is told to end."""
    handler = grpc.stream_stream_rpc_method_handler(
        echo, worker_pb.SessionBatch.FromString, worker_pb.SessionBatch.SerializeToString
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("dexpb.v1.WorkerService", {"Session": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce("server_ready", address=f"127.0.0.1:{port}", pid=os.getpid())
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve())
