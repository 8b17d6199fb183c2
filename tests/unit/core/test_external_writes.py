"""What clients write to a Flow from outside: messages and Attributes [CHAN-*, ATTR-*, RPC-12, GEN-8, ID-5]."""

import pytest

from dexd.core import commands as c
from dexd.core.config import (
    PENDING_BYTES_MAX,
    PENDING_MESSAGES_MAX,
    REQUESTS_REMEMBERED_MAX,
    REQUESTS_REMEMBERED_MS,
)
from dexd.core.events import ChannelPublished, WaitForFailed
from dexd.core.ids import RequestId
from dexd.core.outcome import AttributeAccepted, PublishAccepted
from dexd.core.rejections import Code
from dexd.core.values import Failure, Method
from tests.support.builders import (
    DEAD_END,
    FLOW,
    RUN,
    SKIP,
    T0,
    attribute_set,
    closed,
    complete,
    connect,
    decides,
    digest,
    force,
    message_ids,
    publish,
    published,
    scheduled,
    set_attribute,
    started,
    stop,
    token,
    waits,
)
from tests.support.given import given
from tests.support.matchers import Like

# ---- messages ---------------------------------------------------------------------------------------------------


def test_chan_1_message_waits_for_whoever_will_want_it() -> None:
    after = (
        given(started())
        .when(publish("c", b"1"))
        .then(events=[published("c", b"1", version=2)], reply=PublishAccepted(message_ids(2)))
    )
    assert [message.value for message in after.run().channels["c"]] == [b"1"]


def test_chan_2_one_request_keeps_its_order_in_one_event() -> None:
    given(started()).when(publish("c", b"1", b"2")).then(
        events=[published("c", b"1", b"2", version=2)], reply=PublishAccepted(message_ids(2, 2))
    )


def test_chan_2_publishing_needs_an_active_flow() -> None:
    """[WAITAPI-7]"""
    given(started(), closed()).when(publish("c", b"1")).then_rejected(
        Code.FLOW_NOT_ACTIVE, flow_id=FLOW, run_id=RUN, status="COMPLETED"
    )


def test_unknown_flow_is_not_found() -> None:
    given().when(publish("c", b"1")).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)
    given().when(set_attribute("a", b"1")).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)
    given().when(stop()).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)


def test_chan_3_queues_keep_commit_order() -> None:
    after = given(started()).after(publish("c", b"1", request_id="1"), publish("c", b"2", request_id="2"))
    assert [message.value for message in after.run().channels["c"]] == [b"1", b"2"]


def test_id_13_message_ids_are_unique_and_in_order_of_time() -> None:
    before = given(started())
    then = before.after(publish("c", b"1", b"2", request_id="1")).when(publish("d", b"3", request_id="2"), now=T0 + 1)
    assert then.reply == PublishAccepted(message_ids(3, instant=T0 + 1))
    ids = [message.message_id for queue in before.run().channels.values() for message in queue]
    assert ids == sorted(ids)
    assert len(dict.fromkeys(ids)) == 3


@pytest.mark.parametrize(
    ("values", "what", "limit"),
    [
        ((b"",) * (PENDING_MESSAGES_MAX + 1), "pending messages", PENDING_MESSAGES_MAX),
        ((b"x" * PENDING_BYTES_MAX, b"y"), "bytes of pending messages", PENDING_BYTES_MAX),
    ],
)
def test_chan_10_publishing_beyond_the_limit_is_refused_naming_size_and_limit(
    values: tuple[bytes, ...], what: str, limit: int
) -> None:
    given(started()).when(publish("c", *values)).then_rejected(
        Code.CHANNEL_FULL, flow_id=FLOW, what=what, size=str(limit + 1), limit=str(limit)
    )


def test_chan_10_up_to_the_limit_is_accepted_and_counts_what_is_queued() -> None:
    before = given(started()).after(publish("c", *[b""] * (PENDING_MESSAGES_MAX - 1), request_id="1"))
    before.when(publish("d", b"1", request_id="2")).then_events(Like(ChannelPublished))
    before.when(publish("e", b"1", request_id="3")).then_rejected(Code.CHANNEL_FULL)


def test_chan_10_publications_of_a_response_beyond_the_limit_are_a_failed_attempt() -> None:
    before = given(started(), scheduled("A-1")).after(publish("c", *[b""] * PENDING_MESSAGES_MAX)).after(*connect())
    after = before.after(complete(decides(DEAD_END, publications=(("c", b""),))))
    failed = after.step().failure
    assert failed is not None
    assert failed.error_type == "CHANNEL_FULL"
    assert after.run().pending_count == PENDING_MESSAGES_MAX


