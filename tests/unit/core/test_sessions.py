"""Workers come, go, come back and are told why not [WIRE-7, WIRE-10, WIRE-11, QUEUE-1..5, DRAIN-2..4, DELIV-2..5]."""

from collections.abc import Mapping

import pytest

from dexd.core.commands import AnswerPing, BeginShutdown, OpenSession
from dexd.core.config import KernelConfig
from dexd.core.effects import AskReconnect, ConfirmStream, ConfirmStreamClosed, EndSession, RejectStream, SendPing
from dexd.core.events import (
    ExecuteCompleted,
    ExecuteFailed,
    FlowClosed,
    FlowStarted,
    MethodPending,
    StepDeliveryLost,
)
from dexd.core.ids import SessionId, StreamNumber
from dexd.core.rejections import Code, Rejection
from dexd.core.values import DeclinedOffer, Failure, Method, Resolution
from tests.support.builders import (
    CONFIRMED,
    DEAD_END,
    FLOW_TYPE,
    T0,
    WELCOME,
    accept,
    acknowledged,
    all_of,
    assigned,
    cancel,
    channel,
    close_stream,
    complete,
    connect,
    decline,
    declined,
    dispatched,
    executed,
    fail,
    failure,
    goodbye,
    hello,
    lose,
    lost,
    no_retry,
    options,
    plan,
    pong,
    publish,
    refused,
    rpc,
    running,
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


def ended(code: Code, fields: Mapping[str, str], session: int = 1) -> Like:
    return Like(EndSession, session=SessionId(session), rejection=Like(Rejection, code=code, fields=fields))


def rejected(code: Code, fields: Mapping[str, str], number: int = 1, session: int = 1) -> Like:
    rejection = Like(Rejection, code=code, fields=fields)
    return Like(RejectStream, session=SessionId(session), stream=StreamNumber(number), rejection=rejection)


SUPERSEDED = {"worker_id": "w1"}


def served() -> Given:
    """w1 runs A-1, accepted."""
    return given(started(), scheduled("A-1")).after(*connect()).after(accept())


# ---- hello ------------------------------------------------------------------------------------------------------


def test_queue_1_worker_polls_its_own_queue_and_those_of_its_flow_types() -> None:
    before = given().after(hello())
    before.when(stream(1, 1, "w1"), stream(1, 2, FLOW_TYPE)).then(
        effects=[ConfirmStream(SessionId(1), StreamNumber(1)), ConfirmStream(SessionId(1), StreamNumber(2))]
    )
    before.when(stream(1, 3, "Other")).then(
        effects=[rejected(Code.QUEUE_NOT_SERVED, {"queue": "Other", "worker_id": "w1"}, 3)]
    )


def test_queue_1_stream_on_the_own_queue_takes_only_calls_that_wait_for_the_worker() -> None:
    before = given().after(*connect(streams=0), stream(1, 1, "w1"))
    before.when(start(step=plan("A"))).then_events(started(), scheduled("A-1"))


@pytest.mark.parametrize(
    ("command", "code", "fields"),
    [
        (hello(worker=""), Code.INVALID_WORKER_ID, {"length": "0", "limit": "256"}),
        (hello(worker="w" * 257), Code.INVALID_WORKER_ID, {"length": "257", "limit": "256"}),
        (
            hello(limit=257),
            Code.MAX_CONCURRENT_TASKS_EXCEEDED,
            {"worker_id": "w1", "found": "257", "limit": "256", "setting": "matching.max_concurrent_tasks_cap"},
        ),
        (
            hello(limit=0),
            Code.MAX_CONCURRENT_TASKS_EXCEEDED,
            {"worker_id": "w1", "found": "0", "limit": "256", "setting": "matching.max_concurrent_tasks_cap"},
        ),
        (
            hello(1, "w1", *(serves(f"T{number}") for number in range(257))),
            Code.MAX_FLOW_TYPES_EXCEEDED,
            {"worker_id": "w1", "found": "257", "limit": "256", "setting": "matching.max_flow_types"},
        ),
    ],
)
def test_queue_5_bad_hello_is_refused_naming_limit_and_value(
    command: OpenSession, code: Code, fields: dict[str, str]
) -> None:
    """[QUEUE-3]"""
    given().when(command).then(effects=[ended(code, fields)])


def test_queue_3_stream_limits_have_a_message_each() -> None:
    config = KernelConfig(max_concurrent_tasks_cap=2, max_streams=3, max_queue_length=10, max_flow_type_length=8)
    before = given(config=config)
    before.after(*connect(1, "w1", serves("T"), serves("T" * 9), serves("T" * 11), limit=2, streams=0))
    before.when(stream(1, 1, "T" * 11)).then(
        effects=[
            rejected(
                Code.QUEUE_NAME_TOO_LONG,
                {"queue": "T" * 11, "found": "11", "limit": "10", "setting": "matching.max_queue_length"},
            )
        ]
    )
    before.when(stream(1, 1, "T" * 9)).then(
        effects=[
            rejected(
                Code.FLOW_TYPE_TOO_LONG,
                {"queue": "T" * 9, "found": "9", "limit": "8", "setting": "matching.max_flow_type_length"},
            )
        ]
    )
    before.after(stream(1, 1, "T"))
    before.when(stream(1, 1, "T")).then(effects=[rejected(Code.STREAM_EXISTS, {"stream": "1"})])
    before.after(stream(1, 2, "T"))
    per_worker = {"worker_id": "w1", "found": "3", "limit": "2", "setting": "matching.max_concurrent_tasks_cap"}
    before.when(stream(1, 3, "T")).then(effects=[rejected(Code.MAX_STREAMS_PER_WORKER_EXCEEDED, per_worker, 3)])
    before.after(*connect(2, "w2", serves("T"), limit=2, streams=1))
    per_node = {"worker_id": "w2", "found": "4", "limit": "3", "setting": "matching.max_streams"}
    before.when(stream(2, 2, "T")).then(effects=[rejected(Code.MAX_STREAMS_EXCEEDED, per_node, 2, 2)])


def test_queue_4_rejected_stream_can_be_opened_later() -> None:
    config = KernelConfig(max_concurrent_tasks_cap=1)
    before = given(config=config).after(*connect(limit=1)).after(stream(1, 2))
    before.after(close_stream(1, 1))
    before.when(stream(1, 2)).then(effects=[ConfirmStream(SessionId(1), StreamNumber(2))])


def test_queue_2_newer_incarnation_replaces_the_older_whose_calls_are_lost() -> None:
    """W16."""
    before = served()
    before.when(*connect(2, "w1", incarnation="i2")).then(
        events=[lost("A-1", reason="SUPERSEDED"), sent("A-1", delivery=2, worker_id="w1", incarnation="i2")],
        effects=[
            ended(Code.WORKER_ID_SUPERSEDED, SUPERSEDED),
            WELCOME,
            CONFIRMED,
            assigned(token("A-1", 1, 2), session=2),
        ],
    )


def test_queue_2_superseded_incarnation_is_refused_for_good() -> None:
    before = served().after(*connect(2, "w1", incarnation="i2"))
    before.when(hello(3, "w1", incarnation="i1")).then(effects=[ended(Code.WORKER_ID_SUPERSEDED, SUPERSEDED, 3)])


def test_queue_2_replacement_after_a_server_restart_loses_the_calls_of_the_old_incarnation() -> None:
    before = served().restarted(T0 + 100)
    before.when(*connect(2, "w1", incarnation="i2")).then_events(
        lost("A-1", reason="SUPERSEDED"), sent("A-1", delivery=2)
    )


def test_queue_2_replacement_ends_every_session_before_any_loss() -> None:
    """The loss of A-1 fails its Flow; B-1, which waited for the worker, leaves that queue before and not after."""
    before = given(
        started(),
        scheduled("A-1", options=no_retry()),
        dispatched("A-1"),
        lost("A-1"),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(channel("c"))),
    )
    before.after(*connect(1, "w1"), *connect(2, "w1", streams=0), stream(2, 1, "w1"), close_stream(2, 1))
    before.after(accept(token("A-1", 1, 2)), publish("c", b"m"), *connect(3, "w2"))
    before.when(hello(4, "w1", incarnation="i2")).then_events(
        sent("B-1", worker_id="w2"),
        Like(StepDeliveryLost, step_execution_id="A-1"),
        Like(ExecuteFailed, resolution=Resolution.FAIL_FLOW),
        Like(MethodPending, step_execution_id="B-1"),
        Like(FlowClosed),
    )


