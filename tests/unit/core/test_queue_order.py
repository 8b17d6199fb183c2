"""In which order waiting calls of one queue are served [ROUTE-7, LIMIT-7.6, LIMIT-7.7]."""

from collections import Counter
from collections.abc import Iterable

import pytest

from dexd.core.effects import AssignCall
from dexd.core.flow.state import RunState
from dexd.core.ids import CallId, QueueName, WorkerId
from dexd.core.matching.backlog import Backlog
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.fair_queue import SHARES_KEPT_MIN
from dexd.core.matching.sessions import Worker
from dexd.core.values import Method, Standing
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    T0,
    complete,
    connect,
    decline,
    dispatched,
    executed,
    goodbye,
    lose,
    options,
    plan,
    rpc,
    scheduled,
    serves,
    start,
    started,
    token,
)
from tests.support.given import Given, given


def served_order(before: Given, count: int) -> list[str]:
    """Flow IDs in the order in which one stream gets their calls; every call is answered at once."""
    order: list[str] = []
    then = before.when(*connect())
    for _ in range(count):
        (assign,) = (effect for effect in then.effects if isinstance(effect, AssignCall))
        order.append(assign.call.flow_id)
        then = before.when(complete(DEAD_END, assign.call.token))
    return order


def waiting(*flows: tuple[str, Standing | None]) -> Given:
    """Flows that were started in this order while no worker was there."""
    return given().after(
        *(start(flow_id, f"run-{flow_id}", step=plan("A"), standing=standing) for flow_id, standing in flows)
    )


def test_route_7_smaller_priority_is_served_first_and_three_is_the_default() -> None:
    before = waiting(("low", Standing(5)), ("plain", None), ("four", Standing(4)), ("urgent", Standing(1)))
    before.after(start("two", "run-two", step=plan("A"), standing=Standing(2)))
    assert served_order(before, 5) == ["urgent", "two", "plain", "four", "low"]


def test_limit_7_7_step_overrides_the_priority_of_its_flow() -> None:
    before = waiting(("a", Standing(5)), ("b", None))
    before.after(
        start("c", "run-c", step=plan("A", options=options(priority=1)), standing=Standing(4)),
        start("d", "run-d", step=plan("A", options=options()), standing=Standing(2)),
    )
    assert served_order(before, 4) == ["c", "d", "b", "a"]


def test_limit_7_7_rpc_inherits_the_priority_of_its_flow() -> None:
    before = given(started(standing=Standing(1)))
    before.after(start("other", "run-other", step=plan("A")), rpc("read"))
    assert served_order(before, 1) == ["order-1"]


def test_route_7_fairness_keys_of_one_priority_take_turns() -> None:
    a, b = Standing(fairness_key="a"), Standing(fairness_key="b")
    before = waiting(("a1", a), ("a2", a), ("a3", a), ("b1", b), ("b2", b), ("plain", None))
    assert served_order(before, 6) == ["a1", "b1", "plain", "a2", "b2", "a3"]


def test_route_7_priority_comes_before_the_fairness_key() -> None:
    before = waiting(
        ("a1", Standing(2, "a")), ("b1", Standing(3, "b")), ("a2", Standing(2, "a")), ("c1", Standing(2, "c"))
    )
    assert served_order(before, 4) == ["a1", "c1", "a2", "b1"]


def test_route_7_longer_sticky_call_of_lower_priority_waits_for_the_more_urgent_one() -> None:
    """The worker's own queue and the Flow type's are compared by priority, then age."""
    before = given(started(standing=Standing(4)), scheduled("A-1"), dispatched("A-1"), executed("A-1"))
    before.after(*connect(1, "w1"), start("busy", "run-busy", step=plan("A")), rpc("write"))
    before.after(start("urgent", "run-urgent", step=plan("A"), standing=Standing(2)))
    then = before.when(complete(DEAD_END, token("A-1", run="run-busy")))
    assert [effect.call.flow_id for effect in then.effects if isinstance(effect, AssignCall)] == ["urgent"]


def test_route_7_blocked_urgent_call_does_not_delay_another_that_could_run() -> None:
    before = given().after(
        start("blocked", "run-blocked", step=plan("X"), standing=Standing(1)),
        start("free", "run-free", step=plan("A"), standing=Standing(5)),
    )
    assert served_order(before, 1) == ["free"]


def test_declined_call_has_had_no_turn() -> None:
    """[CAP-2] Its key is served again as soon as if it had not been asked."""
    a, b = Standing(fairness_key="a"), Standing(fairness_key="b")
    before = waiting(("a1", a), ("a2", a), ("b1", b), ("b2", b))
    before.after(*connect(9, "w9"), goodbye(9))
    before.after(decline("DRAINING", token("A-1", run="run-a1"), session=9), lose(9))
    assert served_order(before, 4) == ["b1", "a1", "a2", "b2"]


