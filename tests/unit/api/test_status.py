"""The error table [ARCH-7, ERR-A]."""

import inspect

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from dexd.api.status import DETAILS_BYTES_MAX, ERROR_TABLE, MESSAGE_BYTES_MAX, status_of, trailer_status_of
from dexd.core.rejections import Code, Rejection
from dexsdk import errors as sdk_errors

CALLS_THE_SDK_TELLS_APART = {
    # flow-model.md section 24: exception, gRPC code
    Code.FLOW_ALREADY_STARTED: (sdk_errors.FlowAlreadyStartedError, "ALREADY_EXISTS"),
    Code.REQUEST_CONFLICT: (sdk_errors.RequestConflictError, "ALREADY_EXISTS"),
    Code.FLOW_NOT_ACTIVE: (sdk_errors.FlowNotActiveError, "FAILED_PRECONDITION"),
    Code.FLOW_NOT_FOUND: (sdk_errors.FlowNotFoundError, "NOT_FOUND"),
    Code.WORKER_API_ERROR: (sdk_errors.WorkerInvocationError, "FAILED_PRECONDITION"),
    Code.NO_WORKER_AVAILABLE: (sdk_errors.NoWorkerAvailableError, "UNAVAILABLE"),
    Code.RPC_LOCK_CONFLICT: (sdk_errors.RpcLockConflictError, "ABORTED"),
    Code.CHANNEL_MESSAGE_NOT_FOUND: (sdk_errors.ChannelMessageNotFoundError, "NOT_FOUND"),
    Code.LONG_POLL_TIMEOUT: (sdk_errors.LongPollTimeoutError, "DEADLINE_EXCEEDED"),
    Code.INVALID_QUERY: (sdk_errors.InvalidQueryError, "INVALID_ARGUMENT"),
    Code.VALUE_TOO_LARGE: (sdk_errors.ValueTooLargeError, "RESOURCE_EXHAUSTED"),
    Code.SCHEDULE_NOT_FOUND: (sdk_errors.ScheduleNotFoundError, "NOT_FOUND"),
    Code.SCHEDULE_ALREADY_EXISTS: (sdk_errors.ScheduleAlreadyExistsError, "ALREADY_EXISTS"),
}


def error_info(status: Status) -> ErrorInfo:
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


def test_every_refusal_code_has_a_row_with_cause_and_remedy() -> None:
    assert set(ERROR_TABLE) == set(Code)
    for row in ERROR_TABLE.values():
        assert row.cause.endswith(".")
        assert row.remedy.endswith(".")
        assert row.status is not grpc.StatusCode.OK


@pytest.mark.parametrize("code", Code)
def test_the_sdk_gives_every_refusal_a_typed_exception(code: Code) -> None:
    """[ERR-1]: the mapping is total; codes with a class of their own get it, the others DexServiceError."""
    expected, _ = CALLS_THE_SDK_TELLS_APART.get(code, (sdk_errors.DexServiceError, ""))
    grpc_name = ERROR_TABLE[code].status.name
    error = sdk_errors.error_from_status(grpc_name, code, "why", {"run_id": "r"}, "describe", "f-1")
    assert type(error) is expected
    assert (error.code, error.sub_status, error.detail, error.flow_id) == (grpc_name, code, "why", "f-1")


@pytest.mark.parametrize(("code", "expected"), CALLS_THE_SDK_TELLS_APART.items())
def test_grpc_codes_are_those_of_the_specification(code: Code, expected: tuple[type, str]) -> None:
    """[ERR-1] table of flow-model section 24."""
    assert ERROR_TABLE[code].status.name == expected[1]


def test_every_class_that_the_sdk_knows_belongs_to_a_code_of_the_server() -> None:
    """No exception of the SDK waits for a reason that is never sent [ERR-1]."""
    classes = {
        found
        for _, found in inspect.getmembers(sdk_errors, inspect.isclass)
        if issubclass(found, sdk_errors.DexServiceError) and found is not sdk_errors.DexServiceError
    }
    assert classes == {expected for expected, _ in CALLS_THE_SDK_TELLS_APART.values()}


def test_status_carries_reason_metadata_and_retry_delay() -> None:
    """[ERR-A]"""
    status = status_of(Rejection(Code.MAILBOX_FULL, "try later", {"limit": "100"}, retry_after_ms=1_500))
    assert (status.code, status.message) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "try later")
    info = error_info(status)
    assert (info.reason, info.domain, dict(info.metadata)) == ("MAILBOX_FULL", "dexd", {"limit": "100"})
    retry = RetryInfo()
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay == Duration(seconds=1, nanos=500_000_000)


def test_status_without_retry_hint_has_no_retry_info() -> None:
    """[ERR-A]"""
    assert len(status_of(Rejection(Code.FLOW_NOT_FOUND, "no")).details) == 1


def test_text_with_lone_surrogates_can_be_sent() -> None:
    """[ERR-B]"""
    status = status_of(Rejection(Code.INVALID_ARGUMENT, "bad \ud800 text", {"id": "\udfff"}))
    assert (status.message, error_info(status).metadata["id"]) == ("bad ? text", "?")


@pytest.mark.parametrize("text", ["x", "\N{GRINNING FACE}", "é"])
def test_trailer_status_fits_into_headers_and_keeps_short_facts(text: str) -> None:
    """A handler's stack of 64 KiB must not make the answer unreadable [RPC-3, ARCH-8]."""
    fields = {"worker_error_type": "ValueError", "worker_stack": text * 65_536, "flow_id": "f" * 255}
    status = trailer_status_of(Rejection(Code.WORKER_API_ERROR, text * 10_000, fields, retry_after_ms=1))
    assert len(status.message.encode()) <= MESSAGE_BYTES_MAX
    assert status.ByteSize() <= DETAILS_BYTES_MAX + 256
    metadata = error_info(status).metadata
    assert (metadata["worker_error_type"], metadata["flow_id"]) == ("ValueError", "f" * 255)
    assert metadata["worker_stack"].startswith(text)
    assert metadata["worker_stack"].endswith("...")


def test_many_metadata_fields_are_cut_evenly_enough_to_end() -> None:
    """[ARCH-8]"""
    fields = {f"field_{number}": "v" * 300 for number in range(40)}
    assert trailer_status_of(Rejection(Code.INVALID_ARGUMENT, "m", fields)).ByteSize() < 8_192
