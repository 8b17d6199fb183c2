"""Folded state of one run. Only `dexd.core.flow.evolve` changes it; everybody else reads [ARCH-2]."""

from enum import IntEnum
from typing import Final

import msgspec

from dexd.core.ids import CallId, FlowId, RequestId, RunId, StepExecutionId, StreamId, WorkerId
from dexd.core.index_values import IndexWrite
from dexd.core.members import TIMER
from dexd.core.sub_flows import SubFlow, UnstartedSubFlow
from dexd.core.terms import FlowConfig, FlowTerms
from dexd.core.values import (
    Completion,
    ConditionResult,
    Failure,
    FlowErrorType,
    FlowStatus,
    Message,
    Method,
    RecoveryError,
    RequestRecord,
    Standing,
    StepOptions,
    TimerId,
    Token,
    Wait,
)


class StepPhase(IntEnum):
    """Where a Step execution stands [STEP-2]; transitions.py says how it gets from one to the next."""

    READY = 0
    """Wants a worker for its current method."""
    RUNNING = 1
    """Handed to a worker."""
    BACKOFF = 2
    """Wants a worker from `retry_at` on."""
    WAITING = 3
    """Its Wait is installed; costs no worker."""


READY: Final = StepPhase.READY
RUNNING: Final = StepPhase.RUNNING
BACKOFF: Final = StepPhase.BACKOFF
WAITING: Final = StepPhase.WAITING
"""At hand for what runs with every Step, see `members`."""


class StepExecution(msgspec.Struct, array_like=True, gc=False):
    """One active Step execution. `attempt` counts from 1 in the current method, `delivery` in the current attempt."""

    step_execution_id: StepExecutionId
    step_type: str
    number: int
    from_step: str
    input: bytes
    method: Method
    options: StepOptions | None
    recovery_error: RecoveryError | None
    scheduled_at: int
    phase: StepPhase = StepPhase.READY
    attempt: int = 1
    delivery: int = 0
    """Deliveries of this attempt so far; declined offers do not count."""
    losses: int = 0
    """Deliveries lost in this attempt; the second one fails the attempt [LOST-2]."""
    workers_lost: int = 0
    """Deliveries lost in this Step execution."""
    first_attempt_at: int = 0
    """Hand-over of this method's first attempt, 0 before it [CTX-3]."""
    dispatched_at: int = 0
    deadline: int = 0
    """When the current delivery's method timeout ends."""
    retry_at: int = 0
    worker_id: WorkerId = WorkerId("")
    """Worker of the current or last delivery."""
    incarnation: str = ""
    failure: Failure | None = None
    """Last failure of the current method [OPT-6]."""
    wait_for_failed: bool = False
    heartbeat: bytes = b""
    """Newest recorded heartbeat value of the current method; `b""` is none [HB-2]."""
    has_heartbeat: bool = False
    """Whether the current attempt showed life, so that losing its worker fails it [LOST-2]."""
    wait: Wait | None = None
    fired: tuple[int, ...] = ()
    """Indexes of the Wait's timers that fired or were skipped."""
    wait_version: int = 0
    """Version of the event that installed the Wait; orders waits by age [WAIT-10]."""
    results: tuple[ConditionResult, ...] = ()
    locals: dict[str, bytes] = {}
    skipped: tuple[int, ...] = ()
    """Those of `fired` that were skipped [TIMER-8]."""
    ready_version: int = 0
    """Version of the event after which the current method first wanted a worker; orders requests by age [LOCK-3]."""
    sub_flows: tuple[SubFlow, ...] = ()
    """Children of the Wait, while it is installed."""

    def token(self, chain_id: RunId) -> Token:
        """The token of the current delivery; only its holder may deliver a result."""
        return Token(chain_id, CallId(self.step_execution_id), self.method, self.attempt, self.delivery)

    dispatch_version: int = 0
    """Version of the last hand-over; its snapshot is the state before it [ATTR-8]."""
    withheld: dict[str, bytes | None] = {}
    """Attributes that the current delivery got as references, with the value that somebody overwrote since [ATTR-7]."""
    phase_since: int = 0
    """When READY or WAITING began; 0 while it is READY since it was scheduled."""
    failed_attempt: int = 0
    """Attempt, method, worker and instant of `failure` [OPT-6]; they say nothing without one."""
    failed_method: Method = Method.EXECUTE
    failed_on: WorkerId = WorkerId("")
    """Empty when no worker had the attempt."""
    failed_at: int = 0
    has_wait_for: bool = False
    """Whether it began with wait_for [CFG-1]."""

    def lock_keys(self) -> tuple[str, ...]:
        """Attribute keys that the current method has locked from its first hand-over to its end [LOCK-2]."""
        options = self.options
        if options is None:
            return ()
        return options.wait_for_locks if self.method is Method.WAIT_FOR else options.execute_locks

    def next_timer_at(self) -> int | None:
        """Deadline of the earliest timer of the Wait that has not fired."""
        if self.wait is None:
            return None
        earliest: int | None = None
        fired = self.fired
        for index, condition in enumerate(self.wait.conditions):
            at = condition.at_ms
            if at is None or condition.kind is not TIMER or index in fired:
                continue
            if earliest is None or at < earliest:
                earliest = at
        return earliest


