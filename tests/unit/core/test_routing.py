"""Which worker gets which call, and how long a call looks for one [ROUTE-1..9, CAP-2, QUEUE-1, DRAIN-2]."""

import pytest

from dexd.core.commands import Command
from dexd.core.config import KernelConfig
from dexd.core.effects import AssignCall, ConfirmStreamClosed
from dexd.core.events import (
    ChannelPublished,
    ConditionsMet,
    ExecuteCompleted,
    ExecuteFailed,
    FlowClosed,
    FlowStarted,
    RpcCompleted,
    StepDeliveryLost,
    StepScheduled,
)
from dexd.core.ids import WorkerId
from dexd.core.values import DeclinedOffer, Failure, FlowCapability, Method, Response, StepOptions
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    T0,
    WORKER,
    accept,
    all_of,
    assigned,
    channel,
    close_stream,
    closed,
    complete,
    connect,
    decline,
    declined,
    dispatched,
    executed,
    go_to,
    goodbye,
    hello,
    lose,
    options,
    plan,
    publish,
    refused,
    retry,
    rpc,
    rpc_token,
    scheduled,
    sent,
    serves,
    stale,
    start,
    started,
    stream,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

SERVED_BY_W1 = (started(), scheduled("A-1"), dispatched("A-1"), executed("A-1"))
"""w1 is the sticky worker of the Flow [ROUTE-6]."""


def sticky(*steps: str, chosen: StepOptions | None = None, config: KernelConfig | None = None) -> Given:
    return given(*SERVED_BY_W1, *(scheduled(name, options=chosen) for name in steps), config=config)


def connected(*names: str) -> Given:
    """Idle workers, in that order, each a second after the one before; then a Flow starts on demand."""
    before = given()
    for number, name in enumerate(names, start=1):
        before.after(*connect(number, name), now=T0 + number * 1_000)
    return before


# ---- sticky -----------------------------------------------------------------------------------------------------


def test_route_1_call_goes_to_the_worker_that_last_served_the_flow() -> None:
    before = sticky().after(*connect(2, "w2"), *connect(1, "w1"))
    before.after(*connect(3, "w3"))
    before.when(rpc()).then_effects(assigned(rpc_token("r"), session=1))


def test_route_1_sticky_call_prefers_the_workers_own_queue() -> None:
    """[QUEUE-1]"""
    before = sticky("A-2").after(*connect(1, "w1", streams=0))
    before.after(stream(1, 7, "w1"), stream(1, 8, FLOW_TYPE))
    before.after(complete(DEAD_END, token("A-2"), number=8))
    before.when(rpc()).then_effects(assigned(rpc_token("r"), number=7))


def test_route_1_without_a_connected_stream_it_goes_to_the_type_queue_at_once() -> None:
    before = sticky("A-2").after(*connect(1, "w1", streams=0))
    before.when(*connect(2, "w2")).then_events(sent("A-2", worker_id="w2", is_sticky=False, waited_ms=0))


def busy_sticky(config: KernelConfig | None = None, *, other: FlowCapability | None = None) -> Given:
    """w1 is sticky and busy with B-1, w2 is idle, and A-1 wants a worker as soon as a message comes."""
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
        scheduled("B-1"),
        config=config,
    )
    before.after(*connect(1, "w1"), accept(token("B-1")), *connect(2, "w2", other or serves()))
    return before.after(publish("c", b"m"))


def test_route_2_busy_sticky_worker_is_waited_for_then_anybody_may_take_it() -> None:
    """W2."""
    before = busy_sticky()
    before.when_time_passes(T0 + 4_999).then()
    before.when_time_passes(T0 + 5_000).then_events(sent("A-1", worker_id="w2", is_sticky=False, waited_ms=5_000))


def test_route_2_sticky_worker_that_frees_a_stream_in_time_takes_it() -> None:
    before = busy_sticky()
    before.when(complete(DEAD_END, token("B-1")), now=T0 + 3_000).then_events(
        Like(ExecuteCompleted), sent("A-1", worker_id="w1", is_sticky=True, waited_ms=3_000)
    )


def test_route_2_after_the_sticky_wait_the_sticky_worker_may_still_take_it() -> None:
    before = busy_sticky(other=serves(steps="B")).ticked(T0 + 5_000)
    before.when(complete(DEAD_END, token("B-1")), now=T0 + 6_000).then_events(
        Like(ExecuteCompleted), sent("A-1", worker_id="w1", is_sticky=False)
    )


