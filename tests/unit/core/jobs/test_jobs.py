"""Batch jobs: fixed targets, checked again, applied once each, slowly enough, cancelable [BATCH-1, BATCH-3]."""

from collections import deque

import pytest

from dexd.core import commands as c
from dexd.core.events import ChannelPublished
from dexd.core.ids import FlowId, JobId, RequestId, StreamId
from dexd.core.jobs import commands as jc
from dexd.core.jobs import events as e
from dexd.core.jobs.book import CLOSED_MAX
from dexd.core.jobs.desk import TARGETS_PER_EVENT, turn_size
from dexd.core.jobs.evolve import evolve_job
from dexd.core.jobs.invariants import job_violations
from dexd.core.jobs.results import DETAIL_LENGTH_MAX, problem_of
from dexd.core.jobs.state import PROBLEMS_MAX
from dexd.core.outcome import JobAccepted, RecordedStreamEvent, StopFlowResult
from dexd.core.rejections import Code, Rejection
from dexd.core.streams import StreamKind, StreamSummary, summary_of
from dexd.core.values import FlowStatus, IdReusePolicy, RequestRecord
from dexd.core.wanted import StreamRef
from tests.support.builders import T0, start, stop
from tests.support.job_stage import JOB, PUBLISH, JobStage, create_job

MANY = [f"f{number:03}" for number in range(12)]


def counts(stage: JobStage) -> tuple[int, int, int, int]:
    job = stage.job
    return job.matched, job.applied, job.skipped, job.failed


def published(stage: JobStage, flow_id: str) -> int:
    return sum(
        isinstance(recorded.event, ChannelPublished) and recorded.stream_id == stage.run(flow_id).stream_id
        for recorded in stage.events
    )


# ---- applying ---------------------------------------------------------------------------------------------------


def test_batch_1_a_job_applies_its_operation_to_every_target_and_counts() -> None:
    stage = JobStage(*MANY)
    assert stage.do(create_job(*MANY)).reply == JobAccepted(JOB)
    stage.pass_time(T0 + 10_000)
    assert counts(stage) == (12, 12, 0, 0)
    assert (stage.job.status, stage.job.is_closed, stage.job.targets) == (e.JobStatus.COMPLETED, True, [])
    assert {stage.run(flow_id).status for flow_id in MANY} == {FlowStatus.CANCELED}


def test_batch_1_so_many_a_second_and_no_more() -> None:
    """At 50 a second five have their turn together, every 100 ms; at 2 a second one every 500 ms."""
    stage = JobStage(*MANY)
    stage.do(create_job(*MANY))
    stage.pass_time(T0 + 10_000)
    assert [at - T0 for at, _ in stage.reached] == [0] * 5 + [100] * 5 + [200] * 2
    slow = JobStage(*MANY[:3])
    slow.do(create_job(*MANY[:3], rate=2.0))
    slow.pass_time(T0 + 10_000)
    assert [at - T0 for at, _ in slow.reached] == [0, 500, 1_000]
    assert (turn_size(50.0), turn_size(0.001), turn_size(10_000.0)) == (5, 1, 1_000)


def test_batch_1_a_job_without_targets_is_complete_at_once() -> None:
    stage = JobStage()
    stage.do(create_job())
    assert (counts(stage), stage.job.status) == ((0, 0, 0, 0), e.JobStatus.COMPLETED)
    assert stage.kernel.next_deadline() is None


def test_batch_1_what_was_refused_is_counted_with_its_reason() -> None:
    """A Flow that closed meanwhile takes no message."""
    stage = JobStage("a", "b")
    stage.do(stop(flow_id="a"))
    stage.do(create_job("a", "b", operation=PUBLISH))
    stage.pass_time(T0 + 10_000)
    assert counts(stage) == (2, 1, 0, 1)
    assert stage.job.reasons == {"FLOW_NOT_ACTIVE": 1}
    (problem,) = stage.job.problems
    assert (problem.flow_id, problem.outcome, problem.reason) == ("a", e.TargetOutcome.FAILED, "FLOW_NOT_ACTIVE")
    assert problem.detail.startswith("Flow 'a' is")


def test_batch_1_problems_are_counted_all_and_kept_in_part() -> None:
    names = [f"f{number}" for number in range(PROBLEMS_MAX + 20)]
    stage = JobStage()
    stage.do(create_job(*names, rate=1_000.0))
    stage.pass_time(T0 + 10_000)
    assert (stage.job.skipped, stage.job.reasons) == (PROBLEMS_MAX + 20, {"GONE": PROBLEMS_MAX + 20})
    assert len(stage.job.problems) == PROBLEMS_MAX


def test_batch_1_reasons_of_refusals_are_cut() -> None:
    problem = problem_of(FlowId("f"), Rejection(Code.INTERNAL, "x" * 10_000))
    assert problem is not None
    assert len(problem.detail) == DETAIL_LENGTH_MAX
    assert problem_of(FlowId("f"), JobAccepted(JOB)) is None


