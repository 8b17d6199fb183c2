"""What operators and probes ask, against a running server [OBS-4]."""

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from dexpb.v1 import admin_service_pb2 as admin
from tests.support.api_calls import describe, start
from tests.support.api_client import ApiClient


def test_health_check_goes_through_the_log(api: ApiClient, flow_id: str) -> None:
    """[OBS-4]"""
    start(api, flow_id)
    reply = api.call("CheckHealth", admin.CheckHealthRequest(), admin.CheckHealthReply, service="AdminService")
    assert reply.condition == "SERVING"
    assert reply.commit_ms > 0
    assert reply.open_runs >= 1
    assert reply.now >= describe(api, flow_id).started_at


@pytest.mark.parametrize("service", ["", "dexpb.v1.FlowService", "dexpb.v1.WorkerService", "dexpb.v1.AdminService"])
def test_standard_health_service_says_serving(api: ApiClient, service: str) -> None:
    """[OBS-4]"""
    request = health_pb2.HealthCheckRequest(service=service)
    reply = api.call_bytes("grpc.health.v1.Health/Check", request.SerializeToString())
    assert health_pb2.HealthCheckResponse.FromString(reply).status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_lists_the_services(api: ApiClient) -> None:
    """[OBS-4]"""
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    call: grpc.StreamStreamMultiCallable[bytes, bytes] = api.channel.stream_stream(path)
    message = next(call(iter([request.SerializeToString()])))
    listed = reflection_pb2.ServerReflectionResponse.FromString(message).list_services_response.service
    names = {service.name for service in listed}
    assert {"dexpb.v1.FlowService", "dexpb.v1.WorkerService", "dexpb.v1.AdminService"} <= names
