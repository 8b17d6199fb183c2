"""Waiting for a value of an Attribute, and waits that outlive a failed run [WAITAPI-2..7, START-8]."""

from collections.abc import Callable
from typing import Any

from dexd.codec.flow_queries import AttributeWaitQuery, FlowWaitQuery, StepWaitQuery
from dexd.codec.views import AttributeWait
from dexd.core import commands as c
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.rejections import Code
from dexd.core.terms import FlowRetry, FlowTerms
from dexd.core.values import Decision, DecisionKind, FlowStatus, RetryPolicy, StepPlan
from tests.unit.engine.rig import Answers, Rig, stop_command

FLOW = FlowId("f")
BEGIN = StepPlan("Begin", b"1", False)
AGAIN = FlowTerms(retry=FlowRetry(RetryPolicy(maximum_attempts=2), BEGIN, (("a", b"7"),)))


def wait(value: bytes, wait_ms: int = 60_000) -> AttributeWaitQuery:
    return AttributeWaitQuery(FLOW, "a", equal(value), wait_ms)


def equal(value: bytes) -> Callable[[bytes | None], bool]:
    return lambda found: found == value


def write(value: bytes, request_id: str) -> c.SetAttribute:
    return c.SetAttribute(FLOW, None, "a", value, RequestId(request_id), value)


async def waiting(rig: Rig, value: bytes = b"2", **fields: Any) -> Answers:
    answers = Answers()
    rig.engine.reads.wait_for_attribute(wait(value, **fields), answers)
    await rig.decided()
    return answers


async def test_waitapi_5_match_is_tested_at_once() -> None:
    rig = Rig()
    await rig.start(attributes=(("a", b"2"),))
    assert (await waiting(rig)).only == AttributeWait(b"2")


async def test_waitapi_5_match_is_tested_at_every_commit_and_the_value_returned() -> None:
    """[WAITAPI-6] Nothing is left of it."""
    rig = Rig()
    await rig.start()
    answers = await waiting(rig)
    await rig.answer(write(b"1", "r1"))
    assert answers.all == []
    await rig.answer(write(b"2", "r2"))
    assert answers.only == AttributeWait(b"2")
    assert len(rig.engine.waits) == 0


async def test_waitapi_5_writes_of_handlers_count_too_and_only_once_they_are_committed() -> None:
    """[DUR-3]"""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = await waiting(rig)
    rig.writer.is_automatic = False
    dead_end = Decision(DecisionKind.DEAD_END)
    worker.complete(worker.calls[0], decision=dead_end, writes=(("b", b"2"), ("a", b"2")))
    await rig.decided()
    assert answers.all == []
    rig.writer.commit()
    assert answers.only == AttributeWait(b"2")


async def test_waitapi_1_wait_of_no_time_checks_once() -> None:
    rig = Rig()
    await rig.start()
    assert (await waiting(rig, wait_ms=0)).only == AttributeWait(None)


async def test_waitapi_1_wait_that_runs_out_has_no_value() -> None:
    rig = Rig()
    await rig.start()
    answers = await waiting(rig, wait_ms=1_000)
    await rig.advance(1_000)
    assert answers.only == AttributeWait(None)


async def test_waitapi_5_flow_that_closes_unmatched_is_not_active() -> None:
    rig = Rig()
    await rig.start()
    answers = await waiting(rig)
    await rig.answer(stop_command("f"))
    assert answers.only.code is Code.FLOW_NOT_ACTIVE


async def test_waitapi_7_closed_or_unknown_flow_is_refused() -> None:
    rig = Rig()
    assert (await waiting(rig)).only.code is Code.FLOW_NOT_FOUND
    await rig.start(attributes=(("a", b"2"),))
    await rig.answer(stop_command("f"))
    assert (await waiting(rig)).only.code is Code.FLOW_NOT_ACTIVE


async def test_waitapi_6_abandoned_wait_leaves_nothing_behind() -> None:
    rig = Rig()
    await rig.start()
    abandon = rig.engine.reads.wait_for_attribute(wait(b"2"), Answers())
    assert abandon is not None
    abandon()
    abandon()
    assert len(rig.engine.waits) == 0
    assert not rig.engine.waits.parts_of


async def test_stopping_server_refuses_new_waits() -> None:
    rig = Rig()
    await rig.start()
    await rig.engine.stop("test")
    answers = Answers()
    rig.engine.reads.wait_for_attribute(wait(b"2"), answers)
    assert answers.only.code is Code.SHUTTING_DOWN


# ---- a failed run that is followed by another [START-8] -----------------------------------------------------------


async def test_waitapi_2_wait_for_a_flow_follows_its_retries() -> None:
    rig = Rig()
    worker = await rig.worker()
    await rig.start(terms=AGAIN)
    answers = Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, None), answers)
    worker.decide(worker.calls[0], DecisionKind.FORCE_FAIL)
    await rig.decided()
    assert answers.all == []
    await rig.advance(1_000)
    worker.decide(worker.calls[1], DecisionKind.FORCE_COMPLETE, b"42")
    await rig.decided()
    assert answers.only.end.status is FlowStatus.COMPLETED


async def test_waitapi_2_poll_that_names_the_failed_run_gets_the_execution_s_end() -> None:
    """[WAITAPI-1] The next poll passes on what the last one said."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(terms=AGAIN)
    worker.decide(worker.calls[0], DecisionKind.FORCE_FAIL)
    await rig.decided()
    first = Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 0, RunId("run-f")), first)
    await rig.decided()
    assert first.only.end is None
    await rig.answer(stop_command("f"))
    await rig.start(run_id=RunId("run-later"), request_id=RequestId("later"))
    last = Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, RunId("run-f")), last)
    await rig.decided()
    assert last.only.end.status is FlowStatus.CANCELED
    assert last.only.run_id == derived_run_id("run-f/retry")


async def test_waitapi_3_step_and_attribute_waits_follow_a_retry() -> None:
    """[WAITAPI-5] The initial Attributes of the new run are tested as well."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(terms=AGAIN)
    step, initial, other = Answers(), await waiting(rig, b"7"), await waiting(rig, b"8")
    rig.engine.reads.wait_for_step(StepWaitQuery(FLOW, StepExecutionId("Later-1"), 60_000), step)
    worker.complete(worker.calls[0], decision=Decision(DecisionKind.FORCE_FAIL, reason="no"))
    await rig.decided()
    assert (initial.only, other.all, step.all) == (AttributeWait(b"7"), [], [])
    await rig.advance(1_000)
    worker.decide(worker.calls[1], DecisionKind.FORCE_FAIL)
    await rig.decided()
    assert step.only.code is Code.FLOW_NOT_ACTIVE
    assert other.only.code is Code.FLOW_NOT_ACTIVE
