"""Requests of simulated clients: repeated until they are answered, and what was acknowledged is written down."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, TypeAlias

import msgspec

from dexd.codec.batch_requests import BatchQuery, BatchView
from dexd.codec.step_plans import plan_of_descriptor
from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.core.commands import InvokeRpc, PublishMessages, SetAttribute, StartFlow, StopFlow
from dexd.core.forks.selectors import Selector
from dexd.core.ids import CallerId, FlowId, JobId, RequestId, RunId
from dexd.core.jobs.commands import CancelJob
from dexd.core.outcome import PublishAccepted, Reply, StartFlowAccepted, StopFlowResult, TimeTravelAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules.commands import ScheduleCommand
from dexd.core.terms import FlowTerms
from dexd.core.values import StepPlan, StopType
from dexd.engine.engine import Engine
from dexd.engine.ports import OnAnswer
from dexpb.v1.blobs import make_reference
from tests.simulation import programs
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.document_programs import FLOW_TYPE, THRESHOLD_BYTES
from tests.simulation.faults import Faults
from tests.simulation.removed_jobs import removed_job
from tests.simulation.server import SimulatedCrash, SimulatedServer

Request: TypeAlias = StartFlow | PublishMessages | SetAttribute | StopFlow | TimeTravelQuery | ScheduleCommand
JobRequest: TypeAlias = BatchQuery | CancelJob | JobId
"""A job to begin, to cancel, or to look at."""

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode

PATIENCE_SECONDS = 8.0
"""How long a client waits for a reply before it repeats the request."""

TRY_LATER = frozenset({Code.DISK_FULL, Code.STORAGE_UNAVAILABLE, Code.MAILBOX_FULL, Code.SHUTTING_DOWN})


class Requests:
    """Sends requests for one client."""

    def __init__(
        self, number: int, random: Random, server: SimulatedServer, faults: Faults, acknowledged: Acknowledged
    ) -> None:
        self._number = number
        self._random = random
        self._server = server
        self.faults = faults
        """What befalls requests from now on."""
        self.acknowledged = acknowledged
        self._count = 0
        self._session = f"client-{number}".encode()
        self._uploaded: dict[bytes, bytes] = {}
        """Large values by what stands for them."""

    async def start(self, flow_id: str, flow_type: str, content: object, terms: FlowTerms | None = None) -> None:
        """Start a Flow, which must be accepted."""
        request_id = self._new_request()
        encoded = await self._outgoing(value(content), is_large=flow_type == FLOW_TYPE)
        plan = start_plan(flow_type, encoded)

        def make() -> StartFlow:
            run_id = RunId(f"run-{self._number}-{self._random.getrandbits(64):016x}")
            seed = self._random.getrandbits(32)
            return StartFlow(
                FlowId(flow_id), flow_type, run_id, seed, request_id, _digest(flow_type, encoded), plan, terms=terms
            )

        reply = await self._insist(make)
        if not isinstance(reply, StartFlowAccepted):
            raise AssertionError(f"start of {flow_id} was refused: {reply}")
        self.acknowledged.starts[flow_id] = reply.run_id

    async def publish(self, flow_id: str, channel: str, item: str) -> tuple[str, ...] | None:
        """Publish one message; gives its ID, or None when it was refused; a closed Flow takes nothing."""
        request_id = self._new_request()
        values = (await self._outgoing(value(item), is_large=channel == "pages"),)
        digest = _digest(channel, *values)
        reply = await self._insist(lambda: PublishMessages(FlowId(flow_id), None, channel, values, request_id, digest))
        if (
            isinstance(reply, Rejection)
            and reply.code is not Code.FLOW_NOT_ACTIVE
            and not self._has_left(flow_id, reply)
        ):
            raise AssertionError(f"publish to {flow_id} was refused: {reply}")
        return reply.message_ids if isinstance(reply, PublishAccepted) else None

    async def set_attribute(self, flow_id: str, key: str, content: str) -> None:
        """Set an Attribute of an active Flow."""
        request_id = self._new_request()
        encoded = value(content)
        digest = _digest(key, encoded)
        reply = await self._insist(lambda: SetAttribute(FlowId(flow_id), None, key, encoded, request_id, digest))
        if isinstance(reply, Rejection):
            raise AssertionError(f"set_attribute on {flow_id} was refused: {reply}")
        self.acknowledged.attributes.setdefault(flow_id, []).append(encoded)

    async def stop(self, flow_id: str, *, is_there: bool = True) -> None:
        """Stop a Flow in any way, as soon as there is one."""
        request_id = self._new_request()
        kind = self._random.choice(list(StopType))
        digest = _digest(str(kind))

        def make() -> StopFlow:
            return StopFlow(FlowId(flow_id), None, kind, "simulated", request_id, digest)

        reply = await self._insist(make)
        while not is_there and isinstance(reply, Rejection) and reply.code is Code.FLOW_NOT_FOUND:
            await asyncio.sleep(self._random.uniform(0.1, 2))
            reply = await self._insist(make)
        if not isinstance(reply, StopFlowResult):
            raise AssertionError(f"stop of {flow_id} was refused: {reply}")
        self.acknowledged.stops[flow_id] = reply.status

    def now(self) -> int:
        """Server time, or that of the last commit while the server is away."""
        clock = self._server.clock
        return self._server.log.last_at if clock is None else clock.now()

    async def travel(self, flow_id: str, selector: Selector) -> None:
        """Send the latest execution back to a point, if there is such a point."""
        request_id = self._new_request()
        digest = _digest(repr(selector))

        def make() -> TimeTravelQuery:
            run_id = RunId(f"fork-{self._number}-{self._random.getrandbits(64):016x}")
            return TimeTravelQuery(FlowId(flow_id), run_id, selector, "simulated", False, request_id, digest)

        reply = await self._insist(make)
        if isinstance(reply, TimeTravelAccepted):
            self.acknowledged.forks.setdefault(flow_id, []).append(reply.run_id)
        elif not isinstance(reply, Rejection) or not (
            reply.code is Code.TIME_TRAVEL_POINT_NOT_FOUND or self._has_left(flow_id, reply)
        ):
            raise AssertionError(f"time travel of {flow_id} was refused: {reply}")

    async def invoke(
        self,
        flow_id: str,
        name: str,
        encoded: bytes,
        locks: tuple[str, ...] | None = (),
        *,
        is_transactional: bool = False,
    ) -> bytes | Rejection | None:
        """Call until there is an answer that repeating the call would not change, or give up after a while.

        With `locks` None the server asks a worker for the terms of the RPC.
        """
        request_id = self._new_request()
        for _ in range(20):
            engine = self._server.engine
            if engine is None:
                await asyncio.sleep(1)
                continue
            clock = self._server.clock
            now = 0 if clock is None else clock.now()

            def make(caller: CallerId, now: int = now) -> InvokeRpc:
                digest = _digest(name, encoded)
                return InvokeRpc(
                    caller,
                    FlowId(flow_id),
                    None,
                    name,
                    encoded,
                    request_id,
                    digest,
                    10_000,
                    now + 15_000,
                    locks or (),
                    is_transactional and locks is not None,
                    is_resolving=locks is None,
                )

            reply = asyncio.get_running_loop().create_future()
            abandon = engine.invoke(
                make, lambda answer, reply=reply: None if reply.done() else reply.set_result(answer)
            )
            try:
                async with asyncio.timeout(20):
                    answer: bytes | Rejection = await reply
            except TimeoutError:
                if self._server.engine is engine:
                    # A server that was killed hears of nothing, or it would decide on what it last knew.
                    abandon()
                continue
            if isinstance(answer, bytes) or answer.code is Code.CHANNEL_MESSAGE_NOT_FOUND:
                return answer
            await asyncio.sleep(0.5)
        return None

    async def drive(self, make: Callable[[RequestId], ScheduleCommand]) -> None:
        """Command something about a schedule, which must be accepted."""
        request_id = self._new_request()
        reply = await self._insist(lambda: make(request_id))
        if isinstance(reply, Rejection):
            raise AssertionError(f"{make(request_id)} was refused: {reply}")

    async def job(self, make: Callable[[RequestId], JobRequest]) -> BatchView:
        """Begin, cancel or look at a job, which must be accepted; what is told of one that is closed is final."""
        request_id = self._new_request()
        told = await self._insist(lambda: make(request_id))
        if isinstance(told, Rejection) and told.code is Code.BATCH_NOT_FOUND:
            # In a world where everything takes long, a job may leave the log before its client looks again.
            told = removed_job(self._server.log, told.fields["batch_id"]) or told
        if not isinstance(told, BatchView):
            raise AssertionError(f"{make(request_id)} was refused: {told}")
        known = self.acknowledged.jobs.get(told.job_id)
        if known is not None and known.closed_at and known != told:
            raise AssertionError(f"{known} is closed, but {told} [BATCH-1]")
        self.acknowledged.jobs[told.job_id] = told
        return told

    def _has_left(self, flow_id: str, refused: Rejection) -> bool:
        """Whether it was refused because the client was so unlucky that the Flow's retention was over before."""
        return refused.code is Code.FLOW_NOT_FOUND and not self._server.log.run_rows(flow_id)

    async def _insist(self, make: Callable[[], Request | JobRequest]) -> Reply | BatchView | Rejection:
        """Send the request until it is answered; the request ID makes the repeats harmless [GEN-8]."""
        while True:
            reply = await self._try(make())
            if isinstance(reply, Rejection) and reply.code is Code.BLOB_NOT_UPLOADED:
                for data in self._uploaded.values():
                    await self._server.upload(data, self._session)
                continue
            if reply is not None and not (isinstance(reply, Rejection) and reply.code in TRY_LATER):
                return reply
            await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def _outgoing(self, data: bytes, *, is_large: bool) -> bytes:
        """Upload a value that is too large, and give what stands for it."""
        if not is_large or len(data) <= THRESHOLD_BYTES:
            return data
        reference = make_reference(data)
        self._uploaded[reference] = data
        await self._server.upload(data, self._session)
        return reference

    async def _try(self, command: Request | JobRequest) -> Reply | BatchView | Rejection | None:
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if self._server.fatal is not None:
            raise AssertionError(f"the engine stopped: {self._server.fatal!r}") from self._server.fatal
        engine = self._server.engine
        lost = self._random.random() < self.faults.lost_reply
        if engine is None or (lost and self._random.random() < 0.5):
            return None
        if isinstance(command, StartFlow | PublishMessages) and self._server.documents is not None:
            refused = self._server.documents.references.refuse_request(_encode(command), self._session)
            if refused is not None:
                return refused
        if self._random.random() < self.faults.duplicate_request:
            _submit(engine, command, lambda _: None)
        reply = asyncio.get_running_loop().create_future()

        def take(answer: Reply | BatchView | Rejection) -> None:
            if self._server.engine is engine and not reply.done():
                reply.set_result(answer)

        _submit(engine, command, take)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                answered: Reply | BatchView | Rejection = await reply
        except TimeoutError:
            return None
        return None if lost else answered

    def _new_request(self) -> RequestId:
        self._count += 1
        return RequestId(f"client-{self._number}-{self._count}")


def _submit(engine: Engine, request: Request | JobRequest, take: OnAnswer[Any]) -> None:
    # Where that hands over a batch at once, it may be the last thing that the server does.
    with suppress(SimulatedCrash):
        _call(engine, request, take)


def _call(engine: Engine, request: Request | JobRequest, take: OnAnswer[Any]) -> None:
    match request:
        case TimeTravelQuery():
            engine.time_travels.begin(request, take)
        case BatchQuery():
            engine.batch_jobs.create(request, take)
        case CancelJob():
            engine.batch_jobs.cancel(request, take)
        case str():
            engine.batch_jobs.describe(request, take)
        case _:
            engine.request(request, take)


def start_plan(flow_type: str, encoded: bytes) -> StepPlan:
    """The start Step of a Flow type of the workload."""
    descriptor = programs.START_STEPS[flow_type]
    if descriptor is None:
        raise AssertionError(f"{flow_type} has no start Step")
    plan = plan_of_descriptor(descriptor)
    return StepPlan(plan.step_type, encoded, plan.has_wait_for, plan.options)


def _digest(*parts: str | bytes) -> bytes:
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"\0".join(encoded)).digest()
