"""The numbers behind the table of metrics, read from live state and from counters at each scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from dexd.codec.matching_views import QueueView, WorkerView, queue_views, worker_views
from dexd.core.events import ExecuteCompleted, ExecuteFailed, WaitForCompleted, WaitForFailed
from dexd.core.matching.tally import WAIT_BOUNDS_MS, Tally
from dexd.core.values import FlowStatus
from dexd.engine.counters import BATCH_BOUNDS, COMMIT_BOUNDS_MS, EngineCounters
from dexd.engine.engine import Engine
from dexd.engine.ports import Clock
from dexd.engine.request_times import REQUEST_BOUNDS_MS, RequestTimes
from dexd.engine.retention import RetentionStatus
from dexd.observe import metric_table as t

Samples = Iterable[tuple[Sequence[str], float]]
"""Label values and number."""

Classed = tuple[Sequence[str], Sequence[int], float]
"""Label values, counts by class, and the sum of what was counted."""


class ServerFacts(msgspec.Struct, frozen=True):
    """What is known of the server beside its engine."""

    version: str
    startup_ms: int
    began_at: int
    """When it began to answer."""
    log_file: Path


_ATTEMPT_EVENTS = (
    ("wait_for", "completed", WaitForCompleted),
    ("wait_for", "failed", WaitForFailed),
    ("execute", "completed", ExecuteCompleted),
    ("execute", "failed", ExecuteFailed),
)
"""Each ends one attempt."""


class ServerCollector(Collector):
    """Reads everything on the event loop, between two commands."""

    def __init__(
        self, engine: Engine, clock: Clock, facts: ServerFacts, retention: RetentionStatus, times: RequestTimes
    ) -> None:
        self._engine = engine
        self._times = times
        self._retention = retention
        self._clock = clock
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        """Give all families in the order of the table."""
        now = self._clock.now()
        yield from self._server(now)
        yield from _work(self._engine.counters)
        yield from _commits(self._engine.counters)
        yield from self._engine_state(now)
        yield _requests(self._times)
        kernel = self._engine.kernel
        yield _rpcs(kernel.dispatcher.tally)
        yield from _workers(worker_views(kernel), sessions=kernel.session_count)
        yield from _queues(queue_views(kernel), now)
        yield from _dispatches(kernel.dispatcher.tally)
        yield from _removals(self._retention)

    def _server(self, now: int) -> Iterator[Family]:
        facts, health, counters = self._facts, self._engine.health, self._engine.counters
        yield _gauge(t.BUILD_INFO, [((facts.version,), 1)])
        yield _gauge(t.UP_SECONDS, [((), (now - facts.began_at) / 1_000)])
        yield _gauge(t.START_SECONDS, [((), facts.startup_ms / 1_000)])
        yield _gauge(t.REPLAY_SECONDS, [((), counters.replay_ms / 1_000)])
        yield _gauge(t.REPLAYED_RUNS, [((), counters.replayed_runs)])
        yield _gauge(t.SERVING, [((), health.condition == "SERVING")])
        yield _gauge(t.OPEN_RUNS, [((), health.open_runs)])
        yield _gauge(t.PARKED_RUNS, [((), health.parked_runs)])

    def _engine_state(self, now: int) -> Iterator[Family]:
        due, log_file = self._engine.next_deadline, self._facts.log_file
        yield _gauge(t.WAL_BYTES, [((), _size_of(log_file.with_name(f"{log_file.name}-wal")))])
        yield _gauge(t.LOG_BYTES, [((), _size_of(log_file))])
        yield _gauge(t.MAILBOX, [((), self._engine.mailbox_length)])
        yield _gauge(t.OVERDUE, [((), 0 if due is None else max(0, now - due) / 1_000)])
        yield _gauge(t.OVERDUE_COUNT, [((), self._engine.health.overdue)])


def create_exposition(
    engine: Engine, clock: Clock, facts: ServerFacts, retention: RetentionStatus, times: RequestTimes
) -> Callable[[], bytes]:
    """Give what renders all metrics in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServerCollector(engine, clock, facts, retention, times))
    return lambda: generate_latest(registry)


def _removals(status: RetentionStatus) -> Iterator[Family]:
    yield _counter(t.REMOVED_RUNS, [((), status.removed_runs)])
    yield _counter(t.REMOVED_STREAMS, [((), status.removed_streams)])
    yield _counter(t.ARCHIVED, [((), status.archived_executions)])
    yield _counter(t.ARCHIVE_FAILURES, [((), status.archive_failures)])
    yield _gauge(t.POSTPONED, [((), status.postponed_executions)])


def _work(counters: EngineCounters) -> Iterator[Family]:
    closed = (status for status in FlowStatus if status is not FlowStatus.RUNNING)
    yield _counter(t.CLOSED_RUNS, (((status.name,), counters.closed[status]) for status in closed))
    events = counters.events
    attempts = (((method, outcome), events[kind.__name__]) for method, outcome, kind in _ATTEMPT_EVENTS)
    yield _counter(t.STEP_ATTEMPTS, attempts)
    yield _counter(t.EVENTS, _by_label(events))


