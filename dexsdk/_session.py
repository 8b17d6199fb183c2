"""The worker's side of a session as a state machine: frames and `now` in, orders out [WIRE-2..11].

Nothing here touches a socket, a clock or a thread; `_engine` owns those and serialises every call. The machine outlives
the connections that carry it:

    connect() -> Hello -> receive(Welcome) -> open ... disconnect() -> connect() -> ...

What must survive a connection is kept here: calls that still run, and results that the server has not acknowledged.
Both are presented again in the next Hello, and the results are sent again after its Welcome [WIRE-10]. Sending a result
twice is safe because the server refuses the second one by its token; losing one would leave the call to a redelivery.
All instants are milliseconds of one monotonic clock.
"""

from collections.abc import Sequence

import msgspec

from dexpb.v1 import frames
from dexsdk._delivery import CANCEL_DRAINING, Delivery, Ended, Orders, Result
from dexsdk._handler_pulse import HandlerPulse
from dexsdk._readiness import Readiness
from dexsdk._slots import Slots
from dexsdk._streams import StreamTable
from dexsdk._wire import FRAME_BYTES_MAX, Received, UndecodableAssign
from dexsdk._worker_identity import WorkerIdentity

SDK_NAME = "dexsdk-python"

ACCEPT_AFTER_MS = 1_000
"""A call that runs this long is reported as accepted; faster ones answer first. The server waits 5 s [DELIV-3]."""

PONG_EVERY_MS = 20_000
"""While a call runs the worker shows life this often, asked or not [WIRE-7]."""

FAREWELL_MS = 5_000
"""How long a worker that is done waits for the server's answer to its Goodbye."""

RELEASED_BY_FORCE = frozenset({frames.CANCEL_FLOW_CLOSED, frames.CANCEL_STEP_CANCELED})
"""Cancellations after whose grace a handler that goes on loses its slot [STOP-4]."""


