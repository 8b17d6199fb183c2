"""Time travel through a real server: killed around the commit of a fork, under a stream of writes, and by `dex`."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.app import build_app
from dextools.log_verification import verify_log
from tests.support.api_calls import describe, fresh, history, publish, refusal, start, stop
from tests.support.api_client import ApiClient, RefusedError
from tests.support.failpoint_server import DURING_APPEND
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

FORKS_BEFORE_THE_END = 3


def time_travel(api: ApiClient, flow_id: str, **fields: object) -> str:
    request = pb.TimeTravelRequest(flow_id=flow_id, **fields)  # type: ignore[arg-type]  # each is of its field's type
    return api.call("TimeTravel", request, pb.TimeTravelReply).run_id


def set_attribute(api: ApiClient, flow_id: str, value: bytes) -> None:
    request = pb.SetAttributeRequest(flow_id=flow_id, key="note", value=value, request_id=fresh("set"))
    api.call("SetAttribute", request, pb.SetAttributeReply)


@pytest.mark.parametrize("point", [BEFORE_APPEND, DURING_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND])
def test_fork_is_whole_or_not_there_wherever_the_server_is_killed(tmp_path: Path, point: str) -> None:
    """[TT-1, INV-1, INV-2] Old run, new run and writes that are applied again are of one commit; a repeat finds it."""
    data_dir, flow_id = tmp_path / "data", "trip"
    # Passes before the forks: BeginServing, the start, and the write.
    passage = str(3 + FORKS_BEFORE_THE_END)
    command = (sys.executable, "-m", "tests.support.failpoint_server", "--at", point, "--passage", passage)
    forks: dict[str, str] = {}
    request_id = ""
    with ServerProcess(data_dir, command=command) as server, ApiClient(server.address) as api:
        first = start(api, flow_id)
        set_attribute(api, flow_id, b'"kept"')
        with pytest.raises(RefusedError, match="UNAVAILABLE"):  # noqa: PT012 - which of the calls it is, is not known
            while True:
                request_id = fresh("travel")
                forks[request_id] = time_travel(api, flow_id, request_id=request_id)
        assert server.wait() == -signal.SIGKILL
    assert len(forks) >= FORKS_BEFORE_THE_END - 2

    with ServerProcess(data_dir) as server, ApiClient(server.address) as api:
        assert server.ready["recovered_runs"] == 1
        forks[request_id] = time_travel(api, flow_id, request_id=request_id)
        runs = [first, *forks.values()]
        assert describe(api, flow_id).run_id == runs[-1]
        assert describe(api, flow_id).first_run_id == first
        for run_id, following in pairwise(runs):
            ended = history(api, flow_id, run_id=run_id)[-1]
            assert ended.kind == "FlowClosed"
            assert json.loads(ended.data)["next_run_id"] == following
            kinds = [event.kind for event in history(api, flow_id, run_id=following)]
            assert kinds[:3] == ["FlowStarted", "FlowForked", "AttributesSet"]
        value = api.call("GetAttribute", pb.GetAttributeRequest(flow_id=flow_id, key="note"), pb.GetAttributeReply)
        assert value.value == b'"kept"'
    with closing(OfflineLog(log_path(data_dir))) as log:
        assert not verify_log(log, lambda _: None).faults


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


def test_tt_5_writes_that_come_while_a_fork_is_prepared_are_in_it(server: ServerProcess) -> None:
    """A publisher never pauses; every message that was acknowledged is in the last run, once and in order."""
    accepted: list[str] = []
    is_over = threading.Event()

    def produce() -> None:
        with ApiClient(server.address) as api:
            while not is_over.is_set():
                accepted.extend(publish(api, "busy", b"1", request_id=fresh("busy")))

    with ApiClient(server.address) as api:
        start(api, "busy")
        producer = threading.Thread(target=produce)
        producer.start()
        forks = [time_travel(api, "busy") for _ in range(5)]
        is_over.set()
        producer.join()
        assert describe(api, "busy").run_id == forks[-1]
        request = pb.ListChannelMessagesRequest(flow_id="busy", channel="news")
        messages: list[str] = []
        while True:
            page = api.call("ListChannelMessages", request, pb.ListChannelMessagesReply)
            messages += [message.message_id for message in page.messages]
            if not page.has_more:
                break
            request.after_message_id = messages[-1]
        assert messages == accepted


def dex(server: ServerProcess, *arguments: str) -> Result:
    command = ["--server", server.address, "--json", "flow", "time-travel", *arguments]
    return CliRunner().invoke(build_app(), command)


def test_dex_travels_to_each_point(server: ServerProcess) -> None:
    """[TT-2, SURF-21] Every selector, in JSON; what is wrong is told with the exit code of its kind [SURF-20]."""
    with ApiClient(server.address) as api:
        first = start(api, "order")
        stop(api, "order")
        before = describe(api, "order").started_at
    once = ("--type", "step-execution-id", "--to", "Begin-1", "--method", "execute", "--request-id", "once")
    replies = []
    for selector in (
        ("--type", "beginning"),
        ("--type", "history-event-time", "--to", "2000-01-01T00:00:00Z"),
        ("--type", "step-type", "--to", "Begin", "--skip-writes-reapply", "--reason", "why"),
        once,
        once,
    ):
        done = dex(server, "order", *selector)
        assert done.exit_code == 0, done.stderr
        replies.append(json.loads(done.stdout))
    assert [reply["flow_id"] for reply in replies] == ["order"] * 5
    assert replies[-1] == replies[-2] != replies[-3]
    for arguments, code in (
        (("order", "--type", "step-type"), 2),
        (("order", "--type", "step-execution-id", "--to", "Begin-1"), 2),
        (("order", "--type", "history-event-time", "--to", "2026-01-01T00:00:00"), 2),
        (("order", "--type", "step-type", "--to", "Nothing"), 3),
    ):
        assert dex(server, *arguments).exit_code == code, arguments
    with ApiClient(server.address) as api:
        info = describe(api, "order")
        assert (info.status, info.first_run_id, info.started_at) == ("RUNNING", first, before)
        refused = refusal(api, "TimeTravel", pb.TimeTravelRequest(flow_id="order", type=2, step_type="Nothing"))
        assert (refused.code, refused.reason) == ("NOT_FOUND", "TIME_TRAVEL_POINT_NOT_FOUND")
        assert int(refused.metadata["oldest_reachable_at"]) == before
