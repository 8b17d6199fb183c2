"""Plain frozen values that commands, events and state share.

They are msgspec array structs because events and snapshots carry them into the log: fields are only ever appended, with
a default. User values are bytes of canonical JSON and are never decoded here [VAL-3]. All of them are trees without
cycles, so the garbage collector need not track them (`gc=False`): its passes over much live state would stall the
server.
"""

from enum import IntEnum

import msgspec

from dexd.core.ids import CallId, FlowId, RequestId, RunId
from dexd.core.index_values import IndexWrite


class FlowStatus(IntEnum):
    """Status of an execution [FLOW-6]."""

    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELED = 4
    TERMINATED = 5
    CONTINUED_AS_NEW = 6
    """Of a superseded run only: its chain goes on in the next run, and so does its execution [ROLL-2]."""


class FlowErrorType(IntEnum):
    """Why a Flow is FAILED [FLOW-9]."""

    NONE = 0
    STEP_DECISION_FAILED = 1
    CLIENT_API_FAILED = 2
    WORKER_API_FAILED = 3
    INVALID_USER_FLOW_CODE = 4
    FLOW_TIMEOUT = 5
    INTERNAL = 6


class Method(IntEnum):
    """What a worker is asked to run."""

    WAIT_FOR = 0
    EXECUTE = 1
    RPC = 2


class WaitKind(IntEnum):
    """How the conditions of a Wait combine [WAIT-1]."""

    SKIP = 0
    ALL_OF = 1
    ANY_OF = 2
    ANY_COMBINATION = 3


class ConditionKind(IntEnum):
    """What a condition waits for [WAIT-2]."""

    TIMER = 0
    CHANNEL = 1
    SUB_FLOW = 2


class DecisionKind(IntEnum):
    """What a Step decided [DEC-1..6]."""

    GO_TO = 0
    GRACEFUL_COMPLETE = 1
    FORCE_COMPLETE = 2
    FORCE_FAIL = 3
    DEAD_END = 4
    FORCE_COMPLETE_IF_CHANNELS_EMPTY = 5


class WaitForFailurePolicy(IntEnum):
    """What follows when wait_for has no attempt left [OPT-3]."""

    FAIL_FLOW = 0
    PROCEED = 1


class StepDurability(IntEnum):
    """When what follows a Step's result may leave the server [DUR-1, DUR-2]."""

    SYNC = 0
    ASYNC = 1


class IdReusePolicy(IntEnum):
    """Whether a Flow ID may be started again [START-4]."""

    DEFAULT = 0
    ALLOW_IF_PREVIOUS_FAILED = 1
    ALLOW_IF_NOT_RUNNING = 2
    DISALLOW = 3
    ALLOW_TERMINATE_IF_RUNNING = 4


class StopType(IntEnum):
    """How a client ends a Flow [STOP-1]."""

    CANCEL = 0
    FAIL = 1
    TERMINATE = 2


class StepOutcome(IntEnum):
    """How a Step execution ended [WAITAPI-3]."""

    COMPLETED = 1
    FAILED = 2
    CANCELED = 3


class SkipOutcome(IntEnum):
    """What a request to skip a timer did [TIMER-9]."""

    APPLIED = 1
    REMEMBERED = 2
    """The Step execution does not wait yet; the timer is skipped when it does."""
    ALREADY_FIRED = 3
    """It fired, or was skipped, before."""


class Resolution(IntEnum):
    """What follows a failed attempt."""

    RETRY = 0
    """Another attempt at ``retry_at``."""
    PROCEED = 1
    """wait_for is given up and execute runs [OPT-3]."""
    RECOVER = 2
    """The recovery Step takes over [OPT-4]."""
    FAIL_FLOW = 3
    """The Flow fails with WORKER_API_FAILED."""


