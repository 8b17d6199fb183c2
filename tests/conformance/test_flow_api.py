"""Clauses of the client API, proved over the wire against a running server."""

import json
import math
from typing import Any

import grpc
import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from tests.support.api_calls import (
    describe,
    fresh,
    history,
    publish,
    refusal,
    start,
    start_request,
    stop,
    wait_for_flow,
)
from tests.support.api_client import ApiClient, RefusedError, hello

# ---- starting ----------------------------------------------------------------------------------------------------


def test_started_flow_is_described_listed_and_has_a_history(api: ApiClient, flow_id: str) -> None:
    """[START-1, HIST-2, ARCH-10]: describe, list and history agree."""
    run_id = start(api, flow_id)
    info = describe(api, flow_id)
    assert (info.flow_id, info.run_id, info.flow_type, info.status) == (flow_id, run_id, "Order", "RUNNING")
    assert (info.ordinal, info.closed_at) == (1, 0)
    assert info.started_at > 0

    request = pb.SearchFlowsRequest(query=f"FlowId = '{flow_id}'")
    listed = [found.info for found in api.call("SearchFlows", request, pb.SearchFlowsReply).flows]
    events = history(api, flow_id)
    assert [event.kind for event in events][:2] == ["FlowStarted", "StepScheduled"]
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    assert len(events) == info.history_events
    assert listed == [info]
    assert json.loads(events[1].data)["input"] == {"a": 1}


def test_repeated_start_gets_the_same_run(api: ApiClient, flow_id: str) -> None:
    """[START-3, GEN-8]"""
    assert start(api, flow_id) == start(api, flow_id)
    assert len([event for event in history(api, flow_id) if event.kind == "FlowStarted"]) == 1


def test_same_request_id_with_other_content_is_a_conflict(api: ApiClient, flow_id: str) -> None:
    """[START-3]"""
    start(api, flow_id)
    error = refusal(api, "StartFlow", start_request(flow_id, input=b"2"))
    assert (error.code, error.reason) == ("ALREADY_EXISTS", "REQUEST_CONFLICT")


def test_flow_id_in_use_is_refused_with_its_run_and_status(api: ApiClient, flow_id: str) -> None:
    """[START-5]"""
    run_id = start(api, flow_id)
    error = refusal(api, "StartFlow", start_request(flow_id, request_id="another"))
    assert (error.code, error.reason) == ("ALREADY_EXISTS", "FLOW_ALREADY_STARTED")
    assert (error.metadata["run_id"], error.metadata["status"]) == (run_id, "RUNNING")


@pytest.mark.parametrize(
    "changes",
    [
        {"flow_id": "nul\0inside"},
        {"flow_id": "x" * 256},
        {"flow_id": "sys:own"},
        {"flow_id": "line\nbreak"},
        {"flow_type": "\x7f"},
        {"flow_type": "x" * 256},
        {"request_id": "a\0b"},
        {"id_reuse_policy": 99},
        {"start_step": pb.StartStep(step_type="a\0b")},
        {"start_step": pb.StartStep(step_type="S", options=pb.StepOptions(execute_timeout_ms=-5))},
        {"start_step": pb.StartStep(step_type="S", options=pb.StepOptions(wait_for_failure=7))},
        {"attributes": [pb.AttributeValue(key="sys:x", value=b"1")]},
        {"attributes": [pb.AttributeValue(key="\0x", value=b"1")]},
    ],
)
def test_start_with_a_bad_field_is_refused_and_stores_nothing(
    api: ApiClient, flow_id: str, changes: dict[str, Any]
) -> None:
    """[ERR-B, ID-1, ID-3, GEN-2]"""
    error = refusal(api, "StartFlow", start_request(flow_id, **changes))
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert refusal(api, "DescribeFlow", pb.DescribeFlowRequest(flow_id=flow_id)).reason == "FLOW_NOT_FOUND"


@pytest.mark.parametrize(
    "policy",
    [
        {"backoff_coefficient": math.nan},
        {"backoff_coefficient": math.inf},
        {"backoff_coefficient": 0.5},
        {"jitter": 1.5},
        {"maximum_attempts": -1},
        {"initial_interval_ms": 2**63 - 1},
        {"initial_interval_ms": -1},
    ],
)
def test_start_with_an_impossible_retry_policy_is_refused(
    api: ApiClient, flow_id: str, policy: dict[str, float]
) -> None:
    """[RETRY-3, ERR-B]"""
    retry = pb.RetryPolicy(initial_interval_ms=1, backoff_coefficient=2.0)
    retry.MergeFrom(pb.RetryPolicy(**policy))  # type: ignore[arg-type]  # keyword types are those of the proto
    step = pb.StartStep(step_type="S", options=pb.StepOptions(execute_retry=retry))
    assert refusal(api, "StartFlow", start_request(flow_id, start_step=step)).reason == "INVALID_ARGUMENT"


