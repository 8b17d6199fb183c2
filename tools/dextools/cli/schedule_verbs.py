"""`dex schedule`: create, look at and drive schedules [SCHED-1, SURF-22]."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from dexd.quantities import parse_duration_ms
from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import schedule_service_pb2 as pb
from dextools.cli.errors import usage_error
from dextools.cli.flow_writes import VALUE_FORMS, RequestId
from dextools.cli.invocation import Invocation, verb
from dextools.cli.schedule_documents import human_schedule, outcome_document, schedule_document
from dextools.cli.values import read_value
from dextools.terminal_text import instant_text, table

_EPOCH = datetime.fromisoformat("1970-01-01T00:00Z")

ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="Schedule ID.", show_default=False)]
PageSize = Annotated[int, typer.Option("--limit", help="Rows at most.", min=1, max=1_000)]
PageToken = Annotated[str, typer.Option(help="Where the page before ended.", metavar="TOKEN")]


class Overlap(StrEnum):
    """What a fire does while an execution of the schedule is open [SCHED-11]."""

    SKIP = "skip"
    BUFFER_ONE = "buffer-one"
    BUFFER_ALL = "buffer-all"
    CANCEL_OTHER = "cancel-other"
    TERMINATE_OTHER = "terminate-other"
    ALLOW_ALL = "allow-all"


_NUMBERS = {overlap: number for number, overlap in enumerate(Overlap)}


class Gap(StrEnum):
    """What becomes of a reading that a clock change leaves out [SCHED-8]."""

    SHIFT = "shift"
    SKIP = "skip"


class Fold(StrEnum):
    """Which pass counts for a reading that a clock change repeats [SCHED-8]."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


Cron = Annotated[
    str, typer.Option(help="Cron text of 5 or 6 fields, a macro as @daily, or @every 90s.", metavar="TEXT")
]
Interval = Annotated[str, typer.Option(help="Time from one fire to the next, as 90s, 15m or 1d.", metavar="DURATION")]
TimeZone = Annotated[str, typer.Option(help="IANA name whose wall clock the cron text means.", metavar="NAME")]
StartAt = Annotated[str, typer.Option(help="Fires lie after this instant, RFC 3339 with a zone.", metavar="INSTANT")]
EndAt = Annotated[str, typer.Option(help="The last instant at which a fire may lie.", metavar="INSTANT")]
Jitter = Annotated[str, typer.Option(help="A fire is late by up to this, at most 1d.", metavar="DURATION")]
GapOption = Annotated[Gap, typer.Option("--gap", help="For readings that a clock change leaves out.")]
FoldOption = Annotated[Fold, typer.Option("--fold", help="For readings that a clock change repeats.")]
OverlapOption = Annotated[Overlap, typer.Option(help="What a fire does while an execution is open.")]
OwnOverlap = Annotated[Overlap | None, typer.Option(help="In place of the schedule's policy.", show_default=False)]
CatchUp = Annotated[
    str, typer.Option(help="How late a fire may be and still be handled; at least 10s.", metavar="DURATION")
]
PauseOnFailure = Annotated[bool, typer.Option("--pause-on-failure", help="Pause when an execution ends FAILED.")]


def add_schedule_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "create")(create)
    verb(app, "describe")(describe)
    verb(app, "list")(list_schedules)
    verb(app, "update")(update)
    verb(app, "pause")(pause)
    verb(app, "resume")(resume)
    verb(app, "trigger")(trigger)
    verb(app, "preview")(preview)
    verb(app, "backfill")(backfill)
    verb(app, "outcomes")(outcomes)
    verb(app, "delete")(delete)


def create(
    call: Invocation,
    schedule_id: ScheduleId,
    flow_type: Annotated[str, typer.Option("--type", help="Flow type of what it starts.", metavar="TYPE")],
    value: Annotated[str, typer.Option("--input", help=f"Input: {VALUE_FORMS}.", metavar="VALUE")] = "null",
    flow_id: Annotated[
        str, typer.Option(help="Flow ID of all executions; each has its occurrence ID if not given.", metavar="ID")
    ] = "",
    cron: Cron = "",
    interval: Interval = "",
    time_zone: TimeZone = "UTC",
    start_at: StartAt = "",
    end_at: EndAt = "",
    jitter: Jitter = "",
    gap: GapOption = Gap.SHIFT,
    fold: FoldOption = Fold.FIRST,
    overlap: OverlapOption = Overlap.SKIP,
    catch_up_window: CatchUp = "1h",
    pause_on_failure: PauseOnFailure = False,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    request_id: RequestId = "",
) -> None:
    """Create a schedule; some worker must have registered the Flow type."""
    request = pb.CreateScheduleRequest(
        schedule_id=schedule_id,
        spec=_spec(cron, interval, time_zone, start_at, end_at, jitter, gap=gap, fold=fold),
        action=_action(flow_type, value, flow_id),
        policy=_policy(overlap, catch_up_window, pause_on_failure=pause_on_failure),
        paused=paused,
        request_id=request_id,
    )
    with call.connection() as connection:
        request.action.start.input = connection.large_values.outgoing(request.action.start.input)
        connection.call(connection.schedules.CreateSchedule, request)
    call.output.fields({"schedule_id": schedule_id})


