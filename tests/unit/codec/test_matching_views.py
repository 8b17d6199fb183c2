"""Live workers and queues as operators see them [SURF-22]."""

from dexd.codec.admin_replies import from_drained, from_queues, from_workers
from dexd.codec.matching_views import queue_views, worker_views
from dexd.core.commands import DrainWorker
from dexd.core.config import KernelConfig
from dexd.core.ids import WorkerId
from dexd.core.outcome import WorkerDrained
from dexd.core.values import Standing
from tests.support.builders import (
    FLOW_TYPE,
    T0,
    accept,
    close_stream,
    connect,
    decline,
    dispatched,
    executed,
    goodbye,
    plan,
    pong,
    rpc,
    scheduled,
    serves,
    start,
    started,
    stream,
    token,
)
from tests.support.given import Given, given

LONG = "x" * 20


def fleet() -> Given:
    """w1 runs a call, declined one and was refused a queue; w2 is idle and leaves; other calls wait."""
    before = given(config=KernelConfig(max_flow_type_length=10))
    before.after(*connect(1, "w1", serves(), serves(LONG), limit=2, reserve=1, streams=2))
    before.after(start("a", "run-a", step=plan("A")), accept(token("A-1", run="run-a"), number=2))
    before.after(start("b", "run-b", step=plan("A")), now=T0 + 10)
    before.after(decline("NO_CAPACITY", token("A-1", run="run-b"), number=1), now=T0 + 20)
    before.after(start("c", "run-c", step=plan("A"), standing=Standing(1)), now=T0 + 30)
    return before.after(*connect(2, "w2", serves("Other")), goodbye(2), now=T0 + 40)


def test_workers_are_shown_with_room_declines_and_refused_queues() -> None:
    first, second = worker_views(fleet().kernel)
    assert (first.worker_id, first.incarnation, first.sessions, first.is_draining) == ("w1", "i1", 1, False)
    assert (first.connected_at, first.last_seen) == (T0, T0)
    assert (first.streams, first.busy, first.running) == (2, 1, 1)
    assert (first.max_concurrent_tasks, first.reserved_rpc_tasks) == (2, 1)
    assert first.declines == {"NO_CAPACITY": 1}
    order, refused = first.queues
    assert (order.name, order.idle, order.busy, order.last_error) == (FLOW_TYPE, 1, 1, None)
    assert (refused.name, refused.idle, refused.busy) == (LONG, 0, 0)
    assert refused.last_error is not None
    assert "matching.max_flow_type_length" in refused.last_error.message
    assert (second.worker_id, second.is_draining, second.streams) == ("w2", True, 1)


def test_queue_4_registration_clears_the_error_of_its_queue_and_invented_queues_leave_none() -> None:
    before = given(config=KernelConfig(max_concurrent_tasks_cap=1)).after(*connect(limit=1))
    before.after(stream(1, 2, FLOW_TYPE), stream(1, 3, "Invented"))
    (worker,) = worker_views(before.kernel)
    assert [(queue.name, queue.last_error is None) for queue in worker.queues] == [(FLOW_TYPE, False)]
    before.after(close_stream(1, 1), stream(1, 2, FLOW_TYPE))
    assert worker_views(before.kernel)[0].queues[0].last_error is None


def test_reasons_that_no_protocol_knows_are_counted_together() -> None:
    """[ARCH-8] What a foreign worker says may be anything."""
    before = given(started(), scheduled("A-1")).after(*connect(), decline("WHATEVER"))
    assert worker_views(before.kernel)[0].declines == {"OTHER": 1}


def test_last_seen_moves_with_each_answered_ping() -> None:
    before = given().after(*connect()).ticked(T0 + 20_000)
    before.after(pong(nonce=1), now=T0 + 20_500)
    assert worker_views(before.kernel)[0].last_seen == T0 + 20_500


def test_queues_are_shown_with_what_waits_and_who_could_take_it() -> None:
    order, other = queue_views(fleet().kernel)
    assert (order.name, order.is_worker_queue, order.waiting) == (FLOW_TYPE, False, 2)
    assert (order.oldest_since, order.waiting_by_priority) == (T0 + 10, {1: 1, 3: 1})
    assert (order.workers, order.idle, order.busy) == (1, 1, 1)
    assert (other.name, other.waiting, other.oldest_since, other.workers) == ("Other", 0, 0, 1)


def test_calls_that_wait_for_the_sticky_worker_stand_on_its_queue() -> None:
    """[ROUTE-1]"""
    before = given(started(), scheduled("A-1"), dispatched("A-1"), executed("A-1"))
    before.after(*connect(1, "w1", streams=0), stream(1, 1, "w1"))
    before.after(rpc("read", caller=1, request_id="q1"), rpc("write", caller=2, request_id="q2"))
    (own,) = queue_views(before.kernel)
    assert (own.name, own.is_worker_queue, own.waiting, own.busy) == ("w1", True, 1, 1)


def test_flow_type_named_like_a_worker_is_a_queue_of_its_own() -> None:
    before = given().after(*connect(1, "w1", serves("w2")), *connect(2, "w2", streams=0), stream(2, 1, "w2"))
    assert [(view.name, view.is_worker_queue) for view in queue_views(before.kernel)] == [("w2", False), ("w2", True)]


def test_views_travel_whole() -> None:
    before = fleet().after(DrainWorker(WorkerId("w1")))
    workers = from_workers(worker_views(before.kernel), now=T0).workers
    assert (workers[0].worker_id, workers[0].is_draining, dict(workers[0].declines)) == ("w1", True, {"NO_CAPACITY": 1})
    assert workers[0].queues[1].last_error.startswith("FLOW_TYPE_TOO_LONG: ")
    queues = from_queues(queue_views(before.kernel), now=T0)
    assert (queues.now, dict(queues.queues[0].waiting_by_priority)) == (T0, {1: 1, 3: 1})
    assert from_drained(WorkerDrained("i1", 2)).running == 2
