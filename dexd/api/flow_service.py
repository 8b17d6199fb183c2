"""FlowService: what clients ask, as commands and queries to the engine [ARCH-12].

A handler decodes, submits and encodes. Unary calls and the requests of a session meet in `begin`, so that both behave
alike; answers come back through a callback, which costs no task per request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import grpc
import msgspec
from google.protobuf.message import DecodeError, Message

from dexd.api.client_session import Abandon, ClientSession, OnAnswer
from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.status import abort, internal_error
from dexd.codec import flow_replies as replies
from dexd.codec import flow_requests as requests
from dexd.core.commands import ClientCommand
from dexd.core.ids import RequestId, RunId
from dexd.core.outcome import Reply
from dexd.core.rejections import Code, Rejection
from dexd.engine.engine import Engine
from dexd.engine.ports import Clock, Mint
from dexpb.v1 import flow_service_pb2 as pb

SERVICE_NAME: Final = "dexpb.v1.FlowService"

Answer = TypeVar("Answer")


class FlowLimits(msgspec.Struct, frozen=True):
    """Settings that requests are read with."""

    max_message_bytes: int
    max_wait_ms: int
    rpc_timeout_ms: int
    session_buffer_bytes: int


class Method(NamedTuple):
    """One unary method."""

    request_type: type[Message]
    begin: Callable[[Any, OnAnswer], Abandon | None]


class FlowService:
    """Serves unary calls and sessions of all clients."""

    def __init__(
        self, engine: Engine, flow_types: FlowTypeDirectory, mint: Mint, clock: Clock, limits: FlowLimits
    ) -> None:
        self._engine = engine
        self._flow_types = flow_types
        self._mint = mint
        self._clock = clock
        self._limits = limits
        self._sessions: set[ClientSession] = set()
        self._methods = {
            "StartFlow": Method(pb.StartFlowRequest, self._start_flow),
            "DescribeFlow": Method(pb.DescribeFlowRequest, self._describe_flow),
            "ListFlows": Method(pb.ListFlowsRequest, self._list_flows),
            "GetHistory": Method(pb.GetHistoryRequest, self._get_history),
            "Publish": Method(pb.PublishRequest, self._publish),
            "GetAttribute": Method(pb.GetAttributeRequest, self._get_attribute),
            "SetAttribute": Method(pb.SetAttributeRequest, self._set_attribute),
            "InvokeRpc": Method(pb.InvokeRpcRequest, self._invoke_rpc),
            "WaitForFlow": Method(pb.WaitForFlowRequest, self._wait_for_flow),
            "WaitForStepCompletion": Method(pb.WaitForStepCompletionRequest, self._wait_for_step),
            "StopFlow": Method(pb.StopFlowRequest, self._stop_flow),
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(partial(self._unary, name)) for name in self._methods
        }
        handlers["WatchHistory"] = grpc.unary_stream_rpc_method_handler(self._watch_history)
        handlers["Session"] = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)

    def begin_shutdown(self, rejection: Rejection) -> None:
        """Let every session answer what is open and end with the refusal [DRAIN-4]."""
        for session in list(self._sessions):
            session.end(rejection)

    def begin(self, method: str, body: bytes, on_answer: OnAnswer) -> Abandon | None:
        """Begin a call; see FlowCalls."""
        entry = self._methods.get(method)
        if entry is None:
            on_answer(_unknown_method(method))
            return None
        request = self._decode(entry.request_type, body)
        if isinstance(request, Rejection):
            on_answer(request)
            return None
        return entry.begin(request, on_answer)

    def _decode(self, request_type: type[Message], body: bytes) -> Message | Rejection:
        if len(body) > self._limits.max_message_bytes:
            return _too_large(request_type, len(body), self._limits.max_message_bytes)
        try:
            return request_type.FromString(body)
        except DecodeError:
            return Rejection(Code.MALFORMED, f"the bytes are not a {request_type.DESCRIPTOR.name}")

    # ---- transports ----------------------------------------------------------------------------------------------

    async def _unary(self, method: str, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        answer: asyncio.Future[bytes | Rejection] = asyncio.get_running_loop().create_future()
        abandon = self.begin(method, body, partial(_settle, answer))
        try:
            outcome = await answer
        finally:
            # Without effect once it is answered.
            if abandon is not None:
                abandon()
        if isinstance(outcome, Rejection):
            await abort(context, outcome)
        return outcome

    async def _session(self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        session = ClientSession(self, context, buffer_bytes=self._limits.session_buffer_bytes)
        self._sessions.add(session)
        try:
            rejection = await session.serve(messages)
        finally:
            self._sessions.discard(session)
        if rejection is not None:
            await abort(context, rejection)

    async def _watch_history(
        self, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        request = self._decode(pb.WatchHistoryRequest, body)
        if isinstance(request, Rejection):
            await abort(context, request)
        query = requests.to_watch_query(request)
        if isinstance(query, Rejection):
            await abort(context, query)
        entries = self._engine.watch_history(query.key.flow_id, query.key.run_id, from_event_id=query.from_event_id)
        async for entry in entries:
            if isinstance(entry, Rejection):
                await abort(context, entry)
            yield replies.from_entry(entry).SerializeToString()

    # ---- methods that change something -----------------------------------------------------------------------------

    def _start_flow(self, request: pb.StartFlowRequest, on_answer: OnAnswer) -> None:
        mint = self._mint
        minted = requests.Minted(RunId(mint.run_id()), mint.seed(), RequestId(mint.request_id()))
        self._submit(requests.to_start_flow(request, minted, self._flow_types.start_steps), on_answer)

    def _publish(self, request: pb.PublishRequest, on_answer: OnAnswer) -> None:
        self._submit(requests.to_publish(request, RequestId(self._mint.request_id())), on_answer)

    def _set_attribute(self, request: pb.SetAttributeRequest, on_answer: OnAnswer) -> None:
        self._submit(requests.to_set_attribute(request, RequestId(self._mint.request_id())), on_answer)

    def _stop_flow(self, request: pb.StopFlowRequest, on_answer: OnAnswer) -> None:
        self._submit(requests.to_stop_flow(request, RequestId(self._mint.request_id())), on_answer)

    def _invoke_rpc(self, request: pb.InvokeRpcRequest, on_answer: OnAnswer) -> Abandon | None:
        make = requests.to_invoke_rpc(
            request,
            RequestId(self._mint.request_id()),
            now=self._clock.now(),
            timeout_default_ms=self._limits.rpc_timeout_ms,
            time_left_ms=None,
        )
        if isinstance(make, Rejection):
            on_answer(make)
            return None
        return _pass_on(self._engine.invoke(make), replies.from_rpc_output, on_answer)

    # ---- methods that read or wait -----------------------------------------------------------------------------------

    def _describe_flow(self, request: pb.DescribeFlowRequest, on_answer: OnAnswer) -> Abandon | None:
        key = requests.to_run_key(request)
        if isinstance(key, Rejection):
            on_answer(key)
            return None
        return _pass_on(self._engine.describe(key.flow_id, key.run_id), replies.from_summary, on_answer)

    def _get_attribute(self, request: pb.GetAttributeRequest, on_answer: OnAnswer) -> Abandon | None:
        query = requests.to_attribute_query(request)
        if isinstance(query, Rejection):
            on_answer(query)
            return None
        view = self._engine.attribute(query.key.flow_id, query.key.run_id, query.name)
        return _pass_on(view, replies.from_attribute, on_answer)

    def _list_flows(self, request: pb.ListFlowsRequest, on_answer: OnAnswer) -> Abandon | None:
        query = requests.to_list_query(request)
        if isinstance(query, Rejection):
            on_answer(query)
            return None
        page = self._engine.list_flows(query.selection, query.limit)
        return _pass_on(_started(page), partial(replies.from_list, query=query), on_answer)

    def _get_history(self, request: pb.GetHistoryRequest, on_answer: OnAnswer) -> Abandon | None:
        query = requests.to_history_query(request)
        if isinstance(query, Rejection):
            on_answer(query)
            return None
        page = self._engine.history(
            query.key.flow_id, query.key.run_id, from_event_id=query.from_event_id, limit=query.limit
        )
        return _pass_on(_started(page), replies.from_history, on_answer)

    def _wait_for_flow(self, request: pb.WaitForFlowRequest, on_answer: OnAnswer) -> Abandon | None:
        query = requests.to_flow_wait_query(request, wait_ms_max=self._limits.max_wait_ms)
        if isinstance(query, Rejection):
            on_answer(query)
            return None
        end = self._engine.wait_for_flow(query.flow_id, wait_ms=query.wait_ms, first_run_id=query.first_run_id)
        return _pass_on(end, replies.from_flow_wait, on_answer)

    def _wait_for_step(self, request: pb.WaitForStepCompletionRequest, on_answer: OnAnswer) -> Abandon | None:
        query = requests.to_step_wait_query(request, wait_ms_max=self._limits.max_wait_ms)
        if isinstance(query, Rejection):
            on_answer(query)
            return None
        end = self._engine.wait_for_step(query.flow_id, query.step_execution_id, wait_ms=query.wait_ms)
        return _pass_on(end, replies.from_step_wait, on_answer)

    def _submit(self, command: ClientCommand | Rejection, on_answer: OnAnswer) -> None:
        if isinstance(command, Rejection):
            on_answer(command)
        else:
            self._engine.request(command, partial(_encode_reply, on_answer))


def _encode_reply(on_answer: OnAnswer, reply: Reply | Rejection) -> None:
    on_answer(reply if isinstance(reply, Rejection) else replies.from_reply(reply).SerializeToString())


def _pass_on(
    answer: "asyncio.Future[Answer | Rejection]", encode: Callable[[Answer], Message], on_answer: OnAnswer
) -> Abandon:
    """Encode the answer when it is there; gives what abandons the call."""

    def on_done(done: "asyncio.Future[Answer | Rejection]") -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            on_answer(internal_error(error))
            return
        outcome = done.result()
        on_answer(outcome if isinstance(outcome, Rejection) else encode(outcome).SerializeToString())

    answer.add_done_callback(on_done)
    return answer.cancel


def _started(reading: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """Run a read of the log; rare enough for a task of its own."""
    return asyncio.create_task(reading, name="flow_service_read")


def _settle(answer: asyncio.Future[bytes | Rejection], outcome: bytes | Rejection) -> None:
    if not answer.done():
        answer.set_result(outcome)


def _unknown_method(method: str) -> Rejection:
    return Rejection(
        Code.UNKNOWN_METHOD, f"FlowService has no method {method[:100]!r} for sessions", {"method": method[:100]}
    )


def _too_large(request_type: type[Message], size: int, limit: int) -> Rejection:
    what = request_type.DESCRIPTOR.name
    return Rejection(
        Code.VALUE_TOO_LARGE,
        f"{what} has {size} bytes, the limit is {limit}",
        {"what": what, "size": str(size), "limit": str(limit)},
    )
