"""Whoever waits for, reads or watches an execution follows it from run to run [ROLL-5, WAITAPI-2, HIST-5]."""

import msgspec

from dexd.codec.flow_queries import (
    AttributeQuery,
    AttributeWaitQuery,
    FlowWaitQuery,
    HistoryQuery,
    RunKey,
    StepWaitQuery,
    WatchQuery,
)
from dexd.codec.search_requests import SearchQuery
from dexd.codec.views import (
    AttributeView,
    AttributeWait,
    FlowSummary,
    FlowWait,
    HistoryEntry,
    StepWait,
    summary_of_row,
)
from dexd.core import commands as c
from dexd.core.ids import TIMEOUT_HANDLER_ID, FlowId, RequestId, RunId, StepExecutionId, StreamNumber
from dexd.core.outcome import ContinueAsNewAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import FlowConfig, FlowTerms
from dexd.core.values import (
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    FlowStatus,
    Response,
    StepOutcome,
    StepPlan,
    Wait,
    WaitKind,
)
from dexd.log.errors import LogFullError
from dexd.log.event_log import TimerRow
from tests.unit.engine.rig import BEGUN_AT, Answers, Rig, publish_command, stop_command

FLOW = FlowId("f")
FIRST = RunId("run-f")
LATEST = RunKey(FLOW, None)
ALL_FLOWS = SearchQuery("", 10, None, {})


async def roll(rig: Rig, request_id: str = "roll") -> RunId:
    """Continue the Flow; gives the run that goes on."""
    answer = await rig.answer(c.ContinueAsNew(FLOW, None, RequestId(request_id), b"digest"))
    assert isinstance(answer, ContinueAsNewAccepted)
    return answer.run_id


def set_command(key: str, value: bytes, request_id: str) -> c.SetAttribute:
    return c.SetAttribute(FLOW, None, key, value, RequestId(request_id), b"digest")


def step_wait(step: str, wait_ms: int = 60_000) -> StepWaitQuery:
    return StepWaitQuery(FLOW, StepExecutionId(step), wait_ms)


def attribute_wait(value: bytes) -> AttributeWaitQuery:
    return AttributeWaitQuery(FLOW, "a", lambda found: found == value, 60_000)


# ---- waits -------------------------------------------------------------------------------------------------------


