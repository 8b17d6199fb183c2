"""Options of a start and settings: what is legal, and what the refusal of the rest names."""

import hashlib
from typing import Any

import pytest

from dexd.codec import flow_queries as queries
from dexd.codec import flow_requests as requests
from dexd.codec.flow_requests import Minted
from dexd.core.commands import StartFlow, UpdateFlowConfig
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import ActiveStepSearchMode, FlowConfig, FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import RetryPolicy, StepDurability, StepOptions, StepPlan
from dexpb.v1 import flow_service_pb2 as pb

MINTED = Minted(RunId("minted-run"), 42, RequestId("minted-request"))
YEARS_100_MS = 36_525 * 86_400_000


def start(options: pb.StartOptions | None, **fields: Any) -> StartFlow | Rejection:
    begin = pb.StartStep(step_type="Begin")
    request = pb.StartFlowRequest(flow_id="f", flow_type="Order", start_step=begin, input=b"1", options=options)
    request.attributes.add(key="a", value=b"2")
    return requests.to_start_flow(request, MINTED, {})


def terms(options: pb.StartOptions | None) -> FlowTerms | None:
    command = start(options)
    assert isinstance(command, StartFlow), command
    return command.terms


def test_start_without_options_has_no_terms() -> None:
    assert terms(None) is None
    assert terms(pb.StartOptions()) is None


def test_every_option_arrives() -> None:
    """[START-8] Flow retry knows what to begin with."""
    options = pb.StartOptions(
        timeout_ms=5,
        timeout_policy=3,
        timeout_handler_options=pb.StepOptions(execute_timeout_ms=7),
        start_delay_ms=9,
        retry=pb.RetryPolicy(initial_interval_ms=1_000, backoff_coefficient=2.0, maximum_attempts=3),
        config=pb.FlowConfig(
            active_step_search_mode=2, continue_as_new_threshold=0, step_durability=1, record_rpc_io=True
        ),
    )
    assert terms(options) == FlowTerms(
        5,
        FlowTimeoutPolicy.HANDLER,
        StepOptions(execute_timeout_ms=7),
        9,
        FlowRetry(RetryPolicy(maximum_attempts=3), StepPlan("Begin", b"1", False), (("a", b"2"),)),
        FlowConfig(ActiveStepSearchMode.DISABLED, 0, StepDurability.ASYNC, True),
    )


@pytest.mark.parametrize("duration_ms", [0, 2**31 * 1_000, YEARS_100_MS])
def test_timer_2_durations_of_0_to_100_years_are_legal(duration_ms: int) -> None:
    """Acceptance row 31."""
    both = pb.StartOptions(timeout_ms=duration_ms, start_delay_ms=duration_ms)
    expected = FlowTerms(timeout_ms=duration_ms, start_delay_ms=duration_ms) if duration_ms else None
    assert terms(both) == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (pb.StartOptions(timeout_ms=-1), "timeout is -1 ms"),
        (pb.StartOptions(timeout_ms=YEARS_100_MS + 86_400_000), "timeout is"),
        (pb.StartOptions(start_delay_ms=-1), "start_delay is -1 ms"),
        (pb.StartOptions(timeout_policy=1), "timeout_policy FAIL needs a timeout above 0"),
        (pb.StartOptions(timeout_ms=1, timeout_policy=9), "timeout_policy is 9, allowed are 0 "),
        (
            pb.StartOptions(timeout_ms=1, timeout_policy=1, timeout_handler_options=pb.StepOptions()),
            "timeout_handler_options need timeout_policy HANDLER",
        ),
        (
            pb.StartOptions(
                timeout_ms=1, timeout_policy=3, timeout_handler_options=pb.StepOptions(execute_timeout_ms=-5)
            ),
            "execute timeout is -5 ms",
        ),
        (pb.StartOptions(retry=pb.RetryPolicy(backoff_coefficient=2.0)), "initial interval is 0 ms"),
        (
            pb.StartOptions(retry=pb.RetryPolicy(initial_interval_ms=1, backoff_coefficient=1.0, total_duration_ms=5)),
            "no total_duration",
        ),
        (pb.StartOptions(config=pb.FlowConfig(continue_as_new_threshold=-1)), "continue_as_new_threshold is -1"),
        (pb.StartOptions(config=pb.FlowConfig(active_step_search_mode=3)), "active_step_search_mode is 3"),
        (pb.StartOptions(config=pb.FlowConfig(step_durability=2)), "step_durability is 2"),
    ],
)
def test_gen_2_illegal_options_are_refused_by_name(options: pb.StartOptions, problem: str) -> None:
    """[TIME-2, RETRY-3, TIMER-2]"""
    refused = start(options)
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.fields) == (Code.INVALID_ARGUMENT, {"field": "options"})
    assert problem in refused.message