def test_route_2_no_capacity_does_not_end_the_sticky_wait() -> None:
    before = busy_sticky().after(stream(1, 9, "w1"))
    before.when(decline("NO_CAPACITY", token("A-1"), number=9)).then_events(declined("A-1"))
    before.when(complete(DEAD_END, token("B-1")), now=T0 + 30).then_events(
        Like(ExecuteCompleted),
        sent("A-1", worker_id="w1", is_sticky=True, declined=(DeclinedOffer("w1", "NO_CAPACITY"),)),
    )


@pytest.mark.parametrize("reason", ["DRAINING", "UNKNOWN_STEP"])
def test_route_2_other_declines_end_the_sticky_wait(reason: str) -> None:
    before = busy_sticky().after(stream(1, 9, "w1"))
    before.when(decline(reason, token("A-1"), number=9)).then_events(
        declined("A-1", reason), sent("A-1", worker_id="w2")
    )


@pytest.mark.parametrize("end", [lose(), goodbye(), close_stream()])
def test_route_1_last_stream_of_the_sticky_worker_goes(end: Command) -> None:
    """W3: the call moves to the type queue at once."""
    busy_sticky().when(end, now=T0 + 1_000).then_events(sent("A-1", worker_id="w2", waited_ms=1_000))


def test_route_1_sticky_wait_goes_on_while_another_stream_is_there() -> None:
    before = (
        busy_sticky(other=serves(steps="B"))
        .after(stream(1, 9, "Order"))
        .after(decline("NO_CAPACITY", token("A-1"), number=9))
    )
    before.when(close_stream(1, 9)).then_effects(Like(ConfirmStreamClosed))
    assert before.kernel.dispatcher.matcher.sticky_calls(WORKER)


def test_route_2_sticky_wait_above_the_dispatch_wait_is_legal_and_the_shorter_rules() -> None:
    before = busy_sticky(KernelConfig(sticky_wait_ms=60_000, dispatch_wait_ms=3_000))
    before.when_time_passes(T0 + 3_000).then_events(
        Like(ExecuteFailed, step_execution_id="A-1", failure=Like(Failure, error_type="NO_WORKER_AVAILABLE"))
    )


def test_route_6_sticky_is_whose_output_was_last_accepted() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect(1, "w1"), *connect(2, "w2"))
    before.after(complete(DEAD_END, token("B-1"), session=2))
    assert before.run().last_worker == "w2"
    before.after(complete(DEAD_END, token("A-1"), session=1))
    assert before.run().last_worker == "w1"


# ---- dispatch wait ----------------------------------------------------------------------------------------------


def test_route_4_no_worker_within_the_dispatch_wait_costs_an_attempt() -> None:
    """[ROUTE-3] W6."""
    before = given(started(), scheduled("A-1"))
    before.when_time_passes(T0 + 9_999).then(next_deadline=T0 + 10_000)
    detail = "no worker for Flow type 'Order' within 10000 ms to run Step 'A'"
    before.when_time_passes(T0 + 10_000).then_events(
        Like(ExecuteFailed, attempt=1, delivery=0, is_reported=False, worker_id="", retry_at=T0 + 11_000)
    )
    failed = before.step().failure
    assert failed is not None
    assert (failed.error_type, failed.detail) == ("NO_WORKER_AVAILABLE", detail)
    before.ticked(T0 + 11_000)
    before.when(*connect(), now=T0 + 12_000).then_events(sent("A-1", attempt=2, delivery=1, waited_ms=1_000))


def test_route_3_dispatch_wait_ends_with_the_method_timeout_of_the_attempt() -> None:
    """[OPT-1]"""
    before = given(started(), scheduled("A-1", options=options(execute_timeout_ms=2_000)))
    before.when_time_passes(T0 + 2_000).then_events(Like(ExecuteFailed))


def test_route_4_retry_policy_is_followed_to_its_end() -> None:
    """W5 without any worker."""
    before = given(started(), scheduled("A-1", options=options(execute_retry=retry(maximum_attempts=2))))
    before.when_time_passes(T0 + 21_000).then_events(
        Like(ExecuteFailed, attempt=1), Like(ExecuteFailed, attempt=2), Like(FlowClosed)
    )
    assert "no worker for Flow type 'Order'" in before.run().error_message


def test_route_4_busy_workers_are_named_as_the_reason() -> None:
    before = given(
        started(), scheduled("A-1"), scheduled("B-1", options=options(execute_retry=retry(maximum_attempts=1)))
    )
    before.after(*connect()).ticked(T0 + 10_000)
    assert "all 1 workers of Flow type 'Order' that know Step 'B' were busy for 10000 ms" in before.run().error_message


# ---- unknown names ----------------------------------------------------------------------------------------------


