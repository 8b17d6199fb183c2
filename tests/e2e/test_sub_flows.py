"""Children of Flows through a real server, also when it is killed on the way [SUB-1..6, ARCH-14]."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dexsdk import (
    Channel,
    Client,
    ClientOptions,
    Context,
    Flow,
    FlowStatus,
    PersistenceSchema,
    Registry,
    Step,
    StepDecision,
    StepList,
    StopFlowOptions,
    StopType,
    SubFlow,
    SubFlowOptions,
    SubFlowReusePolicy,
    Wait,
    force_complete,
    graceful_complete,
)
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = pytest.mark.slow

GO = Channel("go", str)


class Work(Step[str]):
    """Ends with what it is told."""

    def wait_for(self, context: Context, input: str) -> Wait:
        return Wait.until(GO.for_one())

    def execute(self, context: Context, input: str) -> StepDecision:
        return graceful_complete(f"{input}: {GO.results(context)[0]}")


class Child(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(Work())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GO)


class Gather(Step[int]):
    """Runs so many children and says how they ended."""

    def wait_for(self, context: Context, input: int) -> Wait:
        options = SubFlowOptions(reuse_policy=SubFlowReusePolicy.ATTACH)
        return Wait.all_of(*(SubFlow.run(Child, f"child {number}", options) for number in range(input)))

    def execute(self, context: Context, input: int) -> StepDecision:
        results = [SubFlow.get_condition_results(context, number) for number in range(input)]
        return force_complete(
            [r.single_output(str) if r.status is FlowStatus.COMPLETED else r.status.value for r in results]
        )


class Parent(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Gather())


REGISTRY = Registry([Parent(), Child()])


def child_id(parent: str, number: int) -> str:
    return f"sys:sub:{parent}/Gather-1/{number}"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with (
        ServerProcess(tmp_path / "data") as server,
        running_worker(REGISTRY, server.address),
        Client(REGISTRY, None, ClientOptions(server_address=server.address)) as connected,
    ):
        yield connected


def wait_for_child(client: Client, parent: str, number: int) -> None:
    """Children begin after their parent's commit, so a moment may pass."""
    for event in client.watch_history(parent):
        if event.kind == "SubFlowStarted" and event.data["number"] == number:
            return


def test_sub_5_parent_gathers_how_its_children_ended(client: Client) -> None:
    """[SUB-1, SUB-2, SUB-3]"""
    client.start_flow(Parent, "p", 3)
    for number in range(3):
        wait_for_child(client, "p", number)
    info = client.describe_flow(child_id("p", 0))
    assert (info.flow_type, info.parent_flow_id) == ("Child", "p")
    client.publish(child_id("p", 0), GO, "a")
    client.stop_flow(child_id("p", 1), StopFlowOptions(StopType.FAIL, "enough"))
    client.publish(child_id("p", 2), GO, "c")
    assert client.wait_for_flow("p", 20).single_output(list[str]) == ["child 0: a", "FAILED", "child 2: c"]
    kinds = [event.kind for event in client.get_history("p").events]
    assert (kinds.count("SubFlowStarted"), kinds.count("SubFlowClosed")) == (3, 3)


def test_sub_4_stopped_parent_leaves_its_child_alone_and_the_next_life_attaches(client: Client) -> None:
    """[SUB-6]"""
    client.start_flow(Parent, "p", 1)
    wait_for_child(client, "p", 0)
    client.stop_flow("p")
    assert client.describe_flow(child_id("p", 0)).status is FlowStatus.RUNNING
    client.start_flow(Parent, "p", 1)
    wait_for_child(client, "p", 0)
    client.publish(child_id("p", 0), GO, "x")
    assert client.wait_for_flow("p", 20).single_output(list[str]) == ["child 0: x"]
    assert client.describe_flow(child_id("p", 0)).ordinal == 1


def test_arch_14_child_that_ends_while_the_server_is_killed_reaches_its_parent(tmp_path: Path) -> None:
    """Killed again and again while children end; every parent gets every end once."""
    data_dir = tmp_path / "data"
    parents = [f"p{number}" for number in range(6)]
    with ServerProcess(data_dir) as server, running_worker(REGISTRY, server.address):
        with Client(REGISTRY, None, ClientOptions(server_address=server.address)) as client:
            for parent in parents:
                client.start_flow(Parent, parent, 2)
            for parent in parents:
                wait_for_child(client, parent, 1)
        address = server.address
        for parent in parents:
            with Client(REGISTRY, None, ClientOptions(server_address=address)) as client:
                client.publish(child_id(parent, 0), GO, "a")
                client.publish(child_id(parent, 1), GO, "b")
                server.kill()
            server = ServerProcess(data_dir, listen=address)
        with (
            Client(REGISTRY, None, ClientOptions(server_address=address)) as client,
            ThreadPoolExecutor(len(parents)) as pool,
        ):
            results = list(pool.map(lambda parent: client.wait_for_flow(parent, 60), parents))
            histories = [client.get_history(parent).events for parent in parents]
        server.kill()
    assert [result.single_output(list[str]) for result in results] == [["child 0: a", "child 1: b"]] * len(parents)
    for history in histories:
        assert [event.kind for event in history].count("SubFlowClosed") == 2
