"""What a Step decides: next Steps, completion, failure, dead end [DEC-1..3, DEC-6, DEC-7, GEN-6, ID-6, FLOW-5..9]."""

from dexd.core.events import ChannelPublished, ExecuteCompleted, FlowClosed
from dexd.core.values import Completion, FlowErrorType, FlowStatus, Method
from dexd.core.values import DecisionKind as Kind
from tests.support.builders import (
    DEAD_END,
    T0,
    acknowledged,
    all_of,
    assigned,
    cancel,
    canceled,
    channel,
    closed,
    complete,
    connect,
    decides,
    dispatched,
    executed,
    fail,
    fired,
    force,
    force_fail,
    go_to,
    graceful,
    message_ids,
    met,
    pending,
    plan,
    scheduled,
    sent,
    started,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like


def deciding(*more: str) -> Given:
    """A-1 runs on stream 1, and the others, e.g. B-1, on the next ones."""
    steps = [scheduled("A-1"), *(scheduled(name) for name in more)]
    return given(started(), *steps).after(*connect(streams=1 + len(more)))


def test_dec_1_go_to_schedules_one_step_that_is_handed_out_in_the_same_outcome() -> None:
    """[ROUTE-8] One commit per Step. [ID-12] The source is the deciding execution."""
    deciding().when(complete(go_to(plan("B", input=b"2")))).then(
        events=[
            executed("A-1", Kind.GO_TO),
            scheduled("B-1", input=b"2", from_step="A-1"),
            sent("B-1", is_sticky=True),
        ],
        effects=[acknowledged(), assigned(token("B-1"), input=b"2", from_step="A-1")],
        next_deadline=T0 + 5_000,
    )


def test_dec_1_go_to_many_schedules_in_order() -> None:
    """[FLOW-5] [STEP-4] Several of one type, which get their numbers in order."""
    deciding().when(complete(go_to(plan("B", input=b"1"), plan("A"), plan("B", input=b"2")))).then_events(
        executed("A-1", Kind.GO_TO),
        scheduled("B-1", input=b"1", from_step="A-1"),
        scheduled("A-2", from_step="A-1"),
        scheduled("B-2", input=b"2", from_step="A-1"),
        sent("B-1"),
    )


def test_id_6_numbers_go_on_after_executions_have_ended() -> None:
    before = given(started(), scheduled("A-1"), dispatched("A-1"), executed("A-1"), scheduled("A-2"))
    before.after(*connect()).when(complete(go_to(plan("A")), token("A-2"))).then_events(
        Like(ExecuteCompleted), scheduled("A-3", from_step="A-2"), sent("A-3")
    )


def test_gen_6_response_is_applied_in_its_order() -> None:
    """Writes and publications come with the decision; the successor sees them all."""
    response = decides(
        go_to(plan("B")), writes=(("a", b"1"), ("b", None)), publications=(("c", b"m"),), recorded=(("n", b"2"),)
    )
    done = executed(
        "A-1",
        Kind.GO_TO,
        writes=(("a", b"1"), ("b", None)),
        messages=((message_ids(4)[0], "c", b"m"),),
        recorded=(("n", b"2"),),
    )
    before = given(started(attributes=(("b", b"0"),)), scheduled("A-1")).after(*connect())
    before.when(complete(response)).then(
        events=[done, scheduled("B-1", from_step="A-1"), sent("B-1")],
        effects=[acknowledged(), assigned(token("B-1"), attributes={"a": b"1"}, channel_sizes={"c": 1})],
    )


def test_gen_7_failed_attempt_leaves_no_trace_in_state() -> None:
    """Acceptance example 9; the worker's writes came with nothing but the failure."""
    before = deciding()
    before.after(fail())
    assert before.run().attributes == {}
    assert before.run().completions == []
    before.ticked(T0 + 1_000)
    assert before.step().attempt == 2


def test_dec_2_graceful_complete_with_nothing_else_active_completes() -> None:
    deciding().when(complete(graceful(b"1"))).then(
        events=[executed("A-1", Kind.GRACEFUL_COMPLETE, output=b"1"), closed()], effects=[acknowledged()]
    )


def test_dec_2_completion_waits_for_all_other_steps_and_keeps_both_outputs() -> None:
    """Acceptance example 10. [DEC-7] Order is acceptance order."""
    before = deciding("B-1")
    before.when(complete(graceful(b"1"))).then(
        events=[executed("A-1", Kind.GRACEFUL_COMPLETE, output=b"1")], effects=[acknowledged()]
    )
    before.when(complete(DEAD_END, token("B-1"), number=2)).then_events(executed("B-1"), closed())
    assert before.run().completions == [Completion("A", "A-1", b"1")]


def test_dec_2_mark_stays_and_a_step_added_later_delays_completion() -> None:
    before = deciding("B-1").after(complete(graceful()))
    before.when(complete(go_to(plan("Recover")), token("B-1"), number=2)).then_events(
        executed("B-1", Kind.GO_TO), scheduled("Recover-1", from_step="B-1"), sent("Recover-1")
    )
    again = before.restarted().after(*connect())
    again.when(complete(DEAD_END, token("Recover-1", delivery=2))).then_events(
        executed("Recover-1", delivery=2), closed()
    )


def test_dec_2_waiting_step_delays_completion() -> None:
    events = (
        started(),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(timer(at=T0 + 100))),
        scheduled("A-1"),
    )
    before = given(*events).after(*connect())
    before.when(complete(graceful())).then_events(executed("A-1", Kind.GRACEFUL_COMPLETE))
    before.when_time_passes(T0 + 100).then_events(fired("B-1"), met("B-1", (0,)), sent("B-1"))
    before.when(complete(DEAD_END, token("B-1"))).then_events(executed("B-1"), closed())


