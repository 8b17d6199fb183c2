"""`dex` against a running server with the example Flows [SURF-20, SURF-21, SURF-23]."""

import hashlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dextools.cli.app import build_app
from dextools.local_processes import start_worker
from tests.support.eventually import eventually_in_thread
from tests.support.server_process import ServerProcess

ORDER = '{"order_id": "o", "customer": "Ada", "amount": 4990, "address": "Main Street 1"}'

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dex")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server and worker for all tests here; each test uses its own Flow IDs."""
    directory = tmp_path_factory.mktemp("cli")
    with ServerProcess(directory / "data") as process, start_worker(process.address, directory / "worker.log"):
        yield process


class Dex:
    """Runs `dex` in this process with `--json` and remembers how it ended."""

    def __init__(self, server: str) -> None:
        self._environ = {"DEX_SERVER": server}
        self.code = 0
        self.stderr = ""

    def __call__(self, *arguments: str, given: str | None = None) -> Any:
        stdout = self.run("--json", *arguments, given=given)
        return json.loads(stdout) if stdout else None

    def run(self, *arguments: str, given: str | None = None) -> str:
        result = CliRunner().invoke(build_app(), arguments, input=given, env=self._environ)
        self.code, self.stderr = result.exit_code, result.stderr
        return result.stdout

    @property
    def error(self) -> dict[str, Any]:
        """What the last call said on stderr."""
        error: dict[str, Any] = json.loads(self.stderr)["error"]
        return error


@pytest.fixture
def dex(server: ServerProcess) -> Dex:
    return Dex(server.address)


ODD_IDS = ["a/b", "../x", "a%2Fb", "\u00e9", "e\u0301", "\U0001f98a", "'"]


def test_row_36_odd_ids_are_distinct_and_work_in_every_verb(dex: Dex) -> None:
    """[ID-2] Acceptance row 36, but for search and pages."""
    runs = {}
    for number, flow_id in enumerate(ODD_IDS):
        given = ORDER.replace('"o"', f'"{number}"')
        runs[flow_id] = dex("flow", "start", "OrderFlow", "--id", flow_id, "--input", "-", given=given)["run_id"]
        assert dex.code == 0
    assert len(dict.fromkeys(runs.values())) == len(ODD_IDS)
    for flow_id, run_id in runs.items():
        described = dex("flow", "describe", flow_id)
        assert (described["flow_id"], described["run_id"]) == (flow_id, run_id)
        assert len(dex("flow", "publish", flow_id, "approval", "true")["message_ids"]) == 1
        assert dex("flow", "result", flow_id, "--wait", "--timeout", "30")["status"] == "COMPLETED"
        assert dex("flow", "history", flow_id)["events"][0]["data"]["flow_id"] == flow_id
    listed = [flow["flow_id"] for flow in dex("flow", "list")["flows"]]
    assert [flow_id for flow_id in reversed(listed) if flow_id in ODD_IDS] == ODD_IDS


def test_a_flow_is_started_watched_steered_and_read_by_the_command_line(dex: Dex) -> None:
    """[SURF-21] start, publish, result, attr get, rpc, describe, history."""
    started = dex("flow", "start", "OrderFlow", "--id", "order/1", "--input", "-", given=ORDER)
    assert (dex.code, started["flow_id"]) == (0, "order/1")
    assert len(dex("flow", "publish", "order/1", "approval", "true")["message_ids"]) == 1

    result = dex("flow", "result", "order/1", "--wait", "--timeout", "30")
    assert (dex.code, result["status"], result["is_terminal"]) == (0, "COMPLETED", True)
    assert result["completions"][0]["step_execution_id"] == "ShipStep-1"

    assert dex("flow", "attr", "get", "order/1", "status")["value"] == "SHIPPED"
    assert dex("flow", "rpc", "order/1", "status")["output"] == "SHIPPED"
    described = dex("flow", "describe", "order/1")
    assert (described["run_id"], described["flow_type"]) == (started["run_id"], "OrderFlow")

    events = dex("flow", "history", "order/1")["events"]
    assert [event["event_id"] for event in events] == list(range(1, described["history_events"] + 1))
    assert (events[0]["kind"], events[-1]["kind"]) == ("FlowStarted", "FlowClosed")


