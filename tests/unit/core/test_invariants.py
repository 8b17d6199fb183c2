"""Every check of the invariants finds what it is there for: a sound kernel is broken by hand, one thing at a time."""

from collections.abc import Callable

import pytest

from dexd.core import events as e
from dexd.core.commands import BeginShutdown
from dexd.core.config import ACCEPTED_REMEMBERED_MAX, TIMER_SKIPS_MAX
from dexd.core.deadlines import Deadlines
from dexd.core.flow.invariants import history_violations, run_violations
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import TIMEOUT_HANDLER_ID, CallId, FlowId, RunId, SessionId, StepExecutionId, StreamNumber, WorkerId
from dexd.core.invariants import violations
from dexd.core.kernel import Kernel
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.deadline_keys import HoldDue, PingDue
from dexd.core.matching.sessions import Worker
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flows import SubFlow, SubFlowPlan
from dexd.core.terms import FlowTimeoutPolicy
from dexd.core.values import FlowStatus, Message, Method, TimerId
from tests.support.builders import (
    RUN,
    T0,
    At,
    all_of,
    at,
    attribute_set,
    channel,
    closed,
    connect,
    decline,
    dispatched,
    execute_failed,
    executed,
    fired,
    history,
    message_ids,
    met,
    options,
    plan,
    publish,
    published,
    rpc,
    scheduled,
    serves,
    stale,
    start,
    started,
    terms,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given

WAITS = all_of(channel("c"), timer(at=T0 + 9_000))


def sound() -> Given:
    """One Step of each phase; w1 is busy with A-1, w2 idle, w3 knows nothing."""
    before = given(
        started(),
        scheduled("Queued-1"),
        scheduled("W-1", wait_for=True),
        dispatched("W-1", method=Method.WAIT_FOR),
        wait_installed("W-1", WAITS),
        scheduled("F-1"),
        dispatched("F-1"),
        execute_failed("F-1", retry_at=T0 + 9_000),
        scheduled("A-1"),
    )
    before.after(*connect(1, "w1"), *connect(2, "w2"), *connect(3, "w3", serves(steps="")))
    return before.after(publish("x", b"1", b"22"))


def step(run: RunState, name: str) -> StepExecutionId:
    assert name in run.steps
    return StepExecutionId(name)


def test_sound_state_has_no_violations() -> None:
    assert violations(sound().kernel, now=T0) == []


# ---- a run ------------------------------------------------------------------------------------------------------


def poke(field: str, value: object) -> Callable[[RunState], None]:
    return lambda run: setattr(run, field, value)


def poke_step(name: str, **fields: object) -> Callable[[RunState], None]:
    def change(run: RunState) -> None:
        for field, value in fields.items():
            setattr(run.steps[step(run, name)], field, value)

    return change


def _swap(run: RunState) -> None:
    run.channels["x"].reverse()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (poke("status", FlowStatus.FAILED), "FAILED with active Steps"),
        (poke("closed_at", 5), "open with an instant of closing"),
        (poke("pending_count", 5), "pending_count is 5 with 2 messages"),
        (poke("pending_bytes", 5), "pending_bytes is 5 with 3 bytes"),
        (poke("channels", {"x": []}), "kept although it is empty"),
        (_swap, "out of order"),
        (poke("watchers", {}), "watchers are {}"),
        (poke("locks", {"L": "X-1"}), "lock 'L' is held by X-1, which is not active"),
        (poke("locks", {"L": "A-1"}), "holds the locks ['L'] of ()"),
        (poke_step("A-1", options=options(execute_locks=("L",))), "RUNNING with the locks [] of ('L',)"),
        (poke("skips", {"W-1": [TimerId()]}), "W-1 has timers to skip although it waits"),
        (poke("skips", {"X-1": [TimerId()] * (TIMER_SKIPS_MAX + 1)}), "101 skips, the limit"),
        (poke("accepted", [token()] * 2), "accepted twice"),
        (
            poke("accepted", [token(attempt=n) for n in range(ACCEPTED_REMEMBERED_MAX + 1)]),
            "remembered results, the limit",
        ),
        (poke_step("A-1", number=2), "is number 2 of 'A'"),
        (poke("counters", {}), "the counter of 'A' stands at None"),
        (poke_step("A-1", attempt=0), "attempt 0"),
        (poke_step("A-1", losses=2), "2 lost"),
        (poke_step("A-1", delivery=0), "RUNNING as delivery 0"),
        (poke_step("W-1", wait=None), "WAITING with Wait None"),
        (poke_step("Queued-1", wait=WAITS), "READY with Wait"),
        (poke_step("W-1", fired=(1, 1)), "a timer fired twice"),
        (poke("channels", {"c": [Message("m", b"123", T0)] * 1, "d": []}), "kept although"),
    ],
)
def test_faults_of_a_run(change: Callable[[RunState], None], found: str) -> None:
    run = sound().run()
    assert run_violations(run) == []
    change(run)
    assert any(found in violation for violation in run_violations(run)), run_violations(run)


