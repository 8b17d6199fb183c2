"""Acceptance rows of the flow model about starting and stopping, with real clients and workers."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dexsdk import (
    Client,
    ClientOptions,
    Context,
    Flow,
    FlowAlreadyStartedError,
    FlowStatus,
    IdReusePolicy,
    Registry,
    RequestConflictError,
    RetryPolicy,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    StopFlowOptions,
    StopOutcome,
    StopType,
    dead_end,
    graceful_complete,
)
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = pytest.mark.slow

STARTS = 50
TOLD_S = 1.0
WAIT_S = 20


class Busy(Step[str]):
    """Runs until it is told to stop, and never sends a heartbeat."""

    def __init__(self) -> None:
        self.runs = threading.Event()
        self.told_at = 0.0
        self.is_told = threading.Event()

    def execute(self, context: Context, input: str) -> StepDecision:
        self.runs.set()
        deadline = time.monotonic() + WAIT_S
        while not context.is_cancellation_requested():
            assert time.monotonic() < deadline, "nobody told the handler"
            self.is_told.wait(0.005)
        self.told_at = time.monotonic()
        self.is_told.set()
        return dead_end()


class Failing(Step[str]):
    """Fails, and is tried again after an hour."""

    def __init__(self) -> None:
        self.attempts = 0
        self.failed = threading.Event()

    def execute(self, context: Context, input: str) -> StepDecision:
        self.attempts += 1
        self.failed.set()
        raise RuntimeError("no")

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(initial_interval=3_600, maximum_interval=3_600))


class BusyFlow(Flow[str]):
    def __init__(self) -> None:
        self.step = Busy()

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(self.step)


class FailingFlow(Flow[str]):
    def __init__(self) -> None:
        self.step = Failing()

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(self.step)


class Idle(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.empty()


BUSY, FAILING = BusyFlow(), FailingFlow()
REGISTRY = Registry([BUSY, FAILING, Idle()])


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ServerProcess(tmp_path / "data") as server:
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(REGISTRY, None, ClientOptions(server_address=address)) as connected:
        yield connected


def test_row_18_simultaneous_starts_of_one_flow_id(client: Client) -> None:
    """[START-2, START-3, START-5]"""
    with ThreadPoolExecutor(STARTS) as pool:
        same = StartFlowOptions(request_id="r")
        runs = list(pool.map(lambda _: client.start_flow(BUSY, "f", "x", same), range(STARTS)))
        assert len(set(runs)) == 1

        def refuse(number: int) -> bool:
            with pytest.raises(RequestConflictError):
                client.start_flow(BUSY, "f", f"other {number}", same)
            with pytest.raises(FlowAlreadyStartedError) as refused:
                client.start_flow(BUSY, "f", "x")
            assert (refused.value.run_id, refused.value.status) == (runs[0], FlowStatus.RUNNING)
            return True

        assert all(pool.map(refuse, range(STARTS)))
    assert [event.kind for event in client.get_history("f").events].count("FlowStarted") == 1


@pytest.mark.parametrize(
    ("policy", "after_active", "after_canceled", "after_completed"),
    [
        (IdReusePolicy.DEFAULT, False, True, True),
        (IdReusePolicy.ALLOW_IF_NOT_RUNNING, False, True, True),
        (IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED, False, True, False),
        (IdReusePolicy.DISALLOW, False, False, False),
        (IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING, True, True, True),
    ],
)
def test_row_19_each_reuse_policy(
    address: str,
    client: Client,
    policy: IdReusePolicy,
    *,
    after_active: bool,
    after_canceled: bool,
    after_completed: bool,
) -> None:
    """[START-4] Active, failed in some way, and completed."""
    options = StartFlowOptions(id_reuse_policy=policy)

    def starts(flow_id: str) -> bool:
        before = client.describe_flow(flow_id)
        try:
            run_id = client.start_flow(Idle, flow_id, None, options)
        except FlowAlreadyStartedError:
            assert client.describe_flow(flow_id) == before
            return False
        after = client.describe_flow(flow_id)
        assert (after.run_id, after.ordinal, after.status) == (run_id, before.ordinal + 1, FlowStatus.RUNNING)
        old = client.describe_flow(flow_id, run_id=before.run_id)
        assert old.status is (FlowStatus.TERMINATED if before.status is FlowStatus.RUNNING else before.status)
        return True

    client.start_flow(Idle, "active", None)
    assert starts("active") is after_active
    client.start_flow(Idle, "canceled", None)
    client.stop_flow("canceled")
    assert starts("canceled") is after_canceled
    with (
        running_worker(Registry([Done()]), address),
        Client(Registry([Done()]), None, ClientOptions(server_address=address)) as other,
    ):
        other.start_flow(Done, "completed", None)
        assert other.wait_for_flow("completed", WAIT_S).status is FlowStatus.COMPLETED
    assert starts("completed") is after_completed


class DoneStep(Step[None]):
    def execute(self, context: Context, input: None) -> StepDecision:
        return graceful_complete()


class Done(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.start_step(DoneStep())


def test_row_23_cancel_ends_a_backoff_and_tells_a_handler_at_once(address: str, client: Client) -> None:
    """[STOP-3, STOP-5] A Step in a backoff of an hour, and a handler without heartbeat."""
    with running_worker(REGISTRY, address):
        client.start_flow(FAILING, "backing-off", "x")
        client.start_flow(BUSY, "running", "x")
        assert FAILING.step.failed.wait(WAIT_S)
        assert BUSY.step.runs.wait(WAIT_S)
        while "ExecuteFailed" not in [event.kind for event in client.get_history("backing-off").events]:
            pass
        asked_at = time.monotonic()
        for flow_id in ("backing-off", "running"):
            result = client.stop_flow(flow_id, StopFlowOptions(StopType.CANCEL))
            assert (result.outcome, result.status) == (StopOutcome.APPLIED, FlowStatus.CANCELED)
        assert time.monotonic() - asked_at < TOLD_S
        assert BUSY.step.is_told.wait(WAIT_S)
        assert BUSY.step.told_at - asked_at < TOLD_S
    assert FAILING.step.attempts == 1
    kinds = [event.kind for event in client.get_history("running").events]
    assert "MethodPending" in kinds
    assert kinds.index("FlowClosed") < kinds.index("StaleResultRejected")
