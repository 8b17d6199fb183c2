"""What operators and probes ask, against a running server [OBS-4, SURF-22]."""

from collections.abc import Iterator
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from dexpb.v1 import admin_service_pb2 as admin
from dexpb.v1 import frames
from tests.support.api_calls import describe, start
from tests.support.api_client import ApiClient, RefusedError, WorkerSessionCall, hello

Reply = TypeVar("Reply", bound=Message)


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


def admin_call(api: ApiClient, method: str, request: Message, reply_type: type[Reply]) -> Reply:
    return api.call(method, request, reply_type, service="AdminService")


@pytest.fixture
def worker(api: ApiClient, flow_id: str) -> Iterator[WorkerSessionCall]:
    """A connected worker named like the test's Flow ID, with one stream on a Flow type of its own."""
    flow = frames.FlowDescriptor(f"Type-{flow_id}", None, ("Begin",))
    call = api.worker_session()
    call.send(hello(f"worker-{flow_id}", flow), frames.OpenStream(1, flow.flow_type), frames.OpenStream(2, "Foreign"))
    call.next_frame(frames.StreamOpened)
    yield call
    call.cancel()


def test_worker_is_listed_with_its_room_and_what_it_runs(
    api: ApiClient, flow_id: str, worker: WorkerSessionCall
) -> None:
    """[SURF-22]"""
    start(api, flow_id, flow_type=f"Type-{flow_id}")
    worker.next_frame(frames.Assign)
    request = admin.ListWorkersRequest(worker_id=f"worker-{flow_id}")
    (row,) = admin_call(api, "ListWorkers", request, admin.ListWorkersReply).workers
    assert (row.sdk, row.incarnation, row.sessions) == ("test 0", "1", 1)
    assert (row.streams, row.busy, row.running, row.max_concurrent_tasks, row.reserved_rpc_tasks) == (1, 1, 1, 8, 1)
    assert [(queue.name, queue.busy) for queue in row.queues] == [(f"Type-{flow_id}", 1)]
    assert 0 < row.connected_at <= row.last_seen
    everybody = admin_call(api, "ListWorkers", admin.ListWorkersRequest(), admin.ListWorkersReply)
    assert f"worker-{flow_id}" in [listed.worker_id for listed in everybody.workers]
    assert everybody.now >= row.last_seen


def test_drained_worker_gets_nothing_and_the_queue_shows_what_waits(
    api: ApiClient, flow_id: str, worker: WorkerSessionCall
) -> None:
    """[SURF-22, DRAIN-2]"""
    drain = admin.DrainWorkerRequest(worker_id=f"worker-{flow_id}")
    assert admin_call(api, "DrainWorker", drain, admin.DrainWorkerReply).running == 0
    start(api, flow_id, flow_type=f"Type-{flow_id}", standing={"priority": 2})
    queues = admin_call(api, "ListQueues", admin.ListQueuesRequest(), admin.ListQueuesReply)
    (queue,) = (queue for queue in queues.queues if queue.name == f"Type-{flow_id}")
    assert (queue.waiting, dict(queue.waiting_by_priority), queue.workers, queue.idle) == (1, {2: 1}, 1, 1)
    assert 0 < queue.oldest_since <= queues.now
    undo = admin.DrainWorkerRequest(worker_id=f"worker-{flow_id}", undo=True)
    admin_call(api, "DrainWorker", undo, admin.DrainWorkerReply)
    assert worker.next_frame(frames.Assign).flow_id == flow_id


def test_unknown_worker_and_bytes_that_are_no_request_are_refused(api: ApiClient) -> None:
    """[ERR-A]"""
    with pytest.raises(RefusedError) as unknown:
        admin_call(api, "DrainWorker", admin.DrainWorkerRequest(worker_id="nobody"), admin.DrainWorkerReply)
    assert (unknown.value.code, unknown.value.reason) == ("NOT_FOUND", "WORKER_NOT_FOUND")
    assert unknown.value.metadata == {"worker_id": "nobody"}
    with pytest.raises(RefusedError) as malformed:
        api.call_bytes("dexpb.v1.AdminService/DrainWorker", b"\xff")
    assert malformed.value.reason == "MALFORMED"
