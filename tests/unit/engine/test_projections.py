"""Projections follow the events of their commit, and can be made anew from them [ARCH-10]."""

from collections.abc import Callable

import msgspec
import pytest

from dexd.codec.flow_queries import RunKey
from dexd.codec.search_requests import SearchQuery
from dexd.codec.views import summary_of_row
from dexd.core.commands import FailCall
from dexd.core.ids import FlowId, StepExecutionId
from dexd.core.values import (
    Condition,
    ConditionKind,
    DecisionKind,
    Failure,
    RetryPolicy,
    StepOptions,
    StepPlan,
    Wait,
    WaitKind,
)
from dexd.engine.projections import PROJECTION_VERSION, Rebuilt, rebuild_projections, refresh_projections
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import Batch, Projections, Removal, RunFilter, Snapshot, TimerRow
from dexd.log.memory_log import MemoryLog
from dextools.log_verification import Fault, verify_log
from tests.unit.engine.rig import BEGUN_AT, Rig, RigWorker, publish_command, start_command, stop_command

BEGIN = StepPlan("Begin", b"", True)
RETRIED = StepPlan("Begin", b"", False, StepOptions(execute_retry=RetryPolicy(initial_interval_ms=700)))
TIMER_OR_NEWS = Wait(
    WaitKind.ANY_OF,
    (
        Condition(ConditionKind.TIMER, duration_ms=5_000),
        Condition(ConditionKind.TIMER, duration_ms=9_000),
        Condition(ConditionKind.CHANNEL, channel="news", at_least=1, at_most=1),
    ),
)
BOTH_TIMERS = Wait(WaitKind.ALL_OF, TIMER_OR_NEWS.conditions[:2])
NEWS = Wait(WaitKind.ALL_OF, TIMER_OR_NEWS.conditions[2:])


