"""The Grafana dashboard of a server, from a table of panels; `make docs` writes it to docs/ [OBS-1].

Only what a query needs to be Grafana's own is spelled out: every selector is narrowed to the chosen server, and rates
are taken over the interval that suits the zoom.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

LEFT_OUT: Final[Mapping[str, str]] = {}
"""Metrics that are deliberately on no panel, and why."""

GRID_COLUMNS: Final = 24
PANEL_HEIGHT: Final = 8
NUMBER_HEIGHT: Final = 4

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Query(msgspec.Struct, frozen=True):
    """One expression, and how its series are called."""

    expression: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True):
    """One picture. The unit is Grafana's name of it."""

    title: str
    queries: tuple[Query, ...]
    meaning: str
    unit: str = "short"
    columns: int = 8
    is_number: bool = False
    """The newest value in large type instead of a curve."""


class Row(msgspec.Struct, frozen=True):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _now(metric: str, **labels: str) -> str:
    chosen = "".join(f', {name}="{value}"' for name, value in labels.items())
    return f'{metric}{{instance=~"$instance"{chosen}}}'


def _per_second(metric: str, *by: str, **labels: str) -> str:
    grouping = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouping} (rate({_now(metric, **labels)}[$__rate_interval]))"


def _quantile(share: float, histogram: str, *by: str, **labels: str) -> str:
    return f"histogram_quantile({share}, {_per_second(f'{histogram}_bucket', 'le', *by, **labels)})"


def _median_and_tail(histogram: str, **labels: str) -> tuple[Query, Query]:
    return Query(_quantile(0.5, histogram, **labels), "p50"), Query(_quantile(0.99, histogram, **labels), "p99")


def _mean(histogram: str) -> str:
    return f"{_per_second(f'{histogram}_sum')} / {_per_second(f'{histogram}_count')}"


def _number(title: str, metric: str, meaning: str, unit: str = "short", legend: str = "") -> Panel:
    return Panel(title, (Query(_now(metric), legend),), meaning, unit, columns=4, is_number=True)


