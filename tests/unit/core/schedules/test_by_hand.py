"""Deletion, trigger_now and backfill; and what must always hold [SCHED-15, SCHED-16]."""

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.ids import FlowId
from dexd.core.kernel import Kernel
from dexd.core.outcome import BackfillAccepted, OccurrenceAccepted, RecordedStreamEvent
from dexd.core.rejections import Code
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.invariants import schedule_violations
from dexd.core.schedules.occurrences import Fire, occurrence_id
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.schedules.state import Execution, ScheduleStatus, Waiting
from dexd.core.streams import StreamKind, StreamSummary, evolve_stream, summary_of
from dexd.core.values import FlowStatus
from tests.support.schedule_builders import SCHEDULE, create_schedule
from tests.support.schedule_stage import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    Stage,
    delete,
    minutely,
    occurrence,
    pause,
    schedule_command,
)


def test_sched_15_deletion_skips_what_waits_and_leaves_executions_alone() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    stage.advance(3 * MINUTE)
    stage.do(delete())
    assert stage.counts == {"STARTED": 1, "DELETED": 2}
    assert stage.open_flow_ids == [occurrence(1)]
    before = len(stage.events)
    stage.end(T0 + MINUTE)
    stage.advance(HOUR)
    assert len(stage.events) == before
    assert not stage.is_planned


def test_sched_12_start_that_is_under_way_is_accounted_for_after_a_deletion() -> None:
    for is_killed in (False, True):
        stage = minutely()
        stage.is_prompt = False
        stage.advance(MINUTE)
        stage.do(delete())
        assert not stage.state.is_closed
        stage.is_prompt = True
        if is_killed:
            stage.restart()
        stage.hand_over()
        assert stage.counts == {"STARTED": 1}
        assert stage.state.is_closed


def test_sched_15_end_before_the_deletion_is_complete_is_recorded() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.advance(MINUTE)
    stage.is_prompt = False
    stage.advance(MINUTE)
    stage.do(delete())
    stage.end(T0 + MINUTE)
    stage.owed.rotate(1)
    stage.hand_over()
    assert stage.of_type(e.OccurrenceClosed) == [e.OccurrenceClosed(T0 + MINUTE, FlowStatus.CANCELED)]
    assert stage.counts == {"STARTED": 2}


# ---- by hand -----------------------------------------------------------------------------------------------------


def trigger(request_id: str = "now", overlap: OverlapPolicy | None = None) -> sc.TriggerSchedule:
    command: sc.TriggerSchedule = schedule_command(sc.TriggerSchedule, request_id, overlap=overlap)
    return command


def test_sched_16_trigger_is_an_occurrence_of_the_present_instant() -> None:
    stage = minutely()
    stage.advance(500)
    reply = stage.do(trigger())
    assert reply == OccurrenceAccepted(occurrence_id(SCHEDULE, T0 + 500))
    assert stage.open_flow_ids == [reply.occurrence_id]
    assert stage.do(trigger()) == reply
    assert stage.counts == {"STARTED": 1}
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 1, "OVERLAP": 1}


def test_sched_16_trigger_obeys_the_overlap_policy_unless_told_otherwise() -> None:
    stage = minutely()
    stage.advance(MINUTE)
    second = stage.do(trigger("one", OverlapPolicy.ALLOW_ALL))
    assert second == OccurrenceAccepted(occurrence_id(SCHEDULE, T0 + MINUTE + 1)), "the fire has the present instant"
    stage.do(trigger("two"))
    stage.do(trigger("three", OverlapPolicy.BUFFER_ONE))
    assert stage.counts == {"STARTED": 2, "OVERLAP": 1, "BUFFERED": 1}


def test_sched_16_trigger_works_in_a_pause() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    stage.do(pause())
    stage.do(trigger("one"))
    stage.do(trigger("two"))
    assert stage.counts == {"STARTED": 1, "BUFFERED": 1}
    stage.end(T0)
    assert stage.open_flow_ids == [occurrence_id(SCHEDULE, T0 + 1)]


def test_sched_2_planned_fire_that_was_triggered_already_does_not_start_again() -> None:
    """Its jitter ends later than somebody asked for just that instant."""
    stage = Stage()
    spec = ScheduleSpec(interval_ms=MINUTE, jitter_ms=MINUTE)
    stage.do(create_schedule(spec=spec, policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL)))
    stage.jump(MINUTE)
    stage.do(trigger())
    assert stage.open_flow_ids == [occurrence(1)]
    stage.advance(MINUTE)
    assert stage.counts["OVERLAP"] == 1
    assert stage.open_flow_ids.count(occurrence(1)) == 1


