"""One scene of a recording, and the words in which its Flows are told."""

from typing import Any

from dexd.core import commands as c
from dexd.core.effects import AssignCall
from dexd.core.ids import FlowId, RequestId
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.values import (
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    Response,
    RetryPolicy,
    StepPlan,
    StopType,
    Wait,
)
from tests.unit.engine.rig import Rig, RigWorker

RESUME_WAIT_MS = 5_000
"""How long the deliveries of a lost session stay current [WIRE-11]."""

HOUR = 3_600_000
BEGIN = StepPlan("Begin", b'{"n":1}', False)
BEGIN_WAITING = StepPlan("Begin", b'{"n":1}', True)
NEXT = StepPlan("Next", b'"next"', False)
NEXT_WAITING = StepPlan("Next", b'"next"', True)
BROKEN = Failure("ValueError", "no such card", "Traceback: ...", error_classes=("ValueError", "Exception"))
ONCE = RetryPolicy(maximum_attempts=1)


def timer(duration_ms: int, name: str = "") -> Condition:
    return Condition(ConditionKind.TIMER, name, duration_ms=duration_ms)


def child() -> Condition:
    return Condition(ConditionKind.SUB_FLOW)


def channel(name: str, at_least: int = 1, at_most: int | None = 1) -> Condition:
    return Condition(ConditionKind.CHANNEL, f"wants-{name}", channel=name, at_least=at_least, at_most=at_most)


class Act:
    """One scene on the rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._workers: list[RigWorker] = []

    async def worker(self, name: str = "w", streams: int = 2) -> RigWorker:
        worker = await self.rig.worker(name, streams)
        self._workers.append(worker)
        return worker

    async def start(self, flow_id: str, start_step: StepPlan | None, **changes: Any) -> None:
        await self.rig.start(flow_id, start_step=start_step, **changes)
        await self.rig.decided()

    async def publish(self, flow_id: str, name: str, *values: bytes, request: str = "p") -> None:
        command = c.PublishMessages(FlowId(flow_id), None, name, values, RequestId(request), b"\x00digest")
        await self.rig.answer(command)
        await self.rig.decided()

    async def stop(self, flow_id: str, stop_type: StopType = StopType.CANCEL, *, request: str = "stop") -> None:
        command = c.StopFlow(FlowId(flow_id), None, stop_type, "no longer wanted", RequestId(request), b"digest")
        await self.rig.answer(command)
        await self.rig.decided()

    async def complete(self, worker: RigWorker, call: AssignCall, **response: Any) -> None:
        worker.complete(call, **response)
        await self.rig.decided()

    async def raise_children(self, worker: RigWorker, call: AssignCall, wait: Wait, *plans: SubFlowPlan) -> None:
        worker.say(c.CompleteCall(worker.session, call.stream, call.call.token, Response(wait=wait), plans))
        await self.rig.decided()

    async def decide(self, worker: RigWorker, call: AssignCall, kind: DecisionKind, *plans: StepPlan) -> None:
        await self.complete(worker, call, decision=Decision(kind, plans, b'"done"' if not plans else b""))

    async def fail(self, worker: RigWorker, call: AssignCall, failure: Failure = BROKEN) -> None:
        worker.say(c.FailCall(worker.session, call.stream, call.call.token, failure))
        await self.rig.decided()

    async def lose(self, worker: RigWorker) -> None:
        self.rig.engine.close_session(worker.session, "RESET")
        await self.rig.decided()
        await self.rig.advance(RESUME_WAIT_MS)

    async def end(self) -> None:
        for worker in self._workers:
            self.rig.engine.close_session(worker.session, "GONE")
        await self.rig.decided()