DASHBOARD: Final[tuple[Row, ...]] = (
    Row(
        "Server",
        (
            _number("Serving", "dexd_serving", "1 while commands are taken; 0 calls for somebody.", "bool_yes_no"),
            _number("Release", "dexd_build_info", "What runs.", legend="{{version}}"),
            _number("Up for", "dexd_uptime_seconds", "Since the server answers.", "s"),
            _number("Open Flows", "dexd_open_runs", "Executions that are RUNNING."),
            _number("Workers", "dexd_workers", "Connected worker processes; without any nothing moves."),
            _number("Overdue", "dexd_deadline_overdue_seconds", "More than a second: the server cannot keep up.", "s"),
        ),
    ),
    Row(
        "Flows",
        (
            Panel(
                "Open Flows",
                (Query(_now("dexd_open_runs"), "open"), Query(_now("dexd_parked_runs"), "parked")),
                "Parked ones wait on disk and take no memory.",
            ),
            Panel(
                "Closed runs by status",
                (Query(_per_second("dexd_closed_runs_total", "status"), "{{status}}"),),
                "CONTINUED_AS_NEW is no end: the execution goes on in another run.",
                "ops",
            ),
            Panel(
                "Step attempts by outcome",
                (Query(_per_second("dexd_step_attempts_total", "method", "outcome"), "{{method}} {{outcome}}"),),
                "Failed attempts follow the retry policy of their Step.",
                "ops",
            ),
            Panel(
                "Events by type",
                (Query(f"topk(12, {_per_second('dexd_events_total', 'type')})", "{{type}}"),),
                "The twelve most frequent.",
                "ops",
                columns=24,
            ),
        ),
    ),
    Row(
        "Requests",
        (
            Panel(
                "Requests by method",
                (Query(_per_second("dexd_request_seconds_count", "method"), "{{method}}"),),
                "Of clients, be they unary or in a session.",
                "reqps",
            ),
            Panel(
                "Request duration, p99 by method",
                (Query(_quantile(0.99, "dexd_request_seconds", "method"), "{{method}}"),),
                "Until the answer is durable and on its way. WaitFor... are held as long as they ask for.",
                "s",
            ),
            Panel(
                "RPC duration",
                (
                    *_median_and_tail("dexd_rpc_seconds", outcome="answered"),
                    Query(_quantile(0.99, "dexd_rpc_seconds", outcome="refused"), "p99 refused"),
                ),
                "RPCs of Flows, with their wait for a worker.",
                "s",
            ),
        ),
    ),
    Row(
        "Dispatch",
        (
            Panel(
                "Waiting calls by queue",
                (Query(f"sum by (queue) ({_now('dexd_queue_waiting_calls')})", "{{queue}}"),),
                "Calls that want a worker. (sticky) wait for the worker that last served their Flow.",
            ),
            Panel(
                "Oldest wait by queue",
                (Query(_now("dexd_queue_oldest_wait_seconds"), "{{queue}}"),),
                "Beyond matching.dispatch_wait the attempt fails with NO_WORKER_AVAILABLE.",
                "s",
            ),
            Panel(
                "Wait for a worker",
                _median_and_tail("dexd_dispatch_wait_seconds"),
                "Of calls that were handed over.",
                "s",
            ),
            Panel(
                "Sticky share",
                (
                    Query(
                        f"{_per_second('dexd_dispatches_total', route='sticky')}"
                        f" / {_per_second('dexd_dispatches_total')}",
                        "sticky",
                    ),
                ),
                "Hand-overs to the worker that last served the Flow; the first one of a Flow has none.",
                "percentunit",
            ),
            Panel(
                "Declined offers by reason",
                (Query(_per_second("dexd_declines_total", "reason"), "{{reason}}"),),
                "NO_CAPACITY under load is usual; UNKNOWN_STEP means that workers of different versions run.",
                "ops",
            ),
            Panel(
                "Lost deliveries by reason",
                (Query(_per_second("dexd_deliveries_lost_total", "reason"), "{{reason}}"),),
                "Calls whose worker gave no result; they are delivered again.",
                "ops",
            ),
        ),
    ),
    Row(
        "Workers",
        (
            Panel(
                "Workers and sessions",
                (
                    Query(_now("dexd_workers"), "workers"),
                    Query(_now("dexd_sessions"), "sessions"),
                    Query(_now("dexd_workers_draining"), "draining"),
                ),
                "Draining workers are handed nothing more.",
            ),
            Panel(
                "Streams by state",
                (Query(f"sum by (queue, state) ({_now('dexd_streams')})", "{{queue}} {{state}}"),),
                "A queue without an idle stream hands out nothing at once.",
            ),
            Panel(
                "Load by worker",
                (
                    Query(
                        f"{_now('dexd_worker_running_calls')} / {_now('dexd_worker_max_concurrent_tasks')}",
                        "{{worker}}",
                    ),
                ),
                "Calls that a worker has, as a share of what it runs at once.",
                "percentunit",
            ),
        ),
    ),
    Row(
        "Log and time",
        (
            Panel(
                "Commit duration",
                _median_and_tail("dexd_commit_seconds"),
                "With fsync. What a client waits for at least.",
                "s",
            ),
            Panel(
                "Events per commit",
                (
                    Query(_mean("dexd_commit_events"), "mean"),
                    Query(_quantile(0.99, "dexd_commit_events"), "p99"),
                ),
                "Grows with the load by itself.",
            ),
            Panel(
                "Size of the log",
                (Query(_now("dexd_log_bytes"), "log"), Query(_now("dexd_wal_bytes"), "write-ahead file")),
                "A write-ahead file that only grows has no checkpoint: look for a reader that never ends.",
                "bytes",
            ),
            Panel(
                "Commands that wait",
                (Query(_now("dexd_mailbox_commands"), "commands"),),
                "For the engine. Thousands mean that it is the bottleneck.",
            ),
            Panel(
                "Overdue timers and deadlines",
                (Query(_now("dexd_deadlines_overdue"), "overdue"),),
                "Due, and not handled yet.",
            ),
            Panel(
                "How late the earliest one is",
                (Query(_now("dexd_deadline_overdue_seconds"), "late by"),),
                "Some milliseconds are usual.",
                "s",
            ),
        ),
    ),
    Row(
        "Start and retention",
        (
            Panel(
                "Start and replay",
                (
                    Query(_now("dexd_startup_seconds"), "start"),
                    Query(_now("dexd_replay_seconds"), "replay"),
                ),
                "Replay is part of the start.",
                "s",
            ),
            Panel(
                "Replayed runs",
                (Query(_now("dexd_replayed_runs"), "runs"),),
                "Parked ones are not read at a start.",
            ),
            Panel(
                "Removed by retention",
                (
                    Query(_per_second("dexd_removed_runs_total"), "runs"),
                    Query(_per_second("dexd_removed_schedules_and_jobs_total"), "schedules and jobs"),
                    Query(_per_second("dexd_archived_executions_total"), "archived executions"),
                ),
                "What left the log.",
                "ops",
            ),
            Panel(
                "Archive failures",
                (
                    Query(_per_second("dexd_archive_failures_total"), "failures"),
                    Query(_now("dexd_archive_postponed_executions"), "executions that stay for it"),
                ),
                "Executions stay until they can be archived.",
            ),
        ),
    ),
)


def dashboard_json() -> str:
    """The dashboard as Grafana imports it."""
    document = {
        "title": "dexd",
        "uid": "dexd",
        "tags": ["dexd"],
        "editable": True,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }
    return json.dumps(document, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance",
            "label": "Server",
            "type": "query",
            "datasource": SOURCE,
            "query": "label_values(dexd_build_info, instance)",
            "refresh": 2,
        },
    ]


def _panels() -> Iterator[dict[str, Any]]:
    """Rows below each other, panels side by side until the row is full."""
    number = top = 0
    for row in DASHBOARD:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": _place(0, top, 24, 1)}
        left, top = 0, top + 1
        height = NUMBER_HEIGHT if row.panels[0].is_number else PANEL_HEIGHT
        for panel in row.panels:
            if left + panel.columns > GRID_COLUMNS:
                left, top = 0, top + height
            number += 1
            yield _panel(number, panel, _place(left, top, panel.columns, height))
            left += panel.columns
        top += height


def _place(left: int, top: int, columns: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": columns, "h": height}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    # A panel that shows a label, as the release, shows the name of its series.
    text_mode = "name" if panel.queries[0].legend else "value"
    return {
        "id": number,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {"textMode": text_mode} if panel.is_number else {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": query.expression, "legendFormat": query.legend}
            for place, query in enumerate(panel.queries)
        ],
    }
