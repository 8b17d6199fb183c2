"""RPCs from request to answer [RPC-1, RPC-3, RPC-4, RPC-6..9, RPC-12, ID-11, ID-12, ROUTE-4, ROUTE-5]."""

import pytest

from dexd.core.config import (
    ACTIVE_STEPS_MAX,
    MOVEMENTS_MAX,
    PENDING_MESSAGES_MAX,
    PUBLICATIONS_MAX,
    RECORDED_EVENTS_MAX,
)
from dexd.core.effects import AnswerRpc, EndSession
from dexd.core.events import ExecuteCompleted, FlowClosed, FlowConfigUpdated, RpcCompleted
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import FlowConfig
from dexd.core.values import Method, Response
from tests.support.builders import (
    CONFIRMED,
    DEAD_END,
    FLOW,
    RUN,
    T0,
    WELCOME,
    WORKER,
    abandon,
    accept,
    acknowledged,
    all_of,
    answered,
    assigned,
    cancel,
    channel,
    closed,
    complete,
    connect,
    decline,
    dispatched,
    fail,
    failure,
    force,
    hello,
    lose,
    message_ids,
    met,
    plan,
    publish,
    record,
    refused,
    rpc,
    rpc_token,
    running,
    scheduled,
    sent,
    serves,
    set_attribute,
    started,
    stop,
    stream,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

CALL = rpc_token("r")
OUTPUT = Response(output=b"42")


def refusal(code: Code, **fields: str) -> Like:
    """A rejection with exactly these fields."""
    return Like(Rejection, code=code, fields={"flow_id": FLOW, **fields})


def open_flow(*, workers: bool = True) -> Given:
    before = given(started(attributes=(("a", b"1"),)))
    return before.after(*connect()) if workers else before


def called(**fields: object) -> Given:
    """A worker runs the RPC."""
    return open_flow().after(rpc(**fields))  # type: ignore[arg-type] # checked by rpc


# ---- the call ---------------------------------------------------------------------------------------------------


def test_rpc_1_call_goes_to_a_worker_and_nothing_is_recorded() -> None:
    """[RPC-4] [ATTR-6] The handler sees the Flow as it stands."""
    open_flow().when(rpc()).then(
        effects=[
            assigned(
                CALL,
                name="read",
                input=b"1",
                attributes={"a": b"1"},
                deadline=T0 + 10_000,
                from_step="",
                first_attempt_at=T0,
            )
        ],
        next_deadline=T0 + 5_000,
    )


def test_rpc_1_answer_goes_to_the_caller() -> None:
    called().when(complete(OUTPUT, CALL)).then(effects=[acknowledged(CALL), answered(b"42")])


def test_rpc_3_exception_gives_type_detail_and_stack_and_no_effect() -> None:
    """Acceptance example 17."""
    called().when(fail(failure("Boom", "why", stack="s"), CALL)).then(
        effects=[
            acknowledged(CALL),
            answered(
                refusal(
                    Code.WORKER_API_ERROR,
                    rpc="read",
                    worker_error_type="Boom",
                    worker_error_detail="why",
                    worker_stack="s",
                )
            ),
        ]
    )


def test_rpc_4_call_on_an_unknown_flow_is_not_found() -> None:
    given().when(rpc()).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)


def test_rpc_4_closed_execution_can_be_read() -> None:
    """Acceptance example 16."""
    before = given(started(attributes=(("a", b"1"),)), closed()).after(*connect())
    before.when(rpc()).then_effects(assigned(CALL, attributes={"a": b"1"}))
    before.when(complete(OUTPUT, CALL)).then(effects=[acknowledged(CALL), answered(b"42")])


def test_rpc_4_effects_on_a_flow_that_is_closed_at_apply_are_refused() -> None:
    before = given(started(), closed()).after(*connect()).after(rpc("write"))
    before.when(complete(Response(writes=(("a", b"1"),)), CALL)).then(
        effects=[acknowledged(CALL), answered(refusal(Code.FLOW_NOT_ACTIVE, run_id=RUN, status="COMPLETED"))]
    )


# ---- effects ----------------------------------------------------------------------------------------------------


