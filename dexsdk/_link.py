"""Keeps one worker session connected: the thread that reads, and the way out for everything that is sent.

The session machine decides; this module gives it the clock, the lock and the wire. Every use of the machine and every
send happen under one lock of the worker, so that frames leave in the order in which they were decided.
"""

import logging
import random
from collections.abc import Sequence
from threading import Event, Lock, Thread
from typing import Protocol

import grpc
import msgspec
from google.protobuf.message import DecodeError

from dexpb.v1 import frames
from dexsdk._backoff import Backoff
from dexsdk._clock import now_ms
from dexsdk._delivery import Delivery, DeliverySink, Ended, HandlerRunner
from dexsdk._server_channel import ServerChannel
from dexsdk._session import Session
from dexsdk._status import RemoteStatus, status_of_call
from dexsdk._transport import Connection
from dexsdk._wire import decode_batch, encode_batches

SESSION_METHOD = "/dexpb.v1.WorkerService/Session"

FAREWELL_S = 1.0
"""How long the server may take to end a session that was finished politely."""

logger = logging.getLogger("dexsdk.worker")


class LinkOwner(DeliverySink, Protocol):
    """The worker behind a link."""

    def on_progress(self) -> None:
        """Something changed that somebody may wait for: registrations, results, acknowledgements."""

    def abort(self, failure: Exception | None = None) -> None:
        """The link is broken beyond repair; `start` raises the failure."""

    def on_session_ended(self, status: RemoteStatus, *, was_welcome: bool) -> None:
        """A connection ended or could not be made; the link tries again unless it is closed."""


class SessionLink:
    """One session, connected again and again until it is closed."""

    def __init__(
        self,
        sessions: Sequence[Session],
        number: int,
        lock: Lock,
        channel: ServerChannel,
        runner: HandlerRunner,
        owner: LinkOwner,
    ) -> None:
        """Make the link of one of the worker's sessions."""
        self._session = sessions[number]
        self._siblings = sessions
        self._lock = lock
        self._channel = channel
        self._runner = runner
        self._owner = owner
        self._backoff = Backoff()
        self._closed = Event()
        self._is_outage_logged = False
        self._connection: Connection[frames.WorkerFrame] | None = None
        self._thread = Thread(target=self._run, name=f"dexsdk-session-{number}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def close(self) -> None:
        """Send what is queued, end the connection and make no other; returns when the thread is gone."""
        self._closed.set()
        with self._lock:
            connection = self._connection
        if connection is not None:
            connection.finish()
            self._thread.join(FAREWELL_S)
            connection.cancel()
        if self._thread.is_alive():
            self._thread.join(FAREWELL_S)

    def holds(self, delivery: Delivery) -> bool:
        """Whether the call is one of this session; the worker's lock is held."""
        return self._session.holds(delivery)

    def finish(self, ended: Sequence[Ended]) -> None:
        """Send results of handlers; the worker's lock is held."""
        self._send(self._session.finish_all(ended, now_ms()))

    def skip(self, delivery: Delivery) -> None:
        """Give back a call that was canceled before its handler started; the worker's lock is held."""
        self._send(self._session.skip(delivery, now_ms()))

    def decline(self, delivery: Delivery, reason: str) -> None:
        """Give back a call that cannot be run here; the worker's lock is held."""
        self._send(self._session.decline(delivery, reason, now_ms()))

    def fetch(self, question: frames.Fetch) -> None:
        """Ask for what a running call refers to; the worker's lock is held. Without a session it is asked later."""
        if self._session.is_open:
            self._send([question])

    def heartbeat(self, delivery: Delivery) -> None:
        """Send the newest heartbeat of a running call; the worker's lock is held."""
        self._send(self._session.heartbeat(delivery, now_ms()))

    def tick(self) -> None:
        """Do what is due."""
        with self._lock:
            orders = self._session.tick(now_ms())
            self._send(orders.send)
            self._leave_if_asked()
        for delivery in orders.abandoned:
            logger.warning("handler_abandoned %s: it lost its slot because it ignored its cancellation", delivery)

    def drain(self) -> None:
        """Take no more calls [DRAIN-1]."""
        with self._lock:
            self._send(self._session.drain(now_ms()))

    def cancel_running(self) -> None:
        """Ask all running handlers to stop [DRAIN-1]."""
        with self._lock:
            deliveries = self._session.cancel_running()
        for delivery in deliveries:
            self._runner.cancel(delivery)

    def _run(self) -> None:
        try:
            self._stay_connected()
        except Exception as error:  # noqa: BLE001 -- a worker without its reader must end loudly, not sit there
            self._owner.abort(error)

    def _stay_connected(self) -> None:
        while not self._closed.is_set():
            status = self._converse()
            with self._lock:
                self._connection = None
                was_welcome = self._session.is_open
                was_asked = self._session.is_to_be_left
                has_calls = not self._session.is_quiet
                self._session.disconnect()
            if not self._closed.is_set():
                self._log_end(status, was_welcome=was_welcome, was_asked=was_asked)
                self._owner.on_session_ended(status, was_welcome=was_welcome)
            self._closed.wait(self._backoff.next_delay_ms(random.random(), has_calls=has_calls) / 1000)

    def _log_end(self, status: RemoteStatus, *, was_welcome: bool, was_asked: bool) -> None:
        """Say it once per outage; the tries in between would fill the log. No outage if the server asked for it."""
        level = logging.WARNING if was_welcome or not self._is_outage_logged else logging.DEBUG
        if was_asked:
            level = logging.INFO
        self._is_outage_logged = True
        logger.log(level, "session_ended code=%s reason=%s details=%s", status.code, status.reason, status.message)

    def _converse(self) -> RemoteStatus:
        """Hold one connection from Hello to its end, and say how it ended [WIRE-9]."""
        try:
            connection = Connection(self._channel, SESSION_METHOD, self._encode)
        except (OSError, ValueError) as error:
            return RemoteStatus("UNAUTHENTICATED", f"the credential gives no token: {error}")
        with self._lock:
            connection.send([self._session.connect(self._siblings)])
            self._connection = connection
        if self._closed.is_set():
            connection.cancel()
        try:
            for message in connection.messages():
                self._receive(message)
        except grpc.RpcError as error:
            return status_of_call(error)
        except (msgspec.DecodeError, DecodeError) as error:
            connection.cancel()
            return RemoteStatus("INTERNAL", f"the server sent a batch that is none: {error}")
        return RemoteStatus("OK", "the server ended the session")

    def _receive(self, message: bytes) -> None:
        received = decode_batch(message)
        with self._lock:
            orders = self._session.receive(received, now_ms())
            self._send(orders.send)
            self._leave_if_asked()
        if orders.start:
            self._runner.start(self._owner, orders.start)
        for delivery in orders.cancel:
            self._runner.cancel(delivery)
        if orders.welcome is not None:
            self._backoff.reset()
            self._is_outage_logged = False
        for assign in orders.reserve_declines:
            logger.debug("step_declined_for_rpc_reserve flow_type=%s step=%s", assign.flow_type, assign.name)
        self._owner.on_progress()

    def _leave_if_asked(self) -> None:
        """End the connection that the server wants replaced, as soon as nothing is under way in it [DRAIN-3]."""
        if self._session.is_to_be_left and self._connection is not None:
            self._connection.finish()

    def _send(self, outgoing: Sequence[frames.WorkerFrame]) -> None:
        if self._connection is not None:
            self._connection.send(outgoing)

    def _encode(self, outgoing: Sequence[frames.WorkerFrame]) -> "Sequence[bytes]":
        return list(encode_batches(outgoing, self._session.frame_bytes_max))
