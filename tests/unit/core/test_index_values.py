"""Index values beside the writes of Attributes [ATTR-9, ATTR-11], and the error that search shows [SEARCH-3]."""

import msgspec

from dexd.core.index_values import IndexType, IndexWrite
from dexd.core.values import RecoveryError, Response
from tests.support.builders import (
    DEAD_END,
    SKIP,
    complete,
    connect,
    decides,
    execute_failed,
    failure,
    force_fail,
    plan,
    retry,
    rpc,
    rpc_token,
    scheduled,
    set_attribute,
    start,
    started,
    terms,
    waits,
)
from tests.support.given import Given, given

CITY = IndexWrite("city", IndexType.KEYWORD, "Paris")
TAGS = IndexWrite("tags", IndexType.KEYWORD_ARRAY, ("a", "b"))


def indexed(flow: Given) -> dict[str, object]:
    return {key: entry.value for key, entry in flow.run().indexed.items()}


def test_attr_11_initial_attributes_are_indexed_with_the_start() -> None:
    command = msgspec.structs.replace(start(attributes=(("city", b'"Paris"'),)), indexed=(CITY, TAGS))
    assert indexed(given().after(command)) == {"city": "Paris", "tags": ("a", "b")}


def test_attr_9_the_last_set_or_delete_of_a_key_wins() -> None:
    """All instances of a map write one field."""
    flow = given(started(indexed=(CITY,)))
    for value in ("Rome", "Oslo", None):
        written = set_attribute(f"city\0{value}", b"1", request_id=f"r{value}")
        flow.after(msgspec.structs.replace(written, indexed=(IndexWrite("city", IndexType.KEYWORD, value),)))
        assert indexed(flow) == ({} if value is None else {"city": value})


def test_attr_11_results_of_both_methods_are_indexed() -> None:
    flow = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    flow.after(complete(waits(SKIP, writes=(("city", b"1"),), indexed=(CITY,))))
    assert indexed(flow) == {"city": "Paris"}
    flow.after(complete(decides(DEAD_END, writes=(("tags", b"1"),), indexed=(TAGS,)), number=1))
    assert indexed(flow) == {"city": "Paris", "tags": ("a", "b")}


def test_attr_11_results_of_rpcs_are_indexed() -> None:
    flow = given(started()).after(*connect(), rpc())
    response = Response(output=b"1", writes=(("city", b"1"),), indexed=(CITY,))
    flow.after(complete(response, rpc_token()))
    assert indexed(flow) == {"city": "Paris"}


def test_attr_11_a_flow_that_is_tried_again_begins_with_its_initial_values() -> None:
    """[START-8]"""
    again = terms(retry=retry(), step=plan("A"))
    assert again.retry is not None
    again = msgspec.structs.replace(again, retry=msgspec.structs.replace(again.retry, indexed=(CITY,)))
    flow = given(started(terms=again, indexed=(CITY,)), scheduled("A-1")).after(*connect())
    flow.after(complete(decides(force_fail(), writes=(("tags", b"1"),), indexed=(TAGS,))))
    (following,) = [run for run in flow.kernel.runs.values() if run.is_open]
    assert {key: entry.value for key, entry in following.indexed.items()} == {"city": "Paris"}


def test_search_3_the_newest_failed_attempt_is_remembered() -> None:
    flow = given(
        started(),
        scheduled("A-1"),
        execute_failed("A-1", error=failure("OldError", "a")),
        execute_failed("A-1", attempt=2, error=failure("ValueError", "b")),
    )
    assert flow.run().last_error == RecoveryError("ValueError", "b")


def test_cfg_1_a_step_remembers_whether_it_began_with_wait_for() -> None:
    flow = given(started(), scheduled("A-1", wait_for=True), scheduled("B-1")).after(*connect())
    flow.after(complete(SKIP))
    assert flow.step("A-1").has_wait_for
    assert not flow.step("B-1").has_wait_for
