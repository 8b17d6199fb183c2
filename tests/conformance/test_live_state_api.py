"""Live state and explanations over the wire, with workers whose every frame the test decides [HIST-1, HIST-6]."""

import json
from typing import Any

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from tests.support.api_calls import describe, fresh, history, publish, refusal, start, stop
from tests.support.api_client import ApiClient, WorkerSessionCall, hello
from tests.support.eventually import eventually


def blockers(api: ApiClient, flow_id: str) -> list[pb.Blocker]:
    return list(api.call("ExplainFlow", pb.ExplainFlowRequest(flow_id=flow_id), pb.ExplainFlowReply).blockers)


def live_state(api: ApiClient, flow_id: str, run_id: str = "") -> Any:
    request = pb.GetFlowStateRequest(flow_id=flow_id, run_id=run_id)
    return json.loads(api.call("GetFlowState", request, pb.GetFlowStateReply).data)


def worker_of(api: ApiClient, flow_type: str, *step_types: str, limit: int = 2) -> WorkerSessionCall:
    """A worker with two streams on the Flow type's queue."""
    flow = frames.FlowDescriptor(flow_type, frames.StepDescriptor("Begin", has_wait_for=False), step_types)
    call = api.worker_session()
    call.send(hello(f"worker-{flow_type}", flow, max_concurrent_tasks=limit, reserved_rpc_tasks=0))
    call.next_frame(frames.Welcome)
    call.send(frames.OpenStream(1, flow_type))
    call.next_frame(frames.StreamOpened)
    return call


async def test_row_46_no_worker_workers_busy_and_running(api: ApiClient, flow_id: str) -> None:
    """[HIST-6] As workers come, the same Step is explained otherwise; and the next one instead of it."""
    flow_type = fresh("Explained")
    start(api, flow_id, flow_type=flow_type)
    (nobody, *_) = blockers(api, flow_id)
    assert (nobody.step_execution_id, nobody.kind) == ("Begin-1", "NO_WORKER")
    assert nobody.text == f"no Worker for Flow type {flow_type!r} is connected; Step 'Begin' needs one"
    assert nobody.since >= describe(api, flow_id).started_at

    stranger = worker_of(api, flow_type, "Other")
    other, second = fresh("flow"), fresh("flow")
    start(api, other, flow_type=flow_type)
    assert blockers(api, other)[0].text.startswith("no Worker knows Step 'Begin'")
    stranger.finish()
    stranger.cancel()

    worker = worker_of(api, flow_type, "Begin", limit=1)
    assign = worker.next_frame(frames.Assign)
    start(api, second, flow_type=flow_type)

    def busy_text() -> str:
        return next((blocker.text for blocker in blockers(api, second) if blocker.kind == "WORKERS_BUSY"), "")

    # Between two searches for a worker the Step is in backoff [ROUTE-3].
    await eventually(lambda: busy_text() != "", "a Step that waits for a busy worker")
    assert busy_text() in ("", "all Workers at capacity: 1 know the Step and run 1 of 1 tasks")
    (running,) = blockers(api, assign.flow_id)
    assert running.kind == "RUNNING"
    assert running.text.startswith(f"execute running on Worker 'worker-{flow_type}' until 20")
    assert running.until - running.since == 7_200_000
    worker.cancel()


def test_describe_history_and_live_state_never_disagree(api: ApiClient, flow_id: str) -> None:
    """[HIST-5] Also of a closed run, by its ID."""
    run_id = start(api, flow_id, attributes=[pb.AttributeValue(key="a", value=b"1")])
    publish(api, flow_id, b'"x"')
    for _ in range(2):
        info, state = describe(api, flow_id), live_state(api, flow_id, run_id)
        assert (state["status"], state["run_id"], state["flow_type"]) == (info.status, info.run_id, info.flow_type)
        assert (state["started_at"], state["closed_at"] or 0) == (info.started_at, info.closed_at)
        events = history(api, flow_id)
        assert state["history_events"] == info.history_events == len(events)
        assert state["attributes"] == [{"name": "a", "instance": None, "value": 1}]
        assert [message["value"] for channel in state["channels"] for message in channel["messages"]] == ["x"]
        stop(api, flow_id)


def test_unknown_flows_have_neither_state_nor_explanation(api: ApiClient) -> None:
    """[ERR-1]"""
    assert refusal(api, "GetFlowState", pb.GetFlowStateRequest(flow_id="nobody")).reason == "FLOW_NOT_FOUND"
    assert refusal(api, "ExplainFlow", pb.ExplainFlowRequest(flow_id="nobody")).reason == "FLOW_NOT_FOUND"
    assert refusal(api, "ExplainFlow", pb.ExplainFlowRequest(flow_id="")).code == "INVALID_ARGUMENT"