def test_route_5_worker_that_lacks_the_step_is_passed_over_and_recorded_when_the_flow_was_sticky_to_it() -> None:
    """W4: at once, as attempt 1, and history shows it."""
    before = sticky("B-1").after(*connect(2, "w2", streams=0), *connect(1, "w1", serves(steps="A")))
    before.when(stream(2, 1, FLOW_TYPE)).then_events(
        sent("B-1", attempt=1, worker_id="w2", declined=(DeclinedOffer("w1", "UNKNOWN_STEP"),)),
    )
    late = sticky().after(*connect(1, "w1", serves(steps="A")), *connect(2, "w2"))
    late.after(rpc("write"))
    late.when(complete(Response(next_steps=(plan("B"),)), rpc_token("r"), session=1)).then_events(
        Like(RpcCompleted),
        Like(StepScheduled),
        sent("B-1", worker_id="w2", declined=(DeclinedOffer("w1", "UNKNOWN_STEP"),)),
    )


def test_route_5_decline_for_an_unknown_step_excludes_the_worker_from_this_dispatch() -> None:
    before = sticky("A-2").after(*connect(1, "w1"), *connect(2, "w2"))
    before.when(decline("UNKNOWN_STEP", token("A-2"))).then(
        events=[
            declined("A-2", "UNKNOWN_STEP"),
            sent("A-2", attempt=1, delivery=1, worker_id="w2", declined=(DeclinedOffer("w1", "UNKNOWN_STEP"),)),
        ],
        effects=[assigned(token("A-2"), session=2)],
    )


def test_route_5_nobody_knows_the_step() -> None:
    """W5: the Flow fails with an error that names it."""
    chosen = options(execute_retry=retry(maximum_attempts=2))
    config = KernelConfig(dispatch_wait_ms=1_000)
    before = given(started(), scheduled("X-1", options=chosen), config=config).after(*connect())
    before.when_time_passes(T0 + 3_000).then_events(
        Like(ExecuteFailed, attempt=1), Like(ExecuteFailed, attempt=2), Like(FlowClosed)
    )
    assert "no worker of Flow type 'Order' knows Step 'X' (1 connected, waited 1000 ms)" in before.run().error_message


def test_route_5_only_worker_that_declines_as_unknown_leaves_nobody() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("UNKNOWN_STEP"))
    before.ticked(T0 + 10_000)
    failed = before.step().failure
    assert failed is not None
    assert "knows Step 'A'" in failed.detail


def test_route_5_exclusion_ends_with_the_dispatch() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("UNKNOWN_STEP"))
    before.ticked(T0 + 10_000)
    before.when_time_passes(T0 + 11_000).then_events(sent("A-1", attempt=2, worker_id="w1"))


# ---- choice among workers ---------------------------------------------------------------------------------------


def next_worker(before: Given) -> int:
    then = before.when(start("order-9", "run-9", step=plan("A")))
    (effect,) = (effect for effect in then.effects if isinstance(effect, AssignCall))
    return effect.session


def test_route_7_least_busy_relative_to_its_limit_comes_first() -> None:
    before = given()
    before.after(*connect(1, "w1", limit=2, streams=2), *connect(2, "w2", limit=8, streams=3))
    before.after(start("order-1", "run-1", step=plan("A")), start("order-2", "run-2", step=plan("A")))
    assert before.kernel.dispatcher.matcher.workers[WORKER].busy == 1
    assert before.kernel.dispatcher.matcher.workers[WorkerId("w2")].busy == 1
    assert next_worker(before) == 2


def test_route_7_then_longest_idle_then_worker_id() -> None:
    assert next_worker(connected("w2", "w1")) == 1
    before = given().after(*connect(1, "w2"), *connect(2, "w1"))
    assert next_worker(before) == 2


def test_route_7_calls_of_one_queue_are_served_in_arrival_order() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1"), scheduled("A-2"))
    before.when(*connect()).then_events(sent("A-1"))
    before.when(complete(DEAD_END, token("A-1"))).then_events(Like(ExecuteCompleted), sent("B-1"))
    before.when(complete(DEAD_END, token("B-1"))).then_events(Like(ExecuteCompleted), sent("A-2"))


def test_route_7_blocked_call_does_not_delay_another_that_could_run() -> None:
    before = given(started(), scheduled("X-1"), scheduled("A-1"))
    before.when(*connect()).then_events(sent("A-1"))


def test_route_7_declined_call_keeps_its_place() -> None:
    before = given(started(), scheduled("A-1"), scheduled("A-2"), scheduled("A-3")).after(*connect(1, "w1"))
    before.after(decline("DRAINING"))
    before.when(*connect(2, "w2")).then_events(sent("A-1", worker_id="w2"))


