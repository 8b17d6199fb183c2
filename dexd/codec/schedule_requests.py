"""ScheduleService requests as commands and queries, or as the refusal that names the field and what is allowed.

Whether a spec makes sense in time is not seen here: calendars are `dexd.schedules`'.
"""

import base64
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

import msgspec
from google.protobuf.message import Message

from dexd.codec.content_digest import content_digest
from dexd.codec.faults import duration_fault, owned_name_fault
from dexd.codec.flow_requests import Minted, to_start_flow
from dexd.codec.request_checks import invalid, refuse_fault, refuse_outside, refuse_request_id
from dexd.core.commands import StartFlow
from dexd.core.ids import RequestId, RunId, ScheduleId
from dexd.core.rejections import Rejection
from dexd.core.schedules import commands as sc
from dexd.core.schedules.occurrences import SCHEDULE_ID_LENGTH_MAX
from dexd.core.schedules.spec import (
    FoldPolicy,
    GapPolicy,
    OverlapPolicy,
    ScheduleAction,
    SchedulePolicy,
    ScheduleSpec,
)
from dexd.core.values import StepPlan
from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import schedule_service_pb2 as pb

NOTE_LENGTH_MAX = 1_000
PAGE_MAX = 1_000
PAGE_DEFAULT = 100
PREVIEW_DEFAULT = 10
INSTANT_MS_MAX = 253_000_000_000_000
"""An instant in the year 9987; nothing later can be shown as text."""

StartSteps = Mapping[str, StepPlan | None]
Kind = TypeVar("Kind", bound=IntEnum)


class ScheduleQuery(msgspec.Struct, frozen=True):
    """Asks about one schedule."""

    schedule_id: ScheduleId


class ScheduleListQuery(msgspec.Struct, frozen=True):
    """Asks for a page of schedules, by ID."""

    after: str
    limit: int


class OutcomesQuery(msgspec.Struct, frozen=True):
    """Asks for a page of outcomes."""

    schedule_id: ScheduleId
    from_version: int
    """First event of the schedule to look at."""
    limit: int


class PreviewQuery(msgspec.Struct, frozen=True):
    """Asks for the next fires of a schedule, or of a spec."""

    schedule_id: ScheduleId | None
    spec: ScheduleSpec
    count: int


class BackfillQuery(msgspec.Struct, frozen=True):
    """Asks to handle the fires of a span; which of them is found out before it is a command."""

    schedule_id: ScheduleId
    start_at: int
    end_at: int
    overlap: OverlapPolicy | None
    is_dry_run: bool
    request_id: RequestId
    digest: bytes


def to_create_schedule(
    request: pb.CreateScheduleRequest, minted: RequestId, start_steps: StartSteps
) -> sc.CreateSchedule | Rejection:
    """Read a creation."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    if refusal is not None:
        return refusal
    spec, policy = _spec(request.spec), _policy(request.policy)
    action = _action(request.action, start_steps)
    for part in (spec, policy, action):
        if isinstance(part, Rejection):
            return part
    return sc.CreateSchedule(
        ScheduleId(request.schedule_id),
        spec,  # type: ignore[arg-type]  # none is a Rejection
        action,  # type: ignore[arg-type]
        policy,  # type: ignore[arg-type]
        RequestId(request.request_id or minted),
        _digest("create", request),
        request.paused,
    )


def to_update_schedule(
    request: pb.UpdateScheduleRequest, minted: RequestId, start_steps: StartSteps
) -> sc.UpdateSchedule | Rejection:
    """Read an update of at least one part."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    if refusal is not None:
        return refusal
    spec = _spec(request.spec) if request.HasField("spec") else None
    policy = _policy(request.policy) if request.HasField("policy") else None
    action = _action(request.action, start_steps) if request.HasField("action") else None
    for part in (spec, policy, action):
        if isinstance(part, Rejection):
            return part
    if spec is None and policy is None and action is None:
        return invalid("spec", "an update needs a spec, an action or a policy")
    return sc.UpdateSchedule(
        ScheduleId(request.schedule_id),
        RequestId(request.request_id or minted),
        _digest("update", request),
        spec,  # type: ignore[arg-type]  # none is a Rejection
        action,  # type: ignore[arg-type]
        policy,  # type: ignore[arg-type]
    )


