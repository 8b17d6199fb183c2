"""The server has workers replace sessions that are old [DRAIN-3]."""

from itertools import pairwise

from dexd.core.config import RECONNECT_GRACE_MS, KernelConfig
from dexd.core.effects import AskReconnect, AssignCall, ConfirmStream, EndSession, WelcomeSession
from dexd.core.events import FlowStarted
from dexd.core.ids import SessionId, StreamNumber
from dexd.core.matching.sessions import lifetime_ms
from dexd.core.rejections import Code, Rejection
from tests.support.builders import (
    DEAD_END,
    T0,
    accept,
    acknowledged,
    complete,
    connect,
    executed,
    goodbye,
    hello,
    lose,
    lost,
    plan,
    rpc,
    running,
    scheduled,
    sent,
    start,
    started,
    stream,
    token,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

MAX_AGE_MS = 10_000
CONFIG = KernelConfig(session_max_age_ms=MAX_AGE_MS)
OLD_AT = T0 + lifetime_ms(SessionId(1), MAX_AGE_MS)
END_AT = OLD_AT + RECONNECT_GRACE_MS

ASKED = Like(AskReconnect, session=SessionId(1))
EXPIRED = Like(
    EndSession,
    session=SessionId(1),
    rejection=Like(Rejection, code=Code.SESSION_EXPIRED, fields={"worker_id": "w1", "limit_ms": str(MAX_AGE_MS)}),
)


def served() -> Given:
    """w1 runs A-1, accepted, and has another stream."""
    return given(started(), scheduled("A-1"), config=CONFIG).after(*connect(streams=2), accept())


def asked() -> Given:
    """It was asked to replace its session."""
    return served().when_time_passes(OLD_AT).then(effects=[ASKED])


# ---- asking -----------------------------------------------------------------------------------------------------


def test_drain_3_worker_is_asked_when_its_session_is_old_and_not_before() -> None:
    before = served()
    before.when_time_passes(OLD_AT - 1).then()
    before.when_time_passes(OLD_AT).then(effects=[ASKED], next_deadline=END_AT)


def test_drain_3_session_that_was_asked_is_assigned_nothing_more() -> None:
    before = asked()
    before.when(start("other", "run-other", step=plan("B"))).then_events(Like(FlowStarted), scheduled("B-1"))
    before.when(stream(1, 3)).then(effects=[ConfirmStream(SessionId(1), StreamNumber(3))])
    before.when(complete(DEAD_END)).then(events=[executed("A-1")], effects=[acknowledged()])


def test_drain_3_result_is_taken_on_the_old_session_and_the_next_call_waits_for_the_new_one() -> None:
    before = asked().after(complete(DEAD_END), rpc("read"))
    before.when(hello(2)).then(effects=[WelcomeSession(SessionId(2))])
    before.when(stream(2, 1)).then_effects(
        ConfirmStream(SessionId(2), StreamNumber(1)), Like(AssignCall, session=SessionId(2))
    )
    before.when(lose(1)).then()


def test_drain_3_what_waits_for_the_worker_goes_to_others_at_once() -> None:
    """[ROUTE-1]"""
    before = given(started(), scheduled("A-1"), config=CONFIG)
    before.after(*connect(1, "w1"), complete(DEAD_END), start("busy", "run-2", step=plan("B")), *connect(2, "w2"))
    before.after(accept(token("B-1", run="run-2")))
    before.ticked(OLD_AT - 10).after(rpc("read"))
    before.when_time_passes(OLD_AT).then_effects(ASKED, Like(AssignCall, session=SessionId(2)))


# ---- going ------------------------------------------------------------------------------------------------------


def test_drain_3_calls_that_take_longer_move_to_the_new_session() -> None:
    """[WIRE-10, WIRE-11] Also when the worker leaves the old one before they have finished: nothing is lost."""
    before = asked().after(lose())
    before.when(hello(2, running=(running(token()),))).then(effects=[WelcomeSession(SessionId(2))])
    before.when(complete(DEAD_END, session=2)).then(events=[executed("A-1")], effects=[acknowledged(session=2)])


def test_drain_3_worker_that_stays_is_cut_off_and_its_calls_go_on_in_the_next_session() -> None:
    before = asked()
    before.when_time_passes(END_AT - 1).then()
    before.when_time_passes(END_AT).then(effects=[EXPIRED])
    before.when(hello(2, running=(running(token()),))).then(effects=[WelcomeSession(SessionId(2))])
    before.when(complete(DEAD_END, session=2)).then(events=[executed("A-1")], effects=[acknowledged(session=2)])


def test_drain_3_worker_that_is_cut_off_and_stays_away_loses_its_calls() -> None:
    """[WIRE-11] As after any break."""
    before = asked().ticked(END_AT).after(*connect(2, "w2"))
    before.when_time_passes(END_AT + 5_000).then_events(
        lost("A-1", reason="SESSION_LOST"), sent("A-1", delivery=2, worker_id="w2")
    )


def test_drain_3_calls_that_wait_for_the_worker_do_not_run_out_of_time() -> None:
    """[ROUTE-3] However short the dispatch wait is, the worker is cut off in half of it."""
    config = KernelConfig(session_max_age_ms=MAX_AGE_MS, dispatch_wait_ms=1_000)
    before = given(started(), scheduled("A-1"), config=config).after(*connect(), accept())
    before.when_time_passes(OLD_AT + 499).then(effects=[ASKED])
    before.when_time_passes(OLD_AT + 500).then(effects=[EXPIRED])


# ---- leaving for good -------------------------------------------------------------------------------------------


def test_drain_1_worker_that_said_goodbye_is_not_asked() -> None:
    served().after(goodbye()).when_time_passes(END_AT).then()


def test_drain_1_worker_that_says_goodbye_after_it_was_asked_may_finish_and_will_not_be_back() -> None:
    before = asked().after(goodbye(), *connect(2, "w2"))
    before.when_time_passes(END_AT).then()
    before.when(lose(1)).then_events(lost("A-1", reason="RESET"), sent("A-1", delivery=2, worker_id="w2"))


# ---- ages -------------------------------------------------------------------------------------------------------


def test_sessions_that_began_together_grow_old_one_after_the_other() -> None:
    ages = sorted(lifetime_ms(SessionId(number), 86_400_000) for number in range(1_000, 1_300))
    assert ages[0] >= 0.8 * 86_400_000
    assert ages[-1] <= 86_400_000
    assert max(later - sooner for sooner, later in pairwise(ages)) < 86_400_000 * 0.2 / 100


def test_no_session_grows_old_when_the_age_is_off() -> None:
    before = given(config=KernelConfig(session_max_age_ms=0, ping_interval_ms=10**9)).after(*connect())
    before.when_time_passes(T0 + 10**9 - 1).then(next_deadline=T0 + 10**9)