@pytest.mark.parametrize("text", ["/:$@%#?~ \"'.\N{GRINNING FACE}\u200f", "é", "e\u0301", "."])
def test_unusual_texts_are_legal_ids_and_stay_distinct(api: ApiClient, text: str) -> None:
    """[ID-2]"""
    flow_id = fresh(text)
    run_id = start(api, flow_id)
    assert describe(api, flow_id).run_id == run_id


def test_flow_type_that_no_worker_announced_is_refused_by_name(api: ApiClient, flow_id: str) -> None:
    """[ERR-B]"""
    request = pb.StartFlowRequest(flow_id=flow_id, flow_type="NeverSeen", resolve_start_step=True)
    error = refusal(api, "StartFlow", request)
    assert (error.code, error.reason) == ("FAILED_PRECONDITION", "UNKNOWN_FLOW_TYPE")
    assert error.metadata["flow_type"] == "NeverSeen"


def test_start_without_code_takes_what_a_worker_announced(api: ApiClient, flow_id: str) -> None:
    call = api.worker_session()
    flow = frames.FlowDescriptor("Announced", frames.StepDescriptor("First", has_wait_for=False), ("First",))
    call.send(hello("announcer", flow))
    call.next_frame(frames.Welcome)
    api.call(
        "StartFlow",
        pb.StartFlowRequest(flow_id=flow_id, flow_type="Announced", resolve_start_step=True, input=b"1"),
        pb.StartFlowReply,
    )
    call.cancel()
    assert json.loads(history(api, flow_id)[1].data)["step_type"] == "First"


# ---- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("DescribeFlow", pb.DescribeFlowRequest),
        ("GetHistory", pb.GetHistoryRequest),
        ("GetAttribute", pb.GetAttributeRequest),
        ("SetAttribute", pb.SetAttributeRequest),
        ("Publish", pb.PublishRequest),
        ("InvokeRpc", pb.InvokeRpcRequest),
        ("WaitForFlow", pb.WaitForFlowRequest),
        ("WaitForStepCompletion", pb.WaitForStepCompletionRequest),
        ("ListChannelMessages", pb.ListChannelMessagesRequest),
        ("DeleteChannelMessage", pb.DeleteChannelMessageRequest),
        ("SkipTimer", pb.SkipTimerRequest),
        ("StopFlow", pb.StopFlowRequest),
    ],
)
def test_every_call_on_an_unknown_flow_id_says_not_found(api: ApiClient, method: str, request_type: Any) -> None:
    """[ERR-1]: FLOW_NOT_FOUND, any call."""
    fields: dict[str, Any] = {"flow_id": "no-such-flow"}
    known = request_type.DESCRIPTOR.fields_by_name
    valid: dict[str, Any] = {"channel": "c", "values": [b"1"], "key": "k", "name": "n", "step_execution_id": "S-1"}
    valid |= {"request_id": "r", "message_id": "m"}
    fields |= {name: value for name, value in valid.items() if name in known}
    error = refusal(api, method, request_type(**fields))
    assert (error.code, error.reason) == ("NOT_FOUND", "FLOW_NOT_FOUND")
    assert error.metadata["flow_id"] == "no-such-flow"


def test_history_pages_by_event_id(api: ApiClient, flow_id: str) -> None:
    """[HIST-5]"""
    start(api, flow_id)
    for number in range(5):
        publish(api, flow_id, b"%d" % number)
    whole = history(api, flow_id)
    paged: list[pb.HistoryEvent] = []
    next_id = 1
    while next_id:
        request = pb.GetHistoryRequest(flow_id=flow_id, from_event_id=next_id, page_size=2)
        page = api.call("GetHistory", request, pb.GetHistoryReply)
        assert len(page.events) <= 2
        paged += page.events
        next_id = page.next_event_id if page.events else 0
    assert paged == whole


@pytest.mark.parametrize("page", [{"page_size": -1}, {"page_size": 1_001}, {"from_event_id": -1}])
def test_history_page_out_of_range_is_refused(api: ApiClient, flow_id: str, page: dict[str, Any]) -> None:
    """[HIST-5, ERR-B]"""
    start(api, flow_id)
    assert refusal(api, "GetHistory", pb.GetHistoryRequest(flow_id=flow_id, **page)).reason == "INVALID_ARGUMENT"


