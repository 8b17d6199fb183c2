"""Attribute locks of Steps and RPCs [LOCK-1..5, RPC-5]."""

from collections.abc import Callable
from typing import Any

import pytest

from dexd.core.commands import Command, CompleteCall, Tick
from dexd.core.events import (
    ChannelPublished,
    ConditionsMet,
    ExecuteCompleted,
    RpcCompleted,
    StepCanceled,
    StepDeclined,
    StepScheduled,
    WaitForCompleted,
    WaitForFailed,
)
from dexd.core.ids import CallId, RunId
from dexd.core.invariants import violations
from dexd.core.matching.calls import CallStage
from dexd.core.rejections import Code, Rejection
from dexd.core.values import (
    Canceling,
    Decision,
    DecisionKind,
    FlowCapability,
    Method,
    Response,
    RpcTerms,
    StepOptions,
)
from tests.support.builders import (
    CONFIRMED,
    DEAD_END,
    FLOW_TYPE,
    PROCEED,
    RUN,
    SKIP,
    T0,
    WELCOME,
    abandon,
    accept,
    acknowledged,
    all_of,
    answered,
    assigned,
    canceled,
    channel,
    closed,
    complete,
    connect,
    decides,
    decline,
    fail,
    failure,
    force,
    go_to,
    graceful,
    lose,
    options,
    plan,
    publish,
    recovery,
    retry,
    rpc,
    rpc_token,
    scheduled,
    sent,
    serves,
    set_attribute,
    started,
    stop,
    token,
    waits,
)
from tests.support.given import Given, given
from tests.support.matchers import Like


def locks(*keys: str, **fields: Any) -> StepOptions:
    return options(execute_locks=keys, **fields)


L = locks("L")


def line(*chosen: StepOptions | None, streams: int = 4) -> Given:
    """A-1, A-2, ... of these options; a worker with that many streams comes then."""
    steps = [scheduled(f"A-{number}", options=option) for number, option in enumerate(chosen, start=1)]
    return given(started(), *steps).after(*connect(streams=streams))


def running(flow: Given) -> list[str]:
    return [step_id for step_id, step in flow.run().steps.items() if step.phase.name == "RUNNING"]


def done(step_id: str, number: int) -> CompleteCall:
    return complete(DEAD_END, token(step_id), number=number)


def conflict(lock: str, holder: str) -> Like:
    return Like(
        Rejection,
        code=Code.RPC_LOCK_CONFLICT,
        fields={"flow_id": "order-1", "rpc": "read", "lock": lock, "holder": holder},
    )


# ---- Steps ------------------------------------------------------------------------------------------------------


def test_lock_1_locks_are_exclusive_inside_one_execution() -> None:
    """[LOCK-3] The second Step waits although a stream is idle, without any deadline, and follows at once."""
    before = line(L, L).after(accept())
    assert running(before) == ["A-1"]
    assert before.run().locks == {"L": "A-1"}
    before.ticked(T0 + 15_000)
    assert before.step("A-2").attempt == 1
    before.when(done("A-1", 1), now=T0 + 16_000).then_events(
        Like(ExecuteCompleted), sent("A-2", attempt=1, waited_ms=0)
    )
    assert before.run().locks == {"L": "A-2"}


def test_lock_1_other_executions_are_not_concerned() -> None:
    before = given(
        started(), scheduled("A-1", options=L), started("order-2", "run-2"), scheduled("A-1", options=L)
    ).after(*connect(streams=2))
    assert [before.run(run_id).locks for run_id in (RUN, "run-2")] == [{"L": "A-1"}, {"L": "A-1"}]


def test_lock_1_each_method_has_its_own_locks() -> None:
    chosen = StepOptions(wait_for_locks=("W",), execute_locks=("E", "F"))
    before = given(started(), scheduled("A-1", wait_for=True, options=chosen)).after(*connect())
    assert before.run().locks == {"W": "A-1"}
    before.after(complete(SKIP))
    assert before.run().locks == {"E": "A-1", "F": "A-1"}


def test_lock_2_a_queued_call_holds_none_and_takes_all_at_hand_over() -> None:
    before = given(started(), scheduled("A-1", options=locks("L", "M")))
    assert before.run().locks == {}
    before.after(*connect())
    assert before.run().locks == {"L": "A-1", "M": "A-1"}


