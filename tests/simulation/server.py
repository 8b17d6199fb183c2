"""The simulated server: the real engine, codec and kernel over a log that survives, and everything else of it dies."""

import asyncio
from collections.abc import Callable
from random import Random

from dexd.blobs.memory_store import MemoryBlobStore
from dexd.codec.hello import decode_opening
from dexd.codec.outbound import EffectEncoder, SessionTerms, join_blocks
from dexd.codec.wire import decode_batch
from dexd.core.config import KernelConfig
from dexd.core.effects import EndSession, SessionEffect
from dexd.core.ids import SessionId
from dexd.core.rejections import Rejection
from dexd.engine.engine import Engine, EngineOptions
from dexd.engine.parking_lot import Bounds
from dexd.engine.system import ServerClock
from dexd.log.errors import LogError, LogFullError
from dexd.log.event_log import Batch
from tests.simulation.document_desk import DocumentDesk, upload
from tests.simulation.faults import Faults
from tests.simulation.retention import KeptLog, SimulatedRetention

EPOCH_NS = 1_700_000_000_000_000_000
"""Where the simulated wall clock begins."""

TERMS = SessionTerms("simulated", 20_000, 256, 16 * 1024 * 1024)


class SimulatedClock:
    """The server's own clock over the loop's time, with a wall clock that the world may set [TIMER-6]."""

    def __init__(self, loop: asyncio.AbstractEventLoop, continue_from: int) -> None:
        self._loop = loop
        self._skew_ns = 0
        self._clock = ServerClock(continue_from, wall_ns=self._wall_ns, monotonic_ns=self._monotonic_ns)

    def step(self, milliseconds: int) -> None:
        """Set the wall clock forward or back."""
        self._skew_ns += milliseconds * 1_000_000

    def now(self) -> int:
        return self._clock.now()

    def _monotonic_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def _wall_ns(self) -> int:
        return EPOCH_NS + self._monotonic_ns() + self._skew_ns


class SimulatedWriter:
    """Commits after a while; what is not committed at a crash is gone."""

    def __init__(self, world_random: Random, log: KeptLog, faults: Faults) -> None:
        self._random = world_random
        self._log = log
        self._faults = faults
        self._queue: list[tuple[Batch, Callable[[LogError | None], None]]] = []
        self.is_dead = False

    def calm(self, faults: Faults) -> None:
        """Replace the faults."""
        self._faults = faults

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """The engine's timers, which die with it."""
        return asyncio.get_running_loop().call_later(seconds, lambda: None if self.is_dead else callback())

    def submit(self, batch: Batch, on_done: Callable[[LogError | None], None]) -> None:
        """Commit in order, each batch after a delay of its own."""
        if self.is_dead:
            return
        self._queue.append((batch, on_done))
        if len(self._queue) == 1:
            self._schedule()

    def _schedule(self) -> None:
        is_slow = self._random.random() < self._faults.slow_commit
        delay = self._random.uniform(0.02, 0.5) if is_slow else self._random.uniform(0.0002, 0.003)
        asyncio.get_running_loop().call_later(delay, self._commit)

    def _commit(self) -> None:
        if self.is_dead:
            return
        batch, on_done = self._queue[0]
        error: LogError | None = None
        if self._random.random() < self._faults.refused_append:
            error = LogFullError("simulated: the disk is full")
        else:
            try:
                self._log.append(batch)
            except LogError as refused:
                error = refused
        del self._queue[0]
        if self._queue:
            self._schedule()
        on_done(error)