def test_watched_history_ends_with_the_flow(api: ApiClient, flow_id: str) -> None:
    """[HIST-5]"""
    start(api, flow_id)
    events = api.stream("WatchHistory", pb.WatchHistoryRequest(flow_id=flow_id), pb.HistoryEvent)
    kinds = [next(events).kind]
    stop(api, flow_id)
    kinds += [event.kind for event in events]
    assert (kinds[0], kinds[-1]) == ("FlowStarted", "FlowClosed")


def test_watch_of_an_unknown_flow_is_refused(api: ApiClient) -> None:
    with pytest.raises(RefusedError) as raised:
        next(api.stream("WatchHistory", pb.WatchHistoryRequest(flow_id="no-such-flow"), pb.HistoryEvent))
    assert raised.value.reason == "FLOW_NOT_FOUND"


def test_search_pages_newest_first_without_repetition(api: ApiClient) -> None:
    """[SEARCH-7, SEARCH-8]"""
    prefix = fresh("page") + "-"
    flow_ids = [f"{prefix}{number}" for number in range(5)]
    for flow_id in flow_ids:
        start(api, flow_id)
    seen: list[str] = []
    token = ""
    while True:
        request = pb.SearchFlowsRequest(query=f"FlowId LIKE '{prefix}%'", page_size=2, page_token=token)
        reply = api.call("SearchFlows", request, pb.SearchFlowsReply)
        seen += [found.info.flow_id for found in reply.flows]
        token = reply.next_page_token
        if not token:
            break
    assert seen == flow_ids[::-1]


@pytest.mark.parametrize(
    "changes", [{"page_token": "forged"}, {"page_size": -1}, {"page_size": 1_001}, {"query": "Status = 'ASLEEP'"}]
)
def test_search_with_a_bad_field_is_refused(api: ApiClient, changes: dict[str, Any]) -> None:
    """[SEARCH-8, ERR-B]"""
    assert refusal(api, "SearchFlows", pb.SearchFlowsRequest(**changes)).code == "INVALID_ARGUMENT"


# ---- changing ----------------------------------------------------------------------------------------------------


def test_published_messages_get_ids_and_a_repeat_gets_the_same(api: ApiClient, flow_id: str) -> None:
    """[CHAN-2, RPC-12, ID-13]"""
    start(api, flow_id)
    first = publish(api, flow_id, b"1", b"2", request_id="p1")
    assert len(set(first)) == 2
    assert first == sorted(first)
    assert publish(api, flow_id, b"1", b"2", request_id="p1") == first
    published = [event for event in history(api, flow_id) if event.kind == "ChannelPublished"]
    assert len(published) == 1


def test_attribute_is_set_read_and_deleted(api: ApiClient, flow_id: str) -> None:
    """[ATTR-5]; values come back byte for byte."""
    start(api, flow_id, attributes=[pb.AttributeValue(key="color", value=b'"red"')])
    get = pb.GetAttributeRequest(flow_id=flow_id, key="color")
    assert api.call("GetAttribute", get, pb.GetAttributeReply).value == b'"red"'
    api.call(
        "SetAttribute",
        pb.SetAttributeRequest(flow_id=flow_id, key="color", value=b"9007199254740993"),
        pb.SetAttributeReply,
    )
    assert api.call("GetAttribute", get, pb.GetAttributeReply).value == b"9007199254740993"
    api.call("SetAttribute", pb.SetAttributeRequest(flow_id=flow_id, key="color"), pb.SetAttributeReply)
    assert not api.call("GetAttribute", get, pb.GetAttributeReply).HasField("value")


def test_stop_has_one_winner(api: ApiClient, flow_id: str) -> None:
    """[STOP-2]"""
    start(api, flow_id)
    first, second = stop(api, flow_id, type=2), stop(api, flow_id, type=0)
    assert (first.outcome, first.status) == ("APPLIED", "TERMINATED")
    assert (second.outcome, second.status) == ("ALREADY_CLOSED", "TERMINATED")
    assert describe(api, flow_id).status == "TERMINATED"


