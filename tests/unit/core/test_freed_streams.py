"""What becomes of a stream that a result has just freed [ROUTE-7, ROUTE-8]."""

from dexd.core.events import ExecuteCompleted, StepScheduled
from tests.support.builders import (
    DEAD_END,
    acknowledged,
    assigned,
    complete,
    connect,
    go_to,
    goodbye,
    hello,
    plan,
    scheduled,
    sent,
    started,
    stream,
    token,
)
from tests.support.given import given
from tests.support.matchers import Like


def test_route_8_next_step_of_the_flow_stays_on_the_stream() -> None:
    """Although the worker has other idle ones."""
    before = given(started(), scheduled("A-1")).after(*connect(streams=3))
    then = before.when(complete(go_to(plan("B"))))
    then.then_events(Like(ExecuteCompleted), Like(StepScheduled), sent("B-1"))
    then.then_effects(acknowledged(), assigned(token("B-1")))


def test_route_8_next_step_does_not_go_to_a_session_that_is_draining() -> None:
    """The worker has said Goodbye on the session that the result came on, and takes calls on its other one."""
    before = given(started(), scheduled("A-1")).after(*connect())
    before.after(hello(2), stream(2, 1), goodbye(1))
    then = before.when(complete(go_to(plan("B"))))
    then.then_events(Like(ExecuteCompleted), Like(StepScheduled), sent("B-1"))
    then.then_effects(acknowledged(), assigned(token("B-1"), session=2))


def test_route_7_full_worker_that_frees_a_slot_gets_nothing_when_nothing_waits() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(limit=1, streams=2))
    before.when(complete(DEAD_END)).then_events(Like(ExecuteCompleted))


def test_route_2_calls_that_wait_for_a_full_worker_get_its_freed_slot_one_by_one() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(limit=1))
    before.after(complete(go_to(plan("A"), plan("A"), plan("A"))))
    before.when(complete(DEAD_END, token("A-2"))).then_events(Like(ExecuteCompleted), sent("A-3"))
    before.when(complete(DEAD_END, token("A-3"))).then_events(Like(ExecuteCompleted), sent("A-4"))
