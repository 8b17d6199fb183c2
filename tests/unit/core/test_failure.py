"""What follows a failed, timed-out or lost attempt [OPT-2..6, RETRY-1..7, LOST-1..3, CTX-3, DELIV-1]."""

import pytest

from dexd.core.effects import AcknowledgeResult
from dexd.core.events import ExecuteFailed, FlowClosed, MethodPending, StepDeliveryLost, StepScheduled, WaitForFailed
from dexd.core.values import (
    Failure,
    FlowErrorType,
    FlowStatus,
    Method,
    RecoveryError,
    Resolution,
    StepOptions,
    WaitForFailurePolicy,
)
from tests.support.builders import (
    DEAD_END,
    PROCEED,
    RUN,
    SKIP,
    T0,
    accept,
    acknowledged,
    assigned,
    cancel,
    closed,
    complete,
    connect,
    decline,
    dispatched,
    execute_failed,
    executed,
    fail,
    failure,
    force,
    go_to,
    lose,
    lost,
    no_retry,
    options,
    pending,
    plan,
    recovery,
    refused,
    retry,
    scheduled,
    sent,
    serves,
    stale,
    started,
    token,
    wait_for_failed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

WAIT_FOR = token("A-1", method=Method.WAIT_FOR)
RECOVERED = RecoveryError("Boom", "it broke")


def running(chosen: StepOptions | None = None, *, wait_for: bool = False, streams: int = 1) -> Given:
    """A-1's first attempt runs on w1."""
    return given(started(), scheduled("A-1", wait_for=wait_for, options=chosen)).after(*connect(streams=streams))


# ---- retry ------------------------------------------------------------------------------------------------------


def test_retry_1_failed_attempt_is_repeated_after_the_delay() -> None:
    before = running()
    before.when(fail()).then(
        events=[execute_failed("A-1", retry_at=T0 + 1_000)], effects=[acknowledged()], next_deadline=T0 + 1_000
    )
    before.when_time_passes(T0 + 999).then()
    before.when_time_passes(T0 + 1_000).then(
        events=[sent("A-1", attempt=2, delivery=1)], effects=[assigned(token("A-1", 2))], next_deadline=T0 + 6_000
    )


def test_retry_1_delays_double_and_the_policy_is_kept_with_the_step() -> None:
    """[STEP-8]"""
    before = running()
    for attempt, delay in ((1, 1_000), (2, 2_000), (3, 4_000)):
        before.when(fail(delivered=token("A-1", attempt))).then_events(
            execute_failed("A-1", attempt=attempt, retry_at=before.now + delay)
        )
        before.ticked(before.now + delay)


def test_retry_1_maximum_attempts_includes_the_first() -> None:
    before = running(options(execute_retry=retry(maximum_attempts=2)))
    before.after(fail()).ticked(T0 + 1_000)
    before.when(fail(delivered=token("A-1", 2))).then_events(
        execute_failed("A-1", Resolution.FAIL_FLOW, 2), Like(FlowClosed, error_type=FlowErrorType.WORKER_API_FAILED)
    )


def test_retry_4_total_duration_counts_from_the_first_hand_over() -> None:
    chosen = options(execute_retry=retry(total_duration_ms=2_500))
    before = given(started(), scheduled("A-1", options=chosen)).after(*connect(), now=T0 + 500)
    before.when(fail()).then_events(execute_failed("A-1", retry_at=T0 + 1_500))
    before.ticked(T0 + 1_500)
    before.when(fail(delivered=token("A-1", 2))).then_events(
        execute_failed("A-1", Resolution.FAIL_FLOW, 2), Like(FlowClosed)
    )


def test_retry_4_attempt_that_starts_exactly_at_the_end_is_inside() -> None:
    before = running(options(execute_retry=retry(total_duration_ms=1_000)))
    before.when(fail()).then_events(execute_failed("A-1", retry_at=T0 + 1_000))


@pytest.mark.parametrize(
    "error",
    [failure(non_retryable=True), failure(error_classes=("app.Fatal", "ValueError"))],
)
def test_retry_5_non_retryable_and_listed_errors_exhaust_at_once(error: Failure) -> None:
    before = running(options(non_retryable_errors=("ValueError",)))
    before.when(fail(error)).then_events(Like(ExecuteFailed, resolution=Resolution.FAIL_FLOW), Like(FlowClosed))


def test_retry_5_other_errors_do_not() -> None:
    running(options(non_retryable_errors=("KeyError",))).when(fail(failure(error_classes=("ValueError",)))).then_events(
        Like(ExecuteFailed, resolution=Resolution.RETRY)
    )


def test_retry_6_retry_after_sets_the_delay_beyond_the_cap() -> None:
    before = running(options(execute_retry=retry(maximum_interval_ms=2_000)))
    error = failure(retry_after_ms=86_400_000)
    before.when(fail(error)).then_events(execute_failed("A-1", retry_at=T0 + 86_400_000, error=error))


def test_retry_6_retry_after_extends_neither_attempts_nor_total_duration() -> None:
    error = failure(retry_after_ms=5_000)
    for policy in (retry(maximum_attempts=1), retry(total_duration_ms=4_000)):
        running(options(execute_retry=policy)).when(fail(error)).then_events(
            execute_failed("A-1", Resolution.FAIL_FLOW, error=error), Like(FlowClosed)
        )


def test_retry_7_backoff_survives_a_restart_and_neither_repeats_nor_skips_an_attempt() -> None:
    """Acceptance example 29."""
    chosen = options(execute_retry=retry(maximum_attempts=3))
    before = running(chosen).after(fail()).restarted(T0 + 500).after(*connect(), now=T0 + 600)
    before.when_time_passes(T0 + 1_000).then_events(sent("A-1", attempt=2))
    before = before.after(fail(delivered=token("A-1", 2))).restarted(T0 + 1_500).after(*connect())
    before.when_time_passes(T0 + 3_000).then_events(sent("A-1", attempt=3))
    before.when(fail(delivered=token("A-1", 3))).then_events(
        execute_failed("A-1", Resolution.FAIL_FLOW, 3), Like(FlowClosed)
    )


def test_retry_7_backoff_that_ended_while_the_server_was_away_is_over() -> None:
    before = running().after(fail()).restarted(T0 + 60_000)
    before.when(*connect()).then_events(sent("A-1", attempt=2, waited_ms=0))


def test_opt_6_last_failure_is_visible_while_retrying() -> None:
    before = running().after(fail(failure("Boom", "why", stack="s")))
    assert before.step().failure == failure("Boom", "why", stack="s")


def test_ctx_3_first_attempt_at_is_stable_over_retries_and_new_for_execute() -> None:
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect(), now=T0 + 5)
    before.after(fail(delivered=WAIT_FOR)).ticked(T0 + 1_005)
    assert before.step().first_attempt_at == T0 + 5
    before.when(complete(SKIP, token("A-1", 2, method=Method.WAIT_FOR))).then_effects(
        Like(AcknowledgeResult), assigned(token("A-1"), first_attempt_at=T0 + 1_005)
    )


