"""Peers that do not read, and peers that ping too much [WIRE-6, WIRE-8]."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from tests.support.api_calls import fresh, history, start, wait_for_flow
from tests.support.api_client import ApiClient, RefusedError, WorkerSessionCall, hello
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

STREAMS = 8
PARTS = 17
PART = b'"' + b"x" * 60_000 + b'"'
"""So many make a call of more than a megabyte, although each travels inline [LIM-1]."""
FLOW = frames.FlowDescriptor("Bulky", frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiClient]:
    settings = (
        "matching.session_buffer_bytes=64 KiB",
        "matching.pong_timeout=500ms",
        "matching.ping_interval=1h",
        "matching.resume_wait=0s",
    )
    arguments = [part for setting in settings for part in ("--set", setting)]
    with ServerProcess(tmp_path / "data", *arguments) as server, ApiClient(server.address) as client:
        yield client


def open_worker(api: ApiClient, worker_id: str) -> WorkerSessionCall:
    call = api.worker_session()
    call.send(hello(worker_id, FLOW), *(frames.OpenStream(number, "Bulky") for number in range(1, STREAMS + 1)))
    for _ in range(STREAMS):
        call.next_frame(frames.StreamOpened)
    return call


def test_worker_that_does_not_read_loses_its_session_and_others_get_its_calls(api: ApiClient) -> None:
    """[WIRE-6, LOST-1]"""
    deaf = open_worker(api, "deaf")
    flow_ids = [fresh("bulky") for _ in range(STREAMS)]
    for flow_id in flow_ids:
        parts = [pb.AttributeValue(key=f"part-{number}", value=PART) for number in range(PARTS)]
        start(api, flow_id, flow_type="Bulky", attributes=parts)
    with ApiClient(api.address) as other:
        working = open_worker(other, "working")
        for _ in flow_ids:
            assign = working.next_frame(frames.Assign)
            assert list(assign.attributes.values()) == [PART] * PARTS
            done = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE)
            working.send(frames.Output(assign.stream, assign.token, decision=done))
        assert {wait_for_flow(other, flow_id, 5_000).status for flow_id in flow_ids} == {"COMPLETED"}
        working.cancel()
        kinds = [event.kind for flow_id in flow_ids for event in history(other, flow_id)]
    with pytest.raises(RefusedError) as ended:
        # Assignments that had been sent come first; no frame of this type follows them.
        deaf.next_frame(frames.Ack)
    assert (ended.value.code, ended.value.reason) == ("UNAVAILABLE", "SESSION_TIMEOUT")
    # What came after the buffer was full was declined for the worker; what had been sent before was lost with it.
    assert "StepDeclined" in kinds
    assert "StepDeliveryLost" in kinds


def test_client_that_pings_too_often_is_told_so(api: ApiClient) -> None:
    """[WIRE-8]"""
    options = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    with grpc.insecure_channel(api.address, options=options) as channel:
        call = WorkerSessionCall(channel)
        call.send(hello("pings too much"))
        call.next_frame(frames.Welcome)
        with pytest.raises(RefusedError) as ended:
            call.next_frame(frames.Assign)
    assert ended.value.code == "UNAVAILABLE"
    assert "ping" in ended.value.message.lower()