def describe(call: Invocation, schedule_id: ScheduleId) -> None:
    """Show a schedule with the account of its fires."""
    with call.connection() as connection:
        request = pb.DescribeScheduleRequest(schedule_id=schedule_id)
        info = connection.call(connection.schedules.DescribeSchedule, request)
        info.input = connection.large_values.loaded(info.input)
    call.output.fields(schedule_document(info), human_schedule(info))


def list_schedules(call: Invocation, limit: PageSize = 100, page_token: PageToken = "") -> None:
    """List schedules, by ID."""
    with call.connection() as connection:
        request = pb.ListSchedulesRequest(page_size=limit, page_token=page_token)
        reply = connection.call(connection.schedules.ListSchedules, request)
    rows = (
        (
            info.schedule_id,
            info.status,
            info.spec.cron or f"every {info.spec.interval_ms / 1_000:g} s",
            info.spec.time_zone,
            info.flow_type,
            instant_text(info.next_fire_at),
            str(info.started),
        )
        for info in reply.schedules
    )
    document = {
        "schedules": [schedule_document(info) for info in reply.schedules],
        "next_page_token": reply.next_page_token,
    }
    headers = ("schedule", "status", "fires", "zone", "Flow type", "next fire", "started")
    call.output.answer(document, table(*headers, rows=rows))


def update(
    call: Invocation,
    schedule_id: ScheduleId,
    cron: Cron = "",
    interval: Interval = "",
    time_zone: TimeZone = "UTC",
    start_at: StartAt = "",
    end_at: EndAt = "",
    jitter: Jitter = "",
    gap: GapOption = Gap.SHIFT,
    fold: FoldOption = Fold.FIRST,
    flow_type: Annotated[str, typer.Option("--type", help="Flow type of what it starts.", metavar="TYPE")] = "",
    value: Annotated[str, typer.Option("--input", help=f"Input: {VALUE_FORMS}.", metavar="VALUE")] = "null",
    flow_id: Annotated[str, typer.Option(help="Flow ID of all executions.", metavar="ID")] = "",
    overlap: OwnOverlap = None,
    catch_up_window: CatchUp = "1h",
    pause_on_failure: PauseOnFailure = False,
    request_id: RequestId = "",
) -> None:
    """Replace parts of a schedule from now on.

    With --cron or --interval the whole spec, with --type the action, with --overlap the policy.
    """
    spec = _spec(cron, interval, time_zone, start_at, end_at, jitter, gap=gap, fold=fold)
    policy = None if overlap is None else _policy(overlap, catch_up_window, pause_on_failure=pause_on_failure)
    request = pb.UpdateScheduleRequest(
        schedule_id=schedule_id,
        spec=spec if cron or interval else None,
        action=_action(flow_type, value, flow_id) if flow_type else None,
        policy=policy,
        request_id=request_id,
    )
    with call.connection() as connection:
        if flow_type:
            request.action.start.input = connection.large_values.outgoing(request.action.start.input)
        connection.call(connection.schedules.UpdateSchedule, request)
    call.output.fields({"schedule_id": schedule_id})


def pause(
    call: Invocation,
    schedule_id: ScheduleId,
    note: Annotated[str, typer.Option(help="Why, for whoever looks at it.", metavar="TEXT")] = "",
) -> None:
    """Let nothing fire until it is resumed; what would have fired is skipped."""
    with call.connection() as connection:
        request = pb.PauseScheduleRequest(schedule_id=schedule_id, note=note)
        connection.call(connection.schedules.PauseSchedule, request)
    call.output.fields({"schedule_id": schedule_id})


def resume(call: Invocation, schedule_id: ScheduleId) -> None:
    """Let it fire again."""
    with call.connection() as connection:
        connection.call(connection.schedules.ResumeSchedule, pb.ResumeScheduleRequest(schedule_id=schedule_id))
    call.output.fields({"schedule_id": schedule_id})


def trigger(call: Invocation, schedule_id: ScheduleId, overlap: OwnOverlap = None, request_id: RequestId = "") -> None:
    """Have one occurrence now, in a pause too."""
    request = pb.TriggerScheduleRequest(schedule_id=schedule_id, overlap=_number(overlap), request_id=request_id)
    with call.connection() as connection:
        reply = connection.call(connection.schedules.TriggerSchedule, request)
    call.output.fields({"occurrence_id": reply.occurrence_id})


