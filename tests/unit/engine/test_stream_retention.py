"""Deleted schedules and ended jobs leave memory and log when their retention is over [KEEP-1, KEEP-3]."""

from typing import Any

import pytest

from dexd.codec.batch_requests import BatchListQuery, BatchQuery, to_batch_query
from dexd.core.ids import RequestId, ScheduleId
from dexd.core.outcome import ScheduleAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.retention import RetentionConfig
from dexd.core.schedules import commands as sc
from dexd.core.streams import StreamKind
from dexd.engine import retention
from dexd.engine.projections import rebuild_projections
from dexd.engine.retention import Retention
from dexd.log.errors import LogFullError
from dexd.log.reading import InlinePages
from dexpb.v1 import flow_service_pb2 as pb
from dextools.log_verification import verify_log
from tests.support.schedule_builders import SCHEDULE, create_schedule
from tests.unit.engine.rig import Answers, Rig

KEPT_MS = 10_000


def keeper(rig: Rig, **config: int) -> Retention:
    made = Retention(
        rig.engine,
        InlinePages(rig.log),
        rig.clock,
        RetentionConfig(**{"retention_ms": KEPT_MS, **config}),
        call_later=rig.alarms.call_later,
    )
    made.start()
    return made


async def advance(rig: Rig, kept: Retention, milliseconds: int) -> None:
    for _ in range(milliseconds // 1_000):
        await rig.advance(1_000)
        await kept.settled()


def batch(request_id: str = "r") -> BatchQuery:
    request = pb.CreateBatchRequest(query="FlowId = 'nobody'", stop=pb.StopFlowRequest(), request_id=request_id)
    read = to_batch_query(request, RequestId("fresh"))
    assert isinstance(read, BatchQuery)
    return read


async def begin_job(rig: Rig, request_id: str = "r") -> Any:
    return await rig.read(rig.engine.batch_jobs.create, batch(request_id))


def delete(schedule_id: str = SCHEDULE) -> sc.DeleteSchedule:
    return sc.DeleteSchedule(ScheduleId(schedule_id), RequestId("delete"), b"d")


def streams(rig: Rig) -> list[int]:
    return [row.stream_id for kind in StreamKind for row in rig.log.list_streams(kind, 0, 100)]


async def test_keep_1_ended_jobs_and_deleted_schedules_go_and_open_ones_stay() -> None:
    """[KEEP-1] From memory and from the log, counted from their end; the report is readable until then."""
    rig = Rig()
    kept = keeper(rig)
    await begin_job(rig)
    await rig.answer(create_schedule(is_paused=True))
    await rig.answer(create_schedule("open", is_paused=True))
    await advance(rig, kept, 5_000)
    await rig.answer(delete())
    await advance(rig, kept, 4_000)
    assert (await rig.read(rig.engine.batch_jobs.describe, batch().job_id)).status == "COMPLETED"
    assert streams(rig) == [3, 2, 1]
    await advance(rig, kept, 2_000)
    described = await rig.read(rig.engine.batch_jobs.describe, batch().job_id)
    assert (isinstance(described, Rejection), described.code) == (True, Code.BATCH_NOT_FOUND)
    assert streams(rig) == [3, 2]
    await advance(rig, kept, 5_000)
    assert streams(rig) == [3]
    assert kept.status.removed_streams == 2
    assert [state.schedule_id for state in rig.engine.kernel.schedules] == ["open"]
    assert verify_log(rig.log, lambda _: None).faults == []
    while rig.log.remove_some(1):
        assert verify_log(rig.log, lambda _: None).faults == []
    assert (rig.log.last_stream_id, rig.log.removed_events) == (3, rig.log.last_seq - 1)
    assert rebuild_projections(rig.log, lambda _: None).streams == 1


async def test_keep_1_the_request_of_a_removed_job_may_begin_another() -> None:
    """[KEEP-1, GEN-8] Numbers never go back, also after a restart."""
    rig = Rig()
    kept = keeper(rig)
    first = await begin_job(rig)
    await advance(rig, kept, 12_000)
    rig.log.remove_some(100)
    assert rig.log.last_stream_id == 1
    again = await begin_job(rig)
    assert again.job_id == first.job_id
    assert streams(rig) == [2]
    restarted = Rig(rig.log)
    await restarted.start("f")
    assert restarted.log.last_stream_id == 3


async def test_keep_1_many_go_in_one_sweep_in_small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS_AT_ONCE", 2)
    rig = Rig()
    kept = keeper(rig)
    for number in range(5):
        await begin_job(rig, f"r{number}")
    await advance(rig, kept, 9_000)
    before = len(rig.points)
    await advance(rig, kept, 3_000)
    assert streams(rig) == []
    assert kept.status.removed_streams == 5
    assert len(rig.points) - before == 3 * 3, "three commits with three failpoints each"


async def test_keep_1_zero_keeps_them_for_ever() -> None:
    rig = Rig()
    kept = keeper(rig, retention_ms=0)
    await begin_job(rig)
    await advance(rig, kept, 120_000)
    assert streams(rig) == [1]


async def test_keep_3_a_stream_is_gone_for_everybody_from_the_decision_on() -> None:
    """[KEEP-3, ARCH-3] Although the log has it until the commit; a list that has its row already leaves it out."""
    rig = Rig()
    await begin_job(rig)
    await rig.answer(create_schedule(is_paused=True))
    await rig.answer(delete())
    rows = [*rig.log.list_streams(StreamKind.JOB, 0, 9), *rig.log.list_streams(StreamKind.SCHEDULE, 0, 9)]
    await begin_job(rig, "other")
    rig.writer.is_automatic = False
    removed, described, listed, repeated, begun = (Answers() for _ in range(5))
    rig.engine.batch_jobs.list(BatchListQuery(10, 0), listed)
    rig.engine.remove_runs([], removed, streams=rows)
    rig.engine.batch_jobs.describe(batch().job_id, described)
    rig.engine.request(delete(), repeated)
    rig.engine.batch_jobs.create(batch(), begun)
    await rig.decided()
    assert [answers.all for answers in (removed, described, repeated)] == [[]] * 3
    while rig.writer.submitted:
        rig.writer.commit()
        await rig.decided()
    assert removed.only == []
    assert described.only.code is Code.BATCH_NOT_FOUND
    assert repeated.only.code is Code.SCHEDULE_NOT_FOUND
    assert begun.only.matched == 0
    assert [view.job_id for view in listed.only.batches] == [batch("other").job_id]
    assert len(streams(rig)) == 2


async def test_keep_1_a_refused_commit_takes_nothing_away() -> None:
    """[KEEP-1, ARCH-4] They are back for everybody, and go when the log can be written again."""
    rig = Rig()
    kept = keeper(rig)
    await begin_job(rig)
    rig.writer.refusal = LogFullError("full")
    await advance(rig, kept, 12_000)
    assert streams(rig) == [1]
    assert (await rig.read(rig.engine.batch_jobs.describe, batch().job_id)).status == "COMPLETED"
    rig.writer.refusal = None
    await advance(rig, kept, 4_000)
    assert streams(rig) == []


async def test_sched_1_the_id_of_a_removed_schedule_is_free() -> None:
    rig = Rig()
    kept = keeper(rig)
    await rig.answer(create_schedule(is_paused=True))
    await rig.answer(delete())
    await advance(rig, kept, 12_000)
    assert await rig.answer(create_schedule(is_paused=True)) == ScheduleAccepted()
    assert streams(rig) == [2]
