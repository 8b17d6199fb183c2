"""Values and messages that a call only refers to [ATTR-3, ATTR-6, ATTR-7, CHAN-8]."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import Attribute, AttributeMap, Channel, ChannelMap, Context, PendingMessage, Registry, RPCResult, dead_end
from dexsdk._invoker import Invoker, PreparedCall
from tests.unit.dexsdk.calls import assign, run_to_failure
from tests.unit.dexsdk.flows import ScriptedFlow

DOCUMENT: Attribute[str] = Attribute("document", str)
PAGES: AttributeMap[str] = AttributeMap("pages", str)
NEWS: Channel[str] = Channel("news", str)
BY_USER: ChannelMap[int] = ChannelMap("by_user", int)


class Shelf:
    """A server that has these values and messages, and gives them in small pieces."""

    def __init__(
        self, values: dict[str, bytes], messages: dict[str, list[tuple[str, bytes, int]]] | None = None
    ) -> None:
        self.values = values
        self.messages = messages or {}
        self.questions: list[frames.Fetch] = []

    def fetch(self, question: frames.Fetch) -> "Future[frames.Fetched]":
        self.questions.append(question)
        answer: Future[frames.Fetched] = Future()
        answer.set_result(self._answer(question))
        return answer

    def _answer(self, question: frames.Fetch) -> frames.Fetched:
        if question.is_channel:
            left = [message for message in self.messages[question.key] if message[0] > question.after]
            return frames.Fetched(question.fetch, question.token, messages=tuple(left[:2]), has_more=len(left) > 2)
        if question.key not in self.values:
            return frames.Fetched(question.fetch, question.token, refusal="STALE")
        data = self.values[question.key][question.offset : question.offset + 4]
        has_more = question.offset + 4 < len(self.values[question.key])
        return frames.Fetched(question.fetch, question.token, data, has_more=has_more)


def run(shelf: Shelf, body: Callable[[Context], object], **fields: Any) -> frames.Output:
    flow = ScriptedFlow(DOCUMENT, PAGES, NEWS, BY_USER, execute=lambda context: (body(context), dead_end())[1])
    prepared = Invoker(Registry([flow])).prepare(assign(flow, "Scripted", **fields), None, shelf)
    assert isinstance(prepared, PreparedCall)
    response = prepared.run()
    assert isinstance(response, frames.Output), response
    return response


def test_attr_7_a_reference_is_resolved_at_its_first_read_and_only_then() -> None:
    shelf = Shelf({"document": b'"abcdefgh"', "pages\0001": b'"p"'})

    def body(context: Context) -> None:
        assert shelf.questions == []
        assert (DOCUMENT.get(context), DOCUMENT.get(context)) == ("abcdefgh", "abcdefgh")

    run(shelf, body, references=("document", "pages\0001"))
    assert [(question.key, question.offset) for question in shelf.questions] == [
        ("document", 0),
        ("document", 4),
        ("document", 8),
    ]


def test_attr_7_a_write_of_the_call_hides_the_reference() -> None:
    shelf = Shelf({})

    def body(context: Context) -> None:
        DOCUMENT.set(context, "new")
        assert DOCUMENT.get(context) == "new"
        DOCUMENT.delete(context)
        with pytest.raises(KeyError):
            DOCUMENT.get(context)

    run(shelf, body, references=("document",))
    assert shelf.questions == []


def test_attr_3_references_count_as_instances_of_their_map() -> None:
    """[ATTR-6] Without being fetched."""
    shelf = Shelf({})

    def body(context: Context) -> None:
        assert PAGES.get_all_instance_keys(context) == ["1", "2", "3"]
        PAGES.delete(context, "2")
        PAGES.set(context, "0", "x")
        assert PAGES.get_all_instance_keys(context) == ["0", "1", "3"]
        assert PAGES.get_map_size(context) == 3

    run(shelf, body, attributes={"pages\0001": b'"a"'}, references=("pages\0003", "pages\0002", "document"))
    assert shelf.questions == []


def test_attr_7_preload_moves_the_fetch_before_the_call_and_changes_no_result() -> None:
    """A map's name stands for all its instances."""
    shelf = Shelf({"document": b'"d"', "pages\0001": b'"p"'})
    asked: list[int] = []

    def body(context: Context) -> None:
        asked.append(len(shelf.questions))
        assert (PAGES.get(context, "1"), DOCUMENT.get(context)) == ("p", "d")

    run(shelf, body, references=("document", "pages\0001"), preload=("pages",))
    run(shelf, body, references=("document", "pages\0001"))
    assert asked == [1, 2]
    assert [question.key for question in shelf.questions] == ["pages\0001", "document", "pages\0001", "document"]


def test_attr_7_what_cannot_be_read_any_more_fails_the_attempt() -> None:
    flow = ScriptedFlow(DOCUMENT, execute=DOCUMENT.get)
    prepared = Invoker(Registry([flow])).prepare(assign(flow, "Scripted", references=("document",)), None, Shelf({}))
    assert isinstance(prepared, PreparedCall)
    response = prepared.run()
    assert isinstance(response, frames.Failed)
    assert "'document' cannot be read any more" in response.failure.detail
    assert "nothing can be fetched here" in run_to_failure(flow, "Scripted", references=("document",)).detail


def test_chan_8_pending_lists_what_nobody_consumed_oldest_first() -> None:
    """Pages are put together, asked for once per call; deletions of the call are left out."""
    queue = [(f"m{number}", f'"{number}"'.encode(), number * 1_000) for number in range(5)]
    shelf = Shelf({}, {"news": queue, "by_user\0u": [("m9", b"9", 0)]})

    def body(context: Context) -> None:
        first = NEWS.pending(context)
        assert first[1] == PendingMessage("m1", "1", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
        assert [message.value for message in first] == ["0", "1", "2", "3", "4"]
        NEWS.delete_message(context, "m2")
        NEWS.publish(context, "later")
        assert [message.value for message in NEWS.pending(context)] == ["0", "1", "3", "4"]
        assert NEWS.size(context) == 5
        assert [message.value for message in BY_USER.pending(context, "u")] == [9]
        assert BY_USER.pending(context, "nobody") == []

    run(shelf, body, channel_sizes={"news": 5, "by_user\0u": 1})
    assert [(question.key, question.after) for question in shelf.questions] == [
        ("news", ""),
        ("news", "m1"),
        ("news", "m3"),
        ("by_user\0u", ""),
    ]


def test_chan_8_an_rpc_lists_pending_messages_too() -> None:
    """[RPC-2]"""
    flow = ScriptedFlow(NEWS, ask=lambda context: RPCResult.of(len(NEWS.pending(context))))
    call = assign(flow, "ask", frames.METHOD_RPC, channel_sizes={"news": 1})
    prepared = Invoker(Registry([flow])).prepare(call, None, Shelf({}, {"news": [("m", b'"a"', 0)]}))
    assert isinstance(prepared, PreparedCall)
    response = prepared.run()
    assert isinstance(response, frames.Output)
    assert response.output == b"1"
