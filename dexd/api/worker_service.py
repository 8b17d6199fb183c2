"""WorkerService: one session per call, frames in and out in batches [WIRE-2].

A session turns batches into commands and effects into batches. What they mean, and whether the worker still lives, is
decided by the kernel; here is only what concerns the transport: a worker that does not read [WIRE-6].
"""

import asyncio
from collections.abc import AsyncIterator

import grpc
import msgspec
import structlog

from dexd.api.batch_stream import BatchStream, cancel_and_wait
from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.open_calls import OpenCalls
from dexd.api.references import References
from dexd.api.session_key import session_of
from dexd.api.status import abort, status_name
from dexd.codec.hello import Opening, decode_opening
from dexd.codec.outbound import EffectEncoder, FrameBlock, SessionTerms, join_blocks
from dexd.codec.wire import Received, decode_batch
from dexd.core.commands import DeclineCall
from dexd.core.effects import AssignCall, EndSession, SessionEffect
from dexd.core.rejections import Code, Rejection
from dexd.engine.engine import Engine

SERVICE_NAME = "dexpb.v1.WorkerService"


class SessionLimits(msgspec.Struct, frozen=True):
    """How far a worker may fall behind in reading."""

    buffer_bytes: int
    """From here on the session takes no assignment [WIRE-6]."""
    pong_timeout_ms: int
    """How long it may stay so."""


class WorkerService:
    """Serves the sessions of all workers."""

    def __init__(
        self,
        engine: Engine,
        flow_types: FlowTypeDirectory,
        open_calls: OpenCalls,
        references: References,
        terms: SessionTerms,
        limits: SessionLimits,
    ) -> None:
        self._engine = engine
        self._references = references
        self._open_calls = open_calls
        self._flow_types = flow_types
        self._terms = terms
        self._limits = limits

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        session: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, {"Session": session})

    async def _session(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        with self._open_calls:
            session = WorkerSession(
                self._engine, self._flow_types, self._references, self._terms, self._limits, context
            )
            rejection = await session.serve(requests)
            if rejection is not None:
                await abort(context, rejection)


class WorkerSession:
    """One session: a SessionSink for the engine, a call for gRPC."""

    def __init__(
        self,
        engine: Engine,
        flow_types: FlowTypeDirectory,
        references: References,
        terms: SessionTerms,
        limits: SessionLimits,
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> None:
        self._engine = engine
        self._flow_types = flow_types
        self._references = references
        self._uploader = session_of(context)
        self._terms = terms
        self._limits = limits
        self._stream: BatchStream[FrameBlock] = BatchStream(context, join_blocks, buffer_bytes=limits.buffer_bytes)
        self._session_id = engine.open_session(self)
        self._encoder = EffectEncoder(terms, 0, status_name)
        self._skipped = 0
        self._log = structlog.get_logger().bind(session=self._session_id)

    async def serve(self, requests: AsyncIterator[bytes]) -> Rejection | None:
        """Carry frames until one side ends the session; gives the refusal to end the call with."""
        watch = asyncio.create_task(self._watch_reading(), name="worker_session_watch")
        reason = "the connection was lost"
        try:
            rejection = await self._stream.receive(self._opened(requests), self._take)
            reason = "the worker closed the session" if rejection is None else rejection.code
            if rejection is None or rejection.code is Code.SHUTTING_DOWN:
                # The last acknowledgements, and the Reconnect of a server that stops.
                await self._stream.flush()
        finally:
            self._engine.close_session(self._session_id, reason)
            self._log.info("worker_session_closed", reason=reason, frames_skipped=self._skipped)
            await cancel_and_wait(watch)
            await self._stream.stop()
        return rejection

    def deliver(self, effects: list[SessionEffect]) -> None:
        """Queue the frames of one committed batch; see SessionSink."""
        if self._stream.is_full:
            effects = self._decline_assignments(effects)
        encoded = self._encoder.encode(effects)
        self._references.note_handed_out((block.data for block in encoded.blocks), effects)
        for block in encoded.blocks:
            self._stream.send(block, len(block.data))
        if encoded.undeliverable:
            self._engine.post(encoded.undeliverable)
        # Nothing of a session comes after its end.
        if effects and isinstance(effects[-1], EndSession):
            self._stream.end(effects[-1].rejection)

    async def _opened(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Open the session with the first message, and give the others at the pace of the engine [ARCH-8]."""
        async for message in requests:
            opening = decode_opening(message, self._session_id)
            refused = opening if isinstance(opening, Rejection) else self._engine.announce(opening.index_keys)
            if refused is not None:
                self._stream.end(refused)
            elif isinstance(opening, Opening):
                self._open(opening, message)
            break
        async for message in requests:
            await self._engine.room()
            yield message

    def _open(self, opening: Opening, message: bytes) -> None:
        command = opening.command
        self._encoder = EffectEncoder(self._terms, opening.protocol, status_name)
        self._flow_types.learn(opening.start_steps)
        self._log = self._log.bind(worker_id=command.worker_id, incarnation=command.incarnation)
        self._log.info("worker_session_opened", sdk=command.sdk, flow_types=len(command.flows))
        self._engine.post([command])
        if command.running:
            self._references.note_resumed(command)
        self._post(opening.rest, message)

    def _take(self, message: bytes) -> None:
        self._post(decode_batch(message, self._session_id, frame_bytes_max=self._terms.max_frame_bytes), message)

    def _post(self, received: Received, message: bytes) -> None:
        if received.skipped:
            # Once per session: a broken peer must not fill the log. The total is told at the end.
            if not self._skipped:
                self._log.warning("frames_skipped", first_count=received.skipped)
            self._skipped += received.skipped
        self._engine.post(self._references.check_results(message, received.commands, self._uploader))

    def _decline_assignments(self, effects: list[SessionEffect]) -> list[SessionEffect]:
        """Answer in the worker's place that it has no capacity, so that the calls go elsewhere [WIRE-6]."""
        declines = [
            DeclineCall(self._session_id, effect.stream, effect.call.token, "NO_CAPACITY")
            for effect in effects
            if isinstance(effect, AssignCall)
        ]
        self._engine.post(declines)
        return [effect for effect in effects if not isinstance(effect, AssignCall)]

    async def _watch_reading(self) -> None:
        """End the session of a worker that leaves its buffer full for the whole pong timeout [WIRE-6]."""
        timeout_ms = self._limits.pong_timeout_ms
        while True:
            await self._stream.full()
            try:
                async with asyncio.timeout(timeout_ms / 1_000):
                    await self._stream.room()
            except TimeoutError:
                self._stream.end(
                    Rejection(
                        Code.SESSION_TIMEOUT,
                        f"the worker left {self._limits.buffer_bytes} bytes unread for {timeout_ms} ms",
                        {"limit_bytes": str(self._limits.buffer_bytes), "timeout_ms": str(timeout_ms)},
                    )
                )
                return