# ---- exhaustion -------------------------------------------------------------------------------------------------


def test_flow_9_exhausted_execute_fails_the_flow_naming_step_attempt_and_error() -> None:
    """[OPT-4] without a recovery Step."""
    before = running(no_retry())
    message = "A-1 execute failed at attempt 1: Boom: it broke"
    before.when(fail()).then(
        events=[
            execute_failed("A-1", Resolution.FAIL_FLOW),
            closed(FlowStatus.FAILED, FlowErrorType.WORKER_API_FAILED, message),
        ],
        effects=[acknowledged()],
    )


def test_opt_3_exhausted_wait_for_fails_the_flow_by_default() -> None:
    message = "A-1 wait_for failed at attempt 1: Boom: it broke"
    running(no_retry(), wait_for=True).when(fail(delivered=WAIT_FOR)).then_events(
        wait_for_failed("A-1", Resolution.FAIL_FLOW),
        closed(FlowStatus.FAILED, FlowErrorType.WORKER_API_FAILED, message),
    )


def test_opt_3_proceed_calls_execute_with_the_same_input_and_the_error() -> None:
    """Acceptance example 7."""
    before = running(no_retry(wait_for_failure=PROCEED), wait_for=True)
    before.when(fail(delivered=WAIT_FOR)).then(
        events=[wait_for_failed("A-1", Resolution.PROCEED), sent("A-1", method=Method.EXECUTE, attempt=1, delivery=1)],
        effects=[
            acknowledged(WAIT_FOR),
            assigned(token("A-1"), input=b"1", wait_for_failed=True, recovery_error=RECOVERED, results=()),
        ],
    )


