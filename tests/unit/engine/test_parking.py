"""Open runs that only wait are on disk, and nobody can tell; memory is bounded by what is at work [ARCH-11, INV-10]."""

from typing import Any

import pytest

from dexd.codec.flow_queries import AttributeQuery, FlowWaitQuery, HistoryQuery, RunKey, StepWaitQuery
from dexd.codec.search_requests import SearchQuery
from dexd.codec.views import summary_of_row
from dexd.core import commands as c
from dexd.core.events import TimerFired
from dexd.core.ids import CallerId, FlowId, RequestId, RunId, StepExecutionId
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.values import Condition, ConditionKind, DecisionKind, FlowStatus, Response, StepPlan, Wait, WaitKind
from dexd.engine.parking_lot import Bounds
from dexd.engine.projections import rebuild_projections
from dexd.log.errors import LogFullError
from dexd.log.event_log import Batch
from dexd.log.memory_log import MemoryLog
from dexd.log.parking import ChildWait, ParkedCounts, ParkingRow
from dextools.log_verification import verify_log
from tests.unit.engine.rig import BEGUN_AT, Rig, RigWorker, publish_command, start_command, stop_command

BEGIN = StepPlan("Begin", b"", True)
NEWS = Condition(ConditionKind.CHANNEL, channel="news", at_least=1, at_most=1)
NOTHING_STAYS = Bounds(runs_max=0, distance_ms=0)
FLOW = FlowId("f")


def timer(milliseconds: int) -> Condition:
    return Condition(ConditionKind.TIMER, duration_ms=milliseconds)


def any_of(*conditions: Condition) -> Wait:
    return Wait(WaitKind.ANY_OF, conditions)


async def wait_in(rig: Rig, worker: RigWorker, wait: Wait, flow_id: str = "f", **changes: Any) -> None:
    """A Flow whose first Step waits so."""
    await rig.start(flow_id, start_step=BEGIN, **changes)
    await rig.decided()
    worker.wait(worker.calls[-1], wait)
    await rig.decided()


def in_memory(rig: Rig) -> list[str]:
    """Flow IDs of the open runs in memory."""
    return sorted(run.flow_id for run in rig.engine.kernel.runs.values() if run.is_open)


async def parked(*flow_ids: str, log: MemoryLog | None = None, wait: Wait | None = None) -> tuple[Rig, RigWorker]:
    """Flows that wait for news or a minute, and are parked."""
    rig = Rig(log, memory=NOTHING_STAYS)
    worker = await rig.worker(streams=8)
    for flow_id in flow_ids or ("f",):
        await wait_in(rig, worker, wait or any_of(NEWS, timer(60_000)), flow_id)
    assert in_memory(rig) == []
    return rig, worker


def fired(rig: Rig) -> list[tuple[int, int]]:
    """Stream and instant of the timers that fired, in order."""
    events = rig.log.read_all(1, 100_000)
    return [(event.stream_id, event.at) for event in events if event.type == TimerFired.__name__]


# ---- bounded by what is at work -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_inv_10_two_thousand_flows_that_wait_take_the_memory_of_a_hundred() -> None:
    """[ARCH-11] A restart folds only those that are not parked, and all of them go on."""
    log = MemoryLog()
    rig = Rig(log, memory=Bounds(runs_max=100))
    worker = await rig.worker(streams=8)
    for first in range(0, 2_000, 8):
        await some(rig, worker, range(first, first + 8))
        assert len(in_memory(rig)) <= 100
    health = rig.engine.health
    assert (health.open_runs, health.parked_runs) == (2_000, 2_000 - len(in_memory(rig)))
    again = Rig(log, memory=Bounds(runs_max=100))
    folded = len(in_memory(again))
    assert folded == 2_000 - log.parked_counts().runs <= 100
    assert again.engine.health.open_runs == 2_000
    worker = await again.worker(streams=8)
    for number in range(0, 2_000, 20):
        again.engine.request(publish_command(f"f{number}", b"1"), lambda _: None)
    await again.decided()
    answered = 0
    while answered < 100:
        (call, *_) = worker.calls[answered:]
        worker.decide(call, DecisionKind.FORCE_COMPLETE)
        await again.decided()
        answered += 1
    assert again.engine.health.open_runs == 1_900
    assert len(in_memory(again)) <= 100
    worker.deliveries.clear()
    await again.advance(700_000)
    assert len(fired(again)) == 1_900
    assert [at for _, at in fired(again)] == sorted(at for _, at in fired(again))