def test_satisfied_wait_is_found() -> None:
    """[WAIT-4]"""
    run = sound().run()
    run.steps[step(run, "W-1")].fired = (1,)
    run.channels["c"] = [Message("m", b"", T0)]
    run.pending_count += 1
    assert [violation.split(": ")[-1] for violation in run_violations(run)] == [
        "WAITING although its Wait is satisfied [WAIT-4]"
    ]


def test_completion_that_nobody_carried_out_is_found() -> None:
    """[DEC-2]"""
    run = given(started()).run()
    run.completion_requested = True
    assert "completion was requested" in run_violations(run)[0]


# ---- a history --------------------------------------------------------------------------------------------------


def wait_history(*events: e.Event | At) -> list[RecordedEvent]:
    return history(
        started(),
        scheduled("W-1", wait_for=True),
        dispatched("W-1", method=Method.WAIT_FOR),
        wait_installed("W-1", WAITS),
        published("c", b"1", b"2", version=5),
        *events,
    )


IDS = message_ids(5, 2)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*history(started()), *history(started(), scheduled(), scheduled("B-1"))[2:]], "version 2 is missing"),
        (history(started(), at(T0 - 1, scheduled())), f"at {T0 - 1}, before {T0}"),
        (history(started(), closed(), attribute_set("a", b"1")), "after the Flow was COMPLETED"),
        (
            history(started(), scheduled(), execute_failed(), execute_failed()),
            "a second result of ('A-1', 'execute', 1)",
        ),
        (wait_history(fired("W-1", 1)), f"a timer due at {T0 + 9_000} fired at {T0}"),
        (wait_history(fired("W-1", 0)), "a timer due at None"),
        (wait_history(at(T0 + 9_000, fired("W-1", 1)), at(T0 + 9_000, fired("W-1", 1))), "fired twice"),
        (wait_history(published("c", b"1", version=5)), f"message ID {IDS[0]} was used before"),
    ],
)
def test_faults_of_a_history(events: list[RecordedEvent], found: str) -> None:
    assert any(found in violation for violation in history_violations(events)), history_violations(events)


def two_waiting(*events: e.Event) -> list[RecordedEvent]:
    waits = (
        event
        for name in ("W-1", "W-2")
        for event in (
            scheduled(name, wait_for=True),
            dispatched(name, method=Method.WAIT_FOR),
            wait_installed(name, all_of(channel("c"))),
        )
    )
    return history(started(), *waits, published("c", b"1", b"2", version=8), *events)


def test_message_taken_before_an_older_one_is_found() -> None:
    """[CHAN-1]"""
    first, second = message_ids(8, 2)
    assert history_violations(two_waiting(met("W-1", (0,), (0, (first,))), met("W-2", (0,), (0, (second,))))) == []
    found = history_violations(two_waiting(met("W-1", (0,), (0, (second,)))))
    assert f"the oldest are ['{first}']" in found[0]
    assert "cannot be folded" in found[1]


def test_message_taken_twice_is_found() -> None:
    """[INV-6]"""
    first, _ = message_ids(8, 2)
    taken = met("W-1", (0,), (0, (first,)))
    found = history_violations(two_waiting(taken, met("W-2", (0,), (0, (first,)))))
    assert f"message {first} was consumed before [INV-6]" in found[1]


def test_event_that_cannot_be_folded_is_found() -> None:
    found = history_violations(history(started(), scheduled(), met("A-1", (0,))))
    assert found == ["event 3 ConditionsMet: cannot be folded: TypeError('A-1 has no Wait to meet')"]


def test_stale_results_are_allowed_after_the_close_and_cancellations_count_as_no_result() -> None:
    events = history(started(), scheduled(), dispatched(), executed(), closed(), stale("A-1", reason="FLOW_CLOSED"))
    assert history_violations(events) == []


# ---- a kernel ---------------------------------------------------------------------------------------------------


def call(kernel: Kernel, name: str) -> Call:
    return kernel.dispatcher.calls[RunId(RUN), CallId(name)]


def worker(kernel: Kernel, name: str = "w1") -> Worker:
    return kernel.dispatcher.matcher.workers[WorkerId(name)]


def _hide_open_run(kernel: Kernel) -> None:
    kernel._runs.open_count = 0


def _hide_streams(kernel: Kernel) -> None:
    kernel.workforce.stream_count = 7


def _forget(name: str) -> Callable[[Kernel], None]:
    return lambda kernel: kernel.dispatcher.calls.__delitem__((RunId(RUN), CallId(name)))


