"""Schedules on the engine: fires are computed off the core, in time, and again after a restart [SCHED-6, SCHED-13]."""

import pytest

from dexd.core.ids import RequestId
from dexd.core.outcome import ScheduleAccepted
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.schedules.state import ScheduleState
from dexd.log.memory_log import MemoryLog
from dextools.log_inspection import recorded_stream_events
from dextools.log_verification import verify_log
from tests.support.schedule_builders import SCHEDULE, create_schedule
from tests.unit.engine.rig import BEGUN_AT, Rig

MINUTE = 60_000
FIRST = (BEGUN_AT // MINUTE + 1) * MINUTE
ALLOW_ALL = SchedulePolicy(OverlapPolicy.ALLOW_ALL)


def state_of(rig: Rig) -> ScheduleState:
    state = rig.engine.kernel.schedules.get(SCHEDULE)
    assert state is not None
    return state


def nominals(log: MemoryLog) -> list[int]:
    """What the schedule, stream 1, has started."""
    events = [recorded.event for recorded in recorded_stream_events(log, 1)]
    return [event.nominal for event in events if isinstance(event, e.OccurrenceStarted)]


async def test_sched_6_cron_fires_in_time_for_longer_than_was_computed_ahead() -> None:
    log = MemoryLog()
    rig = Rig(log)
    assert await rig.answer(create_schedule(spec=ScheduleSpec("* * * * *"), policy=ALLOW_ALL)) == ScheduleAccepted()
    await rig.advance(50 * MINUTE)
    assert nominals(log) == [FIRST + number * MINUTE for number in range(50)]
    starts = [event.at for event in log.read_all(1, 10_000) if event.type == "OccurrenceStarting"]
    assert starts == nominals(log)
    assert verify_log(log, lambda _: None).faults == []


@pytest.mark.parametrize("down_ms", [0, 30_000, 30 * MINUTE, 300 * MINUTE])
async def test_sched_13_restart_catches_up_within_the_window(down_ms: int) -> None:
    log = MemoryLog()
    rig = Rig(log)
    await rig.answer(create_schedule(spec=ScheduleSpec("* * * * *"), policy=ALLOW_ALL))
    await rig.advance(5 * MINUTE)
    restarted = Rig(log, is_serving=False)
    restarted.clock.at = rig.clock.at + down_ms
    restarted.engine.start()
    await restarted.decided()
    state = state_of(restarted)
    passed = (restarted.clock.at - FIRST) // MINUTE + 1
    missed = max(0, passed - 5 - 60)
    assert (state.counts.started, state.counts.missed) == (passed - missed, missed)
    assert verify_log(log, lambda _: None).faults == []


async def test_sched_13_more_than_is_handled_one_by_one_is_counted() -> None:
    """[SCHED-14] With flat work: a million fires are no more than a thousand."""
    log = MemoryLog()
    rig = Rig(log)
    policy = SchedulePolicy(OverlapPolicy.ALLOW_ALL, catch_up_window_ms=365 * 86_400_000)
    await rig.answer(create_schedule(spec=ScheduleSpec(interval_ms=1_000), policy=policy))
    rig.clock.at += 90_000_000
    await rig.advance(2_000)
    counts = state_of(rig).counts
    assert (counts.started, counts.missed, counts.is_at_least) == (1_002, 89_000, False)


async def test_row_43_schedule_of_every_second_that_was_paused_for_a_month() -> None:
    """[SCHED-13, SCHED-14] No paused fire starts, whatever the catch-up window; memory and time stay flat."""
    for number, window_ms in enumerate((0, MINUTE, 365 * 86_400_000)):
        log = MemoryLog()
        rig = Rig(log)
        policy = SchedulePolicy(OverlapPolicy.ALLOW_ALL, catch_up_window_ms=window_ms)
        spec = ScheduleSpec("* * * * * *") if number else ScheduleSpec(interval_ms=1_000)
        await rig.answer(create_schedule(spec=spec, policy=policy))
        await rig.answer(sc.PauseSchedule(SCHEDULE, RequestId("pause"), b"d"))
        assert rig.engine.next_deadline is None
        rig.clock.at += 30 * 86_400_000
        before = log.last_seq
        await rig.answer(sc.ResumeSchedule(SCHEDULE, RequestId("resume"), b"d"))
        state = state_of(rig)
        assert log.last_seq == before + 2
        assert (state.counts.started, state.counts.skipped, state.counts.is_at_least) == (0, {3: 100_000}, True)
        await rig.advance(3_000)
        assert state.counts.started == 3


async def test_sched_6_many_schedules_start_in_turns_with_other_work() -> None:
    log = MemoryLog()
    rig = Rig(log)
    for number in range(100):
        await rig.answer(create_schedule(f"s{number}"))
    restarted = Rig(log)
    answers = [restarted.engine.kernel.next_deadline()]
    await restarted.decided()
    assert restarted.engine.kernel.next_deadline() == FIRST
    assert answers == [None]
    assert not restarted.engine.kernel.schedules.clockwork.wanting


async def test_sched_6_command_about_a_schedule_comes_after_its_fires() -> None:
    """[SCHED-12] Fires that were due before a pause are none of the pause."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.answer(create_schedule(spec=ScheduleSpec("* * * * *"), policy=ALLOW_ALL))
    restarted = Rig(log, is_serving=False)
    restarted.clock.at = BEGUN_AT + 10 * MINUTE
    restarted.engine.start()
    await restarted.answer(sc.PauseSchedule(SCHEDULE, RequestId("pause"), b"d"))
    await restarted.decided()
    assert state_of(restarted).counts.started == 10