async def some(rig: Rig, worker: RigWorker, numbers: range) -> None:
    """Flows that wait for news or a Timer, the later the higher their number."""
    for number in numbers:
        rig.engine.request(start_command(f"f{number}", start_step=BEGIN), lambda _: None)
    await rig.decided()
    for call, number in zip(worker.calls, numbers, strict=True):
        worker.wait(call, any_of(NEWS, timer(600_000 + number // 100)))
    await rig.decided()
    worker.deliveries.clear()


async def test_arch_11_nothing_is_written_while_there_is_room() -> None:
    rig = Rig()
    worker = await rig.worker()
    await wait_in(rig, worker, any_of(NEWS))
    assert in_memory(rig) == ["f"]
    assert rig.log.parked_counts().runs == 0
    assert rig.log.run_by_id("run-f").snapshot is None  # type: ignore[union-attr]  # it exists


async def test_arch_11_runs_at_work_stay_however_many_there_are() -> None:
    rig = Rig(memory=NOTHING_STAYS)
    for number in range(5):
        await rig.start(f"f{number}")
    await rig.decided()
    assert len(in_memory(rig)) == 5


async def test_arch_11_run_that_wakes_up_soon_stays() -> None:
    rig = Rig(memory=Bounds(runs_max=0, distance_ms=1_000))
    worker = await rig.worker()
    await wait_in(rig, worker, any_of(timer(1_000)), "soon")
    await wait_in(rig, worker, any_of(timer(1_001)), "later")
    assert in_memory(rig) == ["soon"]


# ---- coming back ----------------------------------------------------------------------------------------------------


async def test_arch_11_message_brings_a_run_back() -> None:
    rig, worker = await parked()
    calls = len(worker.calls)
    assert (await rig.answer(publish_command("f", b"1"))).message_ids
    await rig.decided()
    assert len(worker.calls) == calls + 1
    assert not rig.log.parking_of(1).is_parked
    worker.decide(worker.calls[-1], DecisionKind.FORCE_COMPLETE)
    await rig.decided()
    assert rig.engine.health.open_runs == 0


async def test_timer_5_timers_fire_when_due_in_order_and_once() -> None:
    """[INV-5] Be their run in memory or not."""
    rig, _ = await parked("a", "b", "c")
    stay = Rig(rig.log, memory=Bounds(runs_max=10))
    await stay.decided()
    assert stay.engine.next_deadline == BEGUN_AT + 60_000
    worker = await stay.worker(streams=8)
    await wait_in(stay, worker, any_of(timer(60_000)), "d")
    assert in_memory(stay) == ["d"]
    await stay.advance(59_999)
    assert fired(stay) == []
    await stay.advance(1)
    assert fired(stay) == [(stream_id, BEGUN_AT + 60_000) for stream_id in (4, 1, 2, 3)] or fired(stay) == [
        (stream_id, BEGUN_AT + 60_000) for stream_id in (1, 2, 3, 4)
    ]


async def test_timer_5_many_that_are_overdue_after_a_long_night_fire_in_due_order() -> None:
    """They are brought back in portions."""
    log = MemoryLog()
    rig = Rig(log, memory=NOTHING_STAYS)
    worker = await rig.worker(streams=8)
    order = [(37 * number) % 300 for number in range(300)]
    for number, due in enumerate(order):
        await wait_in(rig, worker, any_of(timer(60_000 + due)), f"f{number}")
    assert in_memory(rig) == []
    again = Rig(log, is_serving=False, memory=NOTHING_STAYS)
    again.clock.at = BEGUN_AT + 3_600_000
    again.engine.start()
    await again.answer(publish_command("f0", b"1"))
    expected = sorted(range(300), key=lambda number: order[number])
    assert [stream_id for stream_id, _ in fired(again)] == [number + 1 for number in expected]
    events = [event.type for event in again.log.read_all(1, 10_000)]
    assert events[-1] == "ChannelPublished", "what was due came before the command"


async def test_arch_11_reads_leave_a_parked_run_where_it_is() -> None:
    """Describe, history, list, Attributes and waits see what is committed."""
    rig, _ = await parked()
    reads = rig.engine.reads
    key = RunKey(FLOW, None)
    summary = await rig.read(reads.describe, key)
    assert (summary.status, summary.next_deadline) == (FlowStatus.RUNNING, BEGUN_AT + 60_000)
    assert await rig.read(reads.describe, RunKey(FLOW, RunId("run-f"))) == summary
    page = await rig.read(reads.history, HistoryQuery(key, 1, 100))
    assert len(page.entries) == summary.history_events == 4
    search = SearchQuery("StepStatus = 'waiting' AND ActiveStepTypes = 'Begin'", 10, None, {})
    found = await rig.read(rig.engine.searches.search, search)
    assert [summary_of_row(run.listed) for run in found.page.runs] == [summary]
    assert (await rig.read(reads.attribute, AttributeQuery(key, "a"))).value is None
    assert (await rig.read(reads.wait_for_flow, FlowWaitQuery(FLOW, 0, None))).end is None
    assert in_memory(rig) == []
    assert rig.log.parking_of(1).is_parked


async def test_waitapi_2_who_waits_for_a_parked_run_is_told_of_its_end() -> None:
    rig, worker = await parked()
    ends: list[Any] = []
    steps: list[Any] = []
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, None), ends.append)
    rig.engine.reads.wait_for_step(StepWaitQuery(FLOW, StepExecutionId("Begin-1"), 60_000), steps.append)
    await rig.answer(publish_command("f", b"1"))
    await rig.decided()
    worker.decide(worker.calls[-1], DecisionKind.FORCE_COMPLETE)
    await rig.decided()
    assert ends[0].end.status is FlowStatus.COMPLETED
    assert steps[0].outcome is not None


async def test_gen_3_older_run_never_poses_as_the_latest_that_is_parked() -> None:
    """A closed run of the Flow ID is looked at while the open one is on disk."""
    rig, worker = await parked(log=MemoryLog())
    await rig.answer(stop_command("f"))
    again = Rig(rig.log, memory=NOTHING_STAYS)
    worker = await again.worker()
    await wait_in(again, worker, any_of(NEWS), run_id="second", request_id="again")
    assert in_memory(again) == []
    later = Rig(rig.log, memory=NOTHING_STAYS)
    old = await later.read(later.engine.reads.describe, RunKey(FLOW, RunId("run-f")))
    assert old.status is FlowStatus.CANCELED
    new = await later.read(later.engine.reads.describe, RunKey(FLOW, None))
    assert (new.run_id, new.ordinal) == ("second", 2)
    assert (await later.answer(stop_command("f"))).applied


async def test_arch_11_run_that_came_back_for_nothing_leaves_for_nothing() -> None:
    """Its row is still right: nothing is written again."""
    rig, worker = await parked()
    worker.say(c.DrainSession(worker.session))
    begun: list[Any] = []
    rpc = c.InvokeRpc(CallerId(7), FLOW, None, "get", b"", RequestId("q"), b"d", 1_000, BEGUN_AT + 500)
    abandon = rig.engine.invoke(lambda caller: c.InvokeRpc(caller, *rpc_fields(rpc)), begun.append)
    await rig.decided()
    assert in_memory(rig) == ["f"]
    assert rig.log.parking_of(1).is_parked
    abandon()
    events = rig.log.last_seq
    await rig.start("other")
    await rig.decided()
    assert in_memory(rig) == ["other"]
    assert rig.log.last_seq == events + 2
    await rig.advance(60_000)
    assert [stream_id for stream_id, _ in fired(rig)] == [1]


def rpc_fields(command: c.InvokeRpc) -> tuple[Any, ...]:
    return tuple(getattr(command, name) for name in command.__struct_fields__[1:])


# ---- between two commits --------------------------------------------------------------------------------------------


async def test_arch_11_run_that_moves_before_it_is_parked_stays() -> None:
    """Its row says so with the event, whatever is committed when."""
    rig = Rig(memory=NOTHING_STAYS)
    worker = await rig.worker()
    await rig.start("f", start_step=BEGIN)
    await rig.decided()
    rig.writer.is_automatic = False
    worker.wait(worker.calls[-1], any_of(NEWS, NEWS))
    await rig.decided()
    while not any(batch.parking for batch, _ in rig.writer.submitted):
        rig.writer.commit()
        await rig.decided()
    rig.engine.request(publish_command("f", b"1"), lambda _: None)
    await rig.decided()
    rig.writer.commit()
    assert rig.log.parking_of(1).is_parked
    assert in_memory(rig) == ["f"]
    await rig.decided()
    while rig.writer.submitted:
        rig.writer.commit()
        await rig.decided()
    assert not rig.log.parking_of(1).is_parked
    assert rig.log.run_by_id("run-f").events  # type: ignore[union-attr]  # it exists
    restarted = Rig(rig.log)
    assert restarted.engine.runs.latest_run(FLOW) == rig.engine.runs.latest_run(FLOW)


async def test_arch_4_refused_commit_brings_nothing_out_of_step() -> None:
    """What was parked stays so, what was about to be is folded again."""
    rig, worker = await parked("a")
    waited: list[Any] = []
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("a"), 60_000, None), waited.append)
    await rig.start("b", start_step=BEGIN)
    await rig.decided()
    rig.writer.refusal = LogFullError("full")
    worker.wait(worker.calls[-1], any_of(NEWS))
    await rig.decided()
    assert waited == [], "its run is in the log, so it goes on waiting"
    rig.writer.refusal = None
    await rig.advance(2_000)
    assert rig.engine.health.condition == "SERVING"
    assert rig.engine.health.open_runs == 2
    assert (await rig.answer(stop_command("a"))).applied
    await rig.decided()
    assert waited[0].end.status is FlowStatus.CANCELED