def test_a_flow_is_explained_and_shown_in_full(dex: Dex) -> None:
    """[HIST-1, HIST-6, SURF-21] `explain`, and `describe --full` with the live state."""
    dex("flow", "start", "OrderFlow", "--id", "explained", "--input", ORDER)
    explanation = dex("flow", "explain", "explained")
    assert (dex.code, explanation["flow_id"], explanation["omitted_steps"]) == (0, "explained", 0)
    assert {blocker["step_execution_id"] for blocker in explanation["blockers"]} <= {"ChargeStep-1", "ShipStep-1"}
    assert {"kind", "text", "since", "until"} <= explanation["blockers"][0].keys()
    assert explanation["blockers"][0]["kind"] in dex.run("flow", "explain", "explained")
    state = dex("flow", "describe", "explained", "--full")["state"]
    assert (state["flow_id"], state["status"]) == ("explained", "RUNNING")
    assert "state" not in dex("flow", "describe", "explained")
    dex("flow", "stop", "explained")
    assert dex("flow", "explain", "explained")["blockers"][0]["kind"] == "NO_STEPS"
    dex("flow", "explain", "nobody")
    assert (dex.code, dex.error["code"]) == (3, "FLOW_NOT_FOUND")


def test_a_flow_is_watched_until_it_is_closed(dex: Dex) -> None:
    """[SURF-21] A line for each look that differs; the exit code tells whether the Flow is COMPLETED."""
    dex("flow", "start", "OrderFlow", "--id", "watched", "--input", ORDER)
    dex("flow", "publish", "watched", "approval", "true")
    looks = [json.loads(line) for line in dex.run("--json", "flow", "watch", "watched", "--every", "0.05").splitlines()]
    assert (dex.code, looks[-1]["status"], looks[-1]["flow_id"]) == (0, "COMPLETED", "watched")
    assert looks[-1]["blockers"][0]["kind"] == "NO_STEPS"
    assert all(before != after for before, after in itertools.pairwise(looks))
    dex("flow", "start", "OrderFlow", "--id", "watched-2", "--input", ORDER)
    dex("flow", "stop", "watched-2")
    assert "watched-2 is CANCELED" in dex.run("flow", "watch", "watched-2")
    assert dex.code == 1


def test_a_graph_shows_which_step_led_to_which(dex: Dex) -> None:
    """[SURF-21] As text, as Mermaid, and as nodes and edges."""
    dex("flow", "start", "OrderFlow", "--id", "drawn", "--input", ORDER)
    dex("flow", "publish", "drawn", "approval", "true")
    dex("flow", "result", "drawn", "--wait", "--timeout", "30")
    assert [line.strip() for line in dex.run("flow", "graph", "drawn").splitlines()] == [
        "OrderFlow drawn  COMPLETED",
        "ChargeStep-1  COMPLETED",
        "ShipStep-1  COMPLETED",
        "COMPLETED",
    ]
    assert dex.run("flow", "graph", "drawn", "--format", "mermaid").startswith("flowchart TD\n")
    edges = dex("flow", "graph", "drawn")["edges"]
    assert {"source": "ChargeStep-1", "target": "ShipStep-1"} in edges
    dex("flow", "graph", "nobody")
    assert (dex.code, dex.error["code"]) == (3, "FLOW_NOT_FOUND")


