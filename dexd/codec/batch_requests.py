"""Requests about batch jobs as queries, and jobs as messages [BATCH-1, BATCH-2]."""

import hashlib
import math

import msgspec

from dexd.codec.batch_calls import digest_of, to_operation
from dexd.codec.faults import name_fault
from dexd.codec.index_writes import to_index_keys
from dexd.codec.request_checks import invalid, refuse_fault, refuse_outside, refuse_request_id
from dexd.core.ids import FlowId, JobId, RequestId
from dexd.core.index_values import IndexKeyTypes
from dexd.core.jobs.commands import CancelJob
from dexd.core.jobs.events import JobKind, Operation
from dexd.core.jobs.state import JobState
from dexd.core.rejections import Rejection
from dexpb.v1 import flow_service_pb2 as pb

RATE_DEFAULT = 50.0
RATE_MAX = 1_000.0
"""Flows a second."""

PAGE_SIZE_MAX = 100
"""Jobs of a page."""


class BatchQuery(msgspec.Struct, frozen=True):
    """A job to begin, before its targets are known."""

    job_id: JobId
    query: str
    operation: Operation
    rate: float
    all_flows: bool
    dry_run: bool
    request_id: RequestId
    digest: bytes
    index_keys: IndexKeyTypes
    """Keys that the caller names."""


class BatchListQuery(msgspec.Struct, frozen=True):
    """A page of jobs."""

    limit: int
    before_stream_id: int


class DryRun(msgspec.Struct, frozen=True):
    """What a job would have for targets [BATCH-2]."""

    query: str
    kind: JobKind
    rate: float
    matched: int
    sample: tuple[FlowId, ...]


class BatchView(msgspec.Struct, frozen=True):
    """A job as it is now."""

    job_id: JobId
    kind: JobKind
    query: str
    status: str
    matched: int
    applied: int
    skipped: int
    failed: int
    reasons: dict[str, int]
    problems: tuple[tuple[str, str, str, str], ...]
    """Flow ID, outcome, reason and detail."""
    rate: float
    created_at: int
    closed_at: int


class BatchPage(msgspec.Struct, frozen=True):
    """Jobs, newest first."""

    batches: tuple[BatchView, ...]
    next_before: int
    """Stream that the next page lies before; 0 on the last one."""


def view_of(job: JobState) -> BatchView:
    """Show a job; what is given does not change with it."""
    status = "CANCELING" if job.is_canceled and not job.is_closed else job.status.name
    problems = tuple(
        (problem.flow_id, problem.outcome.name, problem.reason, problem.detail) for problem in job.problems
    )
    return BatchView(
        job.job_id,
        job.operation.kind,
        job.query,
        status,
        job.matched,
        job.applied,
        job.skipped,
        job.failed,
        dict(job.reasons),
        problems,
        job.rate,
        job.created_at,
        job.closed_at,
    )


def to_batch_query(request: pb.CreateBatchRequest, fresh: RequestId) -> BatchQuery | Rejection:
    """Read which job is to begin; one over every Flow must be meant so [BATCH-2]."""
    if not request.query.strip() and not request.all_flows:
        return invalid("query", "an empty query finds every Flow; name some, or say all_flows if all are meant")
    rate = request.rate or RATE_DEFAULT
    if not 0 < rate <= RATE_MAX or math.isnan(rate):
        return invalid("rate", f"rate is {rate:g} Flows a second, allowed are numbers above 0 to {RATE_MAX:g}")
    operation = to_operation(request)
    if isinstance(operation, Rejection):
        return operation
    refused = refuse_request_id(request.request_id)
    if refused is not None:
        return refused
    request_id = RequestId(request.request_id) if request.request_id else fresh
    # A repeat of the request must find the job, so the one follows from the other.
    job_id = JobId(f"batch-{hashlib.sha256(request_id.encode()).hexdigest()[:20]}")
    digest = digest_of(request.query, operation, rate)
    try:
        keys = to_index_keys(request.index_keys)
    except ValueError as error:
        return invalid("index_keys", str(error))
    return BatchQuery(
        job_id, request.query, operation, rate, request.all_flows, request.dry_run, request_id, digest, keys
    )


def to_cancel_job(request: pb.CancelBatchRequest) -> CancelJob | Rejection:
    """Read which job is to be canceled."""
    return _refuse_id(request.batch_id) or CancelJob(JobId(request.batch_id))


def to_job_id(request: pb.DescribeBatchRequest) -> JobId | Rejection:
    """Read which job is meant."""
    return _refuse_id(request.batch_id) or JobId(request.batch_id)


def to_batch_list_query(request: pb.ListBatchesRequest) -> BatchListQuery | Rejection:
    """Read which page is wanted."""
    limit = request.page_size or PAGE_SIZE_MAX
    refused = refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    if refused is not None:
        return refused
    token = request.page_token
    if token and not (token.isascii() and token.isdigit() and len(token) <= 18):
        return invalid("page_token", "page_token does not come from a list of batches")
    return BatchListQuery(limit, int(token or 0))


def _refuse_id(batch_id: str) -> Rejection | None:
    return refuse_fault(name_fault(batch_id, "batch_id"), "batch_id")


def from_batch(batch: BatchView | DryRun) -> pb.BatchInfo:
    """Show a job, or what one would have for targets."""
    if isinstance(batch, DryRun):
        return pb.BatchInfo(
            operation=batch.kind.name,
            query=batch.query,
            status="DRY_RUN",
            matched=batch.matched,
            rate=batch.rate,
            sample=batch.sample,
        )
    return pb.BatchInfo(
        batch_id=batch.job_id,
        operation=batch.kind.name,
        query=batch.query,
        status=batch.status,
        matched=batch.matched,
        applied=batch.applied,
        skipped=batch.skipped,
        failed=batch.failed,
        reasons=batch.reasons,
        problems=[
            pb.BatchProblem(flow_id=flow_id, outcome=outcome, reason=reason, detail=detail)
            for flow_id, outcome, reason, detail in batch.problems
        ],
        rate=batch.rate,
        created_at=batch.created_at,
        closed_at=batch.closed_at,
    )


def from_batch_page(page: BatchPage) -> pb.ListBatchesReply:
    """Show a page of jobs."""
    token = str(page.next_before) if page.next_before else ""
    return pb.ListBatchesReply(batches=map(from_batch, page.batches), next_page_token=token)