# ---- the backlog alone ------------------------------------------------------------------------------------------


WORKER = Worker(WorkerId("w1"), "i", 8, 0, {FLOW_TYPE: serves(steps="A B")})


class Bench:
    """A backlog whose calls are taken one by one."""

    def __init__(self) -> None:
        self.backlog = Backlog(CallStage.SHARED)
        self._tickets = 0

    def add(self, key: str, count: int = 1, *, weight: int = 1_000, name: str = "A") -> list[Call]:
        standing = Standing(fairness_key=key, fairness_weight=weight)
        run = given(started(key, f"run-{key}", standing=standing)).run(f"run-{key}")
        return [self._add(run, name) for _ in range(count)]

    def _add(self, run: RunState, name: str) -> Call:
        self._tickets += 1
        call = Call((run.run_id, CallId(f"{name}-{self._tickets}")), run, Method.EXECUTE, name, ticket=self._tickets)
        self.backlog.add(call)
        return call

    def take(self, count: int) -> list[str]:
        return [self._take().fairness_key for _ in range(count)]

    def _take(self) -> Call:
        call = self.backlog.first(WORKER, QueueName(FLOW_TYPE), now=T0)
        assert call is not None
        self.backlog.charge(call)
        call.stage = CallStage.ASSIGNED
        return call


def test_limit_7_6_turns_follow_the_weights() -> None:
    bench = Bench()
    bench.add("light", 400, weight=1_000)
    bench.add("heavy", 400, weight=3_000)
    assert Counter(bench.take(400)) == {"heavy": 300, "light": 100}


@pytest.mark.parametrize("weight", [1, 1_000_000])
def test_limit_7_6_extreme_weights_are_whole_numbers(weight: int) -> None:
    bench = Bench()
    bench.add("odd", 3, weight=weight)
    bench.add("plain", 2_000)
    taken = Counter(bench.take(1_002))
    assert taken["odd"] == (2 if weight == 1 else 3)


def test_limit_7_6_equal_keys_get_equal_shares() -> None:
    """Jain's index of 100 equal keys over 10 rounds is 1."""
    bench = Bench()
    for number in range(100):
        bench.add(f"k{number}", 20)
    shares = Counter(bench.take(1_000)).values()
    assert sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares)) == 1.0


def test_share_of_a_key_is_one_whatever_its_calls_are() -> None:
    bench = Bench()
    bench.add("a", 50, name="A")
    bench.add("a", 50, name="B")
    bench.add("b", 100, name="B")
    assert Counter(bench.take(60)) == {"a": 30, "b": 30}


def test_being_idle_earns_no_credit() -> None:
    bench = Bench()
    bench.add("a", 100)
    bench.add("b", 100)
    bench.take(50)
    bench.add("late", 100)
    assert Counter(bench.take(30)) == {"a": 10, "b": 10, "late": 10}


def test_key_that_comes_back_does_not_jump_the_queue_by_having_been_away() -> None:
    bench = Bench()
    bench.add("a", 100)
    bench.add("b", 1)
    assert bench.take(3) == ["a", "b", "a"]
    bench.add("b", 2)
    assert bench.take(3) == ["a", "b", "a"]


def test_charge_is_given_back_to_a_call_that_returns() -> None:
    bench = Bench()
    bench.add("a", 3)
    bench.add("b", 3)
    call = bench._take()
    bench.backlog.add(call)
    assert call.charged == 0
    assert Counter(bench.take(6)) == {"a": 3, "b": 3}
    assert bench.backlog.first(WORKER, None, now=T0) is None
    assert bench.backlog.is_empty


def test_keys_that_are_gone_are_forgotten() -> None:
    """[ARCH-8] A million customers that each had one call leave nothing behind."""
    bench = Bench()
    bench.add("steady", 5_000)
    for number in range(20 * SHARES_KEPT_MIN):
        bench.add(f"k{number}")
        bench.take(2)
    shares = bench.backlog._shares[3]
    assert len(shares._by_key) <= SHARES_KEPT_MIN + 2
    bench.take(5_000 - 20 * SHARES_KEPT_MIN)
    assert bench.backlog.first(WORKER, None, now=T0) is None
    assert not shares._by_key


def excluded(calls: Iterable[Call]) -> None:
    for call in calls:
        call.excluded[WORKER.worker_id] = "DRAINING"


def test_key_whose_calls_the_worker_may_not_have_is_passed_over() -> None:
    bench = Bench()
    excluded(bench.add("a", 2))
    bench.add("b", 2)
    assert bench.take(2) == ["b", "b"]
    assert bench.backlog.first(WORKER, None, now=T0) is None
    assert not bench.backlog.is_empty
