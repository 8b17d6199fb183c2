r"""The frames of a worker session, as they travel inside ``SessionBatch.frames``.

One batch is a msgpack array of frames; one frame is a msgpack array whose first element is the frame's tag and whose
other elements are the fields in the order given here. Fields are only ever appended, with a default, so that a peer
that knows fewer of them still reads the frame; a tag that a peer does not know is skipped and counted [WIRE-5].
Server and SDK meet in this module: both import it, neither imports the other.

Units: instants are integer milliseconds since the epoch in UTC, durations integer milliseconds. Values (inputs,
attribute values, messages, outputs) are canonical JSON bytes that the server never looks into; ``b""`` is "no value".
Attribute and Channel keys are the definition's name, or for a map ``name + "\0" + instance``.
"""

from typing import TypeAlias

import msgspec

PROTOCOL_MIN = 1
"""Oldest session protocol version this module can speak."""
PROTOCOL_MAX = 1
"""Newest session protocol version this module can speak."""

MAP_KEY_SEPARATOR = "\0"
"""Joins a map's name and an instance key; names and keys cannot contain it [ID-1]."""

TIMEOUT_HANDLER = "sys:timeout_handler"
"""Step type under which a Flow's ``handle_timeout`` is announced and called, with the method execute [TIME-3]."""

# Method of a call.
METHOD_WAIT_FOR = 0
METHOD_EXECUTE = 1
METHOD_RPC = 2

# Wait kinds.
WAIT_SKIP = 0
WAIT_ALL_OF = 1
WAIT_ANY_OF = 2
WAIT_ANY_COMBINATION = 3

# Condition kinds.
CONDITION_TIMER = 0
CONDITION_CHANNEL = 1
CONDITION_SUB_FLOW = 2

# What a SubFlow does with a child that exists already [SUB-6].
REUSE_RESTART_IF_PREVIOUS_EXITS_ABNORMALLY = 0
REUSE_ATTACH = 1
REUSE_ALWAYS_RESTART = 2

SUB_FLOW_PREFIX = "sys:sub:"
"""Begins the Flow IDs of children [SUB-2]."""

# Decision kinds.
DECISION_GO_TO = 0
DECISION_GRACEFUL_COMPLETE = 1
DECISION_FORCE_COMPLETE = 2
DECISION_FORCE_FAIL = 3
DECISION_DEAD_END = 4
DECISION_FORCE_COMPLETE_IF_CHANNELS_EMPTY = 5

# What happens when wait_for has no attempt left [OPT-3].
WAIT_FAILURE_FAIL_FLOW = 0
WAIT_FAILURE_PROCEED = 1

# When what follows a Step's result may leave the server [DUR-1, DUR-2].
DURABILITY_SYNC = 0
DURABILITY_ASYNC = 1

# Decline reasons.
DECLINE_NO_CAPACITY = "NO_CAPACITY"
DECLINE_UNKNOWN_STEP = "UNKNOWN_STEP"
DECLINE_UNKNOWN_RPC = "UNKNOWN_RPC"
DECLINE_UNKNOWN_FLOW = "UNKNOWN_FLOW"
DECLINE_DRAINING = "DRAINING"
DECLINE_UNDECODABLE = "UNDECODABLE"

# Cancel reasons.
CANCEL_STALE = "STALE"
"""The delivery is no longer current: somebody else has the call, or it is settled."""
CANCEL_FLOW_CLOSED = "FLOW_CLOSED"
CANCEL_STEP_CANCELED = "STEP_CANCELED"
CANCEL_TIMEOUT = "TIMEOUT"


class Token(msgspec.Struct, array_like=True, frozen=True, gc=False, cache_hash=True):
    """Names one delivery of one attempt [DELIV-2]; workers echo it and never interpret it.

    A worker looks each up several times.
    """

    run_id: str
    """First run of the chain that roll-over joins."""
    call: str
    """Step execution ID, or ``sys:rpc-<request id>`` for an RPC."""
    method: int
    attempt: int
    """From 1; of an RPC, which has one attempt only, a number that no other call of the server has."""
    delivery: int


