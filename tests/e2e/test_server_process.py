"""The server as a process: its first line, its exit codes, its end [SURF-10..13, DRAIN-4, ARCH-6, SEC-1]."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from tests.support.api_calls import describe, fresh, start
from tests.support.api_client import ApiClient, RefusedError, hello
from tests.support.server_process import SERVE, ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data_dir: Path) -> Iterator[ServerProcess]:
    with ServerProcess(data_dir) as process:
        yield process


def dexd(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dexd", *arguments], cwd=cwd, capture_output=True, text=True, timeout=30, check=False
    )


# ---- ready -------------------------------------------------------------------------------------------------------


def test_first_line_on_stdout_says_where_the_server_is_ready(server: ServerProcess, data_dir: Path) -> None:
    """[SURF-11]"""
    ready = server.ready
    assert list(ready) == ["event", "address", "data_dir", "pid", "recovered_runs", "startup_ms"]
    assert (ready["event"], ready["data_dir"], ready["pid"]) == ("server_ready", str(data_dir), server.pid)
    assert ready["recovered_runs"] == 0
    assert ready["startup_ms"] > 0
    host, port = ready["address"].split(":")
    with socket.create_connection((host, int(port))):
        pass


def test_restarted_server_says_how_many_runs_it_recovered(data_dir: Path) -> None:
    """[SURF-11, INV-1]"""
    with ServerProcess(data_dir) as first, ApiClient(first.address) as api:
        run_ids = {flow_id: start(api, flow_id) for flow_id in (fresh("kept"), fresh("kept"))}
        first.kill()
    with ServerProcess(data_dir) as second, ApiClient(second.address) as api:
        assert second.ready["recovered_runs"] == 2
        assert {flow_id: describe(api, flow_id).run_id for flow_id in run_ids} == run_ids


def test_logs_go_to_stderr_as_json_when_asked(server: ServerProcess) -> None:
    """[SURF-11, OBS-3]"""
    server.terminate()
    assert server.wait() == 0
    events = server.log_events()
    assert {"server_ready", "server_stopped"} <= {event["event"] for event in events}
    assert all({"event", "level", "timestamp"} <= set(event) for event in events)


def test_address_that_others_can_reach_is_warned_about(data_dir: Path) -> None:
    """[SEC-1]"""
    with ServerProcess(data_dir, listen="0.0.0.0:0") as process:
        warnings = [event for event in process.log_events() if event["level"] == "warning"]
    assert [warning["event"] for warning in warnings] == ["listening_without_protection"]


def test_loopback_address_is_not_warned_about(server: ServerProcess) -> None:
    """[SEC-1]"""
    assert [event for event in server.log_events() if event["level"] == "warning"] == []


# ---- exit codes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_the_server_exits_with_0(server: ServerProcess, stop_signal: signal.Signals) -> None:
    """[SURF-12]"""
    os.kill(server.pid, stop_signal)
    assert server.wait() == 0


def test_a_log_that_cannot_be_written_hinders_neither_service_nor_end(data_dir: Path) -> None:
    """[ARCH-4, SURF-12] Its lines go to a disk that is full, or to a pipe that nobody reads any more."""
    command = ("sh", "-c", 'exec "$@" 2>/dev/full', "sh", *SERVE)
    with ServerProcess(data_dir, command=command) as server, ApiClient(server.address) as api:
        worker = api.worker_session()
        worker.send(hello("w"))
        worker.next_frame(frames.Welcome)
        start(api, fresh("unlogged"))
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait() == 0


def test_wrong_configuration_exits_with_2_and_names_the_fault(tmp_path: Path) -> None:
    """[SURF-12, SURF-13]"""
    ended = dexd("serve", "--set", "matching.ping_intervall=1s", "--data-dir", "data", cwd=tmp_path)
    assert ended.returncode == 2
    assert "matching.ping_interval?" in ended.stderr
    assert ended.stdout == ""
    assert not (tmp_path / "data").exists()


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    """[SURF-12]"""
    assert dexd("serve", "--no-such-flag", cwd=tmp_path).returncode == 2


def test_address_in_use_exits_with_2(server: ServerProcess, tmp_path: Path) -> None:
    """[SURF-12]; two servers never share a port."""
    ended = dexd("serve", "--listen", server.address, "--data-dir", "other", cwd=tmp_path)
    assert ended.returncode == 2
    assert server.address in ended.stderr


def test_second_server_on_a_data_directory_exits_with_3_and_names_the_owner(
    server: ServerProcess, data_dir: Path, tmp_path: Path
) -> None:
    """[ARCH-6, SURF-12]"""
    ended = dexd("serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), cwd=tmp_path)
    assert ended.returncode == 3
    assert str(server.pid) in ended.stderr
    with ApiClient(server.address) as api:
        start(api, fresh("undisturbed"))


def test_lock_of_a_killed_server_does_not_block_the_next_one(data_dir: Path) -> None:
    """[ARCH-6]"""
    with ServerProcess(data_dir) as first:
        first.kill()
    with ServerProcess(data_dir) as second:
        assert second.ready["event"] == "server_ready"


def test_damaged_log_exits_with_4(data_dir: Path) -> None:
    """[SURF-12]"""
    with ServerProcess(data_dir) as process:
        process.terminate()
        process.wait()
    (database,) = data_dir.rglob("*.db")
    database.write_bytes(b"this is no database" * 1_000)
    with ServerProcess(data_dir) as process:
        assert process.ready == {}
        assert process.wait() == 4


def test_storage_that_fails_while_running_exits_with_5_and_loses_nothing_acknowledged(data_dir: Path) -> None:
    """[SURF-12, ARCH-4]: a file size limit stands for a broken disk, which is an I/O error too."""
    limited = ("bash", "-c", 'ulimit -f 1024; exec "$@"', "bash", *SERVE)
    acknowledged: list[str] = []
    refusal: RefusedError | None = None
    with ServerProcess(data_dir, command=limited) as server, ApiClient(server.address) as api:
        while refusal is None:
            flow_id = fresh("large")
            try:
                start(api, flow_id, input=b"1" * 60_000)
            except RefusedError as error:
                refusal = error
            else:
                acknowledged.append(flow_id)
        assert refusal.code == "UNAVAILABLE"
        assert server.wait() == 5
    assert acknowledged
    with ServerProcess(data_dir) as server, ApiClient(server.address) as api:
        assert {describe(api, flow_id).status for flow_id in acknowledged} == {"RUNNING"}


# ---- the end -----------------------------------------------------------------------------------------------------


def test_sigterm_answers_every_waiting_call(server: ServerProcess) -> None:
    """[DRAIN-4]: unary and session calls, RPCs, watches; the client is told to come back, and nothing hangs."""
    with ApiClient(server.address) as api:
        flow_id = fresh("waiting")
        start(api, flow_id)
        session = api.client_session()
        wait = pb.WaitForFlowRequest(flow_id=flow_id, wait_ms=60_000).SerializeToString()
        rpc = pb.InvokeRpcRequest(flow_id=flow_id, name="peek").SerializeToString()
        session.send(
            pb.ClientRequest(id=1, method="WaitForFlow", body=wait),
            pb.ClientRequest(id=2, method="InvokeRpc", body=rpc),
        )
        unary: grpc.UnaryUnaryMultiCallable[bytes, bytes] = api.channel.unary_unary("/dexpb.v1.FlowService/WaitForFlow")
        waiting = unary.future(wait, timeout=30)
        events = api.stream("WatchHistory", pb.WatchHistoryRequest(flow_id=flow_id), pb.HistoryEvent)
        next(events)
        # Answered only after the waits before it were taken.
        session.send(pb.ClientRequest(id=3, method="DescribeFlow", body=wait))
        session.replies(1)

        began = time.monotonic()
        server.terminate()
        replies = session.replies(2)
        assert {reply.code for reply in replies.values()} == {grpc.StatusCode.UNAVAILABLE.value[0]}
        assert waiting.exception() is not None
        assert waiting.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(RefusedError) as watched:
            list(events)
        assert watched.value.reason == "SHUTTING_DOWN"
        with pytest.raises(RefusedError) as ended:
            session.read_bytes()
        assert (ended.value.code, ended.value.reason) == ("UNAVAILABLE", "SHUTTING_DOWN")
        assert server.wait() == 0
        assert time.monotonic() - began < 5


def test_sigterm_asks_workers_to_reconnect_and_the_next_server_takes_their_results(
    server: ServerProcess, data_dir: Path
) -> None:
    """[DRAIN-3, DRAIN-4, WIRE-10]"""
    flow = frames.FlowDescriptor("Order", frames.StepDescriptor("Begin", has_wait_for=False), ("Begin",))
    flow_id = fresh("running")
    with ApiClient(server.address) as api:
        worker = api.worker_session()
        worker.send(hello("w", flow), frames.OpenStream(1, "Order"))
        worker.next_frame(frames.StreamOpened)
        start(api, flow_id)
        assign = worker.next_frame(frames.Assign)
        server.terminate()
        worker.next_frame(frames.Reconnect)
        with pytest.raises(RefusedError) as ended:
            worker.next_frame(frames.Ack)
        assert (ended.value.code, ended.value.reason) == ("UNAVAILABLE", "SHUTTING_DOWN")
        assert server.wait() == 0
    with ServerProcess(data_dir) as restarted, ApiClient(restarted.address) as api:
        worker = api.worker_session()
        running = (frames.RunningCall(1, "Order", assign.token),)
        done = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b"1")
        worker.send(hello("w", flow, running=running), frames.Output(1, assign.token, decision=done))
        assert worker.next_frame(frames.Ack).accepted
        worker.finish()
        assert describe(api, flow_id).status == "COMPLETED"


def test_worker_that_does_not_leave_holds_the_server_no_longer_than_the_grace(data_dir: Path) -> None:
    """[DRAIN-4]"""
    with ServerProcess(data_dir, "--set", "api.shutdown_grace=2s") as server, ApiClient(server.address) as api:
        worker = api.worker_session()
        worker.send(hello("stays"))
        worker.next_frame(frames.Welcome)
        began = time.monotonic()
        server.terminate()
        assert server.wait() == 0
        assert time.monotonic() - began < 2.5


def test_health_turns_to_not_serving_before_the_server_goes(server: ServerProcess) -> None:
    """[DRAIN-4, OBS-4]"""
    with ApiClient(server.address) as api:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = api.channel.unary_stream("/grpc.health.v1.Health/Watch")
        began = time.monotonic()
        watching = watch(health_pb2.HealthCheckRequest().SerializeToString(), timeout=20)
        statuses = (health_pb2.HealthCheckResponse.FromString(message).status for message in watching)
        assert next(statuses) == health_pb2.HealthCheckResponse.SERVING
        server.terminate()
        assert next(statuses) == health_pb2.HealthCheckResponse.NOT_SERVING
        assert server.wait() == 0
        # The watch itself does not hold the server up.
        assert time.monotonic() - began < 5


# ---- other commands ----------------------------------------------------------------------------------------------


def test_config_show_prints_values_and_their_origin(tmp_path: Path) -> None:
    """[SURF-13]"""
    (tmp_path / "dexd.toml").write_text("[store]\ncommit_batch_max = 7\n")
    shown = dexd("config", "show", "--set", "flow.rpc_timeout=1s", cwd=tmp_path)
    assert shown.returncode == 0
    assert "commit_batch_max = 7  # dexd.toml" in shown.stdout
    assert 'rpc_timeout = "1s"  # --set' in shown.stdout
    assert 'listen = "127.0.0.1:8801"  # default' in shown.stdout


def test_config_check_lists_every_fault(tmp_path: Path) -> None:
    """[SURF-13]"""
    checked = dexd("config", "check", "--set", "flow.rpc_timeout=1", "--set", "flow.rpc_timeou=1s", cwd=tmp_path)
    assert checked.returncode == 2
    assert len(checked.stderr.splitlines()) == 2
    assert dexd("config", "check", cwd=tmp_path).returncode == 0


def test_version_is_one_line(tmp_path: Path) -> None:
    """[SURF-10]"""
    for argument in ("version", "--version"):
        shown = dexd(argument, cwd=tmp_path)
        assert (shown.returncode, shown.stdout) == (0, f"{version('dexd')}\n")