# ---- targets ----------------------------------------------------------------------------------------------------


def test_batch_3_targets_are_fixed_in_bounded_events() -> None:
    """In the commit that creates the job; a Flow that starts later is none."""
    names = [f"f{number}" for number in range(TARGETS_PER_EVENT + 1)]
    stage = JobStage()
    events = stage.do(create_job(*names)).stream_events
    fixed = [recorded.event for recorded in events if isinstance(recorded.event, e.JobTargetsFixed)]
    assert [len(event.targets) for event in fixed] == [TARGETS_PER_EVENT, 1]
    assert isinstance(events[0].event, e.JobCreated)
    assert events[0].event.matched == TARGETS_PER_EVENT + 1


def test_batch_3_a_target_that_does_not_match_any_more_is_skipped() -> None:
    stage = JobStage("a", "b")
    stage.unmatched.add("a")
    stage.do(create_job("a", "b"))
    assert counts(stage) == (2, 1, 1, 0)
    assert stage.job.reasons == {"NO_MATCH": 1}
    assert stage.run("a").is_open


def test_batch_3_another_execution_of_the_flow_id_is_no_target() -> None:
    stage = JobStage("a")
    stage.do(stop(flow_id="a"))
    stage.do(start("a", "run-a2", id_reuse_policy=IdReusePolicy.ALLOW_IF_NOT_RUNNING))
    stage.do(create_job("a"))
    assert stage.job.reasons == {"REPLACED": 1}
    assert stage.run("a").is_open


def test_batch_3_a_flow_that_is_gone_or_closed_is_skipped() -> None:
    stage = JobStage("a")
    stage.do(stop(flow_id="a"))
    stage.do(create_job("a", "nobody"))
    assert stage.job.reasons == {"ALREADY_CLOSED": 1, "GONE": 1}
    assert problem_of(FlowId("a"), StopFlowResult(True, FlowStatus.CANCELED)) is None


# ---- once, and over crashes -------------------------------------------------------------------------------------


def test_batch_3_a_repeated_request_finds_the_job_that_it_made() -> None:
    """[GEN-8] And with other content it is refused."""
    stage = JobStage("a")
    stage.do(create_job("a"))
    assert stage.do(create_job("a", "b")).reply == JobAccepted(JOB)
    assert counts(stage) == (1, 1, 0, 0)
    refused = stage.do(create_job("a", digest=b"other")).reply
    assert isinstance(refused, Rejection)
    assert refused.code is Code.REQUEST_CONFLICT


@pytest.mark.parametrize("steps", range(14))
def test_batch_3_each_target_is_applied_once_wherever_the_server_dies(steps: int) -> None:
    """[BATCH-1] The job goes on by itself; targets that had their turn answer as before."""
    names = MANY[:6]
    stage = JobStage(*names)
    held = stage.held = deque()
    stage.do(create_job(*names, operation=PUBLISH))
    for _ in range(steps):
        if not held and (due := stage.kernel.next_deadline()) is not None:
            stage.now = due
            stage.do(c.Tick())
        elif held:
            stage.do(held.popleft())
    # Whoever was applied to need not match any more.
    stage.unmatched |= {flow_id for flow_id in names if published(stage, flow_id)}
    stage.crash()
    stage.pass_time(stage.now + 10_000)
    assert counts(stage) == (6, 6, 0, 0)
    assert [published(stage, flow_id) for flow_id in names] == [1] * 6


def test_batch_3_results_that_come_late_or_twice_change_nothing() -> None:
    stage = JobStage("a")
    stage.do(create_job("a"))
    before = len(stage.stream_events)
    stream = stage.job.stream_id
    stage.do(jc.NoteTarget(stream, 0, None))
    assert stage.kernel.stream(stream) is stage.job
    completed = e.JobStatus.COMPLETED
    assert summary_of(stage.job) == StreamSummary(StreamKind.JOB, JOB, completed, T0, is_closed=True, closed_at=T0)
    stage.do(jc.NoteTarget(StreamId(99), 0, None))
    other = JobStage("a", "b")
    other.held = deque()
    other.do(create_job("a", "b", rate=1.0))
    other.do(jc.NoteTarget(other.job.stream_id, 1, None))
    assert other.job.done == 0
    assert len(stage.stream_events) == before


def test_batch_1_time_travel_is_prepared_by_the_shell_before_its_result_is_noted() -> None:
    """A target that does not match any more is skipped before that."""
    stage = JobStage("a", "b")
    stage.unmatched.add("b")
    travel = e.Operation(e.JobKind.TIME_TRAVEL, b"travel")
    stage.do(create_job("a", "b", operation=travel))
    (reach,) = stage.travels
    assert (reach.flow_id, reach.position, reach.call) == ("a", 0, None)
    assert not stage.job.is_closed
    stage.do(jc.NoteTarget(stage.job.stream_id, 0, None))
    assert (counts(stage), stage.job.status) == ((2, 1, 1, 0), e.JobStatus.COMPLETED)