def test_closed_flow_refuses_changes_and_serves_reads(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-7]"""
    start(api, flow_id, attributes=[pb.AttributeValue(key="color", value=b"1")])
    stop(api, flow_id)
    error = refusal(api, "Publish", pb.PublishRequest(flow_id=flow_id, channel="c", values=[b"1"]))
    assert (error.code, error.reason) == ("FAILED_PRECONDITION", "FLOW_NOT_ACTIVE")
    error = refusal(api, "SetAttribute", pb.SetAttributeRequest(flow_id=flow_id, key="color", value=b"2"))
    assert error.reason == "FLOW_NOT_ACTIVE"
    get = pb.GetAttributeRequest(flow_id=flow_id, key="color")
    assert api.call("GetAttribute", get, pb.GetAttributeReply).value == b"1"


@pytest.mark.parametrize(
    ("method", "request_message"),
    [
        ("Publish", pb.PublishRequest(channel="a\0\0b", values=[b"1"])),
        ("Publish", pb.PublishRequest(channel="", values=[b"1"])),
        ("Publish", pb.PublishRequest(channel="sys:c", values=[b"1"])),
        ("SetAttribute", pb.SetAttributeRequest(key="", value=b"1")),
        ("StopFlow", pb.StopFlowRequest(type=9)),
        ("InvokeRpc", pb.InvokeRpcRequest(name="a\0b")),
        ("InvokeRpc", pb.InvokeRpcRequest(name="n", timeout_ms=60_001)),
        ("InvokeRpc", pb.InvokeRpcRequest(name="n", timeout_ms=-1)),
        ("WaitForFlow", pb.WaitForFlowRequest(wait_ms=-1)),
        ("WaitForStepCompletion", pb.WaitForStepCompletionRequest(step_execution_id="S-1", wait_ms=-1)),
    ],
)
def test_change_or_wait_with_a_bad_field_is_refused(
    api: ApiClient, flow_id: str, method: str, request_message: Any
) -> None:
    """[ERR-B]"""
    start(api, flow_id)
    request_message.flow_id = flow_id
    assert refusal(api, method, request_message).code == "INVALID_ARGUMENT"
    assert len(history(api, flow_id)) == describe(api, flow_id).history_events == 2


# ---- waiting -----------------------------------------------------------------------------------------------------


def test_wait_of_zero_checks_once(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-1]"""
    run_id = start(api, flow_id)
    before = wait_for_flow(api, flow_id, 0)
    assert (before.is_terminal, before.first_run_id, before.status) == (False, run_id, "")
    stop(api, flow_id, type=1)
    after = wait_for_flow(api, flow_id, 0)
    assert (after.is_terminal, after.status, after.error_type) == (True, "FAILED", "CLIENT_API_FAILED")


def test_wait_that_runs_out_changes_nothing(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-1]"""
    start(api, flow_id)
    assert not wait_for_flow(api, flow_id, 50).is_terminal
    assert [event.kind for event in history(api, flow_id)] == ["FlowStarted", "StepScheduled"]


def test_wait_stays_with_the_execution_it_began_with(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-2]"""
    first = start(api, flow_id)
    stop(api, flow_id, type=2)
    second = start(api, flow_id, request_id="again", id_reuse_policy=2)
    assert first != second
    pinned = wait_for_flow(api, flow_id, 0, first)
    assert (pinned.is_terminal, pinned.first_run_id, pinned.status) == (True, first, "TERMINATED")
    assert not wait_for_flow(api, flow_id, 0).is_terminal


def test_step_wait_runs_out_empty_and_refuses_what_is_no_step(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-3]"""
    start(api, flow_id)
    request = pb.WaitForStepCompletionRequest(flow_id=flow_id, step_execution_id="Begin-1", wait_ms=0)
    assert api.call("WaitForStepCompletion", request, pb.WaitForStepCompletionReply).outcome == ""
    request.step_execution_id = "nonsense"
    assert refusal(api, "WaitForStepCompletion", request).reason == "STEP_NOT_FOUND"


def test_step_wait_on_a_flow_that_closes_first_is_refused(api: ApiClient, flow_id: str) -> None:
    """[WAITAPI-3]"""
    start(api, flow_id)
    session = api.client_session()
    request = pb.WaitForStepCompletionRequest(flow_id=flow_id, step_execution_id="Later-1", wait_ms=20_000)
    session.send(pb.ClientRequest(id=1, method="WaitForStepCompletion", body=request.SerializeToString()))
    stop(api, flow_id)
    reply = session.replies(1)[1]
    assert reply.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    session.finish()


def test_rpc_without_a_worker_is_unavailable(api: ApiClient, flow_id: str) -> None:
    """[ROUTE-4]"""
    start(api, flow_id)
    error = refusal(api, "InvokeRpc", pb.InvokeRpcRequest(flow_id=flow_id, name="peek"))
    assert (error.code, error.reason) == ("UNAVAILABLE", "NO_WORKER_AVAILABLE")
