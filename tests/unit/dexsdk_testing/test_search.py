"""Search through the SDK: indexes of Attributes, what Steps do, and that every write is seen at once [SEARCH-7]."""

from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest

from dexsdk import (
    ActiveStepSearchMode,
    Attribute,
    AttributeIndex,
    AttributeMap,
    Channel,
    Client,
    Context,
    Flow,
    FlowConfig,
    FlowDefinitionError,
    FlowStatus,
    IndexType,
    InvalidQueryError,
    PersistenceSchema,
    Registry,
    RetryPolicy,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    ValueTooLargeError,
    Wait,
    force_complete,
    force_fail,
    go_to,
    rpc,
)
from dexsdk.testing import start_env_sync


class Color(Enum):
    RED = "red"
    BLUE = "blue"


COLOR = Attribute("color", Color, AttributeIndex(IndexType.KEYWORD))
NAME = Attribute("name", str, AttributeIndex(IndexType.KEYWORD, "name"))
NOTES = Attribute("notes", str, AttributeIndex(IndexType.FULL_TEXT, "text"))
TAGS = Attribute("tags", list[str], AttributeIndex(IndexType.KEYWORD_ARRAY))
NUMBER = Attribute("number", int, AttributeIndex(IndexType.INT))
PRICE = Attribute("price", float, AttributeIndex(IndexType.DOUBLE))
IS_PAID = Attribute("is_paid", bool, AttributeIndex(IndexType.BOOL))
DUE = Attribute("due", datetime, AttributeIndex(IndexType.DATETIME))
PARTS = AttributeMap("parts", str, AttributeIndex(IndexType.KEYWORD, "last_part"))
GO = Channel("go", str)
NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)


class Await(Step[str]):
    def wait_for(self, context: Context, input: str) -> Wait:
        NAME.set(context, input)
        return Wait.until(GO.for_one())

    def execute(self, context: Context, input: str) -> StepDecision:
        (word,) = GO.results(context)
        PARTS.set(context, "x", word)
        return go_to(End, word)


class End(Step[str]):
    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(maximum_attempts=2, initial_interval=timedelta(hours=1)))

    def execute(self, context: Context, input: str) -> StepDecision:
        if input == "raise":
            raise ValueError("no stock")
        return force_fail("refused") if input == "fail" else force_complete()


