"""The time that a whole Flow has [TIME-1..4]."""

from typing import Any

import pytest

from dexd.core.config import KernelConfig
from dexd.core.effects import AssignCall, CancelCall
from dexd.core.events import FlowClosed, FlowRetried, FlowStarted, StepScheduled, TimerSkipped
from dexd.core.ids import TIMEOUT_HANDLER, TIMEOUT_HANDLER_ID
from dexd.core.outcome import SkipTimerResult
from dexd.core.rejections import Code
from dexd.core.terms import FlowTimeoutPolicy
from dexd.core.values import (
    DecisionKind,
    FlowErrorType,
    FlowStatus,
    Method,
    Resolution,
    SkipOutcome,
    StepOptions,
    TimerId,
)
from tests.support.builders import (
    SECOND,
    T0,
    assigned,
    canceled,
    complete,
    connect,
    execute_failed,
    executed,
    fail,
    fired,
    force,
    go_to,
    graceful,
    no_retry,
    pending,
    plan,
    record,
    recovery,
    retry,
    scheduled,
    sent,
    serves,
    skip_timer,
    start,
    started,
    stop,
    terms,
    token,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

MINUTE = 60 * SECOND
END = T0 + MINUTE
HANDLER = token(TIMEOUT_HANDLER_ID)
PATIENT = KernelConfig(dispatch_wait_ms=10 * MINUTE)
"""Steps that nobody takes do not fail meanwhile."""
WITH_HANDLER = serves(steps=f"A B Recover {TIMEOUT_HANDLER}")


def limited(policy: FlowTimeoutPolicy = FlowTimeoutPolicy.FAIL, **fields: Any) -> FlowStarted:
    limits = terms(timeout_ms=MINUTE, timeout_policy=policy, **fields)
    return started(terms=limits, timeout_at=END)


def handled(**fields: Any) -> Given:
    """The time is over and the handler runs, on stream 1; a Step is queued."""
    before = given(limited(FlowTimeoutPolicy.HANDLER, **fields))
    return before.ticked(END).after(*connect(1, "w1", WITH_HANDLER))


@pytest.mark.parametrize("policy", [FlowTimeoutPolicy.FAIL, FlowTimeoutPolicy.DEFAULT])
def test_time_2_fail_ends_the_flow_with_flow_timeout(policy: FlowTimeoutPolicy) -> None:
    """[TIME-1] Visible in history as the timer of `sys:timeout_handler-1`."""
    before = given(limited(policy), scheduled("A-1"), config=PATIENT).after(*connect(), now=END - 1)
    assert not before.when_time_passes(END - 1).events
    before.when_time_passes(END).then(
        events=[
            fired(TIMEOUT_HANDLER_ID),
            pending("A-1"),
            FlowClosed(FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT, "the Flow did not end within 60000 ms"),
        ],
        effects=[Like(CancelCall, reason="FLOW_CLOSED", grace_ms=30_000)],
    )


def test_time_2_cancel_ends_it_as_canceled_and_is_never_retried() -> None:
    limits = limited(FlowTimeoutPolicy.CANCEL, retry=retry(), step=plan("A"))
    given(limits, scheduled("A-1", wait_for=True), config=PATIENT).when_time_passes(END).then_events(
        fired(TIMEOUT_HANDLER_ID),
        canceled("A-1"),
        FlowClosed(FlowStatus.CANCELED, error_message="the Flow did not end within 60000 ms"),
    )


def test_time_1_counts_from_the_moment_the_start_step_is_eligible() -> None:
    delayed = terms(timeout_ms=MINUTE, start_delay_ms=10 * SECOND)
    given().when(start(step=plan("A"), terms=delayed)).then_events(
        started(terms=delayed, eligible_at=T0 + 10 * SECOND, timeout_at=END + 10 * SECOND), scheduled("A-1")
    )


def test_time_1_timer_is_no_active_step() -> None:
    """[DEC-2] A graceful completion does not wait for it, and leaves nothing armed [TIMER-10]."""
    before = given(limited(), scheduled("A-1")).after(*connect())
    before.when(complete(graceful())).then_events(
        executed("A-1", DecisionKind.GRACEFUL_COMPLETE), FlowClosed(FlowStatus.COMPLETED)
    )
    assert not before.when_time_passes(END).events


def test_time_1_flow_that_ends_before_leaves_no_timer() -> None:
    """[TIMER-10]"""
    given(limited()).after(stop()).when_time_passes(END).then(next_deadline=None)


THE_TIMER = TimerId("", 0)


def test_time_1_skipping_the_timer_ends_the_time_now() -> None:
    """[TIMER-8] By index 0; and once."""
    before = given(limited(FlowTimeoutPolicy.CANCEL))
    before.when(skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER)).then(
        events=[TimerSkipped(TIMEOUT_HANDLER_ID, 0, record(answer=b"APPLIED")), Like(FlowClosed)],
        reply=SkipTimerResult(SkipOutcome.APPLIED),
        next_deadline=None,
    )
    before.when(skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER)).then(reply=SkipTimerResult(SkipOutcome.APPLIED))
    before.when(skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER, request_id="r2")).then_rejected(Code.FLOW_NOT_ACTIVE)


def test_time_1_skipped_timer_calls_the_handler_and_has_fired() -> None:
    before = given(limited(FlowTimeoutPolicy.HANDLER))
    before.when(skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER)).then_events(Like(TimerSkipped), handler_scheduled())
    again = skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER, request_id="r2")
    before.when(again).then(reply=SkipTimerResult(SkipOutcome.ALREADY_FIRED))