def _stage(name: str, stage: CallStage) -> Callable[[Kernel], None]:
    return lambda kernel: setattr(call(kernel, name), "stage", stage)


def _phase(name: str, phase: StepPhase) -> Callable[[Kernel], None]:
    return lambda kernel: setattr(kernel.runs[RunId(RUN)].steps[StepExecutionId(name)], "phase", phase)


def _retire(kernel: Kernel) -> None:
    kernel.workforce.sessions[SessionId(1)].is_retiring = True


def _disarm_all(kernel: Kernel) -> None:
    kernel.dispatcher.deadlines = Deadlines()


def _other_token(kernel: Kernel) -> None:
    call(kernel, "A-1").token = token(attempt=9)


def _other_method(kernel: Kernel) -> None:
    call(kernel, "Queued-1").method = Method.WAIT_FOR


def _without_stream(kernel: Kernel) -> None:
    call(kernel, "A-1").stream = None


def _occupied_by_another(kernel: Kernel) -> None:
    stream = call(kernel, "A-1").stream
    assert stream is not None
    stream.token = token("B-1")


def _ended_session(kernel: Kernel) -> None:
    del kernel.workforce.sessions[SessionId(1)]


def _other_worker(kernel: Kernel) -> None:
    call(kernel, "A-1").worker_id = WorkerId("w2")


def _orphan(kernel: Kernel) -> None:
    del kernel.runs[RunId(RUN)].steps[StepExecutionId("Queued-1")]


def _busy(kernel: Kernel) -> None:
    worker(kernel).busy = 5


def _no_sessions(kernel: Kernel) -> None:
    worker(kernel, "w2").sessions = {}


def _not_idle(kernel: Kernel) -> None:
    worker(kernel, "w2").idle = {}


def _not_listed(kernel: Kernel) -> None:
    kernel.dispatcher.matcher._idle_steps = {}


def _not_delivered(kernel: Kernel) -> None:
    kernel.dispatcher.delivered = {}


def _learns(kernel: Kernel) -> None:
    worker(kernel, "w2").capabilities = {"Order": serves(steps="Queued")}


def _sticky_to_nobody(kernel: Kernel) -> None:
    call(kernel, "Queued-1").stage = CallStage.STICKY


def _waiting_call(kernel: Kernel) -> None:
    run = kernel.runs[RunId(RUN)]
    kernel.dispatcher.calls[RunId(RUN), CallId("W-1")] = Call((RunId(RUN), CallId("W-1")), run, Method.WAIT_FOR, "W")


def _backoff_call(kernel: Kernel) -> None:
    run = kernel.runs[RunId(RUN)]
    kernel.dispatcher.calls[RunId(RUN), CallId("F-1")] = Call((RunId(RUN), CallId("F-1")), run, Method.EXECUTE, "F")


def _unwatched_child(kernel: Kernel) -> None:
    child = SubFlow(0, FlowId("child"), SubFlowPlan("Order", plan("B")), RunId("child-run"))
    kernel.runs[RunId(RUN)].steps[StepExecutionId("W-1")].sub_flows = (child,)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_unwatched_child, "W-1 waits for 'child', whose end nobody will tell [SUB-5]"),
        (_hide_open_run, "open_run_count is 0 with 1 open runs"),
        (_hide_streams, "stream_count is 7 with 3 streams"),
        (_forget("Queued-1"), "READY without a queued call"),
        (_forget("A-1"), "RUNNING without a delivered call"),
        (_stage("Queued-1", CallStage.HELD), "neither queued nor delivered"),
        (_other_token, "the call's token is"),
        (_other_method, "its call is for WAIT_FOR"),
        (_disarm_all, "Queued-1 of run-1: SHARED until"),
        (_disarm_all, "ASSIGNED with method deadline"),
        (_disarm_all, "BACKOFF until"),
        (_disarm_all, "WAITING for a timer at"),
        (_disarm_all, "session 1 is not pinged"),
        (_retire, "session 1 was asked to go, and may stay or get calls"),
        (_backoff_call, "BACKOFF with a call that is not queued"),
        (_waiting_call, "WAITING with an open call"),
        (_without_stream, "ASSIGNED without a stream"),
        (_occupied_by_another, "which is occupied by"),
        (_ended_session, "ASSIGNED to a session that has ended"),
        (_ended_session, "session 1 has ended"),
        (_other_worker, "on a stream of 'w1'"),
        (_orphan, "its Step execution is not active"),
        (_not_delivered, "the index of delivered calls is {}"),
        (_busy, "busy is 5 with 1 occupied streams"),
        (_no_sessions, "known without a session"),
        (_not_idle, "idle streams are []"),
        (_not_listed, "listed as having idle streams is False"),
        (_learns, "call Queued-1 of run-1 waits, 'w2' is idle"),
        (_sticky_to_nobody, "waits for a worker that has gone"),
    ],
)
def test_faults_of_a_kernel(change: Callable[[Kernel], None], found: str) -> None:
    kernel = sound().kernel
    change(kernel)
    faults = violations(kernel, now=T0)
    assert any(found in fault for fault in faults), faults