def test_rpc_3_effects_are_applied_together_and_their_steps_follow_in_the_same_outcome() -> None:
    """[ID-12] The source names the RPC and counts its calls."""
    response = Response(
        output=b"42",
        writes=(("a", b"2"),),
        publications=(("c", b"m"),),
        recorded=(("n", b"3"),),
        next_steps=(plan("A"), plan("B")),
    )
    completed = RpcCompleted(
        "write",
        1,
        WORKER,
        record("r", b"42"),
        (("a", b"2"),),
        ((message_ids(2)[0], "c", b"m"),),
        (("n", b"3"),),
    )
    before = called(name="write")
    before.when(complete(response, CALL)).then(
        events=[
            completed,
            scheduled("A-1", from_step="sys:rpc:write#1"),
            scheduled("B-1", from_step="sys:rpc:write#1"),
            sent("A-1"),
        ],
        effects=[acknowledged(CALL), answered(b"42"), assigned(token("A-1"), attributes={"a": b"2"})],
    )
    before.after(complete(DEAD_END, token("A-1")), complete(DEAD_END, token("B-1")))
    again = rpc_token("r2", nth=2)
    before.after(rpc("write", request_id="r2"))
    before.when(complete(Response(next_steps=(plan("A"),)), again)).then_events(
        Like(RpcCompleted, number=2), scheduled("A-2", from_step="sys:rpc:write#2"), sent("A-2")
    )


def test_publication_of_an_rpc_satisfies_a_wait() -> None:
    """[WAIT-4]"""
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
    )
    before = before.after(*connect()).after(rpc("write"))
    before.when(complete(Response(publications=(("c", b"m"),)), CALL)).then_events(
        Like(RpcCompleted), met("A-1", (0,), (0, message_ids(5))), sent("A-1")
    )


def test_dec_2_step_scheduled_by_an_rpc_revives_a_flow_whose_branches_have_ended() -> None:
    """Acceptance example 11."""
    before = given(started(), scheduled("A-1")).after(*connect()).after(complete(DEAD_END), rpc("write"))
    before.when(complete(Response(next_steps=(plan("B"),)), CALL)).then_events(
        Like(RpcCompleted), scheduled("B-1", from_step="sys:rpc:write#1"), sent("B-1")
    )


def test_rpc_6_rpcs_without_locks_have_no_isolation() -> None:
    """Both read the same value, and the last commit wins [ATTR-2]."""
    before = given(started(attributes=(("a", b"0"),))).after(*connect(streams=2))
    before.when(rpc("write", request_id="1"), rpc("write", caller=2, request_id="2")).then_effects(
        assigned(rpc_token("1"), attributes={"a": b"0"}, number=2),
        assigned(rpc_token("2", nth=2), attributes={"a": b"0"}, number=1),
    )
    before.after(
        complete(Response(writes=(("a", b"2"),)), rpc_token("2", nth=2)),
        complete(Response(writes=(("a", b"1"),)), rpc_token("1"), number=2),
    )
    assert before.run().attributes == {"a": b"1"}


def test_rpc_10_read_after_an_acknowledged_write_sees_it() -> None:
    before = open_flow().after(set_attribute("a", b"2", request_id="s"), publish("c", b"m", request_id="p"))
    before.when(rpc()).then_effects(assigned(CALL, attributes={"a": b"2"}, channel_sizes={"c": 1}))


@pytest.mark.parametrize(
    ("response", "what", "size", "limit"),
    [
        (
            Response(publications=(("c", b""),) * (PUBLICATIONS_MAX + 1)),
            "publications",
            PUBLICATIONS_MAX + 1,
            PUBLICATIONS_MAX,
        ),
        (Response(recorded=(("n", b""),) * 101), "recorded events", 101, RECORDED_EVENTS_MAX),
        (Response(next_steps=(plan(),) * 10_001), "next Steps", 10_001, MOVEMENTS_MAX),
    ],
)
def test_lim_2_effects_beyond_a_limit_are_refused_as_a_whole(
    response: Response, what: str, size: int, limit: int
) -> None:
    called(name="write").when(complete(response, CALL)).then(
        effects=[
            acknowledged(CALL),
            answered(refusal(Code.VALUE_TOO_LARGE, what=what, size=str(size), limit=str(limit))),
        ]
    )


