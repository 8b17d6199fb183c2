"""The bare pipeline writes what the product would write, commits it, and only then lets anything out [INV-2]."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dexd.core import events
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId, WorkerId
from dexd.core.values import DecisionKind, FlowStatus, Method
from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import frames
from dextools.bench.floor.rows import commits_of_chain
from dextools.bench.outbox import Outbox
from dextools.bench.pipeline.facts import Scribe
from dextools.bench.pipeline.journal import ROWS_MAX, Journal, Unit
from dextools.bench.pipeline.relay import Relay, Replies
from dextools.bench.pipeline.worker import decide

START_OF_ONE_STEP_FLOW = ["FlowStarted", "StepScheduled", "StepDispatched"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[Journal]:
    journal = Journal(path)
    journal.open()
    yield journal
    journal.close()


def stored(path: Path, columns: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT {columns} FROM events ORDER BY seq").fetchall()
    finally:
        connection.close()


async def commit(journal: Journal, rows: list[tuple[int, int, int, int, str, int, bytes]]) -> None:
    committed = asyncio.get_running_loop().create_future()
    journal.submit(Unit(rows, lambda: committed.set_result(None)))
    await committed


def test_one_step_flow_is_five_rows_in_two_commits() -> None:
    commits = commits_of_chain(Scribe("worker", "incarnation"), 1, 1)
    assert [[row[4] for row in rows] for rows in commits] == [
        START_OF_ONE_STEP_FLOW,
        ["ExecuteCompleted", "FlowClosed"],
    ]


def test_chain_is_one_commit_for_the_start_and_one_for_each_step() -> None:
    commits = commits_of_chain(Scribe("worker", "incarnation"), 1, 5)
    assert len(commits) == 6
    assert [row[2] for rows in commits for row in rows] == list(range(1, 18))


async def test_effect_follows_the_commit_of_its_rows(path: Path, journal: Journal) -> None:
    seen: list[int] = []
    committed = asyncio.get_running_loop().create_future()

    def effect() -> None:
        seen.append(len(stored(path, "seq")))
        committed.set_result(None)

    rows = [row for rows in commits_of_chain(Scribe("w", "i"), 1, 1) for row in rows]
    journal.submit(Unit(rows, effect))
    await committed
    assert seen == [len(rows)]


async def test_commit_larger_than_one_statement_is_complete(path: Path, journal: Journal) -> None:
    rows = [(seq, 1, seq, 0, "E", 1, b"") for seq in range(1, ROWS_MAX * 2 + 2)]
    await commit(journal, rows)
    assert stored(path, "count(*)") == [(len(rows),)]


class Bench:
    """A relay with both of its peers played by the test."""

    def __init__(self, journal: Journal) -> None:
        self.relay = Relay(journal)
        self.replies: Replies = Outbox()
        self.relay.on_frame(frames.Hello(1, 1, "worker-1", "incarnation", "test", "0", 1, 0, ()))

    def request(self, number: int, method: str, body: flow_pb.StartFlowRequest | flow_pb.WaitForFlowRequest) -> None:
        request = flow_pb.ClientRequest(id=number, method=method, body=body.SerializeToString())
        self.relay.on_request(request, self.replies)

    async def work(self) -> None:
        """Answers the next assignments."""
        for frame in await self.relay.worker_out.take():
            if isinstance(frame, frames.Assign):
                self.relay.on_frame(frames.Output(frame.stream, frame.token, decision=decide(frame)))


async def test_chain_runs_to_its_result(path: Path, journal: Journal) -> None:
    bench = Bench(journal)
    start_step = flow_pb.StartStep(step_type="ChainStep")
    bench.request(
        1, "StartFlow", flow_pb.StartFlowRequest(flow_id="f", flow_type="ChainFlow", input=b"1", start_step=start_step)
    )
    (started,) = await bench.replies.take()
    bench.request(2, "WaitForFlow", flow_pb.WaitForFlowRequest(flow_id="f"))
    answered = asyncio.create_task(bench.replies.take())
    await bench.work()
    await bench.work()
    (ended,) = await answered
    assert (started.id, ended.id) == (1, 2)
    result = flow_pb.WaitForFlowReply.FromString(ended.body)
    assert (result.status, result.completions[0].step_execution_id) == ("COMPLETED", "ChainStep-2")
    assert [kind for (kind,) in stored(path, "type")] == [
        *START_OF_ONE_STEP_FLOW,
        "ExecuteCompleted",
        "StepScheduled",
        "StepDispatched",
        "ExecuteCompleted",
        "FlowClosed",
    ]


async def test_result_that_nobody_waited_for_is_kept_until_it_is_asked_for(journal: Journal) -> None:
    bench = Bench(journal)
    bench.request(1, "StartFlow", flow_pb.StartFlowRequest(flow_id="f", input=b"0"))
    await bench.replies.take()
    await bench.work()
    acked = await bench.relay.worker_out.take()
    assert isinstance(acked[0], frames.Ack)
    bench.request(2, "WaitForFlow", flow_pb.WaitForFlowRequest(flow_id="f"))
    (ended,) = await bench.replies.take()
    assert flow_pb.WaitForFlowReply.FromString(ended.body).is_terminal


WORKER = "bench-host-12345-abcdefgh"
INCARNATION = "abcdefghijklmnop"
PRODUCT_EVENTS = (
    events.FlowStarted(FlowId("chain-1"), RunId(f"{1:032x}"), "ChainFlow", 1, RequestId(f"{1:032x}"), bytes(32), 2**62),
    events.StepScheduled(StepExecutionId("ChainStep-1"), "ChainStep", 1, "", b"0", False),
    events.StepDispatched(
        StepExecutionId("ChainStep-1"), Method.EXECUTE, 1, 1, WorkerId(WORKER), INCARNATION, True, 0, 1_800_000_000_000
    ),
    events.ExecuteCompleted(
        StepExecutionId("ChainStep-1"), 1, 1, WorkerId(WORKER), DecisionKind.GRACEFUL_COMPLETE, b"true"
    ),
    events.FlowClosed(FlowStatus.COMPLETED),
)


def test_rows_are_as_many_and_about_as_large_as_the_products() -> None:
    """The pipeline is a ceiling only while it stores the same: a tenth more or less, and some bytes for short rows."""
    rows = [row for rows in commits_of_chain(Scribe(WORKER, INCARNATION), 1, 1) for row in rows]
    assert [row[4] for row in rows] == [type(event).__name__ for event in PRODUCT_EVENTS]
    for row, event in zip(rows, PRODUCT_EVENTS, strict=True):
        assert len(row[6]) == pytest.approx(len(msgspec.msgpack.encode(event)), rel=0.1, abs=8), row[4]
