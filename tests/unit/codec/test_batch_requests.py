"""Batch jobs over the wire: what is refused, what a job does to one Flow, how it is shown [BATCH-1, BATCH-2]."""

from typing import Any

import msgspec
import pytest

from dexd.codec import batch_requests as batches
from dexd.codec.batch_calls import call_of, travel_of
from dexd.codec.batch_requests import BatchListQuery, BatchPage, BatchQuery, DryRun, view_of
from dexd.core import commands as c
from dexd.core.ids import FlowId, JobId, RequestId, StreamId
from dexd.core.index_values import IndexType
from dexd.core.jobs.commands import CancelJob, ReachTarget
from dexd.core.jobs.events import JobKind, JobStatus, Operation, Problem, TargetOutcome
from dexd.core.jobs.state import JobState
from dexd.core.rejections import Code, Rejection
from dexd.core.values import RequestRecord, StopType
from dexpb.v1 import flow_service_pb2 as pb

FRESH = RequestId("fresh")
STOP = pb.StopFlowRequest(type=2, reason="enough")


def read(**fields: Any) -> BatchQuery | Rejection:
    values: dict[str, Any] = {"query": "Status = 'RUNNING'", "stop": STOP, "request_id": "r", **fields}
    return batches.to_batch_query(pb.CreateBatchRequest(**values), FRESH)


def accepted(**fields: Any) -> BatchQuery:
    query = read(**fields)
    assert isinstance(query, BatchQuery)
    return query


def refusal(**fields: Any) -> Rejection:
    refused = read(**fields)
    assert isinstance(refused, Rejection)
    assert refused.code is Code.INVALID_ARGUMENT
    return refused


def test_batch_1_a_batch_is_read_with_its_defaults() -> None:
    query = accepted()
    assert (query.query, query.rate, query.dry_run, query.all_flows) == ("Status = 'RUNNING'", 50.0, False, False)
    assert (query.operation.kind, query.request_id) == (JobKind.STOP, "r")


def test_batch_2_an_empty_query_must_be_meant() -> None:
    """Blank is as empty as nothing."""
    for query in ("", " \t\n"):
        assert "say all_flows" in refusal(query=query).message
    assert accepted(query="", all_flows=True).query == ""


@pytest.mark.parametrize("rate", [-1.0, 1_000.5, float("nan"), float("inf")])
def test_batch_1_a_rate_outside_its_range_is_refused(rate: float) -> None:
    assert refusal(rate=rate).message.startswith("rate is ")


def test_gen_8_the_job_id_follows_from_the_request_and_the_digest_from_the_content() -> None:
    assert accepted().job_id == accepted(query="x = 1").job_id != accepted(request_id="other").job_id
    assert accepted().digest != accepted(query="x = 1").digest
    assert accepted().digest == accepted().digest != accepted(rate=1.0).digest
    assert accepted(request_id="").request_id == FRESH
    assert accepted(index_keys=[pb.IndexKey(key="level", type=4)]).index_keys == {"level": IndexType.INT}
    assert refusal(index_keys=[pb.IndexKey(key="level", type=99)]).fields["field"] == "index_keys"
    refused = read(request_id="a\0b")
    assert isinstance(refused, Rejection)


def test_batch_1_a_call_that_no_client_could_make_is_refused_before_the_job_begins() -> None:
    """[GEN-2]"""
    assert "needs an operation" in refusal(stop=None).message
    for call in (pb.StopFlowRequest(flow_id="f"), pb.StopFlowRequest(run_id="r"), pb.StopFlowRequest(request_id="q")):
        assert "must name neither Flow" in refusal(stop=call).message
    assert "type" in refusal(stop=pb.StopFlowRequest(type=9)).message
    assert refusal(stop=None, publish=pb.PublishRequest(channel="c")).fields != {}


@pytest.mark.parametrize(
    ("operation", "command"),
    [
        ({"stop": STOP}, c.StopFlow),
        ({"stop": None, "publish": pb.PublishRequest(channel="c", values=[b"1"])}, c.PublishMessages),
        ({"stop": None, "set_attribute": pb.SetAttributeRequest(key="a", value=b"1")}, c.SetAttribute),
    ],
)
def test_batch_1_each_target_gets_the_call_that_a_client_makes(operation: Any, command: type[Any]) -> None:
    query = accepted(**operation)
    reach = ReachTarget(
        StreamId(1), 0, FlowId("f"), 1, query.query, query.operation, RequestId(f"sys:batch-{query.job_id}")
    )
    call = call_of(reach)
    assert isinstance(call, command)
    assert (call.flow_id, call.run_id, call.request_id) == ("f", None, f"sys:batch-{query.job_id}")
    if isinstance(call, c.StopFlow):
        assert (call.type, call.reason) == (StopType.TERMINATE, "enough")


