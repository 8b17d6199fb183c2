"""FlowService requests: legal ones become commands and queries, others a refusal naming the field [GEN-2, ERR-A]."""

from collections.abc import Callable
from typing import Any

import pytest

from dexd.codec import flow_queries as queries
from dexd.codec import flow_requests as requests
from dexd.codec.flow_queries import (
    AttributeQuery,
    FlowWaitQuery,
    HistoryQuery,
    RunKey,
    StepWaitQuery,
    WatchQuery,
)
from dexd.codec.flow_requests import Minted
from dexd.core.commands import DeleteMessage, InvokeRpc, PublishMessages, SetAttribute, StartFlow, StopFlow
from dexd.core.config import INLINE_VALUE_BYTES_MAX, MAP_INSTANCES_MAX
from dexd.core.ids import CallerId, FlowId, MessageId, RequestId, RunId, StepExecutionId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import (
    IdReusePolicy,
    RecoveryStep,
    RetryPolicy,
    Standing,
    StepOptions,
    StepPlan,
    StopType,
    TimerId,
    WaitForFailurePolicy,
)
from dexpb.v1 import flow_service_pb2 as pb

MINTED = Minted(RunId("minted-run"), 42, RequestId("minted-request"))
FRESH = RequestId("fresh")
KNOWN: dict[str, StepPlan | None] = {"Order": StepPlan("Begin", b"", True), "Bare": None}


def start_request(**fields: Any) -> pb.StartFlowRequest:
    request = pb.StartFlowRequest(flow_id="f", flow_type="Order", start_step=pb.StartStep(step_type="Begin"))
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def start(request: pb.StartFlowRequest) -> StartFlow:
    command = requests.to_start_flow(request, MINTED, KNOWN)
    assert isinstance(command, StartFlow)
    return command


def refusal(answer: object, field: str | None = None) -> Rejection:
    assert isinstance(answer, Rejection)
    if field is not None:
        assert answer.fields == {"field": field}
    return answer


# ---- start ------------------------------------------------------------------------------------------------------


def test_start_takes_what_the_caller_gave_and_what_only_the_server_can_make() -> None:
    """[START-6, ID-5] Run ID and seed are minted, the request ID only if there is none."""
    command = start(start_request(input=b"1", request_id="q", id_reuse_policy=3))
    assert (command.flow_id, command.flow_type, command.request_id) == ("f", "Order", "q")
    assert (command.run_id, command.seed) == ("minted-run", 42)
    assert command.start_step == StepPlan("Begin", b"1", False)
    assert command.id_reuse_policy is IdReusePolicy.DISALLOW
    assert start(start_request()).request_id == "minted-request"


def test_start_step_comes_with_all_its_options() -> None:
    """[STEP-8] Options are fixed when the Step is scheduled; an unset field stays unset."""
    undo = pb.RecoveryStep(step_type="Undo", has_wait_for=True, options=pb.StepOptions(execute_timeout_ms=4))
    options = pb.StepOptions(
        wait_for_timeout_ms=1,
        execute_timeout_ms=2,
        wait_for_retry=pb.RetryPolicy(initial_interval_ms=5, backoff_coefficient=2),
        execute_retry=pb.RetryPolicy(
            initial_interval_ms=6,
            backoff_coefficient=3,
            maximum_interval_ms=7,
            maximum_attempts=8,
            total_duration_ms=9,
            jitter=0.5,
        ),
        wait_for_failure=1,
        non_retryable_errors=["app.Fatal"],
        recovery=undo,
        priority=2,
    )
    request = start_request()
    request.start_step.CopyFrom(pb.StartStep(step_type="Begin", has_wait_for=True, options=options))
    assert start(request).start_step == StepPlan(
        "Begin",
        b"",
        True,
        StepOptions(
            1,
            2,
            RetryPolicy(5),
            RetryPolicy(6, 3.0, 7, 8, 9, 0.5),
            WaitForFailurePolicy.PROCEED,
            ("app.Fatal",),
            RecoveryStep("Undo", True, StepOptions(execute_timeout_ms=4)),
            2,
        ),
    )
    bare = pb.StartStep(step_type="Begin", options=pb.StepOptions(recovery=pb.RecoveryStep(step_type="Undo")))
    request.start_step.CopyFrom(bare)
    assert start(request).start_step == StepPlan("Begin", b"", False, StepOptions(recovery=RecoveryStep("Undo", False)))