def test_lock_2_a_call_gets_all_its_locks_or_none() -> None:
    """A-3 wants both, and holds up nobody who wants neither."""
    before = line(locks("L"), locks("M"), locks("L", "M"), locks("N"), None, streams=8)
    assert running(before) == ["A-1", "A-2", "A-4", "A-5"]
    before.after(done("A-1", 1))
    assert before.run().locks == {"M": "A-2", "N": "A-4"}
    before.after(done("A-2", 2))
    assert before.run().locks == {"N": "A-4", "L": "A-3", "M": "A-3"}


def test_lock_2_kept_over_failures_backoff_and_losses_of_the_method() -> None:
    before = line(L, L)
    before.after(fail(failure()))
    assert (before.run().locks, before.step().phase.name) == ({"L": "A-1"}, "BACKOFF")
    before.ticked(T0 + 1_000)
    assert before.step().attempt == 2
    before.after(lose(1), now=T0 + 1_000).after(*connect(2, "w2", streams=2), now=T0 + 1_000)
    before.ticked(T0 + 60_000)
    assert before.run().locks == {"L": "A-1"}
    assert running(before) == ["A-1"]


def test_lock_2_kept_over_a_restart_in_backoff_and_in_flight() -> None:
    """And the one that waits goes on waiting."""
    before = line(L, L).after(fail(failure())).restarted()
    before.after(*connect(streams=2))
    assert (running(before), before.run().locks) == ([], {"L": "A-1"})
    before.ticked(T0 + 1_000)
    assert running(before) == ["A-1"]
    again = before.restarted()
    again.after(*connect(2, "w2", streams=2), now=T0 + 1_000)
    assert running(again) == ["A-1"]
    again.ticked(T0 + 6_000)
    assert again.run().locks == {"L": "A-1"}
    again.when(complete(DEAD_END, token("A-1", 2, 2), 2), now=T0 + 6_000).then_events(
        Like(ExecuteCompleted), sent("A-2")
    )


def test_lock_2_not_held_while_waiting_between_wait_for_and_execute() -> None:
    chosen = StepOptions(wait_for_locks=("L",), execute_locks=("L",))
    before = given(
        started(), scheduled("A-1", wait_for=True, options=chosen), scheduled("A-2", wait_for=True, options=chosen)
    ).after(*connect(streams=2))
    method = token("A-1", method=Method.WAIT_FOR)
    before.when(complete(waits(all_of(channel("c"))), method)).then_events(Like(WaitForCompleted), sent("A-2"))
    before.when(publish("c", b"1")).then_events(Like(ChannelPublished), Like(ConditionsMet))
    assert (before.run().locks, running(before)) == ({"L": "A-2"}, ["A-2"])


def test_lock_2_a_method_that_follows_another_asks_anew() -> None:
    """wait_for and execute both lock L: whoever asked in between comes first."""
    chosen = StepOptions(wait_for_locks=("L",), execute_locks=("L",))
    before = given(started(), scheduled("A-1", wait_for=True, options=chosen), scheduled("A-2", options=L))
    before.after(*connect(streams=2))
    method = token("A-1", method=Method.WAIT_FOR)
    before.when(complete(SKIP, method)).then_events(Like(WaitForCompleted), sent("A-2"))
    before.when(done("A-2", 2)).then_events(Like(ExecuteCompleted), sent("A-1"))


@pytest.mark.parametrize(
    "ending",
    [
        lambda: fail(failure(non_retryable=True), token("A-1")),
        lambda: complete(decides(go_to(plan("B"))), token("A-1")),
        lambda: complete(graceful(), token("A-1")),
    ],
)
def test_lock_2_released_when_the_call_ends_however_it_does(ending: Callable[[], Command]) -> None:
    """By its result, by exhausted retries with a recovery Step, by a branch that ends."""
    before = line(locks("L", recovery=recovery()), L)
    before.after(ending())
    assert before.run().locks == {"L": "A-2"}


def test_lock_2_released_when_wait_for_is_given_up() -> None:
    chosen = StepOptions(wait_for_locks=("L",), wait_for_retry=retry(maximum_attempts=1), wait_for_failure=PROCEED)
    before = given(started(), scheduled("A-1", wait_for=True, options=chosen), scheduled("A-2", options=L))
    before.after(*connect(streams=3))
    before.when(fail(failure(), token("A-1", method=Method.WAIT_FOR))).then_events(
        Like(WaitForFailed), sent("A-1"), sent("A-2")
    )