def test_queue_2_superseded_incarnations_are_forgotten_only_by_the_thousand() -> None:
    before = given()
    kernel = before.kernel
    for number in range(10_002):
        kernel.handle(hello(number + 1, "w1", incarnation=f"i{number}"), now=T0)
    refused_effects = kernel.handle(hello(20_000, "w1", incarnation="i1"), now=T0).effects
    assert list(refused_effects) == [ended(Code.WORKER_ID_SUPERSEDED, SUPERSEDED, 20_000)]
    assert WELCOME in kernel.handle(hello(20_001, "w1", incarnation="i0"), now=T0).effects


# ---- pings ------------------------------------------------------------------------------------------------------


def ping(nonce: int) -> SendPing:
    return SendPing(SessionId(1), nonce)


def test_wire_7_session_is_pinged_whatever_was_heard_from_it() -> None:
    before = given().after(*connect())
    before.after(AnswerPing(SessionId(1), 7), now=T0 + 19_000)
    before.when_time_passes(T0 + 20_000).then(effects=[ping(1)], next_deadline=T0 + 30_000)


def test_wire_7_answered_ping_is_followed_by_the_next_an_interval_later() -> None:
    before = given().after(*connect()).ticked(T0 + 20_000)
    before.when(pong(nonce=1), now=T0 + 21_000).then(next_deadline=T0 + 40_000)
    before.when_time_passes(T0 + 40_000).then(effects=[ping(2)])
    before.when(pong(nonce=2), now=T0 + 49_999).then(next_deadline=T0 + 60_000)


