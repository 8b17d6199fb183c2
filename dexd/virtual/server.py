"""The whole server of a test environment: calls of clients, sessions of workers, a clock, and a switch that kills it.

Everything runs on one event loop and nothing goes through a socket. What a crash leaves is what a disk would: the log.
Polls are held in real time, because they belong to the client and not to the Flow [TEST-2].
"""

import asyncio
import hashlib
import socket
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import msgspec
from google.rpc.status_pb2 import Status

from dexd.api.flow_methods import FlowLimits, FlowMethods
from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.references import References
from dexd.api.status import grpc_code, status_of
from dexd.blobs.memory_store import MemoryBlobStore
from dexd.codec.flow_queries import to_watch_query
from dexd.codec.flow_replies import from_entry
from dexd.config import ServerConfig
from dexd.core.rejections import Rejection
from dexd.engine.engine import Engine
from dexd.engine.system import SeededMint
from dexd.log.errors import LogError
from dexd.log.event_log import Batch, UploadRow
from dexd.log.memory_log import MemoryLog
from dexd.virtual.clock import VirtualClock
from dexd.virtual.worker_session import NEVER_MS, WORKER, VirtualSession
from dexpb.v1 import admin_service_pb2 as admin_pb
from dexpb.v1 import flow_service_pb2 as pb

OnAnswer: TypeAlias = Callable[[bytes, int, bytes], None]
"""Takes body, gRPC status code and google.rpc.Status; code 0 says that the body is the answer."""

CLIENT: Final = b"test-client"
"""Who uploads and refers, of the two that there are [BLOB-3]."""

UNAVAILABLE: Final = 14
GONE: Final = Status(code=UNAVAILABLE, message="the server crashed").SerializeToString()