def test_chan_10_publications_of_wait_for_beyond_the_limit_are_a_failed_attempt() -> None:
    before = given(started(), scheduled("A-1", wait_for=True))
    before.after(publish("c", *[b""] * PENDING_MESSAGES_MAX)).after(*connect())
    method = token("A-1", method=Method.WAIT_FOR)
    before.when(complete(waits(SKIP, publications=(("c", b""),)), method)).then_events(
        Like(WaitForFailed, failure=Like(Failure, error_type="CHANNEL_FULL"))
    )


# ---- Attributes -------------------------------------------------------------------------------------------------


def test_attr_2_last_commit_wins_per_key() -> None:
    after = given(started(attributes=(("a", b"0"), ("b", b"0"))), attribute_set("a", b"1", "1"))
    after.when(set_attribute("a", b"2")).then(events=[attribute_set("a", b"2")], reply=AttributeAccepted())
    assert after.run().attributes == {"a": b"2", "b": b"0"}


def test_attr_1_none_deletes_also_what_is_not_there() -> None:
    after = given(started(attributes=(("a", b"0"),)))
    after.when(set_attribute("a", None)).then(events=[attribute_set("a", None)], reply=AttributeAccepted())
    after.when(set_attribute("b", None, request_id="s")).then(
        events=[attribute_set("b", None, "s")], reply=AttributeAccepted()
    )
    assert after.run().attributes == {}


def test_attr_5_writing_needs_an_active_flow() -> None:
    given(started(), closed()).when(set_attribute("a", b"1")).then_rejected(Code.FLOW_NOT_ACTIVE, status="COMPLETED")


# ---- requests ---------------------------------------------------------------------------------------------------


def test_gen_8_repeat_gets_the_stored_answer_and_applies_nothing() -> None:
    before = given(started()).after(publish("c", b"1", b"2"))
    before.when(publish("c", b"1", b"2"), now=T0 + 1).then(reply=PublishAccepted(message_ids(2, 2)))


def test_gen_8_repeat_is_answered_although_the_flow_has_closed_meanwhile() -> None:
    before = given(started(), scheduled("A-1")).after(*connect())
    before.after(publish("c", b"1"), set_attribute("a", b"1", request_id="s"), complete(force()))
    before.when(publish("c", b"1")).then(reply=PublishAccepted(message_ids(4)))
    before.when(set_attribute("a", b"1", request_id="s")).then(reply=AttributeAccepted())


def test_rpc_12_same_request_id_with_other_content_is_a_conflict() -> None:
    before = given(started()).after(publish("c", b"1"))
    other = c.PublishMessages(FLOW, None, "c", (b"2",), publish("c").request_id, digest("other"))
    before.when(other).then_rejected(Code.REQUEST_CONFLICT, flow_id=FLOW, request_id="r")
    write = c.SetAttribute(FLOW, None, "a", b"2", publish("c").request_id, digest("other"))
    before.when(write).then_rejected(Code.REQUEST_CONFLICT, request_id="r")
    end = c.StopFlow(FLOW, None, stop().type, "", publish("c").request_id, digest("other"))
    before.when(end).then_rejected(Code.REQUEST_CONFLICT, request_id="r")


def test_rpc_12_requests_are_remembered_over_a_restart() -> None:
    before = given(started()).after(publish("c", b"1")).restarted()
    before.when(publish("c", b"1")).then(reply=PublishAccepted(message_ids(2)))


def test_rpc_12_requests_are_forgotten_after_a_day() -> None:
    before = given(started(), attribute_set("a", b"1", "old"))
    late = T0 + REQUESTS_REMEMBERED_MS
    before.after(set_attribute("a", b"2", request_id="kept"), now=late)
    assert list(before.run().requests) == ["old", "kept"]
    before.after(set_attribute("a", b"3", request_id="new"), now=late + 1)
    assert list(before.run().requests) == ["kept", "new"]


def test_rpc_12_only_the_newest_requests_are_remembered() -> None:
    many = (attribute_set("a", b"1", f"r{number}") for number in range(REQUESTS_REMEMBERED_MAX + 1))
    requests = given(started(), *many).run().requests
    assert len(requests) == REQUESTS_REMEMBERED_MAX
    assert next(iter(requests)) == "r1"
    assert requests[RequestId("r1")].record.digest == digest("r1")


def test_id_5_run_id_guards_a_mutation() -> None:
    before = given(started(), closed(), started(run_id="run-2", ordinal=2))
    for command in (
        publish("c", b"1", run_id=RUN),
        set_attribute("a", b"1", run_id=RUN),
        stop(run_id=RUN),
    ):
        before.when(command).then_rejected(Code.FLOW_NOT_ACTIVE, expected=RUN, run_id="run-2")
    before.when(publish("c", b"1", run_id="run-2")).then_events(Like(ChannelPublished))
