"""Calls and requests that are under way do not notice a roll-over [ROLL-4, ROLL-5]."""

from dexd.core.commands import FetchPart
from dexd.core.effects import AnswerRpc, DeliverPart
from dexd.core.events import (
    ExecuteCompleted,
    ExecuteFailed,
    FlowClosed,
    RpcCompleted,
    StepCanceled,
    StepDispatched,
    StepScheduled,
)
from dexd.core.flow.state import StepPhase
from dexd.core.ids import SessionId, StepExecutionId
from dexd.core.outcome import PublishAccepted, StopFlowResult
from dexd.core.rejections import Code, Rejection
from dexd.core.values import (
    FlowStatus,
    Method,
    RecoveryError,
    Response,
)
from tests.support.builders import (
    DEAD_END,
    RUN,
    SECOND,
    SKIP,
    T0,
    WELCOME,
    accept,
    acknowledged,
    answered,
    assigned,
    attribute_set,
    cancel,
    complete,
    connect,
    decides,
    dispatched,
    execute_failed,
    fail,
    go_to,
    heartbeat,
    hello,
    lose,
    options,
    plan,
    publish,
    recovery,
    refused,
    retry,
    rpc,
    rpc_token,
    running,
    scheduled,
    sent,
    serves,
    set_attribute,
    stale,
    started,
    stop,
    token,
    waits,
)
from tests.support.given import given
from tests.support.matchers import Like
from tests.support.roll_over_builders import RUN_2, latest, roll, small, step

# ---- what goes on ------------------------------------------------------------------------------------------------


def test_roll_4_running_handler_delivers_its_result_to_the_new_run() -> None:
    """Whatever it heard at hand-over; the worker is told nothing."""
    before = given(started(), scheduled("A-1")).after(*connect())
    before.when(roll()).then_effects()
    then = before.when(complete(decides(go_to(plan("B")), writes=(("k", b"1"),))))
    then.then(
        events=[
            Like(ExecuteCompleted, step_execution_id=StepExecutionId("A-1")),
            Like(StepScheduled, step_execution_id=StepExecutionId("B-1")),
            sent("B-1"),
        ],
        effects=[acknowledged(), assigned(token("B-1"), run_id=RUN_2)],
    )
    assert latest(before).attributes == {"k": b"1"}


def test_roll_4_running_handler_keeps_the_run_id_it_was_given() -> None:
    """A later delivery of the same attempt gets that of the run then current [CTX-1]."""
    before = given(started(), scheduled("A-1"))
    assert assigned(run_id=RUN) in before.when(*connect()).effects
    before.after(roll(), lose()).ticked(T0 + 5 * SECOND)
    assert assigned(token(delivery=2), session=2, run_id=RUN_2) in before.when(*connect(2)).effects


def test_roll_4_result_is_accepted_after_a_restart() -> None:
    """Its worker comes back with the call of the old run, or with its result."""
    before = given(started(), scheduled("A-1")).after(*connect(), roll()).restarted()
    before.when(hello(2, running=(running(token()),))).then_effects(WELCOME)
    before.when(complete(DEAD_END, session=2)).then(events=[Like(ExecuteCompleted)], effects=[acknowledged(session=2)])


def test_wire_10_result_accepted_before_the_roll_over_is_acknowledged_again_after_it() -> None:
    """[ROLL-3]"""
    before = given(started(), scheduled("A-1"), scheduled("B-1"), config=small(0)).after(*connect())
    before.after(complete(DEAD_END), roll())
    before.when(complete(DEAD_END)).then(effects=[acknowledged()])
    before = before.restarted()
    presented = hello(2, running=(running(token()),))
    assert acknowledged(session=2) in before.when(presented).effects


def test_lost_3_stale_result_is_recorded_in_the_current_run() -> None:
    """[ROLL-4] The attempt was given up in an earlier one."""
    given_up = execute_failed(retry_at=T0 + 9 * SECOND, is_reported=False)
    before = given(started(), scheduled("A-1"), dispatched(), given_up).after(*connect(), roll())
    before.when(complete(DEAD_END)).then(events=[stale()], effects=[refused("STALE")])
    assert latest(before).version == 3


