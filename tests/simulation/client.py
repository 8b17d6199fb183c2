"""A simulated client: starts Flows, talks to them, and writes down how they must end."""

import asyncio
import json
from random import Random

from dexd.core.terms import FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import FlowStatus, RetryPolicy
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.documents import drive_document
from tests.simulation.families import drive_family
from tests.simulation.faults import Faults
from tests.simulation.jobs import drive_jobs
from tests.simulation.requests import Requests, start_plan
from tests.simulation.schedules import drive_schedule
from tests.simulation.server import SimulatedServer
from tests.simulation.travels import drive_traveller, wander
from tests.simulation.vaults import drive_vault


class SimulatedClient:
    """One client process of the workload."""

    def __init__(self, number: int, random: Random, server: SimulatedServer, faults: Faults) -> None:
        self.number = number
        self._random = random
        self.acknowledged = Acknowledged()
        self._requests = Requests(number, random, server, faults, self.acknowledged)

    def calm(self, faults: Faults) -> None:
        """Replace the faults, for good."""
        self._requests.faults = faults

    async def work(self, flows: int) -> None:
        """Drive some Flows, several at once."""
        kinds = [self._chain, self._gate, self._fan, self._doomed, self._inbox]
        kinds += [
            self._race,
            self._drain,
            self._late,
            self._again,
            self._ledger,
            self._family,
            self._vault,
            self._traveller,
            self._schedule,
            self._document,
            self._jobs,
        ]
        drives = []
        for index in range(flows):
            kind = self._random.choice(kinds)
            drives.append(asyncio.create_task(kind(f"client-{self.number}/flow-{index}")))
            await asyncio.sleep(self._random.uniform(0, 1.5))
        await asyncio.gather(*drives)

    async def _chain(self, flow_id: str) -> None:
        delay_ms = self._random.choice([0, 0, 700, 9_000])
        await self._requests.start(flow_id, "Chain", self._random.randint(0, 12), FlowTerms(start_delay_ms=delay_ms))
        await wander(self._requests, self._random, flow_id)

    async def _schedule(self, flow_id: str) -> None:
        await drive_schedule(self._requests, self._random, flow_id)

    async def _race(self, flow_id: str) -> None:
        await self._requests.start(flow_id, "Race", self._random.randint(1, 8))
        await wander(self._requests, self._random, flow_id)

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
        await self._requests.start(flow_id, "Late", None, terms)

    async def _again(self, flow_id: str) -> None:
        """Fails as often as it may [START-8]."""
        attempts = self._random.randint(1, 4)
        self.acknowledged.endings[flow_id] = FlowStatus.FAILED
        self.acknowledged.attempts[flow_id] = attempts
        plan = start_plan("Again", value(None))
        policy = RetryPolicy(initial_interval_ms=self._random.randint(1, 3_000), maximum_attempts=attempts)
        await self._requests.start(flow_id, "Again", None, FlowTerms(retry=FlowRetry(policy, plan)))

    async def _ledger(self, flow_id: str) -> None:
        """Steps and RPCs count under one lock; none of their counts may be lost [LOCK-1..4]."""
        await self._requests.start(flow_id, "Ledger", self._random.randint(0, 8))
        await asyncio.gather(*(self._increment(flow_id) for _ in range(self._random.randint(1, 5))))
        await self._requests.publish(flow_id, "close", "now")

    async def _family(self, flow_id: str) -> None:
        await drive_family(self._requests, self._random, flow_id)

    async def _vault(self, flow_id: str) -> None:
        await drive_vault(self._requests, self._random, flow_id)

    async def _document(self, flow_id: str) -> None:
        await drive_document(self._requests, self._random, flow_id)

    async def _jobs(self, flow_id: str) -> None:
        await drive_jobs(self._requests, self._random, flow_id)

    async def _traveller(self, flow_id: str) -> None:
        await drive_traveller(self._requests, self._random, flow_id)

    async def _drain(self, flow_id: str) -> None:
        """Producers race a Flow that closes when there is nothing left: a message is consumed or refused [DEC-5]."""
        await self._requests.start(flow_id, "Drain", None)
        producers = [self._produce_until_refused(flow_id, producer) for producer in range(self._random.randint(1, 5))]
        self.acknowledged.published[flow_id] = await asyncio.gather(*producers)

    async def _produce_until_refused(self, flow_id: str, producer: int) -> list[str]:
        accepted = []
        for number in range(self._random.randint(1, 8)):
            item = f"{producer}:{number}"
            if await self._requests.publish(flow_id, "work", item) is None:
                self.acknowledged.refused.setdefault(flow_id, []).append(item)
                break
            accepted.append(item)
            await asyncio.sleep(self._random.uniform(0, 0.3))
        return accepted

    async def _gate(self, flow_id: str) -> None:
        await self._requests.start(flow_id, "Gate", self._random.randint(0, 20_000))
        for item in ("first", "second"):
            await asyncio.sleep(self._random.uniform(0, 8))
            await self._requests.publish(flow_id, "go", item)
        if self._random.random() < 0.3:
            await self._requests.stop(flow_id)

    async def _fan(self, flow_id: str) -> None:
        await self._requests.start(flow_id, "Fan", self._random.randint(1, 15))
        if self._random.random() < 0.2:
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._requests.stop(flow_id)

    async def _doomed(self, flow_id: str) -> None:
        await self._requests.start(flow_id, "Doomed", None)
        await wander(self._requests, self._random, flow_id)

    async def _inbox(self, flow_id: str) -> None:
        """Several producers publish numbered items; "end" follows when all are acknowledged."""
        await self._requests.start(flow_id, "Inbox", None)
        producers = [self._produce(flow_id, producer) for producer in range(self._random.randint(1, 3))]
        published = await asyncio.gather(*producers)
        self.acknowledged.published[flow_id] = published
        await self._requests.set_attribute(flow_id, "note", flow_id)
        for number in range(self._random.randint(0, 2)):
            await self._append(flow_id, f"rpc-{number}")
        await self._requests.publish(flow_id, "inbox", "end")

    async def _produce(self, flow_id: str, producer: int) -> list[str]:
        items = [f"{producer}:{number}" for number in range(self._random.randint(1, 8))]
        for item in items:
            await self._requests.publish(flow_id, "inbox", item)
            await asyncio.sleep(self._random.uniform(0, 1))
        return items

    async def _append(self, flow_id: str, item: str) -> None:
        """An RPC with an effect; only an answered one is sure to have it."""
        answer = await self._requests.invoke(flow_id, "append", value(item))
        if isinstance(answer, bytes):
            self.acknowledged.rpc_items.setdefault(flow_id, []).append(json.loads(answer))

    async def _increment(self, flow_id: str) -> None:
        """An RPC that never waits for its lock, and is tried again [LOCK-4]."""
        await asyncio.sleep(self._random.uniform(0, 6))
        answer = await self._requests.invoke(flow_id, "increment", b"", ("count",))
        if isinstance(answer, bytes):
            self.acknowledged.counts.setdefault(flow_id, []).append(json.loads(answer))
