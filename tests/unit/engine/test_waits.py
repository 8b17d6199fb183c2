"""Waiting for the end of Flows and Step executions [WAITAPI-1..3, WAITAPI-6]."""

import pytest

from dexd.codec.flow_queries import FlowWaitQuery, StepWaitQuery
from dexd.codec.views import FlowWait, StepWait
from dexd.core import commands as c
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.rejections import Code
from dexd.core.values import (
    Completion,
    DecisionKind,
    Failure,
    FlowStatus,
    RecoveryStep,
    RetryPolicy,
    StepOptions,
    StepOutcome,
    StepPlan,
)
from tests.unit.engine.rig import Answers, Rig, stop_command

FLOW = FlowId("f")


def flow_wait(wait_ms: int = 60_000, first_run_id: str | None = None) -> FlowWaitQuery:
    return FlowWaitQuery(FLOW, wait_ms, None if first_run_id is None else RunId(first_run_id))


def step_wait(step: str, wait_ms: int = 60_000) -> StepWaitQuery:
    return StepWaitQuery(FLOW, StepExecutionId(step), wait_ms)


async def test_wait_is_answered_with_the_end_and_its_completions() -> None:
    """[WAITAPI-2, DEC-7] The result of every terminal status."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_flow(flow_wait(), answers)
    worker.decide(worker.calls[0], DecisionKind.FORCE_COMPLETE, b"42")
    await rig.decided()
    wait = answers.only
    assert wait.run_id == "run-f"
    assert wait.end.status is FlowStatus.COMPLETED
    assert wait.end.completions == (Completion("Begin", StepExecutionId("Begin-1"), b"42"),)


async def test_wait_is_not_answered_before_the_end_is_committed() -> None:
    """[DUR-3] Waits never show uncommitted state."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_flow(flow_wait(), answers)
    rig.writer.is_automatic = False
    rig.engine.request(stop_command("f"), Answers())
    await rig.decided()
    assert answers.all == []
    rig.writer.commit()
    assert answers.only.end.status is FlowStatus.CANCELED


async def test_wait_that_runs_out_tells_the_run_that_it_stays_with() -> None:
    """[WAITAPI-1] One poll is held for its time; the next one passes the run on."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_flow(flow_wait(1_500), answers)
    await rig.advance(1_499)
    assert answers.all == []
    await rig.advance(1)
    assert answers.only == FlowWait(RunId("run-f"))
    assert (await rig.read(rig.engine.reads.wait_for_flow, flow_wait(0))) == FlowWait(RunId("run-f"))


async def test_wait_stays_with_the_execution_that_was_latest() -> None:
    """[WAITAPI-2] A later execution of the same Flow ID is not waited for."""
    rig = Rig()
    await rig.start()
    await rig.answer(stop_command("f"))
    await rig.start(run_id="second", request_id="again")
    old = await rig.read(rig.engine.reads.wait_for_flow, flow_wait(60_000, "run-f"))
    assert old.end.status is FlowStatus.CANCELED
    latest = await rig.read(rig.engine.reads.wait_for_flow, flow_wait(0))
    assert latest == FlowWait(RunId("second"))


@pytest.mark.parametrize("query", [flow_wait(), flow_wait(0, "other"), step_wait("Begin-1")])
async def test_wait_for_what_does_not_exist_is_refused(query: FlowWaitQuery | StepWaitQuery) -> None:
    """[ERR-A] FLOW_NOT_FOUND for an unknown Flow and for a run of another one."""
    rig = Rig()
    await rig.start("other")
    reads = rig.engine.reads
    wait = reads.wait_for_flow if isinstance(query, FlowWaitQuery) else reads.wait_for_step
    assert (await rig.read(wait, query)).code is Code.FLOW_NOT_FOUND


async def test_run_of_another_flow_is_not_found() -> None:
    """[ID-5] A run ID only narrows the Flow ID."""
    rig = Rig()
    await rig.start("f")
    await rig.start("other")
    answer = await rig.read(rig.engine.reads.wait_for_flow, flow_wait(0, "run-other"))
    assert answer.code is Code.FLOW_NOT_FOUND


async def test_abandoned_wait_leaves_nothing_behind() -> None:
    """[WAITAPI-6] Neither an answer nor a waiter nor a deadline."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    abandon_flow = rig.engine.reads.wait_for_flow(flow_wait(), answers)
    abandon_step = rig.engine.reads.wait_for_step(step_wait("Begin-1"), answers)
    assert abandon_flow is not None
    assert abandon_step is not None
    for _ in range(2):
        abandon_flow()
        abandon_step()
    assert len(rig.engine.waits) == 0
    assert rig.engine.waits.next_deadline() is None
    await rig.answer(stop_command("f"))
    assert answers.all == []