def test_opt_3_wait_for_is_retried_by_its_own_policy_first() -> None:
    chosen = options(wait_for_retry=retry(maximum_attempts=2), wait_for_failure=WaitForFailurePolicy.PROCEED)
    before = running(chosen, wait_for=True)
    before.when(fail(delivered=WAIT_FOR)).then_events(wait_for_failed("A-1", retry_at=T0 + 1_000))
    before.when_time_passes(T0 + 1_000).then_events(sent("A-1", method=Method.WAIT_FOR, attempt=2))


def test_opt_4_recovery_step_gets_the_same_input_and_the_error_in_both_methods() -> None:
    """Acceptance example 8."""
    nested = options(execute_retry=retry(maximum_attempts=7))
    before = running(no_retry(recovery=recovery(wait_for=True, options=nested)))
    method = token("Recover-1", method=Method.WAIT_FOR)
    before.when(fail()).then(
        events=[
            execute_failed("A-1", Resolution.RECOVER),
            scheduled("Recover-1", from_step="A-1", wait_for=True, options=nested, recovery_error=RECOVERED),
            sent("Recover-1", method=Method.WAIT_FOR),
        ],
        effects=[acknowledged(), assigned(method, input=b"1", recovery_error=RECOVERED, from_step="A-1")],
    )
    before.when(complete(SKIP, method)).then_effects(
        acknowledged(method), assigned(token("Recover-1"), recovery_error=RECOVERED, wait_for_failed=False)
    )


def test_opt_5_execute_of_a_recovery_step_sees_the_newer_error_and_its_successor_none() -> None:
    chosen = no_retry(recovery=recovery(wait_for=True, options=no_retry(wait_for_failure=PROCEED)))
    before = running(chosen).after(fail())
    newer = failure("Newer", "again")
    method = token("Recover-1", method=Method.WAIT_FOR)
    before.when(fail(newer, method)).then_effects(
        acknowledged(method),
        assigned(token("Recover-1"), recovery_error=RecoveryError("Newer", "again"), wait_for_failed=True),
    )
    done = token("Recover-1")
    before.when(complete(go_to(plan("B")), done)).then_effects(
        acknowledged(done), assigned(token("B-1"), recovery_error=None)
    )


def test_opt_4_exhausted_step_ends_alone_and_the_flow_goes_on() -> None:
    before = running(no_retry(recovery=recovery())).after(fail())
    assert list(before.run().steps) == ["Recover-1"]
    assert before.run().is_open


def test_failed_step_of_one_branch_closes_the_others() -> None:
    """[FLOW-8]"""
    before = given(started(), scheduled("A-1", options=no_retry()), scheduled("B-1")).after(*connect(streams=2))
    before.when(fail()).then(
        events=[execute_failed("A-1", Resolution.FAIL_FLOW), pending("B-1"), Like(FlowClosed)],
        effects=[acknowledged(), cancel("FLOW_CLOSED", token("B-1"), number=2, grace_ms=30_000)],
    )


# ---- timeouts ---------------------------------------------------------------------------------------------------


def accepted(chosen: StepOptions | None = None, *, wait_for: bool = False) -> Given:
    before = running(chosen, wait_for=wait_for)
    return before.after(accept(WAIT_FOR if wait_for else token("A-1")))


