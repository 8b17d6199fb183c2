"""THE error table: refusal code to gRPC status, cause and remedy [ARCH-7, ERR-A].

docs/errors.md is generated from it. Every refusal leaves the server as a google.rpc.Status with an ErrorInfo, whose
reason is the stable code, and a RetryInfo where a retry may help.
"""

from collections.abc import Mapping
from typing import Final, Never

import grpc
import msgspec
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from dexd.core.rejections import Code, Rejection

ERROR_DOMAIN: Final = "dexd"
"""ErrorInfo.domain of everything this server refuses."""

STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"
"""Trailer in which gRPC peers look for the google.rpc.Status."""

MESSAGE_BYTES_MAX: Final = 1_024
"""UTF-8 bytes of a message in a trailer; percent-encoding can treble them."""
DETAILS_BYTES_MAX: Final = 3_072
"""Serialized Status in a trailer; base64 adds a third. With the message that stays below the 8 KiB of headers that
a gRPC peer takes by default; a status above it would arrive as an unreadable call."""


class ErrorRow(msgspec.Struct, frozen=True):
    """One row of the error table."""

    status: grpc.StatusCode
    cause: str
    remedy: str


_S = grpc.StatusCode

ERROR_TABLE: Final[Mapping[Code, ErrorRow]] = {
    Code.FLOW_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "No execution of that Flow ID is retained.",
        "Check the Flow ID; start the Flow, or look whether its retention is over.",
    ),
    Code.FLOW_NOT_ACTIVE: ErrorRow(
        _S.FAILED_PRECONDITION,
        "The call needs an active Flow and this one is closed, or the run ID given is not that of the current run.",
        "Read its result with describe or wait_for_flow; start another execution if the reuse policy allows it.",
    ),
    Code.FLOW_ALREADY_STARTED: ErrorRow(
        _S.ALREADY_EXISTS,
        "The Flow ID is in use and the ID reuse policy of the start refuses another execution.",
        "Use the execution named in the metadata, another Flow ID, or another ID reuse policy.",
    ),
    Code.REQUEST_CONFLICT: ErrorRow(
        _S.ALREADY_EXISTS,
        "The request ID was used before for a request with other content.",
        "Use a fresh request ID for each request, and the same one only to repeat it unchanged.",
    ),
    Code.INVALID_ARGUMENT: ErrorRow(
        _S.INVALID_ARGUMENT,
        "A field is outside its allowed range.",
        "Correct the field that the message names; nothing was stored.",
    ),
    Code.UNKNOWN_FLOW_TYPE: ErrorRow(
        _S.FAILED_PRECONDITION,
        "The caller left it to the server how the Flow begins, and no worker has registered that Flow type.",
        "Check the Flow type; start a worker that registers it, or start the Flow from code that has its definition.",
    ),
    Code.VALUE_TOO_LARGE: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "A value, a message or their sum exceeds a limit; the message names what, its size and the limit.",
        "Send less at once, or keep large data elsewhere and pass a reference.",
    ),
    Code.BLOB_NOT_UPLOADED: ErrorRow(
        _S.INVALID_ARGUMENT,
        "A reference to a large value that this session has not uploaded within the last day, and that was not handed "
        "to it with the call.",
        "Upload the value first, under the same dex-session key; the SDK does that by itself.",
    ),
    Code.BLOB_MISMATCH: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The bytes of an upload have another SHA-256 or another number than was announced.",
        "Correct the client library; nothing was stored.",
    ),
    Code.BLOB_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "No large value of that digest is stored.",
        "The last Flow that referred to it was deleted, or nobody ever did within a day of its upload.",
    ),
    Code.CHANNEL_FULL: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "The execution's unconsumed messages reached their limit.",
        "Publish again after the Flow has consumed some; look why it does not.",
    ),
    Code.CHANNEL_MESSAGE_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "The Channel has no pending message of that ID.",
        "List the Channel's messages; one that was consumed cannot be deleted any more.",
    ),
    Code.NO_WORKER_AVAILABLE: ErrorRow(
        _S.UNAVAILABLE,
        "No worker took the call within the dispatch wait, or none knows the RPC.",
        "Start a worker with this Flow type, or repeat later; raise matching.dispatch_wait if workers start slowly.",
    ),
    Code.WORKER_API_ERROR: ErrorRow(
        _S.FAILED_PRECONDITION,
        "The RPC handler raised; none of its effects were applied.",
        "Read worker_error_type, worker_error_detail and worker_stack in the metadata and correct the handler.",
    ),
    Code.RPC_LOCK_CONFLICT: ErrorRow(
        _S.ABORTED,
        "An Attribute that the RPC locks is locked by the call that the message names; the handler was not called.",
        "Call again later: RPCs never wait for locks.",
    ),
    Code.RPC_TIMEOUT: ErrorRow(
        _S.DEADLINE_EXCEEDED,
        "The RPC handler did not answer in time; a late result is refused.",
        "Make the handler faster or its timeout longer, up to 60 s.",
    ),
    Code.LONG_POLL_TIMEOUT: ErrorRow(
        _S.DEADLINE_EXCEEDED,
        "A wait ran out and nothing changed in the Flow.",
        "Wait again; waiting changes nothing.",
    ),
    Code.STEP_NOT_FOUND: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The text is not a Step execution ID.",
        "Use <StepType>-<n>, as shown in the Flow's history.",
    ),
    Code.STEP_NOT_WAITING: ErrorRow(
        _S.FAILED_PRECONDITION,
        "The Step execution has ended, or is past its Wait and the timer had not fired.",
        "Look at the Flow's history; there is nothing left to skip.",
    ),
    Code.TIMER_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "The Wait of the Step execution has no Timer with that condition ID or index.",
        "Use a condition ID or an index from 0 among the Timers of the Wait, as shown in the Flow's history.",
    ),
    Code.BATCH_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "There is no batch job of that ID.",
        "Check the ID with `dex flow batch list`.",
    ),
    Code.SCHEDULE_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "No schedule of that ID exists, or it was deleted.",
        "Check the ID with `dex schedule list`.",
    ),
    Code.SCHEDULE_ALREADY_EXISTS: ErrorRow(
        _S.ALREADY_EXISTS,
        "A schedule of that ID exists already.",
        "Update it, delete it first, or choose another ID.",
    ),
    Code.TIME_TRAVEL_POINT_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "No retained run of the execution has the point that the time travel names.",
        "Choose a point from the history of a retained run; the metadata has the oldest reachable instant.",
    ),
    Code.TIME_TRAVEL_OUTRUN: ErrorRow(
        _S.ABORTED,
        "The Flow got external writes without any pause while the time travel was prepared; nothing has changed.",
        "Try again when fewer writes come, or do not have them applied again (skip_writes_reapply).",
    ),
    Code.PROTOCOL_MISMATCH: ErrorRow(
        _S.FAILED_PRECONDITION,
        "The protocol version intervals of worker and server do not meet.",
        "Upgrade the older side; the message names both intervals.",
    ),
    Code.PROTOCOL_VIOLATION: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The peer broke a rule of the session protocol.",
        "Correct the client library; the message names the rule.",
    ),
    Code.WORKER_ID_SUPERSEDED: ErrorRow(
        _S.ABORTED,
        "A newer process registered with the same app worker ID.",
        "Give every worker process its own app worker ID, or leave it unset.",
    ),
    Code.INVALID_WORKER_ID: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The app worker ID is empty, too long, or has control characters.",
        "Use 1 to 255 printable characters, or leave it unset.",
    ),
    Code.WORKER_NOT_FOUND: ErrorRow(
        _S.NOT_FOUND,
        "No worker with that app worker ID is connected.",
        "Look the IDs up with `dex workers list`; an ID names one process and changes when it restarts.",
    ),
    Code.MAX_CONCURRENT_TASKS_EXCEEDED: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "The worker asks for more concurrent tasks than the server allows one worker.",
        "Lower max_concurrent_tasks, or raise matching.max_concurrent_tasks_cap.",
    ),
    Code.MAX_FLOW_TYPES_EXCEEDED: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "The worker registers more Flow types than the server allows one worker.",
        "Split the Flow types over several workers, or raise matching.max_flow_types.",
    ),
    Code.FLOW_TYPE_TOO_LONG: ErrorRow(
        _S.INVALID_ARGUMENT,
        "A Flow type is longer than the server allows.",
        "Shorten the Flow type, or raise matching.max_flow_type_length.",
    ),
    Code.QUEUE_NAME_TOO_LONG: ErrorRow(
        _S.INVALID_ARGUMENT,
        "A queue name is longer than the server allows.",
        "Shorten the app worker ID or Flow type, or raise matching.max_queue_length.",
    ),
    Code.QUEUE_NOT_SERVED: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The queue is neither the worker's own nor that of a Flow type in its Hello.",
        "Open streams only on the worker queue and on the registered Flow types.",
    ),
    Code.STREAM_EXISTS: ErrorRow(
        _S.ALREADY_EXISTS,
        "The stream number is already open in this session.",
        "Number the streams of a session without repetition.",
    ),
    Code.MAX_STREAMS_PER_WORKER_EXCEEDED: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "The app worker ID holds as many streams as the server allows one worker.",
        "Register fewer Flow types or keep fewer idle streams, or raise matching.max_concurrent_tasks_cap.",
    ),
    Code.MAX_STREAMS_EXCEEDED: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "All workers together hold as many streams as the server allows.",
        "Run fewer workers or keep fewer idle streams, or raise matching.max_streams.",
    ),
    Code.SESSION_TIMEOUT: ErrorRow(
        _S.UNAVAILABLE,
        "The worker did not answer a ping, or did not read, within the pong timeout.",
        "Connect again; look for a blocked process or a connection that lets only one direction through.",
    ),
    Code.SESSION_EXPIRED: ErrorRow(
        _S.UNAVAILABLE,
        "The session reached matching.session_max_age, and its worker did not go when it was asked to reconnect.",
        "Connect again and present what runs; nothing is lost.",
    ),
    Code.MAILBOX_FULL: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "Too many requests wait in the server.",
        "Repeat after the delay in RetryInfo.",
    ),
    Code.SHUTTING_DOWN: ErrorRow(
        _S.UNAVAILABLE,
        "The server is stopping.",
        "Repeat with the same request ID after the delay in RetryInfo.",
    ),
    Code.STORAGE_UNAVAILABLE: ErrorRow(
        _S.UNAVAILABLE,
        "The log cannot be written now; nothing was applied.",
        "Repeat with the same request ID later; look at the server's log for the reason.",
    ),
    Code.DISK_FULL: ErrorRow(
        _S.RESOURCE_EXHAUSTED,
        "The server's disk is full; reads go on.",
        "Make space on the server; writes resume by themselves. Then repeat with the same request ID.",
    ),
    Code.INVALID_QUERY: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The text is no search query, names an unknown field, or compares what cannot be compared; or a page token is "
        "not one that this server gave for this query.",
        "Correct the query at the position in the metadata; docs/search.md has the grammar.",
    ),
    Code.QUERY_TOO_SLOW: ErrorRow(
        _S.DEADLINE_EXCEEDED,
        "A search took longer than 5 s.",
        "Narrow the query by FlowType, Status, StartTime or an index key.",
    ),
    Code.INDEX_TYPE_CONFLICT: ErrorRow(
        _S.FAILED_PRECONDITION,
        "An index key has one type on the whole server, and another in the code of this worker or client.",
        "Use another index_key, or the type that the message names.",
    ),
    Code.UNKNOWN_METHOD: ErrorRow(
        _S.UNIMPLEMENTED,
        "A client session asked for a method that does not exist.",
        "Use a name of FlowService; upgrade the server if the method is newer.",
    ),
    Code.INTERNAL: ErrorRow(
        _S.INTERNAL,
        "A bug of the server.",
        "Report it with the server's log; whether the call had effect is shown by the Flow's history.",
    ),
    Code.MALFORMED: ErrorRow(
        _S.INVALID_ARGUMENT,
        "The bytes are not a message of the type expected.",
        "Correct the client library, or look for a proxy that changes bytes.",
    ),
}


