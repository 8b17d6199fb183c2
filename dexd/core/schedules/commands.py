"""What clients command about schedules; a part of `dexd.core.commands`."""

from typing import TypeAlias

import msgspec

from dexd.core.ids import RequestId, ScheduleId
from dexd.core.schedules.spec import ScheduleAction, SchedulePolicy, ScheduleSpec


class CreateSchedule(msgspec.Struct, frozen=True, gc=False):
    """Create a schedule. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    spec: ScheduleSpec
    action: ScheduleAction
    policy: SchedulePolicy
    request_id: RequestId
    digest: bytes
    is_paused: bool = False


class UpdateSchedule(msgspec.Struct, frozen=True, gc=False):
    """Replace parts of a schedule from now on [SCHED-15]; None leaves a part. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    spec: ScheduleSpec | None = None
    action: ScheduleAction | None = None
    policy: SchedulePolicy | None = None


class PauseSchedule(msgspec.Struct, frozen=True, gc=False):
    """Let nothing fire until it is resumed. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes
    note: str = ""


class ResumeSchedule(msgspec.Struct, frozen=True, gc=False):
    """Let it fire again. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes


class DeleteSchedule(msgspec.Struct, frozen=True, gc=False):
    """Remove a schedule and leave its executions alone. Reply: ScheduleAccepted."""

    schedule_id: ScheduleId
    request_id: RequestId
    digest: bytes


ScheduleCommand: TypeAlias = CreateSchedule | UpdateSchedule | PauseSchedule | ResumeSchedule | DeleteSchedule
