"""What can go wrong in a `dex` call, and the exit code it gives [SURF-20]."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status


class ExitCode(IntEnum):
    """How a call ended, for scripts."""

    OK = 0
    """The call did what it was asked."""
    FAILED = 1
    """The call was understood and failed, or a Flow did not complete."""
    USAGE = 2
    """The command line is wrong, or the server refused a value in it."""
    NOT_FOUND = 3
    """The Flow, run, Step or file does not exist."""
    CONFLICT = 4
    """The state of the Flow does not allow it: started already, closed, other content under the same request ID."""
    UNAVAILABLE = 5
    """No server, no worker or no capacity in time; the same call may work later."""


EXIT_CODE_BY_STATUS: Mapping[grpc.StatusCode, ExitCode] = {
    grpc.StatusCode.OK: ExitCode.OK,
    grpc.StatusCode.CANCELLED: ExitCode.FAILED,
    grpc.StatusCode.UNKNOWN: ExitCode.FAILED,
    grpc.StatusCode.INVALID_ARGUMENT: ExitCode.USAGE,
    grpc.StatusCode.DEADLINE_EXCEEDED: ExitCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND: ExitCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS: ExitCode.CONFLICT,
    grpc.StatusCode.PERMISSION_DENIED: ExitCode.FAILED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ExitCode.UNAVAILABLE,
    grpc.StatusCode.FAILED_PRECONDITION: ExitCode.CONFLICT,
    grpc.StatusCode.ABORTED: ExitCode.CONFLICT,
    grpc.StatusCode.OUT_OF_RANGE: ExitCode.USAGE,
    grpc.StatusCode.UNIMPLEMENTED: ExitCode.FAILED,
    grpc.StatusCode.INTERNAL: ExitCode.FAILED,
    grpc.StatusCode.UNAVAILABLE: ExitCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS: ExitCode.FAILED,
    grpc.StatusCode.UNAUTHENTICATED: ExitCode.FAILED,
}
"""Total over gRPC's codes; a unit test holds it to that."""

EXIT_CODE_BY_REASON: Mapping[str, ExitCode] = {
    "UNKNOWN_FLOW_TYPE": ExitCode.NOT_FOUND,
    "WORKER_API_ERROR": ExitCode.FAILED,
    "VALUE_TOO_LARGE": ExitCode.USAGE,
}
"""Reasons whose gRPC code alone would say the wrong thing: a handler that raised is no conflict of states, and a value
that is too large does not get smaller by waiting."""

STATUS_DETAILS_KEY = "grpc-status-details-bin"
"""Trailer that carries the google.rpc.Status of a refusal."""


class CommandError(Exception):
    """Ends the call with a message on stderr and an exit code."""

    def __init__(
        self, message: str, exit_code: ExitCode, *, code: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.code = code or exit_code.name
        """Stable UPPER_SNAKE reason: the server's own, or the name of the exit code."""
        self.metadata = dict(metadata or {})


def usage_error(message: str) -> CommandError:
    """A mistake in the command line that the parser could not see."""
    return CommandError(message, ExitCode.USAGE)


def command_error_of(error: grpc.RpcError, server: str) -> CommandError:
    """Say what a refused or failed call means for the caller."""
    # Every error that a stub raises is also the call itself; the type information does not say so.
    call: Any = error
    status: grpc.StatusCode = call.code()
    reason, metadata = _error_info(call.trailing_metadata() or ())
    exit_code = EXIT_CODE_BY_REASON.get(reason, EXIT_CODE_BY_STATUS[status])
    details = call.details() or status.name
    # A refusal speaks for itself; a transport failure needs to say which server it was about.
    message = details if reason else f"{server}: {details}"
    return CommandError(message, exit_code, code=reason or status.name, metadata=metadata)


def _error_info(trailers: Iterable[tuple[str, Any]]) -> tuple[str, dict[str, str]]:
    """Give reason and metadata of the refusal, both empty when the server was not the one that answered."""
    info = ErrorInfo()
    for key, data in trailers:
        if key == STATUS_DETAILS_KEY and any(detail.Unpack(info) for detail in Status.FromString(data).details):
            return info.reason, dict(info.metadata)
    return "", {}