def test_standing_of_a_start_is_taken_or_refused() -> None:
    """[ROUTE-7]"""
    request = start_request()
    assert start(request).standing is None
    request.standing.CopyFrom(pb.Standing(priority=1, fairness_key="acme"))
    assert start(request).standing == Standing(1, "acme")
    request.standing.priority = 9
    refusal(requests.to_start_flow(request, MINTED, KNOWN), "standing")


def test_caller_without_the_code_starts_what_a_worker_announced() -> None:
    """[START-1] The start Step is taken from what registered workers said; a Flow type may have none."""
    request = pb.StartFlowRequest(flow_id="f", flow_type="Order", input=b"1", resolve_start_step=True)
    assert start(request).start_step == StepPlan("Begin", b"1", True)
    request.flow_type = "Bare"
    assert start(request).start_step is None
    request.flow_type = "Unheard"
    unknown = refusal(requests.to_start_flow(request, MINTED, KNOWN))
    assert unknown.code is Code.UNKNOWN_FLOW_TYPE
    assert unknown.fields == {"flow_type": "Unheard"}


def test_start_without_a_step_is_legal() -> None:
    """A Flow may begin without a Step and be driven by RPCs."""
    assert start(pb.StartFlowRequest(flow_id="f", flow_type="Order")).start_step is None


def test_digest_of_a_start_covers_type_input_and_attributes_in_any_order() -> None:
    """[START-3] Equal starts have equal digests; the request ID and the policy do not matter."""

    def digest(**fields: Any) -> bytes:
        attributes = fields.pop("attributes", {"a": b"1", "b": b"2"})
        request = start_request(**{"input": b"1", **fields})
        request.attributes.extend(pb.AttributeValue(key=key, value=value) for key, value in attributes.items())
        return start(request).digest

    same = digest()
    assert same == digest(attributes={"b": b"2", "a": b"1"}, request_id="other", id_reuse_policy=2)
    others = [
        digest(input=b"2"),
        digest(flow_type="Bill"),
        digest(attributes={}),
        digest(attributes={"a": b"12"}),
    ]
    assert len({same, *others}) == len(others) + 1


def test_initial_attributes_come_in_key_order() -> None:
    """[ATTR-4] Written in the commit that creates the execution, whatever order the caller's map had."""
    request = start_request()
    request.attributes.extend([pb.AttributeValue(key="b", value=b"2"), pb.AttributeValue(key="a\0x", value=b"1")])
    assert start(request).attributes == (("a\0x", b"1"), ("b", b"2"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"flow_id": ""}, "flow_id"),
        ({"flow_id": "sys:x"}, "flow_id"),
        ({"flow_id": "a\0b"}, "flow_id"),
        ({"flow_id": "x" * 10_000_000}, "flow_id"),
        ({"flow_type": ""}, "flow_type"),
        ({"request_id": "a\nb"}, "request_id"),
        ({"id_reuse_policy": 9}, "id_reuse_policy"),
        ({"id_reuse_policy": -1}, "id_reuse_policy"),
    ],
)
def test_field_out_of_range_is_named(changes: dict[str, Any], field: str) -> None:
    """[ID-1, ID-3, ERR-B] INVALID_ARGUMENT with the field."""
    answer = requests.to_start_flow(start_request(**changes), MINTED, KNOWN)
    assert refusal(answer, field).code is Code.INVALID_ARGUMENT


def test_unknown_enum_number_shows_what_is_allowed() -> None:
    """[ERR-A] Messages name field, value and allowed range."""
    message = refusal(requests.to_start_flow(start_request(id_reuse_policy=9), MINTED, KNOWN)).message
    assert message.startswith("id_reuse_policy is 9, allowed are 0 (DEFAULT), 1 (ALLOW_IF_PREVIOUS_FAILED)")


