"""What schedules and their executions owe each other, once over every restart [SCHED-2, SCHED-12, SCHED-15]."""

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.events import FlowStarted
from dexd.core.ids import FlowId, RequestId, RunId, StreamId
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.occurrences import instant_text, occurrence_id
from dexd.core.schedules.spec import OverlapPolicy
from dexd.core.schedules.state import ScheduleStatus
from dexd.core.terms import FlowRetry, FlowTerms, ScheduledBy
from dexd.core.values import FlowStatus, RetryPolicy, StepPlan, StopType
from tests.support.schedule_builders import ACTION, SCHEDULE, action, create_schedule
from tests.support.schedule_stage import (
    MINUTE,
    T0,
    Stage,
    minutely,
    occurrence,
    resume,
)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_772_955_000_000, "2026-03-08T07:30:00.000Z"),
        (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
        (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
        (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
        (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_sched_2_occurrences_are_named_by_their_utc_instant(instant: int, text: str) -> None:
    assert instant_text(instant) == text
    assert occurrence_id(SCHEDULE, instant) == f"nightly@{text}"


def test_sched_2_every_fire_starts_one_flow_with_its_occurrence_id() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.advance(3 * MINUTE)
    started = [recorded.event for recorded in stage.log if isinstance(recorded.event, FlowStarted)]
    assert [event.flow_id for event in started] == [occurrence(minute) for minute in (1, 2, 3)]
    assert [str(event.request_id) for event in started] == [str(event.flow_id) for event in started]
    assert started[0].flow_type == "Report"
    assert started[0].terms == FlowTerms(schedule=ScheduledBy(SCHEDULE, T0 + MINUTE))
    assert {event.digest for event in started} == {ACTION.digest}
    assert stage.minutes(e.OccurrenceStarted) == [1, 2, 3]
    assert stage.counts == {"STARTED": 3}
    assert [run.run_id for run in stage.runs] == [event.run_id for event in stage.of_type(e.OccurrenceStarted)]


def test_sched_2_occurrence_keeps_the_options_of_its_action() -> None:
    stage = Stage()
    terms = FlowTerms(timeout_ms=5_000)
    stage.do(create_schedule(action=msgspec.structs.replace(ACTION, terms=terms)))
    stage.advance(MINUTE)
    [run] = stage.runs
    assert run.terms == msgspec.structs.replace(terms, schedule=ScheduledBy(SCHEDULE, T0 + MINUTE))
    stage.advance(5_000)
    assert (run.status, stage.state.open) == (FlowStatus.FAILED, {})


def test_sched_2_start_that_was_not_answered_is_made_once_over_a_restart() -> None:
    """[ARCH-14] Killed before the start, after it, and after its answer."""
    for handed_over in range(3):
        stage = minutely()
        stage.is_prompt = False
        stage.advance(MINUTE)
        for _ in range(handed_over):
            stage.handle(stage.owed.popleft())
        assert stage.counts == ({"STARTED": 1} if handed_over == 2 else {"BUFFERED": 1})
        stage.is_prompt = True
        stage.restart()
        assert stage.counts == {"STARTED": 1}
        assert [run.flow_id for run in stage.runs] == [occurrence(1)]


def test_sched_2_end_that_was_not_told_is_found_after_a_restart() -> None:
    stage = minutely()
    stage.advance(MINUTE)
    stage.is_prompt = False
    stage.end(T0 + MINUTE)
    assert stage.state.open
    stage.is_prompt = True
    stage.restart()
    assert stage.of_type(e.OccurrenceClosed) == [e.OccurrenceClosed(T0 + MINUTE, FlowStatus.CANCELED)]
    assert not stage.state.open


def test_sched_2_execution_that_is_not_retained_any_more_has_ended() -> None:
    stage = minutely()
    stage.advance(MINUTE)
    [run] = stage.runs
    stage.is_prompt = False
    stage.end(T0 + MINUTE)
    stage.log = [recorded for recorded in stage.log if recorded.stream_id != run.stream_id]
    stage.is_prompt = True
    stage.restart()
    assert stage.of_type(e.OccurrenceClosed) == [e.OccurrenceClosed(T0 + MINUTE, FlowStatus.TERMINATED)]


def test_sched_2_fixed_flow_id_serves_one_execution_after_the_other() -> None:
    stage = Stage()
    stage.do(create_schedule(action=action("report")))
    stage.advance(MINUTE)
    stage.end(T0 + MINUTE, flow_id="report")
    stage.advance(MINUTE)
    assert [(run.flow_id, run.ordinal) for run in stage.runs] == [("report", 1), ("report", 2)]
    stage.restart()
    assert stage.counts == {"STARTED": 2}
    assert stage.open_flow_ids == ["report"]


def test_sched_12_flow_id_that_is_in_use_skips_the_fire() -> None:
    stage = Stage()
    stage.do(c.StartFlow(FlowId("report"), "Other", RunId("r"), 1, RequestId("mine"), b"x", ACTION.start_step))
    stage.do(create_schedule(action=action("report")))
    stage.advance(MINUTE)
    assert stage.counts == {"FLOW_ID_IN_USE": 1}
    stage.do(c.StopFlow(FlowId("report"), None, StopType.CANCEL, "", RequestId("stop"), b""))
    stage.advance(MINUTE)
    assert stage.counts == {"FLOW_ID_IN_USE": 1, "STARTED": 1}


def test_sched_2_repeat_of_an_occurrence_of_an_earlier_execution_finds_it() -> None:
    """[START-3] Also if its Flow ID has been used again since."""
    stage = Stage()
    stage.do(create_schedule(action=action("report")))
    stage.advance(MINUTE)
    stage.end(T0 + MINUTE, flow_id="report")
    [first] = stage.runs
    stage.do(c.StartFlow(FlowId("report"), "Other", RunId("r"), 1, RequestId("mine"), b"x", ACTION.start_step))
    reach = sc.ReachOccurrence(
        stage.state.stream_id,
        T0 + MINUTE,
        c.StartFlow(
            FlowId("report"),
            "Report",
            RunId("another"),
            1,
            occurrence_id(SCHEDULE, T0 + MINUTE),
            b"other content",
            ACTION.start_step,
            terms=FlowTerms(schedule=ScheduledBy(SCHEDULE, T0 + MINUTE)),
        ),
        RunId(""),
    )
    stage.is_prompt = False
    stage.do(reach)
    [note] = stage.owed
    assert note == sc.NoteOccurrence(
        SCHEDULE, T0 + MINUTE, first.run_id, stage.state.stream_id, FlowStatus.CANCELED, first.error_message
    )
    assert stage.kernel.wanted(reach) is None
    stage.hand_over()
    assert stage.counts == {"STARTED": 1}


def test_arch_14_reaching_wants_the_runs_of_its_flow_id() -> None:
    stage = Stage()
    start = c.StartFlow(FlowId("f"), "Report", RunId("r"), 1, RequestId("q"), b"", None)
    reach = sc.ReachOccurrence(StreamId(1), 0, start, RunId(""))
    assert stage.kernel.wanted(reach) == start
    stop = sc.StopOccurrence(SCHEDULE, FlowId("f"), RunId("r"), is_terminated=True)
    assert stage.kernel.wanted(stop) == "f"


def test_sched_15_stopping_an_execution_does_not_stop_the_schedule() -> None:
    stage = minutely()
    for minute in (1, 2):
        stage.advance(MINUTE)
        stage.end(T0 + minute * MINUTE, StopType.FAIL)
    assert stage.state.status is ScheduleStatus.ACTIVE
    assert stage.counts == {"STARTED": 2}


def test_sched_15_failure_pauses_if_it_is_to() -> None:
    stage = minutely(pause_on_failure=True)
    stage.advance(MINUTE)
    stage.end(T0 + MINUTE, StopType.TERMINATE)
    assert not stage.of_type(e.SchedulePaused)
    stage.advance(MINUTE)
    stage.end(T0 + 2 * MINUTE, StopType.FAIL)
    assert stage.state.status is ScheduleStatus.PAUSED
    assert stage.state.note == f"execution of {occurrence(2)} FAILED: over"
    assert not stage.is_planned
    stage.do(resume())
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 3}


def test_start_8_execution_that_is_tried_again_is_still_open() -> None:
    """[SCHED-11] The schedule sees executions, not runs."""
    stage = Stage()
    start_step = StepPlan("Write", b"1", has_wait_for=False)
    retried = FlowTerms(timeout_ms=1_000, retry=FlowRetry(RetryPolicy(maximum_attempts=2), start_step))
    stage.do(create_schedule(action=msgspec.structs.replace(ACTION, terms=retried)))
    stage.advance(MINUTE + 1_000)
    assert [run.status for run in stage.runs] == [FlowStatus.FAILED, FlowStatus.RUNNING]
    assert list(stage.state.open) == [T0 + MINUTE]
    stage.restart()
    assert list(stage.state.open) == [T0 + MINUTE]
    stage.advance(30_000)
    assert [run.status for run in stage.runs] == [FlowStatus.FAILED, FlowStatus.FAILED]
    assert not stage.state.open
