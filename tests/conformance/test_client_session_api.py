"""Many client calls over one stream, and bytes that are no requests, against a running server."""

import grpc
import pytest

from dexpb.v1 import flow_service_pb2 as pb
from tests.support.api_calls import describe, fresh, refusal, start, start_request, stop
from tests.support.api_client import ApiClient, RefusedError

MIB = 1 << 20


def test_session_answers_like_the_unary_calls(api: ApiClient) -> None:
    """One bad request of a batch is refused alone [ERR-B]."""
    flow_ids = [fresh("batched") for _ in range(50)]
    requests = [
        pb.ClientRequest(id=number, method="StartFlow", body=start_request(flow_id).SerializeToString())
        for number, flow_id in enumerate(flow_ids)
    ]
    requests[10].body = b"\xff\xff"
    requests[20].method = "NoSuchMethod"
    requests[30].body = start_request("nul\0").SerializeToString()
    session = api.client_session()
    session.send(*requests)
    replies = session.replies(50)
    session.finish()
    assert session.read_bytes() is None
    codes = {number: reply.code for number, reply in replies.items() if reply.code}
    invalid, unimplemented = grpc.StatusCode.INVALID_ARGUMENT.value[0], grpc.StatusCode.UNIMPLEMENTED.value[0]
    assert codes == {10: invalid, 20: unimplemented, 30: invalid}
    assert pb.StartFlowReply.FromString(replies[0].body).run_id == describe(api, flow_ids[0]).run_id


def test_wait_in_a_session_is_answered_when_the_flow_ends(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-1]"""
    start(api, flow_id)
    session = api.client_session()
    request = pb.WaitForFlowRequest(flow_id=flow_id, wait_ms=20_000)
    session.send(pb.ClientRequest(id=1, method="WaitForFlow", body=request.SerializeToString()))
    stop(api, flow_id)
    assert pb.WaitForFlowReply.FromString(session.replies(1)[1].body).is_terminal
    session.finish()


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff", b"\x0a\x7f", b"\x0a\x02\xff\xfe"])
def test_bytes_that_are_no_message_are_refused(api: ApiClient, body: bytes) -> None:
    """[ERR-B]: garbage, a truncated message, text that is no UTF-8."""
    with pytest.raises(RefusedError) as raised:
        api.call_bytes("dexpb.v1.FlowService/StartFlow", body)
    assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "MALFORMED")


def test_message_of_20_mb_is_refused_by_size_and_limit(api: ApiClient, flow_id: str) -> None:
    """[LIM-3, ERR-B]"""
    error = refusal(api, "StartFlow", start_request(flow_id, input=b"1" * (20 * MIB)))
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "VALUE_TOO_LARGE")
    assert error.metadata["limit"] == str(16 * MIB)
    assert int(error.metadata["size"]) > 20 * MIB
    start(api, flow_id)


def test_request_of_20_mb_in_a_session_is_refused_alone(api: ApiClient, flow_id: str) -> None:
    """[LIM-3, ERR-B]"""
    session = api.client_session()
    large = start_request("too-large", input=b"1" * (20 * MIB)).SerializeToString()
    session.send(
        pb.ClientRequest(id=1, method="StartFlow", body=large),
        pb.ClientRequest(id=2, method="StartFlow", body=start_request(flow_id).SerializeToString()),
    )
    replies = session.replies(2)
    assert replies[1].code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    assert replies[2].code == 0
    session.finish()


def test_message_beyond_what_the_transport_takes_ends_its_call_only(api: ApiClient, flow_id: str) -> None:
    """[ERR-B, ARCH-8]"""
    error = refusal(api, "StartFlow", start_request(flow_id, input=b"1" * (40 * MIB)))
    assert error.code == "RESOURCE_EXHAUSTED"
    start(api, flow_id)


def test_flow_id_of_10_mb_is_refused(api: ApiClient) -> None:
    """[ERR-B]"""
    error = refusal(api, "DescribeFlow", pb.DescribeFlowRequest(flow_id="x" * (10 * MIB)))
    assert error.reason == "INVALID_ARGUMENT"
    assert len(error.message) < 2_000
