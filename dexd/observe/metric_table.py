"""THE table of metrics: names, labels and meaning; docs/metrics.md is generated from it [OBS-1].

Names and labels are relied on by dashboards. Label values are bounded: names that users choose are shown as they are up
to `SERIES_MAX` series of one metric, what is beyond is added up under `OTHER` [ARCH-8].
"""

from enum import StrEnum
from typing import Final

import msgspec

SERIES_MAX: Final = 2_000
"""Series of one metric; a scrape of all stays within a megabyte."""

OTHER: Final = "(other)"
"""Label value of what is beyond that."""


class Kind(StrEnum):
    """What the numbers of a metric mean."""

    COUNTER = "counter"
    """Grows from the start of the server on."""
    GAUGE = "gauge"
    """As it is now."""
    HISTOGRAM = "histogram"
    """Counts by class, with sum and count."""


class Metric(msgspec.Struct, frozen=True):
    """One row."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


BUILD_INFO = Metric("dexd_build_info", Kind.GAUGE, "Always 1; the label names the release.", ("version",))
UP_SECONDS = Metric("dexd_uptime_seconds", Kind.GAUGE, "Since the server answers.")
START_SECONDS = Metric("dexd_startup_seconds", Kind.GAUGE, "What the start took, recovery of all open runs included.")
REPLAY_SECONDS = Metric(
    "dexd_replay_seconds",
    Kind.GAUGE,
    "What it took to replay open runs from the log: at the start, or later when the log had refused to be written.",
)
REPLAYED_RUNS = Metric("dexd_replayed_runs", Kind.GAUGE, "Open runs that this replay brought into memory.")
SERVING = Metric(
    "dexd_serving", Kind.GAUGE, "1 while commands are taken, 0 while the log refuses writes or the server stops."
)
OPEN_RUNS = Metric("dexd_open_runs", Kind.GAUGE, "Executions that are RUNNING.")
PARKED_RUNS = Metric("dexd_parked_runs", Kind.GAUGE, "Those of them that wait on disk only.")
CLOSED_RUNS = Metric(
    "dexd_closed_runs_total",
    Kind.COUNTER,
    "Runs that have closed, by status; one that is CONTINUED_AS_NEW goes on in another.",
    ("status",),
)
STEP_ATTEMPTS = Metric(
    "dexd_step_attempts_total",
    Kind.COUNTER,
    "Attempts of Steps by method, wait_for or execute, and outcome, completed or failed.",
    ("method", "outcome"),
)
EVENTS = Metric(
    "dexd_events_total",
    Kind.COUNTER,
    "Committed events by type: FlowStarted counts started runs, StaleResultRejected results that came too late.",
    ("type",),
)
COMMIT_SECONDS = Metric(
    "dexd_commit_seconds", Kind.HISTOGRAM, "Duration of commits with their fsync, from hand-over to the writer."
)
COMMIT_EVENTS = Metric("dexd_commit_events", Kind.HISTOGRAM, "Events of each commit.")
WAL_BYTES = Metric("dexd_wal_bytes", Kind.GAUGE, "Size of the log's write-ahead file.")
LOG_BYTES = Metric("dexd_log_bytes", Kind.GAUGE, "Size of the log without its write-ahead file.")
MAILBOX = Metric("dexd_mailbox_commands", Kind.GAUGE, "Commands that wait for the engine.")
OVERDUE = Metric("dexd_deadline_overdue_seconds", Kind.GAUGE, "How late the earliest timer or deadline is; 0 if none.")
OVERDUE_COUNT = Metric(
    "dexd_deadlines_overdue", Kind.GAUGE, "Timers and deadlines that are due and were not handled yet."
)
REQUEST_SECONDS = Metric(
    "dexd_request_seconds",
    Kind.HISTOGRAM,
    "Duration of clients' requests by method, from arrival until the answer, commit included, is on its way; polls are"
    " held as long as they ask for. Of the requests that came in one message one is timed and stands for all.",
    ("method",),
)
RPC_SECONDS = Metric(
    "dexd_rpc_seconds",
    Kind.HISTOGRAM,
    "Duration of RPCs of Flows, the wait for a worker and repeated deliveries included and the commit of their effects"
    " not, by outcome: answered, refused, or abandoned by all callers.",
    ("outcome",),
)
WORKERS = Metric("dexd_workers", Kind.GAUGE, "Connected worker processes.")
SESSIONS = Metric("dexd_sessions", Kind.GAUGE, "Sessions of workers.")
STREAMS = Metric(
    "dexd_streams",
    Kind.GAUGE,
    "Logical streams by app worker ID, queue and state, idle or busy.",
    ("worker", "queue", "state"),
)
WORKER_RUNNING = Metric("dexd_worker_running_calls", Kind.GAUGE, "Calls that a worker has.", ("worker",))
WORKER_LIMIT = Metric("dexd_worker_max_concurrent_tasks", Kind.GAUGE, "Handlers a worker runs at once.", ("worker",))
WORKER_DRAINING = Metric("dexd_workers_draining", Kind.GAUGE, "Workers that are handed nothing more.")
QUEUE_WAITING = Metric(
    "dexd_queue_waiting_calls", Kind.GAUGE, "Calls that wait on a queue, by priority.", ("queue", "priority")
)
QUEUE_OLDEST = Metric(
    "dexd_queue_oldest_wait_seconds", Kind.GAUGE, "How long the oldest waiting call of a queue waits.", ("queue",)
)
DISPATCHES = Metric(
    "dexd_dispatches_total",
    Kind.COUNTER,
    "Calls handed over: sticky to the worker that last served their Flow, shared through the Flow type's queue."
    " The sticky hit ratio is sticky over both.",
    ("route",),
)
DISPATCH_WAIT = Metric(
    "dexd_dispatch_wait_seconds", Kind.HISTOGRAM, "How long calls waited for a worker before they were handed over."
)
DECLINES = Metric("dexd_declines_total", Kind.COUNTER, "Offers that workers declined, by reason.", ("reason",))
LOSSES = Metric(
    "dexd_deliveries_lost_total", Kind.COUNTER, "Deliveries whose worker gave no result, by reason.", ("reason",)
)

REMOVED_RUNS = Metric("dexd_removed_runs_total", Kind.COUNTER, "Closed runs deleted because their retention was over.")
REMOVED_STREAMS = Metric(
    "dexd_removed_schedules_and_jobs_total",
    Kind.COUNTER,
    "Deleted schedules and ended batch jobs removed because their retention was over.",
)
ARCHIVED = Metric("dexd_archived_executions_total", Kind.COUNTER, "Executions written to the archive before they went.")
ARCHIVE_FAILURES = Metric(
    "dexd_archive_failures_total", Kind.COUNTER, "Times that an execution could not be written to the archive."
)
POSTPONED = Metric(
    "dexd_archive_postponed_executions",
    Kind.GAUGE,
    "Executions that are kept beyond their retention because they could not be archived in the last sweep.",
)

METRIC_TABLE: Final[tuple[Metric, ...]] = (
    BUILD_INFO,
    UP_SECONDS,
    START_SECONDS,
    REPLAY_SECONDS,
    REPLAYED_RUNS,
    SERVING,
    OPEN_RUNS,
    PARKED_RUNS,
    CLOSED_RUNS,
    STEP_ATTEMPTS,
    EVENTS,
    COMMIT_SECONDS,
    COMMIT_EVENTS,
    WAL_BYTES,
    LOG_BYTES,
    MAILBOX,
    OVERDUE,
    OVERDUE_COUNT,
    REQUEST_SECONDS,
    RPC_SECONDS,
    WORKERS,
    SESSIONS,
    WORKER_DRAINING,
    STREAMS,
    WORKER_RUNNING,
    WORKER_LIMIT,
    QUEUE_WAITING,
    QUEUE_OLDEST,
    DISPATCHES,
    DISPATCH_WAIT,
    DECLINES,
    LOSSES,
    REMOVED_RUNS,
    REMOVED_STREAMS,
    ARCHIVED,
    ARCHIVE_FAILURES,
    POSTPONED,
)