@pytest.mark.parametrize("wait_for", [False, True])
def test_opt_2_attempt_beyond_its_timeout_fails_is_canceled_and_retried(wait_for: bool) -> None:
    before = accepted(options(execute_timeout_ms=3_000, wait_for_timeout_ms=3_000), wait_for=wait_for)
    kind = WaitForFailed if wait_for else ExecuteFailed
    delivered = WAIT_FOR if wait_for else token("A-1")
    before.when_time_passes(T0 + 2_999).then()
    before.when_time_passes(T0 + 3_000).then(
        events=[
            Like(
                kind,
                attempt=1,
                resolution=Resolution.RETRY,
                retry_at=T0 + 4_000,
                is_reported=False,
                failure=failure("METHOD_TIMEOUT", "A-1 ran longer than 3000 ms on w1"),
            )
        ],
        effects=[cancel("TIMEOUT", delivered)],
    )


def test_opt_2_late_result_of_a_timed_out_attempt_is_refused() -> None:
    """[LOST-3] Its stream is free with that."""
    before = accepted(options(execute_timeout_ms=3_000)).ticked(T0 + 3_000)
    before.when(complete(force())).then(events=[stale("A-1")], effects=[refused("STALE")])
    before.when_time_passes(T0 + 4_000).then_effects(assigned(token("A-1", 2)))


def test_opt_1_default_timeout_is_two_hours_from_hand_over() -> None:
    before = accepted()
    assert before.step().deadline == T0 + 7_200_000


def test_opt_1_timeout_does_not_count_time_in_the_queue() -> None:
    before = given(started(), scheduled("A-1", options=options(execute_timeout_ms=8_000)))
    before.when(*connect(), now=T0 + 7_000).then_events(sent("A-1", deadline=T0 + 15_000, waited_ms=7_000))


# ---- losses -----------------------------------------------------------------------------------------------------


def lost_once(chosen: StepOptions | None = None) -> Given:
    """w1 lost A-1's first delivery for good, and w2 has the second."""
    before = running(chosen).after(*connect(2, "w2")).after(lose())
    return before.ticked(T0 + 5_000)


def test_lost_1_first_loss_is_redelivered_at_once_in_the_same_attempt() -> None:
    """[DELIV-1] Acceptance example 27."""
    before = running().after(*connect(2, "w2")).after(lose())
    before.when_time_passes(T0 + 5_000).then(
        events=[lost("A-1"), sent("A-1", attempt=1, delivery=2, worker_id="w2")],
        effects=[assigned(token("A-1", 1, 2), session=2)],
    )
    assert before.step().workers_lost == 1


def test_lost_2_second_loss_in_an_attempt_fails_it() -> None:
    before = lost_once().after(lose(2))
    before.when_time_passes(T0 + 10_000).then_events(
        Like(StepDeliveryLost, delivery=2, worker_id="w2"),
        Like(ExecuteFailed, attempt=1, resolution=Resolution.RETRY, retry_at=T0 + 11_000, is_reported=False),
    )
    failed = before.step().failure
    assert failed is not None
    assert failed.error_type == "WORKER_LOST"
    assert failed.detail == "attempt 1 lost its worker 2 times, last w2 (SESSION_LOST)"
    assert before.step().workers_lost == 2


def test_lost_2_losses_count_per_attempt() -> None:
    before = lost_once().after(lose(2)).ticked(T0 + 10_000)
    before = before.after(*connect(3, "w3"), now=T0 + 11_000)
    before.after(lose(3))
    before.when_time_passes(T0 + 16_000).then_events(Like(StepDeliveryLost, attempt=2, delivery=1))
    assert before.step().attempt == 2


