"""Decisions as handlers return them and as they travel [DEC-1..3, DEC-6..8, TYPE-2, STEP-8, VAL-5]."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    Channel,
    ChannelMap,
    Context,
    FlowDefinitionError,
    StepDecision,
    StepMovement,
    StepOptions,
    ValueMappingError,
    ValueTooLargeError,
    dead_end,
    force_complete,
    force_complete_if_channels_empty,
    force_fail,
    go_to,
    go_to_many,
    go_to_multi,
    graceful_complete,
)
from tests.unit.dexsdk.calls import run, run_to_failure
from tests.unit.dexsdk.flows import Body, CountStep, ScriptedFlow, ScriptedStep

UNTYPED: Any = CountStep
"""The Step as code without types sees it; with types, mypy refuses what these tests do."""

UNKNOWN: Any = int


def decided(execute: Body) -> frames.Decision:
    decision = run(ScriptedFlow(execute=execute), "Scripted").decision
    assert decision is not None
    return decision


def test_dec_1_go_to_schedules_one_step() -> None:
    expected = frames.Decision(frames.DECISION_GO_TO, (frames.Movement("CountStep", b"5", has_wait_for=False),))
    assert decided(lambda context: go_to(CountStep, 5)) == expected


def test_dec_1_the_input_may_be_left_out_where_it_is_none() -> None:
    movement = frames.Movement("Scripted", b"null", has_wait_for=True)
    assert decided(lambda context: go_to(ScriptedStep)).movements == (movement,)


def test_dec_1_go_to_many_keeps_the_order_and_has_an_alias() -> None:
    movements = [StepMovement.of(CountStep, number) for number in (3, 1, 2)]
    assert go_to_multi is go_to_many
    assert StepDecision.go_to_multi is StepDecision.go_to_many
    decision = decided(lambda context: go_to_many(*movements))
    assert [movement.input for movement in decision.movements] == [b"3", b"1", b"2"]


def test_dec_1_go_to_many_takes_1_to_10000_movements() -> None:
    movement = StepMovement.of(CountStep, 1)
    assert len(decided(lambda context: go_to_many(*[movement] * 10_000)).movements) == 10_000
    with pytest.raises(ValueTooLargeError, match="size 10001, the limit is 10000"):
        go_to_many(*[movement] * 10_001)
    with pytest.raises(ValueError, match="at least one movement"):
        go_to_many()
    with pytest.raises(FlowDefinitionError, match="argument 0 is StepDecision"):
        go_to_many(dead_end())  # type: ignore[arg-type] # the case


def test_step_8_options_of_a_movement_override_those_of_the_step() -> None:
    own = StepOptions(wait_for_method_timeout=1, execute_method_timeout=2, priority=4)
    flow = ScriptedFlow(
        execute=lambda context: go_to(ScriptedStep, None, options=StepOptions(execute_method_timeout=3)), options=own
    )
    decision = run(flow, "Scripted").decision
    assert decision is not None
    assert decision.movements[0].options == frames.StepOptions(
        wait_for_timeout_ms=1_000, execute_timeout_ms=3_000, priority=4
    )


def test_dec_4_conditional_completion_names_its_channels_and_its_fallback() -> None:
    orders, returns = Channel("orders", int), Channel("returns", int)

    def execute(context: Context) -> StepDecision:
        return force_complete_if_channels_empty("done", StepMovement.of(CountStep, 1), orders, returns)

    decision = run(ScriptedFlow(orders, returns, execute=execute), "Scripted").decision
    assert decision == frames.Decision(
        frames.DECISION_FORCE_COMPLETE_IF_CHANNELS_EMPTY,
        (frames.Movement("CountStep", b"1", has_wait_for=False),),
        b'"done"',
        channels=("orders", "returns"),
    )


@pytest.mark.parametrize(
    ("channels", "text"),
    [
        ((), "at least one Channel"),
        ((Channel("c", int), Channel("c", int)), "names a Channel twice"),
        ((ChannelMap("c", int),), "takes Channels, not ChannelMap"),
    ],
)
def test_dec_4_needs_channels_each_once_and_no_map(channels: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        force_complete_if_channels_empty(None, StepMovement.of(CountStep, 1), *channels)
    wrong: Any = dead_end()
    with pytest.raises(FlowDefinitionError, match="is StepDecision"):
        force_complete_if_channels_empty(None, wrong, Channel("c", int))


def test_dec_9_canceled_steps_add_up_and_flow_wide_wins_per_type() -> None:
    """[DEC-9] Any decision may carry them; the decision it was made from is as it was."""
    plain = dead_end()
    decision = plain.with_canceling_sibling_steps(CountStep, ScriptedStep).with_canceling_steps(CountStep)
    assert decided(lambda context: decision) == frames.Decision(
        frames.DECISION_DEAD_END, canceling=frames.Canceling(("CountStep",), ("Scripted",))
    )
    assert decided(lambda context: plain) == frames.Decision(frames.DECISION_DEAD_END)
    twice = go_to(CountStep, 1).with_canceling_steps(ScriptedStep).with_canceling_steps(ScriptedStep, CountStep)
    assert decided(lambda context: twice).canceling == frames.Canceling(("Scripted", "CountStep"))


@pytest.mark.parametrize(
    ("decide", "kind"),
    [
        (graceful_complete, frames.DECISION_GRACEFUL_COMPLETE),
        (force_complete, frames.DECISION_FORCE_COMPLETE),
        (StepDecision.graceful_complete, frames.DECISION_GRACEFUL_COMPLETE),
        (StepDecision.force_complete, frames.DECISION_FORCE_COMPLETE),
    ],
)
def test_dec_7_no_output_and_none_add_no_completion(decide: Callable[..., StepDecision], kind: int) -> None:
    assert decided(lambda context: decide({"b": 1, "a": 2})) == frames.Decision(kind, output=b'{"a":2,"b":1}')
    assert decided(lambda context: decide()) == frames.Decision(kind)
    assert decided(lambda context: decide(None)) == frames.Decision(kind)
    assert decided(lambda context: decide(0)).output == b"0"


def test_dec_6_force_fail_takes_a_str_and_dead_end_nothing() -> None:
    assert decided(lambda context: force_fail("no \ud800 stock")) == frames.Decision(
        frames.DECISION_FORCE_FAIL, reason="no \ufffd stock"
    )
    assert decided(lambda context: dead_end()) == frames.Decision(frames.DECISION_DEAD_END)
    with pytest.raises(ValueError, match="needs a str as reason, not int"):
        force_fail(5)  # type: ignore[arg-type] # the case


class CaughtError(Exception):
    """Says that the fault was raised where it was written, inside the handler."""


def raising(make: Callable[[], Any], error: type[Exception], text: str) -> Body:
    def execute(context: Context) -> StepDecision:
        with pytest.raises(error, match=text):
            make()
        raise CaughtError

    return execute


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: go_to(UNTYPED, "5"), FlowDefinitionError, r"Step 'CountStep', input: \$: expected int, got str"),
        (lambda: StepMovement.of(UNTYPED), FlowDefinitionError, "expected int, got NoneType"),
        (lambda: go_to(CountStep, 2**63), ValueMappingError, "Flow 'ScriptedFlow', Step 'CountStep', input"),
        (lambda: go_to(CountStep(), 5), FlowDefinitionError, "this instance of CountStep is no registered Step"),
        (lambda: go_to(UNKNOWN, 5), FlowDefinitionError, "0 Steps of class int"),
        (
            lambda: go_to(CountStep, 5, options=StepOptions().on_execute_failure_proceed_to(ScriptedStep)),
            FlowDefinitionError,
            "recovery Step 'Scripted' takes None, Step 'CountStep' takes int",
        ),
        (
            lambda: graceful_complete({"a": [math.nan]}),
            ValueMappingError,
            r"Flow 'ScriptedFlow', Step 'Scripted', execute, output: \$.a\[0\]",
        ),
        (lambda: force_complete(object()), ValueMappingError, "no value type"),
        (lambda: dead_end().with_canceling_steps(UNKNOWN), FlowDefinitionError, "0 Steps of class int"),
        (lambda: dead_end().with_canceling_sibling_steps(CountStep()), FlowDefinitionError, "no registered Step"),
        (
            lambda: force_complete_if_channels_empty(1, StepMovement.of(CountStep, 1), Channel("x", int)),
            FlowDefinitionError,
            "Channel 'x' is not in its persistence schema",
        ),
    ],
)
def test_dec_8_wrong_steps_and_values_are_refused_where_they_are_written(
    make: Callable[[], Any], error: type[Exception], text: str
) -> None:
    failure = run_to_failure(ScriptedFlow(execute=raising(make, error, text)), "Scripted")
    assert failure.error_type == "CaughtError", failure.stack


def test_dec_8_a_movement_made_outside_a_handler_is_refused_with_its_result() -> None:
    movement = StepMovement.of(UNTYPED, "5")
    assert run_to_failure(ScriptedFlow(execute=lambda context: go_to_many(movement)), "Scripted").error_type == (
        "FlowDefinitionError"
    )


def test_val_5_an_input_is_taken_when_it_is_given() -> None:
    items = {"n": 1}
    status = Attribute("status", dict[str, int])

    def execute(context: Context) -> StepDecision:
        status.set(context, items)
        decision = graceful_complete(items)
        items["n"] = 2
        return decision

    output = run(ScriptedFlow(status, execute=execute), "Scripted")
    assert output.decision is not None
    assert output.decision.output == b'{"n":1}'
    assert output.writes == (("status", b'{"n":1}'),)