def test_route_7_call_from_a_sticky_wait_takes_its_old_place_in_the_type_queue() -> None:
    before = busy_sticky(other=serves(steps="B")).after(start("order-2", "run-2", step=plan("A")), now=T0 + 1_000)
    before.ticked(T0 + 5_000)
    before.when(*connect(3, "w3")).then_events(sent("A-1", waited_ms=5_000))


def test_route_7_longer_waiting_call_is_not_overtaken_by_the_successor_of_a_result() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect())
    before.when(complete(go_to(plan("Recover")))).then_events(Like(ExecuteCompleted), Like(StepScheduled), sent("B-1"))


def test_route_7_free_stream_of_another_type_is_offered_when_its_worker_has_room_again() -> None:
    """A full worker's other idle streams are not forgotten when it frees a slot."""
    other = started("x", "run-x", flow_type="Other")
    before = given(started(), scheduled("A-1"), scheduled("A-2"), other, scheduled("A-1"))
    before.after(*connect(1, "w1", serves(), serves("Other"), limit=1, streams=2))
    assert before.kernel.dispatcher.matcher.workers[WORKER].busy == 2
    then = before.when(complete(DEAD_END))
    then.then_events(Like(ExecuteCompleted), sent("A-1"))
    assert then.effects[-1] == assigned(token("A-1", run="run-x"), number=4)


# ---- capacity ---------------------------------------------------------------------------------------------------


def test_cap_2_worker_without_capacity_is_passed_over_at_once() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2"))
    before.when(decline("NO_CAPACITY")).then_events(
        declined("A-1"),
        sent("A-1", attempt=1, delivery=1, worker_id="w2", declined=(DeclinedOffer("w1", "NO_CAPACITY"),)),
    )


def test_cap_2_only_worker_is_offered_again_after_a_pause_that_doubles() -> None:
    before = given(started(), scheduled("A-1")).after(*connect())
    for delay in (50, 100, 200, 400, 800, 1_000, 1_000):
        before.when(decline("NO_CAPACITY")).then_events(declined("A-1"))
        resumed = before.now + delay
        before.when_time_passes(resumed - 1).then()
        before.when_time_passes(resumed).then_events(sent("A-1", attempt=1, delivery=1))


def test_cap_2_worker_that_frees_a_slot_is_offered_again_at_once() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect(streams=2))
    before.after(decline("NO_CAPACITY", token("B-1"), number=2))
    then = before.when(complete(DEAD_END))
    then.then_events(Like(ExecuteCompleted), sent("B-1"))


def test_cap_2_tight_worker_gets_no_more_than_it_should_have_room_for() -> None:
    """For a while after a decline it is offered what its own numbers allow, not one more."""
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect(limit=1, streams=3))
    before.after(decline("NO_CAPACITY", token("B-1"), number=2))
    before.when_time_passes(T0 + 999).then()
    before.when_time_passes(T0 + 1_000).then_events(sent("B-1"))


def test_cap_2_decline_of_a_step_does_not_keep_rpcs_away() -> None:
    """[RES-3] The reserve."""
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("NO_CAPACITY"))
    before.when(rpc()).then_effects(assigned(rpc_token("r")))


def test_cap_2_pauses_for_rpcs_and_steps_end_each_in_its_own_time() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(streams=2)).after(rpc())
    before.after(decline("NO_CAPACITY", rpc_token("r"), number=2))
    before.after(decline("NO_CAPACITY", token("A-1")), now=T0 + 10)
    before.when_time_passes(T0 + 50).then_effects(assigned(rpc_token("r"), number=1))
    before.when_time_passes(T0 + 110).then_effects(assigned(token("A-1"), number=2))


def test_cap_2_full_worker_gets_at_most_one_more_than_its_limit() -> None:
    """Its word counts, not the server's arithmetic; but idle streams are no capacity."""
    before = given(started(), *(scheduled(f"A-{number}") for number in range(1, 6)))
    before.after(*connect(limit=2, streams=5))
    assert before.kernel.dispatcher.matcher.workers[WORKER].busy == 3


def test_res_3_reserve_is_kept_free_of_steps() -> None:
    before = given(started(), *(scheduled(f"A-{number}") for number in range(1, 6)))
    before.after(*connect(limit=4, reserve=2, streams=5))
    assert before.kernel.dispatcher.matcher.workers[WORKER].busy == 3
    before.when(rpc()).then_effects(assigned(rpc_token("r"), number=5))