class Token(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Names one delivery of one attempt; only the current one may deliver a result [DELIV-2]."""

    run_id: RunId
    """First run of the chain: a result is good for whichever run has continued it [ROLL-4]."""
    call: CallId
    method: Method
    attempt: int
    """From 1; of an RPC, which has one attempt only, the number of the call."""
    delivery: int


class RetryPolicy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Delays and bounds of repeated attempts; defaults are those of [RETRY-1]."""

    initial_interval_ms: int = 1_000
    backoff_coefficient: float = 2.0
    maximum_interval_ms: int | None = None
    """None means the larger of 100 s and the initial interval [RETRY-3]."""
    maximum_attempts: int = 0
    """0 means unlimited."""
    total_duration_ms: int | None = None
    """Counted from the hand-over of the first attempt [RETRY-4]."""
    jitter: float = 0.0


PRIORITY_MIN, PRIORITY_DEFAULT, PRIORITY_MAX = 1, 3, 5
"""Priorities of waiting calls; 1 is served first [ROUTE-7]."""

WEIGHT_MIN, WEIGHT_DEFAULT, WEIGHT_MAX = 1, 1_000, 1_000_000
"""Fairness weights in thousandths, 0.001 to 1000 [LIMIT-7.6]."""


class Standing(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How the calls of a Flow stand in a queue with those of other Flows [ROUTE-7]."""

    priority: int = PRIORITY_DEFAULT
    fairness_key: str = ""
    fairness_weight: int = WEIGHT_DEFAULT


class RecoveryStep(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The Step that takes over when execute has no attempt left [OPT-4]."""

    step_type: str
    has_wait_for: bool
    options: "StepOptions | None" = None


class StepOptions(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Options fixed when a Step is scheduled [STEP-8]; None means the default at the time of use."""

    wait_for_timeout_ms: int | None = None
    execute_timeout_ms: int | None = None
    wait_for_retry: RetryPolicy | None = None
    execute_retry: RetryPolicy | None = None
    wait_for_failure: WaitForFailurePolicy = WaitForFailurePolicy.FAIL_FLOW
    non_retryable_errors: tuple[str, ...] = ()
    recovery: RecoveryStep | None = None
    priority: int | None = None
    """None means that of the Flow [LIMIT-7.7]."""
    heartbeat_timeout_ms: int | None = None
    """None and 0 are off [HB-1]."""
    wait_for_durability: StepDurability | None = None
    execute_durability: StepDurability | None = None
    """None means that of the Flow [CFG-3]."""
    wait_for_locks: tuple[str, ...] = ()
    """Attribute keys that wait_for has locked [LOCK-1]."""
    execute_locks: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    """Attributes and AttributeMaps whose values the worker fetches before the call [ATTR-7]."""


class StepPlan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Step to schedule."""

    step_type: str
    input: bytes
    has_wait_for: bool
    options: StepOptions | None = None


class Condition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One condition of a Wait as the worker declared it."""

    kind: ConditionKind
    condition_id: str = ""
    duration_ms: int | None = None
    at_ms: int | None = None
    """Timer: the instant asked for; once installed, always the absolute deadline [TIMER-3]."""
    channel: str = ""
    at_least: int = 0
    at_most: int | None = None
    """Channel: None takes all that are queued [CHAN-4]."""


class TimerId(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Names a Timer of a Wait: by its condition ID, or by its position among the Wait's Timers [TIMER-8]."""

    condition_id: str = ""
    index: int = 0
    """From 0; only counts without a condition ID."""


class Wait(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What wait_for returned."""

    kind: WaitKind
    conditions: tuple[Condition, ...] = ()
    combinations: tuple[tuple[int, ...], ...] = ()
    """Only for ANY_COMBINATION: groups of indexes into ``conditions``."""


class Canceling(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Which Step types a decision cancels [DEC-9]."""

    step_types: tuple[str, ...] = ()
    """In the whole Flow."""
    sibling_types: tuple[str, ...] = ()
    """Among executions with the source of the deciding one."""


class Decision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What execute returned."""

    kind: DecisionKind
    movements: tuple[StepPlan, ...] = ()
    output: bytes = b""
    reason: str = ""
    canceling: Canceling | None = None
    channels: tuple[str, ...] = ()
    """For FORCE_COMPLETE_IF_CHANNELS_EMPTY, whose one movement is taken unless all of these are empty [DEC-4]."""


class Failure(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Why an attempt failed."""

    error_type: str
    detail: str = ""
    stack: str = ""
    non_retryable: bool = False
    retry_after_ms: int | None = None
    error_classes: tuple[str, ...] = ()


class RecoveryError(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The failure shown to a recovery Step, or to execute after a failed wait_for."""

    error_type: str
    detail: str


class Response(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A handler's whole result; applied in one commit or not at all [GEN-5]."""

    wait: Wait | None = None
    decision: Decision | None = None
    writes: tuple[tuple[str, bytes | None], ...] = ()
    publications: tuple[tuple[str, bytes], ...] = ()
    locals: tuple[tuple[str, bytes], ...] = ()
    recorded: tuple[tuple[str, bytes], ...] = ()
    output: bytes = b""
    next_steps: tuple[StepPlan, ...] = ()
    deletions: tuple[tuple[str, str], ...] = ()
    """Channel key and ID of messages to delete [CHAN-8]."""
    canceling: tuple[str, ...] = ()
    """Step types that an RPC cancels [RPC-2]."""
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of what `writes` changes [ATTR-9]."""


class ConditionResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How one condition ended, in declaration order [WAIT-9]."""

    kind: ConditionKind
    condition_id: str
    met: bool
    channel: str = ""
    values: tuple[bytes, ...] = ()
    minimum: int = 0
    """How many of `values` the first pass over the queue took, which orders them across conditions [WAIT-8]."""
    sub_flow: "SubFlowResult | None" = None
    """Of a SubFlow: how it stands."""


class SubFlowResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a child stands for the parent: its end where its condition won, else RUNNING [SUB-5, WAIT-9]."""

    flow_id: FlowId
    status: FlowStatus = FlowStatus.RUNNING
    error_type: FlowErrorType = FlowErrorType.NONE
    error_message: str = ""
    completions: "tuple[Completion, ...]" = ()


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One message in a Channel."""

    message_id: str
    value: bytes
    published_at: int
    is_own: bool = False
    """A Step of the Flow published it; messages from outside outlive a failed run [START-8]."""


class Completion(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One output of a Flow [DEC-7]."""

    step_type: str
    step_execution_id: str
    value: bytes


class RequestRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A remembered request: a repeat with the same digest gets the stored answer [RPC-12]."""

    request_id: RequestId
    digest: bytes
    """Hash of the verb and its content, made by the codec."""
    answer: bytes = b""
    """What a repeat is answered with, if the reply is more than an acknowledgement."""


class DeclinedOffer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An offer that a worker declined, or was skipped for, on the way to a dispatch [ROUTE-9]."""

    worker_id: str
    reason: str


class RpcTerms(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What an RPC asks for before its handler may be called."""

    locks: tuple[str, ...] = ()
    is_transactional: bool = False


class FlowCapability(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a worker serves of one Flow type."""

    flow_type: str
    step_types: frozenset[str] = frozenset()
    rpc_names: frozenset[str] = frozenset()
    rpc_terms: dict[str, RpcTerms] = {}
    """Of those that ask for anything."""


class RunningCall(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A call that a reconnecting worker presents again [WIRE-10]."""

    stream: int
    queue: str
    token: Token
