"""Decisions and Step options through a real server, with a Client and a Worker of the SDK."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dexsdk import (
    Channel,
    Client,
    ClientOptions,
    Context,
    Flow,
    FlowAlreadyStartedError,
    FlowNotActiveError,
    FlowStatus,
    HistoryEvent,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RetryPolicy,
    Step,
    StepDecision,
    StepDurability,
    StepList,
    StepMovement,
    StepOptions,
    Wait,
    Worker,
    WorkerOptions,
    force_complete_if_channels_empty,
    go_to,
    go_to_many,
    graceful_complete,
)
from tests.support.server_process import ServerProcess

WAIT_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("decisions") / "data") as process:
        yield process


@contextmanager
def served(server: ServerProcess, *flows: Flow[Any]) -> Iterator[Client]:
    """A client of these Flows, with a worker that runs them."""
    registry = Registry(flows)
    tasks = PullWorkerOptions(max_concurrent_tasks=16)
    worker = Worker(registry, options=WorkerOptions(server_address=server.address, pull=tasks))
    serving = threading.Thread(target=worker.start)
    serving.start()
    try:
        with Client(registry, options=ClientOptions(server_address=server.address)) as client:
            yield client
    finally:
        worker.stop()
        serving.join()


def happened(client: Client, flow_id: str, kind: str) -> list[HistoryEvent]:
    """Events of one kind in a Flow's history."""
    return [event for event in client.get_history(flow_id).events if event.kind == kind]


# ---- the winner cancels its siblings [DEC-9..11] -----------------------------------------------------------------


class Race:
    """What the test and the handlers of one race share."""

    def __init__(self) -> None:
        self.slow_runs = threading.Event()
        self.slow_was_told = threading.Event()


class Fork(Step[None]):
    def execute(self, context: Context, input: None) -> StepDecision:
        return go_to_many(
            StepMovement.of(Slow, None),
            StepMovement.of(Waiter, None),
            StepMovement.of(Waiter, None),
            StepMovement.of(Winner),
        )


class Slow(Step[None]):
    def __init__(self, race: Race) -> None:
        self.race = race

    def execute(self, context: Context, input: None) -> StepDecision:
        self.race.slow_runs.set()
        while not context.is_cancellation_requested():
            threading.Event().wait(0.01)
        self.race.slow_was_told.set()
        return graceful_complete("too late")


class Waiter(Step[None]):
    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.until(NEVER.for_one())

    def execute(self, context: Context, input: None) -> StepDecision:
        return graceful_complete("nobody published")


class Winner(Step[None]):
    def __init__(self, race: Race) -> None:
        self.race = race

    def execute(self, context: Context, input: None) -> StepDecision:
        assert self.race.slow_runs.wait(WAIT_S)
        return graceful_complete("won").with_canceling_sibling_steps(Slow, Waiter)


NEVER = Channel("never", str)


class RaceFlow(Flow[None]):
    def __init__(self) -> None:
        self.race = Race()

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(Fork()).other_steps(Slow(self.race), Waiter(), Winner(self.race))

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NEVER)


def test_dec_11_the_winner_ends_its_siblings_and_a_running_handler_hears_of_it(server: ServerProcess) -> None:
    """[DEC-9] Acceptance row 14, through the real server."""
    flow = RaceFlow()
    with served(server, flow) as client:
        client.start_flow(flow, "race", None)
        result = client.wait_for_flow("race", WAIT_S)
        assert result.status is FlowStatus.COMPLETED
        assert result.single_output(str) == "won"
        assert flow.race.slow_was_told.wait(WAIT_S)
        canceled = {event.data["step_execution_id"]: event.data for event in happened(client, "race", "StepCanceled")}
        assert list(canceled) == ["Slow-1", "Waiter-1", "Waiter-2"]
        assert canceled["Slow-1"]["by"] == "Winner-1"


# ---- complete only if nothing is queued [DEC-4] ------------------------------------------------------------------

ORDERS = Channel("orders", int)


class Drain(Step[int]):
    """Takes all orders there are, and ends the Flow once there are none."""

    def __init__(self, taken: dict[str, list[int]]) -> None:
        self.taken = taken

    def wait_for(self, context: Context, input: int) -> Wait:
        return Wait.until(ORDERS.at_least(1))

    def execute(self, context: Context, input: int) -> StepDecision:
        orders = self.taken[context.idempotency_key] = ORDERS.results(context)
        total = input + len(orders)
        return force_complete_if_channels_empty(total, StepMovement.of(Drain, total), ORDERS)