def test_roll_4_calls_that_wait_for_a_worker_go_on_waiting() -> None:
    """No longer than they would have."""
    before = given(started(), scheduled("A-1"), scheduled("B-1"))
    before.after(roll(), now=T0 + 9 * SECOND)
    assert sent("A-1", waited_ms=9 * SECOND + 500) in before.when(*connect(streams=2), now=T0 + 9_500).events
    late = given(started(), scheduled("A-1")).after(roll(), now=T0 + 9 * SECOND)
    failed = late.when_time_passes(T0 + 10 * SECOND)
    assert Like(ExecuteFailed, step_execution_id=StepExecutionId("A-1")) in failed.events


def test_roll_4_method_timeout_counts_from_the_hand_over() -> None:
    limit = options(execute_timeout_ms=20 * SECOND)
    before = (
        given(started(), scheduled("A-1", options=limit)).after(*connect(), accept()).after(roll(), now=T0 + SECOND)
    )
    before.when_time_passes(T0 + 20 * SECOND - 1).then_events()
    timed_out = before.when_time_passes(T0 + 20 * SECOND)
    assert Like(ExecuteFailed, attempt=1) in timed_out.events
    assert cancel("TIMEOUT") in timed_out.effects


def test_retry_7_backoff_and_attempts_go_on() -> None:
    """[ROLL-3] The last failure stays visible, and the heartbeat's value reaches the next attempt [HB-2]."""
    before = given(started(), scheduled("A-1")).after(*connect(), heartbeat(b"5"), fail()).after(roll())
    assert (step(before).phase, step(before).attempt) == (StepPhase.BACKOFF, 2)
    before.when_time_passes(T0 + SECOND - 1).then_events()
    again = before.when_time_passes(T0 + SECOND)
    assert assigned(token(attempt=2), heartbeat=b"5") in again.effects


def test_hb_1_heartbeats_are_due_as_before() -> None:
    """[ROLL-4]"""
    pulse = options(heartbeat_timeout_ms=5 * SECOND)
    before = given(started(), scheduled("A-1", options=pulse)).after(*connect(), heartbeat())
    before.after(roll()).after(heartbeat(b"7"), now=T0 + 4 * SECOND)
    assert step(before).heartbeat == b"7"
    before.when_time_passes(T0 + 9 * SECOND - 1).then_events()
    assert Like(ExecuteFailed) in before.when_time_passes(T0 + 9 * SECOND).events


def test_opt_4_recovery_step_sees_the_error_after_a_roll_over() -> None:
    """[ROLL-3] Same input, in both its methods; acceptance row 8."""
    once = options(execute_retry=retry(maximum_attempts=1), recovery=recovery("Recover", wait_for=True))
    before = given(started(), scheduled("A-1", options=once, input=b"7"), config=small(3))
    before.after(*connect()).after(fail())
    error = RecoveryError("Boom", "it broke")
    waiting = token("Recover-1", method=Method.WAIT_FOR)
    assert step(before, "Recover-1").recovery_error == error
    restarted = before.restarted().after(lose()).ticked(T0 + 5 * SECOND)
    seen = restarted.when(*connect(2), now=T0 + 5 * SECOND).effects
    again = token("Recover-1", method=Method.WAIT_FOR, delivery=2)
    assert assigned(again, session=2, recovery_error=error, input=b"7") in seen
    then = restarted.when(complete(waits(SKIP), again, session=2))
    assert assigned(token("Recover-1"), session=2, recovery_error=error, input=b"7") in then.effects
    assert waiting.run_id == RUN


# ---- locks -------------------------------------------------------------------------------------------------------

LOCKING = options(execute_locks=("a",))


def test_lock_2_locks_are_kept() -> None:
    """[ROLL-3] and let go by the end of the call; whoever waits for them is next."""
    before = given(started(), scheduled("A-1", options=LOCKING), scheduled("B-1", options=LOCKING))
    before.after(*connect(streams=2), roll())
    assert latest(before).locks == {"a": "A-1"}
    before.when(complete(DEAD_END)).then_events(Like(ExecuteCompleted), sent("B-1"))


def test_lock_3_line_is_kept_over_roll_over_and_restart() -> None:
    """[ROLL-3] Oldest request first."""
    names = ("C", "A", "B")
    before = given(started(), *(scheduled(f"{name}-1", options=LOCKING) for name in names)).after(roll()).restarted()
    order = []
    before.after(*connect(1, "w1", serves(steps="A B C")))
    for name in names:
        then = before.when(complete(DEAD_END, token(f"{name}-1")))
        order += [event.step_execution_id for event in then.events if isinstance(event, StepDispatched)]
    assert order == ["A-1", "B-1"]


