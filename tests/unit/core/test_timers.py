"""Timers of installed Waits [TIMER-1..5, TIMER-7, TIMER-10]."""

from dexd.core.config import DURATION_MS_MAX
from dexd.core.events import ChannelPublished, ConditionsMet, Event, TimerFired, WaitForCompleted
from dexd.core.values import Condition, ConditionKind, Method, Wait
from tests.support.builders import (
    DAY,
    T0,
    acknowledged,
    all_of,
    any_of,
    at,
    channel,
    complete,
    connect,
    dispatched,
    fired,
    message_ids,
    met,
    publish,
    published,
    scheduled,
    sent,
    started,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

WAIT_FOR = token("A-1", method=Method.WAIT_FOR)


def waiting(wait: Wait) -> Given:
    return given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", wait),
    )


def asked(installed_at: int = T0) -> Given:
    before = given(at(T0 - DAY, started()), at(T0 - DAY, scheduled("A-1", wait_for=True)))
    return before.after(*connect(), now=installed_at)


def test_timer_1_duration_counts_from_the_commit_that_installs_the_wait() -> None:
    """[TIMER-3] From then on the deadline is absolute."""
    installed = Condition(ConditionKind.TIMER, "", 5_000, T0 + 7 + 5_000)
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    before.when(complete(all_of(timer(5_000))), now=T0 + 7).then(
        events=[wait_installed("A-1", all_of(installed))],
        effects=[acknowledged(WAIT_FOR)],
        next_deadline=T0 + 7 + 5_000,
    )


def test_timer_1_due_at_installation_counts_as_fired() -> None:
    """Duration 0, and an instant that is past."""
    for due in (timer(0), timer(at=T0), timer(at=T0 - DAY), timer(at=-5)):
        before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
        before.when(complete(all_of(due))).then_events(
            Like(WaitForCompleted),
            fired("A-1"),
            met("A-1", (0,)),
            sent("A-1"),
        )


def test_timer_1_future_instant_is_kept_as_given() -> None:
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    wait = all_of(timer(at=T0 + 1), channel("c"))
    before.when(complete(wait)).then(
        events=[wait_installed("A-1", wait)], effects=[acknowledged(WAIT_FOR)], next_deadline=T0 + 1
    )


def test_timer_4_never_early_and_exactly_once() -> None:
    before = waiting(all_of(timer(at=T0 + 100), channel("c")))
    before.when_time_passes(T0 + 99).then(next_deadline=T0 + 100)
    before.when_time_passes(T0 + 100).then(events=[fired("A-1")], next_deadline=None)
    before.when_time_passes(T0 + DAY).then()


def test_timer_4_fires_although_no_step_or_worker_is_there_to_take_the_result() -> None:
    before = waiting(all_of(timer(at=T0 + 100)))
    before.when_time_passes(T0 + 100).then(events=[fired("A-1"), met("A-1", (0,))], next_deadline=T0 + 10_100)


def test_timer_3_deadline_survives_a_restart() -> None:
    before = waiting(all_of(timer(at=T0 + 100))).restarted(T0 + 50)
    before.when_time_passes(T0 + 99).then(next_deadline=T0 + 100)
    before.when_time_passes(T0 + 100).then_events(fired("A-1"), met("A-1", (0,)))


def two_waiting(first_at: int, second_at: int) -> Given:
    """B-1 waits longest."""
    return given(
        started(),
        scheduled("A-1", wait_for=True),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(timer(at=second_at), channel("x"))),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(timer(at=first_at), timer(at=first_at + 20), channel("x"))),
    )


def test_timer_4_overdue_timers_fire_in_order_of_due_instant_over_all_steps() -> None:
    before = two_waiting(T0 + 100, T0 + 110).restarted(T0 + DAY)
    before.when_time_passes(T0 + DAY).then_events(fired("A-1", 0), fired("B-1", 0), fired("A-1", 1))


def test_timer_4_timers_due_at_one_instant_fire_in_the_order_of_installation() -> None:
    before = two_waiting(T0 + 100, T0 + 100)
    before.when_time_passes(T0 + 100).then_events(fired("B-1"), fired("A-1"))
    again = two_waiting(T0 + 100, T0 + 100).restarted(T0 + DAY)
    again.when_time_passes(T0 + DAY).then_events(fired("B-1"), fired("A-1", 0), fired("A-1", 1))


def test_timer_4_overdue_timers_decide_as_if_the_server_had_never_been_away() -> None:
    """The earlier of two overdue timers wins, and the later one never fires."""
    before = waiting(any_of(timer(at=T0 + 200), timer(at=T0 + 100))).restarted(T0 + DAY)
    before.when_time_passes(T0 + DAY).then_events(fired("A-1", 1), met("A-1", (1,)))


def test_timers_of_one_wait_due_together_fire_in_declaration_order() -> None:
    before = waiting(all_of(timer(at=T0 + 100), timer(at=T0 + 100)))
    before.when_time_passes(T0 + 100).then_events(fired("A-1", 0), fired("A-1", 1), met("A-1", (0, 1)))


def test_timer_5_due_timer_fires_before_the_command_that_comes_at_its_instant() -> None:
    """[WAIT-5] So the timer wins although the message comes in the same call, which stays queued."""
    before = waiting(any_of(channel("c"), timer(at=T0 + 100)))
    before.when(publish("c", b"1"), now=T0 + 100).then_events(
        fired("A-1", 1), met("A-1", (1,)), published("c", b"1", version=7, instant=T0 + 100)
    )
    assert before.run().pending_count == 1


def test_timer_5_command_before_the_instant_comes_first() -> None:
    before = waiting(any_of(channel("c"), timer(at=T0 + 100)))
    before.when(publish("c", b"1"), now=T0 + 99).then_events(
        Like(ChannelPublished), met("A-1", (0,), (0, message_ids(5, instant=T0 + 99)))
    )
    before.when_time_passes(T0 + 9_000).then()


def test_timer_7_longest_duration_needs_no_special_care() -> None:
    """[TIMER-2] 100 years."""
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    before.after(complete(all_of(timer(DURATION_MS_MAX)))).after()
    assert before.next_deadline == T0 + 20_000  # the session's ping
    assert before.restarted().next_deadline == T0 + DURATION_MS_MAX


def test_next_deadline_is_at_or_before_every_due_thing() -> None:
    before = two_waiting(T0 + 300, T0 + 200)
    assert before.next_deadline == T0 + 200
    before.ticked(T0 + 200)
    assert before.next_deadline == T0 + 300


def test_timers_of_many_steps_are_fired_once_each() -> None:
    """Acceptance example 33 in small."""
    events: list[Event] = [started()]
    for number in range(1, 51):
        name = f"A-{number}"
        events += [
            scheduled(name, wait_for=True),
            dispatched(name, method=Method.WAIT_FOR),
            wait_installed(name, all_of(timer(at=T0 + number * 7 % 50))),
        ]
    before = given(*events)
    for _ in range(3):
        before.ticked(before.now + 10)
        before = before.restarted()
    before.ticked(T0 + 50)
    fires = [record.event for record in before.log if isinstance(record.event, TimerFired)]
    assert len(fires) == 50
    assert sum(isinstance(record.event, ConditionsMet) for record in before.log) == 50
