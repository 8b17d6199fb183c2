"""What the kernel owes the world after one command: events first, then effects, then the reply."""

from typing import TypeAlias

import msgspec

from dexd.core.effects import Effect
from dexd.core.events import Event
from dexd.core.ids import JobId, RequestId, RunId, StreamId
from dexd.core.jobs.events import JobEvent
from dexd.core.rejections import Rejection
from dexd.core.schedules.events import ScheduleEvent
from dexd.core.values import FlowStatus, SkipOutcome


class RecordedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in a stream; the log adds the global sequence number."""

    stream_id: StreamId
    version: int
    """1-based and gap-free in the stream; shown as the event id of a run's history [HIST-2]."""
    at: int
    event: Event


StreamEvent: TypeAlias = ScheduleEvent | JobEvent
"""An event of a stream that is not a run's; see `dexd.core.streams`."""


class RecordedStreamEvent(msgspec.Struct, frozen=True, gc=False):
    """As `RecordedEvent`, of a stream that is not a run's.

    A type of its own, so that nothing is asked about the events of runs for the sake of these.
    """

    stream_id: StreamId
    version: int
    at: int
    event: StreamEvent


class StartFlowAccepted(msgspec.Struct, frozen=True, gc=False):
    """The run that the request started, now or earlier."""

    run_id: RunId


class PublishAccepted(msgspec.Struct, frozen=True, gc=False):
    """IDs of the messages, in order."""

    message_ids: tuple[str, ...]


class AttributeAccepted(msgspec.Struct, frozen=True, gc=False):
    """The write is in the log."""


class StopFlowResult(msgspec.Struct, frozen=True, gc=False):
    """Whether this call closed the Flow, and the status after it [STOP-2]."""

    applied: bool
    status: FlowStatus


class MessageDeleted(msgspec.Struct, frozen=True, gc=False):
    """The message is gone."""


class SkipTimerResult(msgspec.Struct, frozen=True, gc=False):
    """What became of the timer [TIMER-9]."""

    outcome: SkipOutcome


class FlowConfigAccepted(msgspec.Struct, frozen=True, gc=False):
    """The new settings are in the log."""


class ScheduleAccepted(msgspec.Struct, frozen=True, gc=False):
    """The change of the schedule is in the log."""


class OccurrenceAccepted(msgspec.Struct, frozen=True, gc=False):
    """The occurrence that was asked for is decided about."""

    occurrence_id: RequestId


class BackfillAccepted(msgspec.Struct, frozen=True, gc=False):
    """The fires of the span are decided about."""

    count: int


class ContinueAsNewAccepted(msgspec.Struct, frozen=True, gc=False):
    """The run that goes on, now or after an earlier equal request."""

    run_id: RunId


class TimeTravelAccepted(msgspec.Struct, frozen=True, gc=False):
    """The run that the request began, now or earlier."""

    run_id: RunId


class ForkOutdated(msgspec.Struct, frozen=True, gc=False):
    """Nothing was done: the Flow has changed since the fork was prepared. No client sees this."""


class JobAccepted(msgspec.Struct, frozen=True, gc=False):
    """The batch job is in the log."""

    job_id: JobId


class WorkerDrained(msgspec.Struct, frozen=True, gc=False):
    """What the worker still runs; it finishes that."""

    incarnation: str
    running: int


FlowReply: TypeAlias = (
    StartFlowAccepted
    | PublishAccepted
    | AttributeAccepted
    | MessageDeleted
    | SkipTimerResult
    | StopFlowResult
    | FlowConfigAccepted
    | ContinueAsNewAccepted
    | TimeTravelAccepted
)
ScheduleReply: TypeAlias = ScheduleAccepted | OccurrenceAccepted | BackfillAccepted
Reply: TypeAlias = FlowReply | ScheduleReply | JobAccepted | ForkOutdated | WorkerDrained


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """Everything owed for one command, in the order in which the shell must do it.

    `events` are appended in one transaction with those of other commands; only then `effects` are performed in order
    and `reply` is released. A Rejection as reply means that the command itself changed nothing; events may still stand
    beside it, from timers that were due before the command.
    """

    events: tuple[RecordedEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    reply: Reply | Rejection | None = None
    early: RunId | None = None
    """The chain whose effects towards workers may leave before the commit: the outcome follows an ASYNC result [DUR-2].

    Everything of that chain in the outcome does; what else is in it waits as ever [DUR-1].
    """
    stream_events: tuple[RecordedStreamEvent, ...] = ()
    """Events of streams that are not runs'; appended after `events` in the same transaction."""