def test_lock_2_released_when_the_step_is_canceled() -> None:
    """[DEC-11] Also while it is in backoff; one that only waits for the lock leaves the line."""
    before = line(None, L, L, L)
    canceling = Decision(DecisionKind.DEAD_END, canceling=Canceling(("A",)))
    before.after(fail(failure(), token("A-2"), number=2))
    before.when(complete(canceling, token("A-1"))).then_events(
        Like(ExecuteCompleted), *(Like(StepCanceled, step_execution_id=f"A-{number}") for number in (2, 3, 4))
    )
    assert before.run().locks == {}


def test_lock_2_released_when_the_flow_closes() -> None:
    before = line(L, L, None)
    before.after(complete(force(), token("A-3"), number=2))
    assert before.run().locks == {}
    stopped = line(L, L).after(stop())
    assert stopped.run().locks == {}


def test_lock_2_a_declined_offer_gives_its_locks_back_and_keeps_its_place() -> None:
    """[DELIV-2, CAP-2] No handler was started; A-1 is still first in line."""
    before = line(L, L, streams=2)
    before.when(decline("NO_CAPACITY")).then_events(Like(StepDeclined))
    assert before.run().locks == {}
    before.when(*connect(2, "w2")).then_events(sent("A-1", worker_id="w2"))


def test_lock_3_oldest_request_first() -> None:
    before = line(L, L, L)
    before.when(done("A-1", 1)).then_events(Like(ExecuteCompleted), sent("A-2"))
    before.when(done("A-2", 2)).then_events(Like(ExecuteCompleted), sent("A-3"))


def test_lock_3_oldest_request_first_over_a_restart() -> None:
    """A request is as old as the moment when its Wait was met, not as its Step."""
    before = given(started(), scheduled("B-1"), scheduled("A-1", wait_for=True, options=L)).after(*connect(streams=3))
    method = token("A-1", method=Method.WAIT_FOR)
    before.after(complete(waits(all_of(channel("c"))), method, number=2))
    before.after(complete(decides(go_to(plan("A", options=L), plan("A", options=L))), token("B-1")))
    before.after(publish("c", b"1"))
    assert running(before) == ["A-2"]
    again = before.restarted().after(*connect(2, "w2", streams=3)).ticked(T0 + 6_000)
    result = complete(DEAD_END, token("A-2", 1, 2), 2)
    again.when(result, now=T0 + 6_000).then_events(Like(ExecuteCompleted), sent("A-3"))


def test_lock_3_a_later_request_passes_only_if_it_shares_no_lock() -> None:
    """A-3 wants what A-2 waits for, though it is free; A-4 shares nothing."""
    before = line(L, locks("L", "M"), locks("M"), locks("N"))
    assert running(before) == ["A-1", "A-4"]
    before.when(done("A-1", 1)).then_events(Like(ExecuteCompleted), sent("A-2"))
    before.when(done("A-2", 3)).then_events(Like(ExecuteCompleted), sent("A-3"))


def test_lock_3_who_leaves_the_line_makes_way() -> None:
    """[DEC-9] B-1 waited for L and M, which is free, and is canceled."""
    steps = (scheduled("A-1"), scheduled("A-2", options=L), scheduled("B-1", options=locks("L", "M")))
    before = given(started(), *steps, scheduled("A-3", options=locks("M"))).after(*connect(streams=4))
    assert running(before) == ["A-1", "A-2"]
    canceling = Decision(DecisionKind.DEAD_END, canceling=Canceling(("B",)))
    before.when(complete(canceling, token("A-1"))).then_events(Like(ExecuteCompleted), Like(StepCanceled), sent("A-3"))


def test_lock_3_waiting_for_a_lock_is_no_waiting_for_a_worker() -> None:
    """[OPT-1, ROUTE-3] The dispatch wait begins once the locks are free."""
    before = line(L, L, streams=1).ticked(T0 + 50_000)
    assert before.step("A-2").attempt == 1
    before.after(complete(DEAD_END, token("A-1")), lose(1), now=T0 + 50_000)
    before.when_time_passes(T0 + 54_999).then_events()


def test_lock_5_writes_of_others_are_applied() -> None:
    before = line(L, None)
    before.after(set_attribute("L", b"1"))
    before.after(complete(decides(DEAD_END, writes=(("L", b"2"),)), token("A-2"), number=2))
    assert before.run().attributes == {"L": b"2"}


