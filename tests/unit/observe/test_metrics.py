"""Metrics: the endpoint, and that every family stands in the table and the other way round [OBS-1]."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from dexd.core import commands as c
from dexd.core.ids import CallerId, FlowId, RequestId, WorkerId
from dexd.core.matching.tally import WAIT_BOUNDS_MS
from dexd.core.values import DecisionKind, Failure, Method, Standing, StepPlan, StopType
from dexd.engine.request_times import RequestTimes
from dexd.engine.retention import RetentionStatus
from dexd.errors import ListenError
from dexd.log.memory_log import MemoryLog
from dexd.observe.metric_table import METRIC_TABLE, OTHER, QUEUE_WAITING, SERIES_MAX, WORKER_RUNNING, Kind
from dexd.observe.metrics import ServerFacts, _bounded, create_exposition
from dexd.observe.metrics_listener import CONNECTIONS_MAX, HEAD_BYTES_MAX, MetricsListener
from dexd.settings import ListenAddress
from tests.unit.engine.rig import BEGUN_AT, Answers, Rig, stop_command


def exposition(
    rig: Rig,
    log_file: Path = Path("absent"),
    status: RetentionStatus | None = None,
    times: RequestTimes | None = None,
) -> str:
    facts = ServerFacts("1.2.3", 120, BEGUN_AT - 5_000, log_file)
    render = create_exposition(rig.engine, rig.clock, facts, status or RetentionStatus(), times or RequestTimes([]))
    return render().decode()


def scrape(
    rig: Rig, log_file: Path = Path("absent"), times: RequestTimes | None = None
) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name, then by label values in the order of the labels' names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(exposition(rig, log_file, times=times)):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def rpc_command(request_id: str, caller: CallerId) -> c.InvokeRpc:
    expires_at = BEGUN_AT + 60_000
    return c.InvokeRpc(
        caller, FlowId("f"), None, "get", b"", RequestId(request_id), request_id.encode(), 10_000, expires_at
    )


async def test_every_metric_of_the_table_is_served_and_no_other() -> None:
    families = list(text_string_to_metric_families(exposition(Rig())))
    served = {(f"{family.name}_total" if family.type == "counter" else family.name, family.type) for family in families}
    assert served == {(metric.name, metric.kind.value) for metric in METRIC_TABLE}
    assert {family.documentation for family in families} == {metric.meaning for metric in METRIC_TABLE}


async def test_keep_2_removals_and_failures_of_the_archive_are_shown() -> None:
    """[KEEP-2, OBS-1]"""
    status = RetentionStatus()
    status.removed_runs, status.removed_streams, status.archived_executions = 5, 3, 4
    status.archive_failures, status.postponed_executions = 3, 2
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(exposition(Rig(), status=status))
        for sample in family.samples
    }
    assert samples["dexd_removed_runs_total"] == 5
    assert samples["dexd_removed_schedules_and_jobs_total"] == 3
    assert samples["dexd_archived_executions_total"] == 4
    assert samples["dexd_archive_failures_total"] == 3
    assert samples["dexd_archive_postponed_executions"] == 2


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert len({metric.name for metric in METRIC_TABLE}) == len(METRIC_TABLE)
    for metric in METRIC_TABLE:
        assert metric.name.startswith("dexd_")
        assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER)
        assert metric.meaning.endswith(".")


async def test_server_and_commits_are_measured(tmp_path: Path) -> None:
    rig = Rig()
    log_file = tmp_path / "log.db"
    log_file.write_bytes(b"x" * 8_192)
    (tmp_path / "log.db-wal").write_bytes(b"x" * 4_096)
    await rig.start("a")
    await rig.start("b")
    found = scrape(rig, log_file)
    assert found["dexd_build_info"] == {("1.2.3",): 1}
    assert found["dexd_uptime_seconds"] == {(): 5}
    assert found["dexd_startup_seconds"] == {(): 0.12}
    assert found["dexd_serving"] == {(): 1}
    assert found["dexd_open_runs"] == {(): 2}
    assert found["dexd_wal_bytes"] == {(): 4_096}
    assert found["dexd_log_bytes"] == {(): 8_192}
    assert found["dexd_events_total"] == {("FlowStarted",): 2, ("StepScheduled",): 2}
    assert found["dexd_commit_events_sum"] == {(): 4}
    assert found["dexd_commit_events_count"] == {(): 2}
    assert found["dexd_commit_seconds_count"] == {(): 2}
    assert found["dexd_commit_seconds_bucket"]["+Inf",] == 2
    assert scrape(rig)["dexd_wal_bytes"] == {(): 0}


async def test_workers_queues_and_dispatches_are_measured() -> None:
    rig = Rig()
    await rig.start("waited", standing=Standing(1))
    await rig.advance(400)
    worker = await rig.worker("w1", streams=1)
    await rig.start("kept", standing=Standing(2))
    await rig.advance(2_000)
    found = scrape(rig)
    assert found["dexd_workers"] == found["dexd_sessions"] == {(): 1}
    assert found["dexd_streams"] == {("Order", "idle", "w1"): 0, ("Order", "busy", "w1"): 1}
    assert found["dexd_worker_running_calls"] == {("w1",): 1}
    assert found["dexd_worker_max_concurrent_tasks"] == {("w1",): 8}
    assert found["dexd_queue_waiting_calls"] == {("2", "Order"): 1}
    assert found["dexd_queue_oldest_wait_seconds"] == {("Order",): 2}
    assert found["dexd_dispatches_total"] == {("sticky",): 0, ("shared",): 1}
    assert found["dexd_dispatch_wait_seconds_sum"] == {(): 0.4}
    assert found["dexd_dispatch_wait_seconds_bucket"]["0.25",] == 0
    assert found["dexd_dispatch_wait_seconds_bucket"]["0.5",] == 1

    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"1", has_wait_for=False))
    await rig.decided()
    worker.say(c.DeclineCall(worker.session, worker.calls[1].stream, worker.calls[1].call.token, "NO_CAPACITY"))
    await rig.decided()
    await rig.answer(c.DrainWorker(WorkerId("w1")))
    found = scrape(rig)
    assert found["dexd_declines_total"] == {("NO_CAPACITY",): 1}
    assert found["dexd_workers_draining"] == {(): 1}
    assert sum(found["dexd_dispatches_total"].values()) == 2


async def test_runs_and_attempts_are_counted_by_how_they_ended() -> None:
    """[OBS-1]"""
    rig = Rig()
    worker = await rig.worker("w1", streams=3)
    for flow_id in ("done", "failed", "canceled"):
        await rig.start(flow_id)
    done, failed, _ = worker.calls
    worker.decide(done, DecisionKind.FORCE_COMPLETE, b"1")
    worker.say(c.FailCall(worker.session, failed.stream, failed.call.token, Failure("E", "no", non_retryable=True)))
    await rig.answer(stop_command("canceled", StopType.CANCEL))
    found = scrape(rig)
    assert found["dexd_closed_runs_total"] == {
        ("COMPLETED",): 1,
        ("FAILED",): 1,
        ("CANCELED",): 1,
        ("TERMINATED",): 0,
        ("CONTINUED_AS_NEW",): 0,
    }
    assert found["dexd_step_attempts_total"] == {
        ("wait_for", "completed"): 0,
        ("wait_for", "failed"): 0,
        ("execute", "completed"): 1,
        ("execute", "failed"): 1,
    }
    assert found["dexd_open_runs"] == {(): 0}


async def test_replay_is_measured_at_every_recovery() -> None:
    """[OBS-1]"""
    log = MemoryLog()
    first = Rig(log)
    await first.start("a")
    await first.start("b")
    assert scrape(first)["dexd_replayed_runs"] == {(): 0}
    found = scrape(Rig(log))
    assert found["dexd_replayed_runs"] == {(): 2}
    assert found["dexd_replay_seconds"][()] > 0


async def test_requests_are_shown_by_method_in_seconds() -> None:
    """[OBS-1] Methods that nobody called yet have no series."""
    times = RequestTimes(["StartFlow", "StopFlow"])
    times.by_method["StartFlow"].add(2.0, 9)
    times.of_unknown.add(0.5, 1)
    found = scrape(Rig(), times=times)
    assert found["dexd_request_seconds_count"] == {("StartFlow",): 9, (OTHER,): 1}
    assert found["dexd_request_seconds_sum"]["StartFlow",] == pytest.approx(0.018)
    buckets = found["dexd_request_seconds_bucket"]
    assert [buckets[bound, "StartFlow"] for bound in ("0.001", "0.0025", "+Inf")] == [0, 9, 9]


async def test_rpcs_are_measured_from_their_callers_question_to_the_outcome() -> None:
    """[OBS-1] The wait for a worker is part of it."""
    rig = Rig()
    await rig.start()
    *_, abandon = [rig.engine.invoke(partial(rpc_command, f"rpc-{number}"), Answers()) for number in range(3)]
    await rig.decided()
    abandon()
    await rig.decided()
    await rig.advance(1_500)
    worker = await rig.worker("w1", streams=3)
    rpcs = [call for call in worker.calls if call.call.token.method is Method.RPC]
    worker.complete(rpcs[0], output=b"1")
    worker.say(c.FailCall(worker.session, rpcs[1].stream, rpcs[1].call.token, Failure("E", "no")))
    await rig.decided()
    found = scrape(rig)
    assert found["dexd_rpc_seconds_count"] == {("answered",): 1, ("refused",): 1, ("abandoned",): 1}
    assert found["dexd_rpc_seconds_sum"] == {("answered",): 1.5, ("refused",): 1.5, ("abandoned",): 0}
    assert found["dexd_rpc_seconds_bucket"]["1.0", "answered"] == 0
    assert found["dexd_rpc_seconds_bucket"]["2.5", "answered"] == 1


async def test_lost_deliveries_are_counted_by_reason() -> None:
    rig = Rig()
    await rig.worker("w1")
    await rig.start()
    await rig.advance(5_000)
    assert scrape(rig)["dexd_deliveries_lost_total"] == {("NOT_ACCEPTED",): 1}


async def test_deadline_that_nobody_handled_is_overdue() -> None:
    rig = Rig()
    await rig.start()
    rig.clock.at += 13_000  # and no alarm rings
    found = scrape(rig)
    assert found["dexd_deadline_overdue_seconds"] == {(): 3}
    assert found["dexd_deadlines_overdue"] == {(): 1}


def test_series_beyond_the_bound_are_added_up() -> None:
    """[ARCH-8]"""
    by_worker = [((f"w{number}",), 2.0) for number in range(SERIES_MAX + 5)]
    assert list(_bounded(WORKER_RUNNING, by_worker))[SERIES_MAX:] == [((OTHER,), 10.0)]
    by_queue = [((f"q{number}", str(1 + number % 2)), 1.0) for number in range(SERIES_MAX + 3)]
    assert list(_bounded(QUEUE_WAITING, by_queue))[SERIES_MAX:] == [((OTHER, "1"), 2.0), ((OTHER, "2"), 1.0)]


def test_waits_are_classed_in_ascending_order() -> None:
    assert list(WAIT_BOUNDS_MS) == sorted(WAIT_BOUNDS_MS)


# ---- the endpoint -----------------------------------------------------------------------------------------------

LOOPBACK = ListenAddress("127.0.0.1", 0)


async def ask(address: ListenAddress, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "begins", "ends"),
    [
        (b"GET /metrics HTTP/1.1", b"HTTP/1.1 200 OK", b"\r\n\r\nnumbers"),
        (b"GET /metrics?x=1 HTTP/1.0", b"HTTP/1.1 200 OK", b"numbers"),
        (b"HEAD /metrics HTTP/1.1", b"HTTP/1.1 200 OK", b"nosniff\r\n\r\n"),
        (b"POST /metrics HTTP/1.1", b"HTTP/1.1 405", b"only GET is served\n"),
        (b"GET / HTTP/1.1", b"HTTP/1.1 404", b"metrics are under /metrics\n"),
        (b"nonsense", b"HTTP/1.1 404", b"\n"),
    ],
)
async def test_one_path_is_served_for_get(request_line: bytes, begins: bytes, ends: bytes) -> None:
    listener = MetricsListener(lambda: b"numbers")
    address = await listener.start(LOOPBACK)
    answer = await ask(address, request_line + b"\r\nHost: x\r\n\r\n")
    assert answer.startswith(begins)
    assert answer.endswith(ends)
    await listener.stop()


async def test_head_that_is_too_long_and_connections_beyond_the_bound_are_closed() -> None:
    """[ARCH-8]"""
    listener = MetricsListener(lambda: b"numbers")
    address = await listener.start(LOOPBACK)
    assert await ask(address, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2 * HEAD_BYTES_MAX) == b""
    waiting = [await asyncio.open_connection(address.host, address.port) for _ in range(CONNECTIONS_MAX)]
    reader, writer = await asyncio.open_connection(address.host, address.port)
    assert await reader.read() == b""
    for _, open_writer in [*waiting, (reader, writer)]:
        open_writer.close()
    await listener.stop()


async def test_default_port_moves_when_it_is_taken_and_an_explicit_one_is_an_error() -> None:
    """[SURF-11]"""
    first, second = MetricsListener(lambda: b""), MetricsListener(lambda: b"")
    taken = await first.start(LOOPBACK)
    with structlog.testing.capture_logs() as logs:
        moved = await second.start(ListenAddress(taken.host, taken.port, may_move=True))
    assert moved.port > taken.port
    assert [(line["event"], line["wanted"], line["listening"]) for line in logs] == [
        ("metrics_port_taken", taken.port, moved.port)
    ]
    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{taken.port} for metrics"):
        await MetricsListener(lambda: b"").start(taken)
    await first.stop()
    await second.stop()
