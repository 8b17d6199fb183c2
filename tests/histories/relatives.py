"""What a frozen log shows of parents and children."""

from dexd.core.sub_flows import SubFlowPlan, SubFlowReusePolicy
from dexd.core.terms import FlowConfig, FlowTerms
from dexd.core.values import Decision, DecisionKind, StepPlan, Wait, WaitKind
from tests.histories.act import BEGIN_WAITING, HOUR, Act, channel, child, timer

PLAIN = SubFlowPlan("Order", StepPlan("Next", b'"child"', False))
CONFIGURED = SubFlowPlan(
    "Order",
    StepPlan("Next", b'"child"', False),
    (("color", b'"red"'),),
    FlowTerms(config=FlowConfig(record_rpc_io=True)),
    SubFlowReusePolicy.ATTACH,
)
WAITING = SubFlowPlan("Order", BEGIN_WAITING)


async def parents_and_children(act: Act) -> None:
    """One child completes, one fails; a parent of the same ID finds the one that completed."""
    worker = await act.worker("w", 4)
    await act.start("parent", BEGIN_WAITING)
    await act.raise_children(worker, worker.calls[0], Wait(WaitKind.ALL_OF, (child(), child())), PLAIN, CONFIGURED)
    await act.decide(worker, worker.calls[1], DecisionKind.FORCE_COMPLETE)
    await act.complete(worker, worker.calls[2], decision=Decision(DecisionKind.FORCE_FAIL, reason="too hard"))
    await act.decide(worker, worker.calls[3], DecisionKind.FORCE_COMPLETE)
    await act.start("parent", BEGIN_WAITING, run_id="run-parent-2", request_id="start-parent-2")
    await act.raise_children(worker, worker.calls[4], Wait(WaitKind.ANY_OF, (child(), timer(HOUR))), PLAIN)
    await act.decide(worker, worker.calls[5], DecisionKind.FORCE_COMPLETE)


async def parents_that_wait(act: Act) -> None:
    """A parent waits for a child that waits for a message; when they are at rest both are parked."""
    worker = await act.worker("w-parents", 2)
    await act.start("waiting-parent", BEGIN_WAITING)
    await act.raise_children(worker, worker.calls[0], Wait(WaitKind.ALL_OF, (child(),)), WAITING)
    await act.complete(worker, worker.calls[1], wait=Wait(WaitKind.ALL_OF, (channel("grow"),)))