def test_wire_7_pong_that_is_later_than_the_interval_is_followed_by_a_ping_at_once() -> None:
    before = given(config=KernelConfig(ping_interval_ms=5_000)).after(*connect()).ticked(T0 + 5_000)
    before.when(pong(nonce=1), now=T0 + 13_000).then(next_deadline=T0 + 13_000)


def test_wire_7_only_the_open_nonce_answers() -> None:
    before = given().after(*connect()).ticked(T0 + 20_000)
    before.after(pong(nonce=0), pong(nonce=2))
    before.when_time_passes(T0 + 30_000).then(
        effects=[ended(Code.SESSION_TIMEOUT, {"worker_id": "w1", "limit_ms": "10000"})], next_deadline=None
    )


def test_wire_7_missed_pong_loses_the_running_calls_at_once() -> None:
    """W9: a deaf but talking worker gets no more work."""
    before = served().after(*connect(2, "w2")).ticked(T0 + 20_000).after(pong(2))
    before.when_time_passes(T0 + 30_000).then(
        events=[lost("A-1", reason="NO_PONG"), sent("A-1", delivery=2, worker_id="w2")],
        effects=[
            ended(Code.SESSION_TIMEOUT, {"worker_id": "w1", "limit_ms": "10000"}),
            assigned(token("A-1", 1, 2), session=2),
        ],
    )


def test_pong_of_a_session_that_ended_is_nothing() -> None:
    given().after(*connect(), lose()).when(pong()).then()


# ---- loss and return --------------------------------------------------------------------------------------------


def test_wire_11_delivery_stays_current_for_the_resume_wait() -> None:
    before = served().after(*connect(2, "w2"))
    before.when(lose()).then(next_deadline=T0 + 5_000)
    before.when_time_passes(T0 + 4_999).then()
    before.when_time_passes(T0 + 5_000).then_events(lost("A-1"), sent("A-1", delivery=2, worker_id="w2"))


