"""What Worker and AsyncWorker share: sessions, readiness, and the life of a worker from start to stop.

Threads of a worker, all daemons: one supervisor, one reader per session, gRPC's own, and one per running sync handler.
User code runs in none of the first three, so that a handler that blocks costs the worker neither Pongs nor its session.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import Protocol

from dexpb.v1 import frames
from dexsdk._announcement import Announcement
from dexsdk._blobs import Blobs
from dexsdk._clock import now_ms
from dexsdk._delivery import Delivery, Ended, HandlerRunner
from dexsdk._drain import Drain, DrainStage
from dexsdk._durations import to_duration_ms
from dexsdk._link import SessionLink
from dexsdk._readiness import PullRegistrationState, Readiness
from dexsdk._server_channel import ServerChannel
from dexsdk._session import Session
from dexsdk._slots import Slots
from dexsdk._status import PERMANENT_CODES, RemoteStatus
from dexsdk._worker_identity import WorkerIdentity
from dexsdk.connection import PullWorkerOptions, WorkerOptions

TICK_S = 0.25
"""How often the supervisor looks for what is due; the finest deadline it serves is a second."""

SUPERSEDED = "WORKER_ID_SUPERSEDED"
FATAL_AT_START = frozenset(
    {
        "PROTOCOL_MISMATCH",
        "INVALID_WORKER_ID",
        "INDEX_TYPE_CONFLICT",
        "MAX_CONCURRENT_TASKS_EXCEEDED",
        "MAX_FLOW_TYPES_EXCEEDED",
    }
)
"""Refusals of the first Hello that only another configuration can cure: `start` raises them [QUEUE-5]."""

logger = logging.getLogger("dexsdk.worker")


class SupervisedRunner(HandlerRunner, Protocol):
    """A runner whose health the supervisor watches."""

    def check(self, now: int) -> None:
        """Look for user code that blocks the runner.

        Raises:
            RuntimeError: the runner can run nothing any more.
        """

    def close(self) -> None:
        """Release threads; handlers that still run are left behind."""


class WorkerEngine:
    """A worker without its handlers: it serves from `start` until `ended`, once in its life."""

    def __init__(
        self,
        flows: tuple[frames.FlowDescriptor, ...],
        options: WorkerOptions,
        runner: SupervisedRunner,
        open_channel: Callable[[], ServerChannel],
        blobs: Blobs,
        index_keys: tuple[frames.IndexKey, ...] = (),
    ) -> None:
        """Resolve the options.

        Args:
            flows: What is served.
            options: How much to take on.
            runner: Runs the handlers.
            open_channel: Opens the connection.
            blobs: The large values that handlers read and write, whose transfers end with the worker.
            index_keys: Keys of search that the Flows name.

        Raises:
            ValueError: the reserve does not fit the task limit [RES-1].
        """
        self._open_channel = open_channel
        self._blobs = blobs
        self._pull = options.pull or PullWorkerOptions()
        limit, reserve = self._pull.resolved_capacity(os.cpu_count() or 1)
        self._runner = runner
        self._slots = Slots(limit, reserve)
        identity = WorkerIdentity.of_process(self._pull.app_worker_id, flows, index_keys)
        self._readiness = Readiness(identity.queues)
        self._sessions = tuple(
            Session(identity, self._slots, self._readiness, self._pull.idle_streams_per_queue)
            for _ in range(self._pull.sessions)
        )
        self._links: tuple[SessionLink, ...] = ()
        self._lock = Lock()
        """Guards the sessions and what they share."""
        self._drain = Drain(to_duration_ms(self._pull.stop_drain_timeout, "stop_drain_timeout"))
        self._acted_on = DrainStage.SERVING
        self._wake = Event()
        self._registered = Announcement()
        self._ended = Announcement()
        self._is_started = False
        self._was_welcome = False
        self._last_end: RemoteStatus | None = None
        """How the last connection ended, or why there was none."""
        self._failure: Exception | None = None

    @property
    def failure(self) -> Exception | None:
        """Why the worker ended by itself; None after a stop."""
        return self._failure

    @property
    def registration_state(self) -> PullRegistrationState:
        """How the queues stand now [READY-4]."""
        with self._lock:
            return self._readiness.state

    def describe_registration(self) -> str:
        """Say which queues were never registered, and what may be the reason."""
        with self._lock:
            queues = ", ".join(map(repr, self._readiness.unregistered))
        if not self._is_started:
            why = "the worker was not started"
        elif self._last_end is None:
            why = "the server has not answered yet"
        else:
            why = f"the last connection ended with {self._last_end.code}: {self._last_end.message}"
        return f"not registered yet: queues {queues}; {why}"

    @property
    def reserve_declines(self) -> int:
        """Steps declined only because of the RPC reserve [RES-6]."""
        return self._slots.reserve_declines

    def start(self) -> None:
        """Begin to serve, and return.

        Raises:
            RuntimeError: the worker was started or stopped before.
        """
        with self._lock:
            if self._is_started or self._ended.is_over:
                raise RuntimeError("a worker can be started once, and not after it was stopped")
            self._is_started = True
        if self._slots.limit == 1 and self._pull.reserved_rpc_tasks is None:
            logger.warning(
                "rpcs_may_wait_behind_steps max_concurrent_tasks=1: allow at least 2 tasks, or set reserved_rpc_tasks"
            )
        Thread(target=self._supervise, name="dexsdk-supervisor", daemon=True).start()

    def stop(self) -> None:
        """Begin to drain, and return [DRAIN-1]; may be repeated."""
        # Before the drain begins to count: a call that came in between would be neither declined nor waited for.
        for link in self._links:
            link.drain()
        with self._lock:
            self._drain.begin(now_ms())
            is_started = self._is_started
        self._wake.set()
        if not is_started:
            self._announce_end()

    def abort(self, failure: Exception | None = None) -> None:
        """Begin to drain without a period in which handlers may finish, and return.

        Args:
            failure: What `start` is to raise; the first one counts.
        """
        with self._lock:
            self._failure = self._failure or failure
            self._drain.hurry(now_ms())
        self._wake.set()

    def ended(self) -> "Future[None]":
        """Give a future that ends when nothing of the worker is left."""
        return self._ended.waiter()

    def registered(self) -> "Future[None]":
        """Give a future that ends when all queues have been registered, or raises why they cannot be [READY-1..3]."""
        waiter = self._registered.waiter()
        self._settle_registration()
        return waiter

    def on_progress(self) -> None:
        """See LinkOwner."""
        if not self._registered.is_over or self._pull.stop_on_permanent_stream_rejection:
            self._settle_registration()
        if self._drain.stage is not DrainStage.SERVING:
            self._wake.set()

    def finish(self, ended: Sequence[Ended]) -> None:
        """See DeliverySink."""
        with self._lock:
            if len(self._links) == 1:
                self._links[0].finish(ended)
            else:
                for delivery, result in ended:
                    self._link_of(delivery).finish([(delivery, result)])
        self.on_progress()

    def heartbeat(self, delivery: Delivery) -> None:
        """See DeliverySink."""
        with self._lock:
            self._link_of(delivery).heartbeat(delivery)

    def fetch(self, delivery: Delivery, question: frames.Fetch) -> None:
        """See DeliverySink."""
        with self._lock:
            self._link_of(delivery).fetch(question)

    def skip(self, delivery: Delivery) -> None:
        """See DeliverySink."""
        with self._lock:
            self._link_of(delivery).skip(delivery)
        self.on_progress()

    def decline(self, delivery: Delivery, reason: str) -> None:
        """See DeliverySink."""
        with self._lock:
            self._link_of(delivery).decline(delivery, reason)
        self.on_progress()

    def on_session_ended(self, status: RemoteStatus, *, was_welcome: bool) -> None:
        """See LinkOwner."""
        self._was_welcome |= was_welcome
        self._last_end = status
        if status.reason == SUPERSEDED or (not self._was_welcome and status.reason in FATAL_AT_START):
            self.abort(status.to_error("Worker.start"))
        elif status.code in PERMANENT_CODES:
            with self._lock:
                self._readiness.reject_all(status.code, status.message)
        self.on_progress()

    def _link_of(self, delivery: Delivery) -> SessionLink:
        """Find the link whose session holds the call now; calls move when sessions break [WIRE-10]."""
        if len(self._links) > 1:
            for link in self._links:
                if link.holds(delivery):
                    return link
        # There is one only, or the call lost its slot by force and its late result may go out anywhere [LOST-3].
        return self._links[0]

    def _settle_registration(self) -> None:
        with self._lock:
            was_ready, failure = self._readiness.was_ready, self._readiness.failure
        if was_ready:
            self._registered.make()
        elif failure is not None:
            self._registered.fail_waiters(failure)
        if failure is not None and self._pull.stop_on_permanent_stream_rejection:
            with self._lock:
                self._failure = self._failure or failure
                self._drain.begin(now_ms())
            self._wake.set()

    def _supervise(self) -> None:
        channel: ServerChannel | None = None
        try:
            channel = self._open_channel()
            self._links = tuple(
                SessionLink(self._sessions, number, self._lock, channel, self._runner, self)
                for number in range(len(self._sessions))
            )
            for link in self._links:
                link.start()
            while self._advance() is not DrainStage.OVER:
                self._wake.wait(TICK_S)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 -- whatever it is, start() raises it
            self._failure = self._failure or error
        finally:
            self._close(channel)

    def _advance(self) -> DrainStage:
        for link in self._links:
            link.tick()
        self._runner.check(now_ms())
        now = now_ms()
        with self._lock:
            is_running = any(session.running for session in self._sessions)
            is_dismissed = all(session.is_dismissed(now) for session in self._sessions)
            stage = self._drain.advance(now, is_running=is_running, is_dismissed=is_dismissed)
        if stage is not self._acted_on:
            self._acted_on = stage
            self._act_on(stage)
        return stage

    def _act_on(self, stage: DrainStage) -> None:
        for link in self._links:
            link.drain()
            if stage is DrainStage.CANCELING:
                link.cancel_running()

    def _close(self, channel: ServerChannel | None) -> None:
        for link in self._links:
            link.close()
        for session in self._sessions:
            for delivery in session.running:
                logger.error("handler_abandoned %s: it ignored its cancellation for the drain timeout", delivery)
        if channel is not None:
            channel.close()
        self._blobs.close()
        self._runner.close()
        self._announce_end()

    def _announce_end(self) -> None:
        self._registered.make(
            self._failure or RuntimeError("the worker was stopped before all its queues were registered")
        )
        self._ended.make()