# ---- verified and made anew -----------------------------------------------------------------------------------------


def faults(log: MemoryLog) -> list[str]:
    return [fault.text for fault in verify_log(log, lambda _: None).faults]


def put(log: MemoryLog, row: ParkingRow) -> None:
    log.append(Batch(log.last_seq, (), parking=[row]))


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (ParkingRow(1, is_parked=True, wakes_at=5), "wakes up at 5, replay says 1060000"),
        (ParkingRow(2, is_parked=True), "is parked, but it is at work or has ended"),
        (ParkingRow(2, is_parked=True), "it is parked after event 3, its snapshot is none"),
        (ParkingRow(3, is_parked=True), "is parked, but it is at work or has ended"),
        (
            ParkingRow(1, True, BEGUN_AT + 60_000, (ChildWait(1, "run-f", "Begin-1", 0, "child", "c"),)),
            "the projection says that it waits for (ChildWait(",
        ),
    ],
)
async def test_inv_8_verify_finds_what_is_wrong_with_parked_runs_and_rebuild_mends_it(
    row: ParkingRow, found: str
) -> None:
    log = MemoryLog()
    rig, _ = await parked(log=log)
    await rig.start("at-work")
    await rig.start("ended")
    await rig.answer(stop_command("ended"))
    await rig.decided()
    assert faults(log) == []
    put(log, row)
    assert [text for text in faults(log) if found in text]
    rebuilt = rebuild_projections(log, lambda _: None)
    assert faults(log) == []
    assert rebuilt.parked == log.parked_counts().runs == 1
    assert in_memory(Rig(log)) == ["at-work"]