def test_lost_2_second_loss_without_attempts_left_recovers_while_another_worker_is_idle() -> None:
    before = lost_once(no_retry(recovery=recovery())).after(*connect(3, "w3")).after(lose(2))
    before.when_time_passes(T0 + 10_000).then_events(
        Like(StepDeliveryLost, delivery=2),
        Like(ExecuteFailed, resolution=Resolution.RECOVER),
        Like(StepScheduled, step_execution_id="Recover-1"),
        sent("Recover-1", worker_id="w3"),
    )


def test_lost_2_second_loss_of_wait_for_may_proceed_with_execute() -> None:
    chosen = no_retry(wait_for_failure=PROCEED)
    before = running(chosen, wait_for=True).after(*connect(2, "w2")).after(lose())
    before = before.ticked(T0 + 5_000).after(*connect(3, "w3")).after(lose(2))
    before.when_time_passes(T0 + 10_000).then_events(
        Like(StepDeliveryLost, delivery=2),
        Like(WaitForFailed, resolution=Resolution.PROCEED),
        sent("A-1", method=Method.EXECUTE, worker_id="w3"),
    )
    before.when(complete(DEAD_END, token("A-1"), session=3)).then_events(executed("A-1", worker="w3"))


def test_losses_of_several_calls_of_one_flow_end_it_once() -> None:
    """Both deliveries of a Flow go with one worker, and neither may be repeated."""
    events = (
        started(),
        scheduled("A-1", options=no_retry()),
        scheduled("B-1", options=no_retry()),
        dispatched("A-1"),
        dispatched("B-1"),
        lost("A-1"),
        lost("B-1"),
    )
    before = given(*events).after(*connect(streams=2))
    before.when(*connect(2, "w1", incarnation="i2")).then_events(
        Like(StepDeliveryLost, step_execution_id="A-1", delivery=2, reason="SUPERSEDED"),
        Like(ExecuteFailed, step_execution_id="A-1", resolution=Resolution.FAIL_FLOW),
        Like(MethodPending, step_execution_id="B-1"),
        Like(FlowClosed, status=FlowStatus.FAILED),
    )


def test_lost_3_result_of_a_lost_delivery_is_refused_while_the_next_one_runs() -> None:
    """Acceptance example 28."""
    before = lost_once()
    before.after(*connect(3, "w1", incarnation="i1"))
    before.when(complete(force(), token("A-1", 1, 1), session=3, number=9)).then(
        events=[stale("A-1")], effects=[refused("STALE", session=3, number=9)]
    )
    before.when(complete(DEAD_END, token("A-1", 1, 2), session=2)).then_events(executed("A-1", delivery=2, worker="w2"))


def test_lost_3_stale_result_leaves_a_queued_retry_where_it_is() -> None:
    """It changes nothing, the dispatch wait of the next attempt included."""
    chosen = options(execute_timeout_ms=3_000)
    before = accepted(chosen).after(lose(1)).ticked(T0 + 3_000, T0 + 4_000)
    due = before.next_deadline
    assert due == T0 + 7_000  # the dispatch ends with the shorter of dispatch wait and method timeout
    before.after(*connect(2, "w1", serves(steps="B")), now=T0 + 5_000)
    before.when(complete(force(), session=2, number=9)).then(
        events=[stale("A-1")], effects=[refused("STALE", session=2, number=9)], next_deadline=due
    )


def test_lost_3_result_for_a_run_that_is_not_retained_is_refused_and_nothing_recorded() -> None:
    given().after(*connect()).when(complete(force(), token("A-1", run="gone"))).then(
        effects=[refused("STALE", token("A-1", run="gone"))]
    )


def test_lost_3_first_answer_of_an_attempt_stands() -> None:
    """[INV-3] A repeat of the accepted result is acknowledged again and changes nothing [WIRE-10]."""
    before = running().after(complete(go_to(plan("Recover"))))
    before.when(complete(force(b"other"))).then(effects=[acknowledged()])
    assert before.run(RUN).is_open


def test_ctx_3_declined_retry_keeps_the_first_hand_over() -> None:
    before = running().after(fail()).ticked(T0 + 1_000).after(decline("DRAINING", token("A-1", 2)))
    assert before.step().first_attempt_at == T0