def test_wire_10_presented_call_goes_on() -> None:
    before = served().after(lose())
    back = hello(2, running=(running(token("A-1"), 4),))
    before.when(back, now=T0 + 3_000).then(effects=[WELCOME])
    before.when_time_passes(T0 + 10_000).then()
    before.when(complete(DEAD_END, session=2, number=4)).then(
        events=[executed("A-1")], effects=[acknowledged(session=2, number=4)]
    )


def test_wire_11_call_that_is_not_presented_is_lost_at_once() -> None:
    before = served().after(lose())
    before.when(*connect(2), now=T0 + 100).then_events(
        lost("A-1", reason="NOT_PRESENTED"), sent("A-1", delivery=2, worker_id="w1")
    )


def test_wire_11_after_a_server_restart_the_wait_counts_from_listening() -> None:
    """W13, DELIV-4."""
    before = served().restarted(T0 + 60_000)
    assert before.next_deadline == T0 + 65_000
    again = before.restarted(T0 + 60_000)
    again.when(hello(2, running=(running(token("A-1")),)), now=T0 + 64_000).then(effects=[WELCOME])
    again.when(complete(DEAD_END, session=2)).then(events=[executed("A-1")], effects=[acknowledged(session=2)])
    before.when_time_passes(T0 + 65_000).then_events(lost("A-1"))


def test_deliv_2_restart_alone_makes_no_token_stale() -> None:
    before = served().restarted(T0 + 1).after(hello(2, running=(running(token("A-1")),)))
    before.when(fail(session=2)).then_events(Like(ExecuteFailed, resolution=Resolution.RETRY))


def test_wire_10_presented_call_that_is_no_longer_current_is_canceled() -> None:
    """Its stream is busy until the worker answers."""
    before = served().after(*connect(2, "w2")).after(lose()).ticked(T0 + 5_000)
    before.when(hello(3, running=(running(token("A-1")),))).then(effects=[WELCOME, cancel("STALE", session=3)])
    before.when(complete(DEAD_END, session=3)).then(events=[stale("A-1")], effects=[refused("STALE", session=3)])


def test_wire_10_presented_call_of_a_flow_that_is_not_in_memory_is_canceled() -> None:
    gone = token("A-1", run="gone")
    given().when(hello(running=(running(gone),))).then(effects=[WELCOME, cancel("STALE", gone)])


def test_wire_10_result_that_was_accepted_is_acknowledged_again() -> None:
    """The acknowledgement was lost with the session; presented in Hello, and sent again."""
    before = served().after(complete(DEAD_END), lose())
    before.when(hello(2, running=(running(token("A-1"), 4),))).then(
        effects=[WELCOME, acknowledged(session=2, number=4)]
    )
    before.when(complete(DEAD_END, session=2, number=4)).then(effects=[acknowledged(session=2, number=4)])
    before.when(start("order-2", "run-2", step=plan("A"))).then_effects(
        assigned(token("A-1", run="run-2"), session=2, number=4)
    )


def test_wire_10_failure_that_was_accepted_is_acknowledged_again() -> None:
    before = served().after(fail(), lose())
    before.after(hello(2))
    before.when(fail(session=2)).then(effects=[acknowledged(session=2)])


def test_wire_10_presenting_a_stream_twice_counts_once() -> None:
    before = served().after(lose())
    presented = (running(token("A-1"), 4), running(token("A-1"), 4))
    before.when(hello(2, running=presented)).then(effects=[WELCOME])


def test_wire_10_worker_may_be_back_before_its_old_session_is_known_to_be_dead() -> None:
    before = served()
    before.when(hello(2, running=(running(token("A-1"), 4),))).then(effects=[WELCOME])
    before.after(lose(1))
    before.when_time_passes(T0 + 10_000).then()
    before.when(complete(DEAD_END, session=2, number=4)).then_events(executed("A-1"))


def test_call_presented_by_a_worker_that_does_not_have_it_is_canceled() -> None:
    before = served()
    before.when(hello(3, "w3", incarnation="i3", running=(running(token("A-1"), 4),))).then(
        effects=[WELCOME, cancel("STALE", session=3, number=4)]
    )


def test_commands_of_a_session_that_ended_are_dropped() -> None:
    before = served().after(lose())
    for command in (
        stream(),
        close_stream(),
        complete(DEAD_END),
        fail(),
        decline("NO_CAPACITY"),
        goodbye(),
        lose(),
    ):
        before.when(command).then()


