"""What fires lead to: starts, overlap, pauses, downtime, and an account that adds up [SCHED-2, SCHED-11..16]."""

import pytest

from dexd.core.ids import FlowId, RunId, ScheduleId, StreamId
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.occurrences import NO_FIRES, Fire, due_at
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.values import FlowStatus
from tests.support.schedule_builders import SCHEDULE, action, create_schedule
from tests.support.schedule_stage import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    Stage,
    minutely,
    occurrence,
    pause,
    resume,
    schedule_command,
)

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
