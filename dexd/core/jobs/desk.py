"""Carries a batch job's operation to its targets, so many a second, and their results back [BATCH-1..3].

    job: JobAdvanced -> ReachTarget -> Flow: the events of the call -> NoteTarget -> job: JobProgressed

Targets that have their turn are asked for again after a restart, under the same request IDs: whoever was applied to
answers as before, so that each is applied to once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dexd.core import commands as c
from dexd.core.deadlines import Deadlines
from dexd.core.effects import SubmitCommand, TravelTarget
from dexd.core.ids import JobId, RequestId, StreamId
from dexd.core.jobs import commands as jc
from dexd.core.jobs.book import JobBook
from dexd.core.jobs.events import (
    JobAdvanced,
    JobCanceled,
    JobClosed,
    JobCreated,
    JobProgressed,
    JobStatus,
    JobTargetsFixed,
    Problem,
)
from dexd.core.jobs.results import GONE, NO_MATCH, REPLACED, problem_of, skipped
from dexd.core.jobs.state import JobState
from dexd.core.matching.deadline_keys import DeadlineKey, TurnDue
from dexd.core.outcome import JobAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.runs import Runs
from dexd.core.streams import StreamIds
from dexd.core.turn import Answer, Route, Turn
from dexd.core.values import RequestRecord

TARGETS_PER_EVENT = 1_000
"""Targets that one event holds."""

TURN_MS = 100
"""Targets of so many milliseconds have their turn together; at a low rate it is one after a longer while."""

Apply = Callable[[Turn, c.Command], Answer]
"""Decides about the call for one Flow, as if a client had made it."""


@dataclass(slots=True)
class _Open:
    """The targets of a job that have their turn."""

    next_at: int
    """When the next ones may have theirs."""
    results: dict[int, Problem | None] = field(default_factory=dict)
    """By position in the job; complete when all of them are in."""


class JobDesk:
    """Answers commands about jobs, and lets their targets have their turns."""

    __slots__ = ("_apply", "_book", "_deadlines", "_open", "_runs")

    def __init__(self, runs: Runs, deadlines: Deadlines[DeadlineKey], stream_ids: StreamIds, apply: Apply) -> None:
        self._runs = runs
        self._deadlines = deadlines
        self._book = JobBook(stream_ids)
        self._apply = apply
        self._open: dict[StreamId, _Open] = {}

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {
            jc.CreateJob: self.create,
            jc.CancelJob: self.cancel,
            jc.ReachTarget: self.reach,
            jc.NoteTarget: self.note,
        }

    def get(self, job_id: JobId) -> JobState | None:
        """The job of that ID, if it is in memory."""
        return self._book.get(job_id)

    def of_stream(self, stream_id: StreamId) -> JobState | None:
        """The job of a stream, if it is in memory."""
        return self._book.of_stream(stream_id)

    def __iter__(self) -> Iterator[JobState]:
        """All in memory."""
        return iter(self._book)

    def adopt(self, state: JobState) -> None:
        """Take over a job restored from the log."""
        self._book.adopt(state)

    def forget(self, stream_id: StreamId) -> None:
        """Drop a closed job, if it is in memory."""
        self._book.forget(stream_id)

    # ---- commands of clients ----

    def create(self, turn: Turn, command: jc.CreateJob) -> Answer:
        """Fix the targets and begin; a repeat of the request finds what it made [BATCH-3, GEN-8]."""
        known = self._book.get(command.job_id)
        if known is not None:
            return refuse_conflict(known) if known.request.digest != command.digest else JobAccepted(command.job_id)
        request = RequestRecord(command.request_id, command.digest)
        targets = command.targets
        created = JobCreated(command.job_id, command.query, command.operation, command.rate, len(targets), request)
        state = self._book.create(turn, created)
        for first in range(0, len(targets), TARGETS_PER_EVENT):
            self._book.emit(turn, state, JobTargetsFixed(targets[first : first + TARGETS_PER_EVENT]))
        self._go_on(turn, state, turn.now)
        return JobAccepted(command.job_id)

    def cancel(self, turn: Turn, command: jc.CancelJob) -> Answer:
        """Let no further target have its turn [BATCH-1]."""
        state = self._book.get(command.job_id)
        if state is None:
            return refuse_unknown(command.job_id)
        if not state.is_closed and not state.is_canceled:
            self._book.emit(turn, state, JobCanceled())
            self._close_if_over(turn, state)
        return JobAccepted(command.job_id)

    # ---- turns ----

    def resume_all(self, turn: Turn) -> None:
        """After a restart: ask again for targets whose results are not recorded, and go on."""
        for state in self._book:
            if not state.is_closed:
                self._reach_open(turn, state, turn.now)
                self._go_on(turn, state, turn.now)

    def turn_due(self, turn: Turn, stream_id: StreamId) -> None:
        """The next targets may have their turn."""
        state = self._book.of_stream(stream_id)
        assert state is not None, "a job with a deadline is open"
        self._go_on(turn, state, turn.now)

    def _go_on(self, turn: Turn, state: JobState, at: int) -> None:
        """Let the next targets have their turn, unless others still have it; close the job after the last ones."""
        if state.open_count or self._close_if_over(turn, state):
            return
        count = min(turn_size(state.rate), len(state.targets))
        self._book.emit(turn, state, JobAdvanced(count))
        self._reach_open(turn, state, at + round(count * 1_000 / state.rate))

    def _reach_open(self, turn: Turn, state: JobState, next_at: int) -> None:
        self._open[state.stream_id] = _Open(next_at)
        for position, target in enumerate(state.targets[: state.open_count], start=state.done):
            reach = jc.ReachTarget(
                state.stream_id,
                position,
                target.flow_id,
                target.ordinal,
                state.query,
                state.operation,
                RequestId(f"sys:batch-{state.job_id}"),
            )
            turn.perform(SubmitCommand(reach))

    def _close_if_over(self, turn: Turn, state: JobState) -> bool:
        """Close a job without targets to come; those that have their turn are waited for."""
        if state.open_count or (state.targets and not state.is_canceled):
            return False
        status = JobStatus.CANCELED if state.is_canceled and state.targets else JobStatus.COMPLETED
        self._book.emit(turn, state, JobClosed(status))
        self._deadlines.disarm(TurnDue(state.stream_id))
        self._open.pop(state.stream_id, None)
        return True

    def note(self, turn: Turn, command: jc.NoteTarget) -> Answer:
        """Take a result; when all that have their turn have one, record them and let the next ones have theirs."""
        state, current = self._book.of_stream(command.stream_id), self._open.get(command.stream_id)
        if state is None or current is None or not state.done <= command.position < state.done + state.open_count:
            return None
        current.results[command.position] = command.problem
        if len(current.results) < state.open_count:
            return None
        problems = tuple(result for _, result in sorted(current.results.items()) if result is not None)
        self._book.emit(turn, state, JobProgressed(state.open_count, problems))
        if not self._close_if_over(turn, state):
            if current.next_at > turn.now:
                self._deadlines.arm(TurnDue(state.stream_id), current.next_at)
            else:
                self._go_on(turn, state, turn.now)
        return None

    # ---- the Flow's side ----

    def reach(self, turn: Turn, command: jc.ReachTarget) -> Answer:
        """Apply the operation to the Flow, if it is still what was found; tell the job [BATCH-3].

        A Flow that was applied to before may not match any more because of that, so the request is asked for first.
        """
        problem = self._refuse(command)
        if problem is None and command.call is None:
            turn.perform(TravelTarget(command))
            return None
        if problem is None:
            problem = problem_of(command.flow_id, self._apply(turn, command.call))
        turn.perform(SubmitCommand(jc.NoteTarget(command.stream_id, command.position, problem)))
        return None

    def _refuse(self, command: jc.ReachTarget) -> Problem | None:
        run = self._runs.latest.get(command.flow_id)
        if run is None:
            return skipped(command.flow_id, GONE)
        if run.ordinal != command.ordinal:
            return skipped(command.flow_id, REPLACED)
        is_repeat = command.request_id in run.requests
        return None if is_repeat or command.is_matching else skipped(command.flow_id, NO_MATCH)


def turn_size(rate: float) -> int:
    """How many targets have their turn together at that rate."""
    return max(1, int(rate * TURN_MS / 1_000))


def refuse_unknown(job_id: JobId) -> Rejection:
    """There is no job of that ID."""
    return Rejection(Code.BATCH_NOT_FOUND, f"there is no batch {job_id!r}", {"batch_id": job_id})


def refuse_conflict(state: JobState) -> Rejection:
    """The request was used for another job [GEN-8]."""
    request_id = state.request.request_id
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {request_id!r} began batch {state.job_id!r} before, with another query or operation",
        {"batch_id": state.job_id, "request_id": request_id},
    )
