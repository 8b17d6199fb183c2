"""Large values on the wire: uploads, downloads, and who may refer to what [BLOB-1..3, LIM-1]."""

import hashlib
import os
from collections.abc import Iterator

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexpb.v1 import schedule_service_pb2 as schedule_pb
from dexpb.v1.blob_service_pb2 import BlobTerms, BlobTermsRequest
from dexpb.v1.blobs import make_reference, read_reference
from tests.support.api_calls import history, refusal, start, start_request, wait_for_flow
from tests.support.api_client import ApiClient, RefusedError, UploadCall, WorkerSessionCall, hello
from tests.support.server_process import ServerProcess

KEY = "a key of sixteen characters or more"


def content(size: int = 100_000) -> bytes:
    """A value that no other test has, as JSON text."""
    return b'"' + os.urandom(size // 2).hex().encode() + b'"'


@pytest.fixture
def mine(server: ServerProcess) -> Iterator[ApiClient]:
    with ApiClient(server.address, KEY) as client:
        yield client


@pytest.fixture
def stranger(server: ServerProcess) -> Iterator[ApiClient]:
    with ApiClient(server.address, KEY[::-1]) as client:
        yield client


def upload_refusal(call: UploadCall) -> RefusedError:
    with pytest.raises(RefusedError) as raised:
        call.reply()
    return raised.value


def test_blob_2_terms_say_what_is_to_be_uploaded(api: ApiClient) -> None:
    terms = api.call("GetTerms", BlobTermsRequest(), BlobTerms, "BlobService")
    assert (terms.threshold_bytes, terms.max_bytes) == (64 * 1024, 64 * 1024 * 1024)


def test_blob_2_what_was_uploaded_is_downloaded_in_chunks(mine: ApiClient) -> None:
    data = content(1_000_000)
    assert mine.upload(data) == make_reference(data)
    assert mine.download(hashlib.sha256(data).digest()) == data


def test_blob_1_equal_content_is_asked_for_once(mine: ApiClient, stranger: ApiClient) -> None:
    """[BLOB-1, BLOB-2] Who offers it again shows a part of it, which the server chooses."""
    data = content()
    call = mine.upload_call()
    call.offer(data)
    wanted = call.reply()
    assert (wanted.offset, wanted.length) == (0, len(data))
    call.send(data=data)
    assert call.reply().is_stored
    for client in (mine, stranger):
        again = client.upload_call()
        again.offer(data)
        wanted = again.reply()
        assert 0 < wanted.length < len(data) // 2
        again.send(data=data[wanted.offset : wanted.offset + wanted.length])
        assert again.reply().is_stored


def test_blob_3_a_digest_alone_is_no_upload(mine: ApiClient, stranger: ApiClient, flow_id: str) -> None:
    """Whoever only knows how a value is called cannot show what it is made of."""
    reference = mine.upload(content())
    named = read_reference(reference)
    call = stranger.upload_call()
    call.send(digest=named.digest, size=named.size)
    wanted = call.reply()
    call.send(data=b"x" * wanted.length)
    assert upload_refusal(call).reason == "BLOB_MISMATCH"
    error = refusal(stranger, "StartFlow", start_request(flow_id, input=reference))
    assert error.reason == "BLOB_NOT_UPLOADED"


def test_blob_1_bytes_that_are_not_what_was_announced_are_refused(mine: ApiClient) -> None:
    data = content()
    call = mine.upload_call()
    call.offer(data)
    call.reply()
    call.send(data=b"y" * len(data))
    error = upload_refusal(call)
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "BLOB_MISMATCH")
    with pytest.raises(RefusedError) as raised:
        mine.download(hashlib.sha256(data).digest())
    assert (raised.value.code, raised.value.reason) == ("NOT_FOUND", "BLOB_NOT_FOUND")