def test_time_1_there_is_one_timer_and_only_with_a_timeout() -> None:
    for timer_id in (TimerId("", 1), TimerId("x")):
        given(limited()).when(skip_timer(TIMEOUT_HANDLER_ID, timer_id)).then_rejected(Code.TIMER_NOT_FOUND)
    for begun in (started(), started(terms=terms(start_delay_ms=1))):
        given(begun).when(skip_timer(TIMEOUT_HANDLER_ID, THE_TIMER)).then_rejected(Code.TIMER_NOT_FOUND)


def test_time_4_crash_keeps_the_absolute_deadline() -> None:
    before = given(limited(), scheduled("A-1", wait_for=True)).restarted(T0 + 55 * SECOND)
    assert not before.when_time_passes(END - 1).events
    assert before.when_time_passes(END).events[0] == fired(TIMEOUT_HANDLER_ID)


def test_time_4_overdue_after_a_restart_fires_at_once() -> None:
    given(limited()).restarted(END + 1).when_time_passes(END + 1).then_events(
        fired(TIMEOUT_HANDLER_ID), Like(FlowClosed, error_type=FlowErrorType.FLOW_TIMEOUT)
    )


def test_time_3_handler_is_called_like_the_execute_of_a_step_of_its_own() -> None:
    options = no_retry()
    before = given(limited(FlowTimeoutPolicy.HANDLER, timeout_handler_options=options), scheduled("A-1"))
    before.after(*connect(1, "w1", WITH_HANDLER, streams=2), now=END - 1)
    before.when_time_passes(END).then(
        events=[fired(TIMEOUT_HANDLER_ID), handler_scheduled(options), sent(TIMEOUT_HANDLER_ID, method=Method.EXECUTE)],
        effects=[assigned(HANDLER, number=2, name=TIMEOUT_HANDLER, input=b"", from_step="")],
    )


def handler_scheduled(options: StepOptions | None = None) -> Like:
    return Like(
        StepScheduled, step_execution_id=TIMEOUT_HANDLER_ID, step_type=TIMEOUT_HANDLER, input=b"", options=options
    )


def test_time_3_any_decision_is_legal() -> None:
    """[ID-12] Steps that it schedules come from `sys:timeout_handler-1`."""
    handled().when(complete(go_to(plan("B")), HANDLER)).then_events(
        executed(TIMEOUT_HANDLER_ID, DecisionKind.GO_TO), scheduled("B-1", from_step=TIMEOUT_HANDLER_ID), sent("B-1")
    )
    handled().when(complete(force(b"late"), HANDLER)).then_events(
        executed(TIMEOUT_HANDLER_ID, DecisionKind.FORCE_COMPLETE, output=b"late"), FlowClosed(FlowStatus.COMPLETED)
    )


def test_time_3_time_is_over_once() -> None:
    """After the handler decided, nothing more comes of the timeout."""
    before = handled().after(complete(go_to(plan("B")), HANDLER))
    assert not [event for event in before.when_time_passes(END + 10 * SECOND).events if event == fired(HANDLER.call)]
    assert before.run().timeout_at == 0


def test_time_3_without_recovery_step_exhausted_retries_fail_the_flow() -> None:
    handled(timeout_handler_options=no_retry()).when(fail(delivered=HANDLER)).then_events(
        execute_failed(TIMEOUT_HANDLER_ID, Resolution.FAIL_FLOW),
        Like(FlowClosed, status=FlowStatus.FAILED, error_type=FlowErrorType.WORKER_API_FAILED),
    )


def test_time_3_recovery_step_has_no_input() -> None:
    before = handled(timeout_handler_options=no_retry(recovery=recovery()))
    then = before.when(fail(delivered=HANDLER))
    assert [type(event).__name__ for event in then.events] == ["ExecuteFailed", "StepScheduled", "StepDispatched"]
    step = before.step("Recover-1")
    assert (step.input, step.from_step) == (b"", TIMEOUT_HANDLER_ID)
    assert step.recovery_error is not None


def test_time_3_handler_runs_once_logically_whatever_happens_to_its_worker() -> None:
    """[LOST-1] A delivery that is lost is repeated, and a restart knows that the time is over."""
    before = handled().restarted(END + SECOND)
    assert list(before.run().steps) == [TIMEOUT_HANDLER_ID]
    then = before.when_time_passes(END + 7 * SECOND)
    assert [type(event).__name__ for event in then.events] == ["StepDeliveryLost"]


def test_time_3_handler_that_waits_for_a_worker_goes_with_the_flow() -> None:
    before = given(limited(FlowTimeoutPolicy.HANDLER)).ticked(END)
    before.when(stop()).then_events(canceled(TIMEOUT_HANDLER_ID), Like(FlowClosed, status=FlowStatus.CANCELED))


def test_time_4_flow_retry_gives_a_full_new_budget() -> None:
    """[TIME-2, START-8]"""
    limits = limited(FlowTimeoutPolicy.FAIL, retry=retry(initial_interval_ms=5 * SECOND), step=plan("A"))
    before = given(limits, scheduled("A-1", wait_for=True))
    then = before.when_time_passes(END)
    assert Like(FlowRetried, attempt=2) in then.events
    (again,) = [event for event in then.events if isinstance(event, FlowStarted)]
    assert (again.eligible_at, again.timeout_at) == (END + 5 * SECOND, END + 5 * SECOND + MINUTE)


def test_handler_needs_a_worker_that_announces_it() -> None:
    """[TIME-3, ROUTE-5]"""
    before = given(limited(FlowTimeoutPolicy.HANDLER)).ticked(END).after(*connect())
    assert not [effect for effect in before.when_time_passes(END + SECOND).effects if isinstance(effect, AssignCall)]