@pytest.mark.parametrize(
    "step",
    [
        pb.StartStep(step_type=""),
        pb.StartStep(step_type="A", options=pb.StepOptions(execute_timeout_ms=-1)),
        pb.StartStep(step_type="A", options=pb.StepOptions(wait_for_failure=7)),
        pb.StartStep(step_type="A", options=pb.StepOptions(execute_retry=pb.RetryPolicy())),
    ],
)
def test_start_step_out_of_range_is_refused(step: pb.StartStep) -> None:
    """[RETRY-3, OPT-1] Nothing that could break later is stored."""
    request = start_request()
    request.start_step.CopyFrom(step)
    refusal(requests.to_start_flow(request, MINTED, KNOWN), "start_step")


@pytest.mark.parametrize("keys", [("a", "a"), ("",), ("sys:a",), ("a\0",)])
def test_initial_attributes_have_legal_distinct_keys(keys: tuple[str, ...]) -> None:
    """[ID-1, ATTR-4] One value per key."""
    request = start_request()
    request.attributes.extend(pb.AttributeValue(key=key, value=b"1") for key in keys)
    refusal(requests.to_start_flow(request, MINTED, KNOWN), "attributes")


def test_oversized_value_says_what_size_and_limit() -> None:
    """[LIM-1, LIM-3] VALUE_TOO_LARGE names what, size and limit."""
    large = bytes(INLINE_VALUE_BYTES_MAX + 1)
    in_input = refusal(requests.to_start_flow(start_request(input=large), MINTED, KNOWN))
    assert in_input.code is Code.VALUE_TOO_LARGE
    assert in_input.fields == {
        "what": "inline input",
        "size": str(len(large)),
        "limit": str(INLINE_VALUE_BYTES_MAX),
    }
    assert "upload it" in in_input.message
    request = start_request()
    request.attributes.add(key="photo", value=large)
    assert refusal(requests.to_start_flow(request, MINTED, KNOWN)).fields["what"] == "inline Attribute 'photo'"
    published = requests.to_publish(pb.PublishRequest(flow_id="f", channel="c", values=[b"1", large]), FRESH)
    assert refusal(published).code is Code.VALUE_TOO_LARGE


def test_lim_2_a_start_with_too_many_attributes_is_refused() -> None:
    request = start_request()
    request.attributes.extend(
        pb.AttributeValue(key=f"map\0{number}", value=b"1") for number in range(MAP_INSTANCES_MAX + 1)
    )
    refused = refusal(requests.to_start_flow(request, MINTED, KNOWN))
    assert (refused.code, refused.fields["size"]) == (Code.VALUE_TOO_LARGE, str(MAP_INSTANCES_MAX + 1))


# ---- other commands ---------------------------------------------------------------------------------------------


def test_publish_keeps_the_order_of_its_messages() -> None:
    """[CHAN-2] One request keeps its order."""
    command = requests.to_publish(
        pb.PublishRequest(flow_id="f", run_id="r", channel="c\0k", values=[b"1", b"2"]), FRESH
    )
    assert isinstance(command, PublishMessages)
    assert (command.run_id, command.channel, command.values, command.request_id) == ("r", "c\0k", (b"1", b"2"), "fresh")


def test_digests_of_publications_tell_messages_apart() -> None:
    """[RPC-12] One message is not two that look alike when joined."""

    def digest(*values: bytes) -> bytes:
        command = requests.to_publish(pb.PublishRequest(flow_id="f", channel="c", values=values), FRESH)
        assert isinstance(command, PublishMessages)
        return command.digest

    assert digest(b"12") == digest(b"12")
    assert len({digest(b"12"), digest(b"1", b"2"), digest(b"2", b"1")}) == 3


def test_attribute_is_set_or_deleted() -> None:
    """[ATTR-5] An unset value deletes; an empty one and none have different digests."""
    written = requests.to_set_attribute(pb.SetAttributeRequest(flow_id="f", key="a", value=b"", request_id="q"), FRESH)
    deleted = requests.to_set_attribute(pb.SetAttributeRequest(flow_id="f", key="a"), FRESH)
    assert isinstance(written, SetAttribute)
    assert isinstance(deleted, SetAttribute)
    assert (written.value, written.request_id) == (b"", "q")
    assert (deleted.value, deleted.request_id) == (None, "fresh")
    assert written.digest != deleted.digest