def test_lim_1_a_value_above_64_mib_is_refused_before_it_is_sent(mine: ApiClient) -> None:
    call = mine.upload_call()
    call.send(digest=bytes(32), size=64 * 1024 * 1024 + 1)
    error = upload_refusal(call)
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "VALUE_TOO_LARGE")
    assert error.metadata == {"what": "value", "size": str(64 * 1024 * 1024 + 1), "limit": str(64 * 1024 * 1024)}


@pytest.mark.parametrize(
    "fields", [{"data": b"x"}, {"digest": b"short", "size": 1}, {"digest": bytes(32), "size": 1, "data": b"x"}]
)
def test_an_upload_that_begins_with_nonsense_is_refused(mine: ApiClient, fields: dict[str, object]) -> None:
    """[ERR-B]"""
    call = mine.upload_call()
    call.send(**fields)
    assert upload_refusal(call).reason == "PROTOCOL_VIOLATION"


def test_an_upload_of_more_bytes_than_were_asked_for_is_refused(mine: ApiClient) -> None:
    """[ERR-B]"""
    data = content()
    call = mine.upload_call()
    call.offer(data)
    call.reply()
    call.send(data=data + b"x")
    assert upload_refusal(call).reason == "PROTOCOL_VIOLATION"


@pytest.mark.parametrize("message", [b"\xff\xff", b""], ids=["garbage", "empty"])
def test_bytes_that_are_no_upload_are_refused(mine: ApiClient, message: bytes) -> None:
    """[ERR-B]"""
    call = mine.upload_call()
    call.send_bytes(message)
    assert upload_refusal(call).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("key", [None, "short", "k" * 65])
def test_blob_3_an_upload_needs_a_session_key(server: ServerProcess, key: str | None) -> None:
    with ApiClient(server.address, key) as client:
        call = client.upload_call()
        call.offer(content())
        error = upload_refusal(call)
        assert (error.code, error.metadata["field"]) == ("INVALID_ARGUMENT", "dex-session")


def requests_with(reference: bytes, flow_id: str) -> list[tuple[str, object]]:
    return [
        ("StartFlow", start_request(f"{flow_id}-2", input=reference)),
        ("StartFlow", start_request(f"{flow_id}-3", attributes=[pb.AttributeValue(key="a", value=reference)])),
        ("Publish", pb.PublishRequest(flow_id=flow_id, channel="c", values=[b"1", reference])),
        ("SetAttribute", pb.SetAttributeRequest(flow_id=flow_id, key="a", value=reference)),
        ("InvokeRpc", pb.InvokeRpcRequest(flow_id=flow_id, name="r", input=reference)),
        (
            "CreateBatch",
            pb.CreateBatchRequest(
                query=f"FlowId = '{flow_id}'", publish=pb.PublishRequest(channel="c", values=[reference])
            ),
        ),
        (
            "CreateBatch",
            pb.CreateBatchRequest(
                query=f"FlowId = '{flow_id}'", set_attribute=pb.SetAttributeRequest(key="a", value=reference)
            ),
        ),
    ]


def test_blob_3_a_schedule_may_start_only_with_what_its_creator_uploaded(mine: ApiClient, stranger: ApiClient) -> None:
    """[BLOB-3, SCHED-2]"""
    reference = mine.upload(content())
    start_of_all = pb.StartFlowRequest(flow_type="Order", input=reference)
    create = schedule_pb.CreateScheduleRequest(
        schedule_id="of-a-stranger",
        spec=schedule_pb.ScheduleSpec(interval_ms=60_000),
        action=schedule_pb.ScheduleAction(start=start_of_all),
    )
    with pytest.raises(RefusedError) as raised:
        stranger.call("CreateSchedule", create, schedule_pb.ScheduleInfo, service="ScheduleService")
    assert raised.value.reason == "BLOB_NOT_UPLOADED"


