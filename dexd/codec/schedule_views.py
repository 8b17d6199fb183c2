"""What reads of schedules show, and the replies that carry it."""

import msgspec

from dexd.codec.schedule_requests import page_token
from dexd.core.outcome import OccurrenceAccepted, ScheduleAccepted
from dexd.core.schedules.events import FireOutcome, SkipReason
from dexd.core.schedules.spec import ScheduleSpec
from dexd.core.schedules.state import Execution, ScheduleState
from dexpb.v1 import schedule_service_pb2 as pb

OPEN_SHOWN_MAX = 100
"""Open executions that describe tells of; a search finds the others."""


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule as describe and list show it."""

    state: ScheduleState
    """As it was when it was asked for; shown at once."""
    status: str
    next_fire_at: int
    skipped: dict[SkipReason, int]
    """With the fires of pauses that are counted on demand."""
    is_at_least: bool


class ScheduleListPage(msgspec.Struct, frozen=True):
    """Schedules by ID."""

    schedules: tuple[pb.ScheduleInfo, ...]
    next_after: str
    """ID that the next page lies after; empty on the last page."""


class OutcomeView(msgspec.Struct, frozen=True):
    """What became of a fire, or of consecutive ones that ended alike."""

    outcome: FireOutcome
    reason: SkipReason
    first: int
    last: int
    count: int
    is_at_least: bool = False
    flow_id: str = ""
    run_id: str = ""
    at: int = 0


class OutcomePage(msgspec.Struct, frozen=True):
    """Outcomes in the order in which they were decided."""

    schedule_id: str
    outcomes: tuple[OutcomeView, ...]
    next_version: int
    """First event that the next page looks at; 0 on the last page."""


def from_schedule_accepted(_reply: ScheduleAccepted) -> pb.ScheduleChanged:
    """Say that the change is in the log."""
    return pb.ScheduleChanged()


def from_occurrence(reply: OccurrenceAccepted) -> pb.TriggerScheduleReply:
    """Name the occurrence."""
    return pb.TriggerScheduleReply(occurrence_id=reply.occurrence_id)


def from_backfill(fires: tuple[int, ...]) -> pb.BackfillScheduleReply:
    """Name the fires."""
    return pb.BackfillScheduleReply(fires=fires)


def from_preview(fires: tuple[int, ...]) -> pb.PreviewScheduleReply:
    """Name the fires."""
    return pb.PreviewScheduleReply(fires=fires)


def from_schedule(view: ScheduleView) -> pb.ScheduleInfo:
    """Show a schedule; the counts add up to the planned fires [SCHED-12]."""
    state = view.state
    counts, action, step = state.counts, state.action, state.action.start_step
    skipped, buffered = sum(view.skipped.values()), state.buffered_count
    return pb.ScheduleInfo(
        schedule_id=state.schedule_id,
        status=view.status,
        note=state.note,
        spec=_from_spec(state.spec),
        policy=pb.SchedulePolicy(
            overlap=state.policy.overlap,
            catch_up_window_ms=state.policy.catch_up_window_ms,
            pause_on_failure=state.policy.pause_on_failure,
        ),
        flow_type=action.flow_type,
        flow_id=action.flow_id or "",
        input=b"" if step is None else step.input,
        created_at=state.created_at,
        updated_at=state.updated_at,
        next_fire_at=view.next_fire_at,
        planned=counts.started + skipped + counts.missed + buffered,
        started=counts.started,
        skipped=skipped,
        missed=counts.missed,
        buffered=buffered,
        skipped_by_reason={reason.name: count for reason, count in view.skipped.items() if count},
        is_at_least=view.is_at_least,
        open=[_from_execution(execution) for execution in list(state.open.values())[:OPEN_SHOWN_MAX]],
    )


def from_schedule_list(page: ScheduleListPage) -> pb.ListSchedulesReply:
    """Show a page of schedules."""
    token = page_token(page.next_after, "list") if page.next_after else ""
    return pb.ListSchedulesReply(schedules=page.schedules, next_page_token=token)


def from_outcomes(page: OutcomePage) -> pb.ListScheduleOutcomesReply:
    """Show a page of outcomes."""
    token = page_token(str(page.next_version), f"outcomes {page.schedule_id}") if page.next_version else ""
    return pb.ListScheduleOutcomesReply(outcomes=map(_from_outcome, page.outcomes), next_page_token=token)


def _from_spec(spec: ScheduleSpec) -> pb.ScheduleSpec:
    return pb.ScheduleSpec(
        cron=spec.cron,
        interval_ms=spec.interval_ms,
        time_zone=spec.time_zone,
        start_at=spec.start_at,
        end_at=spec.end_at,
        jitter_ms=spec.jitter_ms,
        gap_policy=spec.gap_policy,
        fold_policy=spec.fold_policy,
    )


def _from_execution(execution: Execution) -> pb.ScheduledExecution:
    return pb.ScheduledExecution(scheduled_at=execution.nominal, flow_id=execution.flow_id, run_id=execution.run_id)


def _from_outcome(view: OutcomeView) -> pb.ScheduleOutcome:
    return pb.ScheduleOutcome(
        outcome=view.outcome.name,
        reason=view.reason.name if view.reason else "",
        first=view.first,
        last=view.last,
        count=view.count,
        is_at_least=view.is_at_least,
        flow_id=view.flow_id,
        run_id=view.run_id,
        at=view.at,
    )
