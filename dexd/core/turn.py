"""One turn of the kernel: the instant, and what has been decided in it so far."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dexd.core.effects import Effect
from dexd.core.events import (
    EVENT_TYPES,
    ChannelPublished,
    Event,
    ExecuteCompleted,
    FlowClosed,
    FlowStarted,
    HeartbeatReceived,
    MethodPending,
    RpcCompleted,
    StaleResultRejected,
    StepDispatched,
    SubFlowClosed,
    TimerFired,
    TimerSkipped,
    TimerSkipRequested,
    WaitForCompleted,
)
from dexd.core.flow.evolve import FOLDS, evolve
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.ids import TIMEOUT_HANDLER_ID, RunId, StepExecutionId, StreamId
from dexd.core.outcome import Outcome, RecordedEvent, RecordedStreamEvent, Reply
from dexd.core.rejections import Rejection

NEVER = 2**63
"""More events than a run can have."""


@dataclass(slots=True)
class WaitChanges:
    """What happened to one run that may satisfy waits."""

    run: RunState
    steps: dict[StepExecutionId, None] = field(default_factory=dict)
    """Step executions whose Wait was installed, or whose timer fired or SubFlow ended."""
    channels: dict[str, None] = field(default_factory=dict)
    """Channels that got messages."""


class Turn:
    """Collects events and effects of one command.

    Every event is folded the moment it is decided, so that whatever is decided next in the turn sees it.

    It also notes what the events touched: Step executions whose open call may have to change, and waits that may have
    become satisfied.
    """

    __slots__ = (
        "_early",
        "_effects",
        "_events",
        "_long_from",
        "_stream_events",
        "closed",
        "long",
        "now",
        "touched",
        "waits",
    )

    def __init__(self, now: int, long_from: int = NEVER) -> None:
        """Runs of at least `long_from` events are noted as long."""
        self.now = now
        self._long_from = long_from
        self.long: dict[RunId, RunState] | None = None
        """Runs that grew, and that are long or have settings of their own, so that another may have to continue them
        [ROLL-2]; the kernel takes them out. Most commands have none, here as in `closed` and `waits`.
        """
        self._events: list[RecordedEvent] = []
        self._stream_events: list[RecordedStreamEvent] | None = None
        self._effects: list[Effect] = []
        self._early: RunId | None = None
        self.closed: list[RunState] | None = None
        """Runs that were closed; the kernel takes them out."""
        self.touched: dict[tuple[RunId, StepExecutionId], RunState] = {}
        """Step executions whose open call may have to change; the kernel takes them out."""
        self.waits: dict[RunId, WaitChanges] | None = None
        """What may have satisfied waits; the kernel takes it out."""

    def begin(self, event: FlowStarted, stream_id: StreamId) -> RunState:
        """Record the first event of a new run."""
        recorded = RecordedEvent(stream_id, 1, self.now, event)
        self._events.append(recorded)
        return evolve(None, recorded)

    def emit(self, run: RunState, event: Event) -> None:
        """Record and fold one event."""
        fold, is_touching, is_wait_changing, is_closing = _WAYS[type(event)]
        if is_closing:
            self._note_closed(run)
        version = run.version + 1
        if version >= self._long_from or run.config is not None:
            if self.long is None:
                self.long = {}
            self.long[run.run_id] = run
        now = self.now
        self._events.append(RecordedEvent(run.stream_id, version, now, event))
        # What `evolve` does, without a call more: this runs with every event.
        fold(run, event, now)
        run.version = version
        if is_touching:
            self.touched[run.chain_id, event.step_execution_id] = run  # type: ignore[union-attr]  # the table says so
        if is_wait_changing and (
            # The common case, an execute that publishes nothing, changes no Wait; only a completion may await its end.
            type(event) is not ExecuteCompleted or event.messages or run.completion_requested
        ):
            self._note_waits(run, event)

    def record_silently(self, run: RunState, event: Event) -> None:
        """Record and fold one event that has no consequences: nothing is touched by it."""
        recorded = RecordedEvent(run.stream_id, run.version + 1, self.now, event)
        self._events.append(recorded)
        evolve(run, recorded)

    def emit_all(self, run: RunState, events: Iterable[Event]) -> None:
        """Record and fold events in order."""
        for event in events:
            self.emit(run, event)

    def record(self, event: RecordedStreamEvent) -> None:
        """Record an event of a stream that is not a run's; who decided it folds it."""
        if self._stream_events is None:
            self._stream_events = []
        self._stream_events.append(event)

    def perform(self, effect: Effect) -> None:
        """Owe an effect to the world."""
        self._effects.append(effect)

    def touch(self, run: RunState, step_execution_id: StepExecutionId) -> None:
        """Have the Step execution's open call compared with its state."""
        self.touched[run.chain_id, step_execution_id] = run

    def touch_all(self, run: RunState) -> None:
        """Have the open calls of all its Step executions compared with their state, oldest wish first."""
        for step in sorted(run.steps.values(), key=age_of):
            self.touch(run, step.step_execution_id)

    def revisit(self, run: RunState) -> None:
        """Have everything of the run looked at again: open calls, Waits and completion."""
        self.touch_all(run)
        changes = self._changes_of(run)
        changes.steps |= dict.fromkeys(step_id for step_id, step in run.steps.items() if step.wait is not None)

    def take_touched(self) -> dict[tuple[RunId, StepExecutionId], RunState]:
        """What was touched since the last time, in order."""
        touched, self.touched = self.touched, {}
        return touched

    def take_waits(self) -> dict[RunId, WaitChanges]:
        """What may have satisfied waits since the last time."""
        waits, self.waits = self.waits, None
        return waits or {}

    def take_closed(self) -> list[RunState]:
        """Runs that were closed since the last time."""
        closed, self.closed = self.closed, None
        return closed or []

    def take_long(self) -> list[RunState]:
        """Runs that may have to be continued by another one, since the last time."""
        long, self.long = self.long, None
        return [] if long is None else list(long.values())

    def outcome(self, reply: Reply | Rejection | None) -> Outcome:
        """Everything owed."""
        stream_events = () if self._stream_events is None else tuple(self._stream_events)
        return Outcome(tuple(self._events), tuple(self._effects), reply, self._early, stream_events)

    def follow_early(self, chain_id: RunId) -> None:
        """What comes from now on follows an ASYNC result of that chain [DUR-2]; not if anything else came before."""
        if not self._events:
            self._early = chain_id

    def _note_closed(self, run: RunState) -> None:
        """Nothing of the run goes on."""
        self.closed = [*(self.closed or ()), run]
        for step_execution_id in run.steps:
            self.touch(run, step_execution_id)
        if run.timeout_at:
            self.touch(run, TIMEOUT_HANDLER_ID)

    def _note_waits(self, run: RunState, event: Event) -> None:
        """Note what may be satisfied now.

        Waits are evaluated when installed and after every change of what they watch [WAIT-4]; an execute that ended may
        have been the last active Step [DEC-2].
        """
        changes = self._changes_of(run)
        if type(event) in _OF_ONE_WAIT:
            changes.steps[event.step_execution_id] = None  # type: ignore[union-attr]  # the table says so
        if type(event) is ChannelPublished:
            changes.channels[event.channel] = None
        elif type(event) is ExecuteCompleted or type(event) is WaitForCompleted or type(event) is RpcCompleted:
            for _, channel, _ in event.messages:
                changes.channels[channel] = None

    def _changes_of(self, run: RunState) -> WaitChanges:
        if self.waits is None:
            self.waits = {}
        changes = self.waits.get(run.run_id)
        if changes is None:
            changes = self.waits[run.run_id] = WaitChanges(run)
        return changes


