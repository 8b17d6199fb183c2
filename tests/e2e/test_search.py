"""Search on real servers: rows 36, 38 and 39 of the acceptance table, conflicts of types, and kill -9."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dexsdk import (
    Attribute,
    AttributeIndex,
    Channel,
    Client,
    ClientOptions,
    Context,
    DexServiceError,
    Flow,
    IndexType,
    InvalidQueryError,
    PersistenceSchema,
    Registry,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    Wait,
    Worker,
    WorkerOptions,
    force_complete,
)
from dextools.log_verification import verify_log
from tests.support.eventually import eventually_in_thread
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("search")]

VALUE = Attribute("value", str, AttributeIndex(IndexType.KEYWORD))
NUMBER = Attribute("number", int, AttributeIndex(IndexType.INT))
GO = Channel("go", int)
ODD_IDS = ("a/b", "../x", "a%2Fb", "\u00e9", "e\u0301", "\U0001f600", "'")


class Await(Step[None]):
    def wait_for(self, context: Context, input: None) -> Wait:
        NUMBER.set(context, 1)
        return Wait.until(GO.for_one())

    def execute(self, context: Context, input: None) -> StepDecision:
        NUMBER.set(context, 2)
        return force_complete()


class Valued(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.start_step(Await())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(VALUE, NUMBER, GO)


class Conflicting(Flow[None]):
    """Has the key `value` as well, but as a number."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(COUNT)


COUNT = Attribute("count", int, AttributeIndex(IndexType.INT, "value"))
REGISTRY = Registry([Valued()])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


def client_of(server: ServerProcess, registry: Registry = REGISTRY) -> Client:
    return Client(registry, options=ClientOptions(server_address=server.address))


def found(client: Client, query: str) -> list[str]:
    return [flow.flow_id for flow in client.search_flows(query).flows]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_row_36_odd_flow_ids_are_distinct_in_search(server: ServerProcess) -> None:
    """[ID-2, SEARCH-5]"""
    with client_of(server) as client:
        for flow_id in ODD_IDS:
            client.start_flow(Valued, flow_id, None)
        for flow_id in ODD_IDS:
            assert found(client, f"FlowId = {quoted(flow_id)}") == [flow_id]
            pattern = flow_id.replace("%", "\\%")
            assert found(client, f"FlowId LIKE {quoted(pattern)}") == [flow_id]
        assert sorted(found(client, "")) == sorted(ODD_IDS)


def test_row_38_values_are_matched_exactly_and_a_broken_query_gives_its_position(server: ServerProcess) -> None:
    """[SEARCH-2, SEARCH-5, SEARCH-6]"""
    values = ("O'Brien", "foo-bar", "%", "x' OR '1'='1", "foo", "\\")
    with client_of(server) as client:
        for number, value in enumerate(values):
            client.start_flow(Valued, f"f{number}", None, StartFlowOptions().with_attribute(VALUE, value))
        for number, value in enumerate(values):
            assert found(client, f"value = {quoted(value)}") == [f"f{number}"]
            pattern = value.replace("\\", "\\\\").replace("%", "\\%")
            assert found(client, f"value LIKE {quoted(pattern)}") == [f"f{number}"]
        assert found(client, "value LIKE 'foo%' ORDER BY value DESC") == ["f1", "f4"]
        for query, position in (("value = 'x", 8), ("value == 'x'", 7), ("value = 'a' OR '1'='1'", 15), ("val = 1", 0)):
            with pytest.raises(InvalidQueryError) as raised:
                client.search_flows(query)
            assert raised.value.position == position
            assert (raised.value.code, raised.value.sub_status) == ("INVALID_ARGUMENT", "INVALID_QUERY")
            assert "expected" in str(raised.value).lower()
            assert "sql" not in str(raised.value).lower()


def test_row_39_an_acknowledged_write_is_seen_and_a_deletion_too(server: ServerProcess) -> None:
    """[SEARCH-7, ATTR-11]"""
    with client_of(server) as client:
        client.start_flow(Valued, "f", None)
        for round_ in range(30):
            client.set_attribute("f", VALUE, f"v{round_}")
            assert found(client, f"value = 'v{round_}'") == ["f"]
            client.set_attribute("f", VALUE, None)
            assert found(client, "value IS NULL") == ["f"]
            assert found(client, "value IS NOT NULL") == []


def test_attr_10_a_worker_with_another_type_does_not_start(server: ServerProcess) -> None:
    """Both types are named; a client is refused as well."""
    other = Registry([Conflicting()])
    with running_worker(REGISTRY, server.address), client_of(server, other) as client:
        worker = Worker(other, None, WorkerOptions(server_address=server.address))
        with pytest.raises(DexServiceError, match="'value' is KEYWORD on this server, and INT here") as raised:
            worker.start()
        assert raised.value.sub_status == "INDEX_TYPE_CONFLICT"
        for call in (
            lambda: client.search_flows(),
            lambda: client.start_flow(Conflicting, "c", None, StartFlowOptions().with_attribute(COUNT, 1)),
        ):
            with pytest.raises(DexServiceError, match="KEYWORD on this server") as refused:
                call()
            assert (refused.value.code, refused.value.sub_status) == ("FAILED_PRECONDITION", "INDEX_TYPE_CONFLICT")


def test_attr_11_index_rows_equal_the_log_after_a_kill(tmp_path: Path) -> None:
    """[SEARCH-3, INV-8] What Steps do is current right after the restart; keys outlive it."""
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir) as server:
        with running_worker(REGISTRY, server.address), client_of(server) as client:
            for number in range(20):
                options = StartFlowOptions().with_attribute(VALUE, f"v{number % 3}")
                client.start_flow(Valued, f"f{number}", None, options)
            eventually_all(client, "StepStatus = 'waiting' AND number = 1", 20)
            for number in range(5):
                client.publish(f"f{number}", GO, 1)
            eventually_all(client, "Status = 'COMPLETED' AND number = 2", 5)
        os.kill(server.pid, signal.SIGKILL)
    with closing(OfflineLog(log_path(data_dir))) as log:
        assert verify_log(log, lambda _: None).faults == []
        assert {"value", "number"} <= set(log.index_keys())
    with ServerProcess(data_dir) as server, client_of(server) as client:
        assert client.count_flows("StepStatus = 'waiting' AND ActiveStepTypes = 'Await'").total == 15
        assert client.count_flows("number = 2", group_by="Status").groups == {"COMPLETED": 5}
        token = ""
        seen: list[str] = []
        while token or not seen:
            page = client.search_flows("value IS NOT NULL", 7, token)
            seen += [flow.flow_id for flow in page.flows]
            token = page.next_page_token
        assert seen == [f"f{number}" for number in reversed(range(20))]


def eventually_all(client: Client, query: str, count: int) -> None:
    eventually_in_thread(lambda: client.count_flows(query).total == count, query)