class DrainFlow(Flow[int]):
    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = {}

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Drain(self.taken))

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ORDERS)


def test_dec_4_every_message_of_racing_producers_is_taken_or_its_publish_refused(server: ServerProcess) -> None:
    """[DEC-5] Acceptance row 13: executions end while five producers publish; nothing is lost or taken twice."""
    with served(server, flow := DrainFlow()) as client:

        def produce(producer: int) -> None:
            sent = 0
            while sent < 100:
                try:
                    client.publish("drain", ORDERS, producer * 100 + sent)
                    sent += 1
                except FlowNotActiveError:
                    with suppress(FlowAlreadyStartedError):
                        client.start_flow(flow, "drain", 0)

        client.start_flow(flow, "drain", 0)
        client.publish("drain", ORDERS, 500)
        assert client.wait_for_flow("drain", WAIT_S).single_output(int) == 1
        producers = [threading.Thread(target=produce, args=(producer,)) for producer in range(5)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()
        result = client.wait_for_flow("drain", WAIT_S)
        assert result.status is FlowStatus.COMPLETED
        assert sorted(order for orders in flow.taken.values() for order in orders) == list(range(501))
        assert client.describe_flow("drain").ordinal > 1


# ---- heartbeats [HB-1..3] ----------------------------------------------------------------------------------------


class Copy(Step[int]):
    """Copies lines with a checkpoint after each; the first attempt falls silent on the way."""

    def __init__(self, copied: list[int]) -> None:
        self.copied = copied

    def execute(self, context: Context, input: int) -> StepDecision:
        done = context.last_heartbeat_value(int) or 0
        for line in range(done + 1, input + 1):
            self.copied.append(line)
            context.heartbeat(line)
            if line == 3 and context.attempt == 1:
                while not context.is_cancellation_requested():
                    threading.Event().wait(0.01)
                break
        return graceful_complete(context.attempt)

    def get_step_options(self) -> StepOptions:
        return StepOptions(heartbeat_timeout=0.5, execute_retry=RetryPolicy(initial_interval=0.05))


class CopyFlow(Flow[int]):
    def __init__(self) -> None:
        self.copied: list[int] = []

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Copy(self.copied))


def test_hb_1_a_silent_handler_is_canceled_and_the_next_attempt_goes_on_from_its_checkpoint(
    server: ServerProcess,
) -> None:
    """[HB-2] The start Step's own options reach the server with the start."""
    with served(server, flow := CopyFlow()) as client:
        client.start_flow(flow, "copy", 6)
        assert client.wait_for_flow("copy", WAIT_S).single_output(int) == 2
        assert flow.copied == [1, 2, 3, 4, 5, 6]
        (failed,) = happened(client, "copy", "ExecuteFailed")
        assert failed.data["output"]["failure"]["error_type"] == "HEARTBEAT_TIMEOUT"
        assert [beat.data["attempt"] for beat in happened(client, "copy", "HeartbeatReceived")] == [1, 2]


# ---- ASYNC durability [DUR-2] ------------------------------------------------------------------------------------

HOPS = 200


class Hop(Step[int]):
    """Counts down; every result may be followed before it is on disk."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def execute(self, context: Context, input: int) -> StepDecision:
        self.calls.append(input)
        return graceful_complete("down") if input == 0 else go_to(Hop, input - 1)

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_durability=StepDurability.ASYNC)


class HopFlow(Flow[int]):
    def __init__(self) -> None:
        self.hop = Hop()

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(self.hop)


def test_dur_2_a_killed_server_repeats_what_it_lost_and_goes_on(tmp_path: Path) -> None:
    """[DUR-3] The Flow ends once, with a gap-free history, although the worker was ahead of the log."""
    data = tmp_path / "data"
    with ServerProcess(data, "--set", "matching.resume_wait=1s") as first:
        address = first.address
        with served(first, flow := HopFlow()) as client:
            client.start_flow(flow, "hops", HOPS)
            while len(flow.hop.calls) < HOPS // 3:
                threading.Event().wait(0.001)
            first.kill()
            with ServerProcess(data, "--set", "matching.resume_wait=1s", listen=address):
                assert client.wait_for_flow("hops", WAIT_S).single_output(str) == "down"
                done = happened(client, "hops", "ExecuteCompleted")
                assert [event.data["input"]["value"] for event in done] == list(range(HOPS, -1, -1))
                assert done[0].data["context"]["durability"] == "ASYNC"
                assert set(flow.hop.calls) == set(range(HOPS + 1))