def test_stop_has_type_and_reason() -> None:
    """[STOP-1] CANCEL, FAIL or TERMINATE."""
    command = requests.to_stop_flow(pb.StopFlowRequest(flow_id="f", type=2, reason="enough"), FRESH)
    assert isinstance(command, StopFlow)
    assert (command.type, command.reason, command.run_id, command.request_id) == (
        StopType.TERMINATE,
        "enough",
        None,
        "fresh",
    )


def to_rpc(time_left_ms: int | None = None, **fields: Any) -> Any:
    request = pb.InvokeRpcRequest(**{"flow_id": "f", "name": "get", "input": b"1", **fields})
    return requests.to_invoke_rpc(request, FRESH, now=1_000, timeout_default_ms=10_000, time_left_ms=time_left_ms)


@pytest.mark.parametrize(
    ("time_left_ms", "timeout_ms", "handler_ms", "expires_at"),
    [(None, 0, 10_000, 61_000), (500, 60_000, 60_000, 1_500), (90_000, 1, 1, 61_000), (-5, 0, 10_000, 1_000)],
)
def test_rpc_is_capped_by_a_minute_and_by_its_caller(
    time_left_ms: int | None, timeout_ms: int, handler_ms: int, expires_at: int
) -> None:
    """[RPC-7] Default 10 s, the whole call 60 s and the caller's deadline."""
    command = to_rpc(time_left_ms, timeout_ms=timeout_ms)(CallerId(9))
    assert command == InvokeRpc(
        CallerId(9), FlowId("f"), None, "get", b"1", FRESH, command.digest, handler_ms, expires_at
    )


COMMANDS: dict[str, Callable[[Any], Any]] = {
    "publish": lambda fields: requests.to_publish(
        pb.PublishRequest(**{"flow_id": "f", "channel": "c", "values": [b"1"], **fields}), FRESH
    ),
    "set": lambda fields: requests.to_set_attribute(
        pb.SetAttributeRequest(**{"flow_id": "f", "key": "a", **fields}), FRESH
    ),
    "stop": lambda fields: requests.to_stop_flow(pb.StopFlowRequest(**{"flow_id": "f", **fields}), FRESH),
    "skip": lambda fields: requests.to_skip_timer(
        pb.SkipTimerRequest(**{"flow_id": "f", "step_execution_id": "A-1", **fields}), FRESH
    ),
    "delete": lambda fields: requests.to_delete_message(
        pb.DeleteChannelMessageRequest(**{"flow_id": "f", "channel": "c", "message_id": "m", **fields}), FRESH
    ),
    "rpc": lambda fields: to_rpc(**fields),
}


@pytest.mark.parametrize(
    ("verb", "fields", "field"),
    [
        *((verb, {"flow_id": ""}, "flow_id") for verb in COMMANDS),
        *((verb, {"run_id": "a\0"}, "run_id") for verb in COMMANDS),
        *((verb, {"request_id": "x" * 256}, "request_id") for verb in COMMANDS),
        ("publish", {"channel": ""}, "channel"),
        ("publish", {"values": []}, "values"),
        ("set", {"key": "a\0"}, "key"),
        ("stop", {"type": 3}, "type"),
        ("stop", {"reason": "x" * 20_000}, "reason"),
        ("skip", {"condition_id": "a\nb"}, "condition_id"),
        ("skip", {"condition_index": -1}, "condition_index"),
        ("skip", {"condition_index": 1_000}, "condition_index"),
        ("skip", {"condition_id": "x", "condition_index": 1}, "condition_index"),
        ("delete", {"channel": "a\0"}, "channel"),
        ("delete", {"message_id": ""}, "message_id"),
        ("rpc", {"locks": ["a", "a"]}, "locks"),
        ("rpc", {"name": "sys:x"}, "name"),
        ("rpc", {"timeout_ms": 60_001}, "timeout_ms"),
        ("rpc", {"timeout_ms": -1}, "timeout_ms"),
    ],
)
def test_command_with_a_field_out_of_range_is_refused(verb: str, fields: dict[str, Any], field: str) -> None:
    """[GEN-2, ERR-B] Nothing is stored, the field is named."""
    refusal(COMMANDS[verb](fields), field)


