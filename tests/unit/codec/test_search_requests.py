"""Searches of clients, and tokens of pages [SEARCH-6, SEARCH-8]."""

from typing import Any

import pytest

from dexd.codec import search_requests as searches
from dexd.codec.page_tokens import page_token, position_of_token
from dexd.core.index_values import IndexType
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowStatus
from dexd.log.event_log import FoundPage, FoundRun, IndexRow, ListedRun, RunRow
from dexd.search.syntax import QueryError
from dexpb.v1 import flow_service_pb2 as pb

SECRET = b"of this server"
POSITION = (1_000, None, 1.5, True, "f\0", 7)


def refusal(answer: object) -> Rejection:
    assert isinstance(answer, Rejection)
    return answer


def test_search_8_a_search_has_100_rows_unless_it_says_how_many() -> None:
    request = pb.SearchFlowsRequest(query="FlowId = 'f'")
    assert searches.to_search_query(request, SECRET) == searches.SearchQuery("FlowId = 'f'", 100, None, {})
    request = pb.SearchFlowsRequest(
        page_size=7, page_token=page_token(SECRET, "", POSITION), index_keys=[pb.IndexKey(key="k", type=4)]
    )
    assert searches.to_search_query(request, SECRET) == searches.SearchQuery("", 7, POSITION, {"k": IndexType.INT})


@pytest.mark.parametrize("size", [-1, 1_001])
def test_search_8_a_page_has_1_to_1000_rows(size: int) -> None:
    answer = refusal(searches.to_search_query(pb.SearchFlowsRequest(page_size=size), SECRET))
    assert answer.code is Code.INVALID_ARGUMENT


def test_search_8_a_foreign_or_altered_token_is_an_invalid_query() -> None:
    token = page_token(SECRET, "a = 1", POSITION)
    altered = [token[:-4], token + "AAAA", "", "%%%", "\u00e9", "A" + token[1:], token.swapcase()]
    for other in (*altered[:2], *altered[3:], page_token(b"of another server", "a = 1", POSITION)):
        answer = refusal(searches.to_search_query(pb.SearchFlowsRequest(query="a = 1", page_token=other), SECRET))
        assert (answer.code, answer.fields) == (Code.INVALID_QUERY, {"position": "0"})
    answer = refusal(searches.to_search_query(pb.SearchFlowsRequest(query="a = 2", page_token=token), SECRET))
    assert answer.code is Code.INVALID_QUERY
    assert position_of_token(SECRET, "a = 1", token) == POSITION


def test_keys_that_make_no_sense_are_refused() -> None:
    keys: dict[str, Any] = {"index_keys": [pb.IndexKey(key="k")]}
    for answer in (
        searches.to_search_query(pb.SearchFlowsRequest(**keys), SECRET),
        searches.to_count_query(pb.CountFlowsRequest(**keys)),
    ):
        assert refusal(answer).code is Code.INVALID_ARGUMENT


def test_search_8_counts_are_grouped_by_three_fields() -> None:
    for field in ("", "Status", "FlowType", "StepStatus"):
        request = pb.CountFlowsRequest(query="a = 1", group_by=field)
        assert searches.to_count_query(request) == searches.CountQuery("a = 1", field, {})
    answer = refusal(searches.to_count_query(pb.CountFlowsRequest(group_by="FlowId")))
    assert answer.code is Code.INVALID_QUERY
    assert "expected Status, FlowType, StepStatus or nothing" in answer.message


def test_search_8_the_largest_group_is_shown_first() -> None:
    counted = searches.FlowsCounted(9, {"b": 2, "a": 2, "c": 5})
    groups = [pb.FlowGroup(value="c", flows=5), pb.FlowGroup(value="a", flows=2), pb.FlowGroup(value="b", flows=2)]
    assert searches.from_counted(counted) == pb.CountFlowsReply(total=9, groups=groups)


def test_search_6_a_bad_query_tells_its_position() -> None:
    answer = searches.refuse_query(QueryError(7, "no"))
    assert (answer.code, answer.message, answer.fields) == (Code.INVALID_QUERY, "no, at position 7", {"position": "7"})


def test_search_8_a_page_shows_facts_index_values_and_the_next_token() -> None:
    row = RunRow(1, "r2", "f", 3, "Order", FlowStatus.FAILED, 10, 20, first_run_id="r1", parent_flow_id="p")
    run = FoundRun(ListedRun(row, 5, 0), [IndexRow(1, "n", (5,))], (10, "f", 1))
    query = searches.SearchQuery("n = 5", 1, None, {})
    found = searches.FlowsFound(FoundPage([run], has_more=True), {"n": IndexType.INT})
    reply = searches.from_found(found, query, SECRET)
    (flow,) = reply.flows
    assert (flow.info.run_id, flow.info.first_run_id, flow.info.parent_flow_id) == ("r2", "r1", "p")
    assert list(flow.indexed) == [pb.IndexWrite(key="n", type=4, value=b"5")]
    assert position_of_token(SECRET, "n = 5", reply.next_page_token) == (10, "f", 1)
    last = searches.FlowsFound(FoundPage([run], has_more=False), {})
    assert searches.from_found(last, query, SECRET).next_page_token == ""