def test_opt_2_method_timeout_goes_on_while_the_session_is_gone() -> None:
    before = given(started(), scheduled("A-1", options=options(execute_timeout_ms=2_000))).after(*connect())
    before.after(accept(), lose())
    before.when_time_passes(T0 + 2_000).then_events(
        Like(ExecuteFailed, failure=Like(Failure, error_type="METHOD_TIMEOUT"))
    )


# ---- accepting --------------------------------------------------------------------------------------------------


def test_deliv_3_assignment_without_sign_of_life_is_offered_elsewhere() -> None:
    """W12. [LOST-1] It counts as a lost delivery."""
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2"))
    before.when_time_passes(T0 + 5_000).then(
        events=[lost("A-1", reason="NOT_ACCEPTED"), sent("A-1", delivery=2, worker_id="w2")],
        effects=[cancel("STALE"), assigned(token("A-1", 1, 2), session=2)],
    )
    before.when(complete(DEAD_END)).then(events=[stale("A-1")], effects=[refused("STALE")])
    before.when(complete(DEAD_END, token("A-1", 1, 2), session=2)).then_events(Like(ExecuteCompleted))


def test_deliv_3_worker_that_did_not_accept_gets_it_again_after_a_pause_when_nobody_else_does() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(streams=2))
    before.when_time_passes(T0 + 5_000).then_events(lost("A-1", reason="NOT_ACCEPTED"))
    before.when_time_passes(T0 + 5_999).then()
    before.when_time_passes(T0 + 6_000).then_events(sent("A-1", delivery=2, worker_id="w1", waited_ms=1_000))
    before.when(complete(DEAD_END, token("A-1", 1, 2), number=1)).then_events(Like(ExecuteCompleted))


def test_deliv_3_another_worker_comes_first_during_the_pause() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(streams=2)).ticked(T0 + 5_000)
    before.when(*connect(2, "w2"), now=T0 + 5_900).then_events(sent("A-1", delivery=2, worker_id="w2"))


def test_deliv_3_dispatch_wait_shorter_than_the_pause_ends_without_the_worker() -> None:
    config = KernelConfig(dispatch_wait_ms=500)
    before = given(started(), scheduled("A-1"), config=config).after(*connect(streams=2)).ticked(T0 + 5_000)
    before.ticked(T0 + 5_500)
    failed = before.step().failure
    assert failed is not None
    assert failed.detail == "all 1 workers of Flow type 'Order' that know Step 'A' were busy for 500 ms"


def test_deliv_3_pause_does_not_end_other_exclusions() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1", streams=2), *connect(2, "w2"))
    before.ticked(T0 + 5_000).after(decline("UNKNOWN_STEP", token("A-1", 1, 2), session=2))
    before.when_time_passes(T0 + 6_000).then_events(
        sent("A-1", delivery=2, worker_id="w1", declined=(DeclinedOffer("w2", "UNKNOWN_STEP"),))
    )


def test_deliv_3_sign_of_life_leaves_only_the_method_timeout() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(accept(), now=T0 + 4_000)
    before.after(pong()).ticked(T0 + 6_000)
    assert before.step().delivery == 1


def test_acceptance_of_a_stale_delivery_is_nothing() -> None:
    before = served().after(*connect(2, "w2")).after(lose()).ticked(T0 + 5_000)
    before.when(accept(token("A-1"), session=2)).then()
    before.after(lose(2))
    before.when(accept(token("A-1", 1, 2), session=2)).then()  # detached: nobody is there to show life


def test_deliv_5_call_that_the_worker_cannot_read_fails_alone() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).after(*connect(streams=2))
    before.when(decline("UNDECODABLE")).then_events(
        Like(
            ExecuteFailed,
            step_execution_id="A-1",
            failure=failure("UNDECODABLE", "the worker could not decode the call"),
        )
    )
    assert before.step("B-1").delivery == 1


# ---- streams ----------------------------------------------------------------------------------------------------


