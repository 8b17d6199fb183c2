"""Live state of a Flow and the reasons why it does not get on, as plain frozen data [HIST-1, HIST-6].

Users' values are shown as what their JSON holds, whole numbers exact; one that was left out because it is large is
``{"omitted_bytes": n}``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from dexsdk.flow_config import FlowConfig
from dexsdk.options import FlowTimeoutPolicy
from dexsdk.results import RecoveryError
from dexsdk.status import FlowErrorType, FlowStatus


class BlockerKind(StrEnum):
    """Why a Step execution does not get on; each equals its name as text."""

    NO_WORKER = "NO_WORKER"
    """No connected Worker knows the Flow type, or the Step type."""
    WORKERS_BUSY = "WORKERS_BUSY"
    """Workers that know it are connected, and none has room."""
    LIMIT = "LIMIT"
    """A limit has no room before ``until``."""
    CHANNEL = "CHANNEL"
    """The Wait needs more messages than its Channel holds."""
    TIMER = "TIMER"
    """The Wait's Timer is not due before ``until``."""
    RETRY = "RETRY"
    """The next attempt is at ``until``."""
    SUBFLOW = "SUBFLOW"
    """A child of the Wait has not ended."""
    LOCK = "LOCK"
    """Another call holds an Attribute lock, or asked for it earlier."""
    RUNNING = "RUNNING"
    """A Worker runs the handler, until ``until`` at most."""
    START_DELAY = "START_DELAY"
    """The start was delayed to ``until``."""
    NO_STEPS = "NO_STEPS"
    """There is no active Step: the Flow waits for RPCs and for its end, or is closed."""


@dataclass(frozen=True)
class Blocker:
    """One reason why a Step execution does not get on."""

    step_execution_id: str
    """Empty for NO_STEPS."""
    kind: BlockerKind
    text: str
    """For people."""
    since: datetime | None
    until: datetime | None
    """When it is over at the latest, if nothing else happens; None when that is not known."""


@dataclass(frozen=True)
class FlowExplanation:
    """Why a Flow does not get on: one or more blockers for each active Step [HIST-6]."""

    blockers: tuple[Blocker, ...]
    """In the order in which their Step executions were scheduled."""
    omitted_steps: int = 0
    """Step executions that are not explained because there are more than a thousand blockers."""


@dataclass(frozen=True)
class NamedValue:
    """The value of an Attribute, or of one instance of an AttributeMap."""

    name: str
    instance: str | None
    value: Any


@dataclass(frozen=True)
class LastFailure:
    """The last failed attempt of a Step's method [OPT-6]."""

    error_type: str
    detail: str
    stack: str
    method: str
    attempt: int
    worker_id: str | None
    """None when no Worker had the attempt."""
    at: datetime


@dataclass(frozen=True)
class ConditionState:
    """One condition of an installed Wait."""

    kind: str
    """TIMER, CHANNEL or SUB_FLOW."""
    condition_id: str | None
    status: str
    """Of a Timer PENDING, FIRED or SKIPPED; of a Channel WAITING, or ENOUGH when it alone has its minimum; of a SubFlow
    STARTING, or the child's status."""
    deadline: datetime | None = None
    channel: str | None = None
    instance: str | None = None
    at_least: int | None = None
    at_most: int | None = None
    queued: int | None = None
    """Messages in the Channel now."""
    flow_id: str | None = None
    flow_type: str | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class WaitState:
    """What a Step execution waits for."""

    kind: str
    """ALL_OF, ANY_OF or ANY_COMBINATION."""
    conditions: tuple[ConditionState, ...]
    combinations: tuple[tuple[int, ...], ...] = ()
    """Of ANY_COMBINATION: positions in ``conditions``."""


@dataclass(frozen=True)
class ConditionOutcome:
    """What a condition gave to ``execute`` [WAIT-11]."""

    kind: str
    condition_id: str | None
    met: bool
    channel: str | None = None
    instance: str | None = None
    count: int | None = None
    """Messages that it took; more than ``values`` when not all are shown."""
    values: tuple[Any, ...] = ()
    flow_id: str | None = None
    status: FlowStatus | None = None
    error_message: str | None = None


