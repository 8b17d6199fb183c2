"""What fires lead to: starts, overlap, pauses, downtime, and an account that adds up [SCHED-2, SCHED-11..16]."""

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.events import FlowStarted
from dexd.core.ids import FlowId, RequestId, RunId, ScheduleId, StreamId
from dexd.core.kernel import Kernel
from dexd.core.outcome import BackfillAccepted, OccurrenceAccepted, RecordedStreamEvent
from dexd.core.rejections import Code
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.invariants import schedule_violations
from dexd.core.schedules.occurrences import NO_FIRES, Fire, due_at, instant_text, occurrence_id
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.schedules.state import Execution, ScheduleStatus, Waiting
from dexd.core.streams import StreamKind, StreamSummary, evolve_stream, summary_of
from dexd.core.terms import FlowRetry, FlowTerms, ScheduledBy
from dexd.core.values import FlowStatus, RetryPolicy, StepPlan, StopType
from tests.support.schedule_builders import ACTION, SCHEDULE, action, create_schedule
from tests.support.schedule_stage import MINUTE, T0, Stage, schedule_command

HOUR = 60 * MINUTE
DAY = 24 * HOUR


def minutely(overlap: OverlapPolicy = OverlapPolicy.SKIP, **policy: object) -> Stage:
    """A schedule that fires every minute, created on a full one."""
    stage = Stage()
    stage.do(create_schedule(policy=SchedulePolicy(overlap, **policy)))  # type: ignore[arg-type]  # named fields
    return stage


def occurrence(minute: int) -> str:
    return occurrence_id(SCHEDULE, T0 + minute * MINUTE)


def pause(request_id: str = "pause") -> sc.PauseSchedule:
    command: sc.PauseSchedule = schedule_command(sc.PauseSchedule, request_id)
    return command


def resume(request_id: str = "resume") -> sc.ResumeSchedule:
    command: sc.ResumeSchedule = schedule_command(sc.ResumeSchedule, request_id)
    return command


def delete() -> sc.DeleteSchedule:
    command: sc.DeleteSchedule = schedule_command(sc.DeleteSchedule, "delete")
    return command


# ---- occurrences -------------------------------------------------------------------------------------------------


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


# ---- overlap -----------------------------------------------------------------------------------------------------


def test_sched_11_skip_starts_nothing_while_one_is_open() -> None:
    stage = minutely()
    stage.advance(3 * MINUTE)
    assert stage.counts == {"STARTED": 1, "OVERLAP": 2}
    stage.end(T0 + MINUTE)
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 2, "OVERLAP": 2}


def test_sched_11_buffer_one_keeps_the_first_that_waits() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ONE)
    stage.advance(4 * MINUTE)
    assert stage.counts == {"STARTED": 1, "BUFFERED": 1, "BUFFER_FULL": 2}
    stage.end(T0 + MINUTE)
    assert stage.open_flow_ids == [occurrence(2)]
    assert stage.counts == {"STARTED": 2, "BUFFER_FULL": 2}


def test_sched_11_buffer_all_starts_one_after_the_other() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    stage.advance(4 * MINUTE)
    for minute in (1, 2, 3, 4):
        assert stage.open_flow_ids == [occurrence(minute)]
        stage.end(T0 + minute * MINUTE)
    assert stage.counts == {"STARTED": 4}


def test_sched_11_a_thousand_wait_at_most() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    stage.advance(1_010 * MINUTE)
    assert stage.counts == {"STARTED": 1, "BUFFERED": 1_000, "BUFFER_FULL": 9}


@pytest.mark.parametrize(
    ("overlap", "status"),
    [(OverlapPolicy.CANCEL_OTHER, FlowStatus.CANCELED), (OverlapPolicy.TERMINATE_OTHER, FlowStatus.TERMINATED)],
)
def test_sched_11_other_is_stopped_before_the_next_starts(overlap: OverlapPolicy, status: FlowStatus) -> None:
    stage = minutely(overlap)
    stage.advance(3 * MINUTE)
    assert [run.status for run in stage.runs] == [status, status, FlowStatus.RUNNING]
    assert stage.runs[0].error_message == "replaced by the next execution of schedule 'nightly'"
    assert stage.counts == {"STARTED": 3}
    closed = stage.events.index(e.OccurrenceClosed(T0 + MINUTE, status))
    assert type(stage.events[closed + 1]) is e.OccurrenceStarting


def test_sched_11_stop_that_is_owed_is_derived_again() -> None:
    """[ARCH-14] And one that comes twice, or too late, does nothing."""
    stage = minutely(OverlapPolicy.CANCEL_OTHER)
    stage.advance(MINUTE)
    stage.is_prompt = False
    stage.advance(MINUTE)
    [stop] = stage.owed
    assert isinstance(stop, sc.StopOccurrence)
    stage.is_prompt = True
    stage.restart()
    assert stage.open_flow_ids == [occurrence(2)]
    before = len(stage.log)
    stage.do(stop)
    stage.do(sc.StopOccurrence(SCHEDULE, FlowId("unknown"), RunId("r"), is_terminated=False))
    assert len(stage.log) == before
    assert stage.counts == {"STARTED": 2}