# ---- canceling --------------------------------------------------------------------------------------------------


def test_batch_1_a_canceled_job_applies_nothing_more() -> None:
    stage = JobStage(*MANY)
    stage.do(create_job(*MANY))
    assert stage.do(jc.CancelJob(JOB)).reply == JobAccepted(JOB)
    stage.pass_time(T0 + 10_000)
    assert counts(stage) == (12, 5, 0, 0)
    assert stage.job.status is e.JobStatus.CANCELED
    assert stage.kernel.next_deadline() is None
    events = len(stage.stream_events)
    stage.do(jc.CancelJob(JOB))
    assert len(stage.stream_events) == events


def test_batch_1_targets_that_had_their_turn_are_counted_when_a_job_is_canceled() -> None:
    """Also after a crash: what was applied is told as applied."""
    stage = JobStage(*MANY)
    stage.held = deque()
    stage.do(create_job(*MANY, operation=PUBLISH))
    stage.do(stage.held.popleft())
    stage.do(jc.CancelJob(JOB))
    stage.do(jc.CancelJob(JOB))
    assert not stage.job.is_closed
    stage.crash()
    assert (counts(stage), stage.job.status) == ((12, 5, 0, 0), e.JobStatus.CANCELED)
    assert [published(stage, flow_id) for flow_id in MANY] == [1] * 5 + [0] * 7


def test_batch_1_a_job_canceled_after_its_last_target_is_complete() -> None:
    stage = JobStage("a")
    held = stage.held = deque()
    stage.do(create_job("a"))
    stage.do(jc.CancelJob(JOB))
    while held:
        stage.do(held.popleft())
    assert stage.job.status is e.JobStatus.COMPLETED


def test_batch_1_there_is_no_such_job() -> None:
    stage = JobStage()
    assert stage.kernel.wanted(jc.CancelJob(JOB)) == StreamRef(StreamKind.JOB, JOB)
    refused = stage.do(jc.CancelJob(JOB)).reply
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.fields) == (Code.BATCH_NOT_FOUND, {"batch_id": JOB})


# ---- memory -----------------------------------------------------------------------------------------------------


def test_closed_jobs_leave_memory_one_by_one() -> None:
    stage = JobStage()
    for number in range(CLOSED_MAX + 1):
        job = jc.CreateJob(JobId(f"j{number}"), "", create_job().operation, 1.0, (), RequestId(f"r{number}"), b"d")
        stage.do(job)
    assert stage.kernel.jobs.get(JobId("j0")) is None
    assert len(list(stage.kernel.jobs)) == CLOSED_MAX
    stage.crash()
    assert len(list(stage.kernel.jobs)) == CLOSED_MAX


def test_a_job_begins_with_its_creation_and_only_once() -> None:
    created = create_job()
    event = e.JobCreated(JOB, "", created.operation, 1.0, 0, RequestRecord(RequestId("r"), b"d"))
    first = RecordedStreamEvent(StreamId(1), 1, T0, event)
    with pytest.raises(TypeError, match="begins with JobCreated, not JobCanceled"):
        evolve_job(None, RecordedStreamEvent(StreamId(1), 1, T0, e.JobCanceled()))
    with pytest.raises(TypeError, match="has begun already"):
        evolve_job(evolve_job(None, first), first)


# ---- invariants -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ({"applied": 9}, "targets are done"),
        ({"reasons": {"GONE": 1}}, "targets are done"),
        ({"matched": 3}, "of 3 targets"),
        ({"open_count": 0}, "0 targets have their turn, and the next ones do not"),
        ({"status": e.JobStatus.COMPLETED}, "is closed, and goes on"),
    ],
)
def test_a_job_that_stands_still_or_does_not_add_up_is_found(damage: dict[str, object], fault: str) -> None:
    stage = JobStage("a", "b")
    stage.held = deque()
    stage.do(create_job("a", "b", rate=1.0))
    for name, value in damage.items():
        setattr(stage.job, name, value)
    (found,) = job_violations(stage.kernel.jobs, stage.kernel.dispatcher.deadlines)
    assert found.startswith("job 'job-1': ")
    assert fault in found


def test_keep_1_a_closed_job_that_leaves_the_log_leaves_memory() -> None:
    """[KEEP-1] Its request may begin another one then; an open one stays."""
    stage = JobStage("a", "b")
    stage.do(create_job("a"))
    first = stage.job.stream_id
    stage.kernel.forget_stream(first)
    assert stage.kernel.jobs.get(JOB) is None
    stage.kernel.forget_stream(first)
    stage.do(create_job("a", "b", rate=1.0))
    stage.kernel.forget_stream(stage.job.stream_id)
    assert (stage.job.stream_id != first, stage.job.matched) == (True, 2)
