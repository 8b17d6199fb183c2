"""Clients that never stop asking while processes are killed, and note what they asked before they are told anything.

What a client was told is noted in the moment it is told, so that the comparison at the end knows more than the server
may have forgotten [INV-1].
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from dexsdk import AsyncClient, DexServiceError, StartFlowOptions, StopFlowOptions, StopType
from tests.support.crash_flows import END, ENTRIES, MARKS, LedgerFlow, OneStepFlow, ParkedFlow, RelayFlow

WRITES_PER_LEDGER = 150
"""What one Flow holds; its handlers are handed all of it."""

UNKNOWN_OUTCOME = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""Codes after which a request may or may not have been applied; no other refusal has a place in this load."""


class Kind(Enum):
    """What is asked."""

    START_ONE_STEP = auto()
    START_RELAY = auto()
    START_LEDGER = auto()
    PUBLISH = auto()
    SET_ATTRIBUTE = auto()
    RPC = auto()
    STOP = auto()


ASKED_AT_RANDOM = tuple(kind for kind in Kind if kind is not Kind.START_LEDGER)


@dataclass
class Asked:
    """One request and what its client was told."""

    kind: Kind
    flow_id: str
    number: int
    is_acknowledged: bool = False
    run_id: str = ""
    """Of an acknowledged start."""

    @property
    def word(self) -> str:
        """Names what is written: message, Attribute instance, note or reason."""
        return f"{self.kind.name.lower()}-{self.number}"


class CrashLoad:
    """A number of clients in one process."""

    def __init__(self, client: AsyncClient, ledger_flow: LedgerFlow, seed: int, on_told: Callable[[], None]) -> None:
        """Make the load; nothing is asked yet.

        Args:
            client: Carries all requests.
            ledger_flow: The registered instance, whose RPC is called.
            seed: Chooses what is asked.
            on_told: Called after each acknowledgement.
        """
        self.asked: list[Asked] = []
        self._client = client
        self._flow = ledger_flow
        self._random = random.Random(seed)
        self._on_told = on_told
        self._ledger = ""
        self._ledger_opening = asyncio.Lock()
        self._writes_left = 0
        self._is_over = False

    @property
    def told(self) -> list[Asked]:
        """What was acknowledged."""
        return [asked for asked in self.asked if asked.is_acknowledged]

    @property
    def ledgers(self) -> list[str]:
        """Flow IDs of all ledgers."""
        return [asked.flow_id for asked in self.asked if asked.kind is Kind.START_LEDGER]

    async def run(self, clients: int) -> None:
        """Ask from that many places at once until `end`, then close the ledgers."""
        await asyncio.gather(*(self._keep_asking() for _ in range(clients)))
        await asyncio.gather(*(self._client.publish(ledger, ENTRIES, END) for ledger in self.ledgers))

    def end(self) -> None:
        """Ask for nothing new."""
        self._is_over = True

    async def _keep_asking(self) -> None:
        while not self._is_over:
            kind = self._random.choice(ASKED_AT_RANDOM)
            if kind in (Kind.PUBLISH, Kind.SET_ATTRIBUTE, Kind.RPC):
                await self._ask(kind, await self._open_ledger())
            else:
                await self._ask(kind, f"{kind.name.lower()}-{len(self.asked)}")

    async def _open_ledger(self) -> str:
        async with self._ledger_opening:
            if self._writes_left == 0:
                self._ledger = f"ledger-{len(self.asked)}"
                self._writes_left = WRITES_PER_LEDGER
                while not await self._ask(Kind.START_LEDGER, self._ledger):
                    pass
            self._writes_left -= 1
            return self._ledger

    async def _ask(self, kind: Kind, flow_id: str) -> bool:
        asked = Asked(kind, flow_id, len(self.asked))
        self.asked.append(asked)
        try:
            await self._carry_out(asked)
        except DexServiceError as error:
            if error.code not in UNKNOWN_OUTCOME:
                raise
            return False
        asked.is_acknowledged = True
        self._on_told()
        return True

    async def _carry_out(self, asked: Asked) -> None:
        client, flow_id, word = self._client, asked.flow_id, asked.word
        match asked.kind:
            case Kind.START_ONE_STEP:
                asked.run_id = await client.start_flow(OneStepFlow, flow_id, asked.number)
            case Kind.START_RELAY:
                asked.run_id = await client.start_flow(RelayFlow, flow_id, asked.number)
            case Kind.START_LEDGER:
                # The Flow ID is the request ID, so that asking again is the same start.
                asked.run_id = await client.start_flow(
                    LedgerFlow, flow_id, options=StartFlowOptions(request_id=flow_id)
                )
            case Kind.PUBLISH:
                await client.publish(flow_id, ENTRIES, word)
            case Kind.SET_ATTRIBUTE:
                await client.set_attribute(flow_id, MARKS, word, asked.number)
            case Kind.RPC:
                await client.invoke_rpc(self._flow.note, flow_id, word)
            case Kind.STOP:
                asked.run_id = await client.start_flow(ParkedFlow, flow_id)
                await client.stop_flow(flow_id, StopFlowOptions(StopType.FAIL, reason=word))
