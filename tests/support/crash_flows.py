"""Flows for crash tests: every handler notes its call in a file before it does anything else."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dexsdk import (
    AttributeMap,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    go_to,
    graceful_complete,
    rpc,
)
from tests.support.eventually import eventually
from tests.support.handler_record import HandledCall, HandlerRecord

In = TypeVar("In")

END = ""
"""The message after which a ledger closes."""

ENTRIES = Channel("entries", str)
TAKEN = AttributeMap("taken", int)
"""How often each entry was consumed."""
MARKS = AttributeMap("marks", int)
"""What clients set."""
NOTES = AttributeMap("notes", int)
"""What RPCs set."""

GATE_DEADLINE_S = 300.0
"""Longer than any test, so that no held handler goes on by itself."""

PAUSE_MS = 20
"""Length of a relay's timer, so that kills meet armed timers."""


@dataclass
class Workshop:
    """What handlers of one process share."""

    record: HandlerRecord | None = None
    worker: str = ""
    gates: Path = field(default_factory=Path)
    """Directory in which a file `<worker>` or `all` opens the gate for held handlers."""

    def began(self, context: Context, method: str) -> None:
        """Note a call."""
        assert self.record is not None, "handlers run in worker processes only"
        call = HandledCall(
            key=context.idempotency_key,
            run_id=context.run_id,
            step_execution_id=context.step_execution_id,
            method=method,
            attempt=context.attempt,
            delivery=context.delivery,
            worker=self.worker,
        )
        self.record.note(call)

    @property
    def is_open(self) -> bool:
        """Whether held handlers may go on."""
        return any((self.gates / name).exists() for name in ("all", self.worker))


class NotedStep(Step[In]):
    """A Step that knows its process."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop


# ---- one Step ----------------------------------------------------------------------------------------------------


class EchoStep(NotedStep[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:
        self._workshop.began(context, "execute")
        return graceful_complete(input)


class OneStepFlow(Flow[int]):
    """Completes with its input."""

    def __init__(self, workshop: Workshop) -> None:
        self._step = EchoStep(workshop)

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(self._step)


# ---- several Steps and a timer -----------------------------------------------------------------------------------


class BeginStep(NotedStep[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:
        self._workshop.began(context, "execute")
        return go_to(PauseStep, input)


class PauseStep(NotedStep[int]):
    async def wait_for(self, context: Context, input: int) -> Wait:
        self._workshop.began(context, "wait_for")
        return Wait.until(Timer.by_duration(PAUSE_MS / 1000))

    async def execute(self, context: Context, input: int) -> StepDecision:
        self._workshop.began(context, "execute")
        return go_to(FinishStep, input)


class FinishStep(NotedStep[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:
        self._workshop.began(context, "execute")
        return graceful_complete(input)


class RelayFlow(Flow[int]):
    """Three Steps with a timer in the middle; completes with its input."""

    def __init__(self, workshop: Workshop) -> None:
        self._steps = (BeginStep(workshop), PauseStep(workshop), FinishStep(workshop))

    def get_steps(self) -> StepList[int]:
        begin, *others = self._steps
        return StepList.start_step(begin).other_steps(*others)


# ---- what clients write ------------------------------------------------------------------------------------------


class CollectStep(NotedStep[None]):
    async def wait_for(self, context: Context, input: None) -> Wait:
        self._workshop.began(context, "wait_for")
        return Wait.until(ENTRIES.at_least(1))

    async def execute(self, context: Context, input: None) -> StepDecision:
        self._workshop.began(context, "execute")
        entries = ENTRIES.results(context)
        for entry in entries:
            if entry != END:
                TAKEN.set(context, entry, 1 + _value_or_zero(TAKEN, context, entry))
        return graceful_complete() if END in entries else go_to(CollectStep)


class LedgerFlow(Flow[None]):
    """Counts the messages it gets, holds what clients and RPCs write, and closes at END."""

    def __init__(self, workshop: Workshop) -> None:
        self._step = CollectStep(workshop)

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self._step)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ENTRIES, TAKEN, MARKS, NOTES)

    @rpc
    async def note(self, context: Context, word: str) -> RPCResult[int]:
        NOTES.set(context, word, 1)
        return RPCResult.of(len(word))


def _value_or_zero(attribute: AttributeMap[int], context: Context, instance: str) -> int:
    try:
        return attribute.get(context, instance)
    except KeyError:
        return 0


# ---- parked and held ---------------------------------------------------------------------------------------------


class ParkStep(NotedStep[None]):
    async def wait_for(self, context: Context, input: None) -> Wait:
        self._workshop.began(context, "wait_for")
        return Wait.until(Timer.by_duration(3600))

    async def execute(self, context: Context, input: None) -> StepDecision:
        raise AssertionError("nobody waits for an hour")


class ParkedFlow(Flow[None]):
    """Waits until it is stopped."""

    def __init__(self, workshop: Workshop) -> None:
        self._step = ParkStep(workshop)

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self._step)


class HoldStep(NotedStep[float]):
    async def execute(self, context: Context, input: float) -> StepDecision:
        self._workshop.began(context, "execute")
        await eventually(lambda: self._workshop.is_open, "an open gate", deadline_s=GATE_DEADLINE_S)
        await asyncio.sleep(input)
        return graceful_complete(f"{context.step_execution_id} on {self._workshop.worker}")


class HeldFlow(Flow[float]):
    """One Step that goes on when its gate is open, and takes its input in seconds then."""

    def __init__(self, workshop: Workshop) -> None:
        self._step = HoldStep(workshop)

    def get_steps(self) -> StepList[float]:
        return StepList.start_step(self._step)


class CrashFlows:
    """All Flows of this module in one registry; clients need no workshop."""

    def __init__(self, workshop: Workshop | None = None) -> None:
        workshop = workshop or Workshop()
        self.ledger = LedgerFlow(workshop)
        others = (OneStepFlow(workshop), RelayFlow(workshop), ParkedFlow(workshop), HeldFlow(workshop))
        self.registry = Registry((self.ledger, *others), allow_async_handlers=True)
