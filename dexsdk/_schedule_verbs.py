"""The verbs of schedules as conversations; see `_verbs`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import schedule_service_pb2 as pb
from dexpb.v1.blobs import is_reference, read_reference
from dexsdk._conversation import Conversation, Request, ask
from dexsdk._durations import from_instant_ms, optional_duration_ms, to_duration_ms, to_instant_ms
from dexsdk._large_requests import ask_carrying, load
from dexsdk._names import check_name
from dexsdk._registry import Registry
from dexsdk._searches import to_index_writes
from dexsdk._start_options import initial_index_writes, to_start_options
from dexsdk._start_requests import StartHeads, encode_initial_attributes, to_standing
from dexsdk.options import StartFlowOptions
from dexsdk.schedules import (
    FoldPolicy,
    GapPolicy,
    Instants,
    OverlapPolicy,
    ScheduleAction,
    ScheduledExecution,
    ScheduleInfo,
    ScheduleOutcome,
    ScheduleOutcomeKind,
    ScheduleOutcomePage,
    SchedulePage,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleStatus,
)

_GAPS, _FOLDS, _OVERLAPS = tuple(GapPolicy), tuple(FoldPolicy), tuple(OverlapPolicy)
"""In the order of their numbers on the wire."""
_START_DEFAULTS = StartFlowOptions()


class ScheduleVerbs:
    """The verbs over one registry."""

    def __init__(self, registry: Registry, heads: StartHeads, draw_id: Callable[[str | None], str]) -> None:
        """`draw_id` gives the caller's request ID, or a new one."""
        self._registry = registry
        self._heads = heads
        self._draw_id = draw_id

    def create(
        self,
        schedule_id: str,
        spec: ScheduleSpec,
        action: ScheduleAction[Any],
        policy: SchedulePolicy | None,
        *,
        paused: bool,
        request_id: str | None,
    ) -> Conversation[None]:
        """See Schedules.create."""
        message = pb.CreateScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"),
            spec=_to_spec(spec),
            action=self._to_action(action),
            policy=_to_policy(policy or SchedulePolicy()),
            paused=paused,
            request_id=self._draw_id(request_id),
        )
        return ask_carrying(
            message.action.start,
            lambda _: Request("schedules.create", "CreateSchedule", message.SerializeToString(), _nothing),
        )

    def update(
        self,
        schedule_id: str,
        spec: ScheduleSpec | None,
        action: ScheduleAction[Any] | None,
        policy: SchedulePolicy | None,
    ) -> Conversation[None]:
        """See Schedules.update."""
        message = pb.UpdateScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"),
            spec=None if spec is None else _to_spec(spec),
            action=None if action is None else self._to_action(action),
            policy=None if policy is None else _to_policy(policy),
            request_id=self._draw_id(None),
        )
        return ask_carrying(
            # Without an action it is empty, and stays out of the message.
            message.action.start,
            lambda _: Request("schedules.update", "UpdateSchedule", message.SerializeToString(), _nothing),
        )

    def pause(self, schedule_id: str, note: str) -> Conversation[None]:
        """See Schedules.pause."""
        message = pb.PauseScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"), note=note, request_id=self._draw_id(None)
        )
        return ask(Request("schedules.pause", "PauseSchedule", message.SerializeToString(), _nothing))

    def resume(self, schedule_id: str) -> Conversation[None]:
        """See Schedules.resume."""
        message = pb.ResumeScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"), request_id=self._draw_id(None)
        )
        return ask(Request("schedules.resume", "ResumeSchedule", message.SerializeToString(), _nothing))

    def delete(self, schedule_id: str) -> Conversation[None]:
        """See Schedules.delete."""
        message = pb.DeleteScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"), request_id=self._draw_id(None)
        )
        return ask(Request("schedules.delete", "DeleteSchedule", message.SerializeToString(), _nothing))

    def describe(self, schedule_id: str) -> Conversation[ScheduleInfo]:
        """See Schedules.describe."""
        message = pb.DescribeScheduleRequest(schedule_id=check_name(schedule_id, "schedule ID"))
        body = message.SerializeToString()
        return _loaded(Request("schedules.describe", "DescribeSchedule", body, pb.ScheduleInfo.FromString))

    def list_schedules(self, page_size: int, token: str) -> Conversation[SchedulePage]:
        """See Schedules.list."""
        message = pb.ListSchedulesRequest(page_size=page_size, page_token=token)
        return ask(Request("schedules.list", "ListSchedules", message.SerializeToString(), _read_page))

    def trigger_now(self, schedule_id: str, overlap: OverlapPolicy | None) -> Conversation[str]:
        """See Schedules.trigger_now."""
        message = pb.TriggerScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"),
            overlap=_number(overlap),
            request_id=self._draw_id(None),
        )
        return ask(Request("schedules.trigger_now", "TriggerSchedule", message.SerializeToString(), _read_occurrence))

    def preview(self, spec_or_id: ScheduleSpec | str, count: int) -> Conversation[Instants]:
        """See Schedules.preview."""
        message = pb.PreviewScheduleRequest(count=count)
        if isinstance(spec_or_id, str):
            message.schedule_id = check_name(spec_or_id, "schedule ID")
        else:
            message.spec.CopyFrom(_to_spec(spec_or_id))
        return ask(Request("schedules.preview", "PreviewSchedule", message.SerializeToString(), _read_preview))

    def backfill(
        self, schedule_id: str, start: datetime, end: datetime, overlap: OverlapPolicy | None, *, dry_run: bool
    ) -> Conversation[Instants]:
        """See Schedules.backfill."""
        message = pb.BackfillScheduleRequest(
            schedule_id=check_name(schedule_id, "schedule ID"),
            start_at=to_instant_ms(start, "start"),
            end_at=to_instant_ms(end, "end"),
            overlap=_number(overlap),
            dry_run=dry_run,
            request_id=self._draw_id(None),
        )
        return ask(Request("schedules.backfill", "BackfillSchedule", message.SerializeToString(), _read_backfill))

    def outcomes(self, schedule_id: str, page_size: int, token: str) -> Conversation[ScheduleOutcomePage]:
        """See Schedules.outcomes."""
        message = pb.ListScheduleOutcomesRequest(
            schedule_id=check_name(schedule_id, "schedule ID"), page_size=page_size, page_token=token
        )
        body = message.SerializeToString()
        return ask(Request("schedules.outcomes", "ListScheduleOutcomes", body, _read_outcomes))

    def _to_action(self, action: ScheduleAction[Any]) -> pb.ScheduleAction:
        flow = self._registry.resolve_flow(action.flow)
        options = action.options or _START_DEFAULTS
        start = flow_pb.StartFlowRequest(
            flow_id=action.flow_id or "",
            input=flow.encode_start_input(action.input),
            options=to_start_options(flow, options),
            standing=to_standing(options),
            attributes=encode_initial_attributes(flow, options.initial_attributes),
            indexed=to_index_writes(initial_index_writes(flow, options.initial_attributes, "ScheduleAction")),
        )
        start.MergeFromString(self._heads.of(flow))
        return pb.ScheduleAction(start=start)