def test_sched_11_other_that_is_being_started_is_stopped_once_it_exists() -> None:
    stage = minutely(OverlapPolicy.TERMINATE_OTHER)
    stage.is_prompt = False
    stage.advance(2 * MINUTE)
    assert [type(command) for command in stage.owed] == [sc.ReachOccurrence]
    stage.advance(MINUTE)
    assert stage.counts == {"BUFFERED": 3}
    stage.hand_over()
    assert [run.status for run in stage.runs] == [FlowStatus.TERMINATED, FlowStatus.TERMINATED, FlowStatus.RUNNING]


def test_sched_11_notes_about_others_are_not_taken() -> None:
    stage = minutely()
    stage.advance(MINUTE)
    before = len(stage.log)
    for note in (
        sc.NoteOccurrence(SCHEDULE, T0, RunId("r"), status=FlowStatus.FAILED),
        sc.NoteOccurrence(SCHEDULE, T0 + MINUTE, RunId("another"), status=FlowStatus.FAILED),
        sc.NoteOccurrence(ScheduleId("unknown"), T0 + MINUTE, RunId("r"), status=FlowStatus.FAILED),
    ):
        stage.do(note)
    assert len(stage.log) == before


# ---- pauses ------------------------------------------------------------------------------------------------------


def test_sched_13_fires_of_a_pause_are_skipped_and_never_caught_up() -> None:
    """[SCHED-14] As one record, and without work meanwhile."""
    stage = minutely(catch_up_window_ms=365 * DAY)
    stage.do(pause())
    assert not stage.is_planned
    before = len(stage.log)
    stage.jump(30 * DAY)
    assert len(stage.log) == before
    stage.do(resume())
    passed = e.OccurrencesPassed(
        e.FireOutcome.SKIPPED,
        e.SkipReason.PAUSED,
        T0 + MINUTE,
        T0 + 30 * DAY,
        30 * DAY // MINUTE,
        ends_pause=True,
    )
    assert stage.of_type(e.OccurrencesPassed) == [passed]
    assert not stage.runs
    stage.advance(MINUTE)
    assert stage.counts == {"PAUSED": 30 * DAY // MINUTE, "STARTED": 1}


def test_sched_13_two_pauses_are_counted_each() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    for number in (1, 2):
        stage.advance(MINUTE)
        stage.do(pause(f"pause-{number}"))
        stage.jump(3 * MINUTE)
        stage.do(resume(f"resume-{number}"))
    assert stage.counts == {"STARTED": 2, "PAUSED": 6}


def test_sched_15_update_in_a_pause_keeps_what_fell_into_it() -> None:
    stage = minutely()
    stage.do(pause())
    stage.jump(5 * MINUTE)
    stage.do(schedule_command(sc.UpdateSchedule, "slower", spec=ScheduleSpec(interval_ms=HOUR)))
    assert stage.counts == {"PAUSED": 5}
    assert not stage.is_planned
    stage.jump(3 * HOUR)
    stage.do(resume())
    assert stage.counts == {"PAUSED": 5 + 3}


def test_sched_11_what_waits_goes_on_after_the_pause() -> None:
    stage = minutely(OverlapPolicy.BUFFER_ALL)
    stage.advance(2 * MINUTE)
    stage.do(pause())
    stage.end(T0 + MINUTE)
    assert stage.open_flow_ids == []
    stage.do(resume())
    assert stage.open_flow_ids == [occurrence(2)]


# ---- downtime ----------------------------------------------------------------------------------------------------


def test_sched_13_fires_within_the_window_are_caught_up_in_order() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.advance(MINUTE)
    stage.restart(3 * HOUR)
    missed = e.OccurrencesPassed(e.FireOutcome.MISSED, e.SkipReason.NONE, T0 + 2 * MINUTE, T0 + 120 * MINUTE, 119)
    assert stage.of_type(e.OccurrencesPassed) == [missed]
    assert stage.minutes(e.OccurrenceStarted) == [1, *range(121, 182)]
    assert stage.counts == {"STARTED": 62, "MISSED": 119}


@pytest.mark.parametrize("window_ms", [0, 9_999])
def test_sched_13_window_under_ten_seconds_counts_as_ten(window_ms: int) -> None:
    for late_ms, count in ((10_000, {"STARTED": 1}), (10_001, {"MISSED": 1})):
        stage = minutely(catch_up_window_ms=window_ms)
        stage.jump(MINUTE + late_ms)
        assert stage.counts == count


def test_sched_13_clock_jump_is_downtime() -> None:
    stage = minutely(catch_up_window_ms=2 * MINUTE)
    stage.jump(10 * MINUTE)
    assert stage.counts == {"MISSED": 7, "STARTED": 1, "OVERLAP": 2}


@pytest.mark.parametrize(
    ("overlap", "counts"),
    [
        (OverlapPolicy.SKIP, {"STARTED": 1, "OVERLAP": 1_439}),
        (OverlapPolicy.BUFFER_ONE, {"STARTED": 1, "BUFFERED": 1, "BUFFER_FULL": 1_438}),
        (OverlapPolicy.BUFFER_ALL, {"STARTED": 1, "BUFFERED": 999, "BUFFER_FULL": 440}),
        (OverlapPolicy.CANCEL_OTHER, {"STARTED": 1_000, "MISSED": 440}),
        (OverlapPolicy.TERMINATE_OTHER, {"STARTED": 1_000, "MISSED": 440}),
        (OverlapPolicy.ALLOW_ALL, {"STARTED": 1_000, "MISSED": 440}),
    ],
)
def test_sched_13_a_thousand_starts_at_most(overlap: OverlapPolicy, counts: dict[str, int]) -> None:
    stage = minutely(overlap, catch_up_window_ms=365 * DAY)
    stage.jump(DAY)
    assert stage.counts == counts
    assert sum(counts.values()) == 1_440


def test_sched_13_nothing_is_left_over_when_more_was_due_than_is_handled() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL, catch_up_window_ms=365 * DAY)
    stage.jump(30 * DAY)
    stage.advance(MINUTE)
    assert stage.counts == {"STARTED": 1_001, "MISSED": 30 * DAY // MINUTE - 1_000}


def test_sched_13_buffer_that_is_full_already_takes_no_more() -> None:
    stage = minutely(OverlapPolicy.CANCEL_OTHER)
    stage.is_prompt = False
    stage.advance(1_001 * MINUTE)
    stage.advance(MINUTE)
    assert stage.counts == {"BUFFERED": 1_001, "MISSED": 1}


def test_sched_9_no_fire_follows_the_last() -> None:
    stage = Stage()
    spec = ScheduleSpec(interval_ms=MINUTE, end_at=T0 + 2 * MINUTE)
    stage.do(create_schedule(spec=spec, policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL)))
    stage.advance(HOUR)
    assert stage.counts == {"STARTED": 2}
    assert not stage.is_planned


