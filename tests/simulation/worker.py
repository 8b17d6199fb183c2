"""A simulated worker process: the SDK's own session machine on virtual time, with handlers of the workload."""

import asyncio
from dataclasses import dataclass
from functools import partial
from random import Random

from dexd.core.rejections import Code, Rejection
from dexpb.v1 import frames
from dexsdk._backoff import Backoff
from dexsdk._delivery import Delivery, Orders
from dexsdk._readiness import Readiness
from dexsdk._session import Session
from dexsdk._slots import Slots
from dexsdk._wire import decode_batch, encode_batches
from dexsdk._worker_identity import WorkerIdentity
from tests.simulation import answers, programs
from tests.simulation.document_programs import FLOW_TYPE, loaded, offloaded
from tests.simulation.faults import Faults
from tests.simulation.server import Connection, SimulatedServer

TICK_SECONDS = 0.5

STALL_PAUSE_SECONDS = 5.0
"""How long a worker goes on at least between two stalls."""


class Link:
    """One connection: bytes in both directions, in order, after a delay; may go dead in one or both directions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.is_up = True
        self.is_deaf = False
        """Nothing reaches the worker any more, and nobody is told."""
        self.is_mute = False
        """Nothing reaches the server any more, and nobody is told."""
        self._arrivals = {"up": 0.0, "down": 0.0}

    def at(self, direction: str) -> float:
        """When something sent now arrives; nothing overtakes what was sent before it."""
        loop = asyncio.get_running_loop()
        arrival = loop.time() + self._random.uniform(0.0002, 0.004)
        self._arrivals[direction] = max(arrival, self._arrivals[direction] + 1e-6)
        return self._arrivals[direction]


@dataclass
class Replacements:
    """Sessions that were replaced because of their age."""

    left: int = 0
    """By their workers, when they were asked to and nothing was under way."""
    cut_off: int = 0
    """By the server, while something took longer."""


class SimulatedWorker:
    """One process: one app worker ID, one incarnation, connections one after the other."""

    def __init__(
        self, number: int, random: Random, server: SimulatedServer, faults: Faults, replacements: Replacements
    ) -> None:
        self.number = number
        self._replacements = replacements
        self._random = random
        self._server = server
        self._faults = faults
        identity = WorkerIdentity(f"worker-{number}", f"incarnation-{number}", "0", programs.FLOWS)
        self._session = Session(identity, Slots(4, 1), Readiness(identity.queues), 1)
        self._link: Link | None = None
        self._connection: Connection | None = None
        self._backoff = Backoff()
        self._uploader = f"worker-{number}".encode()
        self._stalled_until = -STALL_PAUSE_SECONDS
        self.is_alive = True
        self.is_leaving = False

    async def live(self) -> None:
        """Connect again and again, and do what is due, until the process is killed."""
        while self.is_alive:
            if self._link is None and self._server.engine is not None and not self._is_stalled():
                self._connect()
            await asyncio.sleep(TICK_SECONDS if self._link is not None else self._delay())
            self._tick()

    def _tick(self) -> None:
        if self._link is not None and self.is_alive and not self._is_stalled():
            self._carry_out(self._session.tick(self._now_ms()))
            self._leave_if_asked()
            if self.is_leaving and self._session.is_dismissed(self._now_ms()):
                self.kill()
        elif self.is_leaving and self._link is None and self._session.is_quiet:
            self.is_alive = False

    def leave(self) -> None:
        """Drain, and end when nothing runs or is on its way here any more [DRAIN-1, DRAIN-2]."""
        self.is_leaving = True
        self._send(self._session.drain(self._now_ms()))

    def vanish(self) -> None:
        """The machine is gone, and the server is not told."""
        self.is_alive = False
        self._lose_link()

    def kill(self) -> None:
        """kill -9: the kernel closes its sockets, so the server hears of it."""
        self.is_alive = False
        self.reset()

    def reset(self) -> None:
        """The connection breaks for both sides."""
        link, connection = self._link, self._connection
        if link is None or connection is None:
            return
        self._lose_link()
        asyncio.get_running_loop().call_at(link.at("up"), connection.end, "reset")

    def go_mute(self) -> None:
        """What the worker sends is lost from now on, and nobody is told; the worker gives up after a while."""
        if self._link is not None:
            self._link.is_mute = True
            asyncio.get_running_loop().call_later(self._random.uniform(15, 45), self._give_up, self._link)

    def go_deaf(self) -> None:
        """What the server sends is lost from now on, and nobody is told; the worker gives up after a while."""
        if self._link is not None:
            self._link.is_deaf = True
            asyncio.get_running_loop().call_later(self._random.uniform(15, 45), self._give_up, self._link)

    def stall(self, seconds: float) -> None:
        """Stop for a while, as under SIGSTOP: what arrives meanwhile waits, and a lost session is not replaced.

        Not before it has gone on for a while: with a lone worker that never does, no client would ever get anywhere.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._stalled_until + STALL_PAUSE_SECONDS:
            self._stalled_until = now + seconds

    def calm(self, faults: Faults) -> None:
        """Replace the faults, for good."""
        self._faults = faults

    def _is_stalled(self) -> bool:
        return asyncio.get_running_loop().time() < self._stalled_until

    def _give_up(self, link: Link) -> None:
        if link is not self._link:
            return
        if link.is_mute:
            # Neither does the server learn that the worker has given up.
            self._lose_link()
        else:
            self.reset()

    def _delay(self) -> float:
        has_calls = not self._session.is_quiet
        return self._backoff.next_delay_ms(self._random.random(), has_calls=has_calls) / 1000

    def _connect(self) -> None:
        link = self._link = Link(self._random)
        self._connection = Connection(
            self._server, lambda data: self._arrive(link, data), partial(self._ended, link), self._uploader
        )
        self._send([self._session.connect()])

    def _ended(self, link: Link, rejection: Rejection | None) -> None:
        """The server ended the session."""
        if rejection is not None and rejection.code is Code.SESSION_EXPIRED:
            self._replacements.cut_off += 1
        if link is self._link and not link.is_deaf:
            self._lose_link()

    def _lose_link(self) -> None:
        if self._link is not None:
            self._link.is_up = False
        self._link = self._connection = None
        self._session.disconnect()

    def _arrive(self, link: Link, data: bytes) -> None:
        if link.is_up and not link.is_deaf:
            asyncio.get_running_loop().call_at(link.at("down"), self._receive, link, data)

    def _receive(self, link: Link, data: bytes) -> None:
        if not link.is_up or link.is_deaf or link is not self._link or not self.is_alive:
            return
        if self._is_stalled():
            asyncio.get_running_loop().call_at(self._stalled_until, self._receive, link, data)
            return
        self._backoff.reset()
        self._carry_out(self._session.receive(decode_batch(data), self._now_ms()))
        self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        """End the session that the server wants replaced, as soon as nothing is under way in it [DRAIN-3]."""
        if self._session.is_to_be_left and self._link is not None:
            self._replacements.left += 1
            self.reset()

    def _carry_out(self, orders: Orders) -> None:
        self._send(orders.send)
        for delivery in orders.start:
            self._start(delivery)

    def _start(self, delivery: Delivery) -> None:
        delivery.started_at = self._now_ms()
        is_slow = self._random.random() < self._faults.slow_handler
        seconds = self._random.uniform(1.0, 12.0) if is_slow else self._random.uniform(0.0005, 0.02)
        asyncio.get_running_loop().call_later(seconds, self._finish, delivery)

    def _finish(self, delivery: Delivery) -> None:
        if not self.is_alive:
            return
        if self._is_stalled():
            asyncio.get_running_loop().call_at(self._stalled_until, self._finish, delivery)
            return
        if self._random.random() < self._faults.handler_failure:
            result = answers.fail(delivery.assign, "simulated")
        elif delivery.assign.flow_type == FLOW_TYPE:
            self._finish_large(delivery)
            return
        else:
            result = programs.run(delivery.assign)
        self._send(self._session.finish(delivery, result, self._now_ms()))

    def _finish_large(self, delivery: Delivery) -> None:
        """Upload what is large of the result before it is sent, again and again until that is confirmed."""
        assign = delivery.assign
        if self._server.log.newest_of_chain(assign.token.run_id) is None:
            # The worker was away until the execution had ended elsewhere and left the log; its values may have too.
            self._send_large(delivery, answers.fail(assign, "the values are gone"))
            return
        result, large = offloaded(programs.run(loaded(assign, self._server.blobs)))
        if large:
            uploading = asyncio.gather(*(self._server.upload(data, self._uploader) for data in large.values()))
            uploading.add_done_callback(lambda _: self._send_large(delivery, result))
        else:
            self._send_large(delivery, result)

    def _send_large(self, delivery: Delivery, result: answers.Result) -> None:
        if self.is_alive:
            self._send(self._session.finish(delivery, result, self._now_ms()))

    def _send(self, outgoing: list[frames.WorkerFrame]) -> None:
        link, connection = self._link, self._connection
        if not outgoing or link is None or connection is None or link.is_mute:
            return
        loop = asyncio.get_running_loop()
        for data in encode_batches(outgoing, self._session.frame_bytes_max):
            loop.call_at(link.at("up"), self._reach_server, link, connection, data)
            is_repeatable = not isinstance(outgoing[0], frames.Hello)
            if is_repeatable and self._random.random() < self._faults.duplicate_result:
                loop.call_at(link.at("up"), self._reach_server, link, connection, data)

    @staticmethod
    def _reach_server(link: Link, connection: Connection, data: bytes) -> None:
        if link.is_up and not link.is_mute:
            connection.receive(data)

    @staticmethod
    def _now_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)