def test_chan_9_a_deletion_names_its_message() -> None:
    command = COMMANDS["delete"]({"run_id": "r", "request_id": "q"})
    assert command == DeleteMessage(FlowId("f"), RunId("r"), "c", MessageId("m"), RequestId("q"), command.digest)
    assert COMMANDS["delete"]({}).request_id == FRESH


def test_lock_1_an_rpc_says_what_it_locks_or_leaves_it_to_the_workers() -> None:
    """[RPC-5]"""
    command = to_rpc(locks=["a", "m\0k"], is_transactional=True)(CallerId(9))
    assert (command.locks, command.is_transactional, command.is_resolving) == (("a", "m\0k"), True, False)
    assert to_rpc(resolve_terms=True)(CallerId(9)).is_resolving


def test_timer_8_a_timer_is_named_by_condition_id_or_index() -> None:
    """[RPC-12] Digests tell them apart."""
    by_id, by_index = COMMANDS["skip"]({"condition_id": "1"}), COMMANDS["skip"]({"condition_index": 1})
    assert (by_id.timer, by_index.timer) == (TimerId("1"), TimerId(index=1))
    assert (by_id.step_execution_id, by_id.request_id) == ("A-1", "fresh")
    assert by_id.digest != by_index.digest
    assert COMMANDS["skip"]({"step_execution_id": "A"}).code is Code.STEP_NOT_FOUND


def test_flow_ids_of_the_server_can_be_addressed_but_not_started() -> None:
    """[ID-3, SUB-2] The reserved prefix is for SubFlows, which clients may stop and read."""
    assert isinstance(COMMANDS["stop"]({"flow_id": "sys:sub:f/A-1/0"}), StopFlow)


# ---- queries ----------------------------------------------------------------------------------------------------


def test_queries_take_what_was_asked_with_defaults() -> None:
    """[HIST-5, WAITAPI-1] Pages of history begin at event 1 and hold 1,000 events unless said otherwise."""
    key = RunKey(FlowId("f"), None)
    assert queries.to_run_key(pb.DescribeFlowRequest(flow_id="f", run_id="r")) == RunKey(FlowId("f"), RunId("r"))
    assert queries.to_run_key(pb.GetFlowStateRequest(flow_id="f")) == key
    assert queries.to_explain_key(pb.ExplainFlowRequest(flow_id="f")) == key
    assert queries.to_attribute_query(pb.GetAttributeRequest(flow_id="f", key="a")) == AttributeQuery(key, "a")
    assert queries.to_history_query(pb.GetHistoryRequest(flow_id="f")) == HistoryQuery(key, 1, 1_000)
    assert queries.to_history_query(pb.GetHistoryRequest(flow_id="f", from_event_id=5, page_size=10)) == HistoryQuery(
        key, 5, 10
    )
    assert queries.to_watch_query(pb.WatchHistoryRequest(flow_id="f", from_event_id=3)) == WatchQuery(key, 3)
    assert queries.to_watch_query(pb.WatchHistoryRequest(flow_id="f", follow_runs=True)) == WatchQuery(key, 1, True)
    assert queries.to_flow_wait_query(
        pb.WaitForFlowRequest(flow_id="f", wait_ms=9, first_run_id="r"), wait_ms_max=10
    ) == FlowWaitQuery(FlowId("f"), 9, RunId("r"))
    assert queries.to_step_wait_query(
        pb.WaitForStepCompletionRequest(flow_id="f", step_execution_id="a-b-12"), wait_ms_max=10
    ) == StepWaitQuery(FlowId("f"), StepExecutionId("a-b-12"), 0)


QUERIES: dict[str, Callable[[Any], Any]] = {
    "describe": lambda fields: queries.to_run_key(pb.DescribeFlowRequest(**{"flow_id": "f", **fields})),
    "attribute": lambda fields: queries.to_attribute_query(
        pb.GetAttributeRequest(**{"flow_id": "f", "key": "a", **fields})
    ),
    "history": lambda fields: queries.to_history_query(pb.GetHistoryRequest(**{"flow_id": "f", **fields})),
    "watch": lambda fields: queries.to_watch_query(pb.WatchHistoryRequest(**{"flow_id": "f", **fields})),
    "wait": lambda fields: queries.to_flow_wait_query(
        pb.WaitForFlowRequest(**{"flow_id": "f", **fields}), wait_ms_max=60_000
    ),
    "step": lambda fields: queries.to_step_wait_query(
        pb.WaitForStepCompletionRequest(**{"flow_id": "f", "step_execution_id": "A-1", **fields}), wait_ms_max=60_000
    ),
}


