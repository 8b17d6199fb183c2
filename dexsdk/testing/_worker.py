"""The Worker of a test environment: the SDK's session and handlers, without a connection and on the test's loop.

Handlers run one after the other, in the order in which the server hands them over, whenever the environment says so.
One that takes longer than `HANDLER_PATIENCE_S`, or that itself calls the server, lets the next one start beside it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from dexpb.v1 import frames
from dexsdk._blobs import Blobs
from dexsdk._call import Call
from dexsdk._clock import now_ms
from dexsdk._delivery import Delivery, Ended, Orders
from dexsdk._readiness import Readiness
from dexsdk._registry import Registry
from dexsdk._runners import LoopRunner
from dexsdk._session import Session
from dexsdk._slots import Slots
from dexsdk._wire import decode_batch, encode_batches
from dexsdk._worker_identity import WorkerIdentity, sdk_version
from dexsdk.testing._activity import Activity
from dexsdk.testing._blobs import InProcessTransfer
from dexsdk.testing._server import InProcessServer, ServerSession

TICK_S: Final = 0.25
WORKER_ID: Final = "test-worker"
TASKS_MAX: Final = 100
HANDLER_PATIENCE_S: Final = 0.5
"""How long, in real time, everybody waits for a handler. Handlers in tests are quick; one that is not is probably meant
to wait for something that the test does next."""


class FailuresInARow:
    """How often handlers failed since the last one that did not, and how the last of them failed."""

    def __init__(self) -> None:
        self.count = 0
        self._last = ""

    def __str__(self) -> str:
        return f"{self.count} attempts failed in a row, the last one was {self._last}"

    def note(self, assign: frames.Assign, result: frames.Output | frames.Failed | None) -> None:
        """A handler has ended; one that asked for a later attempt did what it was meant to."""
        if isinstance(result, frames.Failed) and result.failure.retry_after_ms is None:
            self.count += 1
            token, failure = assign.token, result.failure
            self._last = (
                f"{token.call} of Flow {assign.flow_id!r}, attempt {token.attempt}: "
                f"{failure.error_type}: {failure.detail}"
            )
        else:
            self.clear()

    def clear(self) -> None:
        """Begin to count anew."""
        self.count = 0


class InProcessWorker:
    """One process as the server sees it: one incarnation, connected whenever the server is up."""

    def __init__(self, registry: Registry, server: InProcessServer, activity: Activity, incarnation: int) -> None:
        """Connect, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._server = server
        self._activity = activity
        flows = tuple(flow.descriptor() for flow in registry.flows)
        identity = WorkerIdentity(WORKER_ID, f"incarnation-{incarnation}", sdk_version(), flows, registry.index_keys)
        self._session = Session(identity, Slots(TASKS_MAX, 1), Readiness(identity.queues), 1)
        self._runner = LoopRunner(registry, Blobs(InProcessTransfer(server, is_worker=True), None))
        self._runner.bind(self._loop)
        self._connection: ServerSession | None = None
        self._arrived: deque[tuple[ServerSession | None, bytes]] = deque()
        self._waiting: deque[Delivery] = deque()
        self._running: dict[Delivery, asyncio.TimerHandle] = {}
        self._slow: set[Delivery] = set()
        """Those of the running that nobody waits for."""
        self._calling: dict[Delivery, int] = {}
        """How many calls of the client each of the running waits in."""
        self._lost_next = False
        self._lost: Delivery | None = None
        self._is_alive = True
        self.failures = FailuresInARow()
        self._ticking: asyncio.Handle = self._loop.call_soon(self._tick)
        self.connect()

    @property
    def is_busy(self) -> bool:
        """Whether a handler is to run, or runs and does not wait for the server."""
        return bool(self._waiting) or len(self._calling) < len(self._running)

    @property
    def is_worth_waiting_for(self) -> bool:
        """Whether a handler runs that will soon have ended."""
        return len(self._slow) < len(self._running) + len(self._waiting)

    def connect(self) -> None:
        """Open a session and present what still runs; no effect while the server is down."""
        connection = self._server.open_session(self._arrive, self._on_ended)
        if connection is not None:
            self._connection = connection
            self._send([self._session.connect()])

    def kill(self) -> None:
        """Vanish without a Goodbye: nothing that still runs is ever answered."""
        self._is_alive = False
        self._break_off("the worker was killed")
        self.close()

    def lose_next(self) -> None:
        """Run the next handler that starts to its end and lose its result, so that its call is handed over again."""
        self._lost_next = True

    def close(self) -> None:
        """Run nothing any more; handlers that do are asked to stop."""
        self._is_alive = False
        self._waiting.clear()
        self._ticking.cancel()
        for delivery, timer in list(self._running.items()):
            timer.cancel()
            delivery.cancel_reason = delivery.cancel_reason or frames.CANCEL_STALE
            self._runner.cancel(delivery)
        self._running.clear()
        self._slow.clear()
        self._calling.clear()
        self._runner.close()

    # ---- what handlers answer; see DeliverySink ----

    def finish(self, ended: Sequence[Ended]) -> None:
        """Handlers ended."""
        for delivery, result in ended:
            self._loop.call_soon_threadsafe(self.failures.note, delivery.assign, result)
            self._loop.call_soon_threadsafe(self._end, delivery, partial(self._session.finish, delivery, result))

    def heartbeat(self, delivery: Delivery) -> None:
        """The handler has a heartbeat to send."""
        self._loop.call_soon_threadsafe(self._send_heartbeat, delivery)

    def fetch(self, delivery: Delivery, question: frames.Fetch) -> None:
        """The handler reads what its call only refers to; a coroutine holds the loop up for it.

        Raises:
            RuntimeError: there is no answer now, and a coroutine cannot wait for one.
        """
        if self._thread_id != threading.get_ident():
            self._loop.call_soon_threadsafe(self._send_question, question)
            return
        self._send_question(question)
        self._server.settle_now()
        self._receive()
        if question in delivery.questions:
            raise RuntimeError(f"{delivery} cannot read {question.key!r} while the server is down")

    def skip(self, delivery: Delivery) -> None:
        """The call was canceled before its handler started."""
        self._loop.call_soon_threadsafe(self._end, delivery, partial(self._session.skip, delivery))

    def decline(self, delivery: Delivery, reason: str) -> None:
        """The call cannot be run here."""
        self._loop.call_soon_threadsafe(self._end, delivery, partial(self._session.decline, delivery, reason))

    def _end(self, delivery: Delivery, settle: Callable[[int], Sequence[frames.WorkerFrame]]) -> None:
        self._activity.note()
        timer = self._running.pop(delivery, None)
        if timer is None or not self._is_alive:
            return
        timer.cancel()
        self._slow.discard(delivery)
        self._calling.pop(delivery, None)
        if delivery is self._lost:
            self._lost = None
            self._session.finish(delivery, None, now_ms())
            self._break_off("the connection was lost with a result")
            self.connect()
        else:
            self._send(settle(now_ms()))

    def _send_heartbeat(self, delivery: Delivery) -> None:
        self._activity.note()
        if self._is_alive:
            self._send(self._session.heartbeat(delivery, now_ms()))

    def _send_question(self, question: frames.Fetch) -> None:
        self._activity.note()
        if self._is_alive:
            self._send([question])

    # ---- the session ----

    def _arrive(self, message: bytes) -> None:
        self._activity.note()
        self._arrived.append((self._connection, message))
        # The server is letting a batch out; it hears of what follows afterwards.
        self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        self._activity.note()
        while self._arrived:
            connection, message = self._arrived.popleft()
            if connection is self._connection:
                self._carry_out(self._session.receive(decode_batch(message), now_ms()))

    def _carry_out(self, orders: Orders) -> None:
        self._send(orders.send)
        self._waiting.extend(orders.start)
        for delivery in orders.cancel:
            if delivery in self._running:
                self._runner.cancel(delivery)

    def _send(self, outgoing: Sequence[frames.WorkerFrame]) -> None:
        if self._connection is not None and outgoing:
            for message in encode_batches(outgoing, self._session.frame_bytes_max):
                self._connection.receive(message)

    def _on_ended(self, _: str) -> None:
        """The server ended the session, or crashed; what runs goes on and is presented to the next one [WIRE-10]."""
        self._activity.note()
        self._connection = None
        self._session.disconnect()

    def _break_off(self, reason: str) -> None:
        connection, self._connection = self._connection, None
        self._session.disconnect()
        if connection is not None:
            connection.break_off(reason)

    # ---- handlers ----

    def start_next(self) -> bool:
        """Start the handler of the oldest call, unless one runs that will soon have ended; gives whether it did."""
        if not self._waiting or len(self._slow) < len(self._running):
            return False
        delivery = self._waiting.popleft()
        self._running[delivery] = self._patience_with(delivery)
        if self._lost_next:
            self._lost_next, self._lost = False, delivery
        self._runner.start(self, [delivery])
        return True

    @contextmanager
    def calling(self, call: Call) -> Iterator[None]:
        """Say that the call's handler waits for the server meanwhile: what it waits for may be another handler."""
        delivery = next((running for running in self._running if running.assign is call.assign), None)
        if delivery is None:  # Its Worker was killed under it.
            yield
            return
        self._calling[delivery] = self._calling.get(delivery, 0) + 1
        self._slow.add(delivery)
        self._activity.note()
        try:
            yield
        finally:
            self._end_call(delivery)

    def _end_call(self, delivery: Delivery) -> None:
        self._activity.note()
        if delivery not in self._calling:  # The handler has ended before its call.
            return
        self._calling[delivery] -= 1
        if not self._calling[delivery]:
            del self._calling[delivery]
            self._slow.discard(delivery)
            self._running[delivery].cancel()
            self._running[delivery] = self._patience_with(delivery)

    def _patience_with(self, delivery: Delivery) -> asyncio.TimerHandle:
        return self._loop.call_later(HANDLER_PATIENCE_S, self._lose_patience, delivery)

    def _lose_patience(self, delivery: Delivery) -> None:
        self._slow.add(delivery)
        self._activity.note()
        self._tick()

    def _tick(self) -> None:
        """Do what the session owes while handlers take long: coalesced heartbeats, slots taken away by force."""
        if self._slow:
            self._send(self._session.tick(now_ms()).send)
            self._ticking.cancel()
            self._ticking = self._loop.call_later(TICK_S, self._tick)
