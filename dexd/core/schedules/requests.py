"""Whether a client's request about a schedule may be decided at all: who exists, and what was asked before."""

from dexd.core.ids import RequestId, ScheduleId
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules.state import ScheduleState
from dexd.core.values import RequestRecord


def refuse_unknown(schedule_id: ScheduleId) -> Rejection:
    """[SCHED-1] There is no schedule of that ID, or none any more."""
    return Rejection(Code.SCHEDULE_NOT_FOUND, f"schedule {schedule_id!r} does not exist", {"schedule_id": schedule_id})


def refuse_existing(state: ScheduleState) -> Rejection:
    """[SCHED-1] A schedule of that ID exists."""
    return Rejection(
        Code.SCHEDULE_ALREADY_EXISTS,
        f"schedule {state.schedule_id!r} exists already; update it, or delete it first",
        {"schedule_id": state.schedule_id},
    )


def remembered(state: ScheduleState, request_id: RequestId, digest: bytes) -> RequestRecord | Rejection | None:
    """The record of an equal earlier request, a refusal if it had other content, None if it is new [GEN-8]."""
    found = state.requests.get(request_id)
    if found is None or found.digest == digest:
        return found
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {request_id!r} was used before on schedule {state.schedule_id!r} with other content",
        {"schedule_id": state.schedule_id, "request_id": request_id},
    )
