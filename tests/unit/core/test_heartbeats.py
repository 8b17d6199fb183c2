"""Heartbeats: signs of life and values for the next attempt [HB-1..3, LOST-2]."""

from dexd.core.matching.deadline_keys import HeartbeatDue
from dexd.core.values import Failure, Method, Resolution, StepOptions
from tests.support.builders import (
    DEAD_END,
    RUN,
    SECOND,
    SKIP,
    T0,
    accept,
    acknowledged,
    assigned,
    beat,
    cancel,
    canceled,
    canceling,
    complete,
    connect,
    execute_failed,
    executed,
    fail,
    heartbeat,
    lose,
    lost,
    options,
    refused,
    retry,
    rpc,
    rpc_token,
    running,
    scheduled,
    sent,
    stale,
    started,
    token,
    waits,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

WATCHED = options(heartbeat_timeout_ms=3_000, execute_retry=retry(initial_interval_ms=500))
KEY = HeartbeatDue((RUN, "A-1"))  # type: ignore[arg-type] # bare texts


def at_work(step_options: StepOptions | None = WATCHED) -> Given:
    """A-1 runs on stream 1 since T0."""
    return given(started(), scheduled("A-1", options=step_options)).after(*connect())


def silent(attempt: int = 1, *, retry_at: int, value: bytes | None = None) -> Like:
    return Like(
        type(execute_failed()),
        attempt=attempt,
        failure=Like(Failure, error_type="HEARTBEAT_TIMEOUT", detail="A-1 sent no heartbeat for 3000 ms on w1"),
        retry_at=retry_at,
        is_reported=False,
        heartbeat=value,
    )


def test_hb_1_attempt_without_heartbeats_fails_after_the_timeout_and_its_handler_is_canceled() -> None:
    """[OPT-2] Its result is refused, the next attempt follows the retry policy."""
    before = at_work()
    before.when_time_passes(T0 + 2_999).then_events()
    before.when_time_passes(T0 + 3_000).then(
        events=[silent(retry_at=T0 + 3_500)], effects=[cancel("TIMEOUT", number=1)]
    )
    before.when(complete(DEAD_END)).then(events=[stale()], effects=[refused("STALE")])
    before.when_time_passes(T0 + 3_500).then_events(sent(attempt=2))


def test_hb_1_every_heartbeat_puts_the_timeout_off() -> None:
    before = at_work().after(heartbeat(b"1"), now=T0 + 2_000).after(heartbeat(b"1"), now=T0 + 4_500)
    before.when_time_passes(T0 + 7_499).then_events()
    before.when_time_passes(T0 + 7_500).then_events(silent(retry_at=T0 + 8_000))


def test_hb_1_off_by_default() -> None:
    for step_options in (None, options(), options(heartbeat_timeout_ms=0)):
        at_work(step_options).after(heartbeat()).when_time_passes(T0 + 29_000).then_events()


def test_hb_1_timeout_counts_from_hand_over_of_each_delivery() -> None:
    """[LOST-1] The time that a call waits for its next worker does not count."""
    before = at_work(options(heartbeat_timeout_ms=6_000))
    before.after(lose()).ticked(T0 + 5_000).after(*connect(2), accept(token(delivery=2), 2), now=T0 + 8_000)
    before.when_time_passes(T0 + 13_999).then_events()
    before.when_time_passes(T0 + 14_000).then_events(Like(type(execute_failed()), attempt=1, delivery=2))


def test_hb_1_after_a_restart_the_worker_has_the_whole_timeout_again() -> None:
    before = at_work().restarted(now=T0 + 2_500)
    before.after(*connect(2, running=(running(token()),)), now=T0 + 2_600)
    before.when_time_passes(T0 + 5_499).then_events()
    before.when_time_passes(T0 + 5_500).then_events(silent(retry_at=T0 + 6_000))


def test_hb_3_first_heartbeat_is_recorded_at_once_and_later_values_once_a_second() -> None:
    before = at_work()
    before.when(heartbeat(b"1"), now=T0 + 100).then(events=[beat(b"1")])
    for number in range(2, 9):
        before.when(heartbeat(b"%d" % number), now=T0 + number * 100).then(events=[])
    before.when_time_passes(T0 + 1_099).then_events()
    before.when_time_passes(T0 + 1_100).then_events(beat(b"8"))
    before.when(heartbeat(b"9"), now=T0 + 2_100).then(events=[beat(b"9")])


def test_hb_3_a_value_that_does_not_change_is_recorded_once() -> None:
    before = at_work().after(heartbeat(b"1"))
    for instant in range(T0 + SECOND, T0 + 10 * SECOND, SECOND):
        before.when(heartbeat(b"1"), now=instant).then(events=[])
    before.after(heartbeat(b"2"), heartbeat(b"3"), heartbeat(b"2"), now=T0 + 10 * SECOND)
    assert before.step().heartbeat == b"2"
    before.when_time_passes(T0 + 12 * SECOND).then_events()


def test_hb_2_next_attempt_gets_the_newest_value_though_it_was_not_recorded() -> None:
    before = at_work().after(heartbeat(b"1"), heartbeat(b"2"))
    before.when(fail()).then_events(execute_failed(retry_at=T0 + 500, heartbeat=b"2"))
    before.when_time_passes(T0 + 500).then(
        events=[sent(attempt=2)], effects=[assigned(token(attempt=2), heartbeat=b"2", heartbeat_timeout_ms=3_000)]
    )


def test_hb_2_value_of_an_attempt_that_went_silent_is_kept() -> None:
    before = at_work().after(heartbeat(b"1"), now=T0).after(heartbeat(b"2"), now=T0 + 100)
    before.when_time_passes(T0 + 3_100).then_events(beat(b"2"), silent(retry_at=T0 + 3_600))
    assert before.step().heartbeat == b"2"


def test_hb_2_values_stay_over_attempts_until_they_are_cleared() -> None:
    before = at_work().after(heartbeat(b"1"), fail()).ticked(T0 + 500).after(fail(delivered=token(attempt=2)))
    assert before.step().heartbeat == b"1"
    before.ticked(T0 + 1_500).after(heartbeat(b"", token(attempt=3)), fail(delivered=token(attempt=3)))
    assert before.step().heartbeat == b""


def test_hb_2_values_belong_to_one_method() -> None:
    """What wait_for said is not what execute did."""
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    waiting = token(method=Method.WAIT_FOR)
    before.after(heartbeat(b"1", waiting))
    before.when(complete(waits(SKIP), waiting)).then_effects(
        acknowledged(waiting), assigned(token(), heartbeat=b"", heartbeat_timeout_ms=0)
    )


def test_lost_2_loss_after_a_heartbeat_fails_the_attempt_at_once() -> None:
    """[HB-3] The newest value survives the worker, recorded or not."""
    before = at_work(options()).after(heartbeat(b"1"), heartbeat(b"2"), lose())
    detail = "attempt 1 lost its worker after a heartbeat, last w1 (SESSION_LOST)"
    failed = Like(
        type(execute_failed()),
        failure=Like(Failure, error_type="WORKER_LOST", detail=detail),
        resolution=Resolution.RETRY,
    )
    before.when_time_passes(T0 + 5_000).then_events(beat(b"2"), lost(), failed)
    assert before.step().heartbeat == b"2"
    assert before.step().workers_lost == 1


def test_lost_2_heartbeat_of_an_earlier_attempt_does_not_count() -> None:
    before = at_work(options()).after(heartbeat(b"1"), fail()).ticked(T0 + 1_000).after(lose(), now=T0 + 1_000)
    before.when_time_passes(T0 + 6_000).then_events(lost(attempt=2))


def test_lost_2_holds_after_a_restart_because_the_first_heartbeat_is_in_the_log() -> None:
    before = at_work(options()).after(heartbeat(b"1")).restarted(now=T0 + 100)
    before.when_time_passes(T0 + 5_100).then_events(lost(), Like(type(execute_failed()), heartbeat=None))


def test_heartbeats_of_stale_deliveries_and_rpcs_change_nothing() -> None:
    before = at_work().after(heartbeat(b"1", token(attempt=7)))
    assert before.step().heartbeat == b""
    caller = given(started()).after(*connect(), rpc())
    caller.when(heartbeat(b"1", rpc_token())).then()


def test_canceled_step_owes_no_heartbeat() -> None:
    """[DEC-11] Nothing is left armed."""
    events = (started(), scheduled("B-1"), scheduled("A-1", options=WATCHED))
    before = given(*events).after(*connect(streams=2))
    before.when(complete(canceling(DEAD_END, "A"), token("B-1"))).then_events(
        executed("B-1"), canceled("A-1", "STEP_CANCELED", "B-1")
    )
    assert before.kernel.dispatcher.deadlines.armed_at(KEY) is None
    before.when_time_passes(T0 + 10_000).then_events()