def test_lock_5_locks_load_nothing() -> None:
    """[ATTR-6] The snapshot holds every Attribute, locked or not."""
    before = given(started(attributes=(("x", b"1"),)), scheduled("A-1", options=L))
    before.when(*connect()).then_effects(WELCOME, CONFIRMED, assigned(attributes={"x": b"1"}))


# ---- RPCs -------------------------------------------------------------------------------------------------------


def test_lock_4_an_rpc_never_waits_for_a_busy_lock() -> None:
    """Row 15: the Step holds it in backoff, too."""
    before = line(L)
    before.when(rpc(locks=("L",))).then(effects=[answered(conflict("L", "A-1"))])
    before.after(fail(failure()))
    before.when(rpc(locks=("K", "L"), request_id="q")).then(effects=[answered(conflict("L", "A-1"))])
    before.when(rpc(locks=("K",), request_id="s")).then_effects(assigned(rpc_token("s")))


def test_lock_4_an_rpc_holds_its_locks_until_its_answer() -> None:
    """[LOCK-3] A Step waits for it as for any other."""
    before = given(started()).after(*connect(streams=3), rpc(locks=("L",)), rpc("write", caller=2, request_id="w"))
    before.when(rpc(locks=("L",), caller=3, request_id="s")).then(
        effects=[answered(conflict("L", "sys:rpc-r"), caller=3)]
    )
    step = complete(Response(next_steps=(plan("A", options=L),)), rpc_token("w", nth=2), number=2)
    before.when(step).then_events(Like(RpcCompleted), Like(StepScheduled))
    before.when(complete(Response(output=b"1"), rpc_token())).then_events(Like(RpcCompleted), sent("A-1"))


@pytest.mark.parametrize("ending", ["fail", "time", "loss", "close"])
def test_lock_4_locks_of_an_rpc_are_free_however_it_ends(ending: str) -> None:
    before = given(started(), scheduled("B-1")).after(*connect(streams=3), rpc(locks=("L",)))
    match ending:
        case "fail":
            before.after(fail(failure(), rpc_token(), number=2))
        case "time":
            before.ticked(T0 + 20_000)
        case "loss":
            before.after(lose()).ticked(T0 + 5_000, T0 + 20_000)
        case _:
            before.after(stop(request_id="s"))
    assert before.kernel.dispatcher.locks.held == {}


def test_lock_4_an_rpc_that_lost_its_worker_keeps_its_locks_for_the_next_one() -> None:
    """[RPC-8, LOCK-2]"""
    before = given(started()).after(*connect(), rpc(locks=("L",), timeout_ms=60_000), lose()).ticked(T0 + 5_000)
    before.when(rpc(locks=("L",), caller=2, request_id="s"), now=T0 + 5_000).then(
        effects=[answered(conflict("L", "sys:rpc-r"), caller=2)]
    )
    before.when(*connect(2, "w2"), now=T0 + 5_000).then_effects(
        WELCOME, CONFIRMED, assigned(rpc_token(delivery=2), session=2)
    )


def test_lock_4_of_two_queued_calls_with_one_lock_the_second_is_refused() -> None:
    before = given(started()).after(rpc(locks=("L",)), rpc(locks=("L",), caller=2, request_id="s"))
    before.when(*connect(streams=2)).then_effects(
        WELCOME,
        CONFIRMED,
        assigned(rpc_token()),
        answered(conflict("L", "sys:rpc-r"), caller=2),
        CONFIRMED,
    )


def test_lock_4_a_queued_step_makes_way_for_an_rpc_and_keeps_its_place() -> None:
    """[LOCK-2] Looking for a worker is no claim on the lock."""
    before = given(started(), scheduled("X-1", options=L)).after(*connect())
    before.when(rpc(locks=("L",))).then_effects(assigned(rpc_token()))
    before.after(accept(rpc_token())).ticked(T0 + 9_000)
    before.after(complete(Response(), rpc_token()), now=T0 + 9_000)
    before.ticked(T0 + 18_000)
    assert before.step("X-1").attempt == 1
    before.ticked(T0 + 19_000)
    assert before.step("X-1").attempt == 2


def test_lock_4_a_step_that_gets_a_lock_refuses_queued_rpcs() -> None:
    before = given(started(), scheduled("A-1", options=L)).after(rpc(locks=("L",), timeout_ms=60_000))
    before.when(*connect()).then_effects(WELCOME, CONFIRMED, assigned(), answered(conflict("L", "A-1")))


