"""gRPC statuses as the SDK reads them: code, stable reason and facts [ERR-A]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from dexsdk.errors import DexServiceError, error_from_status

PERMANENT_CODES = frozenset(
    {
        "INVALID_ARGUMENT",
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
    }
)
"""Codes after which trying again will not help by itself [QUEUE-4]; RESOURCE_EXHAUSTED is one for a cap only."""

_CODE_NAMES: Mapping[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}
STATUS_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """How a call ended."""

    code: str
    """gRPC status code name."""
    message: str
    reason: str = ""
    """UPPER_SNAKE code of its ErrorInfo, ``""`` without one."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_error(self, operation: str, flow_id: str | None = None) -> DexServiceError:
        """Give the exception that users see [ERR-1]."""
        return error_from_status(self.code, self.reason, self.message, self.metadata, operation, flow_id)


def status_of_call(error: grpc.RpcError) -> RemoteStatus:
    """Read the status with which a call ended."""
    # The error that a call raises is the call itself, which only the interface of Call declares.
    call = cast(grpc.Call, error)
    for key, value in call.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            return _from_bytes(call.code().name, call.details() or "", value)
    return RemoteStatus(call.code().name, call.details() or "")


def status_of_reply(code: int, status: bytes) -> RemoteStatus:
    """Read the status of one refused request of a client session."""
    return _from_bytes(_CODE_NAMES.get(code, "UNKNOWN"), "", status)


def _from_bytes(code: str, message: str, data: bytes) -> RemoteStatus:
    info = ErrorInfo()
    try:
        status = Status.FromString(data)
        for detail in status.details:
            if detail.Unpack(info):
                break
    except DecodeError:
        return RemoteStatus(code, message)
    return RemoteStatus(code, status.message or message, info.reason, dict(info.metadata))