def test_row_44_a_batch_needs_to_be_meant_and_tells_what_it_would_do(dex: Dex) -> None:
    """[BATCH-2, SURF-20] Refused without --yes, with an empty query, and with a typo; a dry run changes nothing."""
    for number in range(3):
        dex("flow", "start", "OrderFlow", "--id", f"batch-{number}", "--input", ORDER)
    query = ("--query", "FlowId LIKE 'batch-%' AND Status = 'RUNNING'")
    dex("flow", "batch", "stop", *query)
    assert dex.code == 2
    assert "--dry-run" in dex.error["message"]
    dex("flow", "batch", "stop", "--query", "", "--yes")
    assert (dex.code, "--all-flows" in dex.error["message"]) == (2, True)
    dex("flow", "batch", "stop", "--query", "FlowId LIEK 'batch-%'", "--yes")
    assert (dex.code, dex.error["code"]) == (2, "INVALID_QUERY")
    dry = dex("flow", "batch", "stop", *query, "--dry-run")
    assert (dex.code, dry["status"], dry["matched"], sorted(dry["sample"])) == (
        0,
        "DRY_RUN",
        3,
        [f"batch-{number}" for number in range(3)],
    )
    assert dex("flow", "describe", "batch-0")["status"] == "RUNNING"

    published = dex("flow", "batch", "set-attribute", "payment", "5", *query, "--yes", "--wait")
    assert (published["status"], published["applied"]) == ("COMPLETED", 3)
    assert dex("flow", "attr", "get", "batch-1", "payment")["value"] == 5
    stopped = dex("flow", "batch", "stop", *query, "--yes", "--wait", "--rate", "100")
    assert (stopped["status"], stopped["matched"], stopped["applied"]) == ("COMPLETED", 3, 3)
    assert dex("flow", "describe", "batch-0")["status"] == "CANCELED"
    assert dex("flow", "batch", "describe", stopped["batch_id"]) == stopped
    assert [row["batch_id"] for row in dex("flow", "batch", "list")["batches"]][:2] == [
        stopped["batch_id"],
        published["batch_id"],
    ]
    assert "COMPLETED" in dex.run("flow", "batch", "list")
    assert dex("flow", "batch", "cancel", stopped["batch_id"])["status"] == "COMPLETED"
    dex("flow", "batch", "describe", "nobody")
    assert (dex.code, dex.error["code"]) == (3, "BATCH_NOT_FOUND")


def test_a_history_is_followed_to_the_end_as_json_lines(dex: Dex) -> None:
    """[HIST-5, SURF-21] `--follow` shows every event and ends with the Flow."""
    dex("flow", "start", "OrderFlow", "--id", "followed", "--input", ORDER)
    dex("flow", "publish", "followed", "approval", "true")
    lines = dex.run("flow", "history", "followed", "--follow", "--json").splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("FlowStarted", "FlowClosed")


def test_list_shows_executions_newest_first_and_filters(dex: Dex) -> None:
    """[SURF-21] `list` with type, status and ID prefix; `--limit` says that there is more."""
    for number in range(3):
        dex("flow", "start", "OrderFlow", "--id", f"listed-{number}", "--input", ORDER)
    listed = dex("flow", "list", "FlowId LIKE 'listed-%' AND FlowType = 'OrderFlow' AND Status = 'RUNNING'")
    assert [flow["flow_id"] for flow in listed["flows"]] == ["listed-2", "listed-1", "listed-0"]
    assert listed["more"] is False
    page = dex("flow", "list", "FlowId LIKE 'listed-%'", "--limit", "2")
    assert (len(page["flows"]), page["more"]) == (2, True)


def test_workers_are_listed_shown_and_taken_out_of_service(dex: Dex) -> None:
    """[SURF-22] `workers list|show|drain` and `queues`; a Flow that starts meanwhile waits, and is shown to wait."""
    (row,) = dex("workers", "list")["workers"]
    assert {"id", "streams", "busy", "max_concurrent_tasks", "queues", "last_seen"} <= row.keys()
    shown = dex("workers", "show", row["id"])
    # Surplus streams of the Flows before may still be closing.
    changing = {field: shown[field] for field in ("last_seen", "streams", "queues")}
    assert shown == row | changing
    assert [queue["name"] for queue in shown["queues"]] == [queue["name"] for queue in row["queues"]]
    assert row["id"] in dex.run("workers", "list")
    assert "OrderFlow: " in dex.run("workers", "show", row["id"])

    assert dex("workers", "drain", row["id"])["is_draining"] is True
    dex("flow", "start", "OrderFlow", "--id", "kept waiting", "--input", ORDER, "--priority", "2")
    (queue,) = [queue for queue in dex("queues")["queues"] if queue["name"] == "OrderFlow"]
    assert (queue["waiting"], queue["waiting_by_priority"]) == (1, {"2": 1})
    assert queue["oldest_wait_ms"] >= 0
    assert "2:1" in dex.run("queues")
    assert row["id"] in dex.run("queues", "--all")
    assert dex("workers", "drain", row["id"], "--undo")["is_draining"] is False
    dex("flow", "publish", "kept waiting", "approval", "true")
    assert dex("flow", "result", "kept waiting", "--wait", "--timeout", "30")["status"] == "COMPLETED"

    dex("workers", "show", "nobody")
    assert (dex.code, dex.error["code"]) == (3, "WORKER_NOT_FOUND")
    dex("workers", "drain", "nobody")
    assert (dex.code, dex.error["code"]) == (3, "WORKER_NOT_FOUND")


