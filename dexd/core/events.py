"""Persisted facts of a run, past tense. The class name is the type name in the log and the kind in history [HIST-2].

Fields are only ever appended, with a default; anything else needs a new version and an upcaster [ARCH-9]. An event is
complete: folding needs no rule, no clock and no other stream.
"""

from typing import TypeAlias, get_args

import msgspec

from dexd.core.fork_events import FlowForked as FlowForked  # noqa: PLC0414 - read from here like all others
from dexd.core.fork_events import FlowReopened as FlowReopened  # noqa: PLC0414
from dexd.core.ids import FlowId, MessageId, RequestId, RunId, StepExecutionId, WorkerId
from dexd.core.index_values import IndexWrite
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.terms import FlowConfig, FlowTerms
from dexd.core.values import (
    DecisionKind,
    DeclinedOffer,
    Failure,
    FlowErrorType,
    FlowStatus,
    Method,
    RecoveryError,
    RequestRecord,
    Resolution,
    Standing,
    StepOptions,
    SubFlowResult,
    TimerId,
    Wait,
)


class FlowStarted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An execution began; always the first event of its run."""

    flow_id: FlowId
    run_id: RunId
    flow_type: str
    ordinal: int
    request_id: RequestId
    digest: bytes
    seed: int
    attributes: tuple[tuple[str, bytes], ...] = ()
    standing: Standing | None = None
    """How its calls stand in queues; None: as everybody's."""
    terms: FlowTerms | None = None
    eligible_at: int = 0
    """When the start Step may run; 0 is at once [START-7]."""
    timeout_at: int = 0
    """When the Flow's time is over; 0 is never [TIME-1]."""
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of the initial Attributes [ATTR-11]."""


class FlowRetried(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The run goes on with an execution whose run before it FAILED; second event of its run [START-8]."""

    attempt: int
    """Of the Flow, from 2."""
    previous_run_id: RunId
    first_run_id: RunId
    flow_started_at: int
    """When the execution was accepted [CTX-3]."""
    message_base: int
    """Where the numbering of messages goes on, so that their IDs stay unique and in order [ID-13]."""
    messages: tuple[tuple[str, tuple[tuple[MessageId, bytes, int], ...]], ...] = ()
    """Messages from outside that nobody consumed, by Channel: id, value, instant."""
    requests: tuple[tuple[RequestRecord, int], ...] = ()
    """Requests of the execution that are remembered, oldest first, and when each was applied [RPC-12]."""