def test_closed_stream_gets_nothing_more() -> None:
    before = given().after(*connect())
    before.when(close_stream()).then(effects=[ConfirmStreamClosed(SessionId(1), StreamNumber(1))])
    before.when(start(step=plan("A"))).then_events(started(), scheduled("A-1"))


def test_closing_an_unknown_stream_is_confirmed() -> None:
    given().after(hello()).when(close_stream(1, 9)).then(effects=[ConfirmStreamClosed(SessionId(1), StreamNumber(9))])


def test_assignment_that_crossed_the_closing_is_declined_and_goes_elsewhere() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2")).after(close_stream())
    before.when(decline("DRAINING")).then_events(declined("A-1", "DRAINING"), sent("A-1", worker_id="w2"))


def test_call_whose_stream_was_closed_goes_with_its_session() -> None:
    """A worker may close a stream that still runs a call."""
    before = served().after(*connect(2, "w2")).after(close_stream(), lose())
    before.when_time_passes(T0 + 5_000).then_events(lost("A-1"), sent("A-1", delivery=2, worker_id="w2"))


# ---- draining ---------------------------------------------------------------------------------------------------


def test_drain_2_draining_worker_is_never_assigned_anything() -> None:
    before = served().after(stream(1, 2), goodbye())
    before.when(start("order-2", "run-2", step=plan("A"))).then_events(Like(FlowStarted), scheduled("A-1"))
    before.when(stream(1, 3)).then(effects=[ConfirmStream(SessionId(1), StreamNumber(3))])
    before.when(complete(DEAD_END)).then(events=[executed("A-1")], effects=[acknowledged()])


def test_drain_2_call_on_the_wire_is_declined_and_offered_again_at_once() -> None:
    """W11."""
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), *connect(2, "w2")).after(goodbye())
    before.when(decline("DRAINING")).then_events(declined("A-1", "DRAINING"), sent("A-1", worker_id="w2"))


def test_drain_1_call_of_a_worker_that_said_goodbye_is_lost_with_its_session() -> None:
    """[WIRE-11] It will not come back."""
    before = served().after(*connect(2, "w2")).after(goodbye())
    before.when(lose()).then_events(lost("A-1", reason="RESET"), sent("A-1", delivery=2, worker_id="w2"))


def test_drain_4_shutdown_asks_every_session_to_reconnect_and_assigns_nothing_more() -> None:
    """[DRAIN-3]"""
    before = served().after(*connect(2, "w2"))
    before.when(BeginShutdown("upgrade")).then(
        effects=[AskReconnect(SessionId(1), "upgrade"), AskReconnect(SessionId(2), "upgrade")]
    )
    before.when(start("order-2", "run-2", step=plan("A"))).then_events(Like(FlowStarted), scheduled("A-1"))
    before.when(rpc(flow_id="order-2")).then()
    before.when(stream(2, 2)).then(effects=[ConfirmStream(SessionId(2), StreamNumber(2))])


def test_drain_3_results_are_taken_until_the_end() -> None:
    before = served().after(BeginShutdown("upgrade"))
    before.when(complete(DEAD_END)).then(events=[executed("A-1")], effects=[acknowledged()])


def test_drain_4_idle_workers_get_nothing_when_a_pause_ends_during_shutdown() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("NO_CAPACITY"), BeginShutdown("x"))
    before.when_time_passes(T0 + 5_000).then()


def test_workers_and_sessions_are_counted() -> None:
    before = given().after(*connect(1, "w1"), *connect(2, "w1"), *connect(3, "w2"))
    assert (before.kernel.connected_worker_count, before.kernel.session_count) == (2, 3)
    before.after(lose(1), lose(3))
    assert (before.kernel.connected_worker_count, before.kernel.session_count) == (1, 1)


def test_second_session_of_a_worker_may_serve_more_than_the_first() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1", serves(steps="B")))
    before.when(hello(2, "w1", serves(steps="A B"))).then_effects(WELCOME, assigned())


def test_pause_that_ends_after_its_worker_has_gone_is_nothing() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("NO_CAPACITY"), lose())
    before.when_time_passes(T0 + 9_000).then()