def test_lock_4_of_calls_that_waited_for_a_worker_that_is_gone_one_gets_the_lock() -> None:
    """[ROUTE-1, LOCK-1] The Step is handed to another worker at once, so the RPC behind it must not be."""
    decision = go_to(plan("B"), plan("A", options=L))
    before = given(started(), scheduled("B-1")).after(*connect(), complete(decision, token("B-1")))
    before.after(rpc(locks=("L",), timeout_ms=60_000), *connect(2, "w2", streams=2))
    assert before.run().locks == {}
    before.when(lose()).then_effects(assigned(session=2, number=2), answered(conflict("L", "A-1")))
    assert before.run().locks == {"L": "A-1"}


def test_lock_4_an_abandoned_rpc_leaves_nothing_behind() -> None:
    before = given(started()).after(rpc(locks=("L",)), abandon()).after(*connect())
    before.when(rpc(locks=("L",), request_id="s")).then_effects(assigned(rpc_token("s", nth=2)))


def test_lock_4_a_declined_rpc_gives_its_locks_back_and_asks_again() -> None:
    before = given(started()).after(*connect(), rpc(locks=("L",)))
    before.after(decline("NO_CAPACITY", rpc_token()))
    assert before.kernel.dispatcher.locks.held == {}
    before.when(*connect(2, "w2")).then_effects(WELCOME, CONFIRMED, assigned(rpc_token(), session=2))
    assert before.kernel.dispatcher.locks.held == {(RUN, "sys:rpc-r"): ("L",)}


@pytest.mark.parametrize("terms", [{"locks": ("L",)}, {"is_transactional": True}])
def test_rpc_5_with_locks_or_as_a_transaction_a_closed_flow_is_not_read(terms: dict[str, Any]) -> None:
    """Before the handler is called, also when the Flow closes while the call is queued."""
    refusal = Like(Rejection, code=Code.FLOW_NOT_ACTIVE)
    after_close = given(started(), closed()).after(*connect())
    after_close.when(rpc(**terms)).then(effects=[answered(refusal)])
    queued = given(started()).after(rpc(**terms))
    queued.when(stop(request_id="s")).then_effects(answered(refusal))


@pytest.mark.parametrize("terms", [{"locks": ("L",)}, {"is_transactional": True}])
def test_rpc_5_with_locks_or_as_a_transaction_the_call_is_always_in_history(terms: dict[str, Any]) -> None:
    before = given(started()).after(*connect(), rpc(**terms))
    before.when(complete(Response(output=b"7"), rpc_token())).then(
        events=[Like(RpcCompleted, name="read", number=1)], effects=[acknowledged(rpc_token()), answered(b"7")]
    )


def test_chan_8_a_transaction_that_deletes_an_unknown_message_is_refused_as_a_whole() -> None:
    """[RPC-3]"""
    before = given(started()).after(*connect(), rpc(is_transactional=True))
    response = Response(writes=(("a", b"1"),), deletions=(("c", "nothing"),))
    before.when(complete(response, rpc_token())).then(
        effects=[
            acknowledged(rpc_token()),
            answered(Like(Rejection, code=Code.CHANNEL_MESSAGE_NOT_FOUND)),
        ]
    )


def test_rpc_5_a_caller_without_the_code_leaves_the_terms_to_the_workers() -> None:
    """[LOCK-4] The newest worker that says anything of the RPC counts."""
    terms = FlowCapability(FLOW_TYPE, frozenset("A"), frozenset(("read",)), {"read": RpcTerms(("L",))})
    before = given(started(), scheduled("A-1", options=L)).after(*connect(1, "w1", terms, streams=2))
    before.after(*connect(2, "w2", serves("Other")))
    before.when(rpc(is_resolving=True)).then(effects=[answered(conflict("L", "A-1"))])
    free = given(started()).after(*connect(), rpc(is_resolving=True))
    assert free.kernel.dispatcher.locks.held == {}


def test_rpc_2_an_rpc_cancels_steps_before_it_schedules_others() -> None:
    """[GEN-6, DEC-10, DEC-11]"""
    before = given(started(), scheduled("A-1"), scheduled("A-2")).after(*connect(streams=3), rpc())
    response = Response(canceling=("A", "Nothing"), next_steps=(plan("A"),))
    before.when(complete(response, rpc_token(), number=3)).then_events(
        Like(RpcCompleted, number=1),
        canceled("A-1", "STEP_CANCELED", by="sys:rpc:read#1"),
        canceled("A-2", "STEP_CANCELED", by="sys:rpc:read#1"),
        scheduled("A-3", from_step="sys:rpc:read#1"),
        sent("A-3"),
    )


