"""The fold of a batch job: applies one event, never refuses, filters or emits [ARCH-2]."""

from collections.abc import Callable
from typing import Any

from dexd.core.jobs import events as e
from dexd.core.jobs.state import PROBLEMS_MAX, JobState
from dexd.core.outcome import RecordedStreamEvent


def evolve_job(state: JobState | None, recorded: RecordedStreamEvent) -> JobState:
    """Apply an event to the state, which is changed in place; the first event makes it."""
    event = recorded.event
    if isinstance(event, e.JobCreated):
        if state is not None:
            raise TypeError(f"job {state.job_id!r} has begun already")
        state = JobState(
            event.job_id,
            recorded.stream_id,
            recorded.at,
            event.query,
            event.operation,
            event.rate,
            event.matched,
            event.request,
        )
    elif state is None:
        raise TypeError(f"a job begins with JobCreated, not {type(event).__name__}")
    else:
        _FOLDS[type(event)](state, event, recorded.at)
    state.version = recorded.version
    return state


def _targets_fixed(state: JobState, event: e.JobTargetsFixed, _at: int) -> None:
    state.targets += event.targets


def _advanced(state: JobState, event: e.JobAdvanced, _at: int) -> None:
    state.open_count += event.count


def _progressed(state: JobState, event: e.JobProgressed, _at: int) -> None:
    del state.targets[: event.count]
    state.open_count -= event.count
    state.done += event.count
    for problem in event.problems:
        if problem.outcome is e.TargetOutcome.SKIPPED:
            state.skipped += 1
        else:
            state.failed += 1
        state.reasons[problem.reason] = state.reasons.get(problem.reason, 0) + 1
    state.applied += event.count - len(event.problems)
    state.problems += event.problems[: PROBLEMS_MAX - len(state.problems)]


def _canceled(state: JobState, _event: e.JobCanceled, _at: int) -> None:
    state.is_canceled = True


def _closed(state: JobState, event: e.JobClosed, at: int) -> None:
    state.status = event.status
    state.closed_at = at
    state.targets = []


_FOLDS: dict[type[Any], Callable[[JobState, Any, int], None]] = {
    e.JobTargetsFixed: _targets_fixed,
    e.JobAdvanced: _advanced,
    e.JobProgressed: _progressed,
    e.JobCanceled: _canceled,
    e.JobClosed: _closed,
}
