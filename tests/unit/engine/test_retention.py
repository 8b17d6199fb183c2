"""Runs leave memory and log when their retention is over [KEEP-1, KEEP-3], and are archived before [KEEP-2]."""

from collections.abc import Sequence

import msgspec
import pytest

from dexd.blobs.store import BlobMissingError
from dexd.codec.flow_queries import FlowWaitQuery, HistoryQuery, RunKey, StepWaitQuery
from dexd.codec.views import FlowWait, StepWait
from dexd.core.commands import AcceptCall, ContinueAsNew, InvokeRpc
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.retention import RetentionConfig
from dexd.core.terms import FlowRetry, FlowTerms
from dexd.core.values import DecisionKind, FlowStatus, IdReusePolicy, RetryPolicy, StepOutcome, StepPlan, StopType
from dexd.engine.retention import SWEEP_MS_MAX, Retention
from dexd.log.errors import LogDamagedError, LogFullError
from dexd.log.event_log import Batch, Removal, RunFilter, RunRow
from dexd.log.reading import InlinePages
from dextools.log_verification import verify_log
from tests.unit.engine.rig import Answers, Rig, publish_command, start_command, stop_command

KEPT_MS = 10_000


class Cellar:
    """An archive that may be full."""

    def __init__(self, rig: Rig) -> None:
        self.log = rig.log
        self.kept: list[list[str]] = []
        self.refused: set[str] = set()
        self.is_closed = False
        self.error: Exception = OSError("no room")

    async def keep(self, flow_id: str, ordinal: int, until: int) -> Sequence[RunRow]:
        if flow_id in self.refused:
            raise self.error
        rows = [row for row in self.log.run_rows(flow_id) if row.ordinal == ordinal and 0 < row.closed_at <= until]
        self.kept.append([row.run_id for row in rows])
        return rows[::-1]

    async def close(self) -> None:
        self.is_closed = True