def test_sched_10_jitter_delays_a_fire_and_not_its_name() -> None:
    stage = Stage()
    spec = ScheduleSpec(interval_ms=MINUTE, jitter_ms=3 * MINUTE)
    stage.do(create_schedule(spec=spec, policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL)))
    stage.advance(100 * MINUTE)
    starting = [recorded for recorded in stage.log if isinstance(recorded.event, e.OccurrenceStarting)]
    nominals = [event.nominal for event in stage.of_type(e.OccurrenceStarting)]
    assert [recorded.at for recorded in starting] == [due_at(SCHEDULE, nominal, 3 * MINUTE) for nominal in nominals]
    assert all(0 <= recorded.at - nominal <= 3 * MINUTE for recorded, nominal in zip(starting, nominals, strict=True))
    assert nominals != sorted(nominals), "delayed by more than their distance, some change places"
    assert len(set(nominals)) == len(nominals)
    expected = {T0 + minute * MINUTE for minute in range(1, 101)}
    assert {nominal for nominal in expected if due_at(SCHEDULE, nominal, 3 * MINUTE) <= stage.now} == set(nominals)


def test_sched_15_update_acts_from_now_on_and_keeps_outcomes() -> None:
    stage = minutely(OverlapPolicy.ALLOW_ALL)
    stage.advance(2 * MINUTE)
    spec = ScheduleSpec(interval_ms=10 * MINUTE)
    stage.do(schedule_command(sc.UpdateSchedule, "slower", spec=spec, action=action()))
    stage.advance(20 * MINUTE)
    assert stage.minutes(e.OccurrenceStarted)[:2] == [1, 2]
    assert stage.counts == {"STARTED": 4}


def test_sched_6_fires_that_do_not_fit_any_more_are_not_taken() -> None:
    """They were computed at another instant, from another spec, or nobody wants them."""
    stage = Stage()
    stage.handle(create_schedule())
    stream_id, revision = stage.state.stream_id, stage.state.revision

    def provide(stream: StreamId = stream_id, revision: int = revision, as_of: int = 0) -> sc.ProvideFires:
        fires = (Fire(T0 + 1, T0 + 1),)
        return sc.ProvideFires(
            stream,
            revision,
            as_of or stage.now,
            (),
            NO_FIRES,
            fires,
            NO_FIRES,
            is_last=True,
        )

    for useless in (provide(stream=StreamId(9)), provide(revision=9), provide(as_of=T0 + 5)):
        assert not stage.handle(useless).stream_events
        assert stage.kernel.next_deadline() is None
    stage.handle(provide())
    assert stage.kernel.next_deadline() == T0 + 1
    stage.handle(provide())
    assert stage.kernel.next_deadline() == T0 + 1


# ---- deletion ----------------------------------------------------------------------------------------------------


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
    assert summary_of(stage.state) == StreamSummary(StreamKind.SCHEDULE, SCHEDULE, 1, T0, is_closed=False)
    first = next(recorded for recorded in stage.log if isinstance(recorded, RecordedStreamEvent))
    assert evolve_stream(None, first) == stage.state