def locking(streams: int) -> Kernel:
    """A-1 and A-2 want the same lock, and a worker has so many streams for them."""
    steps = [scheduled(name, options=options(execute_locks=("L",))) for name in ("A-1", "A-2")]
    return given(started(), *steps).after(*connect(streams=streams)).kernel


def _armed_although_blocked(kernel: Kernel) -> None:
    kernel.dispatcher.deadlines.arm((RunId(RUN), CallId("A-2")), T0 + 1)


def _asks_for_nothing(kernel: Kernel) -> None:
    call(kernel, "A-1").asks = ()


def _free_lock(kernel: Kernel) -> None:
    kernel.dispatcher.locks.held.clear()


def _lock_of_nobody(kernel: Kernel) -> None:
    kernel.runs[RunId(RUN)].locks.clear()


def _wants_none(kernel: Kernel) -> None:
    step = call(kernel, "A-1").step
    assert step is not None
    step.options = None


@pytest.mark.parametrize(
    ("streams", "change", "found"),
    [
        (2, _armed_although_blocked, "waits for locks, armed at"),
        (2, _wants_none, "wants no locks, holds ('L',)"),
        (2, _free_lock, "was handed over with the locks (), wants ('L',)"),
        (2, _free_lock, "waits for locks that are free"),
        (0, _asks_for_nothing, "looks for a worker and asks for (), wants ('L',)"),
        (2, _stage("A-2", CallStage.SHARED), "looks for a worker although its locks are busy"),
        (2, _lock_of_nobody, "their runs say {}"),
    ],
)
def test_faults_of_locks(streams: int, change: Callable[[Kernel], None], found: str) -> None:
    """[LOCK-2, LOCK-3]"""
    kernel = locking(streams)
    assert violations(kernel, now=T0) == []
    change(kernel)
    faults = violations(kernel, now=T0)
    assert any(found in fault for fault in faults), faults


def test_rpc_that_nobody_waits_for_is_found() -> None:
    before = given(started()).after(rpc())
    (waiting,) = before.kernel.dispatcher.calls.values()
    assert waiting.rpc is not None
    waiting.rpc.callers.clear()
    assert "an RPC that nobody waits for is queued" in violations(before.kernel, now=T0)[0]


def test_pause_that_is_over_counts_as_an_offer_that_is_on_its_way() -> None:
    before = given(started(), scheduled("A-1")).after(*connect()).after(decline("NO_CAPACITY"))
    held = worker(before.kernel)
    held.steps_held_until = held.tight_until = 0
    assert "is idle" in violations(before.kernel, now=T0)[0]
    before.kernel.dispatcher.deadlines.arm(HoldDue(WorkerId("w1")), T0)
    assert violations(before.kernel, now=T0) == []


def test_server_that_shuts_down_may_leave_streams_idle() -> None:
    before = given().after(*connect(), BeginShutdown("x")).after(start(step=None))
    assert violations(before.kernel, now=T0) == []
    assert before.kernel.dispatcher.deadlines.armed_at(PingDue(SessionId(1))) == T0 + 20_000
    assert StreamNumber(1) in before.kernel.workforce.sessions[SessionId(1)].streams


LIMITED = started(terms=terms(timeout_ms=9_000, timeout_policy=FlowTimeoutPolicy.HANDLER), timeout_at=T0 + 9_000)


def test_time_of_a_flow_is_watched_and_ends_before_its_handler_runs() -> None:
    """[TIME-1, TIME-3]"""
    before = given(LIMITED)
    before.run().timeout_at = T0 + 8_000
    assert any("its time is over at" in fault for fault in violations(before.kernel, now=T0))
    handled = given(LIMITED).ticked(T0 + 9_000)
    handled.run().timeout_at = T0 + 9_500
    assert any("before its time is over" in fault for fault in violations(handled.kernel, now=T0 + 9_000))


def test_time_of_a_flow_does_not_end_early_or_twice() -> None:
    """[TIME-1]"""
    over = at(T0 + 9_000, fired(TIMEOUT_HANDLER_ID))
    assert not history_violations(history(LIMITED, over))
    assert any("[TIME-1]" in fault for fault in history_violations(history(LIMITED, fired(TIMEOUT_HANDLER_ID))))
    assert any("[TIME-1]" in fault for fault in history_violations(history(LIMITED, over, over)))