class Searchable(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(Await()).other_steps(End())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(COLOR, NAME, NOTES, TAGS, NUMBER, PRICE, IS_PAID, DUE, PARTS, GO)

    @rpc
    def paint(self, context: Context, input: str) -> RPCResult[None]:
        if input:
            COLOR.set(context, Color(input))
        else:
            COLOR.delete(context)
        return RPCResult.of(None)


def ids(client: Client, query: str) -> list[str]:
    return [flow.flow_id for flow in client.search_flows(query).flows]


def test_attr_9_values_of_every_type_are_found_as_soon_as_they_are_written() -> None:
    flow = Searchable()
    with start_env_sync(flow) as env:
        client = env.client
        options = (
            StartFlowOptions()
            .with_attribute(COLOR, Color.RED)
            .with_attribute(NOTES, "Deliver to the back-door, please")
            .with_attribute(TAGS, ["new", "vip"])
            .with_attribute(NUMBER, 2**53 + 1)
            .with_attribute(PRICE, 3.0)
            .with_attribute(IS_PAID, False)
            .with_attribute(DUE, NOON)
        )
        client.start_flow(Searchable, "f", "O'Brien", options)
        env.advance(timedelta(0))
        for query in (
            "color = 'red'",
            "name = 'O''Brien'",
            "text = 'DOOR deliver' AND text LIKE 'plea%'",
            "tags = 'vip'",
            "number = 9007199254740993 AND number != 9007199254740992",
            "price >= 3",
            "is_paid = false",
            "due = '2026-03-01T12:00:00.123456Z'",
        ):
            assert ids(client, query) == ["f"], query
        (found,) = client.search_flows().flows
        assert found.indexed_attributes == {
            "color": "red",
            "name": "O'Brien",
            "text": "Deliver to the back-door, please",
            "tags": ["new", "vip"],
            "number": 2**53 + 1,
            "price": 3.0,
            "is_paid": False,
            "due": NOON,
        }
        assert (found.status, found.flow_type, found.schedule_id) == (FlowStatus.RUNNING, "Searchable", None)
        client.set_attribute("f", COLOR, Color.BLUE)
        assert ids(client, "color = 'blue'") == ["f"]
        client.set_attribute("f", COLOR, None)
        assert ids(client, "color IS NULL") == ["f"]
        client.invoke_rpc(flow.paint, "f", "red")
        assert ids(client, "color = 'red'") == ["f"]
        client.invoke_rpc(flow.paint, "f", "")
        assert ids(client, "color IS NOT NULL") == []
        client.set_attribute("f", PARTS, "a", "wheel")
        client.set_attribute("f", PARTS, "b", "door")
        assert ids(client, "last_part = 'door'") == ["f"]
        client.set_attribute("f", PARTS, "a", None)
        assert ids(client, "last_part IS NULL") == ["f"]


def test_search_3_what_steps_do_is_current() -> None:
    with start_env_sync(Searchable()) as env:
        client = env.client
        client.start_flow(Searchable, "f", "x")
        env.advance(timedelta(0))
        assert ids(client, "StepStatus = 'waiting' AND ActiveStepTypes = 'Await' AND LastError IS NULL") == ["f"]
        assert client.count_flows(group_by="StepStatus").groups == {"waiting": 1}
        client.publish("f", GO, "raise")
        env.advance(timedelta(0))
        assert ids(client, "StepStatus = 'backoff' AND LastError = 'ValueError: no stock'") == ["f"]
        assert ids(client, "ActiveStepTypes IS NULL") == ["f"], "End has no wait_for"
        client.update_flow_config("f", FlowConfig(active_step_search_mode=ActiveStepSearchMode.ALL))
        assert ids(client, "ActiveStepTypes = 'End'") == ["f"]
        client.update_flow_config("f", FlowConfig(active_step_search_mode=ActiveStepSearchMode.DISABLED))
        assert ids(client, "ActiveStepTypes IS NULL AND StepStatus = 'backoff'") == ["f"]
        env.crash_server()
        env.recover_server()
        assert ids(client, "StepStatus = 'backoff'") == ["f"]
        env.advance(timedelta(hours=1))
        assert ids(client, "Status = 'FAILED' AND StepStatus IS NULL AND LastError LIKE 'ValueError%'") == ["f"]


def test_search_3_a_flow_that_failed_otherwise_shows_that_as_its_error() -> None:
    with start_env_sync(Searchable()) as env:
        env.client.start_flow(Searchable, "f", "x")
        env.client.publish("f", GO, "fail")
        env.client.wait_for_flow("f")
        assert ids(env.client, "LastError = 'STEP_DECISION_FAILED: refused'") == ["f"]


def test_search_8_pages_and_counts() -> None:
    with start_env_sync(Searchable()) as env:
        client = env.client
        for number in range(5):
            client.start_flow(Searchable, f"f{number}", "x", StartFlowOptions().with_attribute(NUMBER, number // 2))
        query = "number IS NOT NULL ORDER BY number DESC, FlowId"
        first = client.search_flows(query, 2)
        rest = client.search_flows(query, 1000, first.next_page_token)
        found = [flow.flow_id for flow in (*first.flows, *rest.flows)]
        assert found == ["f4", "f2", "f3", "f0", "f1"]
        assert rest.next_page_token == ""
        with pytest.raises(InvalidQueryError):
            client.search_flows("number IS NOT NULL", 2, first.next_page_token)
        with pytest.raises(ValueError, match="allowed are 1 to 1000"):
            client.search_flows(query, 1_001)
        count = client.count_flows("number = 1", group_by="Status")
        assert (count.total, count.groups) == (2, {"RUNNING": 2})
        with pytest.raises(InvalidQueryError):
            client.count_flows(group_by="FlowId")


@pytest.mark.parametrize(
    ("query", "position"), [("colour = 'x'", 0), ("color = ", 8), ("number = 'x'", 9), ("a\ud800", 1)]
)
def test_search_6_a_bad_query_tells_its_position(query: str, position: int) -> None:
    with start_env_sync(Searchable()) as env, pytest.raises(InvalidQueryError) as raised:
        env.client.search_flows(query)
    assert raised.value.position == position


def test_lim_2_a_keyword_of_more_than_4_kib_is_refused_where_it_is_given() -> None:
    with start_env_sync(Searchable()) as env:
        env.client.start_flow(Searchable, "f", "x")
        with pytest.raises(ValueTooLargeError) as raised:
            env.client.set_attribute("f", NAME, "\u00e9" * 2_049)
        assert (raised.value.size, raised.value.limit) == (4_098, 4_096)


class NoSteps(Flow[None]):
    def __init__(self, *definitions: Attribute[int] | Attribute[str] | AttributeMap[str]) -> None:
        self.definitions = definitions

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(*self.definitions)


class Other(NoSteps):
    pass


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (AttributeMap("m", str, AttributeIndex(IndexType.KEYWORD)), "must name the index_key"),
        (Attribute("a", str, AttributeIndex(IndexType.INT)), "a INT index needs values of int, its values are str"),
        (Attribute("Status", str, AttributeIndex(IndexType.KEYWORD)), "every Flow has"),
        (Attribute("a", str, AttributeIndex(IndexType.KEYWORD, "sys:a")), "reserved"),
        (Attribute("a", str, "KEYWORD"), "an AttributeIndex with an IndexType is needed"),  # type: ignore[arg-type]
    ],
)
def test_attr_9_an_index_that_does_not_fit_is_a_definition_error(definition: Attribute[str], fault: str) -> None:
    with pytest.raises(FlowDefinitionError, match=fault):
        Registry([NoSteps(definition)])


def test_attr_10_one_key_has_one_type_in_a_registry() -> None:
    text = Attribute("a", str, AttributeIndex(IndexType.KEYWORD, "k"))
    number = Attribute("b", int, AttributeIndex(IndexType.INT, "k"))
    with pytest.raises(FlowDefinitionError, match="index key 'k' is KEYWORD in Flow 'NoSteps' and INT in Flow 'Other'"):
        Registry([NoSteps(text), Other(number)])
    assert [key.key for key in Registry([NoSteps(text), Other(text)]).index_keys] == ["k"]