def test_start_3_options_are_no_part_of_the_digest() -> None:
    """Other options of the first request stay in force."""
    plain, limited = start(None), start(pb.StartOptions(timeout_ms=5))
    assert isinstance(plain, StartFlow)
    assert isinstance(limited, StartFlow)
    assert plain.digest == limited.digest


def test_update_of_settings() -> None:
    """[CFG-2]"""
    request = pb.UpdateFlowConfigRequest(flow_id="f", run_id="r", config=pb.FlowConfig(record_rpc_io=False))
    command = requests.to_update_flow_config(request, RequestId("fresh"))
    assert isinstance(command, UpdateFlowConfig)
    assert (command.flow_id, command.run_id, command.request_id) == (FlowId("f"), RunId("r"), "fresh")
    assert command.config == FlowConfig(record_rpc_io=False)
    other = requests.to_update_flow_config(pb.UpdateFlowConfigRequest(flow_id="f", request_id="q"), RequestId("x"))
    assert isinstance(other, UpdateFlowConfig)
    assert (other.request_id, other.config) == ("q", FlowConfig())
    assert other.digest != command.digest


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.UpdateFlowConfigRequest(), "flow_id"),
        (pb.UpdateFlowConfigRequest(flow_id="f", config=pb.FlowConfig(step_durability=7)), "config"),
    ],
)
def test_gen_2_illegal_updates_are_refused_by_name(request_: pb.UpdateFlowConfigRequest, field: str) -> None:
    refused = requests.to_update_flow_config(request_, RequestId("fresh"))
    assert isinstance(refused, Rejection)
    assert refused.fields == {"field": field}


def wait_request(**fields: Any) -> pb.WaitForAttributeRequest:
    values: dict[str, Any] = {"flow_id": "f", "key": "a", "operand": b"1", "wait_ms": 5, **fields}
    return pb.WaitForAttributeRequest(**values)


def read_wait(**fields: Any) -> queries.AttributeWaitQuery | Rejection:
    return queries.to_attribute_wait_query(wait_request(**fields), wait_ms_max=60_000, is_text=lambda _: True)


def test_wait_for_an_attribute_with_a_large_value() -> None:
    """[WAITAPI-4, BLOB-1]"""
    query = read_wait(operand=b"", operand_digest=hashlib.sha256(b'"a"').digest())
    assert not isinstance(query, Rejection)
    assert query.matches(b'"a"')
    assert not query.matches(b'"b"')


def test_wait_for_an_attribute() -> None:
    """[WAITAPI-4]"""
    query = read_wait()
    assert not isinstance(query, Rejection)
    assert (query.flow_id, query.name, query.wait_ms) == ("f", "a", 5)
    assert query.matches(b"1")
    assert not query.matches(b"2")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"flow_id": ""}, "flow_id"),
        ({"key": ""}, "key"),
        ({"wait_ms": 60_001}, "wait_ms"),
        ({"operand": b"{}"}, "operand"),
        ({"operator": 7}, "operand"),
        ({"operand_digest": bytes(32)}, "operand_digest"),
        ({"operand": b"", "operand_digest": bytes(32), "is_instant": True}, "operand_digest"),
        ({"operand": b"", "operand_digest": bytes(31)}, "operand"),
    ],
)
def test_gen_2_illegal_waits_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    refused = read_wait(**fields)
    assert isinstance(refused, Rejection)
    assert refused.fields == {"field": field}
