"""What a frozen log shows of streams that are not runs': schedules and batch jobs."""

from typing import Any

from dexd.codec.batch_requests import BatchQuery, to_batch_query
from dexd.codec.schedule_requests import BackfillQuery
from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, JobId, RequestId, RunId, ScheduleId
from dexd.core.jobs.commands import CancelJob
from dexd.core.schedules import commands as sc
from dexd.core.schedules.spec import OverlapPolicy, ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.values import StepPlan, StopType
from dexpb.v1 import flow_service_pb2 as pb
from tests.histories.act import BEGIN, Act
from tests.histories.contents import large

MINUTE = 60_000
MINUTELY = ScheduleSpec(interval_ms=MINUTE)
ACTION = ScheduleAction("Order", None, b"digest", (("origin", b'"schedule"'),))
BUFFER_ONE = SchedulePolicy(OverlapPolicy.BUFFER_ONE)


class Schedule:
    """Commands about one schedule."""

    def __init__(self, act: Act, name: str) -> None:
        self._act = act
        self._count = 0
        self.schedule_id = ScheduleId(name)

    async def command(self, make: Any, **fields: Any) -> None:
        """Have it decided, with a request ID of its own."""
        self._count += 1
        request_id = RequestId(f"{self.schedule_id}-{self._count}")
        await self._act.rig.answer(make(self.schedule_id, request_id=request_id, digest=b"digest", **fields))
        await self._act.rig.decided()

    async def create(self, **fields: Any) -> None:
        """Begin."""
        parts = {"spec": MINUTELY, "action": ACTION, "policy": BUFFER_ONE, **fields}
        await self.command(sc.CreateSchedule, **parts)


async def schedules(act: Act) -> None:
    """Fires that start, wait, are skipped, missed and asked for by hand; a pause, an update, the end."""
    schedule = Schedule(act, "minutely")
    begun_at = act.rig.clock.at
    await schedule.create()
    await act.rig.advance(3 * MINUTE)
    first, second = (f"minutely@1970-01-01T00:{minute:02}:00.000Z" for minute in _minutes_after(begun_at, 2))
    await act.stop(first)
    await schedule.command(sc.TriggerSchedule)
    await schedule.command(sc.PauseSchedule, note="holidays")
    await act.rig.advance(3 * MINUTE)
    await schedule.command(sc.ResumeSchedule)
    await act.stop(second, StopType.FAIL)
    changed = SchedulePolicy(OverlapPolicy.ALLOW_ALL, catch_up_window_ms=10_000, pause_on_failure=True)
    await schedule.command(sc.UpdateSchedule, policy=changed, spec=ScheduleSpec("*/2 * * * *", jitter_ms=500))
    span = (begun_at - 5 * MINUTE, begun_at)
    request = RequestId("backfill")
    query = BackfillQuery(schedule.schedule_id, *span, OverlapPolicy.ALLOW_ALL, False, request, b"digest")
    await act.rig.read(act.rig.engine.schedule_reads.backfill, query)
    await act.rig.advance(4 * MINUTE)
    await schedule.command(sc.DeleteSchedule)
    large_ones = Schedule(act, "large")
    report = ScheduleAction("Order", StepPlan("Begin", large("report"), False), b"digest", (("form", large("form")),))
    await large_ones.create(action=report, is_paused=True)
    await large_ones.command(sc.UpdateSchedule, action=ScheduleAction("Order", None, b"digest", (("a", large("a")),)))
    fixed = Schedule(act, "fixed")
    await act.start("taken", None)
    action = ScheduleAction("Order", BEGIN, b"digest", flow_id=FlowId("taken"))
    await fixed.create(action=action, policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL))
    await act.rig.advance(MINUTE)
    await fixed.command(sc.DeleteSchedule)
    await _reopened(act)


async def _reopened(act: Act) -> None:
    """An execution that has ended and goes on by time travel."""
    daily = Schedule(act, "reopened")
    await daily.create(action=ScheduleAction("Order", None, b"digest", flow_id=FlowId("daily")))
    await daily.command(sc.TriggerSchedule)
    await act.stop("daily")
    point = Selector(TimeTravelType.BEGINNING)
    travel = TimeTravelQuery(
        FlowId("daily"), RunId("run-daily"), point, "not yet", False, RequestId("travel-daily"), b"digest"
    )
    await act.rig.read(act.rig.engine.time_travels.begin, travel)
    await act.rig.decided()
    await act.stop("daily", request="stop twice")
    await daily.command(sc.DeleteSchedule)


async def open_streams(act: Act) -> None:
    """Schedules that are active with one execution and one in the buffer, and paused; a job with targets to come."""
    active, paused = Schedule(act, "active"), Schedule(act, "paused")
    await active.create()
    await act.rig.advance(2 * MINUTE)
    await paused.create(is_paused=True, spec=ScheduleSpec("0 3 * * MON-FRI", time_zone="Europe/Zurich"))
    for number in range(4):
        await act.start(f"target-{number}", None)
    call = pb.PublishRequest(channel="news", values=[b"1", b"2"])
    await _create(act, "slow", "FlowId LIKE 'target-%' ORDER BY FlowId", rate=0.01, publish=call)
    await act.rig.decided()


async def jobs(act: Act) -> None:
    """A job of each operation with targets that are applied to, skipped and refused; one is canceled, one has none."""
    for number in range(3):
        await act.start(f"batch-{number}", None)
    await act.stop("batch-2")
    everybody = "FlowId LIKE 'batch-%' ORDER BY FlowId DESC"
    write = pb.SetAttributeRequest(key="note", value=b'"batch"')
    await _create(act, "write", everybody, set_attribute=write)
    publish = pb.PublishRequest(channel="news", values=[b"1", large("news")])
    await _create(act, "publish", everybody, rate=1.0, publish=publish)
    await act.rig.advance(1_000)
    running = "FlowId LIKE 'batch-%' AND Status = 'RUNNING' ORDER BY FlowId"
    await _create(act, "stop", running, rate=1.0, stop=pb.StopFlowRequest(reason="over"))
    await act.stop("batch-1")
    await act.rig.advance(5_000)
    await _create(act, "travel", everybody, time_travel=pb.TimeTravelRequest(reason="again"))
    await act.rig.decided()
    job_id = await _create(act, "canceled", everybody, rate=0.1, stop=pb.StopFlowRequest())
    await act.rig.read(act.rig.engine.batch_jobs.cancel, CancelJob(job_id))
    await _create(act, "nobody", "FlowId = 'nobody'", stop=pb.StopFlowRequest())


def _minutes_after(instant: int, count: int) -> list[int]:
    """The full minutes after an instant of the first hour."""
    first = instant // MINUTE + 1
    return [first + number for number in range(count)]


async def _create(act: Act, name: str, query: str, **fields: Any) -> JobId:
    request = pb.CreateBatchRequest(query=query, request_id=name, **fields)
    read = to_batch_query(request, RequestId("fresh"))
    assert isinstance(read, BatchQuery)
    await act.rig.read(act.rig.engine.batch_jobs.create, read)
    await act.rig.decided()
    return read.job_id