def to_pause_schedule(request: pb.PauseScheduleRequest, minted: RequestId) -> sc.PauseSchedule | Rejection:
    """Read a pause."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    if refusal is None and len(request.note) > NOTE_LENGTH_MAX:
        refusal = invalid("note", f"note has {len(request.note)} characters, at most {NOTE_LENGTH_MAX} are allowed")
    if refusal is not None:
        return refusal
    return sc.PauseSchedule(
        ScheduleId(request.schedule_id),
        RequestId(request.request_id or minted),
        _digest("pause", request),
        request.note,
    )


def to_resume_schedule(request: pb.ResumeScheduleRequest, minted: RequestId) -> sc.ResumeSchedule | Rejection:
    """Read the end of a pause."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    if refusal is not None:
        return refusal
    digest = _digest("resume", request)
    return sc.ResumeSchedule(ScheduleId(request.schedule_id), RequestId(request.request_id or minted), digest)


def to_delete_schedule(request: pb.DeleteScheduleRequest, minted: RequestId) -> sc.DeleteSchedule | Rejection:
    """Read a deletion."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    if refusal is not None:
        return refusal
    digest = _digest("delete", request)
    return sc.DeleteSchedule(ScheduleId(request.schedule_id), RequestId(request.request_id or minted), digest)


def to_trigger_schedule(request: pb.TriggerScheduleRequest, minted: RequestId) -> sc.TriggerSchedule | Rejection:
    """Read a wish for one occurrence [SCHED-16]."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    overlap = _overlap(request)
    if refusal is not None:
        return refusal
    if isinstance(overlap, Rejection):
        return overlap
    return sc.TriggerSchedule(
        ScheduleId(request.schedule_id), RequestId(request.request_id or minted), _digest("trigger", request), overlap
    )


def to_backfill(request: pb.BackfillScheduleRequest, minted: RequestId) -> BackfillQuery | Rejection:
    """Read which span of the past is to be handled [SCHED-16]."""
    refusal = _refuse_target(request.schedule_id, request.request_id)
    overlap = _overlap(request)
    if refusal is not None:
        return refusal
    if isinstance(overlap, Rejection):
        return overlap
    outside = refuse_outside(request.start_at, "start_at", 0, INSTANT_MS_MAX) or refuse_outside(
        request.end_at, "end_at", request.start_at, INSTANT_MS_MAX
    )
    if outside is not None:
        return outside
    return BackfillQuery(
        ScheduleId(request.schedule_id),
        request.start_at,
        request.end_at,
        overlap,
        request.dry_run,
        RequestId(request.request_id or minted),
        _digest("backfill", request),
    )


def to_schedule_query(request: pb.DescribeScheduleRequest) -> ScheduleQuery | Rejection:
    """Read a question about one schedule."""
    return _refuse_id(request.schedule_id) or ScheduleQuery(ScheduleId(request.schedule_id))


def to_schedule_list(request: pb.ListSchedulesRequest) -> ScheduleListQuery | Rejection:
    """Read a question for a page; the token is the last ID of the page before."""
    refusal = refuse_outside(request.page_size, "page_size", 0, PAGE_MAX)
    if refusal is not None:
        return refusal
    after = _token_text(request.page_token, "list")
    if after is None:
        return invalid("page_token", "page_token is not one of a list of schedules")
    return ScheduleListQuery(after, request.page_size or PAGE_DEFAULT)


def to_outcomes_query(request: pb.ListScheduleOutcomesRequest) -> OutcomesQuery | Rejection:
    """Read a question for outcomes."""
    refusal = _refuse_id(request.schedule_id) or refuse_outside(request.page_size, "page_size", 0, PAGE_MAX)
    if refusal is not None:
        return refusal
    position = _token_text(request.page_token, f"outcomes {request.schedule_id}")
    if position is None:
        return invalid("page_token", "page_token is not one of the outcomes of this schedule")
    return OutcomesQuery(
        ScheduleId(request.schedule_id), int(position) if position else 1, request.page_size or PAGE_DEFAULT
    )


def to_preview(request: pb.PreviewScheduleRequest) -> PreviewQuery | Rejection:
    """Read a question for the next fires."""
    refusal = refuse_outside(request.count, "count", 0, PAGE_MAX)
    if refusal is None and request.schedule_id:
        refusal = _refuse_id(request.schedule_id)
    if refusal is not None:
        return refusal
    count = request.count or PREVIEW_DEFAULT
    if request.schedule_id:
        return PreviewQuery(ScheduleId(request.schedule_id), ScheduleSpec(), count)
    spec = _spec(request.spec)
    return spec if isinstance(spec, Rejection) else PreviewQuery(None, spec, count)


