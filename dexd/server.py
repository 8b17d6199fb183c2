"""Composition root: what the server is made of, in which order it starts and stops, and what signals do [DRAIN-4].

Start: lock the data directory, open the log, recover, listen, serve, say so. Stop: say NOT_SERVING, take no new calls,
ask workers to reconnect, answer everybody who waits, commit, checkpoint, release the lock.
"""

import asyncio
import gc
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

import msgspec
import structlog
import uvloop

from dexd.api import admin_service, blob_service, flow_service, worker_service
from dexd.api.admin_service import AdminService
from dexd.api.blob_service import BlobLimits, BlobService
from dexd.api.flow_methods import FlowLimits, FlowMethods
from dexd.api.flow_service import FlowService
from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.grpc_server import Health, create_grpc_server, listen
from dexd.api.open_calls import OpenCalls
from dexd.api.references import References
from dexd.api.worker_service import SessionLimits, WorkerService
from dexd.codec.outbound import SessionTerms
from dexd.config import ServerConfig, StoreSection
from dexd.core.rejections import Code, Rejection
from dexd.engine.archive import DirectoryArchive
from dexd.engine.engine import Engine, EngineOptions
from dexd.engine.orphans import OrphanSweep
from dexd.engine.parking_lot import Bounds
from dexd.engine.ports import Failpoint
from dexd.engine.retention import Retention
from dexd.engine.system import ServerClock, mint_request_id
from dexd.errors import ListenError
from dexd.log.directory import log_path
from dexd.log.errors import LogError
from dexd.observe.metrics import ServerFacts, create_exposition
from dexd.observe.metrics_listener import MetricsListener
from dexd.partition import Partition, open_partition
from dexd.settings import ListenAddress

SWITCH_INTERVAL_S: Final = 0.0001
"""How long a thread keeps the interpreter lock while another one wants it. sqlite3 gives it up around every statement;
at the default of 5 ms a busy loop stretches a commit of 0.5 ms to 17 ms, at 0.1 ms to 1.2 ms."""

GC_THRESHOLDS: Final = (50_000, 50, 50)
"""Hardly anything here is garbage in cycles, and a full collection walks all live runs: at the defaults those make the
slowest requests several times as slow."""

CALLS_SHARE: Final = 0.6
"""Part of api.shutdown_grace in which open calls may end by themselves; the rest is for the last commit and the
checkpoint."""

RETRY_AFTER_MS: Final = 1_000
"""When a client of a stopping server may try again; a restart takes about as long."""


class ServerReady(msgspec.Struct, frozen=True):
    """The first line on stdout [SURF-11]; names and order are relied on."""

    event: str
    address: str
    data_dir: str
    pid: int
    recovered_runs: int
    startup_ms: int


