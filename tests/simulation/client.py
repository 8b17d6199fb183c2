"""A simulated client: starts Flows and talks to them, repeats what was not answered, and writes down what was."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from dexd.codec.step_plans import plan_of_descriptor
from dexd.core.commands import InvokeRpc, PublishMessages, SetAttribute, StartFlow, StopFlow
from dexd.core.ids import CallerId, FlowId, RequestId, RunId
from dexd.core.outcome import Reply, StartFlowAccepted, StopFlowResult
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import FlowStatus, RetryPolicy, StepPlan, StopType
from tests.simulation import programs
from tests.simulation.faults import Faults
from tests.simulation.server import SimulatedServer

PATIENCE_SECONDS = 8.0
"""How long a client waits for a reply before it repeats the request."""

TRY_LATER = frozenset({Code.DISK_FULL, Code.STORAGE_UNAVAILABLE, Code.MAILBOX_FULL, Code.SHUTTING_DOWN})


@dataclass(slots=True)
class Acknowledged:
    """What clients were told is durable; compared with the log at the end [INV-1]."""

    starts: dict[str, str] = field(default_factory=dict)
    """Flow ID to run ID."""
    published: dict[str, list[list[str]]] = field(default_factory=dict)
    """Flow ID to the items of each producer, in the producer's order."""
    attributes: dict[str, list[bytes]] = field(default_factory=dict)
    stops: dict[str, FlowStatus] = field(default_factory=dict)
    rpc_items: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    """Flow ID to what its increments were answered."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Flow ID to items whose publication was refused, all of it."""
    endings: dict[str, FlowStatus] = field(default_factory=dict)
    """Flow ID to how it ends unless it is stopped; COMPLETED if it is not named."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Flow ID to the runs that its retry policy allows [START-8]."""


