"""The verbs of batch jobs as conversations; see `_verbs`."""

import math
from collections.abc import Sequence
from typing import Any, TypedDict

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk._conversation import Conversation, Request, ask
from dexsdk._durations import from_instant_ms
from dexsdk._large_requests import ask_carrying
from dexsdk._names import check_name
from dexsdk._read_verbs import checked_query
from dexsdk._verbs import Verbs, stop_request
from dexsdk.attribute import AnyAttribute
from dexsdk.batch_results import BatchInfo, BatchPage, BatchProblem, BatchStatus
from dexsdk.channel import AnyChannel
from dexsdk.options import StopFlowOptions
from dexsdk.time_travel import TimeTravelOptions

RATE_MAX = 1_000.0
PAGE_SIZE_MAX = 100


class BatchGuard(TypedDict, total=False):
    """How a batch job runs, and whether it does."""

    dry_run: bool
    """Only tell how many Flows the query finds, and some of them; nothing is changed."""
    all_flows: bool
    """The query may be empty, which means all Flows, closed ones included."""
    rate: float
    """Flows a second at most, above 0 to 1,000; 50 unless said otherwise."""


class BatchVerbs:
    """The verbs over the registry of a client."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def stop(self, query: str, options: StopFlowOptions | None, guard: BatchGuard) -> Conversation[BatchInfo]:
        """See Batch.stop."""
        options = options or StopFlowOptions()
        message = self._request(query, guard, options.request_id)
        message.stop.CopyFrom(stop_request(options))
        return ask(_creation(message))

    def time_travel(self, query: str, options: TimeTravelOptions, guard: BatchGuard) -> Conversation[BatchInfo]:
        """See Batch.time_travel."""
        message = self._request(query, guard, options.request_id)
        message.time_travel.CopyFrom(self._verbs.travel(options))
        return ask(_creation(message))

    def publish(
        self, query: str, channel: AnyChannel, arguments: Sequence[Any], guard: BatchGuard
    ) -> Conversation[BatchInfo]:
        """See Batch.publish."""
        publication = self._verbs.publication(channel, arguments)
        message = self._request(query, guard)

        def carried(_: bytes) -> Request[BatchInfo]:
            message.publish.CopyFrom(publication)
            return _creation(message)

        return ask_carrying(publication, carried)

    def set_attribute(
        self, query: str, attribute: AnyAttribute, arguments: Sequence[Any], guard: BatchGuard
    ) -> Conversation[BatchInfo]:
        """See Batch.set_attribute."""
        write = self._verbs.attribute_write(attribute, arguments)
        message = self._request(query, guard)

        def carried(_: bytes) -> Request[BatchInfo]:
            message.set_attribute.CopyFrom(write)
            return _creation(message)

        return ask_carrying(write, carried)

    def describe(self, batch_id: str) -> Conversation[BatchInfo]:
        """See Batch.describe."""
        body = pb.DescribeBatchRequest(batch_id=check_name(batch_id, "batch ID")).SerializeToString()
        return ask(Request("batch.describe", "DescribeBatch", body, to_batch_info))

    def cancel(self, batch_id: str) -> Conversation[BatchInfo]:
        """See Batch.cancel."""
        body = pb.CancelBatchRequest(batch_id=check_name(batch_id, "batch ID")).SerializeToString()
        return ask(Request("batch.cancel", "CancelBatch", body, to_batch_info))

    def list(self, page_size: int, token: str) -> Conversation[BatchPage]:
        """See Batch.list."""
        if not 1 <= page_size <= PAGE_SIZE_MAX:
            raise ValueError(f"page_size is {page_size}, allowed are 1 to {PAGE_SIZE_MAX}")
        body = pb.ListBatchesRequest(page_size=page_size, page_token=token).SerializeToString()
        return ask(Request("batch.list", "ListBatches", body, _to_page))

    def _request(self, query: str, guard: BatchGuard, request_id: str | None = None) -> pb.CreateBatchRequest:
        """Which Flows, without what is done to them."""
        all_flows, rate = guard.get("all_flows", False), guard.get("rate", 50.0)
        if not query.strip() and not all_flows:
            raise ValueError("an empty query finds every Flow; say all_flows=True if all are meant")
        if not 0 < rate <= RATE_MAX or math.isnan(rate):
            raise ValueError(f"rate is {rate} Flows a second, allowed are numbers above 0 to {RATE_MAX:g}")
        return pb.CreateBatchRequest(
            query=checked_query(query),
            all_flows=all_flows,
            rate=rate,
            dry_run=guard.get("dry_run", False),
            request_id=self._verbs.request_id(request_id),
            index_keys=self._verbs.reads.index_keys(),
        )


def _creation(message: pb.CreateBatchRequest) -> Request[BatchInfo]:
    return Request("batch", "CreateBatch", message.SerializeToString(), to_batch_info)


def to_batch_info(body: bytes) -> BatchInfo:
    """Read how a job stands."""
    return _info(pb.BatchInfo.FromString(body))


def _to_page(body: bytes) -> BatchPage:
    reply = pb.ListBatchesReply.FromString(body)
    return BatchPage(tuple(map(_info, reply.batches)), reply.next_page_token or None)


def _info(info: pb.BatchInfo) -> BatchInfo:
    problems = (BatchProblem(row.flow_id, row.outcome, row.reason, row.detail) for row in info.problems)
    return BatchInfo(
        id=info.batch_id,
        operation=info.operation,
        query=info.query,
        status=BatchStatus(info.status),
        matched=info.matched,
        applied=info.applied,
        skipped=info.skipped,
        failed=info.failed,
        reasons=dict(info.reasons),
        problems=tuple(problems),
        rate=info.rate,
        created_at=from_instant_ms(info.created_at) if info.created_at else None,
        closed_at=from_instant_ms(info.closed_at) if info.closed_at else None,
        sample=tuple(info.sample),
    )
