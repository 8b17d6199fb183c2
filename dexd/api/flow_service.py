"""FlowService on the wire: unary calls, the client session and the history stream; `flow_methods` says what they do."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import grpc

from dexd.api.client_session import ClientSession
from dexd.api.flow_methods import FlowMethods
from dexd.api.open_calls import OpenCalls
from dexd.api.schedule_methods import SERVICE_NAME as SCHEDULE_SERVICE_NAME
from dexd.api.session_key import session_of
from dexd.api.status import abort
from dexd.codec.flow_queries import to_watch_query
from dexd.codec.flow_replies import from_entry
from dexd.core.rejections import Rejection
from dexd.engine.reads import Reads
from dexd.engine.request_times import RequestTimes
from dexpb.v1 import flow_service_pb2 as pb

SERVICE_NAME: Final = "dexpb.v1.FlowService"


class FlowService:
    """Serves the calls of all clients."""

    def __init__(self, methods: FlowMethods, reads: Reads, open_calls: OpenCalls, *, session_buffer_bytes: int) -> None:
        self._methods = methods
        self.request_times = RequestTimes(methods.names)
        """For metrics."""
        self._open_calls = open_calls
        self._reads = reads
        self._session_buffer_bytes = session_buffer_bytes
        self._sessions: set[ClientSession] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(partial(self._unary, name))
            for name in self._methods.names
            if name not in self._methods.schedule_methods
        }
        handlers["WatchHistory"] = grpc.unary_stream_rpc_method_handler(self._watch_history)
        handlers["Session"] = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)

    def schedule_handler(self) -> grpc.GenericRpcHandler:
        """The same for ScheduleService."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(partial(self._unary, name))
            for name in self._methods.schedule_methods
        }
        return grpc.method_handlers_generic_handler(SCHEDULE_SERVICE_NAME, handlers)

    def end_sessions(self, rejection: Rejection) -> None:
        """Let every session answer what is open and end with the refusal [DRAIN-4]."""
        for session in list(self._sessions):
            session.end(rejection)

    async def _unary(self, method: str, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        with self._open_calls:
            answer = await self._answer(method, body, session_of(context))
            if isinstance(answer, Rejection):
                await abort(context, answer)
            return answer

    async def _answer(self, method: str, body: bytes, session: bytes) -> bytes | Rejection:
        answered: asyncio.Future[bytes | Rejection] = asyncio.get_running_loop().create_future()
        on_answer = self.request_times.timed(method, partial(_settle, answered))
        abandon = self._methods.begin(method, body, on_answer, session)
        try:
            return await answered
        except asyncio.CancelledError:
            if abandon is not None:
                abandon()
            raise

    async def _session(self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        session = ClientSession(self._methods, context, self.request_times, buffer_bytes=self._session_buffer_bytes)
        self._sessions.add(session)
        with self._open_calls:
            try:
                rejection = await session.serve(messages)
            finally:
                self._sessions.discard(session)
            if rejection is not None:
                await abort(context, rejection)

    async def _watch_history(
        self, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        request = self._methods.decode(pb.WatchHistoryRequest, body)
        query = request if isinstance(request, Rejection) else to_watch_query(request)
        if isinstance(query, Rejection):
            await abort(context, query)
        with self._open_calls:
            async for entry in self._reads.watch_history(query):
                if isinstance(entry, Rejection):
                    await abort(context, entry)
                yield from_entry(entry).SerializeToString()


def _settle(answered: "asyncio.Future[bytes | Rejection]", answer: bytes | Rejection) -> None:
    # Already cancelled when the caller left while the answer was on its way.
    if not answered.done():
        answered.set_result(answer)