class SimulatedClient:
    """One client process of the workload."""

    def __init__(self, number: int, random: Random, server: SimulatedServer, faults: Faults) -> None:
        self.number = number
        self._random = random
        self._server = server
        self._faults = faults
        self._requests = 0
        self.acknowledged = Acknowledged()

    def calm(self, faults: Faults) -> None:
        """Replace the faults, for good."""
        self._faults = faults

    async def work(self, flows: int) -> None:
        """Drive some Flows, several at once."""
        kinds = [self._chain, self._gate, self._fan, self._doomed, self._inbox]
        kinds += [self._race, self._drain, self._late, self._again, self._ledger]
        drives = []
        for index in range(flows):
            kind = self._random.choice(kinds)
            drives.append(asyncio.create_task(kind(f"client-{self.number}/flow-{index}")))
            await asyncio.sleep(self._random.uniform(0, 1.5))
        await asyncio.gather(*drives)

    async def _chain(self, flow_id: str) -> None:
        delay_ms = self._random.choice([0, 0, 700, 9_000])
        await self._start(flow_id, "Chain", self._random.randint(0, 12), FlowTerms(start_delay_ms=delay_ms))

    async def _race(self, flow_id: str) -> None:
        await self._start(flow_id, "Race", self._random.randint(1, 8))

    async def _late(self, flow_id: str) -> None:
        """Nothing but its timeout ends it [TIME-1..3]."""
        policy, ending = self._random.choice(
            [
                (FlowTimeoutPolicy.FAIL, FlowStatus.FAILED),
                (FlowTimeoutPolicy.CANCEL, FlowStatus.CANCELED),
                (FlowTimeoutPolicy.HANDLER, FlowStatus.COMPLETED),
            ]
        )
        self.acknowledged.endings[flow_id] = ending
        terms = FlowTerms(timeout_ms=self._random.randint(1, 20_000), timeout_policy=policy)
        await self._start(flow_id, "Late", None, terms)

    async def _again(self, flow_id: str) -> None:
        """Fails as often as it may [START-8]."""
        attempts = self._random.randint(1, 4)
        self.acknowledged.endings[flow_id] = FlowStatus.FAILED
        self.acknowledged.attempts[flow_id] = attempts
        plan = _start_plan("Again", programs.value(None))
        policy = RetryPolicy(initial_interval_ms=self._random.randint(1, 3_000), maximum_attempts=attempts)
        await self._start(flow_id, "Again", None, FlowTerms(retry=FlowRetry(policy, plan)))

    async def _ledger(self, flow_id: str) -> None:
        """Steps and RPCs count under one lock; none of their counts may be lost [LOCK-1..4]."""
        await self._start(flow_id, "Ledger", self._random.randint(0, 8))
        await asyncio.gather(*(self._increment(flow_id) for _ in range(self._random.randint(1, 5))))
        await self._publish(flow_id, "close", "now")

    async def _drain(self, flow_id: str) -> None:
        """Producers race a Flow that closes when there is nothing left: a message is consumed or refused [DEC-5]."""
        await self._start(flow_id, "Drain", None)
        producers = [self._produce_until_refused(flow_id, producer) for producer in range(self._random.randint(1, 5))]
        self.acknowledged.published[flow_id] = await asyncio.gather(*producers)

    async def _produce_until_refused(self, flow_id: str, producer: int) -> list[str]:
        accepted = []
        for number in range(self._random.randint(1, 8)):
            item = f"{producer}:{number}"
            if not await self._publish(flow_id, "work", item):
                self.acknowledged.refused.setdefault(flow_id, []).append(item)
                break
            accepted.append(item)
            await asyncio.sleep(self._random.uniform(0, 0.3))
        return accepted

    async def _gate(self, flow_id: str) -> None:
        await self._start(flow_id, "Gate", self._random.randint(0, 20_000))
        for item in ("first", "second"):
            await asyncio.sleep(self._random.uniform(0, 8))
            await self._publish(flow_id, "go", item)
        if self._random.random() < 0.3:
            await self._stop(flow_id)

    async def _fan(self, flow_id: str) -> None:
        await self._start(flow_id, "Fan", self._random.randint(1, 15))
        if self._random.random() < 0.2:
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._stop(flow_id)

    async def _doomed(self, flow_id: str) -> None:
        await self._start(flow_id, "Doomed", None)

    async def _inbox(self, flow_id: str) -> None:
        """Several producers publish numbered items; "end" follows when all are acknowledged."""
        await self._start(flow_id, "Inbox", None)
        producers = [self._produce(flow_id, producer) for producer in range(self._random.randint(1, 3))]
        published = await asyncio.gather(*producers)
        self.acknowledged.published[flow_id] = published
        await self._set_attribute(flow_id, "note", flow_id)
        for number in range(self._random.randint(0, 2)):
            await self._append(flow_id, f"rpc-{number}")
        await self._publish(flow_id, "inbox", "end")

    async def _produce(self, flow_id: str, producer: int) -> list[str]:
        items = [f"{producer}:{number}" for number in range(self._random.randint(1, 8))]
        for item in items:
            await self._publish(flow_id, "inbox", item)
            await asyncio.sleep(self._random.uniform(0, 1))
        return items

    # ---- requests ----

    async def _start(self, flow_id: str, flow_type: str, content: object, terms: FlowTerms | None = None) -> None:
        request_id = self._new_request()
        encoded = programs.value(content)
        plan = _start_plan(flow_type, encoded)

        def make() -> StartFlow:
            run_id = RunId(f"run-{self.number}-{self._random.getrandbits(64):016x}")
            seed = self._random.getrandbits(32)
            return StartFlow(
                FlowId(flow_id), flow_type, run_id, seed, request_id, _digest(flow_type, encoded), plan, terms=terms
            )

        reply = await self._insist(make)
        if not isinstance(reply, StartFlowAccepted):
            raise AssertionError(f"start of {flow_id} was refused: {reply}")
        self.acknowledged.starts[flow_id] = reply.run_id

    async def _publish(self, flow_id: str, channel: str, item: str) -> bool:
        """Publish, and tell whether it was accepted; a closed Flow takes nothing."""
        request_id = self._new_request()
        values = (programs.value(item),)
        digest = _digest(channel, *values)
        reply = await self._insist(lambda: PublishMessages(FlowId(flow_id), None, channel, values, request_id, digest))
        if isinstance(reply, Rejection) and reply.code is not Code.FLOW_NOT_ACTIVE:
            raise AssertionError(f"publish to {flow_id} was refused: {reply}")
        return not isinstance(reply, Rejection)

    async def _set_attribute(self, flow_id: str, key: str, content: str) -> None:
        request_id = self._new_request()
        encoded = programs.value(content)
        digest = _digest(key, encoded)
        reply = await self._insist(lambda: SetAttribute(FlowId(flow_id), None, key, encoded, request_id, digest))
        if isinstance(reply, Rejection):
            raise AssertionError(f"set_attribute on {flow_id} was refused: {reply}")
        self.acknowledged.attributes.setdefault(flow_id, []).append(encoded)

    async def _stop(self, flow_id: str) -> None:
        request_id = self._new_request()
        kind = self._random.choice(list(StopType))
        digest = _digest(str(kind))
        reply = await self._insist(lambda: StopFlow(FlowId(flow_id), None, kind, "simulated", request_id, digest))
        if not isinstance(reply, StopFlowResult):
            raise AssertionError(f"stop of {flow_id} was refused: {reply}")
        self.acknowledged.stops[flow_id] = reply.status

    async def _append(self, flow_id: str, item: str) -> None:
        """An RPC with an effect; only an answered one is sure to have it."""
        answer = await self._invoke(flow_id, "append", programs.value(item))
        if answer is not None:
            self.acknowledged.rpc_items.setdefault(flow_id, []).append(json.loads(answer))

    async def _increment(self, flow_id: str) -> None:
        """An RPC that never waits for its lock, and is tried again [LOCK-4]."""
        await asyncio.sleep(self._random.uniform(0, 6))
        answer = await self._invoke(flow_id, "increment", b"", ("count",))
        if answer is not None:
            self.acknowledged.counts.setdefault(flow_id, []).append(json.loads(answer))

    async def _invoke(self, flow_id: str, name: str, encoded: bytes, locks: tuple[str, ...] = ()) -> bytes | None:
        """Call until there is an answer, or give up after a while."""
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
                    caller, FlowId(flow_id), None, name, encoded, request_id, digest, 10_000, now + 15_000, locks
                )

            reply = asyncio.get_running_loop().create_future()
            abandon = engine.invoke(
                make, lambda answer, reply=reply: None if reply.done() else reply.set_result(answer)
            )
            try:
                async with asyncio.timeout(20):
                    answer: bytes | Rejection = await reply
            except TimeoutError:
                abandon()
                continue
            if isinstance(answer, bytes):
                return answer
            await asyncio.sleep(0.5)
        return None

    async def _insist(
        self, make: Callable[[], StartFlow | PublishMessages | SetAttribute | StopFlow]
    ) -> Reply | Rejection:
        """Send the request until it is answered; the request ID makes the repeats harmless [GEN-8]."""
        while True:
            reply = await self._try(make())
            if reply is not None and not (isinstance(reply, Rejection) and reply.code in TRY_LATER):
                return reply
            await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def _try(self, command: StartFlow | PublishMessages | SetAttribute | StopFlow) -> Reply | Rejection | None:
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if self._server.fatal is not None:
            raise AssertionError(f"the engine stopped: {self._server.fatal!r}") from self._server.fatal
        engine = self._server.engine
        lost = self._random.random() < self._faults.lost_reply
        if engine is None or (lost and self._random.random() < 0.5):
            return None
        if self._random.random() < self._faults.duplicate_request:
            engine.request(command, lambda _: None)
        reply = asyncio.get_running_loop().create_future()

        def take(answer: Reply | Rejection) -> None:
            if self._server.engine is engine and not reply.done():
                reply.set_result(answer)

        engine.request(command, take)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                answered: Reply | Rejection = await reply
        except TimeoutError:
            return None
        return None if lost else answered

    def _new_request(self) -> RequestId:
        self._requests += 1
        return RequestId(f"client-{self.number}-{self._requests}")


def _start_plan(flow_type: str, encoded: bytes) -> StepPlan:
    descriptor = programs.START_STEPS[flow_type]
    if descriptor is None:
        raise AssertionError(f"{flow_type} has no start Step")
    plan = plan_of_descriptor(descriptor)
    return StepPlan(plan.step_type, encoded, plan.has_wait_for, plan.options)


def _digest(*parts: str | bytes) -> bytes:
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"\0".join(encoded)).digest()