@pytest.mark.parametrize(
    ("query", "fields", "field"),
    [
        *((query, {"flow_id": "a\0"}, "flow_id") for query in QUERIES),
        ("describe", {"run_id": "\0"}, "run_id"),
        ("attribute", {"key": ""}, "key"),
        ("history", {"from_event_id": -1}, "from_event_id"),
        ("history", {"page_size": 1_001}, "page_size"),
        ("history", {"page_size": -1}, "page_size"),
        ("watch", {"from_event_id": -1}, "from_event_id"),
        ("wait", {"wait_ms": 60_001}, "wait_ms"),
        ("wait", {"wait_ms": -1}, "wait_ms"),
        ("step", {"wait_ms": -1}, "wait_ms"),
    ],
)
def test_query_with_a_field_out_of_range_is_refused(query: str, fields: dict[str, Any], field: str) -> None:
    """[ERR-B] The field is named with its allowed range."""
    refusal(QUERIES[query](fields), field)


@pytest.mark.parametrize("text", ["", "A", "A-", "-1", "A-0", "A-01", "A-x", "A-\u0661", "A-" + "9" * 19, "a\0-1"])
def test_text_that_is_no_step_execution_id_is_told_so(text: str) -> None:
    """[ID-6] `<StepType>-<n>`, n from 1, parsed at the last hyphen."""
    assert refusal(QUERIES["step"]({"step_execution_id": text})).code is Code.STEP_NOT_FOUND


# ---- pages of messages ------------------------------------------------------------------------------------------


def test_chan_9_a_page_of_messages_is_asked_for_by_the_last_one_seen() -> None:
    """[HIST-5] At most 1,000 in one page."""
    query = queries.to_messages_query(
        pb.ListChannelMessagesRequest(flow_id="f", channel="c\0k", after_message_id="m", page_size=7)
    )
    assert query == queries.MessagesQuery(queries.RunKey(FlowId("f"), None), "c\0k", "m", 7)
    whole = queries.to_messages_query(pb.ListChannelMessagesRequest(flow_id="f", channel="c"))
    assert isinstance(whole, queries.MessagesQuery)
    assert (whole.after, whole.limit) == ("", 1_000)
    valid: dict[str, Any] = {"flow_id": "f", "channel": "c"}
    for field, wrong in (("flow_id", ""), ("channel", ""), ("page_size", 1_001)):
        request = pb.ListChannelMessagesRequest(**valid | {field: wrong})
        refusal(queries.to_messages_query(request), field)


# ---- index values -----------------------------------------------------------------------------------------------


def test_lim_3_index_value_that_is_too_large_is_refused_with_its_size() -> None:
    large = [pb.IndexWrite(key="k", type=1, value=b'"' + b"x" * 5_000 + b'"')]
    request = start_request()
    request.attributes.append(pb.AttributeValue(key="a", value=b"1"))
    request.indexed.extend(large)
    for answer in (
        requests.to_start_flow(request, MINTED, KNOWN),
        requests.to_set_attribute(pb.SetAttributeRequest(flow_id="f", key="a", value=b"1", indexed=large), FRESH),
    ):
        refused = refusal(answer)
        assert refused.code is Code.VALUE_TOO_LARGE
        assert (refused.fields["size"], refused.fields["limit"]) == ("5000", "4096")


def test_attr_9_what_is_no_index_value_is_refused() -> None:
    wrong = pb.SetAttributeRequest(flow_id="f", key="a", value=b"1", indexed=[pb.IndexWrite(key="k", type=4)])
    wrong.indexed[0].value = b'"five"'
    refused = refusal(requests.to_set_attribute(wrong, FRESH), "indexed")
    assert "'k'" in refused.message
