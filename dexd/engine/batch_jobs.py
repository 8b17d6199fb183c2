"""Batch jobs between clients, search and the kernel: targets are found, jobs begun, shown and listed [BATCH-1..3]."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from dexd.codec.batch_calls import call_of, travel_of
from dexd.codec.batch_requests import BatchListQuery, BatchPage, BatchQuery, BatchView, DryRun, view_of
from dexd.core.commands import ClientCommand
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, JobId
from dexd.core.index_values import IndexKeyTypes
from dexd.core.jobs.commands import CancelJob, CreateJob, NoteTarget, ReachTarget
from dexd.core.jobs.desk import refuse_unknown
from dexd.core.jobs.events import Target
from dexd.core.jobs.results import problem_of
from dexd.core.jobs.state import JobState
from dexd.core.kernel import Kernel
from dexd.core.outcome import JobAccepted, Reply
from dexd.core.rejections import Code, Rejection
from dexd.core.streams import StreamKind
from dexd.engine.ports import OnAnswer
from dexd.engine.run_cache import RunCache
from dexd.engine.stream_cache import StreamCache
from dexd.engine.time_travels import TimeTravels
from dexd.log.event_log import EventLog, RunRow

TARGETS_MAX = 100_000
"""Targets of one job: they are kept in the log and in memory until the job is done."""

SAMPLE_MAX = 20
"""Flow IDs that a dry run shows."""


class JobHost(Protocol):
    """What the engine does for jobs."""

    @property
    def kernel(self) -> Kernel:
        """Jobs in memory."""
        ...

    @property
    def runs(self) -> RunCache:
        """Runs as they are decided."""
        ...

    @property
    def streams(self) -> StreamCache:
        """Jobs that are not in memory."""
        ...

    def request(self, command: ClientCommand, on_answer: OnAnswer[Reply]) -> None:
        """Submit a command."""
        ...

    def announce(self, named: IndexKeyTypes) -> Rejection | None:
        """Keep the types of these index keys, or refuse them all."""
        ...

    def reveal(self, on_answer: OnAnswer[Any], answer: Any) -> None:
        """Answer once everything decided so far is committed."""
        ...


class Finder(Protocol):
    """What search does for jobs; see `searches.Searches`."""

    def matching(self, text: str, on_answer: OnAnswer[Sequence[RunRow]]) -> None:
        """Tell the latest runs of all executions that a query finds."""
        ...

    def matches(self, text: str, run: RunState) -> bool | Rejection:
        """Whether a query finds the execution of this run now."""
        ...


ReadLater = Callable[[Callable[[], Coroutine[Any, Any, Any]], OnAnswer[Any]], None]
"""Reads the log once everything decided so far is in it; see `Reads`."""


class BatchJobs:
    """Batch jobs of one partition. Queries come checked from the codec."""

    __slots__ = ("_finder", "_host", "_log", "_read_later", "_travels")

    def __init__(
        self, host: JobHost, finder: Finder, travels: TimeTravels, log: EventLog, read_later: ReadLater
    ) -> None:
        self._host = host
        self._finder = finder
        self._travels = travels
        self._log = log
        self._read_later = read_later

    # ---- what clients ask ----

    def create(self, query: BatchQuery, on_answer: OnAnswer[BatchView | DryRun]) -> None:
        """Find the targets, then begin the job, or only tell what was found [BATCH-2, BATCH-3]."""
        known = None if query.dry_run else self._job(query.job_id)
        refused = self._host.announce(query.index_keys)
        if refused is not None:
            on_answer(refused)
        elif known is None:
            self._finder.matching(query.query, partial(self._found, query, on_answer))
        else:
            # A repeat of the request: its targets were fixed then.
            self._begin(query, (), on_answer)

    def _found(
        self, query: BatchQuery, on_answer: OnAnswer[BatchView | DryRun], found: Sequence[RunRow] | Rejection
    ) -> None:
        if isinstance(found, Rejection):
            on_answer(found)
        elif query.dry_run:
            sample = tuple(FlowId(row.flow_id) for row in found[:SAMPLE_MAX])
            on_answer(DryRun(query.query, query.operation.kind, query.rate, len(found), sample))
        elif len(found) > TARGETS_MAX:
            on_answer(_too_many(len(found)))
        else:
            self._begin(query, tuple(Target(FlowId(row.flow_id), row.ordinal) for row in found), on_answer)

    def _begin(self, query: BatchQuery, targets: tuple[Target, ...], on_answer: OnAnswer[BatchView | DryRun]) -> None:
        create = CreateJob(
            query.job_id, query.query, query.operation, query.rate, targets, query.request_id, query.digest
        )
        self._host.request(create, partial(self._accepted, on_answer))

    def cancel(self, command: CancelJob, on_answer: OnAnswer[BatchView]) -> None:
        """Let a job apply nothing more; tells how it stands then [BATCH-1]."""
        self._host.request(command, partial(self._accepted, on_answer))

    def _accepted(self, on_answer: OnAnswer[Any], answer: Reply | Rejection) -> None:
        if isinstance(answer, JobAccepted):
            self.describe(answer.job_id, on_answer)
        else:
            on_answer(answer)

    def describe(self, job_id: JobId, on_answer: OnAnswer[BatchView]) -> None:
        """Tell how a job stands."""
        job = self._job(job_id)
        self._host.reveal(on_answer, refuse_unknown(job_id) if job is None else view_of(job))

    def list(self, query: BatchListQuery, on_answer: OnAnswer[BatchPage]) -> None:
        """Tell jobs, newest first."""
        self._read_later(partial(self._list, query), on_answer)

    async def _list(self, query: BatchListQuery) -> BatchPage:
        rows = self._log.list_streams(StreamKind.JOB, query.before_stream_id, query.limit + 1)
        views: list[BatchView] = []
        for row in rows[: query.limit]:
            job = self._job(JobId(row.name))
            # It may have left the log since [KEEP-3], and another one may have its name.
            if job is not None and job.stream_id == row.stream_id:
                views.append(view_of(job))
            # One that is not in memory is read from the log.
            await asyncio.sleep(0)
        has_more = len(rows) > query.limit
        return BatchPage(tuple(views), rows[query.limit - 1].stream_id if has_more else 0)

    def _job(self, job_id: JobId) -> JobState | None:
        job = self._host.kernel.jobs.get(job_id)
        if job is not None:
            return job
        restored = self._host.streams.restored(StreamKind.JOB, job_id)
        return restored if isinstance(restored, JobState) else None

    # ---- what a job asks ----

    def filled(self, reach: ReachTarget) -> ReachTarget:
        """Add the call for this Flow, and whether the query still finds it, in the turn that decides [BATCH-3]."""
        run = self._host.runs.latest_run(reach.flow_id)
        is_matching = run is not None and self._finder.matches(reach.query, run) is True
        return msgspec.structs.replace(reach, call=call_of(reach), is_matching=is_matching)

    def travel(self, reach: ReachTarget, submit: Callable[[NoteTarget], None]) -> None:
        """Take a target back in time, and tell the job what became of it."""
        self._travels.begin(travel_of(reach), partial(_note_travel, reach, submit))


def _note_travel(reach: ReachTarget, submit: Callable[[NoteTarget], None], answer: Reply | Rejection) -> None:
    # Where the log failed or the server stops, the job asks again when it goes on.
    if not isinstance(answer, Rejection) or answer.code not in _PASSING:
        submit(NoteTarget(reach.stream_id, reach.position, problem_of(reach.flow_id, answer)))


_PASSING = frozenset((Code.SHUTTING_DOWN, Code.STORAGE_UNAVAILABLE, Code.DISK_FULL))


def _too_many(found: int) -> Rejection:
    return Rejection(
        Code.VALUE_TOO_LARGE,
        f"the query finds {found} Flows, a batch has {TARGETS_MAX} at most; narrow the query",
        {"what": "targets", "size": str(found), "limit": str(TARGETS_MAX)},
    )
