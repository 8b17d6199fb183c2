"""force_complete_if_channels_empty [DEC-4, DEC-5]."""

import msgspec
import pytest

from dexd.core.events import Event
from dexd.core.rejections import Code
from dexd.core.values import Completion, Decision, FlowErrorType, Method
from dexd.core.values import DecisionKind as Kind
from tests.support.builders import (
    At,
    acknowledged,
    all_of,
    canceled,
    canceling,
    channel,
    closed,
    complete,
    connect,
    decides,
    dispatched,
    executed,
    force_if_empty,
    graceful,
    message_ids,
    met,
    pending,
    plan,
    publish,
    published,
    scheduled,
    sent,
    started,
    token,
    wait_installed,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

DRAINED = force_if_empty(b"9", plan("A", wait_for=True), "c", "d")
CONDITIONAL = Kind.FORCE_COMPLETE_IF_CHANNELS_EMPTY


def deciding(*before: Event | At, streams: int = 1) -> Given:
    return given(started(), *before, scheduled("A-1")).after(*connect(streams=streams))


def consumed_by(step_id: str) -> tuple[Event, ...]:
    """The Step consumed the one message that was published and runs its execute next."""
    return (
        scheduled(step_id, wait_for=True),
        dispatched(step_id, method=Method.WAIT_FOR),
        wait_installed(step_id, all_of(channel("c"))),
        published("c", b"m", version=5),
        met(step_id, (0,), (0, message_ids(5))),
    )


def test_dec_4_empty_channels_complete_the_flow_with_the_output() -> None:
    before = deciding()
    before.when(complete(DRAINED)).then(
        events=[executed("A-1", CONDITIONAL, output=b"9"), closed()], effects=[acknowledged()]
    )
    assert before.run().completions == [Completion("A", "A-1", b"9")]


def test_dec_4_other_steps_are_canceled_as_with_force_complete() -> None:
    deciding(scheduled("B-1"), streams=0).after(*connect()).when(complete(DRAINED, token("B-1"))).then_events(
        executed("B-1", CONDITIONAL, output=b"9"), canceled("A-1"), closed()
    )


def test_dec_4_a_queued_message_schedules_the_fallback_and_adds_no_output() -> None:
    before = deciding(published("d", b"m", version=2))
    before.when(complete(DRAINED)).then_events(
        executed("A-1", CONDITIONAL), scheduled("A-2", wait_for=True, from_step="A-1"), sent("A-2")
    )
    assert before.run().completions == []


def test_dec_4_other_channels_do_not_matter() -> None:
    before = deciding(published("other", b"m", version=2))
    before.when(complete(DRAINED)).then_events(executed("A-1", CONDITIONAL, output=b"9"), closed())


def test_dec_4_own_publications_are_checked_too() -> None:
    """[GEN-6] The check comes after them; a Step that would consume them does so only then."""
    response = decides(DRAINED, publications=(("c", b"m"),))
    deciding().when(complete(response)).then_events(
        Like(type(executed()), decision=CONDITIONAL, output=b""),
        scheduled("A-2", wait_for=True, from_step="A-1"),
        sent("A-2"),
    )


def test_dec_5_a_message_in_the_hands_of_another_execution_counts_as_present() -> None:
    before = deciding(*consumed_by("B-1"), streams=2)
    before.when(complete(DRAINED, number=2)).then_events(
        executed("A-1", CONDITIONAL), scheduled("A-2", wait_for=True, from_step="A-1"), sent("A-2")
    )


def test_dec_5_it_counts_no_more_when_that_execution_has_ended() -> None:
    before = deciding(*consumed_by("B-1"), streams=2).after(complete(graceful(), token("B-1")))
    before.when(complete(DRAINED, number=2)).then_events(executed("A-1", CONDITIONAL, output=b"9"), closed())


def test_dec_5_messages_of_the_deciding_execution_itself_do_not_count() -> None:
    before = given(started(), *consumed_by("A-1")).after(*connect())
    before.when(complete(DRAINED)).then_events(executed("A-1", CONDITIONAL, output=b"9"), closed())


def test_dec_5_messages_of_an_execution_that_the_decision_cancels_do_not_count() -> None:
    """[GEN-6] Cancellations come before the decision."""
    before = deciding(*consumed_by("B-1"), streams=2)
    before.when(complete(canceling(DRAINED, "B"), number=2)).then_events(
        executed("A-1", CONDITIONAL, output=b"9"), pending("B-1"), closed()
    )


def test_dec_5_a_racing_publish_is_seen_or_refused() -> None:
    deciding().after(complete(DRAINED)).when(publish("c", b"m")).then_rejected(Code.FLOW_NOT_ACTIVE)
    seen = deciding().after(publish("c", b"m"), complete(DRAINED))
    assert seen.run().is_open
    assert list(seen.run().channels) == ["c"]


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (force_if_empty(b"", plan("A")), "names no Channel"),
        (force_if_empty(b"", plan("A"), "c", "c"), "names a Channel twice"),
        (msgspec.structs.replace(DRAINED, movements=(plan("A"), plan("A"))), "has 2 fallback movements"),
    ],
)
def test_dec_8_what_the_sdk_lets_through_fails_the_flow(decision: Decision, problem: str) -> None:
    """[DEC-4] At least one Channel, no duplicates; one fallback."""
    before = deciding().after(complete(decision))
    assert before.run().error_type is FlowErrorType.INVALID_USER_FLOW_CODE
    assert problem in before.run().error_message