def status_of(rejection: Rejection) -> Status:
    """The refusal as a google.rpc.Status with its details, nothing cut."""
    status = Status(code=grpc_code(rejection), message=_utf8(rejection.message))
    info = ErrorInfo(
        reason=rejection.code,
        domain=ERROR_DOMAIN,
        metadata={key: _utf8(text) for key, text in rejection.fields.items()},
    )
    status.details.append(_packed(info))
    if rejection.retry_after_ms is not None:
        delay = Duration()
        delay.FromMilliseconds(rejection.retry_after_ms)
        status.details.append(_packed(RetryInfo(retry_delay=delay)))
    return status


def grpc_code(rejection: Rejection) -> int:
    """The numeric gRPC status code."""
    number: int = ERROR_TABLE[rejection.code].status.value[0]
    return number


def status_name(rejection: Rejection) -> str:
    """The gRPC status code name."""
    return ERROR_TABLE[rejection.code].status.name


def trailer_status_of(rejection: Rejection) -> Status:
    """The same, cut to what fits into a trailer: first the longest metadata, as a handler's stack, then the message."""
    message = _cut(rejection.message, MESSAGE_BYTES_MAX)
    fields = {key: _utf8(text) for key, text in rejection.fields.items()}
    budget = DETAILS_BYTES_MAX - MESSAGE_BYTES_MAX
    while sum(len(key) + len(text.encode()) for key, text in fields.items()) > budget:
        longest = max(fields, key=lambda key: len(fields[key].encode()))
        # Halving ends after a few rounds and leaves the short facts, ids and limits, whole.
        fields[longest] = _cut(fields[longest], len(fields[longest].encode()) // 2)
    return status_of(Rejection(rejection.code, message, fields, rejection.retry_after_ms))


async def abort(context: grpc.aio.ServicerContext[bytes, bytes], rejection: Rejection) -> Never:
    """End a call with the refusal; raises what gRPC uses to leave the handler."""
    status = trailer_status_of(rejection)
    await context.abort(
        ERROR_TABLE[rejection.code].status, status.message, ((STATUS_DETAILS_KEY, status.SerializeToString()),)
    )


def internal_error(error: BaseException) -> Rejection:
    """The refusal for a bug; what went wrong is in the server's log, not in the answer [ERR-3]."""
    structlog.get_logger().error("call_failed", exc_info=error)
    return Rejection(Code.INTERNAL, "the server failed to answer; its log has the reason")


def _packed(message: ErrorInfo | RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def _utf8(text: str) -> str:
    """Text that protobuf can carry: lone surrogates become question marks."""
    return text.encode(errors="replace").decode()


def _cut(text: str, bytes_max: int) -> str:
    encoded = text.encode(errors="replace")
    return encoded.decode() if len(encoded) <= bytes_max else encoded[: bytes_max - 3].decode(errors="ignore") + "..."
