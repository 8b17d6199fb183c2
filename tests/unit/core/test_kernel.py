"""The façade: what it wants from the log, takes over and lets go, and what it derives after a restart [FLOW-11]."""

import pytest

from dexd.core.commands import Tick
from dexd.core.config import KernelConfig
from dexd.core.ids import RunId, StreamId
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, StartFlowAccepted
from dexd.core.values import Method
from dexd.core.wanted import RunRef
from tests.support.builders import (
    DEAD_END,
    FLOW,
    RUN,
    T0,
    all_of,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    fail,
    force,
    hello,
    history,
    plan,
    publish,
    rpc,
    scheduled,
    sent,
    set_attribute,
    start,
    started,
    stop,
    timer,
    token,
    wait_installed,
)
from tests.support.given import given

from dexd.core.flow.evolve import evolve  # isort: skip
from dexd.core.flow.state import RunState  # isort: skip


def closed_run(run_id: str = RUN, ordinal: int = 1) -> RunState:
    state: RunState | None = None
    for event in history(started(run_id=run_id, ordinal=ordinal), closed()):
        state = evolve(state, event)
    assert state is not None
    return state


def test_client_commands_want_the_latest_run_of_their_flow() -> None:
    kernel = given().kernel
    for command in (publish("c", b"1"), set_attribute("a", b"1"), stop(), rpc()):
        assert kernel.wanted(command) == FLOW
        assert given(started()).kernel.wanted(command) is None


def test_start_3_start_wants_the_run_of_its_request_only_where_there_may_be_one() -> None:
    assert given().kernel.wanted(start()) == start()
    first, second = started(run_id="run-a"), started(run_id="run-b", ordinal=2)
    assert given(first).kernel.wanted(start()) is None
    assert given(second).kernel.wanted(start()) == start()
    assert given(second).kernel.wanted(start(request_id="start-run-b")) is None
    assert given(first, closed(), second).kernel.wanted(start(request_id="start-run-a")) is None


def test_results_want_their_run_and_other_commands_nothing() -> None:
    kernel = given().kernel
    assert kernel.wanted(complete(DEAD_END)) == RunRef(RunId(RUN))
    assert kernel.wanted(fail()) == RunRef(RunId(RUN))
    assert given(started()).kernel.wanted(fail()) is None
    assert kernel.wanted(Tick()) is None
    assert kernel.wanted(hello()) is None


def test_closed_run_can_be_adopted_while_serving_and_forgotten_again() -> None:
    kernel = given().kernel
    kernel.adopt(closed_run())
    assert kernel.run(FLOW) is kernel.run_by_id(RunId(RUN))
    assert kernel.open_run_count == 0
    assert kernel.forget(RunId(RUN))
    assert kernel.run(FLOW) is None
    assert not kernel.forget(RunId(RUN))


def test_latest_run_is_the_one_with_the_highest_ordinal_whatever_the_order_of_adoption() -> None:
    for order in ((1, 2), (2, 1)):
        kernel = given().kernel
        for ordinal in order:
            kernel.adopt(closed_run(f"run-{ordinal}", ordinal))
        latest = kernel.run(FLOW)
        assert latest is not None
        assert latest.run_id == "run-2"
        assert kernel.forget(RunId("run-1"))
        assert kernel.run(FLOW) is latest


def test_open_run_is_never_forgotten() -> None:
    kernel = given(started()).kernel
    assert not kernel.forget(RunId(RUN))


def test_run_that_an_rpc_reads_is_not_forgotten_before_its_answer() -> None:
    before = given(started(), closed()).after(*connect()).after(rpc())
    assert not before.kernel.forget(RunId(RUN))
    before.after(complete(DEAD_END, next(iter(before.kernel.dispatcher.calls.values())).token))
    assert before.kernel.forget(RunId(RUN))


def test_run_cannot_be_adopted_twice_or_open_while_serving() -> None:
    kernel = given(started()).kernel
    with pytest.raises(ValueError, match="in memory already"):
        kernel.adopt(closed_run())
    begun, event = history(started("other", "run-2"), scheduled())
    with pytest.raises(ValueError, match="was not recovered"):
        kernel.adopt(evolve(evolve(None, begun), event))


def test_nothing_falls_due_and_nothing_is_dispatched_before_serving() -> None:
    kernel = Kernel(KernelConfig(), last_stream_id=0)
    for command in connect():
        kernel.handle(command, now=T0)
    outcome = kernel.handle(start(step=plan("A")), now=T0)
    assert [type(recorded.event) for recorded in outcome.events] == [type(started()), type(scheduled())]
    assert outcome.effects == ()
    assert kernel.next_deadline() is None
    assert kernel.handle(Tick(), now=T0 + 60_000) == Outcome()


def test_streams_are_numbered_on_from_the_log() -> None:
    kernel = Kernel(KernelConfig(), last_stream_id=41)
    outcome = kernel.handle(start(), now=T0)
    assert [recorded.stream_id for recorded in outcome.events] == [StreamId(42)]
    assert outcome.reply == StartFlowAccepted(RunId(RUN))
    assert kernel.open_run_count == 1


def test_flow_11_every_active_step_has_a_reason_to_wake_up_after_recovery() -> None:
    """[INV-4] `given` checks the invariants; here each kind is there, and its time comes."""
    before = given(
        started(),
        scheduled("Queued-1"),
        scheduled("Timer-1", wait_for=True),
        dispatched("Timer-1", method=Method.WAIT_FOR),
        wait_installed("Timer-1", all_of(timer(at=T0 + 3_000))),
        scheduled("Message-1", wait_for=True),
        dispatched("Message-1", method=Method.WAIT_FOR),
        wait_installed("Message-1", all_of(channel("c"))),
        scheduled("Backoff-1"),
        dispatched("Backoff-1"),
        execute_failed("Backoff-1", retry_at=T0 + 4_000),
        scheduled("Running-1"),
        dispatched("Running-1"),
    )
    deadlines = before.kernel.dispatcher.deadlines
    due = {key[1]: deadlines.armed_at(key) for key in before.kernel.dispatcher.calls}
    assert due == {"Queued-1": T0 + 10_000, "Running-1": T0 + 5_000}
    assert before.next_deadline == T0 + 3_000


def test_recovery_offers_queued_steps_in_order_of_scheduling() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1")).restarted()
    before.when(*connect()).then_events(sent("A-1"))


def test_dispatch_wait_begins_again_after_a_restart() -> None:
    """Waiting time is not in the log, so no attempt is failed for time in which nobody could serve it."""
    before = given(started(), scheduled("A-1")).restarted(T0 + 60_000)
    before.when_time_passes(T0 + 69_999).then(next_deadline=T0 + 70_000)


def test_equal_commands_give_equal_outcomes() -> None:
    """[ARCH-1] Nothing but commands and instants decides."""

    def life() -> list[object]:
        before = given(started(), scheduled("A-1", wait_for=True)).after(*connect())
        before.after(complete(all_of(timer(50), channel("c"))), publish("c", b"1")).ticked(T0 + 50)
        before.after(complete(force(b"1"), token("A-1")))
        return list(before.log)

    assert life() == life()
