"""The kernel agrees with a deliberately naive model after every command of any sequence.

One worker with more streams than there are calls takes everything at once, so that nothing here is about dispatch:
what is compared is what Flows mean. The model is `naive_model`, written from the specification alone.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dexd.core import commands as c
from dexd.core import effects as f
from dexd.core.config import KernelConfig
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.ids import CallerId, FlowId, RequestId, RunId, StepExecutionId
from dexd.core.outcome import MessageDeleted, SkipTimerResult, StartFlowAccepted, StopFlowResult
from dexd.core.rejections import Rejection
from dexd.core.terms import FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import (
    Canceling,
    Decision,
    FlowStatus,
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
from tests.property.naive_model import (
    BACKOFF,
    EXECUTE,
    RUNNING,
    TIMEOUT_HANDLER,
    WAIT_FOR,
    WAITING,
    NaiveFlows,
    NaiveRun,
    NaiveStep,
)
from tests.property.test_kernel_machine import channels, failures, flow_ids, picks, wait_values
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    PROCEED,
    complete,
    decides,
    digest,
    fail,
    force,
    force_fail,
    force_if_empty,
    go_to,
    graceful,
    no_retry,
    options,
    plan,
    publish,
    recovery,
    retry,
    rpc,
    set_attribute,
    start,
    stop,
    waits,
)
from tests.support.deletion_builders import delete_message

NEVER_MS = 10**12
CONFIG = KernelConfig(
    ping_interval_ms=NEVER_MS, pong_timeout_ms=NEVER_MS, session_max_age_ms=0, accept_timeout_ms=NEVER_MS
)
SPARE_STREAMS = 8
"""On each queue, beyond one for every Step that may want a worker: no call waits for a stream."""
STEPS_MAX = 20
"""Active Steps, above which no more are asked for."""
DURATIONS = (0, 1, 40, 1_000, 2_500, 5_000, 30_000)

PHASES = {StepPhase.RUNNING: RUNNING, StepPhase.WAITING: WAITING, StepPhase.BACKOFF: BACKOFF}
METHODS = {Method.WAIT_FOR: WAIT_FOR, Method.EXECUTE: EXECUTE}

keys = st.sampled_from(["a", "b"])
values = st.sampled_from([None, b"1", b"2"])
writes = st.lists(st.tuples(keys, values), max_size=2).map(tuple)
channel_lists = st.lists(channels, max_size=2)
deletings = st.lists(picks, max_size=2)
step_types = st.lists(st.sampled_from(["A", "B", "Recover"]), max_size=2, unique=True).map(tuple)
cancelings = st.one_of(st.none(), st.builds(Canceling, step_types, step_types))
step_options: st.SearchStrategy[StepOptions | None] = st.sampled_from(
    [
        None,
        no_retry(),
        no_retry(wait_for_failure=PROCEED, recovery=recovery()),
        options(execute_timeout_ms=3_000, wait_for_timeout_ms=2_000, execute_retry=retry(initial_interval_ms=700)),
        options(execute_retry=retry(maximum_attempts=2, total_duration_ms=4_000), recovery=recovery(wait_for=True)),
        options(wait_for_retry=retry(backoff_coefficient=10.0, maximum_interval_ms=5_000, maximum_attempts=4)),
        options(recovery=recovery(wait_for=True, options=no_retry(wait_for_failure=PROCEED, recovery=recovery()))),
    ]
)
plans: st.SearchStrategy[StepPlan] = st.builds(
    lambda step_type, wait_for, chosen: plan(step_type, wait_for=wait_for, options=chosen),
    st.sampled_from(["A", "B"]),
    st.booleans(),
    step_options,
)
decisions: st.SearchStrategy[Decision] = st.one_of(
    st.lists(plans, min_size=1, max_size=3).map(lambda chosen: go_to(*chosen)),
    st.sampled_from([graceful(b"1"), graceful(), force(b"2"), force_fail("no"), DEAD_END]),
)
flow_retries = st.sampled_from(
    [
        None,
        FlowRetry(retry(maximum_attempts=3), None),
        FlowRetry(retry(initial_interval_ms=200, backoff_coefficient=5.0), None),
    ]
)
terms_values: st.SearchStrategy[FlowTerms | None] = st.one_of(
    st.none(),
    st.builds(
        lambda timeout_ms, policy, delay_ms, again: FlowTerms(timeout_ms, policy, no_retry(), delay_ms, again),
        # Instants that nothing else has, because the order of what is due at one instant is not promised.
        st.sampled_from([0, 333, 6_003, 47_003]),
        st.sampled_from([FlowTimeoutPolicy.FAIL, FlowTimeoutPolicy.CANCEL, FlowTimeoutPolicy.HANDLER]),
        st.sampled_from([0, 0, 1_500]),
        flow_retries,
    ),
)
all_decisions: st.SearchStrategy[Decision] = st.builds(
    lambda decision, canceling: Decision(
        decision.kind, decision.movements, decision.output, decision.reason, canceling, decision.channels
    ),
    st.one_of(
        decisions,
        st.builds(
            lambda fallback, names: force_if_empty(b"3", fallback, *names),
            plans,
            st.lists(channels, min_size=1, max_size=2, unique=True),
        ),
    ),
    cancelings,
)


class NaiveMachine(RuleBasedStateMachine):
    """Says everything to both, and compares what can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = 0
        self._messages = 0
        self.world: KernelWorld
        self.model: NaiveFlows

    def _connect(self, old: Peer | None) -> None:
        self.world.connect("w", "i", presents_from=old, limit=256, steps=f"A B Recover {TIMEOUT_HANDLER}")
        self._open_streams()

    def _open_streams(self) -> None:
        (peer,) = self.world.peers.values()
        idle = [queue for number, queue in peer.queues.items() if number not in peer.calls]
        wanted = SPARE_STREAMS + sum(len(run.steps) for run in self.model.runs)
        for queue in ("w", FLOW_TYPE):
            for _ in range(wanted - idle.count(queue)):
                self.world.open_stream(peer, queue)

    def _fresh(self) -> str:
        self._requests += 1
        return f"r{self._requests}"

    def _value(self) -> bytes:
        """A value that tells its message apart."""
        self._messages += 1
        return b"m%d" % self._messages

    # ---- clients ----

    @initialize(step=plans, threshold=st.sampled_from([10_000, 3, 6, 11]))
    def begin(self, step: StepPlan, threshold: int) -> None:
        """Roll-over, whenever it comes, changes nothing that can be seen [ROLL-3..5]."""
        self.world = KernelWorld(msgspec.structs.replace(CONFIG, rollover_events=threshold))
        self.model = NaiveFlows(self.world.now)
        self._connect(None)
        self.start("f1", step, IdReusePolicy.DEFAULT, None)

    @rule(flow_id=flow_ids, step=plans, policy=st.sampled_from(list(IdReusePolicy)), terms=terms_values)
    def start(self, flow_id: str, step: StepPlan, policy: IdReusePolicy, terms: FlowTerms | None) -> None:
        run_id = f"run-{self._fresh()}"
        if terms is not None and terms.retry is not None:
            terms = msgspec.structs.replace(terms, retry=FlowRetry(terms.retry.policy, step))
        command = start(flow_id, run_id, step=step, id_reuse_policy=policy, terms=terms)
        reply = self.world.do(command).reply
        assert isinstance(reply, StartFlowAccepted) is self.model.start(flow_id, run_id, step, policy, terms)
        self.compare()

    @rule(flow_id=flow_ids, channel_name=channels, count=st.integers(1, 4))
    def publish(self, flow_id: str, channel_name: str, count: int) -> None:
        messages = tuple(self._value() for _ in range(count))
        reply = self.world.do(publish(channel_name, *messages, flow_id=flow_id, request_id=self._fresh())).reply
        assert isinstance(reply, Rejection) is not self.model.publish(flow_id, channel_name, messages)
        self.compare()

    @rule(flow_id=flow_ids, pick=picks)
    def delete_message(self, flow_id: str, pick: int) -> None:
        run = self.model.latest(flow_id)
        if run is None:
            return
        ((channel, value),) = self._deleted(run, [pick])
        ((_, message_id),) = self._named(run, [(channel, value)])
        reply = self.world.do(delete_message(message_id, channel, flow_id=flow_id, request_id=self._fresh())).reply
        assert isinstance(reply, MessageDeleted) is self.model.delete_message(flow_id, channel, value)
        self.compare()

    def _deleted(self, run: NaiveRun, chosen: Sequence[int]) -> list[tuple[str, bytes]]:
        """Messages of the run to delete: such as are pending, and one that is not."""
        pending = [(channel, value) for channel, queue in run.channels.items() for value in queue]
        pending.append(("c", b"gone"))
        return [pending[pick % len(pending)] for pick in chosen]

    def _named(self, run: NaiveRun, deleted: Sequence[tuple[str, bytes]]) -> tuple[tuple[str, str], ...]:
        """The same by the IDs that the kernel gave them."""
        state = self._states()[RunId(run.run_id)]
        ids = {message.value: message.message_id for queue in state.channels.values() for message in queue}
        return tuple((channel, ids.get(value, "gone")) for channel, value in deleted)

    @rule(flow_id=flow_ids, key=keys, value=values)
    def set_attribute(self, flow_id: str, key: str, value: bytes | None) -> None:
        reply = self.world.do(set_attribute(key, value, flow_id=flow_id, request_id=self._fresh())).reply
        assert isinstance(reply, Rejection) is not self.model.set_attribute(flow_id, key, value)
        self.compare()

    @rule(flow_id=flow_ids, kind=st.sampled_from(list(StopType)))
    def stop(self, flow_id: str, kind: StopType) -> None:
        reply = self.world.do(stop(kind, flow_id=flow_id, request_id=self._fresh())).reply
        status = reply.status.name if isinstance(reply, StopFlowResult) else None
        assert status == self.model.stop(flow_id, kind)
        self.compare()

    @rule(pick=picks, index=st.integers(0, 2))
    def skip_timer(self, pick: int, index: int) -> None:
        waiting = [(run, step_id) for run in self.model.runs for step_id in run.waiting]
        if not waiting:
            return
        run, step_id = waiting[pick % len(waiting)]
        request = self._fresh()
        command = c.SkipTimer(
            FlowId(run.flow_id),
            None,
            StepExecutionId(step_id),
            TimerId(index=index),
            RequestId(request),
            digest(request),
        )
        reply = self.world.do(command).reply
        outcome = reply.outcome.name if isinstance(reply, SkipTimerResult) else None
        assert outcome == self.model.skip_timer(run, step_id, index)
        self.compare()

    @rule(
        flow_id=flow_ids,
        written=writes,
        published=st.booleans(),
        steps=st.lists(plans, max_size=2),
        deleting=deletings,
        is_transactional=st.booleans(),
    )
    def rpc(
        self,
        flow_id: str,
        written: Any,
        published: bool,
        steps: list[StepPlan],
        deleting: list[int],
        is_transactional: bool,
    ) -> None:
        """The handler runs at once, or not at all."""
        run = self.model.latest(flow_id)
        if run is None or len(run.steps) > STEPS_MAX:
            return
        caller = CallerId(self._requests)
        self.world.callers[caller] = None
        request_id = self._fresh()
        expires_at = self.world.now + 1_000
        command = rpc("write", caller=caller, flow_id=flow_id, request_id=request_id, expires_at=expires_at)
        outcome = self.world.do(msgspec.structs.replace(command, is_transactional=is_transactional))
        publications = (("c", self._value()),) if published else ()
        response = Response(output=b"1", writes=written, publications=publications, next_steps=tuple(steps))
        deleted = self._deleted(run, deleting)
        response = msgspec.structs.replace(response, deletions=self._named(run, deleted))
        for peer, call in self.world.held():
            if call.token.method is Method.RPC:
                result = c.CompleteCall(peer.session, call.stream, call.token, response)
                outcome = self.world.answer(peer, call, result)
        (answer,) = [effect.answer for effect in outcome.effects if isinstance(effect, f.AnswerRpc)]
        is_answered = self.model.rpc(run, response, deleted, is_transactional=is_transactional)
        assert is_answered is not isinstance(answer, Rejection)
        self.compare()

    # ---- handlers ----

    @precondition(lambda self: self.world.held())
    @rule(
        pick=picks,
        wait=wait_values,
        decision=all_decisions,
        published=st.lists(channels, max_size=2),
        written=writes,
        deleting=deletings,
    )
    def complete(
        self, pick: int, wait: Wait, decision: Decision, published: list[str], written: Any, deleting: list[int]
    ) -> None:
        peer, call = self._held(pick)
        run, step = self._current(call)
        publications = tuple((channel, self._value()) for channel in published)
        if run is not None and len(run.steps) > STEPS_MAX:
            decision = DEAD_END
        if call.token.method is Method.WAIT_FOR:
            response = waits(wait, publications=publications, writes=written)
        else:
            response = decides(decision, publications=publications, writes=written)
        deleted = [] if run is None else self._deleted(run, deleting)
        if run is not None:
            response = msgspec.structs.replace(response, deletions=self._named(run, deleted))
        self.world.answer(peer, call, complete(response, call.token, peer.session, call.stream))
        if run is not None and step is not None:
            if call.token.method is Method.WAIT_FOR:
                self.model.wait_for_returned(run, step, response, deleted)
            else:
                self.model.execute_returned(run, step, response, deleted)
        self.compare()

    @precondition(lambda self: self.world.held())
    @rule(pick=picks, error=failures)
    def fail(self, pick: int, error: Any) -> None:
        peer, call = self._held(pick)
        run, step = self._current(call)
        self.world.answer(peer, call, fail(error, call.token, peer.session, call.stream))
        if run is not None and step is not None:
            self.model.attempt_failed(run, step, error)
        self.compare()

    def _held(self, pick: int) -> tuple[Peer, Delivered]:
        held = self.world.held()
        return held[pick % len(held)]

    def _current(self, call: Delivered) -> tuple[NaiveRun | None, NaiveStep | None]:
        """What the model thinks the call is; nothing, if its result comes too late [LOST-3]."""
        token = call.token
        run = next(run for run in self.model.runs if run.run_id == token.run_id)
        step = run.step(token.call)
        is_current = (
            step is not None
            and step.phase == RUNNING
            and (step.method, step.attempt) == (METHODS[token.method], token.attempt)
        )
        return (run, step) if is_current else (None, None)

    # ---- time and crashes ----

    @rule(milliseconds=st.sampled_from(DURATIONS))
    def pass_time(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds)
        self.model.pass_time(milliseconds)
        self.compare()

    @rule()
    def jump_to_the_next_instant(self) -> None:
        at = self.model.next_instant()
        if at is not None and not self.model.has_tie(at):
            self.pass_time(max(0, at - self.model.now))

    @rule()
    def crash(self) -> None:
        (old,) = self.world.peers.values()
        self.world.crash()
        self._connect(old)
        self.compare()

    # ---- what can be seen ----

    def _states(self) -> dict[RunId, RunState]:
        """The model knows nothing of roll-over: to it a chain is one run, named by its first [ROLL-3, ROLL-4]."""
        folded = self.world.folded.values()
        return {state.chain_id: state for state in folded if state.status is not FlowStatus.CONTINUED_AS_NEW}

    def compare(self) -> None:
        states = self._states()
        for run in self.model.runs:
            if run.previous is not None and not run.run_id:
                run.run_id = states[RunId(run.previous.run_id)].next_run_id
        assert set(states) == {run.run_id for run in self.model.runs}
        for run in self.model.runs:
            kernel, model = shown(states[RunId(run.run_id)]), run.shown()
            differences = [f"{key}: {kernel[key]}, not {model[key]}" for key in model if kernel[key] != model[key]]
            assert not differences, f"{run.run_id}: " + "; ".join(differences)
        self._open_streams()


