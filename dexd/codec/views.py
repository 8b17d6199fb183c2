"""What reads show: plain facts of committed state, made by the engine and turned into protos by `flow_messages`."""

from dataclasses import dataclass
from itertools import islice

import msgspec

from dexd.core.flow.messages import position_after
from dexd.core.flow.state import RunState
from dexd.core.flow.wakeups import next_deadline
from dexd.core.ids import FlowId, RunId, ScheduleId
from dexd.core.values import Completion, FlowErrorType, FlowStatus, Message, StepOutcome
from dexd.log.event_log import ListedRun


class FlowSummary(msgspec.Struct, frozen=True):
    """One run as `describe` and `list` show it."""

    flow_id: FlowId
    run_id: RunId
    flow_type: str
    status: FlowStatus
    started_at: int
    closed_at: int
    ordinal: int
    history_events: int
    """Events of the run."""
    error_type: FlowErrorType
    error_message: str
    first_run_id: RunId
    """First run of the execution."""
    next_deadline: int = 0
    """When the run wakes up by itself next, by a Timer or a retry; 0 for never."""
    parent_flow_id: FlowId | None = None
    """The Flow that began it as a SubFlow."""
    schedule_id: ScheduleId | None = None
    """The schedule that started it."""


class FlowWait(msgspec.Struct, frozen=True):
    """Answer of a wait for a Flow's end [WAITAPI-2]: the end, or only the run that is waited for."""

    run_id: RunId
    end: "FlowEnd | None" = None


class FlowEnd(msgspec.Struct, frozen=True):
    """How an execution ended [FLOW-7]."""

    status: FlowStatus
    error_type: FlowErrorType
    error_message: str
    completions: tuple[Completion, ...]


class StepWait(msgspec.Struct, frozen=True):
    """Answer of a wait for a Step execution [WAITAPI-3]; None when the wait ran out first."""

    outcome: StepOutcome | None


class AttributeWait(msgspec.Struct, frozen=True):
    """Answer of a wait for an Attribute [WAITAPI-5]: the value that matched, or None when the wait ran out first."""

    value: bytes | None


class AttributeView(msgspec.Struct, frozen=True):
    """An Attribute's value; None when it is not set."""

    value: bytes | None


class MessagePage(msgspec.Struct, frozen=True):
    """Pending messages of one Channel, oldest first."""

    messages: tuple[Message, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event as people read it [HIST-2]."""

    event_id: int
    run_id: RunId
    at: int
    kind: str
    data: bytes
    """A JSON object with the event's content; values are spliced in as the JSON they are."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Events of one run in order [HIST-5]."""

    entries: tuple[HistoryEntry, ...]
    next_event_id: int
    """0 when there is nothing after this page yet."""


def message_page(run: RunState, channel: str, *, after: str, count_max: int, bytes_max: int) -> MessagePage:
    """Show the messages of a Channel that follow a message ID, whether or not that message is still there.

    A page ends where the next message would exceed `bytes_max`, but holds at least one message if there is one.
    """
    queue = run.channels.get(channel, ())
    first = position_after(queue, after)
    chosen: list[Message] = []
    size = 0
    for message in islice(queue, first, first + count_max):
        size += len(message.value)
        if chosen and size > bytes_max:
            break
        chosen.append(message)
    return MessagePage(tuple(chosen), first + len(chosen) < len(queue))


def summary_of_run(run: RunState) -> FlowSummary:
    """Show a folded run."""
    return FlowSummary(
        run.flow_id,
        run.run_id,
        run.flow_type,
        run.status,
        run.started_at,
        run.closed_at,
        run.ordinal,
        run.version,
        run.error_type,
        run.error_message,
        run.execution_id,
        next_deadline(run),
        None if run.terms is None or run.terms.parent is None else run.terms.parent.flow_id,
        None if run.terms is None or run.terms.schedule is None else run.terms.schedule.schedule_id,
    )


def summary_of_row(listed: ListedRun) -> FlowSummary:
    """Show a row of the run projection."""
    row = listed.row
    return FlowSummary(
        FlowId(row.flow_id),
        RunId(row.run_id),
        row.flow_type,
        FlowStatus(row.status),
        row.started_at,
        row.closed_at,
        row.ordinal,
        listed.history_events,
        FlowErrorType(row.error_type),
        row.error_message,
        RunId(row.first_run_id or row.run_id),
        listed.next_deadline,
        FlowId(row.parent_flow_id) if row.parent_flow_id else None,
        ScheduleId(row.schedule_id) if row.schedule_id else None,
    )


def end_of(run: RunState) -> FlowEnd:
    """Show the end of a closed run; its state does not change any more."""
    return FlowEnd(run.status, run.error_type, run.error_message, tuple(run.completions))
