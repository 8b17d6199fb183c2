"""Messages that are taken out of a Channel without being consumed [CHAN-8, CHAN-9]."""

import pytest
from msgspec.structs import replace

from dexd.core.config import PENDING_BYTES_MAX, PENDING_MESSAGES_MAX
from dexd.core.events import ExecuteCompleted, RpcCompleted, StepScheduled, WaitForCompleted
from dexd.core.outcome import MessageDeleted
from dexd.core.rejections import Code
from dexd.core.values import Decision, DecisionKind, Method, Response
from tests.support.builders import (
    DEAD_END,
    RUN,
    acknowledged,
    all_of,
    answered,
    channel,
    closed,
    complete,
    connect,
    decides,
    dispatched,
    executed,
    message_ids,
    met,
    plan,
    publish,
    published,
    rpc,
    rpc_token,
    scheduled,
    sent,
    started,
    token,
    wait_installed,
    waits,
)
from tests.support.deletion_builders import delete_message, deleted
from tests.support.given import Given, given
from tests.support.matchers import Like

ONE, TWO, THREE = message_ids(2, 3)


def filled() -> Given:
    """Three messages in Channel c."""
    return given(started(), published("c", b"1", b"22", b"333", version=2, request_id="p"))


def ids_in(flow: Given, channel_name: str = "c") -> list[str]:
    return [message.message_id for message in flow.run().channels.get(channel_name, ())]


# ---- by clients -------------------------------------------------------------------------------------------------


def test_chan_9_one_message_goes_and_the_others_keep_their_order() -> None:
    before = filled()
    before.when(delete_message(TWO)).then(events=[deleted(TWO, request_id="r")], reply=MessageDeleted())
    assert ids_in(before) == [ONE, THREE]
    assert (before.run().pending_count, before.run().pending_bytes) == (2, 4)


def test_chan_9_the_last_message_leaves_no_empty_queue() -> None:
    before = given(started(), published("c", b"1", version=2, request_id="p"))
    before.after(delete_message(ONE))
    assert before.run().channels == {}


@pytest.mark.parametrize("message_id", ["nothing", "", "~"])
def test_chan_9_a_missing_message_is_refused(message_id: str) -> None:
    filled().when(delete_message(message_id)).then_rejected(
        Code.CHANNEL_MESSAGE_NOT_FOUND, channel="c", message_id=message_id
    )
    filled().when(delete_message(ONE, "d")).then_rejected(Code.CHANNEL_MESSAGE_NOT_FOUND, channel="d")


def test_chan_9_a_consumed_message_cannot_be_deleted() -> None:
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
    ).after(publish("c", b"1", request_id="p"))
    (message_id,) = message_ids(5)
    before.when(delete_message(message_id)).then_rejected(Code.CHANNEL_MESSAGE_NOT_FOUND)


def test_chan_9_a_repeat_is_answered_as_before() -> None:
    """[RPC-12] Although the message has gone, and the Flow too."""
    before = filled().after(delete_message(ONE))
    before.when(delete_message(ONE)).then(reply=MessageDeleted())
    before.restarted().when(delete_message(ONE)).then(reply=MessageDeleted())
    other = delete_message(TWO)
    before.when(replace(other, digest=b"other")).then_rejected(Code.REQUEST_CONFLICT)


def test_chan_9_deleting_needs_an_active_flow() -> None:
    """[WAITAPI-7, ID-5]"""
    after_close = given(started(), published("c", b"1", version=2, request_id="p"), closed())
    after_close.when(delete_message(ONE)).then_rejected(Code.FLOW_NOT_ACTIVE)
    given().when(delete_message(ONE)).then_rejected(Code.FLOW_NOT_FOUND)
    guarded = given(started(), closed(), started(run_id="run-2", ordinal=2))
    guarded.when(delete_message(ONE, run_id=RUN)).then_rejected(Code.FLOW_NOT_ACTIVE, expected=RUN)


# ---- by handlers ------------------------------------------------------------------------------------------------


def executing() -> Given:
    before = given(started(), scheduled("A-1"), published("c", b"1", b"22", b"333", version=3, request_id="p"))
    return before.after(*connect())