def page_token(content: str, what: str) -> str:
    """Make the token of a following page, bound to what it is a page of."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((content, _bound(what)))).decode()


def _token_text(token: str, what: str) -> str | None:
    """The content of a token, empty for none at all; None if it is foreign."""
    if not token:
        return ""
    try:
        content = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        text, bound = msgspec.msgpack.decode(content, type=tuple[str, bytes])
    except (ValueError, msgspec.DecodeError):
        return None
    return text if bound == _bound(what) else None


def _bound(what: str) -> bytes:
    return content_digest("page", what)[:8]


def _digest(verb: str, request: Message) -> bytes:
    """Hash what is asked, whoever asks: the request without its own ID."""
    copied = type(request)()
    copied.CopyFrom(request)
    copied.ClearField("request_id")
    return content_digest(verb, copied.SerializeToString(deterministic=True))


def _refuse_id(schedule_id: str) -> Rejection | None:
    """Refuse a schedule ID that cannot be one [SCHED-1]."""
    fault = owned_name_fault(schedule_id, "schedule_id")
    if fault is None and len(schedule_id) > SCHEDULE_ID_LENGTH_MAX:
        fault = f"schedule_id has {len(schedule_id)} characters, allowed are 1 to {SCHEDULE_ID_LENGTH_MAX}"
    return refuse_fault(fault, "schedule_id")


def _refuse_target(schedule_id: str, request_id: str) -> Rejection | None:
    return _refuse_id(schedule_id) or refuse_request_id(request_id)


def _spec(spec: pb.ScheduleSpec) -> ScheduleSpec | Rejection:
    refusal = None
    start_at = spec.start_at if spec.HasField("start_at") else None
    end_at = spec.end_at if spec.HasField("end_at") else None
    for field, instant in (("start_at", start_at), ("end_at", end_at)):
        if instant is not None:
            refusal = refusal or refuse_outside(instant, field, 0, INSTANT_MS_MAX)
    gap, fold = _member(GapPolicy, spec.gap_policy, "gap_policy"), _member(FoldPolicy, spec.fold_policy, "fold_policy")
    if refusal is not None:
        return refusal
    if isinstance(gap, Rejection):
        return gap
    if isinstance(fold, Rejection):
        return fold
    return ScheduleSpec(spec.cron, spec.interval_ms, spec.time_zone, start_at, end_at, spec.jitter_ms, gap, fold)


def _policy(policy: pb.SchedulePolicy) -> SchedulePolicy | Rejection:
    overlap = _member(OverlapPolicy, policy.overlap, "overlap")
    if isinstance(overlap, Rejection):
        return overlap
    if not policy.HasField("catch_up_window_ms"):
        return SchedulePolicy(overlap, pause_on_failure=policy.pause_on_failure)
    window_ms = policy.catch_up_window_ms
    refusal = refuse_fault(duration_fault(window_ms, "catch_up_window"), "catch_up_window")
    return refusal or SchedulePolicy(overlap, window_ms, policy.pause_on_failure)


def _action(action: pb.ScheduleAction, start_steps: StartSteps) -> ScheduleAction | Rejection:
    """Read what fires start; it is checked as a start of its own [SCHED-2]."""
    start = flow_pb.StartFlowRequest()
    start.CopyFrom(action.start)
    if start.request_id or start.id_reuse_policy:
        return invalid("action", "the start of a schedule has neither request_id nor id_reuse_policy")
    start.flow_id = start.flow_id or "occurrence"
    command = to_start_flow(start, _UNUSED, start_steps)
    if isinstance(command, Rejection):
        return command
    return _action_of(command, has_flow_id=bool(action.start.flow_id))


def _action_of(command: StartFlow, *, has_flow_id: bool) -> ScheduleAction:
    return ScheduleAction(
        command.flow_type,
        command.start_step,
        command.digest,
        command.attributes,
        command.standing,
        command.terms,
        command.flow_id if has_flow_id else None,
        command.indexed,
    )


def _overlap(request: pb.TriggerScheduleRequest | pb.BackfillScheduleRequest) -> OverlapPolicy | Rejection | None:
    return _member(OverlapPolicy, request.overlap, "overlap") if request.HasField("overlap") else None


def _member(kind: type[Kind], number: int, field: str) -> Kind | Rejection:
    try:
        return kind(number)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name})" for member in kind)
        return invalid(field, f"{field} is {number}, allowed are {allowed}")


_UNUSED = Minted(RunId("-"), 0, RequestId("-"))
"""A schedule's starts have IDs of their own."""