class _Writer:
    """Appends at once and tells it in the next turn of the loop, as the thread of a server would."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._untold: deque[Callable[[LogError | None], None]] = deque()
        self.is_dead = False

    def submit(self, batch: Batch, on_done: Callable[[LogError | None], None]) -> None:
        if not self.is_dead:
            self._log.append(batch)
            self._untold.append(on_done)
            asyncio.get_running_loop().call_soon(self.tell)

    def tell(self) -> None:
        """Tell of all appends that nobody heard of."""
        while self._untold and not self.is_dead:
            self._untold.popleft()(None)


class _Life:
    """What dies in a crash."""

    def __init__(
        self,
        log: MemoryLog,
        blobs: MemoryBlobStore,
        clock: VirtualClock,
        mint: SeededMint,
        on_fatal: Callable[[Any], None],
    ) -> None:
        config = ServerConfig()
        self.writer = _Writer(log)
        self.flow_types = FlowTypeDirectory()
        kernel = msgspec.structs.replace(
            config.kernel(),
            accept_timeout_ms=NEVER_MS,
            ping_interval_ms=NEVER_MS,
            pong_timeout_ms=NEVER_MS,
            session_max_age_ms=0,
        )
        self.engine = Engine(log, self.writer, clock, kernel, on_fatal=on_fatal, call_later=clock.call_later)
        limits = FlowLimits(config.api.max_message_bytes, NEVER_MS, config.flow.rpc_timeout_ms)
        self.references = References(blobs, log, clock)
        self.methods = FlowMethods(
            self.engine,
            self.flow_types,
            clock,
            self.references,
            limits,
            mint=mint.mint,
            mint_request_id=mint.request_id,
        )
        self.sessions: list[VirtualSession] = []
        self.watches: dict[asyncio.Task[None], OnAnswer] = {}


class _Call:
    """A call of a client that is not answered yet."""

    __slots__ = ("abandon", "on_answer", "timer")

    def __init__(self, on_answer: OnAnswer) -> None:
        self.on_answer = on_answer
        self.abandon: Callable[[], None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class VirtualServer:
    """One server, from its start to its end, across its crashes. Everything happens on the running event loop."""

    def __init__(self, start_at: int, seed: int) -> None:
        """Serve from an instant on, in milliseconds since the epoch."""
        self.failure: BaseException | None = None
        """Why the engine ended by itself: a bug of the server [ARCH-7]."""
        self._start_at = start_at
        self._log = MemoryLog()
        self._blobs = MemoryBlobStore()
        self._clock = VirtualClock(start_at)
        self._mint = SeededMint(seed)
        self._calls: dict[int, _Call] = {}
        self._last_call = 0
        self._life: _Life | None = None
        self.recover()

    # ---- life ----

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._life is not None

    def crash(self) -> None:
        """End at once, as by SIGKILL: clients and workers lose their connections, and only the log is left."""
        life, self._life = self._life, None
        if life is None:
            return
        life.writer.is_dead = True
        self._clock.forget_all()
        calls, self._calls = self._calls, {}
        for session in life.sessions:
            session.lose_server()
        for watch, on_item in life.watches.items():
            watch.cancel()
            on_item(b"", UNAVAILABLE, GONE)
        life.engine.close()
        for call in calls.values():
            _stop_timer(call)
            call.on_answer(b"", UNAVAILABLE, GONE)

    def recover(self) -> None:
        """Read the log and serve; what became due meanwhile happens now. No effect on a server that is up."""
        if self._life is None:
            self._life = _Life(self._log, self._blobs, self._clock, self._mint, self._on_fatal)
            self._life.engine.start()

    def _on_fatal(self, error: BaseException) -> None:
        self.failure = error

    # ---- time ----

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._clock.now()

    @property
    def next_deadline(self) -> int | None:
        """When something is due next, if anything is. Due already means within the current turns of the loop."""
        at = None if self._life is None else self._life.engine.next_deadline
        # What is never to happen has a deadline too.
        return at if at is not None and at < self._start_at + NEVER_MS else None

    def turn_to(self, at: int) -> None:
        """Turn the clock; while the server is down nothing becomes of it."""
        self._clock.turn_to(at)

    async def settled(self) -> None:
        """Return when everything submitted so far is decided, committed and let out."""
        if self._life is not None:
            await self._life.engine.settled()

    def settle_now(self) -> None:
        """Do what `settled` waits for, while the loop stands still because a handler on it blocks."""
        life = self._life
        if life is not None:
            life.engine.decide_now()
            life.writer.tell()

    # ---- clients ----

    def begin(self, method: str, body: bytes, on_answer: OnAnswer) -> Callable[[], None]:
        """Begin a unary call of FlowService; gives what withdraws it. It is answered at most once."""
        if self._life is None:
            on_answer(b"", UNAVAILABLE, GONE)
            return _nothing
        self._last_call += 1
        number, call = self._last_call, _Call(on_answer)
        self._calls[number] = call
        self._hold(number, call, method, body)
        return lambda: self._withdraw(number)

    def _hold(self, number: int, call: _Call, method: str, body: bytes) -> None:
        """Ask the engine; a poll waits there for ever, and is asked once more when its real time is over."""
        request = _poll_of(method, body)
        if request is not None and request.wait_ms > 0:
            seconds = request.wait_ms / 1_000
            request.wait_ms = 0
            last_look = request.SerializeToString()
            request.wait_ms = NEVER_MS
            body = request.SerializeToString()
            call.timer = asyncio.get_running_loop().call_later(seconds, self._look_again, number, method, last_look)
        self._ask(number, call, method, body)

    def _look_again(self, number: int, method: str, body: bytes) -> None:
        call = self._calls.get(number)
        if call is not None:
            if call.abandon is not None:
                call.abandon()
            self._ask(number, call, method, body)

    def _ask(self, number: int, call: _Call, method: str, body: bytes) -> None:
        assert self._life is not None, "no call is open while the server is down"
        call.abandon = self._life.methods.begin(method, body, lambda answer: self._answer(number, answer), CLIENT)

    def _answer(self, number: int, answer: bytes | Rejection) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        _stop_timer(call)
        if isinstance(answer, Rejection):
            call.on_answer(b"", grpc_code(answer), status_of(answer).SerializeToString())
        else:
            call.on_answer(answer, 0, b"")

    def _withdraw(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is not None:
            _stop_timer(call)
            if call.abandon is not None:
                call.abandon()

    def watch(self, body: bytes, on_item: OnAnswer) -> Callable[[], None]:
        """Follow a history; an item with a code is the last one, code 0 with an empty body ends it well.

        Returns:
            What ends the watch, after which no item comes any more.
        """
        life = self._life
        if life is None:
            on_item(b"", UNAVAILABLE, GONE)
            return _nothing
        watch = asyncio.get_running_loop().create_task(_watch(life, body, on_item), name="virtual_watch")
        life.watches[watch] = on_item
        watch.add_done_callback(lambda done: life.watches.pop(done, None))
        return lambda: (watch.cancel(), None)[1]

    async def check_health(self) -> bytes | None:
        """Answer AdminService.CheckHealth; None while the server is down."""
        life = self._life
        if life is None:
            return None
        commit_ms = await life.engine.check_commit()
        if isinstance(commit_ms, Rejection):
            return None
        health = life.engine.health
        return admin_pb.CheckHealthReply(
            condition=health.condition,
            hostname=socket.gethostname(),
            commit_ms=commit_ms,
            now=self.now(),
            open_runs=health.open_runs,
            connected_workers=health.connected_workers,
            version=version("dexd"),
        ).SerializeToString()

    # ---- large values ----

    @property
    def blob_threshold_bytes(self) -> int:
        """Values of more bytes are uploaded."""
        return ServerConfig().blob.threshold_bytes

    @property
    def blob_bytes_max(self) -> int:
        """Largest value that is taken."""
        return ServerConfig().blob.max_bytes

    def upload(self, data: bytes, *, is_worker: bool) -> None:
        """Keep a large value, and that the worker or client has it; works while the server is down, as its disk does.

        Call it on the loop.
        """
        digest = hashlib.sha256(data).digest()
        self._blobs.put(digest, data, self.now())
        row = UploadRow(WORKER if is_worker else CLIENT, digest, self.now())
        self._log.append(Batch(self._log.last_seq, (), uploads=(row,)))

    def download(self, digest: bytes) -> bytes | None:
        """Give a large value, from any thread; None if there is none of that SHA-256."""
        size = self._blobs.size_of(digest)
        return None if size is None else self._blobs.read(digest, 0, size)

    # ---- workers ----

    def open_session(self, deliver: Callable[[bytes], None], on_ended: Callable[[str], None]) -> VirtualSession | None:
        """Connect a worker; None while the server is down.

        Args:
            deliver: Takes each SessionBatch of the server.
            on_ended: Hears, with a reason, that the server ended the session or crashed.
        """
        life = self._life
        if life is None:
            return None
        session = VirtualSession(life.engine, life.flow_types, life.references, deliver, on_ended)
        life.sessions.append(session)
        return session


async def _watch(life: _Life, body: bytes, on_item: OnAnswer) -> None:
    request = life.methods.decode(pb.WatchHistoryRequest, body)
    query = request if isinstance(request, Rejection) else to_watch_query(request)
    if isinstance(query, Rejection):
        on_item(b"", grpc_code(query), status_of(query).SerializeToString())
        return
    async for entry in life.engine.reads.watch_history(query):
        if isinstance(entry, Rejection):
            on_item(b"", grpc_code(entry), status_of(entry).SerializeToString())
            return
        on_item(from_entry(entry).SerializeToString(), 0, b"")
    on_item(b"", 0, b"")


def _poll_of(method: str, body: bytes) -> Any:
    """The request, if the method is one that waits; all of those say in `wait_ms` how long."""
    request_type = getattr(pb, f"{method}Request", None)
    if request_type is None or "wait_ms" not in request_type.DESCRIPTOR.fields_by_name:
        return None
    return request_type.FromString(body)


def _stop_timer(call: _Call) -> None:
    if call.timer is not None:
        call.timer.cancel()


def _nothing() -> None:
    """Withdraws a call that is answered already."""
