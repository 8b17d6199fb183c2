"""Channels seen and written by handlers [CHAN-2, CHAN-6, CHAN-7, WAIT-8, WAIT-11, LIM-2]."""

from collections.abc import Callable
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import Channel, ChannelMap, Context, FlowDefinitionError, StepDecision, Timer, Wait, dead_end
from dexsdk.channel import channel_key, split_messages
from tests.unit.dexsdk.calls import run, run_to_failure
from tests.unit.dexsdk.flows import ScriptedFlow

NEWS: Channel[str] = Channel("news", str)
BY_USER: ChannelMap[int] = ChannelMap("by_user", int)
UNDECLARED: Channel[int] = Channel("undeclared", int)


def published(body: Callable[[Context], object], **fields: Any) -> tuple[tuple[str, bytes], ...]:
    def execute(context: Context) -> StepDecision:
        body(context)
        return dead_end()

    return run(ScriptedFlow(NEWS, BY_USER, execute=execute), "Scripted", **fields).publications


def test_chan_2_publications_stand_in_call_order() -> None:
    def body(context: Context) -> None:
        NEWS.publish(context, "b")
        BY_USER.publish(context, "u", 1)
        NEWS.publish(context, "a")

    assert published(body) == (("news", b'"b"'), ("by_user\0u", b"1"), ("news", b'"a"'))


def test_chan_7_size_is_the_snapshot_plus_this_calls_publications() -> None:
    def body(context: Context) -> None:
        assert (NEWS.size(context), BY_USER.size(context, "u"), BY_USER.size(context, "v")) == (2, 3, 0)
        NEWS.publish(context, "x")
        BY_USER.publish(context, "v", 1)
        assert (NEWS.size(context), BY_USER.size(context, "u"), BY_USER.size(context, "v")) == (3, 3, 1)

    published(body, channel_sizes={"news": 2, "by_user\0u": 3})


def test_chan_7_deletions_make_the_queue_shorter() -> None:
    """[CHAN-8] Naming one message twice is one deletion."""

    def execute(context: Context) -> StepDecision:
        for message_id in ("m1", "m2", "m1"):
            NEWS.delete_message(context, message_id)
        BY_USER.delete_message(context, "u", "m3")
        BY_USER.delete_message(context, "v", "nothing")
        NEWS.publish(context, "x")
        assert (NEWS.size(context), BY_USER.size(context, "u"), BY_USER.size(context, "v")) == (2, 0, 0)
        assert BY_USER.get_all_instance_keys(context) == []
        return dead_end()

    flow = ScriptedFlow(NEWS, BY_USER, execute=execute)
    output = run(flow, "Scripted", channel_sizes={"news": 3, "by_user\0u": 1})
    assert output.deletions == (("news", "m1"), ("news", "m2"), ("by_user\0u", "m3"), ("by_user\0v", "nothing"))


def test_chan_6_instances_that_are_not_empty_are_counted_with_publications() -> None:
    def body(context: Context) -> None:
        assert BY_USER.get_all_instance_keys(context) == ["B", "a"]
        BY_USER.publish(context, "C", 1)
        assert BY_USER.get_all_instance_keys(context) == ["B", "C", "a"]
        assert BY_USER.get_map_size(context) == 3

    published(body, channel_sizes={"by_user\0a": 1, "by_user\0B": 2, "by_user\0empty": 0, "news": 1})


def result(condition_id: str, *values: bytes, minimum: int, channel: str = "news") -> frames.ConditionResult:
    return frames.ConditionResult(frames.CONDITION_CHANNEL, condition_id, bool(values), channel, values, minimum)


def test_wait_11_results_are_all_consumed_values_in_queue_order() -> None:
    results = (
        result("first", b'"1"', b'"4"', b'"5"', minimum=1),
        frames.ConditionResult(frames.CONDITION_TIMER, "timer", met=False),
        result("second", b'"2"', b'"3"', minimum=2),
        result("lost", minimum=0),
        result("user", b"7", minimum=1, channel="by_user\0u"),
    )

    def body(context: Context) -> None:
        assert NEWS.results(context) == ["1", "2", "3", "4", "5"]
        assert NEWS.results(context, "first") == ["1", "4", "5"]
        assert NEWS.results(context, condition_id="second") == ["2", "3"]
        assert NEWS.results(context, "lost") == NEWS.results(context, "unknown") == []
        assert BY_USER.results(context, "u") == [7]
        assert BY_USER.results(context, "v") == []

    published(body, results=results)


@pytest.mark.parametrize(
    "use",
    [
        UNDECLARED.size,
        UNDECLARED.results,
        lambda context: UNDECLARED.publish(context, 1),
        lambda context: UNDECLARED.delete_message(context, "m"),
    ],
)
def test_flow_4_an_undeclared_channel_is_refused(use: Callable[[Context], Any]) -> None:
    def body(context: Context) -> None:
        with pytest.raises(FlowDefinitionError, match="Channel 'undeclared' is not in its persistence schema"):
            use(context)

    assert published(body) == ()


def test_flow_4_a_wait_on_an_undeclared_channel_fails_the_attempt() -> None:
    flow = ScriptedFlow(NEWS, wait_for=lambda context: Wait.any_of(NEWS.for_one(), UNDECLARED.for_one()))
    failure = run_to_failure(flow, "Scripted", frames.METHOD_WAIT_FOR)
    assert failure.error_type == "FlowDefinitionError"
    assert "Channel 'undeclared'" in failure.detail


def test_wait_1_a_wait_travels_with_its_conditions() -> None:
    flow = ScriptedFlow(NEWS, wait_for=lambda context: Wait.any_of(NEWS.for_one(), Timer.by_duration(3)))
    output = run(flow, "Scripted", frames.METHOD_WAIT_FOR)
    assert output.wait == frames.Wait(
        frames.WAIT_ANY_OF,
        (
            frames.Condition(frames.CONDITION_CHANNEL, channel="news", at_least=1, at_most=1),
            frames.Condition(frames.CONDITION_TIMER, duration_ms=3_000),
        ),
    )


def test_type_2_a_message_of_the_wrong_type_is_refused() -> None:
    flow = ScriptedFlow(NEWS, execute=lambda context: NEWS.publish(context, 5))  # type: ignore[arg-type] # the case
    assert "Channel 'news': $: expected str, got int" in run_to_failure(flow, "Scripted").detail


def test_lim_2_a_response_has_at_most_10000_publications() -> None:
    def body(context: Context) -> None:
        for number in range(10_001):
            BY_USER.publish(context, "u", number)

    failure = run_to_failure(ScriptedFlow(BY_USER, execute=body), "Scripted")
    assert "publications in Flow 'ScriptedFlow', Step 'Scripted', execute has size 10001, the limit is 10000" in (
        failure.detail
    )


def test_chan_2_a_client_publishes_at_least_one_value() -> None:
    assert split_messages(NEWS, ["a", "b"]) == ("news", ["a", "b"])
    assert split_messages(BY_USER, ["u", 1]) == ("by_user\0u", [1])
    for channel, arguments in ((NEWS, []), (BY_USER, ["u"]), (BY_USER, [])):
        with pytest.raises(ValueError, match="needs"):
            split_messages(channel, arguments)


def test_chan_9_a_client_names_one_queue() -> None:
    assert channel_key(NEWS) == "news"
    assert channel_key(BY_USER, "u") == "by_user\0u"
    for channel, instance in ((NEWS, ["u"]), (BY_USER, []), (BY_USER, ["u", "v"])):
        with pytest.raises(ValueError, match="instance key"):
            channel_key(channel, *instance)