def test_batch_1_a_time_travel_has_the_same_new_run_at_every_try() -> None:
    query = accepted(stop=None, time_travel=pb.TimeTravelRequest(type=0, reason="again"))
    reach = ReachTarget(StreamId(1), 0, FlowId("f"), 1, query.query, query.operation, RequestId("sys:batch-b"))
    assert call_of(reach) is None
    travel = travel_of(reach)
    assert (travel.flow_id, travel.request_id, travel.reason) == ("f", "sys:batch-b", "again")
    assert travel == travel_of(reach)
    assert travel.new_run_id != travel_of(msgspec.structs.replace(reach, flow_id=FlowId("g"))).new_run_id
    assert "needs step_type" in refusal(stop=None, time_travel=pb.TimeTravelRequest(type=2)).message
    assert "must name neither" in refusal(stop=None, time_travel=pb.TimeTravelRequest(flow_id="f")).message


def test_requests_about_jobs_name_one() -> None:
    assert batches.to_cancel_job(pb.CancelBatchRequest(batch_id="b")) == CancelJob(JobId("b"))
    assert batches.to_job_id(pb.DescribeBatchRequest(batch_id="b")) == "b"
    for refused in (batches.to_cancel_job(pb.CancelBatchRequest()), batches.to_job_id(pb.DescribeBatchRequest())):
        assert isinstance(refused, Rejection)


def test_lists_of_jobs_go_on_where_a_page_ended() -> None:
    assert batches.to_batch_list_query(pb.ListBatchesRequest()) == BatchListQuery(100, 0)
    assert batches.to_batch_list_query(pb.ListBatchesRequest(page_size=5, page_token="7")) == BatchListQuery(5, 7)
    for request in (
        pb.ListBatchesRequest(page_size=101),
        pb.ListBatchesRequest(page_token="x"),
        pb.ListBatchesRequest(page_token="9" * 19),
    ):
        assert isinstance(batches.to_batch_list_query(request), Rejection)


def test_batch_1_a_job_is_shown_with_counts_and_reasons() -> None:
    problem = Problem(FlowId("f"), TargetOutcome.FAILED, "FLOW_NOT_ACTIVE", "closed")
    job = JobState(
        JobId("b"),
        StreamId(1),
        5,
        "q",
        Operation(JobKind.PUBLISH, b""),
        2.0,
        9,
        RequestRecord(RequestId("r"), b""),
        applied=4,
        skipped=1,
        failed=1,
        reasons={"FLOW_NOT_ACTIVE": 1, "NO_MATCH": 1},
        problems=[problem],
    )
    shown = batches.from_batch(view_of(job))
    assert (shown.batch_id, shown.operation, shown.query, shown.status) == ("b", "PUBLISH", "q", "RUNNING")
    assert (shown.matched, shown.applied, shown.skipped, shown.failed, shown.rate) == (9, 4, 1, 1, 2.0)
    assert dict(shown.reasons) == {"FLOW_NOT_ACTIVE": 1, "NO_MATCH": 1}
    assert list(shown.problems) == [
        pb.BatchProblem(flow_id="f", outcome="FAILED", reason="FLOW_NOT_ACTIVE", detail="closed")
    ]
    job.is_canceled = True
    assert view_of(job).status == "CANCELING"
    job.status = JobStatus.CANCELED
    page = batches.from_batch_page(BatchPage((view_of(job),), 3))
    assert ([info.status for info in page.batches], page.next_page_token) == (["CANCELED"], "3")
    assert batches.from_batch_page(BatchPage((), 0)).next_page_token == ""


def test_batch_2_a_dry_run_has_a_count_and_a_sample_and_no_id() -> None:
    shown = batches.from_batch(DryRun("q", JobKind.STOP, 50.0, 3, (FlowId("a"), FlowId("b"))))
    assert (shown.batch_id, shown.status, shown.matched, list(shown.sample)) == ("", "DRY_RUN", 3, ["a", "b"])
