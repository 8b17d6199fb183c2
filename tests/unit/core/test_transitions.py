"""The transition table and the fold say the same [ARCH-2, STEP-2, FLOW-6]."""

from collections.abc import Sequence

import msgspec
import pytest

from dexd.core import events as e
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.flow.transitions import (
    ANY_PHASE_EVENTS,
    FLOW_TRANSITIONS,
    STEP_TRANSITIONS,
    FlowTransition,
    StepTransition,
    is_flow_transition,
    is_step_transition,
)
from dexd.core.forks.plan import fork_point
from dexd.core.ids import FlowId, MessageId, RequestId, RunId, StepExecutionId, StreamId, WorkerId
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.terms import FlowConfig
from dexd.core.values import (
    Condition,
    ConditionKind,
    DecisionKind,
    Failure,
    FlowStatus,
    Method,
    RequestRecord,
    Resolution,
    StepPlan,
    SubFlowResult,
    TimerId,
    Wait,
    WaitKind,
)

STEP = StepExecutionId("Work-1")
WORKER = WorkerId("w")
TIMER = Condition(ConditionKind.TIMER, at_ms=5)
REQUEST = RequestRecord(RequestId("r"), b"d")

STARTED = e.FlowStarted(FlowId("f"), RunId("r"), "Order", 1, RequestId("s"), b"d", 7)
SCHEDULED = e.StepScheduled(STEP, "Work", 1, "", b"1", has_wait_for=True)
DISPATCHED = e.StepDispatched(STEP, Method.WAIT_FOR, 1, 1, WORKER, "i", False, 0, 99)
CHILD = SubFlowPlan("Child", StepPlan("C", b"1", has_wait_for=False))
WAITS = e.WaitForCompleted(
    STEP, 1, 1, Wait(WaitKind.ALL_OF, (TIMER, Condition(ConditionKind.SUB_FLOW))), sub_flows=(CHILD,)
)


def wait_for_failed(resolution: Resolution) -> e.WaitForFailed:
    return e.WaitForFailed(STEP, 1, 1, WORKER, Failure("E"), resolution, 9)


def execute_failed(resolution: Resolution) -> e.ExecuteFailed:
    return e.ExecuteFailed(STEP, 1, 1, WORKER, Failure("E"), resolution, 9)


REACHED: dict[StepPhase | None, Sequence[e.Event]] = {
    None: (STARTED,),
    StepPhase.READY: (STARTED, SCHEDULED),
    StepPhase.RUNNING: (STARTED, SCHEDULED, DISPATCHED),
    StepPhase.BACKOFF: (STARTED, SCHEDULED, DISPATCHED, wait_for_failed(Resolution.RETRY)),
    StepPhase.WAITING: (STARTED, SCHEDULED, DISPATCHED, WAITS),
}
"""Events that bring the Step into each phase."""

DELAYED = "delayed start Step"
EXAMPLES: dict[tuple[type[e.Event], str], e.Event] = {
    (e.StepScheduled, ""): SCHEDULED,
    (e.StepScheduled, DELAYED): SCHEDULED,
    (e.StepDispatched, ""): DISPATCHED,
    (e.StepDeclined, ""): e.StepDeclined(STEP, 1, 1, WORKER, "NO_CAPACITY"),
    (e.StepDeliveryLost, ""): e.StepDeliveryLost(STEP, 1, 1, WORKER, "gone"),
    (e.HeartbeatReceived, ""): e.HeartbeatReceived(STEP, 1, 1, b"1"),
    (e.WaitForCompleted, "conditions"): WAITS,
    (e.WaitForCompleted, "skip_immediately"): e.WaitForCompleted(STEP, 1, 1, Wait(WaitKind.SKIP)),
    (e.WaitForFailed, "PROCEED"): wait_for_failed(Resolution.PROCEED),
    (e.WaitForFailed, "RETRY, FAIL_FLOW"): wait_for_failed(Resolution.RETRY),
    (e.TimerFired, ""): e.TimerFired(STEP, 0),
    (e.TimerSkipped, ""): e.TimerSkipped(STEP, 0),
    (e.TimerSkipRequested, ""): e.TimerSkipRequested(STEP, TimerId(), REQUEST),
    (e.ConditionsMet, ""): e.ConditionsMet(STEP, (0,)),
    (e.ExecuteCompleted, ""): e.ExecuteCompleted(STEP, 1, 1, WORKER, DecisionKind.DEAD_END),
    (e.ExecuteFailed, "RETRY, FAIL_FLOW"): execute_failed(Resolution.FAIL_FLOW),
    (e.ExecuteFailed, "RECOVER"): execute_failed(Resolution.RECOVER),
    (e.StepCanceled, ""): e.StepCanceled(STEP, "STEP_CANCELED"),
    (e.MethodPending, ""): e.MethodPending(STEP, Method.EXECUTE, 1),
    (e.FlowClosed, ""): e.FlowClosed(FlowStatus.FAILED),
    (e.ChannelPublished, ""): e.ChannelPublished("c", ((MessageId("m"), b"1"),), REQUEST),
    (e.ChannelMessageDeleted, ""): e.ChannelMessageDeleted("c", (), "", REQUEST),
    (e.AttributesSet, ""): e.AttributesSet((("a", b"1"),), REQUEST),
    (e.RpcCompleted, ""): e.RpcCompleted("rpc", 1, WORKER, REQUEST),
    (e.FlowConfigUpdated, ""): e.FlowConfigUpdated(FlowConfig(record_rpc_io=True), REQUEST),
    (e.SubFlowStarted, ""): e.SubFlowStarted(STEP, 0, FlowId("sys:sub:f/Work-1/0"), RunId("child")),
    (e.SubFlowClosed, ""): e.SubFlowClosed(STEP, 0, SubFlowResult(FlowId("sys:sub:f/Work-1/0"), FlowStatus.FAILED)),
    (e.FlowRetried, ""): e.FlowRetried(2, RunId("before"), RunId("first"), 900, 7),
    (e.FlowReopened, ""): e.FlowReopened(RunId("next")),
    (e.StaleResultRejected, ""): e.StaleResultRejected(STEP, Method.EXECUTE, 1, 1, WORKER, "STALE"),
}