class RememberedRequest(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A request of this execution and when it was applied [RPC-12]."""

    record: RequestRecord
    at: int


_OPEN: Final = FlowStatus.RUNNING


class RunState(msgspec.Struct, array_like=True, gc=False):
    """Everything that replay of one run's events gives.

    It travels from run to run inside events [ROLL-3]: fields of it, of StepExecution and of what they hold are only
    ever appended, with a default, like those of events.
    """

    flow_id: FlowId
    run_id: RunId
    stream_id: StreamId
    flow_type: str
    ordinal: int
    started_at: int
    start_request_id: RequestId
    start_digest: bytes
    seed: int
    status: FlowStatus = FlowStatus.RUNNING
    closed_at: int = 0
    error_type: FlowErrorType = FlowErrorType.NONE
    error_message: str = ""
    version: int = 0
    """Version of the last folded event."""
    completion_requested: bool = False
    """A graceful completion was decided; the Flow completes when no Step is active [DEC-2]."""
    last_worker: WorkerId = WorkerId("")
    """Whose result was last accepted; sticky routing tries it first [ROUTE-6]."""
    counters: dict[str, int] = {}
    """Step type to the highest number used [ID-6]."""
    rpc_counters: dict[str, int] = {}
    steps: dict[StepExecutionId, StepExecution] = {}
    """Active Step executions, in order of scheduling."""
    attributes: dict[str, bytes] = {}
    channels: dict[str, list[Message]] = {}
    """Channels with at least one message, oldest first."""
    pending_count: int = 0
    pending_bytes: int = 0
    completions: list[Completion] = []
    requests: dict[RequestId, RememberedRequest] = {}
    accepted: list[Token] = []
    """The newest accepted results, oldest first."""
    watchers: dict[str, dict[StepExecutionId, None]] = {}
    """Channel key to the waiting Step executions that watch it."""
    standing: Standing | None = None
    """How its calls stand in queues [ROUTE-7]; None: as everybody's."""
    skips: dict[StepExecutionId, list[TimerId]] = {}
    """Timers to skip once their Step execution waits [TIMER-9]."""
    terms: FlowTerms | None = None
    """Options of the start, if it had any that still matter."""
    config: FlowConfig | None = None
    """Settings of the execution; None leaves all to the server [CFG-1]."""
    eligible_at: int = 0
    """When the start Step may run; 0 is at once [START-7]."""
    timeout_at: int = 0
    """When the Flow's time is over; 0 is never, or it is over already [TIME-1]."""
    flow_attempt: int = 1
    """Which attempt of the execution this run is [START-8]."""
    first_run_id: RunId = RunId("")
    """First run of the execution; empty when this is it."""
    next_run_id: RunId = RunId("")
    """Run with which the execution goes on after this one FAILED or was CONTINUED_AS_NEW."""
    message_base: int = 0
    """Added to versions in message IDs, which stay in order over the runs of an execution [ID-13]."""
    unstarted: dict[str, UnstartedSubFlow] = {}
    """Children that are not known to exist yet, by their source."""

    @property
    def execution_id(self) -> RunId:
        """First run of the execution, which names it [WAITAPI-2]."""
        return self.first_run_id or self.run_id

    attribute_bytes: int = 0
    """Size of all Attribute values."""
    lending: dict[StepExecutionId, None] = {}
    """Step executions whose handlers have references to Attributes [ATTR-7]."""
    locks: dict[str, StepExecutionId] = {}
    """Attribute keys that are locked, and by whom [LOCK-2]."""
    chain_id: RunId = RunId("")
    """First run of its chain, the runs that roll-over joins. It names the chain: Step executions, deliveries, deadlines
    and locks belong to the chain and not to one run of it [ID-6, ROLL-4].
    """
    indexed: dict[str, IndexWrite] = {}
    """Index key to its value [ATTR-11]."""
    last_error: RecoveryError | None = None
    """The newest failed attempt of a Step [SEARCH-3]."""

    def is_past(self, step_execution_id: StepExecutionId) -> bool:
        """Whether the Step execution was scheduled and is not active any more; its ID has a number [ID-6]."""
        step_type, _, number = step_execution_id.rpartition("-")
        return step_execution_id not in self.steps and int(number) <= self.counters.get(step_type, 0)

    @property
    def is_open(self) -> bool:
        """Whether the run is RUNNING."""
        return self.status is _OPEN