def test_lock_4_locked_rpc_goes_on() -> None:
    """[RPC-9, ROLL-4] Its locks are the chain's: a Step of the new run waits for them."""
    before = given(started(), scheduled("B-1", options=LOCKING)).after(
        *connect(1, "w1", serves(steps="", rpcs="write")), rpc("write", locks=("a",)), roll()
    )
    before.after(*connect(2, "w2", serves(steps="B", rpcs="")))
    then = before.when(complete(Response(writes=(("a", b"1"),), output=b"ok"), rpc_token()))
    then.then(
        events=[Like(RpcCompleted), sent("B-1")],
        effects=[acknowledged(rpc_token()), answered(b"ok"), assigned(token("B-1"), session=2)],
    )


# ---- RPCs and other calls ----------------------------------------------------------------------------------------


def test_rpc_9_rpc_in_flight_is_answered_and_applied_in_the_new_run() -> None:
    """[ROLL-5]"""
    before = given(started()).after(*connect(), rpc("write"), roll())
    response = Response(writes=(("k", b"1"),), output=b"ok", next_steps=(plan("A"),))
    then = before.when(complete(response, rpc_token()))
    assert answered(b"ok") in then.effects
    assert (latest(before).attributes, list(latest(before).steps)) == ({"k": b"1"}, ["A-1"])
    assert before.run(RUN).attributes == {}
    before.when(rpc("write", caller=2)).then(effects=[answered(b"ok", 2)])


def test_rpc_9_queued_rpc_finds_its_worker_after_the_roll_over() -> None:
    """[ROLL-5] Joined by an equal one; its snapshot is of the run then current."""
    before = given(started()).after(rpc("read"), roll(), rpc("read", caller=2))
    then = before.when(*connect())
    assert assigned(rpc_token(), run_id=RUN_2) in then.effects
    then = before.when(complete(Response(output=b"5"), rpc_token()))
    then.then_effects(acknowledged(rpc_token()), answered(b"5"), answered(b"5", 2))


def test_rpc_9_rpc_in_flight_reads_the_messages_of_its_snapshot() -> None:
    """[ROLL-4]"""
    before = given(started()).after(publish("c", b"1"), *connect(), rpc("read", request_id="q"), roll())
    before.after(publish("c", b"2", request_id="2"))
    (part,) = before.when(FetchPart(SessionId(1), rpc_token("q"), 1, is_channel=True, key="c")).effects
    assert isinstance(part, DeliverPart)
    assert [message.value for message in part.messages] == [b"1"]


def test_rpc_9_rpc_in_flight_hears_of_the_end_of_the_flow() -> None:
    """Not of that of the run."""
    before = given(started()).after(*connect(), rpc("read"), roll())
    then = before.when(stop(request_id="s"))
    (answer,) = [effect.answer for effect in then.effects if isinstance(effect, AnswerRpc)]
    assert isinstance(answer, Rejection)
    assert answer.code is Code.FLOW_NOT_ACTIVE


def test_rpc_12_requests_are_remembered() -> None:
    """[GEN-8, ROLL-3, ROLL-5] Nothing is answered or applied twice."""
    before = given(started()).after(publish("c", b"1")).after(roll())
    before.when(publish("c", b"1")).then(reply=PublishAccepted((f"{T0:011x}-00000002-00000",)))
    assert latest(before).pending_count == 1
    before.after(stop(request_id="s"), now=T0 + 1)
    before.when(stop(request_id="s")).then(reply=StopFlowResult(True, FlowStatus.CANCELED))


def test_roll_5_every_call_works_on_the_new_run() -> None:
    before = given(started(), scheduled("A-1")).after(roll())
    before.when(set_attribute("a", b"1", request_id="1")).then_events(attribute_set("a", b"1", "1"))
    before.when(stop(request_id="2")).then_events(Like(StepCanceled), Like(FlowClosed, status=FlowStatus.CANCELED))
    assert before.run(RUN).status is FlowStatus.CONTINUED_AS_NEW
