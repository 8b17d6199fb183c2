"""What must hold of batch jobs between two commands; for tests, as `dexd.core.invariants`."""

from collections.abc import Iterator

from dexd.core.deadlines import Deadlines
from dexd.core.jobs.desk import JobDesk
from dexd.core.jobs.state import JobState
from dexd.core.matching.deadline_keys import DeadlineKey, TurnDue


def job_violations(jobs: JobDesk, deadlines: Deadlines[DeadlineKey]) -> list[str]:
    """Every open job goes on by itself, and its counts add up [BATCH-1]; an empty list means sound."""
    return [
        f"job {job.job_id!r}: {fault}"
        for job in jobs
        for fault in _faults(job, is_armed=deadlines.armed_at(TurnDue(job.stream_id)) is not None)
    ]


def _faults(job: JobState, *, is_armed: bool) -> Iterator[str]:
    if job.done != job.applied + job.skipped + job.failed or job.skipped + job.failed != sum(job.reasons.values()):
        yield f"{job.done} targets are done, not {job.applied} + {job.skipped} + {job.failed}, for {job.reasons}"
    if job.is_closed:
        if is_armed or job.open_count:
            yield "is closed, and goes on"
    elif job.done + len(job.targets) != job.matched:
        yield f"of {job.matched} targets {job.done} are done and {len(job.targets)} are not"
    elif is_armed == bool(job.open_count):
        yield f"{job.open_count} targets have their turn, and the next ones {'wait' if is_armed else 'do not'}"
