"""What a batch job came to that has left the simulated log because its retention was over [KEEP-1]."""

from dexd.codec.batch_requests import BatchView, view_of
from dexd.codec.event_codec import is_of_run, stream_event_from_stored
from dexd.core.jobs.events import JobCreated
from dexd.core.jobs.evolve import evolve_job
from dexd.core.jobs.state import JobState
from tests.simulation.retention import KeptLog


def removed_job(log: KeptLog, job_id: str) -> BatchView | None:
    """How the job ended; None if it never did, so that it may not be gone."""
    job: JobState | None = None
    for stored in log.everything:
        if is_of_run(stored) or (job is not None and stored.stream_id != job.stream_id):
            continue
        recorded = stream_event_from_stored(stored)
        if job is not None or (isinstance(recorded.event, JobCreated) and recorded.event.job_id == job_id):
            job = evolve_job(job, recorded)
    return None if job is None or not job.closed_at else view_of(job)
