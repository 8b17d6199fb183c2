"""Calls of the API with valid defaults, for tests that change one thing."""

import itertools
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from tests.support.api_client import ApiClient, RefusedError

_numbers = itertools.count(1)


def fresh(prefix: str) -> str:
    """A text that no other test of this process uses."""
    return f"{prefix}-{next(_numbers)}"


def start_request(flow_id: str, /, **changes: Any) -> pb.StartFlowRequest:
    request = pb.StartFlowRequest(
        flow_id=flow_id,
        flow_type="Order",
        request_id=f"start-{flow_id}",
        input=b'{"a":1}',
        start_step=pb.StartStep(step_type="Begin"),
    )
    request.MergeFrom(pb.StartFlowRequest(**changes))
    return request


def start(api: ApiClient, flow_id: str, /, **changes: Any) -> str:
    return api.call("StartFlow", start_request(flow_id, **changes), pb.StartFlowReply).run_id


def describe(api: ApiClient, flow_id: str, run_id: str = "") -> pb.FlowInfo:
    return api.call("DescribeFlow", pb.DescribeFlowRequest(flow_id=flow_id, run_id=run_id), pb.FlowInfo)


def stop(api: ApiClient, flow_id: str, **changes: Any) -> pb.StopFlowReply:
    request = pb.StopFlowRequest(flow_id=flow_id, reason="enough", request_id=fresh("stop"), **changes)
    return api.call("StopFlow", request, pb.StopFlowReply)


def history(api: ApiClient, flow_id: str, **changes: Any) -> list[pb.HistoryEvent]:
    return list(api.call("GetHistory", pb.GetHistoryRequest(flow_id=flow_id, **changes), pb.GetHistoryReply).events)


def publish(api: ApiClient, flow_id: str, *values: bytes, request_id: str = "") -> list[str]:
    request = pb.PublishRequest(flow_id=flow_id, channel="news", values=values, request_id=request_id)
    return list(api.call("Publish", request, pb.PublishReply).message_ids)


def wait_for_flow(api: ApiClient, flow_id: str, wait_ms: int, first_run_id: str = "") -> pb.WaitForFlowReply:
    request = pb.WaitForFlowRequest(flow_id=flow_id, wait_ms=wait_ms, first_run_id=first_run_id)
    return api.call("WaitForFlow", request, pb.WaitForFlowReply)


def refusal(api: ApiClient, method: str, request: Any) -> RefusedError:
    with pytest.raises(RefusedError) as raised:
        api.call_bytes(f"dexpb.v1.FlowService/{method}", request.SerializeToString())
    return raised.value