def test_stop_says_whether_it_was_this_call_that_ended_the_flow(dex: Dex) -> None:
    """[STOP-2] APPLIED once, then ALREADY_CLOSED; `result` of a Flow that did not complete is exit code 1."""
    dex("flow", "start", "OrderFlow", "--id", "stopped", "--input", ORDER)
    stop = ("flow", "stop", "stopped", "--type", "fail", "--reason", "not today")
    assert dex(*stop) == {"outcome": "APPLIED", "status": "FAILED"}
    assert dex(*stop, "--request-id", "another") == {"outcome": "ALREADY_CLOSED", "status": "FAILED"}
    result = dex("flow", "result", "stopped")
    assert (dex.code, result["error_type"], result["error_message"]) == (1, "CLIENT_API_FAILED", "not today")


def test_pending_messages_are_listed_and_deleted(dex: Dex) -> None:
    """[SURF-21, CHAN-9] a message that is gone is not found, exit code 3."""
    dex("flow", "start", "OrderFlow", "--id", "pending", "--input", ORDER)
    sent = dex("flow", "publish", "pending", "approval", "true", "false", "--instance", "nobody")["message_ids"]
    listed = ("flow", "channel", "list", "pending", "approval", "--instance", "nobody")
    assert [message["value"] for message in dex(*listed)["messages"]] == [True, False]
    page = dex(*listed, "--limit", "1")
    assert ([message["message_id"] for message in page["messages"]], page["more"]) == (sent[:1], True)
    delete = ("flow", "channel", "delete", "pending", "approval", sent[0], "--instance", "nobody")
    assert dex(*delete)["deleted"] == sent[0]
    assert [message["value"] for message in dex(*listed)["messages"]] == [False]
    dex(*delete)
    assert (dex.code, dex.error["code"]) == (3, "CHANNEL_MESSAGE_NOT_FOUND")
    dex("flow", "stop", "pending")


def test_a_timer_is_skipped_and_its_step_goes_on(dex: Dex) -> None:
    """[SURF-21, TIMER-9] The reminder wins over the approval that comes after it, and the order waits once more."""
    dex("flow", "start", "OrderFlow", "--id", "skipped", "--input", ORDER)
    skip = ("flow", "skip-timer", "skipped", "ShipStep-1", "--index", "0")
    assert dex(*skip)["outcome"] in ("APPLIED", "REMEMBERED")
    dex("flow", "publish", "skipped", "approval", "true")
    result = dex("flow", "result", "skipped", "--wait", "--timeout", "30")
    assert result["completions"][0]["step_execution_id"] == "ShipStep-2"
    dex(*skip, "--condition-id", "both")
    assert (dex.code, dex.error["code"]) == (4, "FLOW_NOT_ACTIVE")


def test_an_attribute_is_set_exactly_and_deleted_by_null(dex: Dex) -> None:
    """[ATTR-1, VAL-3] no int passes through a double."""
    dex("flow", "start", "OrderFlow", "--id", "attributes", "--input", ORDER)
    dex("flow", "attr", "set", "attributes", "payment", "9007199254740993")
    assert dex("flow", "attr", "get", "attributes", "payment")["value"] == 9007199254740993
    dex("flow", "attr", "set", "attributes", "payment", "null")
    assert dex("flow", "attr", "get", "attributes", "payment")["value"] is None