EXAMPLES[e.FlowClosed, "CONTINUED_AS_NEW"] = e.FlowClosed(FlowStatus.CONTINUED_AS_NEW, next_run_id=RunId("next"))


def folded(events: Sequence[e.Event]) -> RunState:
    state: RunState | None = None
    for version, event in enumerate(events, start=1):
        state = evolve(state, RecordedEvent(StreamId(1), version, 1_000, event))
    assert state is not None
    return state


for carried_phase in StepPhase:
    carried = to_carried(folded(REACHED[carried_phase]))
    EXAMPLES[e.FlowContinued, f"was {carried_phase.name}"] = e.FlowContinued(RunId("before"), RunId("first"), carried)
    point = fork_point(folded(REACHED[carried_phase]), RunId("f"))
    EXAMPLES[e.FlowForked, f"was {carried_phase.name}"] = e.FlowForked(
        point.run_id, point.event_id, RunId("before"), RunId("first"), 0, point.carried, REQUEST
    )


def phase_of(state: RunState) -> StepPhase | None:
    step = state.steps.get(STEP)
    return None if step is None else step.phase


@pytest.mark.parametrize("row", STEP_TRANSITIONS, ids=lambda row: f"{row.source}-{row.event.__name__}-{row.target}")
def test_every_row_of_a_step_is_what_the_fold_does(row: StepTransition) -> None:
    """[STEP-2] from each phase, with an event of that kind, to the phase that the table names."""
    before: Sequence[e.Event] = REACHED[row.source]
    if row.when == DELAYED:
        before = [msgspec.structs.replace(STARTED, eligible_at=9_000)]
    assert phase_of(folded(before)) is row.source
    assert phase_of(folded([*before, EXAMPLES[row.event, row.when]])) is row.target


@pytest.mark.parametrize("row", FLOW_TRANSITIONS, ids=lambda row: f"{row.event.__name__}-{row.target.name}")
def test_every_row_of_a_flow_is_what_the_fold_does(row: FlowTransition) -> None:
    """[FLOW-6, FLOW-8] one event begins an execution, one ends it."""
    closing = () if row.event is e.FlowStarted else (e.FlowClosed(row.target),)
    assert folded([STARTED, *closing]).status is row.target


@pytest.mark.parametrize("event", ANY_PHASE_EVENTS, ids=lambda event: event.__name__)
def test_events_from_outside_leave_every_phase_as_it_is(event: type[e.Event]) -> None:
    """[CHAN-2, LOST-3] publications, writes and refused results do not move a Step."""
    for phase, before in REACHED.items():
        assert phase_of(folded([*before, EXAMPLES[event, ""]])) is phase
        assert is_step_transition(phase, event, phase)


def test_every_event_type_has_its_place_in_the_table() -> None:
    """[ARCH-2] a new event cannot be forgotten here."""
    placed = {row.event for row in STEP_TRANSITIONS} | {row.event for row in FLOW_TRANSITIONS} | set(ANY_PHASE_EVENTS)
    assert placed == set(e.EVENT_TYPES)


@pytest.mark.parametrize(
    ("source", "event", "target"),
    [
        (StepPhase.WAITING, e.ExecuteCompleted, None),
        (StepPhase.READY, e.ConditionsMet, StepPhase.READY),
        (None, e.StepDispatched, StepPhase.RUNNING),
        (StepPhase.RUNNING, e.ChannelPublished, StepPhase.READY),
    ],
)
def test_what_is_not_in_the_table_is_illegal(
    source: StepPhase | None, event: type[e.Event], target: StepPhase | None
) -> None:
    """[ARCH-2] what a replay that checks refuses."""
    assert not is_step_transition(source, event, target)


def test_flow_s_own_timer_belongs_to_no_step() -> None:
    """[TIME-1] It fires before the Step that may handle it exists."""
    assert is_step_transition(None, e.TimerFired, None)
    assert not is_step_transition(None, e.TimerFired, StepPhase.READY)


def test_a_closed_flow_is_never_closed_again() -> None:
    """[FLOW-8] a terminal status does not change."""
    assert not is_flow_transition(FlowStatus.FAILED, e.FlowClosed, FlowStatus.COMPLETED)
    assert is_flow_transition(FlowStatus.FAILED, e.StaleResultRejected, FlowStatus.FAILED)