async def test_inv_8_index_of_parked_runs_is_counted() -> None:
    class Miscounted(MemoryLog):
        def parked_counts(self) -> ParkedCounts:
            return ParkedCounts(2, 0)

    log = Miscounted()
    await parked(log=log)
    assert [text for text in faults(log) if "are parked according to the index" in text]


async def test_arch_14_rebuild_parks_nobody_who_waits_for_a_child() -> None:
    """Word of its end may have been lost; such a run asks again when the server starts."""
    log = MemoryLog()
    await parent_and_child(log)
    assert faults(log) == []
    rebuild_projections(log, lambda _: None)
    assert faults(log) == []
    assert in_memory(Rig(log)) == ["f"]


# ---- parents and children -------------------------------------------------------------------------------------------


async def parent_and_child(log: MemoryLog) -> tuple[Rig, RigWorker]:
    """Both wait and are parked: the parent for its child, the child for news."""
    rig = Rig(log, memory=NOTHING_STAYS)
    worker = await rig.worker(streams=8)
    await rig.start("f", start_step=BEGIN)
    await rig.decided()
    token = worker.calls[-1].call.token
    wait = any_of(Condition(ConditionKind.SUB_FLOW))
    child = SubFlowPlan("Order", BEGIN)
    worker.say(c.CompleteCall(worker.session, worker.calls[-1].stream, token, response(wait), sub_flows=(child,)))
    await rig.decided()
    worker.wait(worker.calls[-1], any_of(NEWS))
    await rig.decided()
    assert in_memory(rig) == []
    assert log.parked_counts().waits == 1
    return rig, worker


