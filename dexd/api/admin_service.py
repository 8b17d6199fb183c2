"""AdminService: what operators ask about the whole server [OBS-4], and live workers and queues [SURF-22]."""

import asyncio
from functools import partial
from typing import Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from dexd.api.status import abort
from dexd.codec.admin_replies import from_drained, from_queues, from_workers
from dexd.codec.matching_views import queue_views, worker_views
from dexd.core.commands import DrainWorker
from dexd.core.ids import WorkerId
from dexd.core.outcome import WorkerDrained
from dexd.core.rejections import Code, Rejection
from dexd.engine.engine import Engine
from dexd.engine.ports import Clock
from dexd.engine.retention import RetentionStatus
from dexpb.v1 import admin_service_pb2 as pb

SERVICE_NAME: Final = "dexpb.v1.AdminService"

Context = grpc.aio.ServicerContext[bytes, bytes]
Request = TypeVar("Request", bound=Message)


class AdminService:
    """Answers operators."""

    def __init__(
        self, engine: Engine, clock: Clock, retention: RetentionStatus, *, hostname: str, version: str
    ) -> None:
        self._engine = engine
        self._retention = retention
        self._clock = clock
        self._hostname = hostname
        self._version = version

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        methods = {
            "CheckHealth": self._check_health,
            "ListWorkers": self._list_workers,
            "ListQueues": self._list_queues,
            "DrainWorker": self._drain_worker,
        }
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)

    async def _check_health(self, _body: bytes, context: Context) -> bytes:
        """Go the whole way: mailbox, kernel, a durable write, and back. The request has no fields to read."""
        commit_ms = await self._engine.check_commit()
        if isinstance(commit_ms, Rejection):
            await abort(context, commit_ms)
        health = self._engine.health
        return pb.CheckHealthReply(
            condition=health.condition,
            hostname=self._hostname,
            commit_ms=commit_ms,
            now=self._clock.now(),
            open_runs=health.open_runs,
            connected_workers=health.connected_workers,
            version=self._version,
            postponed_executions=self._retention.postponed_executions,
            archive_error=self._retention.archive_error,
        ).SerializeToString()

    async def _list_workers(self, body: bytes, context: Context) -> bytes:
        request = await _decode(pb.ListWorkersRequest, body, context)
        views = worker_views(self._engine.kernel)
        if request.worker_id:
            views = [view for view in views if view.worker_id == request.worker_id]
        return from_workers(views, now=self._clock.now()).SerializeToString()

    async def _list_queues(self, _body: bytes, _context: Context) -> bytes:
        return from_queues(queue_views(self._engine.kernel), now=self._clock.now()).SerializeToString()

    async def _drain_worker(self, body: bytes, context: Context) -> bytes:
        request = await _decode(pb.DrainWorkerRequest, body, context)
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        command = DrainWorker(WorkerId(request.worker_id), is_undo=request.undo)
        self._engine.request(command, partial(_settle, answered))
        answer = await answered
        if isinstance(answer, Rejection):
            await abort(context, answer)
        assert isinstance(answer, WorkerDrained)
        return from_drained(answer).SerializeToString()


async def _decode(kind: type[Request], body: bytes, context: Context) -> Request:
    try:
        return kind.FromString(body)
    except DecodeError:
        await abort(context, Rejection(Code.MALFORMED, f"the bytes are not a {kind.DESCRIPTOR.name}"))


def _settle(answered: asyncio.Future[object], answer: object) -> None:
    # The caller may have gone meanwhile.
    if not answered.done():
        answered.set_result(answer)
