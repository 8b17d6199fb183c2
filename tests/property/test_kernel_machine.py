"""Whatever clients, workers, clock and crashes do in whatever order: the invariants hold and everything ends."""

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dexd.core import commands as c
from dexd.core.config import INLINE_VALUE_BYTES_MAX, KernelConfig
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.selectors import Selector
from dexd.core.ids import CallerId, FlowId, RequestId, RunId, StreamNumber, WorkerId
from dexd.core.invariants import violations
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.outcome import TimeTravelAccepted
from dexd.core.values import (
    Decision,
    IdReusePolicy,
    Method,
    Response,
    StepOptions,
    StepPlan,
    StopType,
    TimerId,
    Wait,
)
from tests.property.kernel_world import Delivered, KernelWorld, Peer
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    PROCEED,
    SKIP,
    T0,
    abandon,
    accept,
    all_of,
    any_combination,
    any_of,
    channel,
    close_stream,
    complete,
    decides,
    decline,
    fail,
    failure,
    force,
    force_fail,
    go_to,
    goodbye,
    graceful,
    no_retry,
    options,
    plan,
    publish,
    recovery,
    retry,
    rpc,
    set_attribute,
    skip_timer,
    start,
    stop,
    timer,
    waits,
)
from tests.support.deletion_builders import delete_message
from tests.support.forks import BEGINNING, at_step, at_time, at_type, execution_log, preparation

LARGE = b"x" * (INLINE_VALUE_BYTES_MAX + 1)
CONFIG = KernelConfig(max_concurrent_tasks_cap=256, session_max_age_ms=120_000)
DURATIONS = (0, 1, 40, 1_000, 5_000, 10_000, 30_000)

flow_ids = st.sampled_from(["f1", "f2", "f3"])
thresholds = st.sampled_from([10_000, 4, 7, 15])
"""Events after which a run is continued: never, or all the time [ROLL-2]."""
channels = st.sampled_from(["c", "d"])
picks = st.integers(0, 7)
step_options: st.SearchStrategy[StepOptions | None] = st.sampled_from(
    [
        None,
        no_retry(),
        no_retry(wait_for_failure=PROCEED, recovery=recovery()),
        options(
            execute_timeout_ms=3_000, wait_for_timeout_ms=2_000, execute_retry=retry(initial_interval_ms=1, jitter=1.0)
        ),
        options(execute_retry=retry(maximum_attempts=2, total_duration_ms=4_000), recovery=recovery(wait_for=True)),
        options(execute_locks=("L",), wait_for_locks=("L", "M")),
        options(execute_locks=("M", "L"), execute_retry=retry(initial_interval_ms=1)),
        options(execute_locks=("M",), recovery=recovery(options=options(execute_locks=("L",)))),
    ]
)
plans: st.SearchStrategy[StepPlan] = st.builds(
    lambda step_type, wait_for, chosen: plan(step_type, wait_for=wait_for, options=chosen),
    st.sampled_from(["A", "B"]),
    st.booleans(),
    step_options,
)
timers = st.sampled_from(DURATIONS).map(timer)
channel_conditions = st.sampled_from(
    [channel("c"), channel("d"), channel("c", 2, 2), channel("c", 1, None), channel("d", 0, 3), channel("d", 3, 5)]
)
conditions = st.lists(st.one_of(timers, channel_conditions), min_size=1, max_size=4)


def _combined(chosen: list[Any], groups: list[list[int]]) -> Wait:
    named = tuple(
        type(each)(each.kind, f"id{index}", each.duration_ms, each.at_ms, each.channel, each.at_least, each.at_most)
        for index, each in enumerate(chosen)
    )
    return any_combination(named, *(tuple(dict.fromkeys(i % len(named) for i in group)) for group in groups))


wait_values: st.SearchStrategy[Wait] = st.one_of(
    st.just(SKIP),
    conditions.map(lambda chosen: all_of(*chosen)),
    conditions.map(lambda chosen: any_of(*chosen)),
    st.builds(
        _combined, conditions, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3)
    ),
)
decisions: st.SearchStrategy[Decision] = st.one_of(
    st.lists(plans, min_size=1, max_size=3).map(lambda chosen: go_to(*chosen)),
    st.sampled_from([graceful(b"1"), graceful(), force(b"2"), force_fail("no"), DEAD_END]),
)
publications = st.lists(st.tuples(channels, st.just(b"m")), max_size=2).map(tuple)
failures = st.sampled_from([failure(), failure(non_retryable=True), failure(retry_after_ms=2_500)])