async def test_wait_for_a_present_step_ends_with_it() -> None:
    """[WAITAPI-3] COMPLETED, committed."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_step(step_wait("Begin-1"), answers)
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
    await rig.decided()
    assert answers.only == StepWait(StepOutcome.COMPLETED)


async def test_wait_for_a_future_step_needs_no_declaration() -> None:
    """[WAITAPI-3] Future executions are waited for before they exist."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_step(step_wait("Next-1"), answers)
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
    await rig.decided()
    assert answers.all == []
    worker.decide(worker.calls[1], DecisionKind.DEAD_END)
    await rig.decided()
    assert answers.only == StepWait(StepOutcome.COMPLETED)


async def test_wait_for_a_past_step_is_answered_from_history() -> None:
    """[WAITAPI-3] Past executions are known although nothing of them is in memory."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Begin", b"", False))
    await rig.decided()
    assert await rig.read(rig.engine.reads.wait_for_step, step_wait("Begin-1")) == StepWait(StepOutcome.COMPLETED)


async def test_step_that_went_to_recovery_has_failed() -> None:
    """[WAITAPI-3] FAILED, present and past."""
    rig = Rig()
    worker = await rig.worker()
    options = StepOptions(execute_retry=RetryPolicy(maximum_attempts=1), recovery=RecoveryStep("Next", False))
    await rig.start(start_step=StepPlan("Begin", b"", False, options))
    answers = Answers()
    rig.engine.reads.wait_for_step(step_wait("Begin-1"), answers)
    call = worker.calls[0]
    worker.say(c.FailCall(worker.session, call.stream, call.call.token, Failure("Boom")))
    await rig.decided()
    assert answers.only == StepWait(StepOutcome.FAILED)
    assert await rig.read(rig.engine.reads.wait_for_step, step_wait("Begin-1")) == StepWait(StepOutcome.FAILED)


async def test_wait_for_a_step_of_a_flow_that_closes_first_is_refused() -> None:
    """[WAITAPI-3, WAITAPI-7] FLOW_NOT_ACTIVE, for waiters and for latecomers."""
    rig = Rig()
    await rig.start()
    active, future = Answers(), Answers()
    rig.engine.reads.wait_for_step(step_wait("Begin-1"), active)
    rig.engine.reads.wait_for_step(step_wait("Next-9"), future)
    await rig.answer(stop_command("f"))
    assert active.only.code is Code.FLOW_NOT_ACTIVE
    assert future.only.code is Code.FLOW_NOT_ACTIVE
    assert (await rig.read(rig.engine.reads.wait_for_step, step_wait("Begin-1"))).code is Code.FLOW_NOT_ACTIVE


async def test_wait_for_a_step_that_runs_out_has_no_outcome() -> None:
    """[WAITAPI-1] Expiry changes nothing; no time at all checks once."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    rig.engine.reads.wait_for_step(step_wait("Begin-1", 10), answers)
    rig.engine.reads.wait_for_step(step_wait("Begin-1", 0), answers)
    await rig.advance(10)
    assert answers.all == [StepWait(None), StepWait(None)]


async def test_all_waiters_of_one_end_are_answered() -> None:
    """[WAITAPI-2] However many there are."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    for _ in range(3):
        rig.engine.reads.wait_for_flow(flow_wait(), answers)
    await rig.answer(stop_command("f"))
    assert [answer.end.status for answer in answers.all] == [FlowStatus.CANCELED] * 3