def test_blob_3_a_client_may_refer_only_to_what_its_session_uploaded(
    mine: ApiClient, stranger: ApiClient, api: ApiClient, flow_id: str
) -> None:
    """[BLOB-3, GEN-2] Whatever carries the reference: nothing at all is stored."""
    data = content()
    reference = mine.upload(data)
    start(mine, flow_id)
    before = history(mine, flow_id)
    forged = make_reference(data[:-2] + b'x"')
    wrong_size = reference[:-1] + bytes([reference[-1] ^ 1])
    for client, refused in ((stranger, reference), (api, reference), (mine, forged), (mine, wrong_size)):
        for method, request in requests_with(refused, flow_id):
            error = refusal(client, method, request)
            assert (error.code, error.reason) == ("INVALID_ARGUMENT", "BLOB_NOT_UPLOADED"), method
            assert error.metadata["digest"] == read_reference(refused).name
    assert history(mine, flow_id) == before
    for suffix in ("-2", "-3"):
        assert refusal(mine, "DescribeFlow", pb.DescribeFlowRequest(flow_id=flow_id + suffix)).code == "NOT_FOUND"
    start(mine, f"{flow_id}-2", input=reference)
    session = mine.client_session()
    request = pb.PublishRequest(flow_id=flow_id, channel="c", values=[reference])
    session.send(pb.ClientRequest(id=1, method="Publish", body=request.SerializeToString()))
    assert session.replies(1)[1].code == 0
    session.cancel()


class OneStep:
    """A worker of a Flow with one Step, and one running execution of it."""

    def __init__(self, client: ApiClient, flow_id: str, value: bytes = b"1") -> None:
        flow_type = f"Type-{flow_id}"
        flow = frames.FlowDescriptor(flow_type, frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
        self.session: WorkerSessionCall = client.worker_session()
        self.session.send(hello(f"worker-{flow_id}", flow), frames.OpenStream(1, flow_type))
        self.session.next_frame(frames.StreamOpened)
        start(client, flow_id, flow_type=flow_type, input=value)
        self.assign = self.session.next_frame(frames.Assign)

    def answer(self, output: bytes) -> None:
        decision = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=output)
        self.session.send(frames.Output(1, self.assign.token, decision=decision))
        self.session.next_frame(frames.Ack)


def test_blob_3_a_result_may_refer_to_what_came_with_its_call(mine: ApiClient, flow_id: str) -> None:
    reference = mine.upload(content())
    other = ApiClient(mine.address, "the worker's own session key")
    start_type = f"Type-{flow_id}"
    flow = frames.FlowDescriptor(start_type, frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
    with other:
        session = other.worker_session()
        session.send(hello(f"worker-{flow_id}", flow), frames.OpenStream(1, start_type))
        session.next_frame(frames.StreamOpened)
        start(mine, flow_id, flow_type=start_type, input=reference)
        assign = session.next_frame(frames.Assign)
        assert assign.input == reference
        decision = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=reference)
        session.send(frames.Output(1, assign.token, decision=decision))
        reply = wait_for_flow(mine, flow_id, 10_000)
        assert [row.value for row in reply.completions] == [reference]
        session.cancel()


def test_blob_3_a_result_that_refers_to_anything_else_is_a_failed_attempt(
    mine: ApiClient, stranger: ApiClient, flow_id: str
) -> None:
    """A value of another Flow, and one that does not exist; the attempt after it may do better."""
    foreign = stranger.upload(content())
    one = OneStep(mine, flow_id)
    for refused in (foreign, make_reference(content())):
        one.answer(refused)
        failed = [event for event in history(mine, flow_id) if event.kind == "ExecuteFailed"]
        assert b'"BLOB_NOT_UPLOADED"' in failed[-1].data
        assert read_reference(refused).name.encode() in failed[-1].data
        one.assign = one.session.next_frame(frames.Assign)
    assert one.assign.token.attempt == 3
    reference = mine.upload(content())
    one.answer(reference)
    assert [row.value for row in wait_for_flow(mine, flow_id, 10_000).completions] == [reference]
    one.session.cancel()