class Session:
    """One session of a worker, over all its connections."""

    def __init__(
        self, identity: WorkerIdentity, slots: Slots, readiness: Readiness, idle_streams_per_queue: int
    ) -> None:
        self._identity = identity
        self._slots = slots
        self._streams = StreamTable(identity.queues, idle_streams_per_queue, readiness)
        self._names = {
            flow.flow_type: (frozenset(flow.step_types), frozenset(flow.rpc_names)) for flow in identity.flows
        }
        self._running: dict[frames.Token, Delivery] = {}
        self._unacknowledged: dict[frames.Token, Delivery] = {}
        self._presented: dict[int, str] = {}
        """Streams and queues named in the Hello that waits for its Welcome."""
        self._is_connected = False
        self._is_open = False
        self._is_resuming = False
        """Whether the batch that brought the Welcome is not yet over."""
        self._is_leaving = False
        self._is_draining = False
        self._farewell: int | None = None
        """The stream number whose StreamClosed answers the Goodbye; None before the Goodbye and after the answer."""
        self._farewell_until = 0
        self._showed_life_at = 0
        self.frame_bytes_max = FRAME_BYTES_MAX
        """The server's frame limit, as far as it is known."""
        self.ignored_frames = 0
        """Frames that made no sense when they came; counted, never fatal [WIRE-5]."""
        self.refused_results = 0
        """Results that the server did not want [DELIV-2]."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and every result is acknowledged."""
        return not self._running and not self._unacknowledged

    def is_dismissed(self, now: int) -> bool:
        """Whether the connection may be ended: quiet, and nothing that was assigned before the Goodbye is on its way.

        A call that came after the end could be neither run nor declined; it would be lost instead of offered elsewhere
        at once [DRAIN-2]. A server that does not answer is waited for only so long.
        """
        return self.is_quiet and (self._farewell is None or now >= self._farewell_until)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, welcome or not."""
        return self._is_connected

    @property
    def is_open(self) -> bool:
        """Whether the current connection got its Welcome."""
        return self._is_open

    @property
    def running(self) -> tuple[Delivery, ...]:
        """Calls whose handlers have not ended, oldest first."""
        return tuple(self._running.values())

    @property
    def is_to_be_left(self) -> bool:
        """Whether the server asked to reconnect and nothing holds us here any more [DRAIN-3]."""
        return self._is_leaving and self.is_quiet

    def hand_over(self) -> Sequence[Delivery]:
        """Give up all calls to another session of the worker."""
        deliveries = (*self._running.values(), *self._unacknowledged.values())
        self._running.clear()
        self._unacknowledged.clear()
        return deliveries

    def holds(self, delivery: Delivery) -> bool:
        """Whether the call runs here, or its result waits here for its acknowledgement."""
        token = delivery.assign.token
        return self._running.get(token) is delivery or self._unacknowledged.get(token) is delivery

    def connect(self, siblings: "Sequence[Session]" = ()) -> frames.Hello:
        """Begin a connection: the Hello presents all calls that the server may still wait for [WIRE-10].

        That includes the calls of siblings without a connection, which move here: to a server that has just started,
        a worker that is back without presenting a call has lost it, and it cannot know of the other sessions [WIRE-11].
        """
        for sibling in siblings:
            if not sibling.is_connected and sibling is not self:
                self._adopt(sibling.hand_over())
        self._is_connected = True
        for delivery in self._unacknowledged.values():
            # Its stream may serve another call by now, and a number stands for one presented call only.
            delivery.stream = self._streams.next_number()
        presented = [*self._running.values(), *self._unacknowledged.values()]
        self._presented = {delivery.stream: delivery.queue for delivery in presented}
        return frames.Hello(
            protocol_min=frames.PROTOCOL_MIN,
            protocol_max=frames.PROTOCOL_MAX,
            worker_id=self._identity.worker_id,
            incarnation=self._identity.incarnation,
            sdk_name=SDK_NAME,
            sdk_version=self._identity.sdk_version,
            max_concurrent_tasks=self._slots.limit,
            reserved_rpc_tasks=self._slots.limit - self._slots.step_limit,
            flows=self._identity.flows,
            running=tuple(
                frames.RunningCall(delivery.stream, delivery.queue, delivery.assign.token) for delivery in presented
            ),
            index_keys=self._identity.index_keys,
        )

    def disconnect(self) -> None:
        """The connection is gone, whatever ended it; handlers go on and their results wait for the next one."""
        self._streams.end()
        self._is_connected = False
        self._is_open = False
        self._is_resuming = False
        self._is_leaving = False
        self._farewell = None

    def receive(self, received: Sequence[Received], now: int) -> Orders:
        """Take a batch of frames from the server, in order."""
        orders = Orders()
        for frame in received:
            # The two that make up nearly all traffic come first, without a way through all others, and by their very
            # type: of a struct, `isinstance` costs a search for a hook whenever the answer is no.
            if type(frame) is frames.Assign:
                self._on_assign(frame, now, orders)
            elif type(frame) is frames.Ack:
                self._on_ack(frame, now)
            else:
                self._receive_other(frame, now, orders)
        if self._is_resuming:
            self._resume(now, orders)
        self._open_missing(now, orders.send)
        return orders

    def finish(self, delivery: Delivery, result: Result | None, now: int) -> list[frames.WorkerFrame]:
        """Take the result of one handler that ended; see `finish_all`."""
        return self.finish_all([(delivery, result)], now)

    def finish_all(self, ended: Sequence[Ended], now: int) -> list[frames.WorkerFrame]:
        """Take the results of handlers that ended; each is kept until the server acknowledges it.

        None gives no answer at all: the delivery is lost with the session and the call runs elsewhere [LOST-1]. The
        late result of a call that lost its slot by force is sent once, so that the history shows it [LOST-3]; its
        stream serves other calls by then, which the server tells apart by their tokens.
        """
        send: list[frames.WorkerFrame] = []
        for delivery, result in ended:
            if delivery.is_released:
                if result is not None and self._is_open:
                    send.append(result)
                continue
            token = delivery.assign.token
            del self._running[token]
            self._slots.release()
            if delivery.pulse is not None and self._is_open and not isinstance(result, frames.Output):
                # What the next attempt may want to know must be there before the end of this one [HB-3].
                self._send_heartbeat(delivery, delivery.pulse, now, send)
            if result is not None:
                delivery.result = result
                self._unacknowledged[token] = delivery
                if self._is_open:
                    self._send_result(delivery, result, now, send)
        self._open_missing(now, send)
        return send

    def heartbeat(self, delivery: Delivery, now: int) -> list[frames.WorkerFrame]:
        """Send the newest heartbeat of a running call; without a session it waits for the next Welcome."""
        send: list[frames.WorkerFrame] = []
        if self._is_open and delivery.pulse is not None and delivery.assign.token in self._running:
            self._send_heartbeat(delivery, delivery.pulse, now, send)
        return send

    def skip(self, delivery: Delivery, now: int) -> list[frames.WorkerFrame]:
        """Give back a call that was canceled before its handler started."""
        token = delivery.assign.token
        if delivery.cancel_reason != CANCEL_DRAINING:
            failure = frames.Failure("CancelledError", f"canceled before the handler started: {delivery.cancel_reason}")
            return self.finish(delivery, frames.Failed(delivery.stream, token, failure), now)
        return self.decline(delivery, frames.DECLINE_DRAINING, now)

    def decline(self, delivery: Delivery, reason: str, now: int) -> list[frames.WorkerFrame]:
        """Give back a call that was taken and turns out not to be runnable; no handler was started."""
        send = self.finish(delivery, None, now)
        if self._is_open:
            send.insert(0, frames.Decline(delivery.stream, delivery.assign.token, reason))
            self._streams.vacate(delivery.stream, now)
        return send

    def tick(self, now: int) -> Orders:
        """Do what is due: acceptances, a sign of life, streams, slots of handlers that ignore their cancellation."""
        orders = Orders()
        for delivery in self.running:
            if delivery.release_at is not None and now >= delivery.release_at:
                self._release_by_force(delivery, now, orders)
        if self._is_open:
            self._accept_slow_calls(now, orders)
            self._send_heartbeats(now, orders.send)
            self._show_life(now, orders)
            orders.send += self._streams.close_surplus(now)
            self._open_missing(now, orders.send)
        return orders

    def drain(self, now: int) -> list[frames.WorkerFrame]:
        """Take no more calls, on this connection and on all later ones [DRAIN-1, DRAIN-2]."""
        is_news = self._is_open and not self._is_draining
        self._is_draining = True
        return self._say_goodbye(now) if is_news else []

    def cancel_running(self) -> tuple[Delivery, ...]:
        """Mark all running calls as canceled by the drain, and give them [DRAIN-1]."""
        for delivery in self.running:
            delivery.cancel_reason = delivery.cancel_reason or CANCEL_DRAINING
        return self.running

    def _say_goodbye(self, now: int) -> list[frames.WorkerFrame]:
        # The server answers a CloseStream of any number, and in order: what it assigned before the Goodbye comes first.
        self._farewell = self._streams.next_number()
        self._farewell_until = now + FAREWELL_MS
        return [frames.Goodbye(), frames.CloseStream(self._farewell)]

    def _adopt(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.stream = self._streams.next_number()
            calls = self._running if delivery.result is None else self._unacknowledged
            calls[delivery.assign.token] = delivery

    def _receive_other(self, frame: Received, now: int, orders: Orders) -> None:
        match frame:
            case frames.StreamOpened(stream=stream):
                self._streams.on_opened(stream, now)
            case frames.Ping(nonce=nonce):
                orders.send.append(frames.Pong(nonce))
            case frames.Cancel():
                self._on_cancel(frame, now, orders)
            case frames.StreamClosed(stream=stream):
                if stream == self._farewell:
                    self._farewell = None
                self._streams.on_closed(stream)
            case frames.StreamRejected():
                self._streams.on_rejected(frame, now)
            case frames.Welcome():
                self._on_welcome(frame, now, orders)
            case frames.Fetched(token=token):
                self._on_fetched(token, frame)
            case frames.Reconnect():
                self._is_leaving = True
            case UndecodableAssign(stream=stream, token=token):
                orders.send.append(frames.Decline(stream, token, frames.DECLINE_UNDECODABLE))
            case _:
                self.ignored_frames += 1

    def _on_welcome(self, frame: frames.Welcome, now: int, orders: Orders) -> None:
        orders.welcome = frame
        self.frame_bytes_max = frame.max_frame_bytes
        self._is_open = True
        self._showed_life_at = now
        self._streams.begin(frame.max_streams, self._presented)
        self._is_resuming = True

    def _resume(self, now: int, orders: Orders) -> None:
        # After the whole batch that brought the Welcome: what it acknowledged need not be sent, and a result sent
        # twice would stand in the Flow's history as a refused one.
        self._is_resuming = False
        if self._is_draining:
            # Before the results: each frees a stream, which would get the next call at once.
            orders.send += self._say_goodbye(now)
        for delivery in self._running.values():
            orders.send += delivery.questions
            if delivery.pulse is not None:
                delivery.pulse.send_again()
                self._send_heartbeat(delivery, delivery.pulse, now, orders.send)
        for delivery in self._unacknowledged.values():
            self._send_kept_result(delivery, now, orders.send)
        if not self._is_draining:
            # Also with all slots busy: a queue without any stream would look unserved to the server.
            orders.send += self._streams.open_missing(now, self._slots.spare)

    def _on_ack(self, frame: frames.Ack, now: int) -> None:
        delivery = self._unacknowledged.pop(frame.token, None)
        if not frame.accepted:
            self.refused_results += 1
        if delivery is not None and self._is_resuming:
            self._streams.vacate(delivery.stream, now)

    def _on_assign(self, assign: frames.Assign, now: int, orders: Orders) -> None:
        reason = self._refusal(assign)
        if reason is None and not self._begin(assign, now, orders):
            reason = frames.DECLINE_NO_CAPACITY
        if reason is not None:
            orders.send.append(frames.Decline(assign.stream, assign.token, reason))

    def _refusal(self, assign: frames.Assign) -> str | None:
        """Say why the call cannot run here, whatever is idle."""
        if self._is_draining or self._is_leaving:
            return frames.DECLINE_DRAINING
        names = self._names.get(assign.flow_type)
        if names is None:
            return frames.DECLINE_UNKNOWN_FLOW
        is_rpc = assign.token.method == frames.METHOD_RPC
        if assign.name not in names[is_rpc]:
            return frames.DECLINE_UNKNOWN_RPC if is_rpc else frames.DECLINE_UNKNOWN_STEP
        return None

    def _begin(self, assign: frames.Assign, now: int, orders: Orders) -> bool:
        """Give the call a slot and its stream; without both it is not run, and the stream stays as it is."""
        token = assign.token
        if token in self._running:
            return False
        if not self._slots.can_take(is_rpc=token.method == frames.METHOD_RPC):
            if not self._slots.are_all_busy and self._streams.is_idle(assign.stream):
                self._slots.reserve_declines += 1
                self._streams.keep_reserve(assign.stream, now)
                orders.reserve_declines.append(assign)
            return False
        queue = self._streams.occupy(assign.stream)
        if queue is None:
            # The Assign crossed our CloseStream, or the server miscounts.
            return False
        delivery = self._running[token] = Delivery(assign, queue, assign.stream)
        self._slots.take()
        orders.start.append(delivery)
        return True

    def _on_fetched(self, token: frames.Token, part: frames.Fetched) -> None:
        delivery = self._running.get(token)
        if delivery is not None:
            delivery.on_fetched(part)

    def _on_cancel(self, frame: frames.Cancel, now: int, orders: Orders) -> None:
        delivery = self._running.get(frame.token)
        if delivery is None:
            settled = self._unacknowledged.pop(frame.token, None)
            if settled is not None and self._is_resuming:
                # Nobody wants the result, but its stream is busy until we answer on it.
                self._send_kept_result(settled, now, orders.send)
            return
        delivery.cancel_reason = frame.reason
        delivery.refuse_fetches()
        if frame.reason in RELEASED_BY_FORCE:
            delivery.release_at = now + frame.grace_ms
        orders.cancel.append(delivery)

    def _send_kept_result(self, delivery: Delivery, now: int, send: list[frames.WorkerFrame]) -> None:
        if delivery.result is None:
            raise AssertionError(f"{delivery} has no result to send")
        self._send_result(delivery, delivery.result, now, send)

    def _send_result(self, delivery: Delivery, result: Result, now: int, send: list[frames.WorkerFrame]) -> None:
        if result.stream != delivery.stream:
            result = delivery.result = msgspec.structs.replace(result, stream=delivery.stream)
        send.append(result)
        self._streams.vacate(delivery.stream, now)

    def _open_missing(self, now: int, send: list[frames.WorkerFrame]) -> None:
        # While all slots are busy nothing is opened, because its calls could only be declined.
        if self._is_open and not (self._is_draining or self._is_leaving or self._slots.are_all_busy):
            send += self._streams.open_missing(now, self._slots.spare)

    def _release_by_force(self, delivery: Delivery, now: int, orders: Orders) -> None:
        detail = "the handler went on after its cancellation and its grace"
        failure = frames.Failure("HandlerAbandonedError", detail, non_retryable=True)
        orders.abandoned.append(delivery)
        orders.send += self.finish(delivery, frames.Failed(delivery.stream, delivery.assign.token, failure), now)
        delivery.is_released = True

    def _accept_slow_calls(self, now: int, orders: Orders) -> None:
        for delivery in self._running.values():
            if (
                not delivery.is_accepted
                and delivery.started_at is not None
                and now - delivery.started_at >= ACCEPT_AFTER_MS
            ):
                delivery.is_accepted = True
                orders.send.append(frames.Accepted(delivery.stream, delivery.assign.token))

    def _send_heartbeats(self, now: int, send: list[frames.WorkerFrame]) -> None:
        for delivery in self._running.values():
            if delivery.pulse is not None and delivery.pulse.is_due(now):
                self._send_heartbeat(delivery, delivery.pulse, now, send)

    def _send_heartbeat(
        self, delivery: Delivery, pulse: HandlerPulse, now: int, send: list[frames.WorkerFrame]
    ) -> None:
        if pulse.is_unsent:
            delivery.is_accepted = True
            send.append(frames.Heartbeat(delivery.stream, delivery.assign.token, pulse.take(now)))

    def _show_life(self, now: int, orders: Orders) -> None:
        if not self._running:
            self._showed_life_at = now
        elif now - self._showed_life_at >= PONG_EVERY_MS:
            self._showed_life_at = now
            orders.send.append(frames.Pong(0))