def _commits(counters: EngineCounters) -> Iterator[Family]:
    took = ((), counters.commit_classes, counters.commit_ms / 1_000)
    yield _histogram(t.COMMIT_SECONDS, _seconds(COMMIT_BOUNDS_MS), [took])
    sizes = ((), counters.size_classes, sum(counters.events.values()))
    yield _histogram(t.COMMIT_EVENTS, BATCH_BOUNDS, [sizes])


def _requests(times: RequestTimes) -> Family:
    by_method = [*times.by_method.items(), (t.OTHER, times.of_unknown)]
    series = (((method,), took.classes, took.total_ms / 1_000) for method, took in by_method if any(took.classes))
    return _histogram(t.REQUEST_SECONDS, _seconds(REQUEST_BOUNDS_MS), series)


def _rpcs(tally: Tally) -> Family:
    series = (((outcome,), took.classes, took.total_ms / 1_000) for outcome, took in tally.rpcs.items())
    return _histogram(t.RPC_SECONDS, _seconds(WAIT_BOUNDS_MS), series)


def _workers(views: Sequence[WorkerView], *, sessions: int) -> Iterator[Family]:
    yield _gauge(t.WORKERS, [((), len(views))])
    yield _gauge(t.SESSIONS, [((), sessions)])
    yield _gauge(t.WORKER_DRAINING, [((), sum(view.is_draining for view in views))])
    yield _gauge(t.STREAMS, _streams(views))
    yield _gauge(t.WORKER_RUNNING, (((view.worker_id,), view.running) for view in views))
    yield _gauge(t.WORKER_LIMIT, (((view.worker_id,), view.max_concurrent_tasks) for view in views))


def _streams(views: Iterable[WorkerView]) -> Samples:
    for view in views:
        for queue in view.queues:
            yield (view.worker_id, queue.name, "idle"), queue.idle
            yield (view.worker_id, queue.name, "busy"), queue.busy


def _queues(views: Sequence[QueueView], now: int) -> Iterator[Family]:
    # Queues named after workers come and go with processes; theirs are added up, as "one worker's queue" says little.
    waiting: dict[tuple[str, str], int] = {}
    oldest: dict[tuple[str], float] = {}
    for view in views:
        name = "(sticky)" if view.is_worker_queue else view.name
        for priority, count in view.waiting_by_priority.items():
            waiting[name, str(priority)] = waiting.get((name, str(priority)), 0) + count
        waited = (now - view.oldest_since) / 1_000 if view.waiting else 0.0
        oldest[name,] = max(oldest.get((name,), 0.0), waited)
    yield _gauge(t.QUEUE_WAITING, waiting.items())
    yield _gauge(t.QUEUE_OLDEST, oldest.items())


def _dispatches(tally: Tally) -> Iterator[Family]:
    yield _counter(t.DISPATCHES, [(("sticky",), tally.sticky), (("shared",), tally.shared)])
    at_once = tally.sticky + tally.shared - sum(tally.waits)
    waits = ((), [at_once + tally.waits[0], *tally.waits[1:]], tally.waited_ms / 1_000)
    yield _histogram(t.DISPATCH_WAIT, _seconds(WAIT_BOUNDS_MS), [waits])
    yield _counter(t.DECLINES, _by_label(tally.declined))
    yield _counter(t.LOSSES, _by_label(tally.lost))


def _by_label(counts: Mapping[str, int]) -> Samples:
    return (((name,), count) for name, count in sorted(counts.items()))


def _gauge(metric: t.Metric, samples: Samples) -> Family:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, number in _bounded(metric, samples):
        family.add_metric(labels, number)
    return family


def _counter(metric: t.Metric, samples: Samples) -> Family:
    family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, number in _bounded(metric, samples):
        family.add_metric(labels, number)
    return family


def _histogram(metric: t.Metric, bounds: Sequence[float], series: Iterable[Classed]) -> Family:
    """Labels bounded by the code only, so that no series need to be added up."""
    names = [*map(str, map(float, bounds)), "+Inf"]
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, classes, total in series:
        family.add_metric(labels, list(zip(names, accumulate(classes), strict=True)), total)
    return family


def _seconds(bounds_ms: Sequence[float]) -> list[float]:
    return [bound / 1_000 for bound in bounds_ms]


def _bounded(metric: t.Metric, samples: Samples) -> Samples:
    """Let the first series through, and add the others up [ARCH-8]."""
    rest: dict[str, float] = {}
    for number, (labels, value) in enumerate(samples):
        if number < t.SERIES_MAX:
            yield labels, value
        else:
            # The last label has few values, as a state or a priority; a lone one is the name itself.
            kept = labels[-1] if len(metric.labels) > 1 else t.OTHER
            rest[kept] = rest.get(kept, 0) + value
    for kept, value in rest.items():
        yield (*[t.OTHER] * (len(metric.labels) - 1), kept), value


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