def test_lim_2_active_steps_are_bounded_for_rpcs_too() -> None:
    before = given(started(), *(scheduled(f"B-{number}") for number in range(1, ACTIVE_STEPS_MAX + 1)))
    kernel = before.kernel
    for command in (*connect(1, "w1", serves(steps="")), rpc("write")):
        kernel.handle(command, now=T0)
    # Invariants over 50,000 Steps after each command would take the time of all other tests.
    outcome = kernel.handle(complete(Response(next_steps=(plan(),)), CALL), now=T0)
    limit = str(ACTIVE_STEPS_MAX)
    size = str(ACTIVE_STEPS_MAX + 1)
    refused_steps = refusal(Code.VALUE_TOO_LARGE, what="active Steps", size=size, limit=limit)
    assert outcome.effects == (acknowledged(CALL), answered(refused_steps))
    assert outcome.events == ()


def test_chan_10_publications_of_an_rpc_beyond_the_limit_are_refused() -> None:
    before = given(started()).after(publish("c", *[b""] * PENDING_MESSAGES_MAX, request_id="p")).after(*connect())
    before.after(rpc("write"))
    before.when(complete(Response(publications=(("c", b""),)), CALL)).then(
        effects=[acknowledged(CALL), answered(Like(Rejection, code=Code.CHANNEL_FULL))]
    )


# ---- repeats ----------------------------------------------------------------------------------------------------


def test_rpc_12_repeat_of_an_effectful_call_gets_the_stored_answer() -> None:
    """[GEN-8] Also after a restart."""
    before = called(name="write").after(complete(Response(output=b"42", writes=(("a", b"1"),)), CALL))
    before.when(rpc("write", caller=2)).then(effects=[answered(b"42", 2)])
    before.restarted().when(rpc("write", caller=2)).then(effects=[answered(b"42", 2)])


def test_rpc_12_call_without_effects_is_run_again() -> None:
    called().after(complete(OUTPUT, CALL)).when(rpc(caller=2)).then_effects(assigned(rpc_token(nth=2)))


def test_rpc_12_equal_call_under_way_is_joined_and_both_callers_are_answered() -> None:
    before = called()
    before.when(rpc(caller=2)).then()
    before.when(complete(OUTPUT, CALL)).then(effects=[acknowledged(CALL), answered(b"42", 1), answered(b"42", 2)])


def test_rpc_12_same_request_id_with_other_content_is_a_conflict() -> None:
    under_way = called()
    under_way.when(rpc(caller=2, content="other")).then(
        effects=[answered(refusal(Code.REQUEST_CONFLICT, request_id="r"), 2)]
    )
    applied = called(name="write").after(complete(Response(writes=(("a", b"1"),)), CALL))
    applied.when(rpc("write", caller=2, content="other")).then(
        effects=[answered(refusal(Code.REQUEST_CONFLICT, request_id="r"), 2)]
    )


def test_id_5_run_id_narrows_a_call() -> None:
    open_flow().when(rpc(run_id="other")).then(
        effects=[answered(refusal(Code.FLOW_NOT_ACTIVE, run_id=RUN, expected="other"))]
    )
    open_flow().when(rpc(run_id=RUN)).then_effects(assigned(CALL))


# ---- time -------------------------------------------------------------------------------------------------------


def test_rpc_7_timeout_runs_from_hand_over_and_a_late_result_is_refused() -> None:
    before = open_flow(workers=False).after(rpc(timeout_ms=3_000)).after(*connect(), now=T0 + 4_000)
    before.after(accept(CALL))
    before.when_time_passes(T0 + 6_999).then()
    before.when_time_passes(T0 + 7_000).then(
        effects=[cancel("TIMEOUT", CALL), answered(refusal(Code.RPC_TIMEOUT, rpc="read"))]
    )
    before.when(complete(OUTPUT, CALL)).then(effects=[refused("STALE", CALL)])


def test_rpc_7_whole_call_is_capped_waiting_included() -> None:
    before = open_flow().after(rpc(timeout_ms=9_000, expires_at=T0 + 2_000)).after(accept(CALL))
    before.when_time_passes(T0 + 2_000).then_effects(
        cancel("TIMEOUT", CALL), answered(refusal(Code.RPC_TIMEOUT, rpc="read"))
    )


