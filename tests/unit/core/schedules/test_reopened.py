"""Executions of a schedule that had ended and go on by time travel: they count as open again [SCHED-11, TT-1]."""

from collections import defaultdict

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.ids import FlowId, RequestId, RunId, ScheduleId
from dexd.core.outcome import RecordedEvent, TimeTravelAccepted
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.executions import may_be_reopened
from dexd.core.schedules.occurrences import occurrence_id
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy
from dexd.core.values import StopType
from tests.support.builders import digest, start
from tests.support.forks import BEGINNING, FORK, execution_log, preparation
from tests.support.schedule_builders import ACTION, SCHEDULE, create_schedule
from tests.support.schedule_stage import MINUTE, T0, Stage, schedule_command

FIRST = T0 + MINUTE


def travel(stage: Stage, flow_id: str = occurrence_id(SCHEDULE, FIRST), run_id: RunId = FORK) -> None:
    """Have the latest execution of a Flow ID go on from its beginning."""
    streams: dict[int, list[RecordedEvent]] = defaultdict(list)
    for recorded in stage.log:
        if isinstance(recorded, RecordedEvent):
            streams[recorded.stream_id].append(recorded)
    log = execution_log(streams.values(), flow_id)
    plan = log.answer(preparation(log, BEGINNING, run_id=run_id, flow_id=flow_id).plan())
    command = c.TimeTravel(FlowId(flow_id), run_id, "", RequestId(f"travel-{run_id}"), digest(run_id), plan)
    assert stage.do(command) == TimeTravelAccepted(run_id)


def with_one_ended(overlap: OverlapPolicy = OverlapPolicy.SKIP) -> Stage:
    """A schedule whose first execution has ended."""
    stage = Stage()
    stage.do(create_schedule(policy=SchedulePolicy(overlap)))
    stage.advance(MINUTE)
    stage.end(FIRST)
    return stage


def test_sched_11_an_execution_that_goes_on_is_open_again() -> None:
    """[SCHED-11, SCHED-12] The next fire finds it so, and its end is noted again; it counts as started once."""
    stage = with_one_ended()
    travel(stage)
    run = stage.kernel.run_by_id(FORK)
    assert run is not None
    reopened = e.OccurrenceReopened(FIRST, run.execution_id, run.flow_id)
    assert stage.of_type(e.OccurrenceReopened) == [reopened]
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 1, "OVERLAP": 1}
    stage.do(c.StopFlow(run.flow_id, None, StopType.CANCEL, "over", RequestId("again"), b""))
    assert not stage.state.open
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 2, "OVERLAP": 1}


def test_sched_11_it_is_stopped_for_what_replaces_it() -> None:
    """[SCHED-11] Together with the one that the waiting fire waits for."""
    stage = with_one_ended(OverlapPolicy.CANCEL_OTHER)
    stage.advance(MINUTE)
    stage.is_prompt = False
    stage.advance(MINUTE)
    assert stage.minutes(e.OccurrenceBuffered) == [3]
    travel(stage)
    stage.hand_over()
    assert stage.open_flow_ids == [occurrence_id(SCHEDULE, T0 + 3 * MINUTE)]
    assert sorted(stage.state.open) == [T0 + 3 * MINUTE]


def test_sched_11_one_that_was_running_is_open_anyway() -> None:
    """[TT-1] Nothing is to be told of it, and a repeat of the news changes nothing."""
    stage = Stage()
    stage.do(create_schedule())
    stage.advance(MINUTE)
    travel(stage)
    assert sorted(stage.state.open) == [FIRST]
    run = stage.kernel.run_by_id(FORK)
    assert run is not None
    stage.do(sc.NoteReopened(SCHEDULE, FIRST, run.flow_id, run.execution_id))
    assert stage.of_type(e.OccurrenceReopened) == []


@pytest.mark.parametrize("is_recorded", [False, True])
def test_sched_11_news_of_it_that_got_lost_is_told_again(is_recorded: bool) -> None:
    """[ARCH-14] Killed before the schedule knew of it, and after."""
    stage = with_one_ended()
    stage.is_prompt = is_recorded
    travel(stage)
    assert bool(stage.state.open) is is_recorded
    stage.is_prompt = True
    stage.restart()
    assert sorted(stage.state.open) == [FIRST]
    assert len(stage.of_type(e.OccurrenceReopened)) == 1


def test_arch_14_it_stays_in_memory_until_its_schedule_knows() -> None:
    """[ARCH-11] A parked run would not tell it again after a crash."""
    stage = Stage()
    stage.do(create_schedule(action=msgspec.structs.replace(ACTION, start_step=None)))
    stage.advance(MINUTE)
    stage.end(FIRST)
    stage.is_prompt = False
    travel(stage)
    assert not stage.kernel.can_park(FORK, until=0)
    stage.hand_over()
    assert stage.kernel.can_park(FORK, until=0)


def test_sched_15_a_deleted_schedule_is_left_alone() -> None:
    """[SCHED-15] So is one of another time with the same ID, and one that does not exist any more."""
    stage = with_one_ended()
    stage.do(schedule_command(sc.DeleteSchedule, "delete"))
    travel(stage)
    stage.do(create_schedule(request_id="again", is_paused=True))
    flow_id = occurrence_id(SCHEDULE, FIRST)
    run = stage.kernel.run_by_id(FORK)
    assert run is not None
    stage.do(sc.NoteReopened(SCHEDULE, FIRST, FlowId(flow_id), run.execution_id))
    stage.do(sc.NoteReopened(ScheduleId("nobody"), FIRST, FlowId(flow_id), run.execution_id))
    assert stage.of_type(e.OccurrenceReopened) == []
    assert not stage.state.open


def test_tt_1_a_flow_that_no_schedule_started_tells_nobody() -> None:
    stage = Stage()
    stage.do(start("alone", "run-alone"))
    stage.do(c.StopFlow(FlowId("alone"), None, StopType.CANCEL, "over", RequestId("end"), b""))
    travel(stage, "alone")
    run = stage.kernel.run_by_id(FORK)
    assert run is not None
    assert (may_be_reopened(run), list(stage.owed)) == (False, [])


def test_sched_2_the_first_run_of_an_occurrence_tells_its_schedule() -> None:
    """[SCHED-2] Another schedule of the same ID, before or after, has others."""
    stage = with_one_ended()
    [run] = stage.runs
    assert run.run_id == derived_run_id(f"{occurrence_id(SCHEDULE, FIRST)}/{stage.state.stream_id}")
