"""What the SDK let through and the server finds invalid fails the Flow, and nothing of it is applied [DEC-8]."""

import msgspec
import pytest

from dexd.core.config import (
    ACTIVE_STEPS_MAX,
    COMBINATIONS_MAX,
    CONDITIONS_MAX,
    DURATION_MS_MAX,
    MOVEMENTS_MAX,
    PUBLICATIONS_MAX,
    RECORDED_EVENTS_MAX,
    STEP_LOCALS_BYTES_MAX,
    KernelConfig,
)
from dexd.core.events import ExecuteCompleted, ExecuteFailed, FlowClosed, WaitForFailed
from dexd.core.values import (
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    FlowErrorType,
    FlowStatus,
    Method,
    Resolution,
    Response,
    Wait,
    WaitKind,
)
from tests.support.builders import (
    DEAD_END,
    SKIP,
    acknowledged,
    all_of,
    any_combination,
    channel,
    complete,
    connect,
    decides,
    force,
    go_to,
    plan,
    scheduled,
    started,
    timer,
    token,
    waits,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

WRITES = (("a", b"1"),)


def running(*, wait_for: bool) -> Given:
    return given(started(), scheduled("A-1", wait_for=wait_for)).after(*connect())


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (Response(), "execute returned no decision"),
        (Response(wait=all_of(channel())), "execute returned no decision"),
        (decides(go_to()), f"0 movements, allowed are 1 to {MOVEMENTS_MAX}"),
        (decides(go_to(*[plan()] * (MOVEMENTS_MAX + 1))), f"{MOVEMENTS_MAX + 1} movements"),
        (decides(Decision(DecisionKind.FORCE_COMPLETE, (plan(),))), "a closing decision cannot carry next Steps"),
        (decides(Decision(DecisionKind.DEAD_END, (plan(),))), "a closing decision cannot carry next Steps"),
        (
            decides(DEAD_END, publications=(("c", b""),) * (PUBLICATIONS_MAX + 1)),
            f"{PUBLICATIONS_MAX + 1} publications",
        ),
        (decides(DEAD_END, recorded=(("n", b""),) * (RECORDED_EVENTS_MAX + 1)), f"{RECORDED_EVENTS_MAX + 1} recorded"),
    ],
)
def test_dec_8_invalid_result_of_execute_fails_the_flow(response: Response, problem: str) -> None:
    """[FLOW-9] INVALID_USER_FLOW_CODE; history shows the attempt with what is wrong with it."""
    before = running(wait_for=False)
    given_result = msgspec.structs.replace(response, writes=WRITES)
    before.when(complete(given_result, token("A-1"))).then_events(
        Like(
            ExecuteFailed,
            resolution=Resolution.FAIL_FLOW,
            attempt=1,
            failure=Like(Failure, error_type="INVALID_RESULT"),
        ),
        Like(FlowClosed, status=FlowStatus.FAILED, error_type=FlowErrorType.INVALID_USER_FLOW_CODE),
    )
    assert problem in before.run().error_message
    assert "A-1 execute" in before.run().error_message
    assert before.run().attributes == {}


LONG = DURATION_MS_MAX + 1


