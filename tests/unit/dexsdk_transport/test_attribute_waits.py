"""What clients can wait for in an Attribute, and how it is asked [WAITAPI-1, WAITAPI-4, CFG-2]."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import (
    Attribute,
    AttributeMap,
    AttributeMatch,
    FlowConfig,
    LongPollTimeoutError,
    Registry,
    WaitForAttributeOptions,
)
from dexsdk._conversation import Answer, Ask, Conversation, Result
from dexsdk._verbs import Verbs
from tests.unit.dexsdk.flows import ScriptedFlow

COUNT = Attribute("count", int)
AT = Attribute("at", datetime)
COUNTS = AttributeMap("counts", int)
VERBS = Verbs(Registry((ScriptedFlow(COUNT, AT, COUNTS),)))


class Colour(Enum):
    RED = "red"


def play(
    conversation: Conversation[Result], answers: Sequence[Answer]
) -> tuple[list[pb.WaitForAttributeRequest], Result]:
    """Answer each poll in turn; gives the polls and the result."""
    polls: list[pb.WaitForAttributeRequest] = []
    remaining = list(answers)
    answer: Answer | None = None
    while True:
        try:
            turn = conversation.send(answer)
        except StopIteration as end:
            return polls, end.value
        assert isinstance(turn, Ask)
        polls.append(pb.WaitForAttributeRequest.FromString(turn.body))
        answer = remaining.pop(0)


def found(value: bytes | None) -> bytes:
    return pb.WaitForAttributeReply(value=value).SerializeToString()


def test_waitapi_1_polls_until_the_value_matches_and_gives_it() -> None:
    asked = VERBS.waits.wait_for_attribute_match("f", COUNT, (AttributeMatch.greater_than(3),), None)
    polls, value = play(asked, [found(None), found(b"4")])
    assert value == 4
    assert [(poll.flow_id, poll.key, poll.operator, poll.operand) for poll in polls] == [("f", "count", 2, b"3")] * 2
    assert polls[0].wait_ms == 60_000


def test_waitapi_1_no_time_checks_once() -> None:
    asked = VERBS.waits.wait_for_attribute_equal("f", COUNT, (3, 0), None)
    with pytest.raises(LongPollTimeoutError):
        play(asked, [found(None)])


def test_options_come_by_position_or_keyword() -> None:
    """Also for an instance of a map."""
    now = WaitForAttributeOptions(timeout=0)
    match = AttributeMatch.not_equal(3)
    for asked in (
        VERBS.waits.wait_for_attribute_match("f", COUNTS, ("x", match, now), None),
        VERBS.waits.wait_for_attribute_match("f", COUNTS, ("x", match), now),
    ):
        polls, value = play(asked, [found(b"4")])
        assert value == 4
        assert [(poll.key, poll.operator, poll.wait_ms) for poll in polls] == [("counts\0x", 1, 0)]


def test_waitapi_4_instants_and_enums() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    [poll], none = play(
        VERBS.waits.wait_for_attribute_equal("f", AT, (noon,), None), [found(b'"2026-01-01T12:00:00Z"')]
    )
    assert (poll.is_instant, none) == (True, None)
    assert poll.operand.startswith(b'"2026-01-01T12:00:00')
    [poll], _ = play(VERBS.waits.wait_for_attribute_equal("f", COUNT, (Colour.RED,), None), [found(b"1")])
    assert (poll.is_instant, poll.operand) == (False, b'"red"')


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, b"x", 1j, datetime(2026, 1, 1)])  # noqa: DTZ001 - the fault
def test_waitapi_4_other_types_raise_locally(value: Any) -> None:
    with pytest.raises(ValueError, match=r"compared with|naive"):
        VERBS.waits.wait_for_attribute_equal("f", COUNT, (value,), None)


@pytest.mark.parametrize("value", ["a", True, Colour.RED])
def test_waitapi_4_order_needs_numbers_or_instants(value: Any) -> None:
    for match in (
        AttributeMatch.greater_than,
        AttributeMatch.greater_or_equal,
        AttributeMatch.less_than,
        AttributeMatch.less_or_equal,
    ):
        with pytest.raises(ValueError, match="has no order"):
            match(value)


def test_every_operator_travels() -> None:
    matches = [
        AttributeMatch.equal(1),
        AttributeMatch.not_equal(1),
        AttributeMatch.greater_than(1),
        AttributeMatch.greater_or_equal(1),
        AttributeMatch.less_than(1),
        AttributeMatch.less_or_equal(1),
    ]
    assert [match.operator for match in matches] == list(range(6))


def test_gen_2_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    for arguments in ((), (1, 2, 3)):
        with pytest.raises(ValueError, match="takes a value"):
            VERBS.waits.wait_for_attribute_equal("f", COUNT, arguments, None)
    with pytest.raises(ValueError, match="takes an instance key, a value"):
        VERBS.waits.wait_for_attribute_equal("f", COUNTS, ("x",), None)
    with pytest.raises(ValueError, match="needs an AttributeMatch"):
        VERBS.waits.wait_for_attribute_match("f", COUNT, (3,), None)
    with pytest.raises(ValueError, match="timeout"):
        WaitForAttributeOptions(timeout=-1)


def test_cfg_2_update_of_settings_is_one_request_with_an_id() -> None:
    conversation = VERBS.update_flow_config("f", FlowConfig(record_rpc_io=True))
    turn = conversation.send(None)
    assert isinstance(turn, Ask)
    request = pb.UpdateFlowConfigRequest.FromString(turn.body)
    assert (request.flow_id, request.config.record_rpc_io) == ("f", True)
    assert request.request_id
