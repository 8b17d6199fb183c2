"""Timers that are skipped from outside [TIMER-8, TIMER-9]."""

import pytest

from dexd.core.config import TIMER_SKIPS_MAX
from dexd.core.events import ConditionsMet, TimerSkipped, TimerSkipRequested
from dexd.core.outcome import SkipTimerResult
from dexd.core.rejections import Code
from dexd.core.values import Method, Resolution, SkipOutcome, TimerId, Wait, WaitKind
from tests.support.builders import (
    DAY,
    SECOND,
    SKIP,
    T0,
    all_of,
    any_of,
    canceled,
    channel,
    closed,
    complete,
    connect,
    digest,
    dispatched,
    fired,
    met,
    record,
    scheduled,
    sent,
    skip_timer,
    started,
    stop,
    timer,
    token,
    wait_for_failed,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

APPLIED = SkipTimerResult(SkipOutcome.APPLIED)
REMEMBERED = SkipTimerResult(SkipOutcome.REMEMBERED)
ALREADY_FIRED = SkipTimerResult(SkipOutcome.ALREADY_FIRED)
FIRST = TimerId(index=0)


def waiting(wait: Wait) -> Given:
    return given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", wait),
    )


def skipped(index: int = 0, request_id: str | None = None) -> Like:
    request = None if request_id is None else Like(type(record()), request_id=request_id)
    return Like(TimerSkipped, condition_index=index, request=request)


def installing(wait: Wait) -> Given:
    """A-1 is in wait_for, which will return the Wait."""
    return given(started(), scheduled("A-1", wait_for=True)).after(*connect())


def test_timer_8_skipped_timer_counts_as_fired() -> None:
    before = waiting(all_of(channel("c"), timer(at=T0 + DAY), channel("d")))
    before.when(skip_timer("A-1", FIRST)).then(events=[skipped(1, "r")], reply=APPLIED, next_deadline=None)
    assert (before.step().fired, before.step().skipped) == ((1,), (1,))
    before.when_time_passes(T0 + 2 * DAY).then()


def test_timer_8_skipped_timer_lets_the_wait_go_on() -> None:
    before = waiting(any_of(channel("c"), timer(at=T0 + DAY)))
    before.when(skip_timer("A-1", FIRST)).then(
        events=[skipped(1, "r"), met("A-1", (1,))], reply=APPLIED, next_deadline=T0 + 10 * SECOND
    )
    assert [result.met for result in before.step().results] == [False, True]


def test_timer_8_named_by_condition_id_or_by_position_among_the_timers() -> None:
    wait = all_of(timer(at=T0 + DAY, id="x"), channel("c"), timer(at=T0 + DAY, id="y"))
    waiting(wait).when(skip_timer("A-1", TimerId("y"))).then(events=[skipped(2, "r")], reply=APPLIED)
    waiting(wait).when(skip_timer("A-1", TimerId(index=1))).then(events=[skipped(2, "r")], reply=APPLIED)


@pytest.mark.parametrize("unknown", [TimerId("z"), TimerId("c"), TimerId(index=1)])
def test_timer_9_unknown_timer_of_an_installed_wait_is_not_found(unknown: TimerId) -> None:
    """A Channel condition's ID names no Timer."""
    before = waiting(all_of(timer(at=T0 + DAY, id="x"), channel("c", id="c")))
    before.when(skip_timer("A-1", unknown)).then_rejected(Code.TIMER_NOT_FOUND, step_execution_id="A-1")


def test_timer_9_a_timer_that_fired_or_was_skipped_has_already_fired() -> None:
    wait = all_of(timer(at=T0 + 10), timer(at=T0 + DAY), channel("c"))
    before = waiting(wait).ticked(T0 + 10)
    before.when(skip_timer("A-1", FIRST)).then(reply=ALREADY_FIRED)
    before.after(skip_timer("A-1", TimerId(index=1), request_id="1"))
    before.when(skip_timer("A-1", TimerId(index=1), request_id="2")).then(reply=ALREADY_FIRED)


def test_timer_9_a_timer_that_let_its_step_go_on_has_already_fired() -> None:
    before = waiting(any_of(timer(at=T0 + DAY, id="x"), channel("c")))
    before.after(skip_timer("A-1", FIRST, request_id="1"))
    before.when(skip_timer("A-1", FIRST, request_id="2")).then(reply=ALREADY_FIRED)
    before.when(skip_timer("A-1", TimerId("x"), request_id="3")).then(reply=ALREADY_FIRED)


@pytest.mark.parametrize("timer_id", [FIRST, TimerId(index=7), TimerId("x")])
def test_timer_9_past_its_wait_an_unfired_timer_cannot_be_skipped(timer_id: TimerId) -> None:
    wait = any_of(channel("c", at_least=0), timer(at=T0 + DAY, id="x"))
    before = installing(wait).after(complete(wait))
    before.when(skip_timer("A-1", timer_id)).then_rejected(Code.STEP_NOT_WAITING)


def test_timer_9_a_step_without_a_wait_has_nothing_to_skip() -> None:
    given(started(), scheduled("A-1")).when(skip_timer("A-1", FIRST)).then_rejected(Code.STEP_NOT_WAITING)


def test_timer_9_an_ended_step_execution_is_refused() -> None:
    before = given(started(), scheduled("A-1"), canceled("A-1"))
    before.when(skip_timer("A-1", FIRST)).then_rejected(Code.STEP_NOT_WAITING, step_execution_id="A-1")


