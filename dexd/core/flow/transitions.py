"""The state machine as data: which event leads from which phase of a Step execution, or status of a Flow, to which.

The fold does not look here: deciders cannot produce any other pair, which is what makes live handling legal by
construction. Replay that checks a log compares every step with this table, tests hold the fold to it row by row, and
docs/state-machine.md is drawn from it.
"""

from dataclasses import dataclass

from dexd.core import events as e
from dexd.core.flow.state import StepPhase
from dexd.core.values import FlowStatus


@dataclass(frozen=True, slots=True)
class StepTransition:
    """One event that concerns one Step execution."""

    source: StepPhase | None
    """None: it does not exist yet."""
    event: type[e.Event]
    target: StepPhase | None
    """None: it has ended."""
    when: str = ""
    """What of the event decides, where one event has several targets."""


@dataclass(frozen=True, slots=True)
class FlowTransition:
    """One event that begins or ends an execution."""

    source: FlowStatus | None
    """None: it does not exist yet."""
    event: type[e.Event]
    target: FlowStatus


_READY, _RUNNING, _BACKOFF, _WAITING = StepPhase.READY, StepPhase.RUNNING, StepPhase.BACKOFF, StepPhase.WAITING

_WANTS_OR_HAS_WORKER = (_READY, _RUNNING, _BACKOFF)
"""Phases in which an attempt can fail: by its handler, or because no worker took it in time [ROUTE-4].

A Step in backoff whose delay is over looks for a worker without an event of its own.
"""

STEP_TRANSITIONS: tuple[StepTransition, ...] = (
    StepTransition(None, e.StepScheduled, _READY),
    StepTransition(None, e.StepScheduled, _BACKOFF, "delayed start Step"),
    StepTransition(_READY, e.StepDispatched, _RUNNING),
    StepTransition(_BACKOFF, e.StepDispatched, _RUNNING),
    StepTransition(_RUNNING, e.StepDeclined, _READY),
    StepTransition(_RUNNING, e.StepDeliveryLost, _READY),
    StepTransition(_RUNNING, e.HeartbeatReceived, _RUNNING),
    StepTransition(_RUNNING, e.WaitForCompleted, _WAITING, "conditions"),
    StepTransition(_RUNNING, e.WaitForCompleted, _READY, "skip_immediately"),
    *(StepTransition(phase, e.WaitForFailed, _READY, "PROCEED") for phase in _WANTS_OR_HAS_WORKER),
    *(StepTransition(phase, e.WaitForFailed, _BACKOFF, "RETRY, FAIL_FLOW") for phase in _WANTS_OR_HAS_WORKER),
    StepTransition(_WAITING, e.TimerFired, _WAITING),
    StepTransition(_WAITING, e.TimerSkipped, _WAITING),
    StepTransition(_WAITING, e.SubFlowClosed, _WAITING),
    StepTransition(_WAITING, e.ConditionsMet, _READY),
    StepTransition(_RUNNING, e.ExecuteCompleted, None),
    *(StepTransition(phase, e.ExecuteFailed, _BACKOFF, "RETRY, FAIL_FLOW") for phase in _WANTS_OR_HAS_WORKER),
    *(StepTransition(phase, e.ExecuteFailed, None, "RECOVER") for phase in _WANTS_OR_HAS_WORKER),
    StepTransition(_RUNNING, e.MethodPending, _RUNNING),
    *(StepTransition(phase, e.StepCanceled, None) for phase in StepPhase),
    *(StepTransition(phase, e.FlowClosed, None) for phase in (_RUNNING, _BACKOFF)),
    *(StepTransition(phase, e.FlowClosed, None, "CONTINUED_AS_NEW") for phase in (_READY, _WAITING)),
    *(StepTransition(None, e.FlowContinued, phase, f"was {phase.name}") for phase in StepPhase),
    *(StepTransition(None, e.FlowForked, phase, f"was {phase.name}") for phase in (_READY, _BACKOFF, _WAITING)),
    StepTransition(None, e.FlowForked, _READY, "was RUNNING"),
)
"""FlowClosed ends what is left: handlers that run, and the Step whose failure closed the Flow. All others were canceled
by events of their own just before it. At a roll-over it takes every Step out of its run, and FlowContinued puts it into
the next one as it was [ROLL-3]. FlowForked puts those of an earlier point into a run of its own; whoever had a worker
there wants one again [TT-4]."""

FLOW_TRANSITIONS: tuple[FlowTransition, ...] = (
    FlowTransition(None, e.FlowStarted, FlowStatus.RUNNING),
    *(
        FlowTransition(FlowStatus.RUNNING, e.FlowClosed, status)
        for status in FlowStatus
        if status is not FlowStatus.RUNNING
    ),
)

ANY_PHASE_EVENTS: tuple[type[e.Event], ...] = (
    e.ChannelPublished,
    e.ChannelMessageDeleted,
    e.AttributesSet,
    e.TimerSkipRequested,
    e.RpcCompleted,
    e.FlowConfigUpdated,
    e.FlowRetried,
    e.FlowReopened,
    e.SubFlowStarted,
    e.StaleResultRejected,
)
"""Events that leave every phase as it is. The last one may also name a Step execution that has ended [LOST-3]."""

_STEP_KEYS = frozenset((row.source, row.event, row.target) for row in STEP_TRANSITIONS)
_FLOW_KEYS = frozenset((row.source, row.event, row.target) for row in FLOW_TRANSITIONS)


def is_step_transition(source: StepPhase | None, event: type[e.Event], target: StepPhase | None) -> bool:
    """Whether the event may lead a Step execution from one phase to the other."""
    if (event is e.TimerFired or event is e.TimerSkipped) and source is None:
        # The Flow's own timer: the Step that may handle it does not exist yet [TIME-1].
        return target is None
    return (source, event, target) in _STEP_KEYS or (event in ANY_PHASE_EVENTS and source is target)


def is_flow_transition(source: FlowStatus | None, event: type[e.Event], target: FlowStatus) -> bool:
    """Whether the event may lead an execution from one status to the other; most leave it as it is."""
    if event is e.FlowStarted or event is e.FlowClosed:
        return (source, event, target) in _FLOW_KEYS
    return source is target