class Connection:
    """A worker's session as the server sees it; the world decides what passes in either direction."""

    def __init__(
        self,
        server: "SimulatedServer",
        deliver: Callable[[bytes], None],
        on_end: Callable[[Rejection | None], None],
        worker: bytes,
    ) -> None:
        self._server = server
        self._desk = server.documents
        self._worker = worker
        self._engine = server.engine
        self._deliver = deliver
        self._on_end = on_end
        self._encoder = EffectEncoder(TERMS, 1, lambda _: "INTERNAL")
        self._session: SessionId | None = None

    def receive(self, message: bytes) -> None:
        """Take a SessionBatch from the worker."""
        engine = self._engine
        if engine is None or not self._is_alive:
            return
        if self._session is not None:
            commands = decode_batch(message, self._session).commands
            if self._desk is not None:
                commands = self._desk.references.check_results(message, commands, self._worker)
            engine.post(commands)
            return
        self._session = engine.open_session(self)
        opening = decode_opening(message, self._session)
        if isinstance(opening, Rejection):
            raise AssertionError(f"the simulated worker said something wrong: {opening}")
        if self._desk is not None:
            self._desk.references.note_resumed(opening.command)
        engine.post([opening.command, *opening.rest.commands])

    def end(self, reason: str) -> None:
        """The transport broke, and the server hears of it."""
        if self._engine is not None and self._is_alive and self._session is not None:
            self._engine.close_session(self._session, reason)

    @property
    def _is_alive(self) -> bool:
        """Whether the server process that the connection leads to still lives."""
        return self._server.engine is self._engine

    def deliver(self, effects: list[SessionEffect]) -> None:
        """Take the effects of a committed batch [SessionSink]."""
        if not self._is_alive:
            return
        blocks = self._encoder.encode(effects).blocks
        if self._desk is not None:
            self._desk.references.note_handed_out((block.data for block in blocks), effects)
        if blocks:
            self._deliver(join_blocks(blocks))
        for effect in effects:
            if isinstance(effect, EndSession):
                self._on_end(effect.rejection)


class SimulatedCrash(BaseException):
    """Unwinds whatever the engine was doing; the loop drops it, as a real SIGKILL drops the process."""


class SimulatedServer:
    """Starts and crashes engines over one log."""

    def __init__(
        self,
        random: Random,
        faults: Faults,
        on_crash: Callable[[], None],
        config: KernelConfig,
        memory: Bounds,
        retention_ms: int,
    ) -> None:
        self._random = random
        self._retention_ms = retention_ms
        self._retention: SimulatedRetention | None = None
        self._options = EngineOptions(memory=memory)
        self._config = config
        self._faults = faults
        self._on_crash = on_crash
        self._dead: list[tuple[Engine, DocumentDesk | None]] = []
        """Kept while the world lasts: the loop would report what such a one waits for if it were collected before."""
        self.log = KeptLog()
        self.engine: Engine | None = None
        self.clock: SimulatedClock | None = None
        self.fatal: BaseException | None = None
        self.crashes = 0
        self.blobs = MemoryBlobStore()
        """Large values; they survive as the log does."""
        self.documents: DocumentDesk | None = None
        self._writer: SimulatedWriter | None = None
        self._doomed_at: str | None = None

    def start(self) -> None:
        """Recover from the log and serve."""
        self.clock = SimulatedClock(asyncio.get_running_loop(), self.log.last_at)
        self._writer = SimulatedWriter(self._random, self.log, self._faults)
        self.engine = Engine(
            self.log,
            self._writer,
            self.clock,
            self._config,
            on_fatal=self._on_fatal,
            options=self._options,
            failpoint=self._pass_failpoint,
            call_later=self._writer.call_later,
        )
        self.engine.start()
        self.documents = DocumentDesk(
            self._random, self.blobs, self.log, self.engine, self.clock, self._writer.call_later
        )
        if self._retention_ms:
            self._retention = SimulatedRetention(
                self._random, self.log, self.engine, self.clock, self._writer.call_later, self._retention_ms
            )

    def crash(self) -> None:
        """kill -9: everything but the log is gone."""
        if self.engine is None or self._writer is None:
            return
        self.crashes += 1
        self._writer.is_dead = True
        if self._retention is not None:
            self._retention.die()
        # Nobody hears of what it was about to do; tasks of its own would outlive it here.
        dead, self.engine = self.engine, None
        dead.close()
        self._dead.append((dead, self.documents))
        self._on_crash()

    async def upload(self, data: bytes, session: bytes) -> None:
        """Upload a large value until that is confirmed."""
        await upload(self, self._random, data, session)

    def calm(self, faults: Faults) -> None:
        """Replace the faults, for good."""
        self._faults = faults
        self._doomed_at = None
        if self._writer is not None:
            self._writer.calm(faults)

    def crash_at(self, failpoint: str) -> None:
        """kill -9 at the next passage of that point."""
        self._doomed_at = failpoint

    def _pass_failpoint(self, name: str) -> None:
        if name == self._doomed_at:
            self._doomed_at = None
            self.crash()
            raise SimulatedCrash

    def _on_fatal(self, error: BaseException) -> None:
        self.fatal = error