def test_timer_9_needs_an_active_flow() -> None:
    """[WAITAPI-7]"""
    given(started(), closed()).when(skip_timer("A-1", FIRST)).then_rejected(Code.FLOW_NOT_ACTIVE)
    given().when(skip_timer("A-1", FIRST)).then_rejected(Code.FLOW_NOT_FOUND)


def test_timer_9_a_skip_before_the_wait_is_remembered_and_applied_at_installation() -> None:
    wait = all_of(channel("c"), timer(at=T0 + DAY, id="x"))
    before = installing(wait)
    before.when(skip_timer("A-1", TimerId("x"))).then(
        events=[Like(TimerSkipRequested, timer=TimerId("x"))], reply=REMEMBERED
    )
    before.when(complete(wait)).then_events(wait_installed("A-1", wait), skipped(1))
    assert before.run().skips == {}
    before.when(skip_timer("A-1", FIRST, request_id="again")).then(reply=ALREADY_FIRED)


def test_timer_9_a_remembered_skip_survives_a_restart_and_lets_the_wait_go_on_at_once() -> None:
    wait = all_of(timer(at=T0 + DAY))
    before = given(started(), scheduled("A-1", wait_for=True)).after(skip_timer("A-1", FIRST)).restarted()
    before.after(*connect())
    before.when(complete(wait)).then_events(wait_installed("A-1", wait), skipped(), met("A-1", (0,)), sent("A-1"))


def test_timer_9_a_step_that_is_not_scheduled_yet_is_waited_for() -> None:
    before = given(started(), scheduled("A-1", wait_for=True))
    before.when(skip_timer("A-2", FIRST, request_id="1")).then_events(Like(TimerSkipRequested))
    before.when(skip_timer("B-7", FIRST, request_id="2")).then_events(Like(TimerSkipRequested))
    assert list(before.run().skips) == ["A-2", "B-7"]


def test_timer_9_a_repeat_before_installation_is_remembered_once() -> None:
    before = given(started(), scheduled("A-1", wait_for=True)).after(skip_timer("A-1", FIRST, request_id="1"))
    before.when(skip_timer("A-1", FIRST, request_id="2")).then(events=[Like(TimerSkipRequested)], reply=REMEMBERED)
    assert before.run().skips == {"A-1": [FIRST]}


def test_timer_9_an_attempt_that_fails_keeps_the_remembered_skip() -> None:
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        TimerSkipRequested(token().call, FIRST, record()),  # type: ignore[arg-type] # a bare text
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_for_failed(retry_at=T0),
    ).after(*connect())
    wait = all_of(timer(at=T0 + DAY))
    before.when(complete(wait, token("A-1", 2, method=Method.WAIT_FOR))).then_events(
        Like(type(wait_installed("A-1", wait))), skipped(), Like(ConditionsMet), sent("A-1")
    )


def test_timer_9_remembered_skips_that_fit_nothing_are_void() -> None:
    """Unknown ones, one Timer named twice, and one that is due anyway and so is not skipped twice."""
    wait = all_of(timer(at=T0, id="x"), timer(at=T0, id="y"))
    before = installing(wait).after(
        skip_timer("A-1", TimerId("z"), request_id="1"),
        skip_timer("A-1", TimerId("x"), request_id="2"),
        skip_timer("A-1", FIRST, request_id="3"),
    )
    before.when(complete(wait)).then_events(
        wait_installed("A-1", wait), skipped(0), fired("A-1", 1), met("A-1", (0, 1)), sent("A-1")
    )


def test_timer_9_skips_of_a_step_that_never_waits_are_forgotten() -> None:
    def after(*events: object) -> Given:
        return given(started(), TimerSkipRequested(token().call, FIRST, record()), *events)  # type: ignore[arg-type]

    assert after().run().skips == {"A-1": [FIRST]}
    assert after(scheduled("A-1")).run().skips == {}
    assert after(scheduled("A-1", wait_for=True), canceled("A-1")).run().skips == {}
    assert after(closed()).run().skips == {}
    running = (scheduled("A-1", wait_for=True), dispatched("A-1", method=Method.WAIT_FOR))
    assert after(*running, wait_installed("A-1", SKIP)).run().skips == {}
    assert after(*running, wait_for_failed(resolution=Resolution.PROCEED)).run().skips == {}


def test_timer_9_at_most_100_skips_are_remembered() -> None:
    before = given(started(), scheduled("A-1", wait_for=True))
    before.after(*(skip_timer(f"B-{n}", FIRST, request_id=f"{n}") for n in range(1, TIMER_SKIPS_MAX + 1)))
    before.when(skip_timer("A-1", FIRST, request_id="more")).then_rejected(
        Code.VALUE_TOO_LARGE, what="skips", size=str(TIMER_SKIPS_MAX + 1), limit=str(TIMER_SKIPS_MAX)
    )
    before.when(skip_timer("B-1", FIRST, request_id="repeat")).then(events=[Like(TimerSkipRequested)], reply=REMEMBERED)


@pytest.mark.parametrize("is_waiting", [True, False])
def test_rpc_12_a_repeated_skip_gets_its_first_answer(is_waiting: bool) -> None:
    """[GEN-8] Also after the Flow has closed."""
    wait = Wait(WaitKind.ALL_OF, (timer(at=T0 + DAY), channel("c")))
    before = waiting(wait) if is_waiting else given(started(), scheduled("A-1", wait_for=True))
    answer = APPLIED if is_waiting else REMEMBERED
    before.after(skip_timer("A-1", FIRST), stop(request_id="s"))
    before.when(skip_timer("A-1", FIRST)).then(reply=answer)
    other = skip_timer("A-1", FIRST, content=digest("other"))
    before.when(other).then_rejected(Code.REQUEST_CONFLICT)
