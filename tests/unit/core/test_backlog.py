"""Waiting calls of one queue: arrival order, lanes, and nothing left behind [ROUTE-7, ARCH-8]."""

from dexd.core.ids import CallId, QueueName, WorkerId
from dexd.core.matching.backlog import Backlog
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.sessions import Worker
from dexd.core.values import Method
from tests.support.builders import FLOW_TYPE, T0, serves, started
from tests.support.given import given

RUN = given(started()).run()


def worker(name: str = "w1", steps: str = "A B") -> Worker:
    return Worker(WorkerId(name), "i", 8, 0, {FLOW_TYPE: serves(steps=steps)})


def queued(backlog: Backlog, ticket: int, name: str = "A") -> Call:
    call = Call((RUN.run_id, CallId(f"{name}-{ticket}")), RUN, Method.EXECUTE, name, ticket=ticket)
    backlog.add(call)
    return call


def first(backlog: Backlog, by: Worker | None = None) -> Call | None:
    return backlog.first(by or worker(), QueueName(FLOW_TYPE), now=T0)


def test_smallest_ticket_comes_first_whatever_the_order_of_adding_and_the_lane() -> None:
    backlog = Backlog(CallStage.SHARED)
    calls = [queued(backlog, 3), queued(backlog, 2, "B"), queued(backlog, 1)]
    for expected in (calls[2], calls[1], calls[0]):
        found = first(backlog)
        assert found is expected
        found.stage = CallStage.ASSIGNED
    assert first(backlog) is None
    assert backlog.is_empty


def test_excluded_worker_takes_the_next_and_leaves_the_order_as_it_is() -> None:
    backlog = Backlog(CallStage.SHARED)
    oldest, next_one, last = queued(backlog, 1), queued(backlog, 2), queued(backlog, 3)
    oldest.excluded[WorkerId("w1")] = next_one.excluded[WorkerId("w1")] = "DRAINING"
    assert first(backlog) is last
    assert first(backlog, worker("w2")) is oldest
    last.stage = CallStage.ASSIGNED
    assert first(backlog) is None
    assert not backlog.is_empty


def test_lane_of_a_step_that_the_worker_lacks_is_passed_over() -> None:
    backlog = Backlog(CallStage.SHARED)
    queued(backlog, 1, "B")
    call = queued(backlog, 2)
    assert first(backlog, worker(steps="A")) is call
    assert backlog.first(worker(), QueueName("Other"), now=T0) is None


def test_call_that_came_back_with_a_new_ticket_is_listed_once() -> None:
    backlog = Backlog(CallStage.SHARED)
    call = queued(backlog, 1)
    call.ticket = 2
    backlog.add(call)
    assert list(backlog.calls()) == [call]


def test_stale_entries_do_not_pile_up_where_no_worker_ever_looks() -> None:
    backlog = Backlog(CallStage.SHARED)
    call = queued(backlog, 1)
    for ticket in range(2, 10_000):
        call.ticket = ticket
        backlog.add(call)
    assert sum(len(entries) for queue in backlog._lanes.values() for entries in queue._by_key.values()) == 1


def test_call_that_was_declined_and_came_back_is_listed_once() -> None:
    """Its old entry counts again with the new one, also where it is not in front."""
    backlog = Backlog(CallStage.SHARED)
    queued(backlog, 1)
    call = queued(backlog, 2)
    call.stage = CallStage.ASSIGNED
    backlog.add(call)
    assert [each.ticket for each in backlog.calls()] == [1, 2]