def test_a_search_sees_what_an_operator_sets(dex: Dex) -> None:
    """[ATTR-9, ATTR-11] By the key that is named; an unknown one is refused, and nothing is set."""
    dex("flow", "start", "OrderFlow", "--id", "indexed", "--input", ORDER)
    found = ("flow", "count", "FlowId = 'indexed' AND order_status = 'CHARGED'")
    eventually_in_thread(lambda: dex(*found)["total"] == 1, "the customer is charged")
    setting = ("flow", "attr", "set", "indexed", "status", '"HELD"', "--index-key")
    dex(*setting, "nothing")
    assert dex.code == 2
    assert dex(*found)["total"] == 1
    dex(*setting, "order_status")
    assert dex("flow", "count", "FlowId = 'indexed' AND order_status = 'HELD'")["total"] == 1
    dex(*setting[:5], "null", "--index-key", "order_status")
    assert dex("flow", "count", "FlowId = 'indexed' AND order_status IS NULL")["total"] == 1


def test_blob_2_a_schedule_takes_a_large_input(dex: Dex) -> None:
    """[BLOB-2, SCHED-1] It is uploaded, described as a whole and listed as what stands for it."""
    value = json.dumps({"title": "x" * 100_000}, separators=(",", ":"))
    create = ("schedule", "create", "large", "--type", "ReportFlow", "--cron", "@daily", "--paused", "--input", "-")
    dex(*create, given=value)
    assert (dex.code, dex.stderr) == (0, "")
    assert dex("schedule", "describe", "large")["input"]["title"] == "x" * 100_000
    listed = {row["schedule_id"]: row["input"] for row in dex("schedule", "list")["schedules"]}
    digest = hashlib.sha256(value.encode()).hexdigest()
    assert listed["large"] == {"$blob": {"sha256": digest, "size": len(value)}}
    dex("schedule", "update", "large", "--type", "ReportFlow", "--input", "-", given=value.replace("x", "y"))
    assert dex("schedule", "describe", "large")["input"]["title"] == "y" * 100_000
    dex("schedule", "delete", "large")


def test_batch_1_a_search_sees_what_an_operator_sets_in_a_batch(dex: Dex) -> None:
    """[ATTR-9, BATCH-1] By the key that is named; an unknown one is refused, and nothing is set."""
    for number in range(2):
        dex("flow", "start", "OrderFlow", "--id", f"indexed-batch-{number}", "--input", ORDER)
    query = "FlowId LIKE 'indexed-batch-%'"
    charged = ("flow", "count", f"{query} AND order_status = 'CHARGED'")
    eventually_in_thread(lambda: dex(*charged)["total"] == 2, "the customers are charged")
    setting = ("flow", "batch", "set-attribute", "status", '"HELD"', "--query", query, "--yes", "--wait")
    for key in ("nothing", "no`thing"):
        assert dex(*setting, "--index-key", key) is None
        assert (dex.code, repr(key) in dex.error["message"]) == (2, True)
    assert dex(*charged)["total"] == 2
    assert dex(*setting, "--index-key", "order_status")["applied"] == 2
    assert dex("flow", "attr", "get", "indexed-batch-0", "status")["value"] == "HELD"
    assert dex("flow", "count", f"{query} AND order_status = 'HELD'")["total"] == 2
    # A name that is a key is one without being told.
    assert dex(*setting[:3], "order_status", '"CLEARED"', *setting[5:])["applied"] == 2
    assert dex("flow", "count", f"{query} AND order_status = 'CLEARED'")["total"] == 2
    assert dex(*setting[:4], "null", *setting[5:], "--index-key", "order_status")["applied"] == 2
    assert dex("flow", "count", f"{query} AND order_status IS NULL")["total"] == 2


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("flow", "describe", "nobody"), 3, "FLOW_NOT_FOUND"),
        (("flow", "publish", "nobody", "approval", "true"), 3, "FLOW_NOT_FOUND"),
        (("flow", "start", "NoSuchFlow", "--id", "x"), 3, "UNKNOWN_FLOW_TYPE"),
        (("flow", "start", "OrderFlow", "--id", "sys:mine", "--input", ORDER), 2, "INVALID_ARGUMENT"),
        (("flow", "start", "OrderFlow", "--id", "a\tb", "--input", ORDER), 2, "INVALID_ARGUMENT"),
        (("flow", "start", "OrderFlow", "--id", "x", "--input", "{"), 2, "USAGE"),
        (("flow", "publish", "nobody", "approval", "yes"), 2, "USAGE"),
        (("flow", "list", "Status = 'SLEEPING'"), 2, "INVALID_QUERY"),
        (("flow", "count", "Statu = 'RUNNING'"), 2, "INVALID_QUERY"),
    ],
)
def test_a_refusal_has_its_exit_code_and_reason(
    dex: Dex, arguments: tuple[str, ...], exit_code: int, code: str
) -> None:
    """[SURF-20, ERR-A] problems on stderr as JSON, nothing on stdout."""
    assert dex(*arguments) is None
    assert (dex.code, dex.error["code"]) == (exit_code, code)


