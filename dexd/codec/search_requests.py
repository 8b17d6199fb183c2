"""Searches of clients as queries of the engine, and what they find as messages [SEARCH-6..9]."""

import msgspec

from dexd.codec.flow_replies import from_summary
from dexd.codec.index_writes import from_index_row, to_index_keys
from dexd.codec.page_tokens import page_token, position_of_token
from dexd.codec.request_checks import invalid, refuse_outside
from dexd.codec.views import summary_of_row
from dexd.core.index_values import IndexKeyTypes
from dexd.core.rejections import Code, Rejection
from dexd.log.event_log import FoundPage
from dexd.search.evaluation import Position
from dexd.search.fields import GROUP_FIELDS
from dexd.search.syntax import QueryError
from dexpb.v1 import flow_service_pb2 as pb

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 1_000
"""Rows of a page [SEARCH-8]."""


class SearchQuery(msgspec.Struct, frozen=True):
    """A page of what a query finds."""

    text: str
    limit: int
    after: Position | None
    index_keys: IndexKeyTypes
    """Keys that the caller names."""


class CountQuery(msgspec.Struct, frozen=True):
    """How many a query finds."""

    text: str
    group_by: str
    index_keys: IndexKeyTypes


class FlowsFound(msgspec.Struct, frozen=True):
    """Answer to a search."""

    page: FoundPage
    index_keys: IndexKeyTypes
    """Types of all keys."""


class FlowsCounted(msgspec.Struct, frozen=True):
    """Answer to a count."""

    total: int
    groups: dict[str, int]


def refuse_query(error: QueryError) -> Rejection:
    """The text is no query, or does not fit the fields [SEARCH-6]."""
    return Rejection(Code.INVALID_QUERY, str(error), {"position": str(error.position)})


def to_search_query(request: pb.SearchFlowsRequest, secret: bytes) -> SearchQuery | Rejection:
    """Read a search; a token continues only the search that it came from."""
    limit = request.page_size or PAGE_SIZE_DEFAULT
    refusal = refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    if refusal is not None:
        return refusal
    after = None
    if request.page_token:
        after = position_of_token(secret, request.query, request.page_token)
        if after is None:
            problem = "the page token is not one that this server gave for this query"
            return Rejection(Code.INVALID_QUERY, problem, {"position": "0"})
    try:
        return SearchQuery(request.query, limit, after, to_index_keys(request.index_keys))
    except ValueError as error:
        return invalid("index_keys", str(error))


def to_count_query(request: pb.CountFlowsRequest) -> CountQuery | Rejection:
    """Read a count."""
    if request.group_by and request.group_by not in GROUP_FIELDS:
        problem = f"group_by is {request.group_by[:255]!r}, expected {', '.join(GROUP_FIELDS)} or nothing"
        return Rejection(Code.INVALID_QUERY, problem, {"position": "0"})
    try:
        return CountQuery(request.query, request.group_by, to_index_keys(request.index_keys))
    except ValueError as error:
        return invalid("index_keys", str(error))


def from_found(found: FlowsFound, query: SearchQuery, secret: bytes) -> pb.SearchFlowsReply:
    """Show a page."""
    page = found.page
    flows = [
        pb.FoundFlow(
            info=from_summary(summary_of_row(run.listed)),
            indexed=[from_index_row(row, found.index_keys) for row in run.indexed],
        )
        for run in page.runs
    ]
    token = page_token(secret, query.text, page.runs[-1].position) if page.has_more else ""
    return pb.SearchFlowsReply(flows=flows, next_page_token=token)


def from_counted(counted: FlowsCounted) -> pb.CountFlowsReply:
    """Show a count, the largest group first."""
    groups = sorted(counted.groups.items(), key=lambda group: (-group[1], group[0]))
    return pb.CountFlowsReply(
        total=counted.total, groups=[pb.FlowGroup(value=value, flows=flows) for value, flows in groups]
    )
