"""Starting, timeouts, Flow retry, settings and waits through a real server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dexsdk import (
    Attribute,
    AttributeMatch,
    Channel,
    Client,
    ClientOptions,
    Context,
    Flow,
    FlowConfig,
    FlowErrorType,
    FlowNotActiveError,
    FlowStatus,
    FlowTimeoutPolicy,
    LongPollTimeoutError,
    PersistenceSchema,
    Registry,
    RetryPolicy,
    StartFlowOptions,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOutcome,
    Wait,
    WaitForAttributeOptions,
    force_complete,
    force_fail,
    go_to,
)
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = pytest.mark.slow

TRIES = Attribute("tries", int)
INBOX = Channel("inbox", str)


class Collect(Step[int]):
    """Takes messages until it has as many as its input says."""

    def wait_for(self, context: Context, input: int) -> Wait:
        return Wait.until(INBOX.for_n(input))

    def execute(self, context: Context, input: int) -> StepDecision:
        return force_complete(" ".join(INBOX.results(context)))


class Begin(Step[int]):
    """Fails the Flow until the message `go` waits in the Channel; then collects."""

    def execute(self, context: Context, input: int) -> StepDecision:
        TRIES.set(context, input)
        if INBOX.size(context) < input:
            return force_fail("too few")
        return go_to(Collect, input)


class Patient(Flow[int]):
    """Ends with what it got."""

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Begin()).other_steps(Collect())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(TRIES, INBOX)


class Hurried(Patient):
    """Has something to say when its time is over."""

    def handle_timeout(self, context: Context) -> StepDecision:
        return force_complete(f"{context.step_execution_id} after {INBOX.size(context)}")


class Idle(Patient):
    """Waits at once."""

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Collect())


class HurriedIdle(Idle):
    def handle_timeout(self, context: Context) -> StepDecision:
        return force_complete(f"{context.step_execution_id} with {INBOX.size(context)}")


REGISTRY = Registry([Patient(), Hurried(), Idle(), HurriedIdle()])


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def address(data_dir: Path) -> Iterator[str]:
    with ServerProcess(data_dir) as server, running_worker(REGISTRY, server.address):
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(REGISTRY, None, ClientOptions(server_address=address)) as connected:
        yield connected


def kinds(client: Client, flow_id: str, run_id: str | None = None) -> list[str]:
    return [event.kind for event in client.get_history(flow_id, run_id=run_id).events]


def test_start_8_flow_is_tried_again_with_the_messages_from_outside(client: Client) -> None:
    """[WAITAPI-2] Who waits for its end waits for that of the last run; describe names the first one."""
    again = RetryPolicy(initial_interval=0.3, maximum_attempts=3)
    first_run = client.start_flow(Patient, "retried", 1, StartFlowOptions(retry_policy=again, start_delay=0.1))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(client.wait_for_flow, "retried", 20)
        client.wait_for_step_completion("retried", StepExecutionId(Begin), 10)
        client.publish("retried", INBOX, "hello")
        assert result.result().single_output(str) == "hello"
    info = client.describe_flow("retried")
    assert (info.ordinal, info.first_run_id, info.status) == (1, first_run, FlowStatus.COMPLETED)
    assert info.run_id != first_run
    assert kinds(client, "retried", first_run)[-1] == "FlowClosed"
    assert kinds(client, "retried")[:2] == ["FlowStarted", "FlowRetried"]
    assert client.describe_flow("retried", run_id=first_run).status is FlowStatus.FAILED


def test_start_8_attempts_end(client: Client) -> None:
    again = RetryPolicy(initial_interval=0.05, maximum_attempts=2)
    client.start_flow(Patient, "doomed", 1, StartFlowOptions(retry_policy=again))
    result = client.wait_for_flow("doomed", 20)
    assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.STEP_DECISION_FAILED)


@pytest.mark.parametrize(
    ("policy", "status", "error_type"),
    [
        (FlowTimeoutPolicy.DEFAULT, FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT),
        (FlowTimeoutPolicy.CANCEL, FlowStatus.CANCELED, None),
    ],
)
def test_time_2_end_of_time(
    client: Client, policy: FlowTimeoutPolicy, status: FlowStatus, error_type: FlowErrorType | None
) -> None:
    client.start_flow(Idle, f"late-{policy.name}", 1, StartFlowOptions(timeout=0.3, timeout_policy=policy))
    result = client.wait_for_flow(f"late-{policy.name}", 20)
    assert (result.status, result.error_type) == (status, error_type)


def test_time_3_handler_decides_and_sees_the_flow_as_it_is(client: Client) -> None:
    client.start_flow(HurriedIdle, "handled", 5, StartFlowOptions(timeout=0.5))
    client.publish("handled", INBOX, "a", "b")
    assert client.wait_for_flow("handled", 20).single_output(str) == "sys:timeout_handler-1 with 2"
    assert "TimerFired" in kinds(client, "handled")


@pytest.mark.parametrize("policy", list(FlowTimeoutPolicy))
def test_time_4_deadline_outlives_a_killed_server(data_dir: Path, policy: FlowTimeoutPolicy) -> None:
    """It is in the log from the start; that it fires on the dot is shown in virtual time, as acceptance row 20."""
    flow = HurriedIdle if policy is FlowTimeoutPolicy.HANDLER else Idle
    with ServerProcess(data_dir) as server:
        with Client(REGISTRY, None, ClientOptions(server_address=server.address)) as client:
            client.start_flow(flow, "crashed", 1, StartFlowOptions(timeout=1.5, timeout_policy=policy))
        server.kill()
    with (
        ServerProcess(data_dir) as server,
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server_address=server.address)) as client,
    ):
        client.wait_for_flow("crashed", 20)
        history = client.get_history("crashed").events
        (fired,) = [event for event in history if event.kind == "TimerFired"]
        deadline = datetime.fromtimestamp(history[0].data["timeout_at"] / 1000, UTC)
        assert deadline == history[0].at + timedelta(seconds=1.5)
        assert fired.at >= deadline


def test_waitapi_4_waits_for_attributes(client: Client) -> None:
    """[WAITAPI-5, WAITAPI-7]"""
    client.start_flow(Idle, "watched", 1)
    with pytest.raises(LongPollTimeoutError):
        client.wait_for_attribute_equal("watched", TRIES, 7, 0)
    with ThreadPoolExecutor(2) as pool:
        equal = pool.submit(client.wait_for_attribute_equal, "watched", TRIES, 7)
        larger = pool.submit(client.wait_for_attribute_match, "watched", TRIES, AttributeMatch.greater_than(7.5))
        client.set_attribute("watched", TRIES, 7)
        equal.result(20)
        client.set_attribute("watched", TRIES, 8)
        assert larger.result(20) == 8
    client.publish("watched", INBOX, "end")
    client.wait_for_flow("watched", 20)
    with pytest.raises(FlowNotActiveError):
        client.wait_for_attribute_match("watched", TRIES, AttributeMatch.equal(8), WaitForAttributeOptions(1))


def test_row_47_waits_for_past_present_and_future_steps(client: Client) -> None:
    """[WAITAPI-3] Acceptance row 47: no declaration; a Step that never runs is answered when the Flow closes."""
    client.start_flow(Patient, "steps", 0)
    assert client.wait_for_step_completion("steps", StepExecutionId(Begin), 20) is StepOutcome.COMPLETED
    client.start_flow(Idle, "open", 1)
    with ThreadPoolExecutor(2) as pool:
        present = pool.submit(client.wait_for_step_completion, "open", StepExecutionId(Collect), 20)
        never = pool.submit(client.wait_for_step_completion, "open", StepExecutionId("Never"), 20)
        client.publish("open", INBOX, "x")
        assert present.result() is StepOutcome.COMPLETED
        with pytest.raises(FlowNotActiveError):
            never.result()


def test_cfg_2_settings_change_and_are_in_history(client: Client) -> None:
    client.start_flow(Idle, "tuned", 1, StartFlowOptions(config_override=FlowConfig(continue_as_new_threshold=500)))
    client.update_flow_config("tuned", FlowConfig(record_rpc_io=True))
    (updated,) = [event for event in client.get_history("tuned").events if event.kind == "FlowConfigUpdated"]
    assert updated.data["config"]["record_rpc_io"] is True
    assert updated.data["config"]["continue_as_new_threshold"] is None