def test_chan_8_a_response_deletes_messages_before_it_publishes() -> None:
    """[GEN-6] All in one commit; the deletions of one Channel are one event."""
    one, _, three = message_ids(3, 3)
    before = executing()
    response = decides(DEAD_END, deletions=(("c", three), ("c", one), ("c", three)), publications=(("c", b"4"),))
    before.when(complete(response)).then_events(
        deleted(three, one, by="A-1"),
        executed(decision=DecisionKind.DEAD_END, messages=((message_ids(6)[0], "c", b"4"),)),
    )
    assert [message.value for message in before.run().channels["c"]] == [b"22", b"4"]


def test_dec_4_a_channel_is_empty_once_its_messages_are_deleted() -> None:
    """[GEN-6] Deletions come before the decision."""
    one, two, three = message_ids(3, 3)
    before = executing()
    decision = Decision(DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY, (plan("B"),), b"1", channels=("c",))
    some, rest = (("c", one), ("c", two)), (("c", three),)
    before.when(complete(decides(decision, deletions=some))).then_events(
        deleted(one, two, by="A-1"), Like(ExecuteCompleted, output=b""), Like(StepScheduled), sent("B-1")
    )
    before.when(complete(decides(decision, deletions=rest), token("B-1"))).then_events(
        deleted(three, by="B-1"), Like(ExecuteCompleted, output=b"1"), closed()
    )


def test_chan_8_an_unknown_id_is_a_no_op() -> None:
    response = decides(DEAD_END, deletions=(("c", "nothing"), ("d", "nothing")))
    executing().when(complete(response)).then_events(executed(decision=DecisionKind.DEAD_END))


def test_chan_8_what_was_deleted_lets_no_wait_go_on() -> None:
    """[WAIT-4] The deletion of wait_for counts before its own Wait is evaluated."""
    before = given(started(), scheduled("A-1", wait_for=True), published("c", b"1", version=3, request_id="p"))
    (one,) = message_ids(3)
    wait = all_of(channel("c"))
    before.after(*connect()).when(complete(waits(wait, deletions=(("c", one),)))).then_events(
        deleted(one, by="A-1"), Like(WaitForCompleted)
    )
    before.when(publish("c", b"2", request_id="q")).then_events(
        published("c", b"2", version=7, request_id="q"), met("A-1", (0,), (0, message_ids(7))), sent("A-1")
    )


def test_chan_8_a_failed_attempt_deletes_nothing() -> None:
    """[GEN-7] Here it fails because of what it publishes, although its deletion makes some room."""
    full = given(started(), scheduled("A-1")).after(publish("c", *[b""] * PENDING_MESSAGES_MAX, request_id="p"))
    (one,) = message_ids(3)
    before = full.after(*connect())
    before.after(complete(decides(DEAD_END, deletions=(("c", one),), publications=(("c", b""), ("d", b"")))))
    assert before.run().pending_count == PENDING_MESSAGES_MAX
    assert before.step().attempt == 2


def test_chan_10_deletions_make_room_for_the_publications_of_the_same_response() -> None:
    full = given(started(), scheduled("A-1"), published("c", b"x" * PENDING_BYTES_MAX, version=3, request_id="p"))
    (one,) = message_ids(3)
    before = full.after(*connect())
    response = decides(DEAD_END, deletions=(("c", one),), publications=(("c", b"y"),))
    before.when(complete(response)).then_events(deleted(one, by="A-1"), Like(ExecuteCompleted))
    assert before.run().pending_bytes == 1


def test_rpc_2_an_rpc_deletes_messages() -> None:
    """[CHAN-8] A deletion is an effect."""
    before = filled().after(*connect(), rpc("write"))
    before.when(complete(Response(deletions=(("c", ONE),), output=b"7"), rpc_token())).then_events(
        deleted(ONE, by="sys:rpc:write#1"), Like(RpcCompleted, number=1)
    )


def test_rpc_4_a_deletion_of_nothing_is_no_effect() -> None:
    before = filled().after(*connect(), rpc("write"))
    before.when(complete(Response(deletions=(("c", "x"),), output=b"7"), rpc_token())).then(
        effects=[acknowledged(rpc_token()), answered(b"7")]
    )