def test_rpc_7_call_whose_time_is_over_before_the_dispatch_wait_has_expired() -> None:
    before = open_flow(workers=False).after(rpc(expires_at=T0 + 2_000))
    before.when_time_passes(T0 + 2_000).then(effects=[answered(refusal(Code.RPC_TIMEOUT, rpc="read"))])


def test_route_4_no_worker_within_the_dispatch_wait() -> None:
    before = open_flow(workers=False).after(rpc())
    before.when_time_passes(T0 + 9_999).then()
    answer = Rejection(
        Code.NO_WORKER_AVAILABLE,
        "no worker for Flow type 'Order' within 10000 ms to run RPC 'read'",
        {"flow_id": FLOW, "rpc": "read"},
    )
    before.when_time_passes(T0 + 10_000).then(effects=[answered(answer)], next_deadline=None)


def test_route_5_nobody_knows_the_rpc() -> None:
    """W5: the error names it."""
    before = open_flow().after(rpc("unknown"))
    then = before.when_time_passes(T0 + 10_000)
    answer = then.effects[-1]
    assert answer == answered(refusal(Code.NO_WORKER_AVAILABLE, rpc="unknown"))
    assert isinstance(answer, AnswerRpc)
    assert isinstance(answer.answer, Rejection)
    assert answer.answer.message == "no worker of Flow type 'Order' knows RPC 'unknown' (1 connected, waited 10000 ms)"


# ---- losses -----------------------------------------------------------------------------------------------------


def test_rpc_8_first_lost_delivery_is_repeated_with_a_new_token() -> None:
    before = called().after(*connect(2, "w2")).after(lose())
    before.when_time_passes(T0 + 5_000).then(effects=[assigned(rpc_token("r", 2), session=2)])
    before.when(complete(OUTPUT, rpc_token("r", 2), session=2)).then(
        effects=[acknowledged(rpc_token("r", 2), session=2), answered(b"42")]
    )


def test_rpc_8_second_loss_ends_the_call() -> None:
    before = called().after(*connect(2, "w2")).after(lose()).ticked(T0 + 5_000).after(lose(2))
    before.when_time_passes(T0 + 10_000).then(effects=[answered(refusal(Code.NO_WORKER_AVAILABLE, rpc="read"))])


def test_rpc_8_loss_after_the_call_has_expired_is_not_repeated() -> None:
    """The two fall on one instant."""
    before = called(expires_at=T0 + 5_000).after(*connect(2, "w2")).after(lose())
    before.when_time_passes(T0 + 5_000).then(effects=[answered(refusal(Code.RPC_TIMEOUT, rpc="read"))])


def test_rpc_8_superseded_worker_loses_its_call_at_once() -> None:
    before = called().after(*connect(2, "w2"))
    before.when(*connect(3, WORKER, incarnation="i2")).then_effects(
        Like(EndSession), assigned(rpc_token("r", 2), session=2), WELCOME, CONFIRMED
    )


def test_declined_offer_does_not_count_as_a_delivery() -> None:
    """[CAP-2, DELIV-2]"""
    before = called().after(*connect(2, "w2"))
    before.when(decline("NO_CAPACITY", CALL)).then_effects(assigned(CALL, session=2))


def test_deliv_5_call_that_the_worker_cannot_read_fails_alone() -> None:
    before = called()
    then = before.when(decline("UNDECODABLE", CALL))
    assert then.effects == [answered(Like(Rejection, code=Code.WORKER_API_ERROR))]


# ---- endings ----------------------------------------------------------------------------------------------------


def test_rpc_9_call_in_flight_when_the_flow_closes_is_answered_so() -> None:
    """A Step closes it."""
    before = given(started(), scheduled("A-1")).after(*connect(streams=2)).after(rpc())
    before.when(complete(force())).then(
        events=[Like(ExecuteCompleted), Like(FlowClosed)],
        effects=[
            acknowledged(),
            cancel("FLOW_CLOSED", CALL, number=2),
            answered(refusal(Code.FLOW_NOT_ACTIVE, status="COMPLETED", rpc="read")),
        ],
    )
    before.when(complete(OUTPUT, CALL, number=2)).then(effects=[refused("FLOW_CLOSED", CALL, number=2)])


