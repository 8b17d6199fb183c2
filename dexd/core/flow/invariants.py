"""What must hold for one run, whatever happened: checks of its state and of its history, for tests and tools.

Every check is pure and gives violations as texts; an empty list means sound. `dexd.core.invariants` checks a whole
kernel and includes these. Nothing here is called while the server decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dexd.core import events as e
from dexd.core.blobs import value_bytes
from dexd.core.config import (
    ACCEPTED_REMEMBERED_MAX,
    ACTIVE_STEPS_MAX,
    PENDING_BYTES_MAX,
    PENDING_MESSAGES_MAX,
    REQUESTS_REMEMBERED_MAX,
    TIMER_SKIPS_MAX,
)
from dexd.core.flow.decide_failure import LOSSES_MAX
from dexd.core.flow.evolve import evolve
from dexd.core.flow.settlement import decide_conditions
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.ids import TIMEOUT_HANDLER_ID, StepExecutionId
from dexd.core.outcome import RecordedEvent
from dexd.core.values import ConditionKind, Method

# ---- state ------------------------------------------------------------------------------------------------------


def run_violations(run: RunState) -> list[str]:
    """Check the state of one run between two commands."""
    where = f"run {run.run_id} of Flow {run.flow_id!r} at version {run.version}"
    found = [*_status_faults(run), *_channel_faults(run), *_index_faults(run), *_bound_faults(run)]
    for step_id, step in run.steps.items():
        found += [f"{step_id}: {fault}" for fault in _step_faults(run, step)]
    return [f"{where}: {fault}" for fault in found]


def _status_faults(run: RunState) -> Iterator[str]:
    for key, holder in run.locks.items():
        if holder not in run.steps:
            yield f"lock {key!r} is held by {holder}, which is not active [LOCK-2]"
    if not run.is_open and (run.steps or run.watchers or run.skips):
        yield f"{run.status.name} with active Steps {list(run.steps)} or skips {list(run.skips)} [FLOW-8]"
    for step_id in run.skips:
        step = run.steps.get(step_id)
        if step is not None and (step.method is not Method.WAIT_FOR or step.wait is not None):
            yield f"{step_id} has timers to skip although it waits, or never will [TIMER-9]"
    if run.is_open and run.completion_requested and not run.steps:
        yield "completion was requested and no Step is active, yet it is open [DEC-2]"
    if run.is_open and run.closed_at:
        yield "open with an instant of closing"


def _channel_faults(run: RunState) -> Iterator[str]:
    """[INV-6] Counts are right, and every queue is in order of publication."""
    messages = [message for queue in run.channels.values() for message in queue]
    if run.pending_count != len(messages):
        yield f"pending_count is {run.pending_count} with {len(messages)} messages"
    size = sum(value_bytes(message.value) for message in messages)
    if run.pending_bytes != size:
        yield f"pending_bytes is {run.pending_bytes} with {size} bytes"
    for channel, queue in run.channels.items():
        if not queue:
            yield f"Channel {channel!r} is kept although it is empty"
        if any(a.message_id >= b.message_id for a, b in pairwise(queue)):
            yield f"Channel {channel!r} is out of order [CHAN-3, ID-13]"


def _index_faults(run: RunState) -> Iterator[str]:
    """The watchers index holds exactly the waiting executions, per Channel oldest wait first [WAIT-10]."""
    expected: dict[str, list[StepExecutionId]] = {}
    for step in sorted(run.steps.values(), key=lambda step: step.wait_version):
        if step.wait is not None:
            for channel in dict.fromkeys(c.channel for c in step.wait.conditions if c.kind is ConditionKind.CHANNEL):
                expected.setdefault(channel, []).append(step.step_execution_id)
    found = {channel: list(waiting) for channel, waiting in run.watchers.items()}
    if found != expected:
        yield f"watchers are {found}, the waiting Steps give {expected} [WAIT-4]"


def _bound_faults(run: RunState) -> Iterator[str]:
    for what, size, limit in (
        ("pending messages", run.pending_count, PENDING_MESSAGES_MAX),
        ("pending bytes", run.pending_bytes, PENDING_BYTES_MAX),
        ("active Steps", len(run.steps), ACTIVE_STEPS_MAX),
        ("skips", sum(map(len, run.skips.values())), TIMER_SKIPS_MAX),
        ("remembered requests", len(run.requests), REQUESTS_REMEMBERED_MAX),
        ("remembered results", len(run.accepted), ACCEPTED_REMEMBERED_MAX),
    ):
        if size > limit:
            yield f"{size} {what}, the limit is {limit} [ARCH-8]"
    if len(dict.fromkeys(run.accepted)) != len(run.accepted):
        yield "one result was accepted twice [INV-3]"


def _step_faults(run: RunState, step: StepExecution) -> Iterator[str]:
    if step.step_execution_id != f"{step.step_type}-{step.number}":
        yield f"is number {step.number} of {step.step_type!r} [ID-6]"
    if step.number > run.counters.get(step.step_type, 0):
        yield f"the counter of {step.step_type!r} stands at {run.counters.get(step.step_type)} [ID-6]"
    if step.attempt < 1 or step.delivery < 0 or not 0 <= step.losses <= LOSSES_MAX:
        yield f"attempt {step.attempt}, delivery {step.delivery}, {step.losses} lost [LOST-2]"
    if step.phase is StepPhase.RUNNING and (step.delivery == 0 or not step.worker_id):
        yield f"RUNNING as delivery {step.delivery} on {step.worker_id!r}"
    if (step.phase is StepPhase.WAITING) is (step.wait is None):
        yield f"{step.phase.name} with Wait {step.wait}"
    elif step.phase is StepPhase.WAITING and decide_conditions(run, step.step_execution_id) is not None:
        yield "WAITING although its Wait is satisfied [WAIT-4]"
    holds = [key for key, holder in run.locks.items() if holder == step.step_execution_id]
    if sorted(holds) not in ([], sorted(step.lock_keys())):
        yield f"holds the locks {holds} of {step.lock_keys()} [LOCK-2]"
    if step.phase is StepPhase.RUNNING and len(holds) != len(step.lock_keys()):
        yield f"RUNNING with the locks {holds} of {step.lock_keys()} [LOCK-2]"
    if step.wait is not None and len(dict.fromkeys(step.fired)) != len(step.fired):
        yield f"a timer fired twice: {step.fired} [TIMER-4]"


# ---- history ----------------------------------------------------------------------------------------------------


def history_violations(events: Sequence[RecordedEvent]) -> list[str]:
    """Check all events of one run, from the first on, up to one that cannot be folded."""
    check = _HistoryCheck()
    found: list[str] = []
    for recorded in events:
        found += check.look_at(recorded)
        try:
            check.fold(recorded)
        except (KeyError, TypeError) as error:
            return [*found, f"event {recorded.version} {type(recorded.event).__name__}: cannot be folded: {error!r}"]
    return found


class _HistoryCheck:
    """Reads a history event by event, with the state that stood before each."""

    def __init__(self) -> None:
        self._state: RunState | None = None
        self._at = 0
        self._results: dict[tuple[StepExecutionId, str, int], None] = {}
        self._accepted: dict[tuple[StepExecutionId, str], None] = {}
        self._fired: dict[tuple[StepExecutionId, int], None] = {}
        self._consumed: dict[str, None] = {}
        self._published: dict[str, None] = {}

    def look_at(self, recorded: RecordedEvent) -> list[str]:
        """What is wrong with the next event."""
        event = recorded.event
        found = [*self._order_faults(recorded), *self._result_faults(event)]
        if self._state is not None:
            found += [*self._timer_faults(self._state, event, recorded.at), *self._message_faults(self._state, event)]
        return [f"event {recorded.version} {type(event).__name__}: {fault}" for fault in found]

    def fold(self, recorded: RecordedEvent) -> None:
        """Go on to the state after the event."""
        self._state = evolve(self._state, recorded)
        self._at = recorded.at

    def _order_faults(self, recorded: RecordedEvent) -> Iterator[str]:
        expected = 1 if self._state is None else self._state.version + 1
        if recorded.version != expected:
            yield f"version {expected} is missing [HIST-2]"
        if recorded.at < self._at:
            yield f"at {recorded.at}, before {self._at} [TIMER-6]"
        if self._state is not None and not self._state.is_open and type(recorded.event) not in _AFTER_THE_END:
            yield f"after the Flow was {self._state.status.name} [FLOW-8]"

    def _result_faults(self, event: e.Event) -> Iterator[str]:
        """[INV-3] One result per attempt, and one accepted result per method."""
        if not isinstance(event, e.WaitForCompleted | e.WaitForFailed | e.ExecuteCompleted | e.ExecuteFailed):
            return
        method = "wait_for" if isinstance(event, e.WaitForCompleted | e.WaitForFailed) else "execute"
        key = (event.step_execution_id, method, event.attempt)
        if key in self._results or key[:2] in self._accepted:
            yield f"a second result of {key} [INV-3]"
        self._results[key] = None
        if isinstance(event, e.WaitForCompleted | e.ExecuteCompleted):
            self._accepted[key[:2]] = None

    def _timer_faults(self, state: RunState, event: e.Event, at: int) -> Iterator[str]:
        """[INV-5] Never early, and once."""
        if type(event) is e.TimerSkipped:
            self._fired[event.step_execution_id, event.condition_index] = None
        if type(event) is not e.TimerFired:
            return
        if event.step_execution_id == TIMEOUT_HANDLER_ID:
            if not 0 < state.timeout_at <= at:
                yield f"the Flow's time, over at {state.timeout_at}, ended at {at} [TIME-1]"
            return
        wait = state.steps[event.step_execution_id].wait
        deadline = None if wait is None else wait.conditions[event.condition_index].at_ms
        if deadline is None or deadline > at:
            yield f"a timer due at {deadline} fired at {at} [TIMER-4]"
        key = (event.step_execution_id, event.condition_index)
        if key in self._fired:
            yield f"timer {key} fired twice [TIMER-4]"
        self._fired[key] = None

    def _message_faults(self, state: RunState, event: e.Event) -> Iterator[str]:
        """[INV-6] Every message has an ID of its own and is consumed once, oldest first."""
        for message_id in _published_ids(event):
            if message_id in self._published:
                yield f"message ID {message_id} was used before [ID-13]"
            self._published[message_id] = None
        if type(event) is e.ConditionsMet:
            for channel, taken in _taken(state, event).items():
                oldest = [message.message_id for message in state.channels.get(channel, ())[: len(taken)]]
                if sorted(taken) != oldest:
                    yield f"took {taken} of Channel {channel!r}, the oldest are {oldest} [CHAN-1]"
                for message_id in taken:
                    if message_id in self._consumed:
                        yield f"message {message_id} was consumed before [INV-6]"
                    self._consumed[message_id] = None


_AFTER_THE_END = (e.StaleResultRejected, e.FlowReopened)


def _published_ids(event: e.Event) -> Iterable[str]:
    if isinstance(event, e.ChannelPublished):
        return [message_id for message_id, _ in event.messages]
    if isinstance(event, e.WaitForCompleted | e.ExecuteCompleted | e.RpcCompleted):
        return [message_id for message_id, _, _ in event.messages]
    return ()


def _taken(state: RunState, event: e.ConditionsMet) -> dict[str, list[str]]:
    wait = state.steps[event.step_execution_id].wait
    taken: dict[str, list[str]] = {}
    if wait is not None:
        for index, message_ids in event.consumed:
            taken.setdefault(wait.conditions[index].channel, []).extend(message_ids)
    return taken
