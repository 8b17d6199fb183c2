"""Exit codes of `dex` [SURF-20]."""

from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from dexd.api.status import ERROR_TABLE
from dextools.cli.errors import (
    EXIT_CODE_BY_REASON,
    EXIT_CODE_BY_STATUS,
    STATUS_DETAILS_KEY,
    ExitCode,
    command_error_of,
)


class RefusedCall(grpc.RpcError):
    """What a stub raises."""

    def __init__(self, status: grpc.StatusCode, details: str, reason: str = "") -> None:
        super().__init__()
        self._status = status
        self._details = details
        self._reason = reason

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        if not self._reason:
            return ()
        packed = AnyMessage()
        packed.Pack(ErrorInfo(reason=self._reason, metadata={"run_id": "r1"}))
        return ((STATUS_DETAILS_KEY, Status(details=[packed]).SerializeToString()),)


def test_every_grpc_status_has_an_exit_code() -> None:
    """[SURF-20] a script never meets an unmapped status."""
    assert set(EXIT_CODE_BY_STATUS) == set(grpc.StatusCode)


def test_special_reasons_exist_in_the_error_table() -> None:
    """[ERR-A] no exit code for a code that the server does not have."""
    assert set(EXIT_CODE_BY_REASON) <= set(ERROR_TABLE)


@pytest.mark.parametrize(
    ("status", "reason", "exit_code"),
    [
        (grpc.StatusCode.NOT_FOUND, "FLOW_NOT_FOUND", ExitCode.NOT_FOUND),
        (grpc.StatusCode.ALREADY_EXISTS, "FLOW_ALREADY_STARTED", ExitCode.CONFLICT),
        (grpc.StatusCode.FAILED_PRECONDITION, "FLOW_NOT_ACTIVE", ExitCode.CONFLICT),
        (grpc.StatusCode.FAILED_PRECONDITION, "WORKER_API_ERROR", ExitCode.FAILED),
        (grpc.StatusCode.FAILED_PRECONDITION, "UNKNOWN_FLOW_TYPE", ExitCode.NOT_FOUND),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", ExitCode.USAGE),
        (grpc.StatusCode.UNAVAILABLE, "NO_WORKER_AVAILABLE", ExitCode.UNAVAILABLE),
    ],
)
def test_a_refusal_keeps_its_code_and_facts(status: grpc.StatusCode, reason: str, exit_code: ExitCode) -> None:
    """[SURF-20, ERR-A] reason and metadata of the server reach the script."""
    error = command_error_of(RefusedCall(status, "the message", reason), "host:1")
    assert (error.exit_code, error.code, error.metadata) == (exit_code, reason, {"run_id": "r1"})
    assert error.message == "the message"


def test_a_failure_of_the_transport_names_the_server() -> None:
    """[SURF-20] exit code 5, and which address was tried."""
    error = command_error_of(RefusedCall(grpc.StatusCode.UNAVAILABLE, "connection refused"), "host:1")
    assert (error.exit_code, error.code) == (ExitCode.UNAVAILABLE, "UNAVAILABLE")
    assert error.message == "host:1: connection refused"