def run_server(config: ServerConfig, *, announce: Callable[[str], None], failpoint: Failpoint | None = None) -> None:
    """Serve in this process until SIGINT, SIGTERM or a failure.

    Args:
        config: What is served where.
        announce: Takes the ready line, once.
        failpoint: For tests, see `dexd.engine.ports`.

    Raises:
        Exception: what ended the server; `dexd.errors.exit_code_of` tells what that means.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, announce, failpoint))


async def _serve(config: ServerConfig, announce: Callable[[str], None], failpoint: Failpoint | None) -> None:
    signaled = _next_signal()
    server = create_server(config, failpoint=failpoint)
    ready = await server.start()
    announce(msgspec.json.encode(ready).decode())
    await asyncio.wait((signaled, server.failed), return_when=asyncio.FIRST_COMPLETED)
    if server.failed.done():
        await server.abandon()
        raise server.failed.result()
    await server.stop(signaled.result())


def _next_signal() -> asyncio.Future[str]:
    """The name of the first signal that asks to stop; a second one ends the process at once, as by default."""
    loop = asyncio.get_running_loop()
    signaled: asyncio.Future[str] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        signaled.set_result(number.name)
        for handled in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(handled)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return signaled


def create_server(config: ServerConfig, *, failpoint: Failpoint | None = None) -> "Server":
    """Lock, open, recover and bind, on the running event loop; nothing is answered before `Server.start`.

    Raises:
        DataDirectoryInUseError, LogError: the log cannot be opened.
        ListenError: the address cannot be bound.
    """
    begun_s = asyncio.get_running_loop().time()
    partition = open_partition(config.store, config.blob_directory)
    try:
        return Server(config, partition, failpoint, begun_s)
    except BaseException:
        partition.close()
        raise


def _engine_options(store: StoreSection) -> EngineOptions:
    memory = Bounds(runs_max=store.resident_runs_max, bytes_max=store.resident_bytes_max)
    return EngineOptions(store.commit_batch_max, store.snapshot_every_events, memory=memory)


class Server:
    """One partition behind one port."""

    def __init__(self, config: ServerConfig, partition: Partition, failpoint: Failpoint | None, begun_s: float) -> None:
        """Recover the partition and bind the port; `begun_s` is when the start began, by the loop's clock."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """What ended the server from inside: storage that failed, or a broken invariant [ARCH-4, ARCH-7]."""
        self._config = config
        self._partition = partition
        self._begun_s = begun_s
        self._log = structlog.get_logger()
        self._clock = ServerClock(partition.log.last_at)
        self._engine = Engine(
            partition.log,
            partition.writer,
            self._clock,
            config.kernel(),
            on_fatal=self._fail,
            options=_engine_options(config.store),
            pages=partition.pages,
            failpoint=failpoint,
        )
        self._retention = self._create_retention()
        self._orphans = OrphanSweep(partition.blobs, partition.log, self._engine, self._clock)
        self._flow_types = FlowTypeDirectory()
        self._open_calls = OpenCalls()
        self._references = References(partition.blobs, partition.log, self._clock)
        self._blob_service = self._create_blob_service()
        self._flow_service = self._create_flow_service()
        self._grpc = create_grpc_server(
            config.api.max_message_bytes,
            (
                self._flow_service.handler(),
                self._flow_service.schedule_handler(),
                self._create_worker_service().handler(),
                self._create_admin_service().handler(),
                self._blob_service.handler(),
            ),
        )
        self._health = Health(
            self._grpc,
            (
                flow_service.SERVICE_NAME,
                worker_service.SERVICE_NAME,
                admin_service.SERVICE_NAME,
                blob_service.SERVICE_NAME,
            ),
        )
        self._metrics: MetricsListener | None = None
        self.address: ListenAddress = listen(self._grpc, config.api.listen)
        """Where it listens, with the port that port 0 became."""

    async def start(self) -> ServerReady:
        """Answer calls and fire timers."""
        await self._partition.pages.open()
        await self._grpc.start()
        self._engine.start()
        self._retention.start()
        self._orphans.start()
        await self._health.set_serving()
        # What recovery built lives as long as its runs; the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        ready = ServerReady(
            event="server_ready",
            address=str(self.address),
            data_dir=str(self._config.store.data_dir),
            pid=os.getpid(),
            recovered_runs=self._engine.health.open_runs,
            startup_ms=max(1, round((asyncio.get_running_loop().time() - self._begun_s) * 1_000)),
        )
        try:
            await self._start_metrics(ready.startup_ms)
        except ListenError:
            await self.abandon()
            raise
        self._log.info(**msgspec.structs.asdict(ready))
        if not self.address.is_loopback:
            # Neither tokens nor TLS exist yet, so whoever reaches the port may do everything [SEC-1].
            self._log.warning("listening_without_protection", address=ready.address)
        return ready

    async def stop(self, reason: str) -> None:
        """Stop within api.shutdown_grace; nothing acknowledged is lost and nobody waits in vain [DRAIN-4]."""
        self._log.info("server_stopping", reason=reason)
        grace_s = self._config.api.shutdown_grace_ms / 1_000
        try:
            async with asyncio.timeout(grace_s):
                await self._drain(reason, calls_s=grace_s * CALLS_SHARE)
        except TimeoutError:
            self._log.error("shutdown_grace_exceeded", grace_ms=self._config.api.shutdown_grace_ms)
        self._log.info("server_stopped")

    async def abandon(self) -> None:
        """Stop at once after a failure: the log, as far as it is durable, is the truth [ARCH-4]."""
        await self._stop_metrics()
        await self._retention.stop()
        await self._orphans.stop()
        await self._grpc.stop(None)
        self._engine.close()
        self._blob_service.close()
        try:
            await self._partition.pages.close()
            self._partition.close()
        except (LogError, sqlite3.Error) as error:
            # The failure that ended the server is the one to report.
            self._log.error("close_failed", reason=str(error))

    async def _drain(self, reason: str, *, calls_s: float) -> None:
        await self._health.set_not_serving()
        # From here on the transport refuses new calls; open ones have this long to end by themselves.
        closing = asyncio.create_task(self._grpc.stop(calls_s), name="server_grpc_stop")
        self._flow_service.end_sessions(
            Rejection(Code.SHUTTING_DOWN, f"the server is stopping: {reason}", {}, RETRY_AFTER_MS)
        )
        await self._retention.stop()
        await self._orphans.stop()
        await self._engine.stop(reason)
        ended = asyncio.create_task(self._open_calls.ended(), name="server_calls_ended")
        await asyncio.wait((closing, ended), return_when=asyncio.FIRST_COMPLETED)
        # What is open now are calls of others, as a watch of the health service, which never ends by itself.
        await self._grpc.stop(None)
        await asyncio.wait((closing, ended))
        await self._stop_metrics()
        self._engine.close()
        self._blob_service.close()
        await self._partition.pages.close()
        await asyncio.to_thread(self._partition.close)

    async def _start_metrics(self, startup_ms: int) -> None:
        if self._config.metrics.listen is None:
            return
        facts = ServerFacts(version("dexd"), startup_ms, self._clock.now(), log_path(self._config.store.data_dir))
        times = self._flow_service.request_times
        render = create_exposition(self._engine, self._clock, facts, self._retention.status, times)
        self._metrics = MetricsListener(render)
        address = await self._metrics.start(self._config.metrics.listen)
        self._log.info("metrics_listening", address=str(address))

    async def _stop_metrics(self) -> None:
        if self._metrics is not None:
            await self._metrics.stop()

    def _create_retention(self) -> Retention:
        log, directory = self._partition.log, self._config.store.archive_dir
        archive = None
        if directory is not None:
            archive = DirectoryArchive(
                directory, log, self._partition.blobs, release=version("dexd"), now=self._clock.now
            )
        return Retention(self._engine, self._partition.pages, self._clock, self._config.retention(), archive=archive)

    def _create_flow_service(self) -> FlowService:
        config = self._config
        limits = FlowLimits(config.api.max_message_bytes, config.api.max_wait_ms, config.flow.rpc_timeout_ms)
        methods = FlowMethods(self._engine, self._flow_types, self._clock, self._references, limits)
        return FlowService(
            methods, self._engine.reads, self._open_calls, session_buffer_bytes=config.matching.session_buffer_bytes
        )

    def _create_worker_service(self) -> WorkerService:
        matching = self._config.matching
        terms = SessionTerms(
            server_id=mint_request_id(),
            ping_interval_ms=matching.ping_interval_ms,
            max_streams=matching.max_concurrent_tasks_cap,
            max_frame_bytes=self._config.api.max_message_bytes,
        )
        limits = SessionLimits(matching.session_buffer_bytes, matching.pong_timeout_ms)
        return WorkerService(self._engine, self._flow_types, self._open_calls, self._references, terms, limits)

    def _create_blob_service(self) -> BlobService:
        blob = self._config.blob
        limits = BlobLimits(blob.threshold_bytes, blob.max_bytes)
        return BlobService(self._partition.blobs, self._engine.note_upload, self._open_calls, self._clock, limits)

    def _create_admin_service(self) -> AdminService:
        return AdminService(
            self._engine,
            self._clock,
            self._retention.status,
            hostname=socket.gethostname(),
            version=version("dexd"),
        )

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
