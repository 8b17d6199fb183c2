"""Requests of one event loop: sent together, given up in time, forgotten when nobody waits any more."""

import asyncio
from collections.abc import Sequence

import pytest

from dexsdk._conversation import Answer, Ask, Conversation, Given, Pause, Turn
from dexsdk._loop_requests import LoopRequest, LoopRequests
from dexsdk._status import RemoteStatus


class Line:
    """Where requests go; the test answers them."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.open: dict[bytes, LoopRequest] = {}
        self.forgotten: list[int] = []
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def submit(self, requests: Sequence[LoopRequest]) -> None:
        self.batches.put_nowait([opened.request.body for opened in requests])
        self.open.update({opened.request.body: opened for opened in requests})

    def forget(self, number: int) -> None:
        self.forgotten.append(number)

    def give_up(self, request: Ask) -> RemoteStatus:
        return RemoteStatus("UNAVAILABLE", f"no answer within {request.timeout_s} s")


def asking(body: bytes, timeout_s: float) -> Conversation[Answer]:
    answer = yield Ask("StartFlow", body, timeout_s)
    assert isinstance(answer, bytes | RemoteStatus)
    return answer


async def no_other_turn(turn: Turn) -> Given:
    raise AssertionError(f"{turn} is no request")


def ask(requests: LoopRequests, body: bytes, timeout_s: float = 30.0) -> asyncio.Task[Answer]:
    return asyncio.create_task(requests.converse(asking(body, timeout_s), no_other_turn))


async def test_requests_of_one_turn_of_the_loop_leave_together() -> None:
    """[WIRE-2]"""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    first = [ask(requests, body) for body in (b"a", b"b", b"c")]
    assert await line.batches.get() == [b"a", b"b", b"c"]
    second = ask(requests, b"d")
    assert await line.batches.get() == [b"d"]
    requests.settle([(opened, body.upper()) for body, opened in line.open.items()])
    assert await asyncio.gather(*first, second) == [b"A", b"B", b"C", b"D"]
    requests.close()


async def test_request_without_answer_is_given_up_in_its_time_and_no_other_one() -> None:
    """[ERR-2]: a shorter deadline than that of an earlier request is kept as well."""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    patient = ask(requests, b"patient")
    short = [ask(requests, body, timeout) for body, timeout in ((b"x", 0.02), (b"y", 0.05))]
    answers = await asyncio.gather(*short)
    assert [answer.code for answer in answers if isinstance(answer, RemoteStatus)] == ["UNAVAILABLE"] * 2
    assert not patient.done()
    assert line.forgotten == [2, 3]
    requests.settle([(line.open[b"patient"], b"late")])
    assert await patient == b"late"
    requests.close()


async def test_canceled_request_is_forgotten_and_not_sent_if_it_was_not_yet() -> None:
    """[WAITAPI-6]"""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    sent = ask(requests, b"sent")
    assert await line.batches.get() == [b"sent"]
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    unsent, kept = (ask(requests, body) for body in (b"unsent", b"kept"))
    await asyncio.sleep(0)  # Both have asked, and what was asked leaves in the next turn.
    unsent.cancel()
    assert await line.batches.get() == [b"kept"]
    assert line.forgotten == [1, 2]
    requests.settle([(line.open[b"kept"], b"answer")])
    assert await kept == b"answer"
    requests.close()


async def test_answer_after_the_await_was_canceled_is_dropped() -> None:
    """[WAITAPI-6]: it may come in the same turn of the loop as the cancellation."""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    sent = ask(requests, b"sent")
    assert await line.batches.get() == [b"sent"]
    sent.cancel()
    requests.settle([(line.open[b"sent"], b"answer")])
    with pytest.raises(asyncio.CancelledError):
        await sent
    requests.settle([(line.open[b"sent"], b"once more")])
    requests.close()


async def test_other_turns_are_answered_by_the_carrier() -> None:
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    turns: list[Turn] = []

    async def answer(turn: Turn) -> Given:
        turns.append(turn)
        return None

    def pausing() -> Conversation[str]:
        yield Pause(1.0)
        return "rested"

    assert await requests.converse(pausing(), answer) == "rested"
    assert turns == [Pause(1.0)]