class Keeper:
    """An engine whose closed runs go after ten seconds."""

    def __init__(self, rig: Rig | None = None, cellar: Cellar | None = None, **config: int) -> None:
        self.rig = rig or Rig()
        self.retention = Retention(
            self.rig.engine,
            InlinePages(self.rig.log),
            self.rig.clock,
            RetentionConfig(**{"retention_ms": KEPT_MS, **config}),
            call_later=self.rig.alarms.call_later,
            archive=cellar,
        )
        self.retention.start()

    async def advance(self, milliseconds: int) -> None:
        """Let time pass in steps that no sweep is longer than."""
        for _ in range(milliseconds // 1_000):
            await self.rig.advance(1_000)
            await self.retention.settled()

    async def end(self, *flow_ids: str) -> None:
        for flow_id in flow_ids:
            await self.rig.start(flow_id)
            await self.rig.answer(stop_command(flow_id))

    @property
    def flow_ids(self) -> list[str]:
        return [listed.row.flow_id for listed in self.rig.log.list_runs(RunFilter(), 100)]


async def test_keep_1_closed_runs_go_after_the_retention_and_open_ones_stay() -> None:
    """[KEEP-1] From memory and from the log."""
    keeper = Keeper()
    await keeper.end("old")
    await keeper.rig.start("open")
    await keeper.advance(5_000)
    await keeper.end("young")
    await keeper.advance(6_000)
    assert keeper.flow_ids == ["young", "open"]
    assert keeper.rig.engine.kernel.run(FlowId("old")) is None
    described = await keeper.rig.read(keeper.rig.engine.reads.describe, RunKey(FlowId("old"), None))
    assert described.code is Code.FLOW_NOT_FOUND
    assert keeper.retention.status.removed_runs == 1
    await keeper.advance(5_000)
    assert keeper.flow_ids == ["open"]


async def test_keep_1_many_due_runs_go_in_one_sweep() -> None:
    """[KEEP-1] In groups, each with a commit of its own."""
    keeper = Keeper()
    await keeper.end(*(f"f{number}" for number in range(70)))
    await keeper.advance(11_000)
    assert keeper.flow_ids == []
    assert keeper.retention.status.removed_runs == 70


async def test_keep_1_zero_keeps_for_ever() -> None:
    """[KEEP-1] Nothing is written for it either."""
    keeper = Keeper(retention_ms=0)
    await keeper.end("a")
    commits = len(keeper.rig.points)
    await keeper.advance(2 * SWEEP_MS_MAX)
    assert keeper.flow_ids == ["a"]
    assert len(keeper.rig.points) == commits


async def test_keep_3_run_is_gone_for_everybody_from_the_decision_on() -> None:
    """[KEEP-3, ARCH-3] What is told in between is told with the commit that removes it."""
    keeper = Keeper()
    rig = keeper.rig
    await keeper.end("a")
    row = rig.log.run_rows("a")[0]
    rig.writer.is_automatic = False
    removed, described, by_run, history, started = (Answers() for _ in range(5))
    rig.engine.remove_runs([row], removed)
    reads = rig.engine.reads
    reads.describe(RunKey(FlowId("a"), None), described)
    reads.describe(RunKey(FlowId("a"), RunId("run-a")), by_run)
    reads.history(HistoryQuery(RunKey(FlowId("a"), None), 1, 10), history)
    rig.engine.request(start_command("a", run_id="run-2", request_id="start-a"), started)
    await rig.decided()
    assert [answer.all for answer in (removed, described, by_run, history, started)] == [[]] * 5
    assert rig.log.run_by_id("run-a") is not None
    while rig.writer.submitted:
        rig.writer.commit()
        await rig.decided()
    assert removed.only == [row]
    assert described.only.code is by_run.only.code is history.only.code is Code.FLOW_NOT_FOUND
    # The request ID went with the execution, so this is another start; its ordinal did not.
    assert started.only == StartFlowAccepted(RunId("run-2"))
    assert [(row.run_id, row.ordinal) for row in rig.log.run_rows("a")] == [("run-2", 2)]


async def test_keep_3_paging_reader_gets_not_found_at_the_next_page() -> None:
    """[KEEP-3] Also one whose page is being read when the run goes: it is told nothing of it."""
    keeper = Keeper()
    rig = keeper.rig
    await rig.start("a")
    for number in range(20):
        await rig.answer(publish_command("a", b"1", request_id=f"p{number}"))
    await rig.answer(stop_command("a"))
    reads, key = rig.engine.reads, RunKey(FlowId("a"), RunId("run-a"))
    page = await rig.read(reads.history, HistoryQuery(key, 1, 5))
    assert (len(page.entries), page.next_event_id) == (5, 6)
    caught = Answers()
    reads.history(HistoryQuery(key, 6, 5), caught)
    rig.log.append(Batch(rig.log.last_seq, (), removals=[Removal(1, "a", 1, 0)]))
    rig.log.remove_some(7)
    await rig.decided()
    assert caught.only.code is Code.FLOW_NOT_FOUND


async def test_keep_3_run_that_an_rpc_reads_stays_until_later() -> None:
    """[KEEP-3] With the runs that follow it, so that the latest one of a Flow ID is never missing alone."""
    keeper = Keeper()
    rig = keeper.rig
    await keeper.end("a", "b")
    await rig.worker()
    first, second = rig.log.run_rows("a")[0], rig.log.run_rows("b")[0]
    abandon = rig.engine.invoke(
        lambda caller: InvokeRpc(caller, FlowId("a"), None, "get", b"", RequestId("q"), b"", 10_000, 2_000_000),
        Answers(),
    )
    await rig.decided()
    later = msgspec.structs.replace(first, run_id="run-x", stream_id=99)
    assert await rig.read(rig.engine.remove_runs, [first, later, second]) == [second]
    assert keeper.flow_ids == ["a"]
    abandon()
    await keeper.advance(11_000)
    assert keeper.flow_ids == []


async def test_keep_1_refused_commit_takes_nothing_away() -> None:
    """[KEEP-1, ARCH-4] The run is back for everybody, and goes when the log can be written again."""
    keeper = Keeper()
    rig = keeper.rig
    await keeper.end("a")
    rig.writer.refusal = LogFullError("full")
    await keeper.advance(11_000)
    assert keeper.flow_ids == ["a"]
    described = await rig.read(rig.engine.reads.describe, RunKey(FlowId("a"), None))
    assert not isinstance(described, Rejection)
    rig.writer.refusal = None
    await keeper.advance(4_000)
    assert keeper.flow_ids == []


async def test_keep_1_stopped_keeper_removes_nothing() -> None:
    rig = Rig()
    cellar = Cellar(rig)
    keeper = Keeper(rig, cellar)
    await keeper.end("a")
    await keeper.retention.stop()
    await keeper.retention.stop()
    assert cellar.is_closed
    await keeper.advance(20_000)
    assert keeper.flow_ids == ["a"]


# ---- ordinals ----------------------------------------------------------------------------------------------------


async def test_id_10_ordinal_outlives_the_executions() -> None:
    """[ID-10, ID-8] Over a restart too, until its own retention is over."""
    keeper = Keeper(ordinal_retention_ms=60_000)
    await keeper.end("a")
    await keeper.rig.start("a", run_id="run-2", request_id="second")
    await keeper.rig.answer(stop_command("a"))
    await keeper.advance(12_000)
    assert keeper.flow_ids == []
    again = Rig(keeper.rig.log)
    again.clock.at = keeper.rig.clock.at
    later = Keeper(again, ordinal_retention_ms=60_000)
    await again.start("a", run_id="run-3", request_id="third")
    assert [row.ordinal for row in again.log.run_rows("a")] == [3]
    await again.answer(stop_command("a"))
    await later.advance(75_000)
    assert again.log.flow_ids_in_use(["a"]) == frozenset()
    await again.start("a", run_id="run-4", request_id="fourth")
    assert [row.ordinal for row in again.log.run_rows("a")] == [1]


async def test_id_10_start_behind_removed_executions_obeys_no_policy_of_theirs() -> None:
    """[START-4] What was removed refuses nothing."""
    keeper = Keeper()
    await keeper.end("a")
    await keeper.advance(11_000)
    answer = await keeper.rig.start("a", run_id="run-2", id_reuse_policy=IdReusePolicy.DISALLOW)
    assert answer == StartFlowAccepted(RunId("run-2"))


# ---- archive -----------------------------------------------------------------------------------------------------


async def test_keep_2_executions_are_archived_before_they_go() -> None:
    """[KEEP-2]"""
    rig = Rig()
    cellar = Cellar(rig)
    keeper = Keeper(rig, cellar)
    await keeper.end("a", "b")
    await keeper.advance(11_000)
    assert cellar.kept == [["run-a"], ["run-b"]]
    assert keeper.flow_ids == []
    assert keeper.retention.status.archived_executions == 2


@pytest.mark.parametrize("error", [LogDamagedError("event 3"), KeyError("Step-1"), BlobMissingError("00")])
async def test_keep_2_execution_that_cannot_be_read_keeps_no_other(error: Exception) -> None:
    """[KEEP-2] Whatever is wrong with it, and in every sweep."""
    rig = Rig()
    cellar = Cellar(rig)
    cellar.refused, cellar.error = {"a"}, error
    keeper = Keeper(rig, cellar)
    await keeper.end("a", "b")
    await keeper.advance(11_000)
    await keeper.end("c")
    await keeper.advance(20_000)
    assert keeper.flow_ids == ["a"]
    assert keeper.retention.status.archive_failures > 1


async def test_keep_2_failed_archive_postpones_is_shown_and_tried_again_ever_later() -> None:
    """[KEEP-2] Others go meanwhile; later executions of the same Flow ID do not."""
    rig = Rig()
    cellar = Cellar(rig)
    cellar.refused = {"a"}
    keeper = Keeper(rig, cellar)
    await keeper.end("a", "b")
    await rig.start("a", run_id="run-2", request_id="second")
    await rig.answer(stop_command("a", StopType.FAIL))
    await keeper.advance(11_000)
    status = keeper.retention.status
    assert [row.run_id for row in rig.log.run_rows("a")] == ["run-2", "run-a"]
    assert (status.postponed_executions, status.archive_failures, status.removed_runs) == (1, 1, 1)
    assert status.archive_error == "execution 1 of Flow 'a': no room"
    await keeper.advance(7_000)
    # After two seconds, then after four.
    assert status.archive_failures == 3
    cellar.refused = set()
    await keeper.advance(9_000)
    assert keeper.flow_ids == []
    assert (status.postponed_executions, status.archive_error) == (0, "")
    assert cellar.kept == [["run-b"], ["run-a"], ["run-2"]]


async def test_keep_1_superseded_run_of_an_open_execution_goes_by_its_own_close() -> None:
    """[KEEP-1, START-8, WAITAPI-2] Those who wait for the execution name its first run, and still find it."""
    rig = Rig()
    keeper = Keeper(rig)
    worker = await rig.worker()
    begin = StepPlan("Begin", b"1", False)
    await rig.start("a", terms=FlowTerms(retry=FlowRetry(RetryPolicy(maximum_attempts=2), begin)))
    worker.decide(worker.calls[0], DecisionKind.FORCE_FAIL)
    await rig.decided()
    assert [row.run_id for row in rig.log.run_rows("a")] == [derived_run_id("run-a/retry"), "run-a"]
    await keeper.advance(11_000)
    assert [row.run_id for row in rig.log.run_rows("a")] == [derived_run_id("run-a/retry")]
    for name in ("run-a", None):
        query = FlowWaitQuery(FlowId("a"), 0, None if name is None else RunId(name))
        waited = await rig.read(rig.engine.reads.wait_for_flow, query)
        assert waited == FlowWait(derived_run_id("run-a/retry"))
    other = await rig.read(rig.engine.reads.wait_for_flow, FlowWaitQuery(FlowId("a"), 0, RunId("run-b")))
    assert other.code is Code.FLOW_NOT_FOUND
    # So they do when there is another execution, and when it has ended.
    await rig.answer(stop_command("a"))
    await rig.start("a", run_id="run-2", request_id="second")
    ended = await rig.read(rig.engine.reads.wait_for_flow, FlowWaitQuery(FlowId("a"), 0, RunId("run-a")))
    assert (ended.run_id, ended.end.status) == (derived_run_id("run-a/retry"), FlowStatus.CANCELED)


async def test_keep_1_rolled_over_run_takes_nothing_with_it_that_is_still_needed() -> None:
    """[KEEP-1, ROLL-3, WAITAPI-3] How its Steps ended goes with it; those that go on are as they were."""
    rig = Rig()
    keeper = Keeper(rig)
    worker = await rig.worker()
    await rig.start("f")
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
    await rig.decided()
    running = worker.calls[1]
    worker.say(AcceptCall(worker.session, running.stream, running.call.token))
    rolled = await rig.answer(ContinueAsNew(FlowId("f"), None, RequestId("roll"), b"digest"))
    query = StepWaitQuery(FlowId("f"), StepExecutionId("Begin-1"), 60_000)
    assert await rig.read(rig.engine.reads.wait_for_step, query) == StepWait(StepOutcome.COMPLETED)
    await keeper.advance(11_000)
    assert [row.run_id for row in rig.log.run_rows("f")] == [rolled.run_id]
    refused = await rig.read(rig.engine.reads.wait_for_step, query)
    assert refused.code is Code.FLOW_NOT_FOUND
    assert "deleted" in refused.message
    worker.decide(running, DecisionKind.FORCE_COMPLETE, b"42")
    await rig.decided()
    waited = await rig.read(rig.engine.reads.wait_for_flow, FlowWaitQuery(FlowId("f"), 0, RunId("run-f")))
    assert waited.end.status is FlowStatus.COMPLETED
    assert verify_log(rig.log, lambda _: None).faults == []