def preview(
    call: Invocation,
    schedule_id: Annotated[
        str, typer.Argument(metavar="[ID]", help="A schedule; or give a spec.", show_default=False)
    ] = "",
    cron: Cron = "",
    interval: Interval = "",
    time_zone: TimeZone = "UTC",
    start_at: StartAt = "",
    end_at: EndAt = "",
    gap: GapOption = Gap.SHIFT,
    fold: FoldOption = Fold.FIRST,
    count: Annotated[int, typer.Option(help="Fires at most.", min=1, max=1_000)] = 10,
) -> None:
    """Tell the next fires of a schedule, or of a spec that is no schedule yet."""
    spec = None if schedule_id else _spec(cron, interval, time_zone, start_at, end_at, "", gap=gap, fold=fold)
    with call.connection() as connection:
        request = pb.PreviewScheduleRequest(schedule_id=schedule_id, spec=spec, count=count)
        reply = connection.call(connection.schedules.PreviewSchedule, request)
    call.output.answer({"fires": list(reply.fires)}, _fires(reply.fires))


def backfill(
    call: Invocation,
    schedule_id: ScheduleId,
    start: Annotated[str, typer.Option("--from", help="First instant, RFC 3339 with a zone.", metavar="INSTANT")],
    end: Annotated[str, typer.Option("--to", help="First instant after the span; in the past.", metavar="INSTANT")],
    overlap: OwnOverlap = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell which fires would be handled.")] = False,
    request_id: RequestId = "",
) -> None:
    """Handle the fires of a span of the past, each once; those that were started before are left out."""
    request = pb.BackfillScheduleRequest(
        schedule_id=schedule_id,
        start_at=_instant(start, "--from"),
        end_at=_instant(end, "--to"),
        overlap=_number(overlap),
        dry_run=dry_run,
        request_id=request_id,
    )
    with call.connection() as connection:
        reply = connection.call(connection.schedules.BackfillSchedule, request)
    call.output.answer({"fires": list(reply.fires), "dry_run": dry_run}, _fires(reply.fires))


def outcomes(call: Invocation, schedule_id: ScheduleId, limit: PageSize = 100, page_token: PageToken = "") -> None:
    """Tell what became of the fires, oldest first."""
    with call.connection() as connection:
        request = pb.ListScheduleOutcomesRequest(schedule_id=schedule_id, page_size=limit, page_token=page_token)
        reply = connection.call(connection.schedules.ListScheduleOutcomes, request)
    rows = (
        (
            instant_text(outcome.first),
            instant_text(outcome.last) if outcome.count > 1 else "",
            f"{outcome.count}{'+' if outcome.is_at_least else ''}",
            outcome.outcome,
            outcome.reason,
            outcome.flow_id,
        )
        for outcome in reply.outcomes
    )
    document = {
        "outcomes": [outcome_document(outcome) for outcome in reply.outcomes],
        "next_page_token": reply.next_page_token,
    }
    call.output.answer(document, table("fire", "until", "fires", "outcome", "reason", "Flow ID", rows=rows))


def delete(call: Invocation, schedule_id: ScheduleId, request_id: RequestId = "") -> None:
    """Remove a schedule: what waits is skipped, executions are left alone."""
    request = pb.DeleteScheduleRequest(schedule_id=schedule_id, request_id=request_id)
    with call.connection() as connection:
        connection.call(connection.schedules.DeleteSchedule, request)
    call.output.fields({"schedule_id": schedule_id})


# ---- what people write --------------------------------------------------------------------------------------------


def _spec(
    cron: str, interval: str, time_zone: str, start_at: str, end_at: str, jitter: str, *, gap: Gap, fold: Fold
) -> pb.ScheduleSpec:
    return pb.ScheduleSpec(
        cron=cron,
        interval_ms=_duration(interval, "--interval"),
        time_zone=time_zone,
        start_at=_instant(start_at, "--start-at") if start_at else None,
        end_at=_instant(end_at, "--end-at") if end_at else None,
        jitter_ms=_duration(jitter, "--jitter"),
        gap_policy=list(Gap).index(gap),
        fold_policy=list(Fold).index(fold),
    )


def _action(flow_type: str, value: str, flow_id: str) -> pb.ScheduleAction:
    start = flow_pb.StartFlowRequest(
        flow_id=flow_id, flow_type=flow_type, input=read_value(value, "--input"), resolve_start_step=True
    )
    return pb.ScheduleAction(start=start)


def _policy(overlap: Overlap, catch_up_window: str, *, pause_on_failure: bool) -> pb.SchedulePolicy:
    return pb.SchedulePolicy(
        overlap=_NUMBERS[overlap],
        catch_up_window_ms=_duration(catch_up_window, "--catch-up-window"),
        pause_on_failure=pause_on_failure,
    )


def _number(overlap: Overlap | None) -> int | None:
    return None if overlap is None else _NUMBERS[overlap]


def _duration(text: str, option: str) -> int:
    try:
        return parse_duration_ms(text) if text else 0
    except ValueError as error:
        raise usage_error(f"{option} {text!r} is {error}") from None


def _instant(text: str, option: str) -> int:
    try:
        instant = datetime.fromisoformat(text)
        return (instant - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError):
        raise usage_error(f"{option} {text!r} is no instant such as 2026-03-08T07:30:00Z") from None


def _fires(fires: Any) -> Any:
    return table("fire", rows=((instant_text(fire),) for fire in fires))