class RetryPolicy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Delays and bounds of repeated attempts [RETRY-1..4]."""

    initial_interval_ms: int = 1000
    backoff_coefficient: float = 2.0
    maximum_interval_ms: int | None = None
    maximum_attempts: int = 0
    total_duration_ms: int | None = None
    jitter: float = 0.0


class RecoveryStep(msgspec.Struct, array_like=True, frozen=True):
    """The Step that is scheduled when execute has no attempt left [OPT-4]."""

    step_type: str
    has_wait_for: bool
    options: "StepOptions | None" = None


class StepOptions(msgspec.Struct, array_like=True, frozen=True):
    """Options fixed when a Step is scheduled [STEP-8]; None means the server's default at the time of use."""

    wait_for_timeout_ms: int | None = None
    execute_timeout_ms: int | None = None
    wait_for_retry: RetryPolicy | None = None
    execute_retry: RetryPolicy | None = None
    wait_for_failure: int = WAIT_FAILURE_FAIL_FLOW
    non_retryable_errors: tuple[str, ...] = ()
    """Qualified class names; a failure whose ``error_classes`` has one of them exhausts retries at once [RETRY-5]."""
    recovery: RecoveryStep | None = None
    heartbeat_timeout_ms: int | None = None
    """Longest time without a heartbeat since hand-over or the last one; None and 0 are off [HB-1]."""
    wait_for_durability: int | None = None
    execute_durability: int | None = None
    """DURABILITY_*; None means that of the Flow [CFG-3]."""
    priority: int | None = None
    """1 (first) to 5; None means that of the Flow [LIMIT-7.7]."""
    wait_for_locks: tuple[str, ...] = ()
    """Attribute keys that wait_for has locked [LOCK-1]."""
    execute_locks: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    """Names of Attributes and AttributeMaps whose values the worker fetches before the call [ATTR-7]."""


class RpcDescriptor(msgspec.Struct, array_like=True, frozen=True):
    """What the server must know of an RPC before it may hand out a call."""

    name: str
    locks: tuple[str, ...] = ()
    is_transactional: bool = False


class StepDescriptor(msgspec.Struct, array_like=True, frozen=True):
    """What the server must know of a start Step to schedule it."""

    step_type: str
    has_wait_for: bool
    options: StepOptions | None = None


INDEX_KEYWORD = 1
INDEX_FULL_TEXT = 2
INDEX_KEYWORD_ARRAY = 3
INDEX_INT = 4
INDEX_DOUBLE = 5
INDEX_BOOL = 6
INDEX_DATETIME = 7
"""Types of index values [ATTR-9]; a DATETIME is microseconds since the epoch in UTC."""


