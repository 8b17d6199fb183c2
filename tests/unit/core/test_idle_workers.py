"""The best idle worker of many is found without looking at each of them [ROUTE-7]."""

import pytest

from dexd.core.ids import CallId, QueueName, SessionId, StreamNumber, WorkerId
from dexd.core.matching.calls import Call
from dexd.core.matching.idle_workers import GARBAGE_MAX, IdleWorkers
from dexd.core.matching.sessions import Session, Stream, Worker
from dexd.core.values import Method
from tests.support.builders import FLOW_TYPE, T0, serves, started
from tests.support.given import given

QUEUE = QueueName(FLOW_TYPE)
RUN = given(started()).run()
CALL = Call((RUN.run_id, CallId("A-1")), RUN, Method.EXECUTE, "A")


class CountedWorker(Worker):
    """Counts how often somebody looked whether it has room."""

    looks = 0

    def is_held(self, *, is_rpc: bool, now: int) -> bool:
        CountedWorker.looks += 1
        return super().is_held(is_rpc=is_rpc, now=now)


def worker(name: str, *, limit: int = 8, streams: int = 1) -> CountedWorker:
    made = CountedWorker(WorkerId(name), "i", limit, 0, {FLOW_TYPE: serves()})
    session = Session(SessionId(1), made)
    for number in range(streams):
        made.add_idle(Stream(session, StreamNumber(number), QUEUE), now=T0)
    return made


def fleet(count: int, *, limit: int = 8) -> tuple[IdleWorkers, list[CountedWorker]]:
    idle = IdleWorkers(QUEUE, is_rpc=False)
    workers = [worker(f"w{number:03}", limit=limit, streams=limit + 1) for number in range(count)]
    for each in workers:
        idle.add(each)
    CountedWorker.looks = 0
    return idle, workers


def test_hundreds_of_workers_cost_as_much_per_call_as_a_few() -> None:
    idle, workers = fleet(300)
    for _ in range(2_400):
        best = idle.best(CALL, now=T0)
        assert best is not None
        best.busy += 1
    assert {each.busy for each in workers} == {8}
    assert CountedWorker.looks < 3 * 2_400


def test_full_workers_are_looked_at_once_however_many_calls_come() -> None:
    idle, workers = fleet(300, limit=1)
    for each in workers:
        each.busy = 2
    for _ in range(1_000):
        assert idle.best(CALL, now=T0) is None
    assert CountedWorker.looks == 300


def test_worker_that_frees_a_slot_is_ranked_again() -> None:
    idle, (first, second) = fleet(2, limit=1)
    first.busy = second.busy = 2
    assert idle.best(CALL, now=T0) is None
    second.busy = 0
    assert second.busy < second.ranked_busy
    idle.add(second)
    assert idle.best(CALL, now=T0) is second


def test_worker_that_came_back_takes_the_place_of_the_one_before() -> None:
    """Same app worker ID, another process: the old one is gone, whatever its rank was."""
    idle, (old,) = fleet(1)
    old.idle = {}
    new = worker("w000")
    idle.add(new)
    assert idle.best(CALL, now=T0) is new


def test_workers_that_have_gone_do_not_pile_up_where_no_call_ever_comes() -> None:
    """[ARCH-8]"""
    idle = IdleWorkers(QUEUE, is_rpc=False)
    for number in range(5_000):
        gone = worker(f"w{number}")
        idle.add(gone)
        gone.idle = {}
    assert len(idle._heap) <= GARBAGE_MAX
    assert len(idle._ranks) <= GARBAGE_MAX
    assert not list(idle.workers())


@pytest.mark.parametrize("kept_out", ["excluded", "lacks the name"])
def test_worker_that_may_not_have_the_call_keeps_its_place_for_others(kept_out: str) -> None:
    idle, (first, second) = fleet(2)
    call = Call((RUN.run_id, CallId("B-1")), RUN, Method.EXECUTE, "B")
    if kept_out == "excluded":
        call.excluded[first.worker_id] = "DRAINING"
    else:
        first.capabilities = {FLOW_TYPE: serves(steps="A")}
    assert idle.best(call, now=T0) is second
    assert idle.best(CALL, now=T0) is first


def test_lone_worker_is_found_without_any_rank() -> None:
    idle, (only,) = fleet(1)
    for busy in range(9):
        only.busy = busy
        idle.add(only)
        assert idle.best(CALL, now=T0) is (only if busy < 9 else None)
    assert list(idle.workers()) == [only]
    assert not idle._heap


@pytest.mark.parametrize("kept_out", ["excluded", "lacks the name", "held", "not idle"])
def test_lone_worker_that_may_not_have_the_call_gets_the_next_one(kept_out: str) -> None:
    idle, (only,) = fleet(1)
    call = Call((RUN.run_id, CallId("B-1")), RUN, Method.EXECUTE, "B")
    streams, capabilities = only.idle, only.capabilities
    if kept_out == "excluded":
        call.excluded[only.worker_id] = "DRAINING"
    elif kept_out == "lacks the name":
        only.capabilities = {FLOW_TYPE: serves(steps="A")}
    elif kept_out == "held":
        only.hold(is_rpc=False, now=T0)
    else:
        only.idle = {}
    assert idle.best(call, now=T0) is None
    only.idle, only.capabilities = streams, capabilities
    only.clear_hold()
    assert idle.best(CALL, now=T0) is only


def test_lone_worker_is_ranked_once_another_one_comes() -> None:
    """[ROUTE-7] The less busy one comes first, whoever was here first."""
    idle, (first,) = fleet(1)
    second = worker("w001", streams=9)
    first.busy = 3
    idle.add(second)
    assert idle.best(CALL, now=T0) is second
    second.busy = 4
    assert idle.best(CALL, now=T0) is first


def test_worker_that_frees_a_slot_among_full_ones_is_the_lone_one_until_another_does() -> None:
    idle, (first, second) = fleet(2, limit=1)
    first.busy = second.busy = 2
    assert idle.best(CALL, now=T0) is None
    first.busy = 1
    idle.add(first)
    second.busy = 0
    idle.add(second)
    assert idle.best(CALL, now=T0) is second


def test_rank_that_was_replaced_counts_no_more_when_it_comes_to_the_front() -> None:
    idle, (first, second) = fleet(2)
    first.busy = second.busy = 6
    assert idle.best(CALL, now=T0) is first
    first.busy = 0
    idle.add(first)
    first.busy, second.busy = 8, 7
    assert idle.best(CALL, now=T0) is second
