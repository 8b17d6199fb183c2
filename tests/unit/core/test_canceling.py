"""Decisions that cancel Steps [DEC-9..11]."""

from dexd.core.events import StepCanceled
from dexd.core.values import DecisionKind as Kind
from dexd.core.values import FlowStatus, Method, Resolution
from tests.support.builders import (
    DEAD_END,
    T0,
    acknowledged,
    all_of,
    assigned,
    cancel,
    canceled,
    canceling,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    executed,
    fail,
    force,
    force_fail,
    go_to,
    graceful,
    no_retry,
    pending,
    plan,
    publish,
    published,
    recovery,
    refused,
    scheduled,
    sent,
    stale,
    started,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given


def gone(step_id: str, by: str = "A-1") -> StepCanceled:
    return canceled(step_id, "STEP_CANCELED", by)


def in_every_phase() -> Given:
    """A-1 decides on stream 1 and B-1 runs on stream 2; B-2 waits, B-3 backs off, B-4 is queued."""
    events = (
        started(),
        scheduled("B-2", wait_for=True),
        dispatched("B-2", method=Method.WAIT_FOR),
        wait_installed("B-2", all_of(channel("c"), timer(at=T0 + 9_000))),
        scheduled("B-3"),
        dispatched("B-3"),
        execute_failed("B-3", retry_at=T0 + 5_000),
        scheduled("A-1"),
        scheduled("B-1"),
        scheduled("B-4"),
    )
    return given(*events).after(*connect(streams=2))


def test_dec_11_targets_in_every_phase_are_dropped_at_once_and_a_running_handler_is_told() -> None:
    """[DEC-9] All executions of the type. [DEC-10] The one that the response schedules lives."""
    before = in_every_phase()
    after = before.when(complete(canceling(go_to(plan("B")), "B"))).then(
        events=[
            executed("A-1", Kind.GO_TO),
            gone("B-2"),
            gone("B-3"),
            gone("B-1"),
            gone("B-4"),
            scheduled("B-5", from_step="A-1"),
            sent("B-5", is_sticky=True),
        ],
        effects=[
            acknowledged(),
            cancel("STEP_CANCELED", token("B-1"), number=2, grace_ms=30_000),
            assigned(token("B-5")),
        ],
        next_deadline=T0 + 5_000,
    )
    assert list(after.run().steps) == ["B-5"]
    assert after.run().watchers == {}
    assert after.run().is_open


def test_dec_11_late_result_and_failure_of_a_canceled_handler_are_refused() -> None:
    """[LOST-3] Neither retry nor recovery Step follows."""
    options = no_retry(recovery=recovery("Recover"))
    before = given(started(), scheduled("A-1"), scheduled("B-1", options=options), scheduled("B-2"))
    before.after(*connect(streams=3), complete(canceling(DEAD_END, "B")))
    before.when(fail(delivered=token("B-1"), number=2)).then(
        events=[stale("B-1")], effects=[refused("STALE", token("B-1"), number=2)]
    )
    before.when(complete(force(b"1"), token("B-2"), number=3)).then(
        events=[stale("B-2")], effects=[refused("STALE", token("B-2"), number=3)]
    )
    assert not before.run().steps
    assert before.run().is_open


def test_dec_11_messages_that_a_canceled_step_waited_for_stay_queued() -> None:
    before = in_every_phase().after(complete(canceling(DEAD_END, "B")))
    before.when(publish("c", b"1")).then_events(published("c", b"1", version=before.run().version))
    before.when_time_passes(T0 + 20_000).then_events()


def test_dec_11_cancellation_of_all_that_was_left_completes_a_flow_that_wanted_to() -> None:
    """[DEC-2]"""
    before = given(started(), scheduled("A-1"), scheduled("A-2"), scheduled("B-1")).after(*connect(streams=2))
    before.after(complete(graceful(b"1")))
    before.when(complete(canceling(DEAD_END, "B"), token("A-2"), number=2)).then_events(
        executed("A-2"), gone("B-1", by="A-2"), closed()
    )


def test_dec_9_siblings_are_executions_with_the_same_source() -> None:
    """Acceptance row 14: the winner of 10 cancels the others and schedules one of their type; a foreign one lives."""
    siblings = [scheduled(f"B-{number}", from_step="A-1") for number in range(1, 11)]
    foreign = scheduled("B-11", from_step="A-2")
    before = given(started(), scheduled("A-1"), dispatched("A-1"), executed("A-1"), *siblings, foreign)
    before.after(*connect())
    decision = canceling(go_to(plan("B")), siblings=("B",))
    before.when(complete(decision, token("B-1"))).then_events(
        executed("B-1", Kind.GO_TO),
        *(gone(f"B-{number}", by="B-1") for number in range(2, 11)),
        scheduled("B-12", from_step="B-1"),
        sent("B-11"),
    )
    assert list(before.run().steps) == ["B-11", "B-12"]


def test_dec_9_flow_wide_wins_over_siblings_per_type() -> None:
    events = (
        started(),
        scheduled("A-1", from_step="X-1"),
        scheduled("B-1", from_step="X-1"),
        scheduled("B-2", from_step="X-2"),
        scheduled("Recover-1", from_step="X-1"),
        scheduled("Recover-2", from_step="X-2"),
    )
    before = given(*events).after(*connect())
    before.when(complete(canceling(DEAD_END, "B", siblings=("B", "Recover")))).then_events(
        executed("A-1"), gone("B-1"), gone("B-2"), gone("Recover-1"), sent("Recover-2")
    )


def test_dec_9_executions_without_a_source_have_no_siblings() -> None:
    """[ID-12]"""
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect())
    before.when(complete(canceling(DEAD_END, siblings=("B",)))).then_events(executed("A-1"), sent("B-1"))


def test_dec_10_absent_targets_and_the_deciding_execution_are_no_ops() -> None:
    before = given(started(), scheduled("A-1")).after(*connect())
    before.when(complete(canceling(DEAD_END, "A", "Unheard", siblings=("A",)))).then_events(executed("A-1"))
    assert before.run().is_open


def test_dec_9_any_decision_may_cancel_and_a_closing_one_ends_everything_anyway() -> None:
    for decision, kind, status in (
        (force(), Kind.FORCE_COMPLETE, FlowStatus.COMPLETED),
        (force_fail("no"), Kind.FORCE_FAIL, FlowStatus.FAILED),
    ):
        before = given(started(), scheduled("A-1"), scheduled("B-1"), scheduled("B-2")).after(*connect(streams=2))
        found = before.when(complete(canceling(decision, "B"))).events
        assert found[0] == executed("A-1", kind, reason=decision.reason)
        assert found[1:-1] == [pending("B-1"), canceled("B-2")]
        assert before.run().status is status


def test_dec_9_a_failed_attempt_cancels_nothing() -> None:
    """[GEN-7]"""
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect())
    before.when(fail()).then_events(execute_failed("A-1", Resolution.RETRY, retry_at=T0 + 1_000), sent("B-1"))
