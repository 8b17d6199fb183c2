"""Expected refusals: values with a stable code, never exceptions [ARCH-7].

`dexd.api.status` maps every code to a gRPC status in one table; docs/errors.md is generated from the two.
"""

from enum import StrEnum

import msgspec


class Code(StrEnum):
    """Stable refusal codes; the name is the ErrorInfo reason [ERR-A]."""

    FLOW_NOT_FOUND = "FLOW_NOT_FOUND"
    """No execution of that Flow ID is retained."""
    FLOW_NOT_ACTIVE = "FLOW_NOT_ACTIVE"
    """The call needs an active Flow and this one is closed, or the run given is not the current one."""
    FLOW_ALREADY_STARTED = "FLOW_ALREADY_STARTED"
    """The reuse policy refuses another start [START-5]."""
    REQUEST_CONFLICT = "REQUEST_CONFLICT"
    """The request ID was used before with other content."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """A field is outside its allowed range; the message names it."""
    UNKNOWN_FLOW_TYPE = "UNKNOWN_FLOW_TYPE"
    """No worker has said how this Flow type begins, and the caller did not say it either."""
    VALUE_TOO_LARGE = "VALUE_TOO_LARGE"
    """A value or message exceeds its limit."""
    CHANNEL_FULL = "CHANNEL_FULL"
    """The execution's pending messages reached their limit [CHAN-10]."""
    NO_WORKER_AVAILABLE = "NO_WORKER_AVAILABLE"
    """No worker took the call within the dispatch wait [ROUTE-4]."""
    WORKER_API_ERROR = "WORKER_API_ERROR"
    """The RPC handler failed; metadata carries its error type and detail."""
    RPC_TIMEOUT = "RPC_TIMEOUT"
    """The RPC handler did not answer in time [RPC-7]."""
    LONG_POLL_TIMEOUT = "LONG_POLL_TIMEOUT"
    """A wait ran out and nothing changed."""
    STEP_NOT_FOUND = "STEP_NOT_FOUND"
    """The text is not a Step execution ID."""
    STEP_NOT_WAITING = "STEP_NOT_WAITING"
    """The Step execution has ended, or its Wait is over, or it has none."""
    TIMER_NOT_FOUND = "TIMER_NOT_FOUND"
    """The installed Wait has no such Timer."""
    PROTOCOL_MISMATCH = "PROTOCOL_MISMATCH"
    """The protocol version intervals of worker and server do not meet [WIRE-4]."""
    PROTOCOL_VIOLATION = "PROTOCOL_VIOLATION"
    """The peer broke a rule of the session protocol."""
    WORKER_ID_SUPERSEDED = "WORKER_ID_SUPERSEDED"
    """A newer process took this app worker ID [QUEUE-2]."""
    INVALID_WORKER_ID = "INVALID_WORKER_ID"
    """The app worker ID is empty, too long or has control characters."""
    WORKER_NOT_FOUND = "WORKER_NOT_FOUND"
    """No worker with that app worker ID is connected."""
    MAX_CONCURRENT_TASKS_EXCEEDED = "MAX_CONCURRENT_TASKS_EXCEEDED"
    """The worker asks for more concurrent tasks than matching.max_concurrent_tasks_cap [QUEUE-5]."""
    MAX_FLOW_TYPES_EXCEEDED = "MAX_FLOW_TYPES_EXCEEDED"
    """The worker registers more Flow types than matching.max_flow_types."""
    FLOW_TYPE_TOO_LONG = "FLOW_TYPE_TOO_LONG"
    """A Flow type is longer than matching.max_flow_type_length."""
    QUEUE_NAME_TOO_LONG = "QUEUE_NAME_TOO_LONG"
    """A queue name is longer than matching.max_queue_length."""
    QUEUE_NOT_SERVED = "QUEUE_NOT_SERVED"
    """The queue is neither the worker's own nor one of the Flow types of its Hello."""
    STREAM_EXISTS = "STREAM_EXISTS"
    """The stream number is already open in this session."""
    MAX_STREAMS_PER_WORKER_EXCEEDED = "MAX_STREAMS_PER_WORKER_EXCEEDED"
    """The app worker ID has matching.max_concurrent_tasks_cap streams already."""
    MAX_STREAMS_EXCEEDED = "MAX_STREAMS_EXCEEDED"
    """The node has matching.max_streams streams already."""
    SESSION_TIMEOUT = "SESSION_TIMEOUT"
    """The worker did not answer a ping, or did not read, within matching.pong_timeout."""
    MAILBOX_FULL = "MAILBOX_FULL"
    """Too many requests wait in the server; try again later [ARCH-8]."""
    SHUTTING_DOWN = "SHUTTING_DOWN"
    """The server is stopping; try again later."""
    STORAGE_UNAVAILABLE = "STORAGE_UNAVAILABLE"
    """The log cannot be written now; nothing was applied [ARCH-4]."""
    DISK_FULL = "DISK_FULL"
    """The disk is full; reads go on, writes resume when there is space [ERR-2]."""
    UNKNOWN_METHOD = "UNKNOWN_METHOD"
    """A client session asked for a method that does not exist."""
    MALFORMED = "MALFORMED"
    """The bytes are not a message of that type."""
    INTERNAL = "INTERNAL"
    """A bug of the server; nothing is promised about the call."""


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """A refusal: nothing at all was stored [GEN-2]."""

    code: Code
    message: str
    fields: dict[str, str] = {}
    """What ErrorInfo.metadata carries: ids, expected, found."""
    retry_after_ms: int | None = None
    """When a retry may help; becomes RetryInfo."""