def response(wait: Wait) -> Any:
    return Response(wait=wait)


CHILD = "sys:sub:f/Begin-1/0"


async def test_sub_5_parked_parent_hears_of_the_end_of_its_parked_child() -> None:
    for is_restarted in (False, True):
        log = MemoryLog()
        rig, worker = await parent_and_child(log)
        if is_restarted:
            rig = Rig(log, memory=NOTHING_STAYS)
            worker = await rig.worker(streams=8)
        await rig.answer(stop_command(CHILD))
        await rig.decided()
        assert worker.calls[-1].call.token.call == "Begin-1"
        worker.decide(worker.calls[-1], DecisionKind.FORCE_COMPLETE)
        await rig.decided()
        assert rig.engine.health.open_runs == 0
        assert log.parked_counts().waits == 0


async def test_arch_14_word_of_a_child_that_a_crash_swallowed_is_asked_for_again() -> None:
    """The commit of the child's end takes the parent out of the parked ones, so that the restart finds it."""
    log = MemoryLog()
    rig, _ = await parent_and_child(log)
    rig.writer.is_automatic = False
    rig.engine.request(stop_command(CHILD), lambda _: None)
    await rig.decided()
    batch, _ = rig.writer.submitted[0]
    log.append(batch)
    assert not log.parking_of(1).is_parked
    again = Rig(log, memory=NOTHING_STAYS)
    worker = await again.worker(streams=8)
    await again.decided()
    assert worker.calls[-1].call.token.run_id == "run-f"


async def test_sub_5_child_at_work_tells_a_parent_that_a_restart_left_on_disk() -> None:
    log = MemoryLog()
    rig, worker = await parent_and_child(log)
    await rig.answer(publish_command(CHILD, b"1"))
    await rig.decided()
    assert in_memory(rig) == [CHILD]
    again = Rig(log, memory=NOTHING_STAYS)
    assert in_memory(again) == [CHILD]
    worker = await again.worker(streams=8)
    await again.answer(stop_command(CHILD))
    await again.decided()
    assert worker.calls[-1].call.token.run_id == "run-f"