def backfill(*minutes: int, request_id: str = "backfill", overlap: OverlapPolicy | None = None) -> sc.BackfillSchedule:
    fires = tuple(Fire(T0 + minute * MINUTE, T0 + minute * MINUTE) for minute in minutes)
    command: sc.BackfillSchedule = schedule_command(
        sc.BackfillSchedule, request_id, start_at=T0, end_at=T0 + HOUR, fires=fires, overlap=overlap
    )
    return command


def test_sched_16_backfill_handles_each_fire_once() -> None:
    stage = minutely()
    stage.do(pause())
    stage.jump(10 * MINUTE)
    assert stage.do(backfill(1, 2, 3, overlap=OverlapPolicy.BUFFER_ALL)) == BackfillAccepted(3)
    assert stage.do(backfill(1, 2, 3, overlap=OverlapPolicy.BUFFER_ALL)) == BackfillAccepted(3)
    assert stage.counts == {"STARTED": 1, "BUFFERED": 2}
    for minute in (1, 2, 3):
        stage.end(T0 + minute * MINUTE)
    assert stage.minutes(e.OccurrenceStarted) == [1, 2, 3]


def test_sched_16_backfill_leaves_out_what_runs_and_what_is_still_to_come() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.advance(2 * MINUTE)
    assert stage.do(backfill(1, 2, 3)) == BackfillAccepted(0)
    assert stage.counts == {"STARTED": 2}


def test_sched_16_backfill_goes_by_the_overlap_policy() -> None:
    stage = minutely()
    stage.do(pause())
    stage.jump(HOUR)
    stage.do(backfill(*range(1, 31)))
    assert stage.counts == {"STARTED": 1, "OVERLAP": 29}


def test_sched_16_backfill_may_start_more_than_downtime_does() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.do(pause())
    stage.jump(2 * DAY)
    assert stage.do(backfill(*range(1, 1_101))) == BackfillAccepted(1_100)
    assert stage.counts == {"STARTED": 1_100}


@pytest.mark.parametrize("command", [trigger(), backfill(1)], ids=["trigger", "backfill"])
def test_sched_16_is_refused_for_unknown_ones_and_other_content(command: c.Command) -> None:
    stage = Stage()
    assert stage.refused(command) is Code.SCHEDULE_NOT_FOUND
    stage.do(create_schedule())
    stage.do(command)
    assert stage.refused(msgspec.structs.replace(command, digest=b"other")) is Code.REQUEST_CONFLICT


def test_sched_6_what_wants_fires_has_them_before_anything_else_is_decided() -> None:
    stage = Stage()
    stage.handle(create_schedule())
    wanted = stage.kernel.wanted(pause())
    assert wanted is not None
    assert wanted.stream_id == stage.state.stream_id  # type: ignore[union-attr]  # it says so


# ---- what must hold ----------------------------------------------------------------------------------------------


def test_arch_2_closed_ones_in_memory_owe_nothing_after_a_restart() -> None:
    stage = minutely()
    stage.do(delete())
    kernel = Kernel(KernelConfig(), last_stream_id=1)
    kernel.adopt_stream(stage.state)
    kernel.handle(c.BeginServing(), now=stage.now)
    assert not kernel.schedules.clockwork.wanting


def test_inv_4_what_must_not_be_is_named() -> None:
    """The checks of all these tests see what they look for."""
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    desk, state = stage.kernel.schedules, stage.state
    waiting = Waiting(T0, OverlapPolicy.BUFFER_ALL)
    state.buffer = [waiting]
    assert schedule_violations(desk) == ["schedule 'nightly': an occurrence waits for nothing [SCHED-11]"]
    state.open, state.buffer = {T0: Execution(T0, FlowId("f"))}, [waiting] * 1_001
    assert schedule_violations(desk) == ["schedule 'nightly': 1001 occurrences wait [SCHED-11]"]
    state.buffer, state.status = [waiting], ScheduleStatus.DELETED
    assert schedule_violations(desk) == [
        "schedule 'nightly': it is deleted and occurrences wait [SCHED-15]",
        "schedule 'nightly': it does not fire and costs work [SCHED-14]",
    ]
    state.buffer, state.status = [], ScheduleStatus.ACTIVE
    desk.clockwork.wanting[state.stream_id] = None
    assert schedule_violations(desk) == ["schedule 'nightly': its fires are known and wanted"]


def test_arch_10_summary_of_a_schedule_is_what_lists_know() -> None:
    """[ARCH-15] And streams are numbered one after the other, whatever they belong to."""
    stage = minutely()
    assert summary_of(stage.state) == StreamSummary(StreamKind.SCHEDULE, SCHEDULE, 1, T0, is_closed=False, closed_at=0)
    first = next(recorded for recorded in stage.log if isinstance(recorded, RecordedStreamEvent))
    assert evolve_stream(None, first) == stage.state