@pytest.mark.parametrize("count", [3, 20])
def test_route_9_declined_offers_are_named_up_to_sixteen_then_counted(count: int) -> None:
    before = given(started(), scheduled("A-1"))
    for number in range(1, count + 1):
        before.after(*connect(number, f"w{number}"))
        before.after(decline("DRAINING", session=number))
    then = before.when(*connect(99, "last"))
    named = tuple(DeclinedOffer(f"w{number}", "DRAINING") for number in range(1, min(count, 16) + 1))
    then.then_events(sent("A-1", worker_id="last", declined=named, declined_more=max(0, count - 16)))


def test_route_9_workers_that_lack_the_step_are_named_after_declines_up_to_sixteen_in_all() -> None:
    """[ROUTE-5]"""
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1")).after(decline("DRAINING"))
    for number in range(2, 20):
        before.after(*connect(number, f"w{number}", serves(steps="B")))
    before.after(goodbye(2))  # takes nothing any more, so it was not passed over
    then = before.when(*connect(99, "last"))
    named = (DeclinedOffer("w1", "DRAINING"), *(DeclinedOffer(f"w{n}", "UNKNOWN_STEP") for n in range(3, 18)))
    then.then_events(sent("A-1", worker_id="last", declined=named, declined_more=2))


def test_route_5_worker_that_learned_the_step_or_went_is_not_recorded() -> None:
    """A new Hello, or the end of the last session, changes what is known of a worker."""
    before = given(started(), scheduled("A-1"))
    before.after(*connect(1, "w1", serves(steps="B")), *connect(2, "w2", serves(steps="B")))
    before.when(*connect(3, "w3")).then_events(
        sent("A-1", declined=(DeclinedOffer("w1", "UNKNOWN_STEP"), DeclinedOffer("w2", "UNKNOWN_STEP")))
    )
    before.after(lose(1), hello(4, "w2", serves(), incarnation="i1"), goodbye(3))
    before.when(start("order-2", "run-2", step=plan("A"))).then_events(
        Like(FlowStarted), Like(StepScheduled), sent("A-1", worker_id="w2", declined=())
    )


def test_declined_offer_leaves_attempt_and_first_attempt_at_untouched() -> None:
    """[DELIV-2, CTX-3]"""
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("DRAINING"))
    step = before.step()
    assert (step.attempt, step.delivery, step.first_attempt_at) == (1, 0, 0)


def test_decline_of_a_stale_delivery_only_frees_the_stream() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2")).ticked(T0 + 5_000)
    before.when(decline("NO_CAPACITY")).then()
    before.when(start("order-2", "run-2", step=plan("A"))).then_effects(assigned(token("A-1", run="run-2")))
    before.when(complete(DEAD_END)).then(events=[stale("A-1")], effects=[refused("STALE")])


def test_closed_flow_no_longer_waits_for_anybody() -> None:
    before = given(started(), scheduled("A-1"), closed()).after(*connect())
    assert not before.kernel.dispatcher.calls


def test_route_9_declines_of_an_earlier_dispatch_are_forgotten_with_it() -> None:
    """A redelivery begins afresh: who declined before may take it now."""
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2"))
    before.after(decline("DRAINING"), accept(session=2), lose(2))
    before.when_time_passes(T0 + 5_000).then_events(
        Like(StepDeliveryLost, worker_id="w2"), sent("A-1", delivery=2, worker_id="w1", declined=())
    )


def test_route_2_decline_after_the_sticky_wait_leaves_the_call_on_the_type_queue() -> None:
    before = busy_sticky(other=serves(steps="B")).ticked(T0 + 5_000).after(stream(1, 9, FLOW_TYPE))
    before.after(decline("NO_CAPACITY", token("A-1"), number=9))
    before.when(*connect(3, "w3")).then_events(sent("A-1", worker_id="w3", is_sticky=False))


def test_route_5_sticky_worker_that_no_longer_serves_the_flow_type_is_noted() -> None:
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
    )
    before.after(*connect(1, "w1", serves("Other")), *connect(2, "w2"))
    before.when(publish("c", b"m")).then_events(
        Like(ChannelPublished),
        Like(ConditionsMet),
        sent("A-1", worker_id="w2", is_sticky=False, declined=(DeclinedOffer("w1", "UNKNOWN_STEP"),)),
    )


def test_route_1_declined_call_leaves_the_sticky_queue_once_when_its_worker_goes() -> None:
    """Listed twice, it would be handed out and queued again at the same time."""
    before = busy_sticky(other=serves(steps="B")).after(stream(1, 9, "w1"))
    before.after(publish("c", b"n", request_id="s"), decline("NO_CAPACITY", token("A-1"), number=9))
    before.after(*connect(3, "w3", serves(steps="A")))
    before.when(lose(1)).then_events(sent("A-1", worker_id="w3"))