async def test_waiters_follow_the_chain() -> None:
    """[WAITAPI-2] For the Flow, for Steps present and to come, for an Attribute; none hears of the roll-over."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    flow, pinned, present, future, attribute = (Answers() for _ in range(5))
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, None), flow)
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, FIRST), pinned)
    rig.engine.reads.wait_for_step(step_wait("Begin-1"), present)
    rig.engine.reads.wait_for_step(step_wait("Next-1"), future)
    rig.engine.reads.wait_for_attribute(attribute_wait(b"5"), attribute)
    for number in range(3):
        await roll(rig, f"r{number}")
    assert [answers.all for answers in (flow, pinned, present, future, attribute)] == [[]] * 5
    await rig.answer(set_command("a", b"5", "s"))
    assert attribute.only == AttributeWait(b"5")
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
    await rig.decided()
    worker.decide(worker.calls[1], DecisionKind.FORCE_COMPLETE, b"42")
    await rig.decided()
    assert (present.only, future.only) == (StepWait(StepOutcome.COMPLETED), StepWait(StepOutcome.COMPLETED))
    for answers in (flow, pinned):
        assert answers.only.end.status is FlowStatus.COMPLETED


async def test_poll_that_ran_out_is_taken_up_again_after_roll_overs() -> None:
    """[WAITAPI-1] With whichever run the client heard of."""
    rig = Rig()
    await rig.start()
    second = await roll(rig, "1")
    third = await roll(rig, "2")
    for run_id in (None, FIRST, second, third):
        query = FlowWaitQuery(FLOW, 0, run_id)
        assert await rig.read(rig.engine.reads.wait_for_flow, query) == FlowWait(third)


async def test_end_of_an_earlier_execution_is_found_behind_all_its_runs() -> None:
    """[WAITAPI-2] In memory, and from the log after a restart; the later execution is another one."""
    rig = Rig()
    await rig.start()
    second = await roll(rig, "1")
    third = await roll(rig, "2")
    await rig.answer(stop_command("f"))
    await rig.start(run_id="other", request_id="other")
    for engine in (rig, Rig(rig.log)):
        for run_id in (FIRST, second, third):
            answer = await engine.read(engine.engine.reads.wait_for_flow, FlowWaitQuery(FLOW, 0, run_id))
            assert (answer.run_id, answer.end.status) == (third, FlowStatus.CANCELED)


async def test_end_that_is_not_committed_yet_is_followed_too() -> None:
    """[WAITAPI-2] A pinned wait meets runs that are decided and not in the log."""
    rig = Rig()
    await rig.start()
    second = await roll(rig, "1")
    rig.writer.is_automatic = False
    rolled, stopped, begun = Answers(), Answers(), Answers()
    rig.engine.request(c.ContinueAsNew(FLOW, None, RequestId("2"), b"digest"), rolled)
    rig.engine.request(stop_command("f"), stopped)
    begin = c.StartFlow(FLOW, "Order", RunId("other"), 7, RequestId("other"), b"digest", None)
    rig.engine.request(begin, begun)
    await rig.decided()
    answers = Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 0, second), answers)
    rig.writer.is_automatic = True
    rig.writer.commit()
    await rig.decided()
    assert (answers.only.run_id, answers.only.end.status) == (rolled.only.run_id, FlowStatus.CANCELED)


async def test_step_that_ended_in_an_earlier_run_is_known() -> None:
    """[WAITAPI-3] Whichever run of the chain that was, also after a restart."""
    rig = Rig()
    worker = await rig.worker(streams=1)
    await rig.start()
    for number in range(7):
        worker.decide(worker.calls[-1], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
        await rig.decided()
        if number % 2:
            await roll(rig, f"r{number}")
    for engine in (rig, Rig(rig.log)):
        wait = engine.engine.reads.wait_for_step
        for step in ("Begin-1", *(f"Next-{number}" for number in range(1, 7))):
            assert await engine.read(wait, step_wait(step)) == StepWait(StepOutcome.COMPLETED), step
        assert await engine.read(wait, step_wait("Next-7", 0)) == StepWait(None)


# ---- reads -------------------------------------------------------------------------------------------------------


async def test_describe_and_list_show_one_row_per_execution() -> None:
    """[SEARCH-7, HIST-5, GEN-3] The newest run with the name of the first; each run by its ID [ID-5]."""
    rig = Rig()
    await rig.start()
    await rig.answer(set_command("a", b"1", "1"))
    second = await roll(rig)
    await rig.answer(set_command("a", b"2", "2"))
    for engine in (rig, Rig(rig.log)):
        reads = engine.engine.reads
        summary = await engine.read(reads.describe, LATEST)
        assert isinstance(summary, FlowSummary)
        assert (summary.run_id, summary.first_run_id, summary.status) == (second, FIRST, FlowStatus.RUNNING)
        assert (summary.ordinal, summary.started_at, summary.history_events) == (1, BEGUN_AT, 3)
        found = await engine.read(engine.engine.searches.search, ALL_FLOWS)
        assert [summary_of_row(run.listed) for run in found.page.runs] == [summary]
        old = await engine.read(reads.describe, RunKey(FLOW, FIRST))
        assert (old.run_id, old.status, old.closed_at) == (FIRST, FlowStatus.CONTINUED_AS_NEW, BEGUN_AT)
        values = [await engine.read(reads.attribute, AttributeQuery(RunKey(FLOW, run), "a")) for run in (FIRST, second)]
        assert values == [AttributeView(b"1"), AttributeView(b"2")]


async def test_each_run_has_a_history_of_its_own() -> None:
    """[HIST-2] From event 1 on without gap; the runs are linked."""
    rig = Rig()
    await rig.start()
    second = await roll(rig)
    histories = {}
    for run_id in (FIRST, second):
        page = await rig.read(rig.engine.reads.history, HistoryQuery(RunKey(FLOW, run_id), 1, 100))
        histories[run_id] = [(entry.event_id, entry.kind) for entry in page.entries]
    assert histories == {
        FIRST: [(1, "FlowStarted"), (2, "StepScheduled"), (3, "FlowClosed")],
        second: [(1, "FlowStarted"), (2, "FlowContinued")],
    }


async def watched(rig: Rig, *, follow_runs: bool, key: RunKey = LATEST) -> list[HistoryEntry]:
    entries = []
    async for entry in rig.engine.reads.watch_history(WatchQuery(key, 1, follow_runs, page_events=2)):
        assert isinstance(entry, HistoryEntry)
        entries.append(entry)
        if len(entries) == 2:
            await roll(rig, "1")
            await roll(rig, "2")
            await rig.answer(stop_command("f"))
    return entries


async def test_watcher_follows_the_runs_if_it_wants_to() -> None:
    """[HIST-5] It ends with the execution, each event once and in order."""
    rig = Rig()
    await rig.start()
    entries = await watched(rig, follow_runs=True)
    begin = ["FlowStarted", "FlowContinued"]
    kinds = ["FlowStarted", "StepScheduled", "FlowClosed", *begin, "FlowClosed", *begin, "StepCanceled", "FlowClosed"]
    assert [entry.kind for entry in entries] == kinds
    assert [entry.event_id for entry in entries] == [1, 2, 3, 1, 2, 3, 1, 2, 3, 4]
    assert len(dict.fromkeys(entry.run_id for entry in entries)) == 3


async def test_watcher_of_one_run_ends_with_it() -> None:
    """[HIST-5]"""
    rig = Rig()
    await rig.start()
    assert [entry.kind for entry in await watched(rig, follow_runs=False)][-1] == "FlowClosed"


async def test_watcher_that_comes_back_goes_on_from_an_earlier_run() -> None:
    """[HIST-5] As after a broken connection, when its run was continued meanwhile."""
    rig = Rig()
    await rig.start()
    await roll(rig)
    await rig.answer(stop_command("f"))
    query = WatchQuery(RunKey(FLOW, FIRST), 3, follow_runs=True)
    found = [(entry.run_id == FIRST, entry.event_id) async for entry in rig.engine.reads.watch_history(query)]  # type: ignore[union-attr] # no refusal
    assert found == [(True, 3), (False, 1), (False, 2), (False, 3), (False, 4)]


# ---- rows, memory, recovery --------------------------------------------------------------------------------------


async def test_rows_say_which_run_began_the_execution_and_the_chain() -> None:
    """[ARCH-10] And pending timers belong to the run that goes on."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(start_step=StepPlan("Begin", b"1", True), terms=FlowTerms(timeout_ms=90_000))
    worker.wait(worker.calls[0], Wait(WaitKind.ALL_OF, (Condition(ConditionKind.TIMER, duration_ms=60_000),)))
    await rig.decided()
    second = await roll(rig)
    new, old = rig.log.run_rows("f")
    assert (old.run_id, old.first_run_id, old.chain_id, old.status) == (FIRST, "", "", FlowStatus.CONTINUED_AS_NEW)
    assert (new.run_id, new.first_run_id, new.chain_id, new.closed_at) == (second, FIRST, FIRST, 0)
    assert rig.log.pending_timers(old.stream_id) == []
    assert list(rig.log.pending_timers(new.stream_id)) == [
        TimerRow(new.stream_id, "Begin-1", BEGUN_AT + 60_000),
        TimerRow(new.stream_id, TIMEOUT_HANDLER_ID, BEGUN_AT + 90_000),
    ]


