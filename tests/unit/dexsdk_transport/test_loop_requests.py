"""Requests of one event loop: sent together, given up in time, forgotten when nobody waits any more."""

import asyncio
from collections.abc import Sequence

import pytest

from dexsdk._conversation import Ask
from dexsdk._loop_requests import LoopRequests, LoopWaiter
from dexsdk._status import RemoteStatus


class Line:
    """Where requests go; the test answers them."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.waiters: dict[bytes, LoopWaiter] = {}
        self.forgotten: list[int] = []
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def submit(self, requests: Sequence[tuple[int, Ask, LoopWaiter]]) -> None:
        self.batches.put_nowait([request.body for _, request, _ in requests])
        self.waiters.update({request.body: waiter for _, request, waiter in requests})

    def forget(self, number: int) -> None:
        self.forgotten.append(number)

    def give_up(self, request: Ask) -> RemoteStatus:
        return RemoteStatus("UNAVAILABLE", f"no answer within {request.timeout_s} s")


def request(body: bytes, timeout_s: float = 30.0) -> Ask:
    return Ask("StartFlow", body, timeout_s)


async def test_requests_of_one_turn_of_the_loop_leave_together() -> None:
    """[WIRE-2]"""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    first = [asyncio.create_task(requests.ask(request(body))) for body in (b"a", b"b", b"c")]
    assert await line.batches.get() == [b"a", b"b", b"c"]
    second = asyncio.create_task(requests.ask(request(b"d")))
    assert await line.batches.get() == [b"d"]
    for body, waiter in line.waiters.items():
        waiter.set_result(body.upper())
    assert await asyncio.gather(*first, second) == [b"A", b"B", b"C", b"D"]
    requests.close()


async def test_request_without_answer_is_given_up_in_its_time_and_no_other_one() -> None:
    """[ERR-2]: a shorter deadline than that of an earlier request is kept as well."""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    patient = asyncio.create_task(requests.ask(request(b"patient")))
    short = [
        asyncio.create_task(requests.ask(request(body, timeout))) for body, timeout in ((b"x", 0.02), (b"y", 0.05))
    ]
    answers = await asyncio.gather(*short)
    assert [answer.code for answer in answers if isinstance(answer, RemoteStatus)] == ["UNAVAILABLE"] * 2
    assert not patient.done()
    assert line.forgotten == [2, 3]
    line.waiters[b"patient"].set_result(b"late")
    assert await patient == b"late"
    requests.close()


async def test_canceled_request_is_forgotten_and_not_sent_if_it_was_not_yet() -> None:
    """[WAITAPI-6]"""
    line = Line()
    requests = LoopRequests(asyncio.get_running_loop(), line)
    sent = asyncio.create_task(requests.ask(request(b"sent")))
    assert await line.batches.get() == [b"sent"]
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    unsent, kept = (asyncio.create_task(requests.ask(request(body))) for body in (b"unsent", b"kept"))
    await asyncio.sleep(0)  # Both have asked, and what was asked leaves in the next turn.
    unsent.cancel()
    assert await line.batches.get() == [b"kept"]
    assert line.forgotten == [1, 2]
    line.waiters[b"kept"].set_result(b"answer")
    assert await kept == b"answer"
    requests.close()
