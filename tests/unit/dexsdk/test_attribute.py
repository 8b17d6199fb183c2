"""Attributes read from a snapshot and written with the response [ATTR-1..3, FLOW-4, TYPE-2]."""

from collections.abc import Callable
from typing import Any

import pytest

from dexsdk import Attribute, AttributeMap, Context, FlowDefinitionError, StepDecision, ValueMappingError, dead_end
from tests.unit.dexsdk.calls import run, run_to_failure
from tests.unit.dexsdk.flows import ScriptedFlow

TAGS: Attribute[list[str]] = Attribute("tags", list[str])
COUNT: Attribute[int] = Attribute("count", int)
SCORES: AttributeMap[int] = AttributeMap("scores", int)
UNDECLARED: Attribute[int] = Attribute("undeclared", int)


def written(body: Callable[[Context], object], **fields: Any) -> tuple[tuple[str, bytes | None], ...]:
    def execute(context: Context) -> StepDecision:
        body(context)
        return dead_end()

    return run(ScriptedFlow(TAGS, COUNT, SCORES, execute=execute), "Scripted", **fields).writes


def test_attr_1_reads_see_earlier_writes_of_the_same_call() -> None:
    def body(context: Context) -> None:
        assert COUNT.get(context) == 1
        COUNT.set(context, 2)
        assert COUNT.get(context) == 2
        COUNT.delete(context)
        with pytest.raises(KeyError, match="'count' is not set"):
            COUNT.get(context)

    assert written(body, attributes={"count": b"1"}) == (("count", None),)


def test_attr_1_an_unset_attribute_is_a_key_error_and_none_deletes() -> None:
    def body(context: Context) -> None:
        with pytest.raises(KeyError):
            COUNT.get(context)
        COUNT.set(context, None)

    assert written(body) == (("count", None),)


def test_attr_1_a_default_stands_for_what_is_not_set_and_for_nothing_else() -> None:
    def body(context: Context) -> None:
        assert COUNT.get(context, default=7) == 1
        COUNT.delete(context)
        assert COUNT.get(context, default=7) == 7
        assert COUNT.get(context, default=None) is None
        assert SCORES.get(context, "ada", default=0) == 5
        assert SCORES.get(context, "bob", default=0) == 0
        with pytest.raises(ValueMappingError):
            TAGS.get(context, default=[])

    assert written(body, attributes={"count": b"1", "scores\0ada": b"5", "tags": b"1"}) == (("count", None),)


def test_attr_2_writes_stand_in_call_order_and_the_last_of_a_key_counts() -> None:
    def body(context: Context) -> None:
        COUNT.set(context, 1)
        TAGS.set(context, ["a"])
        COUNT.set(context, 3)

    assert written(body) == (("tags", b'["a"]'), ("count", b"3"))


def test_attr_1_a_value_that_was_read_is_a_copy() -> None:
    def body(context: Context) -> None:
        TAGS.get(context).append("changed")
        assert TAGS.get(context) == ["a"]

    assert written(body, attributes={"tags": b'["a"]'}) == ()


def test_attr_3_instances_of_a_map_are_separate_and_counted_with_buffered_changes() -> None:
    def body(context: Context) -> None:
        assert SCORES.get_all_instance_keys(context) == ["B", "a", "\U0001f600"]
        SCORES.set(context, "a/b", 4)
        SCORES.delete(context, "B")
        assert SCORES.get(context, "a/b") == 4
        assert SCORES.get_all_instance_keys(context) == ["a", "a/b", "\U0001f600"]
        assert SCORES.get_map_size(context) == 3
        with pytest.raises(KeyError, match=r"'scores'\['B'\] is not set"):
            SCORES.get(context, "B")
        with pytest.raises(ValueError, match="instance key of 'scores'"):
            SCORES.get(context, "")

    snapshot = {"scores\0a": b"1", "scores\0B": b"2", "scores\0\U0001f600": b"3", "scores2\0x": b"9", "count": b"1"}
    assert written(body, attributes=snapshot) == (("scores\0a/b", b"4"), ("scores\0B", None))


@pytest.mark.parametrize("use", [UNDECLARED.get, UNDECLARED.delete, lambda context: UNDECLARED.set(context, 1)])
def test_flow_4_an_undeclared_definition_is_refused_before_anything_is_sent(use: Callable[[Context], Any]) -> None:
    def body(context: Context) -> None:
        with pytest.raises(FlowDefinitionError, match="Attribute 'undeclared' is not in its persistence schema"):
            use(context)

    assert written(body) == ()


def test_type_2_a_value_of_the_wrong_type_is_refused_by_name_and_path() -> None:
    flow = ScriptedFlow(TAGS, execute=lambda context: TAGS.set(context, ["a", 1]))  # type: ignore[list-item] # the case
    failure = run_to_failure(flow, "Scripted")
    assert failure.error_type == "FlowDefinitionError"
    assert failure.detail == (
        "Flow 'ScriptedFlow', Step 'Scripted', execute, Attribute 'tags': $[1]: expected str, got int"
    )


def test_val_5_a_stored_value_of_another_type_names_attribute_and_path() -> None:
    flow = ScriptedFlow(TAGS, execute=TAGS.get)
    failure = run_to_failure(flow, "Scripted", attributes={"tags": b"[1]"})
    assert failure.error_type == "ValueMappingError"
    assert failure.detail.endswith("execute, Attribute 'tags': $[0]: Expected `str`, got `int`")