class TimerWrites(MemoryLog):
    """Remembers which timer rows were written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []

    def append(self, batch: Batch) -> None:
        self.writes += [row.at for row in batch.timers]
        super().append(batch)


async def waiting(rig: Rig, wait: Wait, flow_id: str = "f") -> RigWorker:
    """A Flow whose first Step waits so."""
    worker = await rig.worker()
    await rig.start(flow_id, start_step=BEGIN)
    await rig.decided()
    worker.wait(worker.calls[0], wait)
    await rig.decided()
    return worker


def rows(log: MemoryLog) -> list[tuple[str, int]]:
    """Timer rows of the first run, counted from the beginning."""
    return [(row.step_execution_id, row.at - BEGUN_AT) for row in log.pending_timers(1)]


def faults(log: MemoryLog) -> list[Fault]:
    return verify_log(log, lambda _: None).faults


async def test_pending_timer_is_written_with_its_wait_and_goes_with_it() -> None:
    """[ARCH-10, TIMER-3] The earliest timer that has not fired."""
    log = MemoryLog()
    rig = Rig(log)
    await waiting(rig, BOTH_TIMERS)
    assert rows(log) == [("Begin-1", 5_000)]
    assert faults(log) == []
    await rig.advance(5_000)
    assert rows(log) == [("Begin-1", 9_000)]
    await rig.advance(4_000)
    assert rows(log) == []
    assert faults(log) == []


async def test_message_that_ends_a_wait_takes_its_timers_away() -> None:
    """[ARCH-10, WAIT-9]"""
    log = MemoryLog()
    rig = Rig(log)
    await waiting(rig, TIMER_OR_NEWS)
    await rig.answer(publish_command("f", b"1"))
    assert rows(log) == []
    assert faults(log) == []


async def test_retry_is_a_pending_timer_until_it_is_handed_over() -> None:
    """[ARCH-10, RETRY-2] Without a worker it stays due."""
    log = MemoryLog()
    rig = Rig(log)
    worker = await rig.worker()
    await rig.start(start_step=RETRIED)
    await rig.decided()
    call = worker.calls[0]
    worker.say(FailCall(worker.session, call.stream, call.call.token, Failure("Boom")))
    await rig.decided()
    assert rows(log) == [("Begin-1", 700)]
    await rig.advance(700)
    assert len(worker.calls) == 2
    assert rows(log) == []
    assert faults(log) == []


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_end_of_a_run_takes_its_timers_away(is_restarted: bool) -> None:
    """[ARCH-10] Also of timers that were installed before a restart."""
    log = MemoryLog()
    rig = Rig(log)
    await waiting(rig, TIMER_OR_NEWS)
    if is_restarted:
        rig = Rig(log)
    await rig.answer(stop_command("f"))
    assert rows(log) == []
    assert faults(log) == []


async def test_nothing_is_written_for_steps_without_timers() -> None:
    """[ARCH-10] Neither for Channels nor for Steps that just run."""
    log = TimerWrites()
    rig = Rig(log)
    worker = await waiting(rig, NEWS)
    await rig.answer(publish_command("f", b"1"))
    await rig.decided()
    worker.decide(worker.calls[1], DecisionKind.GO_TO, b"", StepPlan("Next", b"", False))
    await rig.decided()
    worker.decide(worker.calls[2], DecisionKind.FORCE_COMPLETE)
    await rig.decided()
    assert log.list_runs(RunFilter(), 1)[0].row.closed_at
    assert log.writes == []


async def test_list_and_describe_agree_on_events_and_deadline() -> None:
    """[ARCH-10, HIST-2] Both count the events of the history."""
    rig = Rig()
    await waiting(rig, TIMER_OR_NEWS)
    described = await rig.read(rig.engine.reads.describe, RunKey(FlowId("f"), None))
    found = await rig.read(rig.engine.searches.search, SearchQuery("", 10, None, {}))
    assert [summary_of_row(run.listed) for run in found.page.runs] == [described]
    assert described.history_events == rig.log.last_seq
    assert described.next_deadline == BEGUN_AT + 5_000


# ---- made anew -----------------------------------------------------------------------------------------------------


async def some_log() -> MemoryLog:
    """An open run that waits for a timer, a closed one, and one that ran twice."""
    log = MemoryLog()
    rig = Rig(log, snapshot_every_events=2)
    await waiting(rig, TIMER_OR_NEWS)
    await rig.start("g")
    await rig.answer(stop_command("g"))
    await rig.answer(start_command("g", run_id="run-g2", request_id="again"))
    return log


def contents(log: MemoryLog) -> object:
    listed = log.list_runs(RunFilter(), 10)
    return listed, [log.pending_timers(one.row.stream_id) for one in listed], log.run_rows("g")


def forget_all(log: MemoryLog) -> None:
    log.replace_projections(Projections(7, (), (), ()))


def alter_row(log: MemoryLog) -> None:
    row = msgspec.structs.replace(log.run_rows("f")[0], status=3, closed_at=9, start_request_id="other")
    log.replace_projections(Projections(7, [row, *log.run_rows("g")], (), log.pending_timers(1)))


def alter_timers(log: MemoryLog) -> None:
    timers = [TimerRow(1, StepExecutionId("Begin-1"), 5), TimerRow(2, StepExecutionId("Next-1"), 6)]
    log.replace_projections(Projections(7, [*log.run_rows("f"), *log.run_rows("g")], (), timers))


def alter_snapshot(log: MemoryLog) -> None:
    found = log.run_by_id("run-f")
    assert found is not None
    assert found.snapshot is not None
    other = Snapshot(1, found.snapshot.version - 1, found.snapshot.state_version, found.snapshot.payload)
    runs = [*log.run_rows("f"), *log.run_rows("g")]
    log.replace_projections(Projections(7, runs, [other], log.pending_timers(1)))


@pytest.mark.parametrize("damage", [forget_all, alter_row, alter_timers, alter_snapshot])
async def test_rebuild_mends_what_verify_finds(damage: Callable[[MemoryLog], None]) -> None:
    """[ARCH-10, INV-8, SURF-23] The events are the truth."""
    log = await some_log()
    whole = contents(log)
    damage(log)
    assert faults(log) != []
    rebuilt = rebuild_projections(log, lambda _: None)
    assert faults(log) == []
    assert contents(log) == whole
    assert rebuilt == Rebuilt(events=log.last_seq, runs=3, timers=1, snapshots=1, parked=1)
    assert Rig(log).engine.health.open_runs == 2


async def test_keep_1_rebuild_leaves_removed_runs_out() -> None:
    """[KEEP-1] Also one whose events are half deleted."""
    rig = Rig()
    for flow_id in ("a", "b"):
        await rig.start(flow_id)
        await rig.answer(stop_command(flow_id))
    rig.log.append(Batch(rig.log.last_seq, (), removals=[Removal(1, "a", 1, 0)]))
    rig.log.remove_some(2)
    rebuilt = rebuild_projections(rig.log, lambda _: None)
    assert rebuilt.runs == 1
    assert [listed.row.flow_id for listed in rig.log.list_runs(RunFilter(), 10)] == ["b"]
    assert rig.log.last_ordinal("a") == 1


async def test_long_open_runs_get_a_snapshot() -> None:
    """[ARCH-11] A rebuilt log starts as quickly as before."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.start()
    for number in range(200):
        await rig.answer(publish_command("f", b"1", request_id=f"p-{number}"))
    assert rebuild_projections(log, lambda _: None).snapshots == 1
    found = log.run_by_id("run-f")
    assert found is not None
    assert (found.snapshot is not None, list(found.events)) == (True, [])
    assert faults(log) == []


async def test_log_that_cannot_be_folded_keeps_its_rows() -> None:
    """[ARCH-7] What is wrong is said, and nothing is made worse."""
    log = await some_log()
    forget_all(log)
    log._streams[1].pop(0)
    with pytest.raises(LogDamagedError, match="stream 1 cannot be folded after event 0"):
        rebuild_projections(log, lambda _: None)
    assert log.projection_version == 7


async def test_progress_counts_every_event_twice() -> None:
    """[SURF-26] The bar ends where it should."""
    log = await some_log()
    counts: list[int] = []
    rebuild_projections(log, counts.append)
    assert sum(counts) == 2 * log.last_seq


async def test_rows_of_another_form_are_rebuilt_once() -> None:
    """[ARCH-10] A new release begins with rows that it understands."""
    log = await some_log()
    whole = contents(log)
    forget_all(log)
    refresh_projections(log)
    assert (log.projection_version, contents(log)) == (PROJECTION_VERSION, whole)
    log.replace_projections(Projections(PROJECTION_VERSION, (), (), ()))
    refresh_projections(log)
    assert log.list_runs(RunFilter(), 10) == []
