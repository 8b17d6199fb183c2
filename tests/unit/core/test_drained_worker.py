"""A worker process that an operator takes out of service [DRAIN-2, SURF-22]."""

from dexd.core.commands import DrainWorker
from dexd.core.effects import AcknowledgeResult, ConfirmStream
from dexd.core.events import ExecuteCompleted, FlowStarted, StepScheduled
from dexd.core.ids import RunId, WorkerId
from dexd.core.matching.workforce import INCARNATIONS_REMEMBERED_MAX
from dexd.core.outcome import StartFlowAccepted, WorkerDrained
from dexd.core.rejections import Code, Rejection
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    T0,
    accept,
    assigned,
    complete,
    connect,
    go_to,
    hello,
    lose,
    plan,
    rpc,
    rpc_token,
    running,
    scheduled,
    sent,
    start,
    started,
    stream,
    token,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

DRAIN = DrainWorker(WorkerId("w1"))
UNDO = DrainWorker(WorkerId("w1"), is_undo=True)


def busy() -> Given:
    """w1 runs A-1 and has a free stream besides."""
    return given(started(), scheduled("A-1")).after(*connect(streams=2), accept())


def test_drained_worker_finishes_what_it_runs_and_gets_nothing_more() -> None:
    before = busy()
    before.when(DRAIN).then(reply=WorkerDrained("i1", 1))
    before.when(start("other", "run-other", step=plan("A"))).then(
        events=[Like(FlowStarted), Like(StepScheduled)], reply=StartFlowAccepted(RunId("run-other"))
    )
    before.when(complete(go_to(plan("B")))).then(
        events=[Like(ExecuteCompleted), Like(StepScheduled)], effects=[Like(AcknowledgeResult, accepted=True)]
    )
    before.when(stream(1, 9, FLOW_TYPE)).then(effects=[Like(ConfirmStream)])


def test_what_waits_for_a_drained_worker_goes_to_others_at_once() -> None:
    """[ROUTE-1]"""
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1"), complete(DEAD_END), *connect(2, "w2"))
    before.after(rpc("read", caller=1, request_id="q1"))
    waiting = before.after(rpc("write", caller=2, request_id="q2"))
    waiting.when(DRAIN).then(effects=[assigned(rpc_token("q2", nth=2), session=2)], reply=WorkerDrained("i1", 1))


def test_drained_process_stays_drained_over_a_reconnect_and_its_calls_go_on() -> None:
    """[WIRE-10]"""
    before = busy().after(DRAIN, lose(1))
    before.after(hello(2, "w1", running=(running(token("A-1"), 1),)), stream(2, 2, FLOW_TYPE), now=T0 + 1_000)
    before.after(start("other", "run-other", step=plan("A")))
    assert before.step().delivery == 1
    before.when(complete(DEAD_END, session=2)).then(
        events=[Like(ExecuteCompleted)], effects=[Like(AcknowledgeResult, accepted=True)]
    )


def test_next_process_with_the_same_id_is_served() -> None:
    before = given(started(), scheduled("A-1")).after(*connect(1, "w1", streams=0), DRAIN, lose(1))
    before.when(*connect(2, "w1", incarnation="i2")).then_events(sent("A-1", incarnation="i2"))


def test_undone_drain_gives_the_free_streams_their_calls() -> None:
    before = given().after(*connect(), DRAIN, start("other", "run-other", step=plan("A")))
    before.when(UNDO).then(
        events=[sent("A-1")], effects=[assigned(token("A-1", run="run-other"))], reply=WorkerDrained("i1", 1)
    )


def test_undone_drain_leaves_busy_streams_alone_and_a_repeat_is_nothing() -> None:
    before = busy().after(DRAIN)
    before.when(DRAIN).then(reply=WorkerDrained("i1", 1))
    before.when(UNDO).then(reply=WorkerDrained("i1", 1))
    before.when(UNDO).then(reply=WorkerDrained("i1", 1))
    before.after(lose(1))
    before.when(hello(2, "w1", running=(running(token("A-1"), 1),)), stream(2, 2, FLOW_TYPE)).then_events()
    before.when(start("other", "run-other", step=plan("A"))).then_effects(
        assigned(token("A-1", run="run-other"), session=2, number=2)
    )


def test_worker_that_is_not_connected_is_named() -> None:
    message = "no worker with app worker ID 'w1' is connected"
    given().when(DRAIN).then(reply=Rejection(Code.WORKER_NOT_FOUND, message, {"worker_id": "w1"}))


def test_drained_processes_that_never_came_back_are_forgotten() -> None:
    """[ARCH-8]"""
    before = given()
    workforce = before.kernel.workforce
    for number in range(INCARNATIONS_REMEMBERED_MAX):
        workforce._drained[WorkerId("gone"), str(number)] = None
    before.after(*connect(), DRAIN)
    assert len(workforce._drained) == INCARNATIONS_REMEMBERED_MAX
    assert (WorkerId("gone"), "0") not in workforce._drained
