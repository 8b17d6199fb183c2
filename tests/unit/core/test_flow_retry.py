"""A FAILED execution that begins again [START-8]."""

from typing import Any

import pytest

from dexd.core.effects import AnswerRpc
from dexd.core.events import FlowClosed, FlowRetried, FlowStarted
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.outcome import PublishAccepted, StartFlowAccepted, StopFlowResult
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import FlowConfig
from dexd.core.values import DecisionKind, FlowErrorType, FlowStatus, Method, RetryPolicy, StopType
from tests.support.builders import (
    FLOW,
    RUN,
    SECOND,
    T0,
    all_of,
    cancel,
    canceled,
    channel,
    complete,
    connect,
    decides,
    dispatched,
    executed,
    force_fail,
    go_to,
    graceful,
    message_ids,
    plan,
    publish,
    published,
    retry,
    rpc,
    scheduled,
    sent,
    start,
    started,
    stop,
    terms,
    timer,
    token,
    update_config,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

RUN_2 = derived_run_id(f"{RUN}/retry")
AGAIN = terms(retry=retry(initial_interval_ms=2 * SECOND), step=plan("A"))
INITIAL = (("a", b"1"),)


def running(policy: RetryPolicy | None = None) -> Given:
    """`A-1` runs on stream 1."""
    tries = AGAIN if policy is None else terms(retry=policy, step=plan("A"))
    return given(started(terms=tries), scheduled("A-1")).after(*connect())


def failed(**fields: Any) -> Like:
    return Like(FlowClosed, status=FlowStatus.FAILED, **fields)


def test_start_8_failure_opens_a_new_run_in_the_same_commit() -> None:
    """Same input, options and initial Attributes; the start Step waits for the backoff; numbers begin again [ID-7]."""
    again = terms(retry=retry(initial_interval_ms=2 * SECOND), step=plan("A", input=b"7"))
    begun = given().after(start(step=plan("A", input=b"7"), terms=again, attributes=INITIAL), *connect())
    begun.when(complete(decides(force_fail("no"), writes=(("a", b"2"),)))).then_events(
        Like(type(executed()), reason="no"),
        FlowClosed(FlowStatus.FAILED, FlowErrorType.STEP_DECISION_FAILED, "no", next_run_id=RUN_2),
        started(run_id=RUN_2, request_id=f"start-{RUN}", terms=again, eligible_at=T0 + 2 * SECOND),
        FlowRetried(2, RUN, RUN, T0, 5),
        scheduled("A-1", input=b"7"),
    )


def test_start_8_start_step_runs_after_the_backoff() -> None:
    before = running().after(complete(force_fail()))
    before.when_time_passes(T0 + 2 * SECOND - 1).then_events()
    before.when_time_passes(T0 + 2 * SECOND).then_events(sent("A-1", attempt=1))


def test_start_8_run_is_failed_and_the_execution_stays_running() -> None:
    before = running().after(complete(force_fail()))
    assert before.run().status is FlowStatus.FAILED
    latest = before.kernel.run(FLOW)
    assert latest is not None
    assert (latest.run_id, latest.status, latest.ordinal, latest.execution_id) == (RUN_2, FlowStatus.RUNNING, 1, RUN)
    assert latest.started_at == T0


def test_start_8_delays_grow_and_attempts_end() -> None:
    """[RETRY-1, RETRY-2] Attempts include the first."""
    before = running(retry(initial_interval_ms=SECOND, maximum_attempts=3)).after(complete(force_fail()))
    run_3 = derived_run_id(f"{RUN_2}/retry")
    before.ticked(T0 + SECOND)
    then = before.when(complete(force_fail(), token(run=RUN_2)))
    assert Like(FlowRetried, attempt=3, previous_run_id=RUN_2, first_run_id=RUN) in then.events
    assert Like(FlowStarted, run_id=run_3, eligible_at=T0 + 3 * SECOND) in then.events
    before.ticked(T0 + 3 * SECOND)
    before.when(complete(force_fail(), token(run=run_3))).then_events(Like(type(executed())), failed(next_run_id=""))


def test_start_8_completion_is_not_tried_again() -> None:
    running().when(complete(graceful())).then_events(
        executed("A-1", DecisionKind.GRACEFUL_COMPLETE), FlowClosed(FlowStatus.COMPLETED)
    )


@pytest.mark.parametrize("kind", list(StopType))
def test_start_8_every_stop_request_ends_the_chain(kind: StopType) -> None:
    then = running().when(stop(kind))
    assert then.events[-1].next_run_id == ""  # type: ignore[union-attr] # FlowClosed
    assert isinstance(then.reply, StopFlowResult)


def test_start_8_stop_during_the_backoff_ends_the_chain() -> None:
    before = running().after(complete(force_fail()))
    before.when(stop(StopType.FAIL)).then_events(
        canceled("A-1"), failed(error_type=FlowErrorType.CLIENT_API_FAILED, next_run_id="")
    )


def test_start_8_unconsumed_messages_from_outside_are_carried_in_order() -> None:
    """What a Step had published, and what was consumed, is not."""
    before = given(
        started(terms=AGAIN),
        published("c", b"1", b"2", version=2),
        scheduled("A-1"),
        published("d", b"3", version=4, request_id="r2"),
    ).after(*connect())
    before.after(complete(decides(go_to(plan("B")), publications=(("c", b"own"),))))
    then = before.when(complete(force_fail(), token("B-1")))
    (retried,) = [event for event in then.events if isinstance(event, FlowRetried)]
    first, second = message_ids(2, 2)
    (third,) = message_ids(4)
    assert retried.messages == (("c", ((first, b"1", T0), (second, b"2", T0))), ("d", ((third, b"3", T0),)))
    run = before.run(RUN_2)
    assert [message.value for message in run.channels["c"]] == [b"1", b"2"]
    assert run.pending_count == 3


def test_start_8_ids_of_new_messages_follow_those_of_carried_ones() -> None:
    """[ID-13] Also within one millisecond."""
    before = given(started(terms=AGAIN), scheduled("A-1"), published("c", b"1", version=3)).after(*connect())
    before.after(complete(force_fail()))
    then = before.when(publish("c", b"2", request_id="later"))
    assert isinstance(then.reply, PublishAccepted)
    old, new = (message.message_id for message in before.run(RUN_2).channels["c"])
    assert old < new


def test_start_8_requests_of_the_execution_stay_remembered() -> None:
    """[RPC-12] A client that repeats a publication does not publish twice."""
    before = given(started(terms=AGAIN), scheduled("A-1"), published("c", b"1", version=3)).after(*connect())
    before.after(complete(force_fail()))
    before.when(publish("c", b"1")).then(reply=PublishAccepted(message_ids(3)))


def test_start_3_repeat_of_the_start_gets_the_original_run() -> None:
    before = running().after(complete(force_fail()))
    before.when(start(run_id="other", request_id=f"start-{RUN}", step=plan("A"))).then(reply=StartFlowAccepted(RUN))
    before.when(start(run_id="other")).then_rejected(Code.FLOW_ALREADY_STARTED, run_id=RUN_2, status="RUNNING")


def test_start_8_settings_changed_on_the_way_stay() -> None:
    """[CFG-2]"""
    before = running().after(update_config(FlowConfig(record_rpc_io=True)), complete(force_fail()))
    assert before.run(RUN_2).config == FlowConfig(record_rpc_io=True)


def test_rpc_9_calls_of_the_failed_run_are_answered() -> None:
    """Running or queued, they belonged to a state that is gone."""
    before = running().after(rpc("read", request_id="q"))
    then = before.when(complete(force_fail()))
    (answer,) = [effect for effect in then.effects if isinstance(effect, AnswerRpc)]
    assert isinstance(answer.answer, Rejection)
    assert answer.answer.code is Code.FLOW_NOT_ACTIVE


def test_start_8_jitter_is_drawn_from_the_seed() -> None:
    """[RETRY-2] The delay is in the log, and the same after a restart."""
    before = running(retry(initial_interval_ms=1_000 * SECOND, jitter=1.0)).after(complete(force_fail()))
    at_ms = before.run(RUN_2).eligible_at
    assert T0 <= at_ms < T0 + 1_000 * SECOND
    assert before.restarted().run(RUN_2).eligible_at == at_ms


def test_start_8_waiting_steps_of_the_failed_run_are_gone() -> None:
    """[FLOW-8, TIMER-10]"""
    before = given(
        started(terms=AGAIN),
        scheduled("W-1", wait_for=True),
        dispatched("W-1", method=Method.WAIT_FOR),
        wait_installed("W-1", all_of(channel(), timer(at=T0 + SECOND))),
        scheduled("A-1"),
    ).after(*connect())
    then = before.when(complete(force_fail()))
    assert cancel("FLOW_CLOSED") not in then.effects
    assert list(before.run(RUN_2).steps) == ["A-1"]
    assert before.run(RUN_2).counters == {"A": 1}


def test_start_8_what_only_steps_published_is_not_carried() -> None:
    """They will publish it again."""
    before = running()
    before.after(complete(decides(go_to(plan("B")), publications=(("own", b"1"),))))
    then = before.when(complete(force_fail(), token("B-1")))
    (retried,) = [event for event in then.events if isinstance(event, FlowRetried)]
    assert retried.messages == ()


def test_start_8_flow_without_start_step_begins_again_with_nothing_to_run() -> None:
    """[FLOW-3]"""
    before = given(started(terms=terms(retry=retry())), scheduled("A-1", from_step="sys:rpc:x#1")).after(*connect())
    before.after(complete(force_fail()))
    assert before.run(RUN_2).is_open
    assert before.run(RUN_2).steps == {}