def shown(state: RunState) -> dict[str, object]:
    """The kernel's state as `NaiveRun.shown` gives the model's."""
    return {
        "status": state.status.name,
        "error_type": state.error_type.name,
        "steps": {str(step_id): shown_step(step) for step_id, step in state.steps.items()},
        "channels": {name: [message.value for message in queue] for name, queue in state.channels.items()},
        "attributes": state.attributes,
        "completions": [(each.step_type, each.step_execution_id, each.value) for each in state.completions],
        "is_completing": state.completion_requested,
    }


def shown_step(step: StepExecution) -> tuple[object, ...]:
    """The kernel's state of a Step as `NaiveStep.shown` gives the model's."""
    error = step.recovery_error
    return (
        step.step_type,
        step.from_step if not step.from_step.startswith("sys:") else "sys:",
        METHODS[step.method],
        PHASES.get(step.phase, step.phase.name),
        step.attempt,
        step.retry_at if step.phase is StepPhase.BACKOFF else 0,
        sorted(step.fired) if step.phase is StepPhase.WAITING else [],
        [(result.met, list(result.values)) for result in step.results],
        step.wait_for_failed,
        None if error is None else error.error_type,
    )


@pytest.mark.slow
def test_the_kernel_does_what_the_naive_model_does() -> None:
    """[GEN-6, WAIT-4..10, CHAN-1..4, ATTR-2, DEC-1..11, RETRY-1..6, OPT-2..5, FLOW-8], deletions [CHAN-8, CHAN-9],
    transactions [RPC-5], and how Flows begin and end [START-4, START-7, START-8, STOP-1, STOP-2, TIME-1..3].
    """
    examples = settings().max_examples
    run_state_machine_as_test(NaiveMachine, settings=settings(max_examples=examples, stateful_step_count=40))


@pytest.mark.long
def test_the_kernel_does_what_the_naive_model_does_for_longer() -> None:
    """The same, more often and longer."""
    run_state_machine_as_test(NaiveMachine, settings=settings(max_examples=3_000, stateful_step_count=100))