async def test_superseded_runs_leave_memory_at_once() -> None:
    """[ARCH-8] The run that goes on has everything; they come back when somebody reads them."""
    rig = Rig()
    await rig.start()
    for number in range(20):
        await roll(rig, str(number))
    assert len(rig.engine.kernel.runs) == 1
    assert (await rig.read(rig.engine.reads.describe, RunKey(FLOW, FIRST))).status is FlowStatus.CONTINUED_AS_NEW
    await rig.answer(publish_command("f", b"1"))
    assert len(rig.engine.kernel.runs) == 2
    assert rig.engine.health.open_runs == 1


async def test_run_is_recovered_from_its_own_events() -> None:
    """[ROLL-1] Those of the runs before it are not read; with and without a snapshot of its own."""
    rig = Rig(snapshot_every_events=3)
    await rig.start()
    await rig.answer(publish_command("f", b"1", request_id="1"))
    await roll(rig)
    for expected in (2, 3, 4):
        (stored,) = rig.log.active_runs()
        assert (stored.snapshot.version if stored.snapshot else 0) + len(stored.events) == expected
        again = Rig(rig.log)
        assert again.engine.kernel.run(FLOW) == rig.engine.kernel.run(FLOW)
        await rig.answer(publish_command("f", b"2", request_id=f"more-{expected}"))