def test_a_second_start_of_a_running_flow_is_a_conflict(dex: Dex) -> None:
    """[START-5, SURF-20] exit code 4 and the run that exists."""
    started = dex("flow", "start", "OrderFlow", "--id", "twice", "--input", ORDER)
    dex("flow", "start", "OrderFlow", "--id", "twice", "--input", ORDER)
    assert (dex.code, dex.error["code"]) == (4, "FLOW_ALREADY_STARTED")
    assert dex.error["metadata"]["run_id"] == started["run_id"]


def test_the_same_request_is_the_same_start(dex: Dex) -> None:
    """[START-3] a repeat gets the stored answer; other content is refused."""
    start = ("flow", "start", "OrderFlow", "--id", "repeated", "--request-id", "r1", "--input")
    assert dex(*start, ORDER)["run_id"] == dex(*start, ORDER.replace(": ", ":"))["run_id"]
    dex(*start, ORDER.replace("4990", "1"))
    assert (dex.code, dex.error["code"]) == (4, "REQUEST_CONFLICT")


def test_health_shows_the_server_as_serving(dex: Dex) -> None:
    """[OBS-4] a durable write, the clock, the workers."""
    health = dex("health")
    assert (dex.code, health["condition"]) == (0, "SERVING")
    assert health["connected_workers"] == 1


