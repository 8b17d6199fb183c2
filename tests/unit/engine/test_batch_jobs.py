"""Batch jobs between search, log and kernel: found, begun once, shown from memory or log, going on after a restart."""

from typing import Any

import pytest

from dexd.codec.batch_requests import BatchListQuery, BatchQuery, BatchView, DryRun, to_batch_query
from dexd.core.ids import FlowId, JobId, RequestId
from dexd.core.jobs.commands import CancelJob
from dexd.core.rejections import Code, Rejection
from dexd.engine import batch_jobs
from dexd.engine.parking_lot import Bounds
from dexd.engine.projections import rebuild_projections
from dexd.log.memory_log import MemoryLog
from dexpb.v1 import flow_service_pb2 as pb
from dextools.log_verification import verify_log
from tests.unit.engine.rig import Rig, publish_command, stop_command

QUERY = "Status = 'RUNNING' ORDER BY FlowId"


def batch(request_id: str = "r", query: str = QUERY, **fields: Any) -> BatchQuery:
    request = pb.CreateBatchRequest(query=query, stop=pb.StopFlowRequest(), request_id=request_id, **fields)
    read = to_batch_query(request, RequestId("fresh"))
    assert isinstance(read, BatchQuery)
    return read


async def with_flows(*flow_ids: str, log: MemoryLog | None = None) -> Rig:
    rig = Rig(log)
    for flow_id in flow_ids:
        await rig.start(flow_id)
    return rig


async def create(rig: Rig, query: BatchQuery) -> Any:
    return await rig.read(rig.engine.batch_jobs.create, query)


async def describe(rig: Rig, query: BatchQuery) -> BatchView:
    view = await rig.read(rig.engine.batch_jobs.describe, query.job_id)
    assert isinstance(view, BatchView)
    return view


async def test_batch_1_a_job_is_begun_and_goes_on_by_itself() -> None:
    rig = await with_flows("a", "b", "c")
    begun = await create(rig, batch(rate=1.0))
    assert (begun.status, begun.matched) == ("RUNNING", 3)
    await rig.advance(5_000)
    view = await describe(rig, batch())
    assert (view.status, view.applied) == ("COMPLETED", 3)
    assert verify_log(rig.log, lambda _: None).faults == []


async def test_batch_2_a_dry_run_writes_nothing() -> None:
    rig = await with_flows("a", "b")
    before = rig.log.last_seq
    dry = await create(rig, batch(dry_run=True))
    assert isinstance(dry, DryRun)
    assert (dry.matched, dry.sample) == (2, (FlowId("a"), FlowId("b")))
    await rig.decided()
    assert rig.log.last_seq == before


async def test_batch_2_a_query_that_cannot_be_read_begins_nothing() -> None:
    rig = await with_flows("a")
    refused = await create(rig, batch(query="Status = "))
    assert isinstance(refused, Rejection)
    assert refused.code is Code.INVALID_QUERY


async def test_batch_3_a_repeat_of_the_request_finds_the_job_whatever_the_query_finds_now() -> None:
    rig = await with_flows("a", "b")
    await create(rig, batch(rate=1.0))
    await rig.start("c")
    again = await create(rig, batch(rate=1.0))
    assert (again.job_id, again.matched) == (batch().job_id, 2)
    conflict = await create(rig, batch(rate=2.0))
    assert isinstance(conflict, Rejection)
    assert conflict.code is Code.REQUEST_CONFLICT


async def test_too_many_targets_are_refused_with_size_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LIM-3, ARCH-8]"""
    monkeypatch.setattr(batch_jobs, "TARGETS_MAX", 1)
    rig = await with_flows("a", "b")
    refused = await create(rig, batch())
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.fields["size"], refused.fields["limit"]) == (Code.VALUE_TOO_LARGE, "2", "1")
    assert (await create(rig, batch(dry_run=True))).matched == 2


async def test_batch_1_jobs_are_shown_from_the_log_after_a_restart() -> None:
    """Open ones go on; closed ones are read when somebody asks."""
    log = MemoryLog()
    rig = await with_flows("a", "b", log=log)
    await create(rig, batch("first", query="FlowId = 'nobody'"))
    await create(rig, batch("second", rate=1.0))
    await rig.decided()
    restarted = Rig(log)
    restarted.clock.at = rig.clock.at
    first = await describe(restarted, batch("first"))
    assert (first.status, first.matched) == ("COMPLETED", 0)
    assert restarted.engine.kernel.jobs.get(first.job_id) is None
    await restarted.decided()
    second = await describe(restarted, batch("second"))
    assert (second.status, second.applied) == ("COMPLETED", 2)
    page = await restarted.read(restarted.engine.batch_jobs.list, BatchListQuery(1, 0))
    assert [view.job_id for view in page.batches] == [second.job_id]
    rest = await restarted.read(restarted.engine.batch_jobs.list, BatchListQuery(1, page.next_before))
    assert ([view.job_id for view in rest.batches], rest.next_before) == ([first.job_id], 0)
    again = await create(restarted, batch("first", query="FlowId = 'nobody'"))
    assert again.job_id == first.job_id


async def test_batch_1_a_job_is_canceled_once() -> None:
    rig = await with_flows("a", "b", "c")
    begun = await create(rig, batch(rate=1.0))
    canceled = await rig.read(rig.engine.batch_jobs.cancel, CancelJob(begun.job_id))
    assert (canceled.status, canceled.applied) == ("CANCELED", 1)
    missing = await rig.read(rig.engine.batch_jobs.cancel, CancelJob(JobId("nobody")))
    assert isinstance(missing, Rejection)
    assert missing.code is Code.BATCH_NOT_FOUND


async def test_batch_3_a_flow_is_looked_at_again_in_the_turn_that_applies() -> None:
    """Whatever was decided before counts, committed or not."""
    rig = await with_flows("a", "b")
    await create(rig, batch(rate=1.0))
    await rig.answer(publish_command("b", b"1"))
    await rig.answer(stop_command("b"))
    await rig.advance(5_000)
    view = await describe(rig, batch())
    assert (view.applied, view.skipped, view.reasons) == (1, 1, {"NO_MATCH": 1})


async def test_batch_1_a_parked_flow_is_a_target_like_any_other() -> None:
    """[ARCH-11] Nothing of it is in memory when it has its turn, at a rate at which it is alone in its turn."""
    rig = Rig(memory=Bounds(runs_max=0))
    for flow_id in ("a", "b"):
        await rig.start(flow_id, start_step=None)
    await rig.decided()
    assert rig.engine.health.parked_runs == 2
    await create(rig, batch(rate=1.0))
    await rig.decided()
    await rig.advance(5_000)
    view = await describe(rig, batch())
    assert (view.applied, view.reasons) == (2, {})
    assert verify_log(rig.log, lambda _: None).faults == []


async def test_projections_of_jobs_are_made_anew_from_their_events() -> None:
    """[ARCH-10]"""
    log = MemoryLog()
    rig = await with_flows("a", log=log)
    begun = await create(rig, batch())
    rows = log.list_streams("job", 0, 10)
    rebuild_projections(log, lambda _: None)
    assert log.list_streams("job", 0, 10) == rows
    assert [row.name for row in rows] == [begun.job_id]
