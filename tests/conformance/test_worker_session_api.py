"""Worker sessions frame by frame, against a running server."""

import pytest

from dexpb.v1 import frames
from tests.support.api_calls import describe, history, start, wait_for_flow
from tests.support.api_client import ApiClient, RefusedError, WorkerSessionCall, hello


def session_refusal(call: WorkerSessionCall) -> RefusedError:
    with pytest.raises(RefusedError) as raised:
        call.next_frame(frames.Welcome)
    return raised.value


@pytest.mark.parametrize(
    "message",
    [b"\xff\xff", b"", b"\x0a\x03\x93\x01\x02", b"\x0a\x01\xc1"],
    ids=["proto", "empty", "truncated", "msgpack"],
)
def test_session_that_begins_with_garbage_is_refused(api: ApiClient, message: bytes) -> None:
    """[ERR-B]"""
    call = api.worker_session()
    call.send_bytes(message)
    assert session_refusal(call).code == "INVALID_ARGUMENT"


def test_session_must_begin_with_hello(api: ApiClient) -> None:
    """[WIRE-4]"""
    call = api.worker_session()
    call.send(frames.OpenStream(1, "Order"))
    error = session_refusal(call)
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "PROTOCOL_VIOLATION")


def test_disjoint_protocol_versions_are_refused_naming_both_intervals(api: ApiClient) -> None:
    """[WIRE-4]"""
    call = api.worker_session()
    call.send(hello("w", protocol_min=98, protocol_max=99))
    error = session_refusal(call)
    assert (error.code, error.reason) == ("FAILED_PRECONDITION", "PROTOCOL_MISMATCH")
    assert "98..99" in error.message
    assert f"{frames.PROTOCOL_MIN}..{frames.PROTOCOL_MAX}" in error.message


@pytest.mark.parametrize("worker_id", ["", "a\0b", "x" * 300])
def test_bad_worker_id_is_refused(api: ApiClient, worker_id: str) -> None:
    """[QUEUE-5, ERR-B]"""
    call = api.worker_session()
    call.send(hello(worker_id))
    assert session_refusal(call).reason == "INVALID_WORKER_ID"


def test_worker_that_asks_for_too_much_is_told_both_numbers(api: ApiClient) -> None:
    """[QUEUE-5]"""
    call = api.worker_session()
    call.send(hello("greedy", max_concurrent_tasks=257))
    error = session_refusal(call)
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "MAX_CONCURRENT_TASKS_EXCEEDED")
    assert "257" in error.message
    assert "256" in error.message


def test_broken_frames_do_not_end_an_open_session(api: ApiClient, flow_id: str) -> None:
    """[ERR-B, WIRE-5, DELIV-5]: truncated, unknown and senseless frames; the session then still runs a Step."""
    flow_type = f"Broken{flow_id}"
    flow = frames.FlowDescriptor(flow_type, frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
    call = api.worker_session()
    call.send(hello(f"worker-{flow_id}", flow))
    call.next_frame(frames.Welcome)
    for message in (b"\xff\xff", b"\x0a\x03\x93\x01\x02", b"\x0a\x02\x91\x91", b"\x0a\x05\x91\x92\xcc\xfa\x01"):
        call.send_bytes(message)
    call.send(frames.OpenStream(-1, "nonsense"), frames.OpenStream(1, flow_type))
    call.next_frame(frames.StreamOpened)

    start(api, flow_id, flow_type=flow_type)
    assign = call.next_frame(frames.Assign)
    assert (assign.flow_id, assign.name, assign.input) == (flow_id, "Begin", b'{"a":1}')
    done = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b'"done"')
    call.send(frames.Output(1, assign.token, decision=done))
    assert call.next_frame(frames.Ack).accepted
    call.cancel()
    end = wait_for_flow(api, flow_id, 5_000)
    assert (end.status, [completion.value for completion in end.completions]) == ("COMPLETED", [b'"done"'])


def test_unreadable_result_fails_its_call_alone(api: ApiClient, flow_id: str) -> None:
    """[DELIV-5]: a result with a token but without sense is a failed attempt, not a call that hangs."""
    flow_type = f"Unreadable{flow_id}"
    flow = frames.FlowDescriptor(flow_type, frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
    call = api.worker_session()
    call.send(hello(f"worker-{flow_id}", flow), frames.OpenStream(1, flow_type))
    call.next_frame(frames.StreamOpened)
    start(api, flow_id, flow_type=flow_type)
    assign = call.next_frame(frames.Assign)
    call.send(frames.Output(1, assign.token, decision=frames.Decision(kind=77)))
    call.next_frame(frames.Ack)
    call.cancel()
    assert "ExecuteFailed" in [event.kind for event in history(api, flow_id)]


def test_result_of_20_mb_fails_its_call_alone(api: ApiClient, flow_id: str) -> None:
    """[LIM-3, ERR-B]: the session and the worker's other calls go on."""
    flow_type = f"Oversized{flow_id}"
    flow = frames.FlowDescriptor(flow_type, frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
    call = api.worker_session()
    call.send(hello(f"worker-{flow_id}", flow), frames.OpenStream(1, flow_type))
    call.next_frame(frames.StreamOpened)
    start(api, flow_id, flow_type=flow_type)
    assign = call.next_frame(frames.Assign)
    done = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b"1" * 20_000_000)
    call.send(frames.Output(1, assign.token, decision=done))
    call.next_frame(frames.Ack)
    assert describe(api, flow_id).status == "FAILED"
    assert "the limit is" in describe(api, flow_id).error_message
    call.send(frames.OpenStream(2, flow_type))
    assert call.next_frame(frames.StreamOpened).stream == 2
    call.cancel()


def test_unknown_queue_is_rejected_without_ending_the_session(api: ApiClient) -> None:
    """[QUEUE-4]"""
    call = api.worker_session()
    call.send(hello("lost"), frames.OpenStream(1, "Elsewhere"), frames.OpenStream(2, "lost"))
    rejected = call.next_frame(frames.StreamRejected)
    assert (rejected.stream, rejected.code, rejected.reason, rejected.permanent) == (
        1,
        "INVALID_ARGUMENT",
        "QUEUE_NOT_SERVED",
        True,
    )
    assert call.next_frame(frames.StreamOpened).stream == 2
    call.cancel()


def test_newer_incarnation_of_a_worker_id_ends_the_older_session(api: ApiClient) -> None:
    """[QUEUE-2]"""
    older, newer = api.worker_session(), api.worker_session()
    older.send(hello("twin", incarnation="1"))
    older.next_frame(frames.Welcome)
    newer.send(hello("twin", incarnation="2"))
    newer.next_frame(frames.Welcome)
    with pytest.raises(RefusedError) as raised:
        older.next_frame(frames.Cancel)
    assert (raised.value.code, raised.value.reason) == ("ABORTED", "WORKER_ID_SUPERSEDED")
    newer.cancel()