def test_dec_3_force_complete_ends_everything_at_once() -> None:
    """[FLOW-8] Acceptance example 12."""
    events = (
        started(),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(channel("c"))),
        scheduled("A-1"),
        scheduled("A-2"),
        scheduled("A-3"),
    )
    before = given(*events).after(*connect(streams=2))
    before.when(complete(force(b"1"))).then(
        events=[
            executed("A-1", Kind.FORCE_COMPLETE, output=b"1"),
            canceled("B-1"),
            pending("A-2"),
            canceled("A-3"),
            closed(),
        ],
        effects=[acknowledged(), cancel("FLOW_CLOSED", token("A-2"), number=2, grace_ms=30_000)],
    )
    assert before.run().completions == [Completion("A", "A-1", b"1")]


def test_dec_6_force_fail_fails_the_flow_with_its_reason() -> None:
    """[FLOW-9]"""
    deciding("B-1").when(complete(force_fail("broke"))).then(
        events=[
            executed("A-1", Kind.FORCE_FAIL, reason="broke"),
            pending("B-1"),
            closed(FlowStatus.FAILED, FlowErrorType.STEP_DECISION_FAILED, "broke"),
        ],
        effects=[acknowledged(), cancel("FLOW_CLOSED", token("B-1"), number=2, grace_ms=30_000)],
    )


def test_dec_6_dead_end_never_completes_the_flow() -> None:
    """[FLOW-7] Acceptance example 11."""
    before = deciding()
    before.when(complete(DEAD_END)).then(events=[executed("A-1")], effects=[acknowledged()])
    assert before.run().is_open
    assert not before.run().steps


def test_dec_7_completion_without_output_adds_nothing() -> None:
    before = deciding("B-1").after(complete(graceful()), complete(graceful(b"2"), token("B-1"), number=2))
    assert before.run().completions == [Completion("B", "B-1", b"2")]
    assert before.run().status is FlowStatus.COMPLETED


def test_publications_of_a_closing_response_are_applied_and_wake_nobody() -> None:
    events = (
        started(),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(channel("c"))),
        scheduled("A-1"),
    )
    before = given(*events).after(*connect())
    then = before.when(complete(decides(force(), publications=(("c", b"1"),))))
    then.then_events(Like(ExecuteCompleted), canceled("B-1"), Like(FlowClosed))
    assert not any(isinstance(event, ChannelPublished) for event in then.events)
    assert before.run().pending_count == 1
