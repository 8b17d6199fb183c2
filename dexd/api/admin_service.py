"""AdminService: what operators ask about the whole server [OBS-4]."""

from typing import Final

import grpc

from dexd.api.status import abort
from dexd.core.rejections import Rejection
from dexd.engine.engine import Engine
from dexd.engine.ports import Clock
from dexpb.v1 import admin_service_pb2 as pb

SERVICE_NAME: Final = "dexpb.v1.AdminService"


class AdminService:
    """Answers operators."""

    def __init__(self, engine: Engine, clock: Clock, *, hostname: str, version: str) -> None:
        self._engine = engine
        self._clock = clock
        self._hostname = hostname
        self._version = version

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        check: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._check_health)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, {"CheckHealth": check})

    async def _check_health(self, _body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
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
        ).SerializeToString()
