"""What reads of schedules show [SCHED-1, SCHED-12]."""

from dexd.codec import schedule_views as v
from dexd.codec.schedule_requests import page_token
from dexd.core.ids import FlowId, RequestId, RunId, StreamId
from dexd.core.outcome import OccurrenceAccepted, RecordedStreamEvent, ScheduleAccepted
from dexd.core.schedules import events as e
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.spec import OverlapPolicy
from dexd.core.schedules.state import ScheduleState
from dexpb.v1 import schedule_service_pb2 as pb
from tests.support.schedule_builders import schedule_created

FLOW = FlowId("f")


def folded(*events: e.ScheduleEvent) -> ScheduleState:
    state: ScheduleState | None = None
    for version, event in enumerate((schedule_created(), *events), 1):
        state = evolve_schedule(state, RecordedStreamEvent(StreamId(1), version, 1_000 + version, event))
    assert state is not None
    return state


def test_sched_12_counts_add_up_to_the_planned_fires() -> None:
    state = folded(
        e.OccurrenceStarting(10, FLOW),
        e.OccurrenceStarted(10, RunId("r"), FLOW),
        e.OccurrenceStarting(20, FLOW),
        e.OccurrenceBuffered(30, OverlapPolicy.BUFFER_ALL),
        e.OccurrencesPassed(e.FireOutcome.MISSED, e.SkipReason.NONE, 1, 5, 7),
    )
    skipped = {e.SkipReason.OVERLAP: 3, e.SkipReason.PAUSED: 2, e.SkipReason.DELETED: 0}
    shown = v.from_schedule(v.ScheduleView(state, "ACTIVE", 99, skipped, is_at_least=True))
    assert (shown.started, shown.skipped, shown.missed, shown.buffered) == (1, 5, 7, 2)
    assert shown.planned == 1 + 5 + 7 + 2
    assert dict(shown.skipped_by_reason) == {"OVERLAP": 3, "PAUSED": 2}
    assert (shown.status, shown.next_fire_at, shown.is_at_least) == ("ACTIVE", 99, True)
    assert [(open_.scheduled_at, open_.run_id) for open_ in shown.open] == [(10, "r"), (20, "")]
    assert (shown.flow_type, shown.input, shown.flow_id) == ("Report", b"1", "")
    assert (shown.spec.interval_ms, shown.spec.time_zone, shown.policy.catch_up_window_ms) == (60_000, "UTC", 3_600_000)


def test_sched_1_pages_have_tokens_while_something_follows() -> None:
    info = pb.ScheduleInfo(schedule_id="a")
    assert v.from_schedule_list(v.ScheduleListPage((info,), "a")).next_page_token == page_token("a", "list")
    assert v.from_schedule_list(v.ScheduleListPage((info,), "")).next_page_token == ""
    outcomes = (
        v.OutcomeView(e.FireOutcome.STARTED, e.SkipReason.NONE, 5, 5, 1, flow_id="f", run_id="r", at=6),
        v.OutcomeView(e.FireOutcome.SKIPPED, e.SkipReason.OVERLAP, 7, 9, 3, is_at_least=True),
    )
    page = v.from_outcomes(v.OutcomePage("s", outcomes, 17))
    assert page.next_page_token == page_token("17", "outcomes s")
    assert [(shown.outcome, shown.reason, shown.count) for shown in page.outcomes] == [
        ("STARTED", "", 1),
        ("SKIPPED", "OVERLAP", 3),
    ]
    assert v.from_outcomes(v.OutcomePage("s", (), 0)).next_page_token == ""


def test_sched_16_replies_name_what_was_decided() -> None:
    assert v.from_schedule_accepted(ScheduleAccepted()) == pb.ScheduleChanged()
    assert v.from_occurrence(OccurrenceAccepted(RequestId("s@x"))).occurrence_id == "s@x"
    assert list(v.from_backfill((1, 2)).fires) == [1, 2]
    assert list(v.from_preview((3,)).fires) == [3]