def age_of(step: StepExecution) -> int:
    """Orders Step executions by when they began to wait, for a worker or by a Wait."""
    return step.ready_version if step.wait is None else step.wait_version


_OF_ONE_WAIT = frozenset((WaitForCompleted, TimerFired, TimerSkipped, SubFlowClosed))
_WAIT_CHANGING = _OF_ONE_WAIT | {ExecuteCompleted, RpcCompleted, ChannelPublished}

_TOUCHING = frozenset(
    event_type
    for event_type in EVENT_TYPES
    if "step_execution_id" in event_type.__struct_fields__
    and event_type not in (StepDispatched, HeartbeatReceived, MethodPending, StaleResultRejected, TimerSkipRequested)
)
"""Events after which a Step execution's open call may have to change; a dispatch brings its call along itself."""

_WAYS: dict[type[Event], tuple[Callable[[RunState, Any, int], None], bool, bool, bool]] = {
    kind: (FOLDS[kind], kind in _TOUCHING, kind in _WAIT_CHANGING, kind is FlowClosed) for kind in EVENT_TYPES
}
"""How each event is folded, and which consequences it may have; one look for all of them."""

Answer: TypeAlias = Reply | Rejection | None
"""What is said to the caller at once; None when nothing is."""

Route: TypeAlias = Callable[[Turn, Any], Answer]
"""Handles one kind of command."""