class FlowContinued(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The run goes on where the one before it left off, at a roll-over; second event of its run [ROLL-2]."""

    previous_run_id: RunId
    first_run_id: RunId
    """Of the execution."""
    carried: bytes
    """Everything that the run before had when it ended [ROLL-3]; see `dexd.core.flow.carrying`."""
    request: RequestRecord | None = None
    """The request that asked for it; None when the run before had reached its threshold."""


class StepScheduled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Step execution exists and waits for a worker."""

    step_execution_id: StepExecutionId
    step_type: str
    number: int
    from_step: str
    """Where it came from [ID-12]."""
    input: bytes
    has_wait_for: bool
    options: StepOptions | None = None
    recovery_error: RecoveryError | None = None


class StepDispatched(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt was offered to a worker [ROUTE-9]."""

    step_execution_id: StepExecutionId
    method: Method
    attempt: int
    delivery: int
    worker_id: WorkerId
    incarnation: str
    is_sticky: bool
    """Routed to the worker that last served the Flow; otherwise through the Flow type's queue."""
    waited_ms: int
    deadline: int
    declined: tuple[DeclinedOffer, ...] = ()
    """Offers declined on the way, at most 16."""
    declined_more: int = 0
    """How many more there were."""


class StepDeclined(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The worker declined the offer before any handler ran; the delivery does not count [DELIV-2]."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    worker_id: WorkerId
    reason: str


class StepDeliveryLost(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The worker went away, or never started, before any result [LOST-1]."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    worker_id: WorkerId
    reason: str


class HeartbeatReceived(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A running handler showed life; recorded for the first heartbeat of an attempt and for new values [HB-3]."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    value: bytes
    """For the next attempt; `b""` is none."""


class WaitForCompleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """wait_for returned a Wait; timers hold absolute deadlines."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    wait: Wait
    writes: tuple[tuple[str, bytes | None], ...] = ()
    messages: tuple[tuple[MessageId, str, bytes], ...] = ()
    """Published messages: id, Channel key, value."""
    locals: tuple[tuple[str, bytes], ...] = ()
    recorded: tuple[tuple[str, bytes], ...] = ()
    sub_flows: tuple[SubFlowPlan, ...] = ()
    """Children of the Wait, in the order of its conditions [SUB-1]."""
    indexed: tuple[IndexWrite, ...] = ()


class SubFlowStarted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The child of a Wait exists: it was started, or is one that existed before [SUB-6]."""

    step_execution_id: StepExecutionId
    number: int
    """Position among the SubFlows of the Wait."""
    flow_id: FlowId
    run_id: RunId
    """First run of the child's execution."""
    is_attached: bool = False
    """The execution existed before, for whatever reason."""


class SubFlowClosed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The parent knows how the child ended [SUB-5]."""

    step_execution_id: StepExecutionId
    number: int
    result: SubFlowResult


class WaitForFailed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt of wait_for failed."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    worker_id: WorkerId
    failure: Failure
    resolution: Resolution
    retry_at: int = 0
    is_reported: bool = True
    """The worker reported it; otherwise the server found it (timeout, loss, no worker)."""
    heartbeat: bytes | None = None
    """The attempt's newest heartbeat value if no event holds it yet [HB-3]."""


class ConditionsMet(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A candidate of the Wait won and its messages were consumed [WAIT-9]."""

    step_execution_id: StepExecutionId
    winners: tuple[int, ...]
    """Indexes of the winning candidate's conditions."""
    consumed: tuple[tuple[int, tuple[MessageId, ...]], ...] = ()
    """Condition index and the messages it took, in queue order."""


class TimerFired(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Timer of an installed Wait is due."""

    step_execution_id: StepExecutionId
    condition_index: int


class TimerSkipped(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Timer of an installed Wait counts as fired from now on, at somebody's wish [TIMER-8]."""

    step_execution_id: StepExecutionId
    condition_index: int
    request: RequestRecord | None = None
    """None when the wish was older than the Wait."""


class TimerSkipRequested(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Timer is to be skipped as soon as the Step execution waits [TIMER-9]."""

    step_execution_id: StepExecutionId
    timer: TimerId
    request: RequestRecord


class ExecuteCompleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """execute returned a decision; the Steps it schedules follow as StepScheduled in the same commit."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    worker_id: WorkerId
    decision: DecisionKind
    output: bytes = b""
    reason: str = ""
    writes: tuple[tuple[str, bytes | None], ...] = ()
    messages: tuple[tuple[MessageId, str, bytes], ...] = ()
    recorded: tuple[tuple[str, bytes], ...] = ()
    indexed: tuple[IndexWrite, ...] = ()


class ExecuteFailed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt of execute failed."""

    step_execution_id: StepExecutionId
    attempt: int
    delivery: int
    worker_id: WorkerId
    failure: Failure
    resolution: Resolution
    retry_at: int = 0
    is_reported: bool = True
    """The worker reported it; otherwise the server found it (timeout, loss, no worker)."""
    heartbeat: bytes | None = None
    """The attempt's newest heartbeat value if no event holds it yet [HB-3]."""


class StepCanceled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Step execution ended without a result."""

    step_execution_id: StepExecutionId
    reason: str
    by: str = ""
    """Who canceled it: a Step execution, or `sys:rpc:<name>#<n>`; "" when the Flow closed."""


class MethodPending(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A handler was still running when the Flow closed; its result will be refused."""

    step_execution_id: StepExecutionId
    method: Method
    attempt: int


class ChannelPublished(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client published."""

    channel: str
    messages: tuple[tuple[MessageId, bytes], ...]
    request: RequestRecord


class ChannelMessageDeleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Pending messages were taken out of a Channel without being consumed [CHAN-8, CHAN-9]."""

    channel: str
    message_ids: tuple[MessageId, ...]
    by: str = ""
    """The Step execution, or `sys:rpc:<name>#<n>`, whose response this belongs to; empty for a client."""
    request: RequestRecord | None = None
    """The client's."""


class AttributesSet(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client wrote Attributes."""

    writes: tuple[tuple[str, bytes | None], ...]
    request: RequestRecord
    indexed: tuple[IndexWrite, ...] = ()


class RpcCompleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An RPC had effects [RPC-4], or asked for locks or a transaction [RPC-5].

    The Steps it schedules follow as StepScheduled in the same commit.
    """

    name: str
    number: int
    """Counts effectful calls of this name in the chain [ID-12]."""
    worker_id: WorkerId
    request: RequestRecord
    writes: tuple[tuple[str, bytes | None], ...] = ()
    messages: tuple[tuple[MessageId, str, bytes], ...] = ()
    recorded: tuple[tuple[str, bytes], ...] = ()
    input: bytes = b""
    """Input and output are only recorded when the execution's settings say so [RPC-11]."""
    output: bytes = b""
    indexed: tuple[IndexWrite, ...] = ()


class FlowConfigUpdated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client changed settings of the execution [CFG-2]."""

    config: FlowConfig
    """Only what it set."""
    request: RequestRecord


class StaleResultRejected(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A result of a delivery that is no longer current was refused and changed nothing [LOST-3]."""

    step_execution_id: StepExecutionId
    method: Method
    attempt: int
    delivery: int
    worker_id: WorkerId
    reason: str


class FlowClosed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The execution ended; all Steps that were active are gone [FLOW-8]."""

    status: FlowStatus
    error_type: FlowErrorType = FlowErrorType.NONE
    error_message: str = ""
    request: RequestRecord | None = None
    """The stop request that closed it."""
    next_run_id: RunId = RunId("")
    """The run with which the execution goes on; empty if this was its end [START-8, ROLL-2]."""


Event: TypeAlias = (
    FlowStarted
    | StepScheduled
    | StepDispatched
    | StepDeclined
    | StepDeliveryLost
    | HeartbeatReceived
    | WaitForCompleted
    | SubFlowStarted
    | SubFlowClosed
    | WaitForFailed
    | ConditionsMet
    | TimerFired
    | TimerSkipped
    | TimerSkipRequested
    | ExecuteCompleted
    | ExecuteFailed
    | StepCanceled
    | MethodPending
    | ChannelPublished
    | ChannelMessageDeleted
    | AttributesSet
    | RpcCompleted
    | FlowConfigUpdated
    | FlowRetried
    | FlowContinued
    | FlowForked
    | FlowReopened
    | StaleResultRejected
    | FlowClosed
)

EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
"""Every event type; the codec, the transition table and their drift tests iterate over it."""
