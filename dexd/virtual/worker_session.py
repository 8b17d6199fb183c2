"""A worker's session inside the process: the bytes of `WorkerService.Session` without a transport."""

from collections.abc import Callable
from typing import Final

from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.references import References
from dexd.api.status import status_name
from dexd.codec.hello import decode_opening
from dexd.codec.outbound import EffectEncoder, SessionTerms, join_blocks
from dexd.codec.wire import decode_batch
from dexd.core.effects import EndSession, SessionEffect
from dexd.core.rejections import Rejection
from dexd.engine.engine import Engine

WORKER: Final = b"test-worker"
"""Who uploads and refers here [BLOB-3]."""

NEVER_MS: Final = 10**15
"""Longer than any duration of the product [TIMER-2]: nobody watches a worker that lives in the same process."""

TERMS: Final = SessionTerms(
    server_id="test-server", ping_interval_ms=NEVER_MS, max_streams=256, max_frame_bytes=16 << 20
)


class VirtualSession:
    """A SessionSink for the engine, a connection for the worker; both on one event loop.

    The worker gets messages while the engine lets a batch out, so it may not answer before that is over.
    """

    def __init__(
        self,
        engine: Engine,
        flow_types: FlowTypeDirectory,
        references: References,
        deliver: Callable[[bytes], None],
        on_ended: Callable[[str], None],
    ) -> None:
        self._engine: Engine | None = engine
        self._flow_types = flow_types
        self._references = references
        self._deliver = deliver
        self._on_ended = on_ended
        self._session_id = engine.open_session(self)
        self._encoder: EffectEncoder | None = None

    def receive(self, message: bytes) -> None:
        """Take a SessionBatch of the worker; the first one begins with Hello."""
        engine = self._engine
        if engine is None:
            return
        if self._encoder is not None:
            received = decode_batch(message, self._session_id, frame_bytes_max=TERMS.max_frame_bytes)
            engine.post(self._references.check_results(message, received.commands, WORKER))
            return
        opening = decode_opening(message, self._session_id)
        refused = opening if isinstance(opening, Rejection) else engine.announce(opening.index_keys)
        if refused is not None or isinstance(opening, Rejection):
            self._end("" if refused is None else refused.message)
            return
        self._encoder = EffectEncoder(TERMS, opening.protocol, status_name)
        self._flow_types.learn(opening.start_steps)
        self._references.note_resumed(opening.command)
        rest = self._references.check_results(message, opening.rest.commands, WORKER)
        engine.post([opening.command, *rest])

    def break_off(self, reason: str) -> None:
        """The worker is gone without a Goodbye; the server hears of it. Idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close_session(self._session_id, reason)

    def lose_server(self) -> None:
        """The server is gone; the worker hears of it."""
        self._engine = None
        self._on_ended("the server crashed")

    def deliver(self, effects: list[SessionEffect]) -> None:
        """See `engine.ports.SessionSink`."""
        if self._engine is None or self._encoder is None:
            return
        encoded = self._encoder.encode(effects)
        self._references.note_handed_out((block.data for block in encoded.blocks), effects)
        if encoded.blocks:
            self._deliver(join_blocks(encoded.blocks))
        if encoded.undeliverable:
            self._engine.post(encoded.undeliverable)
        if effects and isinstance(effects[-1], EndSession):
            self._end(effects[-1].rejection.message)

    def _end(self, reason: str) -> None:
        self.break_off(reason)
        self._on_ended(reason)
