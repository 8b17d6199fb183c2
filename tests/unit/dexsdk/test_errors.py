"""From a refused call to its exception [ERR-1, GEN-2]."""

import pytest

from dexsdk import (
    DexServiceError,
    FlowAlreadyStartedError,
    FlowDefinitionError,
    FlowNotActiveError,
    FlowNotFoundError,
    FlowStatus,
    LongPollTimeoutError,
    NoWorkerAvailableError,
    PullRegistrationError,
    RequestConflictError,
    ValueMappingError,
    ValueTooLargeError,
    WorkerInvocationError,
)
from dexsdk.errors import error_from_status


def error_of(code: str, sub_status: str, **metadata: str) -> DexServiceError:
    return error_from_status(code, sub_status, "why", metadata, "start_flow", "flow-1")


@pytest.mark.parametrize(
    ("code", "sub_status", "error_class"),
    [
        ("ALREADY_EXISTS", "FLOW_ALREADY_STARTED", FlowAlreadyStartedError),
        ("ALREADY_EXISTS", "REQUEST_CONFLICT", RequestConflictError),
        ("FAILED_PRECONDITION", "FLOW_NOT_ACTIVE", FlowNotActiveError),
        ("NOT_FOUND", "FLOW_NOT_FOUND", FlowNotFoundError),
        ("FAILED_PRECONDITION", "WORKER_API_ERROR", WorkerInvocationError),
        ("UNAVAILABLE", "NO_WORKER_AVAILABLE", NoWorkerAvailableError),
        ("DEADLINE_EXCEEDED", "LONG_POLL_TIMEOUT", LongPollTimeoutError),
        ("RESOURCE_EXHAUSTED", "VALUE_TOO_LARGE", ValueTooLargeError),
        ("UNAVAILABLE", "", DexServiceError),
        ("INVALID_ARGUMENT", "SOMETHING_NEW", DexServiceError),
    ],
)
def test_err_1_every_refusal_has_a_class_and_its_facts(
    code: str, sub_status: str, error_class: type[DexServiceError]
) -> None:
    error = error_of(code, sub_status)
    assert type(error) is error_class
    assert (error.code, error.sub_status, error.detail) == (code, sub_status, "why")
    assert (error.operation, error.flow_id) == ("start_flow", "flow-1")
    assert str(error).startswith("start_flow of Flow 'flow-1': why (")


def test_err_1_an_unknown_flow_is_also_not_active() -> None:
    assert isinstance(error_of("NOT_FOUND", "FLOW_NOT_FOUND"), FlowNotActiveError)


def test_start_5_a_refused_start_names_the_existing_run_and_its_status() -> None:
    error = error_of("ALREADY_EXISTS", "FLOW_ALREADY_STARTED", run_id="r", status="FAILED")
    assert isinstance(error, FlowAlreadyStartedError)
    assert (error.run_id, error.status) == ("r", FlowStatus.FAILED)


def test_rpc_3_a_failed_handler_is_described_to_the_caller() -> None:
    facts = {"worker_code": "c", "worker_error_type": "t", "worker_error_detail": "d", "worker_stack": "s"}
    error = error_of("FAILED_PRECONDITION", "WORKER_API_ERROR", **facts)
    assert isinstance(error, WorkerInvocationError)
    assert facts == {name: getattr(error, name) for name in facts}


def test_lim_3_a_value_too_large_is_one_class_wherever_it_is_found() -> None:
    local = ValueTooLargeError.of("value", "input", 9, 8)
    remote = error_of("RESOURCE_EXHAUSTED", "VALUE_TOO_LARGE", what="value", size="9", limit="8")
    assert isinstance(remote, ValueTooLargeError)
    for error in (local, remote):
        assert (error.what, error.size, error.limit) == ("value", 9, 8)
        assert (error.code, error.sub_status) == ("RESOURCE_EXHAUSTED", "VALUE_TOO_LARGE")
    assert isinstance(local, ValueError)


def test_gen_2_local_errors_are_value_errors_and_not_remote_ones() -> None:
    for error in (FlowDefinitionError("fault"), ValueMappingError("place", "$", "reason")):
        assert isinstance(error, ValueError)
        assert not isinstance(error, DexServiceError)


def test_reg_1_a_definition_error_lists_its_faults() -> None:
    assert str(FlowDefinitionError("one")) == "one"
    assert str(FlowDefinitionError("one", "two")) == "2 faults:\n- one\n- two"


def test_ready_3_a_rejected_queue_is_named_with_code_and_details() -> None:
    error = PullRegistrationError("Orders", "INVALID_ARGUMENT", "too long")
    assert (error.queue, error.code, error.details) == ("Orders", "INVALID_ARGUMENT", "too long")
    assert str(error) == "queue 'Orders' was rejected with INVALID_ARGUMENT: too long"