def test_rpc_4_canceling_nothing_is_no_effect() -> None:
    before = given(started()).after(*connect(), rpc())
    before.when(complete(Response(canceling=("A",)), rpc_token())).then(
        effects=[acknowledged(rpc_token()), answered(b"")]
    )


def test_dec_2_an_rpc_that_cancels_the_last_step_lets_a_requested_completion_happen() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect(streams=3), rpc())
    before.after(complete(graceful(), token("A-1")))
    before.when(complete(Response(canceling=("B",)), rpc_token(), number=3)).then_events(
        Like(RpcCompleted), Like(StepCanceled), closed()
    )


LOCKING = FlowCapability(FLOW_TYPE, frozenset("A"), frozenset(("read",)), {"read": RpcTerms(("L",))})


def test_rpc_5_terms_that_nobody_knows_yet_hold_as_soon_as_a_worker_comes() -> None:
    """[LOCK-1, LOCK-4] They are refused or in line before any stream is theirs."""
    calls = (rpc(is_resolving=True), rpc(is_resolving=True, caller=2, request_id="s"))
    before = given(started()).after(*connect(3, "w3", serves("Other")), *calls)
    before.when(*connect(1, "w1", LOCKING, streams=2)).then_effects(
        WELCOME,
        CONFIRMED,
        assigned(rpc_token()),
        answered(conflict("L", "sys:rpc-r"), caller=2),
        CONFIRMED,
    )
    plain = given(started()).after(*calls)
    plain.when(*connect(streams=2)).then_effects(
        WELCOME, CONFIRMED, assigned(rpc_token()), CONFIRMED, assigned(rpc_token("s", nth=2), number=2)
    )


def test_rpc_5_terms_that_come_late_are_refused_if_the_flow_has_closed_or_the_lock_is_busy() -> None:
    late = given(started()).after(rpc(is_resolving=True), stop(request_id="s"))
    late.when(*connect(1, "w1", LOCKING)).then_effects(
        WELCOME, answered(Like(Rejection, code=Code.FLOW_NOT_ACTIVE)), CONFIRMED
    )
    gone = given(started()).after(rpc(is_resolving=True), abandon())
    gone.when(*connect(1, "w1", LOCKING)).then_effects(WELCOME, CONFIRMED)


def test_rpc_5_terms_stay_open_while_only_workers_of_other_flows_come() -> None:
    before = given(started()).after(rpc(is_resolving=True)).after(*connect(3, "w3", serves("Other")))
    before.when(*connect(1, "w1", LOCKING)).then_effects(WELCOME, CONFIRMED, assigned(rpc_token()))


def test_lock_4_a_call_that_was_answered_in_the_same_turn_is_not_refused_again() -> None:
    """As when the Step that got its lock has ended the Flow."""
    before = given(started()).after(rpc(locks=("L",)))
    (waiting,) = before.kernel.dispatcher.calls.values()
    before.after(abandon())
    before.kernel.dispatcher.locks.conflicts.append(waiting)
    before.when(Tick()).then_effects()


def test_lock_3_a_declined_rpc_does_not_pass_a_step_that_waits_for_its_lock() -> None:
    before = given(started(), scheduled("B-1")).after(*connect(streams=2), rpc(locks=("L",)))
    before.after(complete(go_to(plan("A", options=L)), token("B-1")))
    assert running(before) == []
    before.after(decline("DRAINING", rpc_token(), number=2))
    assert before.kernel.dispatcher.locks.held in ({}, {(RUN, "A-1"): ("L",)})


def test_lock_3_a_step_whose_backoff_is_over_waits_for_its_lock_like_any_other() -> None:
    """[FLOW-11] It found no worker, so it held nothing, and the next one in line took its place."""
    before = given(started(), scheduled("A-1", options=L), scheduled("A-2", options=L))
    before.ticked(T0 + 10_000, T0 + 11_000)
    assert before.kernel.dispatcher.calls[RunId(RUN), CallId("A-1")].stage is CallStage.BLOCKED
    assert violations(before.kernel, now=T0 + 11_000) == []
    before.after(*connect(streams=2), now=T0 + 11_000)
    assert running(before) == ["A-2"]
    before.after(complete(DEAD_END, token("A-2")), now=T0 + 11_000)
    assert running(before) == ["A-1"]
