"""Children of a Wait on their way in, and their results on their way out [SUB-5, SUB-7, DEC-8]."""

from typing import Any

import msgspec
import pytest

from dexd.codec.outbound import EffectEncoder, SessionTerms
from dexd.codec.start_options import sub_flow_of_frame
from dexd.codec.wire import receive
from dexd.core import commands as c
from dexd.core import effects as f
from dexd.core.ids import CallId, FlowId, RunId, SessionId, StreamNumber
from dexd.core.sub_flows import SubFlowPlan, SubFlowReusePolicy
from dexd.core.terms import ActiveStepSearchMode, FlowConfig, FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import (
    Completion,
    ConditionKind,
    ConditionResult,
    FlowErrorType,
    FlowStatus,
    Method,
    RetryPolicy,
    StepDurability,
    StepOptions,
    StepPlan,
    SubFlowResult,
    Token,
)
from dexpb.v1 import frames

SESSION = SessionId(1)
MOVEMENT = frames.Movement("C", b"7", True)
PLAN = StepPlan("C", b"7", True)
WAITED = frames.Token("r", "A-1", frames.METHOD_WAIT_FOR, 1, 1)


def frame(**fields: Any) -> frames.SubFlow:
    return frames.SubFlow("Child", MOVEMENT, **fields)


def test_plain_child_has_no_terms() -> None:
    assert sub_flow_of_frame(frame()) == SubFlowPlan("Child", PLAN)


def test_every_option_arrives() -> None:
    """[SUB-7]"""
    attributes = (("a", b"1"),)
    full = frame(
        attributes=attributes,
        timeout_ms=5,
        timeout_policy=3,
        timeout_handler_options=frames.StepOptions(execute_timeout_ms=7),
        start_delay_ms=9,
        retry=frames.RetryPolicy(maximum_attempts=2),
        config=frames.FlowConfig(0, 1, 1, True),
        reuse_policy=frames.REUSE_ALWAYS_RESTART,
    )
    terms = FlowTerms(
        5,
        FlowTimeoutPolicy.HANDLER,
        StepOptions(execute_timeout_ms=7),
        9,
        FlowRetry(RetryPolicy(maximum_attempts=2), PLAN, attributes),
        FlowConfig(ActiveStepSearchMode.ALL, 1, StepDurability.ASYNC, True),
    )
    assert sub_flow_of_frame(full) == SubFlowPlan("Child", PLAN, attributes, terms, SubFlowReusePolicy.ALWAYS_RESTART)


@pytest.mark.parametrize(
    "broken",
    [
        frames.SubFlow("sys:x", MOVEMENT),
        frames.SubFlow("Child", frames.Movement("", b"", False)),
        frame(attributes=(("", b""),)),
        frame(attributes=(("a", b"1"), ("a", b"2"))),
        frame(timeout_ms=-1),
        frame(timeout_policy=1),
        frame(reuse_policy=3),
        frame(retry=frames.RetryPolicy(total_duration_ms=1)),
        frame(config=frames.FlowConfig(step_durability=2)),
    ],
)
def test_dec_8_child_without_meaning_fails_its_attempt_alone(broken: frames.SubFlow) -> None:
    """[DELIV-5, GEN-2]"""
    wait = frames.Wait(frames.WAIT_ALL_OF, (frames.Condition(frames.CONDITION_SUB_FLOW),), sub_flows=(broken,))
    (command,) = receive([frames.Output(1, WAITED, wait)], 0, SESSION).commands
    assert isinstance(command, c.FailCall)
    assert command.failure.error_type == "MalformedOutput"


def test_children_travel_beside_the_wait() -> None:
    wait = frames.Wait(frames.WAIT_ALL_OF, (frames.Condition(frames.CONDITION_SUB_FLOW, "x"),), sub_flows=(frame(),))
    (command,) = receive([frames.Output(1, WAITED, wait)], 0, SESSION).commands
    assert isinstance(command, c.CompleteCall)
    assert command.sub_flows == (SubFlowPlan("Child", PLAN),)
    assert command.response.wait is not None
    (condition,) = command.response.wait.conditions
    assert (condition.kind, condition.condition_id) == (ConditionKind.SUB_FLOW, "x")


def test_sub_5_results_show_status_error_and_outputs() -> None:
    ended = SubFlowResult(
        FlowId("child"), FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT, "late", (Completion("C", "C-1", b"1"),)
    )
    results = (
        ConditionResult(ConditionKind.SUB_FLOW, "x", True, sub_flow=ended),
        ConditionResult(ConditionKind.SUB_FLOW, "y", False, sub_flow=SubFlowResult(FlowId("other"))),
        ConditionResult(ConditionKind.TIMER, "t", False),
    )
    token = Token(RunId("r"), CallId("A-1"), Method.EXECUTE, 1, 1)
    call = f.CallSnapshot(token, FlowId("f"), "Order", "A", b"1", 1, 0, 0, 0, "", {}, {}, results)
    encoder = EffectEncoder(SessionTerms("s", 1, 1, 1), 1, lambda _: "INTERNAL")
    (block,) = encoder.encode([f.AssignCall(SESSION, StreamNumber(1), call)]).blocks
    assign = msgspec.msgpack.decode(block.data, type=frames.Assign)
    assert [result.sub_flow for result in assign.results] == [
        frames.SubFlowResult("child", "FAILED", "FLOW_TIMEOUT", "late", (("C", "C-1", b"1"),)),
        frames.SubFlowResult("other", "RUNNING"),
        None,
    ]
