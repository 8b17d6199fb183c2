"""Priorities and fairness keys from the options of a start to the order in which handlers run."""

import threading
from pathlib import Path

from dexsdk import (
    Client,
    ClientOptions,
    Context,
    Flow,
    PullWorkerOptions,
    Registry,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    Worker,
    WorkerOptions,
    graceful_complete,
)
from tests.support.server_process import ServerProcess

WAIT_S = 30.0


class NoteStep(Step[str]):
    """Writes down that it ran; handlers run one at a time."""

    def __init__(self, ran: list[str]) -> None:
        self._ran = ran

    def execute(self, context: Context, input: str) -> StepDecision:
        self._ran.append(input)
        return graceful_complete(input)


class QueuedFlow(Flow[str]):
    def __init__(self, ran: list[str]) -> None:
        self._ran = ran

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(NoteStep(self._ran))


def test_waiting_flows_run_by_priority_then_in_turns(tmp_path: Path) -> None:
    """[ROUTE-7] Started while no worker is there, run by one that runs one handler at a time."""
    ran: list[str] = []
    registry = Registry((QueuedFlow(ran),))
    starts: dict[str, StartFlowOptions | None] = {
        "bulk-1": StartFlowOptions(fairness_key="bulk"),
        "bulk-2": StartFlowOptions(fairness_key="bulk"),
        "bulk-3": StartFlowOptions(fairness_key="bulk"),
        "plain": None,
        "late": StartFlowOptions(priority=5),
        "small": StartFlowOptions(fairness_key="small"),
        "first": StartFlowOptions(priority=1, fairness_weight=0.001),
    }
    with ServerProcess(tmp_path / "data") as server, _client(registry, server.address) as client:
        for flow_id, options in starts.items():
            client.start_flow(QueuedFlow, flow_id, flow_id, options)
        worker = _worker(registry, server.address)
        thread = threading.Thread(target=worker.start)
        thread.start()
        for flow_id in starts:
            client.wait_for_flow(flow_id, timeout=WAIT_S)
        started = client.get_history("bulk-1").events[0]
        worker.close()
        thread.join()
    assert ran == ["first", "bulk-1", "plain", "small", "bulk-2", "bulk-3", "late"]
    assert started.data["standing"] == {"priority": 3, "fairness_key": "bulk", "fairness_weight": 1_000}


def _client(registry: Registry, address: str) -> Client:
    return Client(registry, options=ClientOptions(server_address=address))


def _worker(registry: Registry, address: str) -> Worker:
    pull = PullWorkerOptions(max_concurrent_tasks=1, reserved_rpc_tasks=0)
    return Worker(registry, options=WorkerOptions(server_address=address, pull=pull))