@dataclass(frozen=True)
class StepState:
    """One active Step execution."""

    step_execution_id: str
    step_type: str
    from_step: str
    """Where it came from [ID-12]."""
    phase: str
    """READY, RUNNING, BACKOFF or WAITING."""
    method: str
    """WAIT_FOR or EXECUTE: what runs, or is to run next."""
    since: datetime
    """When the phase began."""
    scheduled_at: datetime
    attempt: int
    delivery: int
    first_attempt_at: datetime | None
    started_at: datetime | None
    deadline: datetime | None
    """Of the running handler."""
    retry_at: datetime | None
    worker_id: str | None
    workers_lost: int
    last_failure: LastFailure | None
    recovery_error: RecoveryError | None
    wait_for_failed: bool
    durability: str
    options: Mapping[str, Any]
    """As they act on the current method, defaults included."""
    input: Any
    wait: WaitState | None
    results: tuple[ConditionOutcome, ...]
    locals: Mapping[str, Any]
    heartbeat: Any = None


@dataclass(frozen=True)
class QueuedStep:
    """A Step execution that wants a Worker now."""

    step_execution_id: str
    queue: str
    """A Flow type, or the ID of the Worker that served the Flow last."""
    is_sticky: bool
    since: datetime
    priority: int


@dataclass(frozen=True)
class QueuedMessage:
    """A message that nobody has consumed."""

    message_id: str
    published_at: datetime
    value: Any


@dataclass(frozen=True)
class ChannelState:
    """A Channel, or one instance of a ChannelMap, that holds messages."""

    name: str
    instance: str | None
    count: int
    messages: tuple[QueuedMessage, ...]


@dataclass(frozen=True)
class LockState:
    """An Attribute lock that a Step or RPC holds, or that a Step waits for."""

    name: str
    instance: str | None
    by: str
    """A Step execution ID, or ``sys:rpc-`` and a request ID."""
    since: datetime | None = None
    """Of a lock that is waited for."""


@dataclass(frozen=True)
class LockStates:
    """Locks of a Flow."""

    held: tuple[LockState, ...]
    awaited: tuple[LockState, ...]


@dataclass(frozen=True)
class StepOutput:
    """A completion output [DEC-7]."""

    step_type: str
    step_execution_id: str
    value: Any


@dataclass(frozen=True)
class TimerSkip:
    """A Timer that is skipped as soon as its Step waits [TIMER-9]."""

    step_execution_id: str
    condition_id: str | None
    index: int


@dataclass(frozen=True)
class FlowTimeoutState:
    """The Flow's own timer [TIME-1]."""

    at: datetime
    policy: FlowTimeoutPolicy


@dataclass(frozen=True)
class FlowParent:
    """The Flow that began this one as a SubFlow [SUB-3]."""

    flow_id: str
    depth: int
    """How many Flows stand above this one."""


@dataclass(frozen=True)
class FlowState:
    """Live state of an execution's latest run: everything that a decision about it could read [HIST-1]."""

    flow_id: str
    run_id: str
    flow_type: str
    status: FlowStatus
    started_at: datetime
    closed_at: datetime | None
    ordinal: int
    first_run_id: str
    history_events: int
    error_type: FlowErrorType | None
    error_message: str | None
    config: FlowConfig
    """What the execution has set; None leaves a field to the server."""
    attempt: int
    """Of the Flow [START-8]."""
    begins_at: datetime | None
    """When a delayed start Step may run [START-7]."""
    is_completing: bool
    """Whether the Flow completes when no Step is active any more [DEC-2]."""
    timeout: FlowTimeoutState | None
    parent: FlowParent | None
    schedule_id: str | None
    """The schedule that started it [SCHED-2]."""
    scheduled_at: datetime | None
    """Nominal instant of the fire that started it."""
    steps: tuple[StepState, ...]
    """Active Step executions in order of scheduling."""
    queued: tuple[QueuedStep, ...]
    attributes: tuple[NamedValue, ...]
    channels: tuple[ChannelState, ...]
    locks: LockStates
    outputs: tuple[StepOutput, ...]
    skips: tuple[TimerSkip, ...]
    counts: Mapping[str, int]
    """How many there are of ``steps``, ``attributes``, ``messages`` and ``outputs``."""
    omitted: Mapping[str, int]
    """Entries that were left out because the answer is at most 4 MiB, by list; empty for most Flows."""