async def test_late_result_of_a_chain_finds_its_newest_run_in_the_log() -> None:
    """[LOST-3, ROLL-4] Its Flow was continued, closed and forgotten since."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    call = worker.calls[0]
    await roll(rig)
    await rig.answer(stop_command("f"))
    again = Rig(rig.log)
    late = await again.worker()
    done = Response(decision=Decision(DecisionKind.DEAD_END))
    for _ in range(2):
        late.say(c.CompleteCall(late.session, StreamNumber(1), call.call.token, done))
        await again.decided()
    new, old = again.log.run_rows("f")
    kinds = [event.type for event in again.log.read_stream(new.stream_id, 1, 100)]
    assert kinds[-2:] == ["StaleResultRejected", "StaleResultRejected"]
    assert [event.type for event in again.log.read_stream(old.stream_id, 1, 100)][-1] == "FlowClosed"
    unknown = msgspec.structs.replace(call.call.token, run_id=RunId("nobody"))
    late.say(c.CompleteCall(late.session, StreamNumber(1), unknown, done))
    await again.decided()
    assert again.fatal == []


async def test_refused_commit_gives_the_roll_over_up() -> None:
    """[ARCH-4] The run goes on as it was, and waiters of it wait on."""
    rig = Rig()
    await rig.start()
    waits = Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, None), waits)
    rig.writer.refusal = LogFullError("full")
    answer = await rig.answer(c.ContinueAsNew(FLOW, None, RequestId("roll"), b"digest"))
    assert isinstance(answer, Rejection)
    assert answer.code is Code.DISK_FULL
    rig.writer.refusal = None
    await rig.advance(2_000)
    run = rig.engine.kernel.run(FLOW)
    assert run is not None
    assert run.run_id == FIRST
    assert await roll(rig) != FIRST
    await rig.answer(stop_command("f"))


async def test_threshold_of_a_flow_is_honoured_by_the_whole_server() -> None:
    """[CFG-1, ROLL-2] Many runs, one row, nothing lost."""
    rig = Rig()
    terms = FlowTerms(config=FlowConfig(continue_as_new_threshold=10))
    await rig.start(terms=terms)
    for number in range(100):
        await rig.answer(publish_command("f", b"%d" % number, request_id=str(number)))
    run = rig.engine.kernel.run(FLOW)
    assert run is not None
    assert [message.value for message in run.channels["news"]] == [b"%d" % number for number in range(100)]
    assert len(rig.log.run_rows("f")) > 10
    assert len((await rig.read(rig.engine.searches.search, ALL_FLOWS)).page.runs) == 1
