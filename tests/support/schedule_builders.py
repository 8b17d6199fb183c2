"""Valid-by-default facts and commands about schedules."""

from typing import Any

from dexd.core.ids import FlowId, RequestId, ScheduleId
from dexd.core.schedules import commands as sc
from dexd.core.schedules.events import ScheduleCreated
from dexd.core.schedules.spec import ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.values import RequestRecord, StepPlan

SCHEDULE = ScheduleId("nightly")

MINUTELY = ScheduleSpec(interval_ms=60_000)
ACTION = ScheduleAction("Report", StepPlan("Write", b"1", has_wait_for=False), b"digest")


def action(flow_id: str | None = None) -> ScheduleAction:
    """What fires start; a fixed Flow ID if one is given."""
    return ScheduleAction(
        ACTION.flow_type, ACTION.start_step, ACTION.digest, flow_id=None if flow_id is None else FlowId(flow_id)
    )


def schedule_created(schedule_id: str = SCHEDULE, *, is_paused: bool = False, **policy: Any) -> ScheduleCreated:
    """The first event of a schedule that fires every minute."""
    request = RequestRecord(RequestId("create"), b"d")
    return ScheduleCreated(
        ScheduleId(schedule_id), MINUTELY, ACTION, SchedulePolicy(**policy), request, is_paused=is_paused
    )


def create_schedule(schedule_id: str = SCHEDULE, *, request_id: str = "create", **changes: Any) -> sc.CreateSchedule:
    """Create one that fires every minute."""
    fields: dict[str, Any] = {
        "spec": MINUTELY,
        "action": ACTION,
        "policy": SchedulePolicy(),
        "digest": b"d",
        **changes,
    }
    return sc.CreateSchedule(ScheduleId(schedule_id), request_id=RequestId(request_id), **fields)
