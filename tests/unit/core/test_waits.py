"""Waits in a kernel: installed, satisfied, consumed, moved to execute [WAIT-1..10, CHAN-1..3, STEP-2, STEP-3]."""

from dexd.core.events import ChannelPublished, ConditionsMet, Event, ExecuteCompleted
from dexd.core.outcome import PublishAccepted
from dexd.core.values import ConditionKind, ConditionResult, Method, Wait
from tests.support.builders import (
    CONFIRMED,
    DEAD_END,
    SKIP,
    T0,
    WELCOME,
    acknowledged,
    all_of,
    any_combination,
    any_of,
    assigned,
    channel,
    complete,
    connect,
    decides,
    dispatched,
    message_ids,
    met,
    publish,
    published,
    scheduled,
    sent,
    set_attribute,
    started,
    timer,
    token,
    wait_installed,
    waits,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

WAIT_FOR = token("A-1", method=Method.WAIT_FOR)


def waiting(wait: Wait, *more: Wait) -> Given:
    """A-1 waits, then A-2 and so on; versions: one for the start, three for each."""
    events: list[Event] = [started()]
    for number, each in enumerate((wait, *more), start=1):
        name = f"A-{number}"
        events += [
            scheduled(name, wait_for=True),
            dispatched(name, method=Method.WAIT_FOR),
            wait_installed(name, each),
        ]
    return given(*events)


def asked() -> Given:
    """A worker runs wait_for of A-1."""
    return given(started(), scheduled("A-1", wait_for=True)).after(*connect())


def test_wait_1_skip_goes_on_with_execute_at_once() -> None:
    asked().when(complete(SKIP)).then(
        events=[wait_installed("A-1", SKIP), sent("A-1", method=Method.EXECUTE, attempt=1, delivery=1)],
        effects=[acknowledged(WAIT_FOR), assigned(token("A-1"))],
        next_deadline=T0 + 5_000,
    )


def test_step_3_effects_of_wait_for_are_applied_before_the_wait_is_installed() -> None:
    """[STEP-5] Locals reach execute."""
    response = waits(
        all_of(channel("c")),
        writes=(("a", b"1"),),
        publications=(("c", b"m"),),
        locals=(("l", b"2"),),
        recorded=(("n", b"3"),),
    )
    asked().when(complete(response)).then_effects(
        acknowledged(WAIT_FOR),
        assigned(
            token("A-1"),
            attributes={"a": b"1"},
            locals={"l": b"2"},
            channel_sizes={},
            results=(ConditionResult(ConditionKind.CHANNEL, "", True, "c", (b"m",), 1),),
        ),
    )


def test_wait_4_message_published_before_the_wait_satisfies_it_when_it_is_installed() -> None:
    wait = all_of(channel("c"))
    before = given(started(), scheduled("A-1", wait_for=True), published("c", b"m", version=3)).after(*connect())
    before.when(complete(wait)).then_events(
        wait_installed("A-1", wait), met("A-1", (0,), (0, message_ids(3))), sent("A-1")
    )


def test_wait_4_message_published_later_satisfies_it_in_the_same_outcome() -> None:
    before = waiting(all_of(channel("c"))).after(*connect())
    ids = message_ids(5)
    before.when(publish("c", b"m")).then(
        events=[
            published("c", b"m", version=5),
            met("A-1", (0,), (0, ids)),
            sent("A-1"),
        ],
        effects=[assigned(token("A-1"), results=(ConditionResult(ConditionKind.CHANNEL, "", True, "c", (b"m",), 1),))],
        reply=PublishAccepted(ids),
    )


def test_wait_4_message_on_another_channel_changes_nothing() -> None:
    waiting(all_of(channel("c"))).when(publish("d", b"m")).then_events(published("d", b"m", version=5))


def test_wait_4_publication_of_a_handler_satisfies_a_wait_of_another_branch() -> None:
    """[GEN-6] All of a response is applied before waits are evaluated."""
    events = (
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c", 2, 2))),
        scheduled("B-1"),
    )
    response = decides(DEAD_END, publications=(("c", b"1"), ("c", b"2")))
    given(*events).after(*connect()).when(complete(response, token("B-1"))).then_events(
        Like(ExecuteCompleted),
        met("A-1", (0,), (0, message_ids(7, 2))),
        sent("A-1"),
    )


def test_wait_9_only_the_winner_consumes_and_the_others_read_as_waiting() -> None:
    """Also those that could have won."""
    wait = any_of(channel("c"), channel("d"))
    before = waiting(wait).after(*connect())
    before.after(publish("d", b"1", request_id="r1"))
    assert before.step().results == (
        ConditionResult(ConditionKind.CHANNEL, "", False, "c", (), 1),
        ConditionResult(ConditionKind.CHANNEL, "", True, "d", (b"1",), 1),
    )


def test_wait_9_timer_that_fired_without_winning_reads_as_waiting() -> None:
    wait = any_combination((timer(at=T0, id="t"), channel("c", id="c"), channel("d", id="d")), (0, 1), (2,))
    before = asked().after(complete(wait)).after(publish("d", b"1"))
    results = before.step().results
    assert [result.met for result in results] == [False, False, True]


def test_wait_10_oldest_wait_consumes_first() -> None:
    """Installed in the order B, A although A was scheduled first."""
    events = (
        started(),
        scheduled("A-1", wait_for=True),
        scheduled("B-1", wait_for=True),
        dispatched("B-1", method=Method.WAIT_FOR),
        wait_installed("B-1", all_of(channel("c"))),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
    )
    given(*events).when(publish("c", b"1")).then_events(
        published("c", b"1", version=8), met("B-1", (0,), (0, message_ids(8)))
    )


def test_wait_10_each_consumes_before_the_next_is_looked_at() -> None:
    one = all_of(channel("c"))
    ids = message_ids(11, 2)
    waiting(one, one, one).when(publish("c", b"1", b"2")).then_events(
        Like(ChannelPublished), met("A-1", (0,), (0, ids[:1])), met("A-2", (0,), (0, ids[1:]))
    )


def test_wait_10_younger_wait_may_take_what_the_older_cannot_use() -> None:
    waiting(all_of(channel("c", 2, 2)), all_of(channel("c"))).when(publish("c", b"1")).then_events(
        Like(ChannelPublished), met("A-2", (0,), (0, message_ids(8)))
    )


def test_wait_10_waits_on_two_channels_of_one_response_go_by_age() -> None:
    waits_first = waiting(all_of(channel("d")), all_of(channel("c")), all_of(channel("d")))
    before = given(*(recorded.event for recorded in waits_first.log), scheduled("B-1")).after(*connect())
    response = decides(DEAD_END, publications=(("c", b"1"), ("d", b"2")))
    then = before.when(complete(response, token("B-1")))
    assert [event.step_execution_id for event in then.events if isinstance(event, ConditionsMet)] == ["A-1", "A-2"]


def test_wait_10_new_wait_is_younger_than_those_that_its_own_publication_satisfies() -> None:
    events = (
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
        scheduled("A-2", wait_for=True),
    )
    before = given(*events).after(*connect())
    response = waits(all_of(channel("c")), publications=(("c", b"1"),))
    then = before.when(complete(response, token("A-2", method=Method.WAIT_FOR)))
    assert [event.step_execution_id for event in then.events if isinstance(event, ConditionsMet)] == ["A-1"]


def test_chan_1_message_goes_to_at_most_one_wait() -> None:
    one = all_of(channel("c"))
    after = waiting(one, one).after(publish("c", b"1"))
    assert "A-2" in after.run().watchers["c"]
    assert after.run().pending_count == 0


def test_chan_3_messages_are_consumed_in_commit_order() -> None:
    before = waiting(all_of(channel("c", 3, 3)))
    before.after(publish("c", b"1", request_id="1"), publish("c", b"2", b"3", request_id="2"))
    assert before.step().results[0].values == (b"1", b"2", b"3")


def test_chan_4_rest_of_the_queue_stays() -> None:
    """Acceptance example 3: for_range(1, 3) with 5 queued takes 3 and leaves 2."""
    before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
    before.after(publish("c", b"1", b"2", b"3", b"4", b"5"))
    before.after(complete(all_of(channel("c", 1, 3))))
    assert [message.value for message in before.run().channels["c"]] == [b"4", b"5"]


def test_results_of_one_method_call_stay_the_same_over_its_attempts() -> None:
    """[ATTR-8] Attributes are fresh at every delivery, consumed messages are not."""
    before = waiting(all_of(channel("c"))).after(publish("c", b"m"), set_attribute("a", b"2", request_id="s"))
    consumed = (ConditionResult(ConditionKind.CHANNEL, "", True, "c", (b"m",), 1),)
    before.when(*connect()).then_effects(
        WELCOME, CONFIRMED, assigned(token("A-1"), results=consumed, attributes={"a": b"2"})
    )


def test_wait_for_call_does_not_see_results_or_locals() -> None:
    """[STEP-5, WAIT-11] They belong to execute."""
    before = given(started(), scheduled("A-1", wait_for=True))
    before.when(*connect()).then_effects(
        WELCOME, CONFIRMED, assigned(WAIT_FOR, results=(), locals={}, wait_for_failed=False)
    )


def test_wait_10_message_that_an_older_wait_took_is_not_there_for_the_next() -> None:
    one = all_of(channel("c"))
    before = given(*(recorded.event for recorded in waiting(one, one).log), scheduled("A-3", wait_for=True))
    before.after(*connect())
    response = waits(one, publications=(("c", b"1"),))
    then = before.when(complete(response, token("A-3", method=Method.WAIT_FOR)))
    assert [event.step_execution_id for event in then.events if isinstance(event, ConditionsMet)] == ["A-1"]


def test_step_that_does_not_wait_has_no_next_timer() -> None:
    assert given(started(), scheduled("A-1")).step().next_timer_at() is None