# ---- to the server ------------------------------------------------------------------------------------------------


def _to_spec(spec: ScheduleSpec) -> pb.ScheduleSpec:
    return pb.ScheduleSpec(
        cron=spec.cron or "",
        interval_ms=optional_duration_ms(spec.interval, "interval") or 0,
        time_zone=spec.time_zone,
        start_at=None if spec.start_at is None else to_instant_ms(spec.start_at, "start_at"),
        end_at=None if spec.end_at is None else to_instant_ms(spec.end_at, "end_at"),
        jitter_ms=to_duration_ms(spec.jitter, "jitter"),
        gap_policy=_GAPS.index(spec.gap_policy),
        fold_policy=_FOLDS.index(spec.fold_policy),
    )


def _to_policy(policy: SchedulePolicy) -> pb.SchedulePolicy:
    return pb.SchedulePolicy(
        overlap=_OVERLAPS.index(policy.overlap),
        catch_up_window_ms=to_duration_ms(policy.catch_up_window, "catch_up_window"),
        pause_on_failure=policy.pause_on_failure,
    )


def _number(overlap: OverlapPolicy | None) -> int | None:
    return None if overlap is None else _OVERLAPS.index(overlap)


# ---- from the server ----------------------------------------------------------------------------------------------


def _nothing(_body: bytes) -> None:
    """Read an answer that says nothing but that it was done."""


