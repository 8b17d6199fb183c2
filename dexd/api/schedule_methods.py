"""The methods of ScheduleService, as rows of the same table as those of FlowService.

Here a spec is held to calendars and zones: what never fires, or nobody could read, is refused before it is a command
[SCHED-3, SCHED-4, SCHED-9].
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import Message

from dexd.codec import schedule_requests as requests
from dexd.codec import schedule_views as views
from dexd.codec.request_checks import invalid
from dexd.core.ids import RequestId
from dexd.core.rejections import Rejection
from dexd.core.schedules.commands import CreateSchedule, UpdateSchedule
from dexd.core.schedules.spec import ScheduleSpec
from dexd.core.values import StepPlan
from dexd.engine.engine import Engine
from dexd.engine.ports import Abandon, Clock, OnAnswer
from dexd.schedules.check import spec_fault
from dexpb.v1 import schedule_service_pb2 as pb

SERVICE_NAME: Final = "dexpb.v1.ScheduleService"

# The three columns of a row fit each other; the table is heterogeneous, so their types meet only in its tests.
Read: TypeAlias = Callable[[Any], Any]
"""Request message to command or query, or the refusal."""
Ask: TypeAlias = Callable[[Any, OnAnswer[Any]], Abandon | None]
"""Submits it; gives what withdraws the call, or None."""
Write: TypeAlias = Callable[[Any], Message]
"""Answer to reply message."""


class Method(NamedTuple):
    """One row: a unary method."""

    request_type: type[Message]
    read: Read
    ask: Ask
    write: Write


def schedule_methods(
    engine: Engine, start_steps: Mapping[str, StepPlan | None], clock: Clock, mint: Callable[[], RequestId]
) -> dict[str, Method]:
    """Every method of ScheduleService by name.

    Args:
        engine: Whom to ask.
        start_steps: How the Flow types of connected workers begin.
        clock: Server time, from which the search for a first fire begins.
        mint: Makes a request ID for a caller that gave none.
    """
    reads, request = engine.schedule_reads, engine.request

    def with_id(read: Callable[[Any, RequestId], Any]) -> Read:
        return lambda message: read(message, mint())

    def with_action(read: Callable[[Any, RequestId, Any], Any]) -> Read:
        return lambda message: _checked(read(message, mint(), start_steps), clock)

    def preview(message: pb.PreviewScheduleRequest) -> requests.PreviewQuery | Rejection:
        query = requests.to_preview(message)
        if isinstance(query, Rejection) or query.schedule_id is not None:
            return query
        return _refuse_spec(query.spec, clock, may_be_empty=True) or query

    changed = views.from_schedule_accepted
    return {
        "CreateSchedule": Method(pb.CreateScheduleRequest, with_action(requests.to_create_schedule), request, changed),
        "UpdateSchedule": Method(pb.UpdateScheduleRequest, with_action(requests.to_update_schedule), request, changed),
        "PauseSchedule": Method(pb.PauseScheduleRequest, with_id(requests.to_pause_schedule), request, changed),
        "ResumeSchedule": Method(pb.ResumeScheduleRequest, with_id(requests.to_resume_schedule), request, changed),
        "DeleteSchedule": Method(pb.DeleteScheduleRequest, with_id(requests.to_delete_schedule), request, changed),
        "TriggerSchedule": Method(
            pb.TriggerScheduleRequest, with_id(requests.to_trigger_schedule), request, views.from_occurrence
        ),
        "BackfillSchedule": Method(
            pb.BackfillScheduleRequest, with_id(requests.to_backfill), reads.backfill, views.from_backfill
        ),
        "DescribeSchedule": Method(pb.DescribeScheduleRequest, requests.to_schedule_query, reads.describe, _itself),
        "ListSchedules": Method(
            pb.ListSchedulesRequest, requests.to_schedule_list, reads.list_schedules, views.from_schedule_list
        ),
        "PreviewSchedule": Method(pb.PreviewScheduleRequest, preview, reads.preview, views.from_preview),
        "ListScheduleOutcomes": Method(
            pb.ListScheduleOutcomesRequest, requests.to_outcomes_query, reads.outcomes, views.from_outcomes
        ),
    }


def _checked(command: CreateSchedule | UpdateSchedule | Rejection, clock: Clock) -> Any:
    if isinstance(command, Rejection) or command.spec is None:
        return command
    return _refuse_spec(command.spec, clock) or command


def _refuse_spec(spec: ScheduleSpec, clock: Clock, *, may_be_empty: bool = False) -> Rejection | None:
    fault = spec_fault(spec, now=clock.now(), may_be_empty=may_be_empty)
    return invalid("spec", fault) if fault else None


def _itself(message: Message) -> Message:
    return message