def test_rpc_9_queued_call_may_yet_read_the_closed_flow() -> None:
    before = open_flow(workers=False).after(rpc())
    before.when(stop(request_id="s")).then_events(Like(FlowClosed))
    before.when(*connect()).then_effects(WELCOME, CONFIRMED, assigned(CALL))


def test_abandoned_call_that_no_worker_has_is_dropped() -> None:
    """[WAITAPI-6]"""
    before = open_flow(workers=False).after(rpc())
    before.when(abandon()).then(next_deadline=None)
    before.when(*connect()).then_effects(WELCOME, CONFIRMED)


def test_abandoned_call_that_runs_may_still_have_its_effects() -> None:
    before = called(name="write").after(abandon())
    before.when(complete(Response(writes=(("a", b"2"),)), CALL)).then(
        events=[Like(RpcCompleted)], effects=[acknowledged(CALL)]
    )


def test_abandoned_call_is_not_repeated_after_a_loss() -> None:
    before = called().after(*connect(2, "w2")).after(abandon(), lose())
    before.when_time_passes(T0 + 5_000).then()


def test_abandoned_call_is_not_offered_again_after_a_decline() -> None:
    before = called().after(*connect(2, "w2")).after(abandon())
    before.when(decline("DRAINING", CALL)).then()


def test_abandoning_one_of_two_callers_keeps_the_call_for_the_other() -> None:
    before = open_flow(workers=False).after(rpc(), rpc(caller=2))
    before.when(abandon()).then()
    before.after(*connect()).when(complete(OUTPUT, CALL)).then(effects=[acknowledged(CALL), answered(b"42", 2)])


def test_abandoning_an_answered_call_is_nothing() -> None:
    called().after(complete(OUTPUT, CALL)).when(abandon()).then()


@pytest.mark.parametrize(("setting", "io"), [(True, (b"1", b"42")), (False, (b"", b"")), (None, (b"", b""))])
def test_rpc_11_input_and_output_enter_history_only_when_the_settings_say_so(
    setting: bool | None, io: tuple[bytes, bytes]
) -> None:
    """[CFG-3] The effects always do."""
    configured = FlowConfigUpdated(FlowConfig(record_rpc_io=setting), record("c"))
    before = given(started(), configured).after(*connect(), rpc())
    before.when(complete(Response(writes=(("a", b"1"),), output=b"42"), CALL)).then_events(
        Like(RpcCompleted, writes=(("a", b"1"),), input=io[0], output=io[1])
    )


def test_rpc_7_a_late_result_does_not_pass_for_that_of_a_repeated_request() -> None:
    """[DELIV-2, LOCK-2] the second call of one request is another delivery, with a snapshot of its own."""
    before = given(started()).after(*connect(streams=3), rpc()).ticked(T0 + 20_000)
    late, again = complete(Response(output=b"1"), rpc_token()), rpc(caller=2, expires_at=T0 + 60_000)
    before.when(again, now=T0 + 20_000).then_effects(assigned(rpc_token(began=T0 + 20_000), number=2))
    before.when(late, now=T0 + 20_001).then_effects(refused("STALE", rpc_token()))


def test_deliv_2_a_late_result_does_not_pass_for_that_of_a_repeated_request_after_a_restart() -> None:
    """[LOST-3] the server forgets calls when it ends; the worker that runs one may be slower to find out."""
    before = given(started()).after(*connect(), rpc()).restarted(T0 + 5_000)
    before.after(hello(running=(running(rpc_token()),)), stream(number=2))
    again = rpc_token(began=T0 + 5_000)
    before.when(rpc(caller=2)).then_effects(assigned(again, number=2))
    before.when(complete(Response(output=b"old"), rpc_token())).then_effects(refused("STALE", rpc_token()))
    before.when(complete(Response(output=b"new"), again, number=2)).then_effects(
        acknowledged(again, number=2), answered(b"new", caller=2)
    )


def test_deliv_2_calls_of_one_request_within_one_instant_are_told_apart() -> None:
    before = given(started()).after(*connect(), rpc(), fail(failure(), CALL))
    before.when(rpc()).then_effects(assigned(rpc_token(nth=2)))