class IndexKey(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A key of search that the worker's code names, with the type it has on the whole server [ATTR-10]."""

    key: str
    type: int
    """INDEX_*."""


class IndexWrite(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The index value of an Attribute that is written; of several writes to one key the last one counts [ATTR-9]."""

    key: str
    type: int
    """INDEX_*."""
    value: str | int | float | bool | tuple[str, ...] | None = None
    """None deletes."""


class FlowDescriptor(msgspec.Struct, array_like=True, frozen=True):
    """What a worker can serve of one Flow type."""

    flow_type: str
    start_step: StepDescriptor | None
    step_types: tuple[str, ...] = ()
    rpc_names: tuple[str, ...] = ()
    rpcs: tuple[RpcDescriptor, ...] = ()
    """Those that lock Attributes or are transactional; the others need no more than their name."""


class RunningCall(msgspec.Struct, array_like=True, frozen=True):
    """A call that the worker still runs, or whose result it could not deliver, presented again in Hello [WIRE-10]."""

    stream: int
    queue: str
    token: Token


class Condition(msgspec.Struct, array_like=True, frozen=True):
    """One condition of a Wait. A timer has exactly one of ``duration_ms`` and ``at_ms``."""

    kind: int
    condition_id: str = ""
    duration_ms: int | None = None
    at_ms: int | None = None
    channel: str = ""
    at_least: int = 0
    """Messages needed before the condition can win."""
    at_most: int | None = None
    """Messages taken at most; None takes all that are queued."""


class FlowConfig(msgspec.Struct, array_like=True, frozen=True):
    """Settings of one execution; None leaves a field as it is [CFG-1]. Numbers are those of the proto message."""

    active_step_search_mode: int | None = None
    continue_as_new_threshold: int | None = None
    step_durability: int | None = None
    record_rpc_io: bool | None = None


class SubFlow(msgspec.Struct, array_like=True, frozen=True):
    """A child Flow of a Wait [SUB-1, SUB-7]; numbers are those of the proto message StartOptions."""

    flow_type: str
    start_step: "Movement"
    attributes: tuple[tuple[str, bytes], ...] = ()
    timeout_ms: int = 0
    timeout_policy: int = 0
    timeout_handler_options: StepOptions | None = None
    start_delay_ms: int = 0
    retry: RetryPolicy | None = None
    config: FlowConfig | None = None
    reuse_policy: int = REUSE_RESTART_IF_PREVIOUS_EXITS_ABNORMALLY
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of the initial Attributes."""


class Wait(msgspec.Struct, array_like=True, frozen=True):
    """What wait_for returned."""

    kind: int
    conditions: tuple[Condition, ...] = ()
    combinations: tuple[tuple[int, ...], ...] = ()
    """Only for WAIT_ANY_COMBINATION: groups of indexes into ``conditions``."""
    sub_flows: tuple[SubFlow, ...] = ()
    """One for each condition of the kind CONDITION_SUB_FLOW, in their order."""


class Movement(msgspec.Struct, array_like=True, frozen=True):
    """One Step to schedule."""

    step_type: str
    input: bytes
    has_wait_for: bool
    options: StepOptions | None = None


class Canceling(msgspec.Struct, array_like=True, frozen=True):
    """Which Step types a decision cancels, beside what it decides [DEC-9]."""

    step_types: tuple[str, ...] = ()
    """In the whole Flow."""
    sibling_types: tuple[str, ...] = ()
    """Only executions that have the same source as the deciding one."""


class Decision(msgspec.Struct, array_like=True, frozen=True):
    """What execute returned."""

    kind: int
    movements: tuple[Movement, ...] = ()
    output: bytes = b""
    """Completion output; ``b""`` adds no completion [DEC-7]."""
    reason: str = ""
    """Why, for DECISION_FORCE_FAIL."""
    canceling: Canceling | None = None
    channels: tuple[str, ...] = ()
    """Keys for DECISION_FORCE_COMPLETE_IF_CHANNELS_EMPTY, whose one movement is the fallback [DEC-4]."""


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """Why a handler failed. Texts are valid UTF-8 [OPT-6]."""

    error_type: str
    detail: str = ""
    stack: str = ""
    non_retryable: bool = False
    retry_after_ms: int | None = None
    error_classes: tuple[str, ...] = ()
    """Qualified names of the exception's class and its bases."""


class SubFlowResult(msgspec.Struct, array_like=True, frozen=True):
    """How a child ended, or that it runs [SUB-5]."""

    flow_id: str
    status: str
    """A name of FLOW-6."""
    error_type: str = ""
    """A name of FLOW-9; set for FAILED."""
    error_message: str = ""
    completions: tuple[tuple[str, str, bytes], ...] = ()
    """Step type, Step execution ID and output, in the order in which they were accepted [DEC-7]."""


class ConditionResult(msgspec.Struct, array_like=True, frozen=True):
    """How one condition of the Wait ended, in declaration order [WAIT-9, WAIT-11]."""

    kind: int
    condition_id: str
    met: bool
    """A timer fired or was skipped; a Channel condition won."""
    channel: str = ""
    values: tuple[bytes, ...] = ()
    minimum: int = 0
    """How many of ``values`` the first pass over the queue took, which orders them across conditions [WAIT-8]."""
    sub_flow: SubFlowResult | None = None


class RecoveryError(msgspec.Struct, array_like=True, frozen=True):
    """The failure that a recovery Step, or an execute after a failed wait_for, sees."""

    error_type: str
    detail: str


# ---- worker -> server -------------------------------------------------------------------------------------------


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """First frame of a session [WIRE-4]."""

    protocol_min: int
    protocol_max: int
    worker_id: str
    incarnation: str
    sdk_name: str
    sdk_version: str
    max_concurrent_tasks: int
    reserved_rpc_tasks: int
    flows: tuple[FlowDescriptor, ...]
    running: tuple[RunningCall, ...] = ()
    index_keys: tuple[IndexKey, ...] = ()
    """Each key once."""


class OpenStream(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Registers a logical stream on one queue. Stream numbers are the worker's, > 0, unique while open in a session."""

    stream: int
    queue: str


class CloseStream(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Asks to close an idle stream; answered by StreamClosed. An Assign that crossed it is declined by the worker."""

    stream: int


class Decline(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """The worker will not run the call; no handler was started. The stream is idle again."""

    stream: int
    token: Token
    reason: str


class Accepted(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """The handler has started [DELIV-3]. Not needed when Output or Failure follows within the accept timeout."""

    stream: int
    token: Token


class Output(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """A handler's whole result: all of it is applied in one commit, or none [GEN-5]. The stream is idle again.

    ``wait`` is set for wait_for, ``decision`` for execute; ``output`` and ``next_steps`` belong to an RPC.
    """

    stream: int
    token: Token
    wait: Wait | None = None
    decision: Decision | None = None
    writes: tuple[tuple[str, bytes | None], ...] = ()
    """Attribute key and value in call order; None deletes."""
    publications: tuple[tuple[str, bytes], ...] = ()
    locals: tuple[tuple[str, bytes], ...] = ()
    recorded: tuple[tuple[str, bytes], ...] = ()
    output: bytes = b""
    next_steps: tuple[Movement, ...] = ()
    deletions: tuple[tuple[str, str], ...] = ()
    """Channel key and message ID of pending messages to delete [CHAN-8]."""
    canceling: tuple[str, ...] = ()
    """Step types that an RPC cancels [RPC-2]."""
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of what ``writes`` changes."""


class Failed(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """The handler raised, or its result could not be encoded. The stream is idle again."""

    stream: int
    token: Token
    failure: Failure


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """A running handler lives. Workers send at most a few in a second and the newest value only [HB-2]."""

    stream: int
    token: Token
    value: bytes = b""
    """For the next attempt, at most 64 KiB; ``b""`` is none, and clears an earlier one [HB-3]."""


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """Echoes a Ping's nonce, or carries 0 when sent unasked while a call runs [WIRE-7]."""

    nonce: int


class Goodbye(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """The worker takes no more calls on this session; running ones still answer [DRAIN-1]."""


class Fetch(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """A running handler reads what its Assign only refers to [ATTR-7], or a Channel's messages [CHAN-8]."""

    fetch: int
    """Chosen by the worker, unique among its unanswered ones."""
    token: Token
    key: str
    """Attribute or Channel key."""
    is_channel: bool = False
    offset: int = 0
    """Attribute: how many bytes of the value the worker has."""
    after: str = ""
    """Channel: ID of the last message that the worker has."""


# ---- server -> worker -------------------------------------------------------------------------------------------


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Answer to Hello."""

    protocol: int
    server_id: str
    ping_interval_ms: int
    max_streams: int
    """Streams allowed for this app worker ID, over all its sessions [QUEUE-3]."""
    max_frame_bytes: int


class StreamOpened(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """The stream is registered; the acknowledgement that readiness waits for."""

    stream: int


class StreamRejected(msgspec.Struct, array_like=True, frozen=True, tag=34):
    """The stream is not registered [QUEUE-4]."""

    stream: int
    code: str
    """gRPC status code name."""
    reason: str
    """Stable UPPER_SNAKE code."""
    message: str
    permanent: bool


class Assign(msgspec.Struct, array_like=True, frozen=True, tag=35):
    """One call for an idle stream, with the snapshot its handler works on [ATTR-6, ATTR-8]."""

    stream: int
    token: Token
    flow_id: str
    flow_type: str
    name: str
    """Step type or RPC name."""
    input: bytes
    ordinal: int
    flow_started_at: int
    first_attempt_at: int
    deadline: int
    """When this delivery's method timeout ends."""
    from_step: str = ""
    attributes: dict[str, bytes] = {}
    channel_sizes: dict[str, int] = {}
    """Channels with at least one message."""
    results: tuple[ConditionResult, ...] = ()
    locals: dict[str, bytes] = {}
    recovery_error: RecoveryError | None = None
    wait_for_failed: bool = False
    heartbeat: bytes = b""
    """Newest heartbeat value of earlier deliveries and attempts of this method; ``b""`` is none [HB-2]."""
    heartbeat_timeout_ms: int = 0
    """The handler must send a heartbeat at least this often; 0 is never [HB-1]."""
    references: tuple[str, ...] = ()
    """Attributes that are set and too large to come along; Fetch gives their values as of now [ATTR-7]."""
    preload: tuple[str, ...] = ()
    """Names of Attributes and maps among them that a Step wants fetched before it is called."""
    run_id: str = ""
    """The run at hand-over; ``""`` is that of the token, the first one of the chain [ROLL-4]."""
    scheduled_at: int = 0
    """Instant of the fire of a schedule that started the execution, without its jitter; 0 if none did."""


class Fetched(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """Answer to Fetch: the next bytes of a value, or messages, oldest first."""

    fetch: int
    token: Token
    data: bytes = b""
    messages: tuple[tuple[str, bytes, int], ...] = ()
    """Message ID, value and instant of publication."""
    has_more: bool = False
    refusal: str = ""
    """Set instead of the rest: STALE when the delivery is not current any more, or NOT_WITHHELD."""


class Cancel(msgspec.Struct, array_like=True, frozen=True, tag=36):
    """The result of this delivery is not wanted any more; the handler should stop.

    ``grace_ms`` is how long it may clean up before its slot is released by force [STOP-4].
    """

    stream: int
    token: Token
    reason: str
    grace_ms: int = 0


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=37):
    """To be echoed at once by Pong."""

    nonce: int


class Reconnect(msgspec.Struct, array_like=True, frozen=True, tag=38):
    """The server goes away, or the session is old: take no calls, finish those that run, connect again [DRAIN-3].

    A worker that does not go is cut off after a while; it comes back with the calls that still run [WIRE-10].
    """

    reason: str


class StreamClosed(msgspec.Struct, array_like=True, frozen=True, tag=39):
    """The stream is gone; its number may be used again."""

    stream: int


class Ack(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """An Output or Failed was settled: applied and committed, or refused [WIRE-10, DELIV-2].

    Until it comes the worker keeps the result and presents it again on its next session.
    """

    stream: int
    token: Token
    accepted: bool
    reason: str = ""
    """Why it was refused: STALE, FLOW_CLOSED or an UPPER_SNAKE rejection code."""


WorkerFrame: TypeAlias = (
    Hello | OpenStream | CloseStream | Decline | Accepted | Output | Failed | Heartbeat | Pong | Goodbye | Fetch
)
ServerFrame: TypeAlias = (
    Welcome | StreamOpened | StreamRejected | Assign | Cancel | Ping | Reconnect | StreamClosed | Ack | Fetched
)
