"""The verbs of a client that read, each as a conversation; see `_verbs`."""

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import _replies as replies
from dexsdk._conversation import Conversation, Request, ask
from dexsdk._names import check_name
from dexsdk._registry import Registry
from dexsdk._searches import PAGE_SIZE_MAX, to_count, to_index_keys, to_page
from dexsdk.errors import InvalidQueryError
from dexsdk.flow_state import FlowExplanation, FlowState
from dexsdk.results import FlowCount, FlowInfo, HistoryPage, SearchFlowsPage

HISTORY_PAGE_MAX = 1_000
"""Events in one page of history [HIST-5]."""


class ReadVerbs:
    """The reading verbs over one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def describe_flow(self, flow_id: str, *, run_id: str | None) -> Conversation[FlowInfo]:
        """See Client.describe_flow."""
        message = pb.DescribeFlowRequest(flow_id=check_name(flow_id, "Flow ID"), run_id=run_id or "")
        body = message.SerializeToString()
        return ask(Request("describe_flow", "DescribeFlow", body, replies.to_flow_info, flow_id))

    def get_flow_state(self, flow_id: str) -> Conversation[FlowState]:
        """See Client.get_flow_state."""
        body = pb.GetFlowStateRequest(flow_id=check_name(flow_id, "Flow ID")).SerializeToString()
        return ask(Request("get_flow_state", "GetFlowState", body, replies.to_flow_state, flow_id))

    def explain(self, flow_id: str) -> Conversation[FlowExplanation]:
        """See Client.explain."""
        body = pb.ExplainFlowRequest(flow_id=check_name(flow_id, "Flow ID")).SerializeToString()
        return ask(Request("explain", "ExplainFlow", body, replies.to_explanation, flow_id))

    def search_flows(self, query: str, page_size: int, next_page_token: str) -> Conversation[SearchFlowsPage]:
        """See Client.search_flows."""
        if not 1 <= page_size <= PAGE_SIZE_MAX:
            raise ValueError(f"page_size is {page_size}, allowed are 1 to {PAGE_SIZE_MAX}")
        message = pb.SearchFlowsRequest(
            query=checked_query(query),
            page_size=page_size,
            page_token=next_page_token,
            index_keys=to_index_keys(self._registry.index_keys),
        )
        return ask(Request("search_flows", "SearchFlows", message.SerializeToString(), to_page))

    def index_keys(self) -> list[pb.IndexKey]:
        """Give the index keys that the registry knows, for the server to know them too [SEARCH-3]."""
        return to_index_keys(self._registry.index_keys)

    def count_flows(self, query: str, group_by: str | None) -> Conversation[FlowCount]:
        """See Client.count_flows."""
        message = pb.CountFlowsRequest(
            query=checked_query(query),
            group_by=group_by or "",
            index_keys=to_index_keys(self._registry.index_keys),
        )
        return ask(Request("count_flows", "CountFlows", message.SerializeToString(), to_count))

    def get_history(
        self, flow_id: str, *, run_id: str | None, from_event_id: int, page_size: int
    ) -> Conversation[HistoryPage]:
        """See Client.get_history."""
        if not 1 <= page_size <= HISTORY_PAGE_MAX:
            raise ValueError(f"page_size is {page_size}, allowed are 1 to {HISTORY_PAGE_MAX}")
        message = pb.GetHistoryRequest(
            flow_id=check_name(flow_id, "Flow ID"),
            run_id=run_id or "",
            from_event_id=checked_event_id(from_event_id),
            page_size=page_size,
        )
        body = message.SerializeToString()
        return ask(Request("get_history", "GetHistory", body, replies.to_history_page, flow_id))


def checked_query(query: str) -> str:
    """Let no text that cannot travel become another error than the one of a bad query."""
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InvalidQueryError(
            f"the query has a surrogate at position {error.start}",
            code="INVALID_ARGUMENT",
            sub_status="INVALID_QUERY",
            metadata={"position": str(error.start)},
        ) from error
    return query


def checked_event_id(event_id: int) -> int:
    """Give the event ID; they begin at 1."""
    if event_id < 1:
        raise ValueError(f"from_event_id is {event_id}, event IDs begin at 1")
    return event_id