def _info(info: pb.ScheduleInfo) -> ScheduleInfo:
    return ScheduleInfo(
        schedule_id=info.schedule_id,
        status=ScheduleStatus(info.status),
        note=info.note,
        spec=_spec(info.spec),
        policy=SchedulePolicy(
            _OVERLAPS[info.policy.overlap], info.policy.catch_up_window_ms / 1_000, info.policy.pause_on_failure
        ),
        flow_type=info.flow_type,
        flow_id=info.flow_id or None,
        input=_input(info.input),
        created_at=from_instant_ms(info.created_at),
        updated_at=from_instant_ms(info.updated_at),
        next_fire_at=_optional(info.next_fire_at),
        planned=info.planned,
        started=info.started,
        skipped=info.skipped,
        missed=info.missed,
        buffered=info.buffered,
        skipped_by_reason=dict(info.skipped_by_reason),
        is_at_least=info.is_at_least,
        open=tuple(
            ScheduledExecution(from_instant_ms(open_.scheduled_at), open_.flow_id, open_.run_id or None)
            for open_ in info.open
        ),
    )


def _input(value: bytes) -> Any:
    if is_reference(value):
        reference = read_reference(value)
        return {"$blob": {"sha256": reference.name, "size": reference.size}}
    return msgspec.json.decode(value) if value else None


def _loaded(request: Request[pb.ScheduleInfo]) -> Conversation[ScheduleInfo]:
    info = yield from ask(request)
    info.input = yield from load(info.input)
    return _info(info)


def _spec(spec: pb.ScheduleSpec) -> ScheduleSpec:
    return ScheduleSpec(
        cron=spec.cron or None,
        interval=spec.interval_ms / 1_000 if spec.interval_ms else None,
        time_zone=spec.time_zone,
        start_at=from_instant_ms(spec.start_at) if spec.HasField("start_at") else None,
        end_at=from_instant_ms(spec.end_at) if spec.HasField("end_at") else None,
        jitter=spec.jitter_ms / 1_000,
        gap_policy=_GAPS[spec.gap_policy],
        fold_policy=_FOLDS[spec.fold_policy],
    )


def _read_page(body: bytes) -> SchedulePage:
    reply = pb.ListSchedulesReply.FromString(body)
    return SchedulePage(tuple(map(_info, reply.schedules)), reply.next_page_token)


def _read_occurrence(body: bytes) -> str:
    return pb.TriggerScheduleReply.FromString(body).occurrence_id


def _read_preview(body: bytes) -> Instants:
    return list(map(from_instant_ms, pb.PreviewScheduleReply.FromString(body).fires))


def _read_backfill(body: bytes) -> Instants:
    return list(map(from_instant_ms, pb.BackfillScheduleReply.FromString(body).fires))


def _read_outcomes(body: bytes) -> ScheduleOutcomePage:
    reply = pb.ListScheduleOutcomesReply.FromString(body)
    return ScheduleOutcomePage(tuple(map(_outcome, reply.outcomes)), reply.next_page_token)


def _outcome(outcome: pb.ScheduleOutcome) -> ScheduleOutcome:
    return ScheduleOutcome(
        ScheduleOutcomeKind(outcome.outcome),
        outcome.reason,
        from_instant_ms(outcome.first),
        from_instant_ms(outcome.last),
        outcome.count,
        outcome.is_at_least,
        outcome.flow_id or None,
        outcome.run_id or None,
        _optional(outcome.at),
    )


def _optional(instant_ms: int) -> datetime | None:
    return from_instant_ms(instant_ms) if instant_ms else None