def test_the_installed_command_without_a_server_is_exit_code_5() -> None:
    """[SURF-20] unavailable, and the address that was tried."""
    ran = subprocess.run(
        [Path(sys.executable).with_name("dex"), "health", "--server", "127.0.0.1:1", "--timeout", "2", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    error = json.loads(ran.stderr)["error"]
    assert (ran.returncode, ran.stdout, error["code"]) == (5, "", "UNAVAILABLE")
    assert "127.0.0.1:1" in error["message"]


def test_data_for_people_is_escaped(dex: Dex) -> None:
    """[SURF-20] escape sequences in values never reach the terminal."""
    hostile = json.dumps({"order_id": "\x1b[2J", "customer": "\u202eAda", "amount": 1, "address": "x"})
    dex("flow", "start", "OrderFlow", "--id", "hostile \u202e", "--input", hostile)
    for arguments in (("flow", "list"), ("flow", "history", "hostile \u202e", "--full")):
        shown = dex.run(*arguments)
        assert "hostile" in shown or "FlowStarted" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_the_log_is_verified_and_replayed_offline_without_being_written(server: ServerProcess, tmp_path: Path) -> None:
    """[SURF-23] events, verify and replay on the directory of a killed server; no byte of it changes."""
    dex = Dex(server.address)
    directory = tmp_path / "data"
    with ServerProcess(directory) as own, start_worker(own.address, tmp_path / "worker.log"):
        dex("--server", own.address, "flow", "start", "OrderFlow", "--id", "kept", "--input", ORDER)
        dex("--server", own.address, "flow", "publish", "kept", "approval", "true")
        dex("--server", own.address, "flow", "result", "kept", "--wait", "--timeout", "30")
        dex("--server", own.address, "flow", "start", "OrderFlow", "--id", "open", "--input", ORDER)
        live = dex("--server", own.address, "flow", "history", "kept")["events"]
        os.kill(own.pid, signal.SIGKILL)
    before = content_of(directory)

    verified = dex("log", "verify", "--data-dir", str(directory))
    assert (dex.code, verified["faults"], verified["runs"]) == (0, [], 2)
    events = dex("log", "events", "kept", "--data-dir", str(directory))["events"]
    assert [(event["event_id"], event["kind"]) for event in events] == [(e["event_id"], e["kind"]) for e in live]

    state = dex("log", "replay", "kept", "--to", "1", "--data-dir", str(directory))["state"]
    assert (state["status"], state["attributes"]) == ("RUNNING", {})
    state = dex("log", "replay", "kept", "--data-dir", str(directory))["state"]
    assert (state["status"], state["attributes"]["status"]) == ("COMPLETED", "SHIPPED")

    dex("log", "replay", "nobody", "--data-dir", str(directory))
    assert dex.code == 3
    assert content_of(directory) == before


def test_damaged_projections_are_found_and_made_anew(server: ServerProcess, tmp_path: Path) -> None:
    """[ARCH-10, SURF-23] verify, rebuild, verify; and no rebuild under a running server."""
    dex = Dex(server.address)
    directory = tmp_path / "data"
    with ServerProcess(directory) as own, start_worker(own.address, tmp_path / "worker.log"):
        for flow_id in ("one", "two"):
            dex("--server", own.address, "flow", "start", "OrderFlow", "--id", flow_id, "--input", ORDER)
        dex("log", "rebuild", "--data-dir", str(directory))
        assert dex.code == 4
        os.kill(own.pid, signal.SIGKILL)
    with closing(sqlite3.connect(directory / "p0" / "log.db", isolation_level=None)) as database:
        database.execute("UPDATE runs SET status = 3 WHERE flow_id = 'one'")
        database.execute("DELETE FROM runs WHERE flow_id = 'two'")

    verified = dex("log", "verify", "--data-dir", str(directory))
    assert (dex.code, verified["fault_count"]) == (1, 2)
    rebuilt = dex("log", "rebuild", "--data-dir", str(directory))
    assert (dex.code, rebuilt["events"], rebuilt["runs"]) == (0, verified["events"], 2)
    verified = dex("log", "verify", "--data-dir", str(directory))
    assert (dex.code, verified["faults"], verified["runs"]) == (0, [], 2)
    with ServerProcess(directory) as own:
        listed = dex("--server", own.address, "flow", "list")["flows"]
        described = [dex("--server", own.address, "flow", "describe", flow_id) for flow_id in ("two", "one")]
    # The server was killed before or after the worker had charged the customer.
    assert all(flow.pop("indexed_attributes") in ({}, {"order_status": "CHARGED"}) for flow in listed)
    assert (listed, [flow["status"] for flow in listed]) == (described, ["RUNNING", "RUNNING"])
    assert sum(flow["history_events"] for flow in listed) >= verified["events"]


def content_of(directory: Path) -> dict[str, bytes]:
    """Every file of a data directory; SQLite's index of the write-ahead log is memory that happens to have a name."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_row_34_large_values_go_in_and_come_out_of_every_verb(dex: Dex, tmp_path: Path) -> None:
    """[BLOB-2] A file of 3 MB as input; histories show what stands for it, `--full` shows it itself."""
    address = "Main Street " * 250_000
    order = {"order_id": "big", "customer": "Ada", "amount": 4990, "address": address}
    file = tmp_path / "order.json"
    file.write_text(json.dumps(order))
    dex("flow", "start", "OrderFlow", "--id", "big", "--input", f"@{file}")
    assert dex.code == 0, dex.stderr
    history = dex("flow", "history", "big")
    value = history["events"][1]["data"]["input"]
    encoded = json.dumps(order, sort_keys=True, separators=(",", ":"))
    assert value == {"$blob": {"sha256": hashlib.sha256(encoded.encode()).hexdigest(), "size": len(encoded)}}
    assert dex("flow", "history", "big", "--full")["events"][1]["data"]["input"] == order
    dex("flow", "attr", "set", "big", "note", "-", given=json.dumps(address))
    assert dex.code == 0, dex.stderr
    assert dex("flow", "attr", "get", "big", "note")["value"] == address
    dex("flow", "publish", "big", "spare", json.dumps(address[:100_000]))
    assert dex.code == 0, dex.stderr
    [message] = dex("flow", "channel", "list", "big", "spare")["messages"]
    assert message["value"]["$blob"]["size"] == 100_002