@pytest.mark.parametrize(
    ("wait", "problem"),
    [
        (None, "wait_for returned no Wait"),
        (Wait(WaitKind.SKIP, (channel(),)), "a skipped Wait has no conditions"),
        (all_of(), f"0 conditions, allowed are 1 to {CONDITIONS_MAX}"),
        (all_of(*[channel()] * (CONDITIONS_MAX + 1)), f"{CONDITIONS_MAX + 1} conditions"),
        (any_combination((channel(id="x"),)), f"0 combinations, allowed are 1 to {COMBINATIONS_MAX}"),
        (any_combination((channel(id="x"),), *[(0,)] * (COMBINATIONS_MAX + 1)), f"{COMBINATIONS_MAX + 1} combinations"),
        (any_combination((channel(id="x"),), ()), "a combination is empty"),
        (any_combination((channel(id="x"),), (1,)), "names a condition that does not exist"),
        (any_combination((channel(id="x"),), (0, 0)), "a combination names one condition twice"),
        (any_combination((channel(),), (0,)), "condition IDs are required and unique"),
        (any_combination((channel(id="x"), timer(5, id="x")), (0, 1)), "condition IDs are required and unique"),
        (all_of(timer()), "a Timer has either a duration or an instant"),
        (all_of(timer(5, at=5)), "a Timer has either a duration or an instant"),
        (all_of(timer(-1)), "Timer duration -1 ms"),
        (all_of(timer(LONG)), f"Timer duration {LONG} ms"),
        (all_of(channel("")), "a Channel condition names no Channel"),
        (all_of(Condition(ConditionKind.CHANNEL, "", 5, channel="c")), "a Channel condition has a duration or instant"),
        (all_of(channel("c", -1)), "Channel bounds at_least -1"),
        (all_of(channel("c", 2, 1)), "Channel bounds at_least 2, at_most 1"),
    ],
)
def test_dec_8_invalid_wait_fails_the_flow(wait: Wait | None, problem: str) -> None:
    """[WAIT-2, WAIT-3, WAIT-12, CHAN-5, TIMER-2]"""
    before = running(wait_for=True)
    before.when(complete(Response(wait, writes=WRITES), token("A-1", method=Method.WAIT_FOR))).then_events(
        Like(WaitForFailed, resolution=Resolution.FAIL_FLOW, attempt=1), Like(FlowClosed, status=FlowStatus.FAILED)
    )
    assert problem in before.run().error_message
    assert "A-1 wait_for" in before.run().error_message
    assert before.run().error_type is FlowErrorType.INVALID_USER_FLOW_CODE
    assert before.run().attributes == {}


def test_step_5_locals_are_bounded() -> None:
    before = running(wait_for=True)
    big = (("l", b"x" * STEP_LOCALS_BYTES_MAX), ("m", b"y"))
    before.after(complete(waits(SKIP, locals=big)))
    assert f"{STEP_LOCALS_BYTES_MAX + 1} bytes of Step locals" in before.run().error_message
    before = running(wait_for=True).after(complete(waits(SKIP, locals=big[:1])))
    assert before.run().is_open


def test_wait_12_largest_wait_is_legal() -> None:
    conditions = tuple(channel("c", id=str(number)) for number in range(CONDITIONS_MAX))
    groups = tuple((number,) for number in range(COMBINATIONS_MAX))
    before = running(wait_for=True).after(complete(any_combination(conditions, *groups)))
    assert before.run().is_open


def test_repeat_of_an_invalid_result_is_acknowledged_again() -> None:
    """[WIRE-10] The first acknowledgement may have been lost."""
    before = running(wait_for=False).after(complete(Response(), token("A-1")))
    before.when(complete(Response(), token("A-1"))).then(effects=[acknowledged()])


def test_lim_2_active_steps_do_not_count_the_deciding_one() -> None:
    """With the largest legal number active, each may still be followed by one."""
    others = (scheduled(f"B-{number}") for number in range(1, ACTIVE_STEPS_MAX))
    before = given(started(), scheduled("A-1"), *others, config=KernelConfig(rollover_events=0))
    kernel = before.kernel
    for command in connect():
        kernel.handle(command, now=before.now)
    # Invariants over 50,000 Steps after each command would take the time of all other tests.
    outcome = kernel.handle(complete(go_to(plan("A"))), now=before.now)
    assert any(isinstance(recorded.event, ExecuteCompleted) for recorded in outcome.events)
    outcome = kernel.handle(complete(go_to(plan("A"), plan("A")), token("B-1")), now=before.now)
    assert f"{ACTIVE_STEPS_MAX + 1} active Steps, the limit is {ACTIVE_STEPS_MAX}" in before.run().error_message


def test_force_complete_is_a_valid_decision() -> None:
    before = running(wait_for=False).after(complete(force()))
    assert before.run().status is FlowStatus.COMPLETED