selectors: st.SearchStrategy[Selector] = st.one_of(
    st.just(BEGINNING),
    st.integers(T0, T0 + 20_000).map(at_time),
    st.sampled_from("AB").map(at_type),
    st.builds(at_step, st.sampled_from(["A-1", "B-1", "A-2"]), st.sampled_from([Method.WAIT_FOR, Method.EXECUTE])),
)


class KernelMachine(RuleBasedStateMachine):
    """One server process after another, over one log."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = 0
        self._callers = 0
        self._lost: list[Peer] = []
        self.world: KernelWorld

    def _fresh(self) -> str:
        self._requests += 1
        return f"r{self._requests}"

    @initialize(threshold=thresholds)
    def begin(self, threshold: int) -> None:
        self.world = KernelWorld(msgspec.structs.replace(CONFIG, rollover_events=threshold))
        self.world.connect("w0", "i0")
        self.world.connect("w1", "i0")
        self.world.do(start("f1", "run-1", step=plan("A", wait_for=True)))
        self.world.do(start("f2", "run-2", step=plan("B")))

    # ---- clients ----

    @rule(flow_id=flow_ids, step=plans, policy=st.sampled_from(list(IdReusePolicy)))
    def start(self, flow_id: str, step: StepPlan, policy: IdReusePolicy) -> None:
        name = self._fresh()
        self.world.do(start(flow_id, f"run-{name}", step=step, id_reuse_policy=policy))

    @rule(flow_id=flow_ids, channel_name=channels, count=st.integers(1, 3))
    def publish(self, flow_id: str, channel_name: str, count: int) -> None:
        self.world.do(publish(channel_name, *[b"m"] * count, flow_id=flow_id, request_id=self._fresh()))

    @rule(flow_id=flow_ids, channel_name=channels, pick=picks)
    def delete_message(self, flow_id: str, channel_name: str, pick: int) -> None:
        run = self.world.kernel.run(FlowId(flow_id))
        queue = () if run is None else run.channels.get(channel_name, ())
        message_id = queue[pick % len(queue)].message_id if queue else "nothing"
        self.world.do(delete_message(message_id, channel_name, flow_id=flow_id, request_id=self._fresh()))

    @rule(flow_id=flow_ids, step_type=st.sampled_from("AB"), number=st.integers(1, 9), index=st.integers(0, 2))
    def skip_timer(self, flow_id: str, step_type: str, number: int, index: int) -> None:
        timer_id = TimerId(index=index)
        self.world.do(skip_timer(f"{step_type}-{number}", timer_id, flow_id=flow_id, request_id=self._fresh()))

    @rule(flow_id=flow_ids, value=st.sampled_from([None, b"1", b"2", LARGE, LARGE + b"2"]))
    def set_attribute(self, flow_id: str, value: bytes | None) -> None:
        self.world.do(set_attribute("a", value, flow_id=flow_id, request_id=self._fresh()))

    @rule(flow_id=flow_ids, kind=st.sampled_from(list(StopType)))
    def stop(self, flow_id: str, kind: StopType) -> None:
        self.world.do(stop(kind, flow_id=flow_id, request_id=self._fresh()))

    @rule(
        flow_id=flow_ids,
        name=st.sampled_from(["read", "write", "unknown"]),
        is_repeat=st.booleans(),
        locks=st.sampled_from([(), (), ("L",), ("M", "L")]),
    )
    def invoke(self, flow_id: str, name: str, is_repeat: bool, locks: tuple[str, ...]) -> None:
        if self.world.kernel.run(FlowId(flow_id)) is None:
            return
        request_id = f"r{self._requests}" if is_repeat else self._fresh()
        self._callers += 1
        caller = CallerId(self._callers)
        self.world.callers[caller] = None
        expires_at = self.world.now + 15_000
        content = f"{name} {locks}"
        self.world.do(
            rpc(
                name,
                caller=caller,
                flow_id=flow_id,
                request_id=request_id,
                expires_at=expires_at,
                content=content,
                locks=locks,
            )
        )

    @precondition(lambda self: self.world.callers)
    @rule(pick=picks)
    def abandon(self, pick: int) -> None:
        if self.world.callers:
            caller = list(self.world.callers)[pick % len(self.world.callers)]
            del self.world.callers[caller]
            self.world.do(abandon(caller))

    @rule(flow_id=flow_ids, selector=selectors, is_dropping_writes=st.booleans())
    def time_travel(self, flow_id: str, selector: Selector, is_dropping_writes: bool) -> None:
        if self.world.kernel.run(FlowId(flow_id)) is None:
            return
        name = self._fresh()
        run_id = RunId(f"fork-{name}")
        log = execution_log(self.world.streams.values(), flow_id)
        plan = log.answer(
            preparation(log, selector, run_id=run_id, flow_id=flow_id, is_dropping_writes=is_dropping_writes).plan()
        )
        outcome = self.world.do(c.TimeTravel(FlowId(flow_id), run_id, "", RequestId(name), b"", plan))
        assert (outcome.reply == TimeTravelAccepted(run_id)) is isinstance(plan, ForkPlan)

    # ---- workers come and go ----

    @precondition(lambda self: len(self.world.peers) < 4)
    @rule(
        worker_id=st.sampled_from(["w0", "w1", "w2"]),
        incarnation=st.sampled_from(["i0", "i0", "i0", "i1"]),
        limit=st.integers(1, 3),
        steps=st.sampled_from(["A B Recover", "A", "B Recover"]),
    )
    def connect(self, worker_id: str, incarnation: str, limit: int, steps: str) -> None:
        self.world.connect(worker_id, incarnation, limit=limit, steps=steps)

    @precondition(lambda self: self._lost)
    @rule(pick=picks, is_presenting=st.booleans())
    def reconnect(self, pick: int, is_presenting: bool) -> None:
        if self._lost:
            old = self._lost.pop(pick % len(self._lost))
            self.world.connect(old.worker_id, old.incarnation, presents_from=old if is_presenting else None)

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks)
    def lose_session(self, pick: int) -> None:
        peer = self._peer(pick)
        if peer is not None:
            self._lost.append(peer)
            self.world.lose(peer)

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks)
    def reconnect_before_the_loss_is_noticed(self, pick: int) -> None:
        peer = self._peer(pick)
        if peer is not None:
            self.world.connect(peer.worker_id, peer.incarnation, presents_from=peer)
            if peer.session in self.world.peers:
                self.world.lose(peer)

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks)
    def drain(self, pick: int) -> None:
        peer = self._peer(pick)
        if peer is not None:
            # What is due already may still be assigned in the outcome of the Goodbye, before it.
            self.world.do(c.Tick())
            if peer.session in self.world.peers:
                peer.is_draining = True
                self.world.do(goodbye(peer.session))

    @rule(worker_id=st.sampled_from(["w0", "w1"]), is_undo=st.booleans())
    def take_out_of_service(self, worker_id: str, is_undo: bool) -> None:
        self.world.do(c.DrainWorker(WorkerId(worker_id), is_undo=is_undo))

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks, is_own=st.booleans())
    def open_stream(self, pick: int, is_own: bool) -> None:
        peer = self._peer(pick)
        if peer is not None:
            self.world.open_stream(peer, peer.worker_id if is_own else FLOW_TYPE)

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks, number=st.integers(1, 4))
    def close_stream(self, pick: int, number: int) -> None:
        peer = self._peer(pick)
        if peer is not None:
            peer.calls.pop(StreamNumber(number), None)
            self.world.do(close_stream(peer.session, number))

    # ---- workers answer ----

    @precondition(lambda self: self.world.held())
    @rule(pick=picks, wait=wait_values, decision=decisions, published=publications)
    def complete(self, pick: int, wait: Wait, decision: Decision, published: Any) -> None:
        self.complete_one(pick, wait, decision, published)

    def complete_one(self, pick: int, wait: Wait, decision: Decision, published: Any) -> None:
        found = self._held(pick)
        if found is None:
            return
        peer, call = found
        response = {
            Method.WAIT_FOR: waits(wait, publications=published),
            Method.EXECUTE: decides(decision, publications=published),
            Method.RPC: Response(
                output=b"1",
                publications=published,
                next_steps=decision.movements,
                canceling=("B",) if published else (),
            ),
        }[call.token.method]
        command = c.CompleteCall(peer.session, call.stream, call.token, response)
        self.world.answer(peer, call, command)

    @precondition(lambda self: self.world.held())
    @rule(wait=wait_values, decision=decisions, published=publications)
    def complete_all(self, wait: Wait, decision: Decision, published: Any) -> None:
        for _ in range(min(4, len(self.world.held()))):
            self.complete_one(0, wait, decision, published)

    @precondition(lambda self: self.world.held())
    @rule(pick=picks)
    def fetch(self, pick: int) -> None:
        """What was withheld at the hand-over is given as it was then [ATTR-7]."""
        found = self._held(pick)
        if found is not None:
            peer, call = found
            self.world.do(c.FetchPart(peer.session, call.token, 1, is_channel=False, key="a"))

    @precondition(lambda self: self.world.held())
    @rule(pick=picks, error=failures)
    def fail(self, pick: int, error: Any) -> None:
        found = self._held(pick)
        if found is not None:
            peer, call = found
            self.world.answer(peer, call, fail(error, call.token, peer.session, call.stream))

    @precondition(lambda self: self.world.held())
    @rule(pick=picks, reason=st.sampled_from(["NO_CAPACITY", "NO_CAPACITY", "DRAINING", "UNKNOWN_STEP", "UNDECODABLE"]))
    def decline(self, pick: int, reason: str) -> None:
        found = self._held(pick)
        if found is not None:
            peer, call = found
            self.world.answer(peer, call, decline(reason, call.token, peer.session, call.stream))

    @precondition(lambda self: self.world.held())
    @rule(pick=picks)
    def accept(self, pick: int) -> None:
        found = self._held(pick)
        if found is not None:
            peer, call = found
            self.world.do(accept(call.token, peer.session, call.stream))

    @precondition(lambda self: self.world.peers)
    @rule(pick=picks, decision=decisions)
    def answer_again(self, pick: int, decision: Decision) -> None:
        """A result that was answered before, or whose delivery was given up meanwhile, changes nothing [LOST-3]."""
        peer = self._peer(pick)
        tokens = self.world.settled + [call.token for lost in self._lost for call in lost.calls.values()]
        current = {call.token for call in self.world.kernel.dispatcher.calls.values()}
        stale = [token for token in tokens if token.method is Method.EXECUTE and token not in current]
        if peer is not None and stale:
            before = self._contents()
            self.world.do(complete(decision, stale[pick % len(stale)], peer.session, 999))
            assert self._contents() == before

    def _contents(self) -> dict[RunId, Any]:
        """What the newest run of each chain holds, but for hand-overs.

        Even a refused result may be the event that makes a run roll over, and it ends the pause of a worker that had
        said NO_CAPACITY.
        """
        return {
            state.chain_id: (
                [(step.step_execution_id, step.method, step.attempt) for step in state.steps.values()],
                dict(state.attributes),
                [(channel, len(messages)) for channel, messages in state.channels.items()],
            )
            for _, state in sorted(self.world.folded.items())
        }

    # ---- time and crashes ----

    @rule(milliseconds=st.sampled_from(DURATIONS))
    def pass_time(self, milliseconds: int) -> None:
        self.world.answer_pings()
        self.world.pass_time(milliseconds)

    @rule()
    def jump_to_the_next_deadline(self) -> None:
        self.world.answer_pings()
        due = self.world.next_deadline()
        if due is not None:
            self.world.pass_time(max(0, due - self.world.now))

    @rule(pick=picks)
    def park(self, pick: int) -> None:
        """A run leaves memory, if nothing is under way in it [ARCH-11]."""
        runs = list(self.world.kernel.runs)
        if runs:
            self.world.park(runs[pick % len(runs)])

    @rule()
    def park_all(self) -> None:
        """As under a bound that allows for nothing."""
        for run_id in list(self.world.kernel.runs):
            self.world.park(run_id)

    @rule()
    def crash(self) -> None:
        self._lost += self.world.peers.values()
        self.world.crash()

    def teardown(self) -> None:
        """Comes after a failure too: a kernel that was struck in the middle of a turn has nothing more to say."""
        if self.world.is_whole:
            self.world.finish()

    def _peer(self, pick: int) -> Peer | None:
        peers = list(self.world.peers.values())
        return peers[pick % len(peers)] if peers else None

    def _held(self, pick: int) -> tuple[Peer, Delivered] | None:
        held = self.world.held()
        return held[pick % len(held)] if held else None


class Struck(BaseException):
    """Comes from outside, as the timeout of a test does."""


def test_what_strikes_in_the_middle_of_a_turn_is_not_hidden_by_what_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else a test that took too long would look like a worker that is known without a session."""

    def strike(*_: object) -> None:
        raise Struck

    machine = KernelMachine()
    machine.world = KernelWorld()
    peers = [machine.world.connect("w0", "i0"), machine.world.connect("w1", "i0")]
    with monkeypatch.context() as patched:
        patched.setattr(Dispatcher, "release_sticky", strike)
        with pytest.raises(Struck):
            machine.world.lose(peers[1])
    assert "worker 'w1': known without a session" in violations(machine.world.kernel, now=machine.world.now)
    machine.teardown()


@pytest.mark.slow
def test_every_order_of_happenings_keeps_the_invariants() -> None:
    examples = 4 * settings().max_examples
    run_state_machine_as_test(KernelMachine, settings=settings(max_examples=examples, stateful_step_count=50))


@pytest.mark.long
def test_long_lives_keep_the_invariants() -> None:
    run_state_machine_as_test(KernelMachine, settings=settings(max_examples=2_000, stateful_step_count=150))
