"""ScheduleService requests: what they become, and what is refused with the name of the field [SCHED-1..3, GEN-2]."""

from typing import Any

import pytest
from google.protobuf.message import Message

from dexd.codec import schedule_requests as r
from dexd.codec.stream_view import show_stream_event
from dexd.core.ids import FlowId, RequestId, ScheduleId, StreamId
from dexd.core.outcome import RecordedStreamEvent
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules.spec import FoldPolicy, GapPolicy, OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.values import StepPlan
from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import schedule_service_pb2 as pb
from tests.support.schedule_builders import schedule_created

MINTED = RequestId("minted")
STEPS = {"Report": StepPlan("Write", b"", has_wait_for=False)}


def start(**fields: Any) -> pb.ScheduleAction:
    defaults = {"flow_type": "Report", "input": b"1", "resolve_start_step": True}
    return pb.ScheduleAction(start=flow_pb.StartFlowRequest(**{**defaults, **fields}))


def creation(**fields: Any) -> pb.CreateScheduleRequest:
    spec = pb.ScheduleSpec(cron="* * * * *", time_zone="UTC")
    return pb.CreateScheduleRequest(**{"schedule_id": "nightly", "spec": spec, "action": start(), **fields})


def refused(answer: object, field: str) -> None:
    assert isinstance(answer, Rejection), answer
    assert (answer.code, answer.fields["field"]) == (Code.INVALID_ARGUMENT, field)


def test_sched_1_creation_is_read_whole() -> None:
    spec = pb.ScheduleSpec(
        interval_ms=5_000, time_zone="Europe/Berlin", start_at=5, end_at=9, jitter_ms=3, gap_policy=1, fold_policy=2
    )
    policy = pb.SchedulePolicy(overlap=4, catch_up_window_ms=0, pause_on_failure=True)
    request = creation(spec=spec, policy=policy, paused=True, request_id="mine", action=start(flow_id="report"))
    command = r.to_create_schedule(request, MINTED, STEPS)
    assert not isinstance(command, Rejection)
    assert command.spec == ScheduleSpec("", 5_000, "Europe/Berlin", 5, 9, 3, GapPolicy.SKIP, FoldPolicy.BOTH)
    assert command.policy == SchedulePolicy(OverlapPolicy.TERMINATE_OTHER, 0, pause_on_failure=True)
    assert (command.schedule_id, command.request_id, command.is_paused) == ("nightly", "mine", True)
    assert command.action.flow_id == FlowId("report")
    assert command.action.start_step == StepPlan("Write", b"1", has_wait_for=False)


def test_sched_1_what_is_left_out_has_defaults() -> None:
    command = r.to_create_schedule(creation(), MINTED, STEPS)
    assert not isinstance(command, Rejection)
    assert (command.policy, command.request_id) == (SchedulePolicy(), MINTED)
    assert (command.spec.start_at, command.spec.end_at, command.action.flow_id) == (None, None, None)


def test_gen_8_digest_is_of_what_is_asked_and_not_of_who_asks() -> None:
    one, same, other = (
        r.to_create_schedule(request, MINTED, STEPS)
        for request in (creation(request_id="a"), creation(request_id="b"), creation(paused=True))
    )
    assert not isinstance(one, Rejection)
    assert not isinstance(same, Rejection)
    assert not isinstance(other, Rejection)
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schedule_id": ""}, "schedule_id"),
        ({"schedule_id": "x" * 231}, "schedule_id"),
        ({"schedule_id": "sys:x"}, "schedule_id"),
        ({"request_id": "\n"}, "request_id"),
        ({"spec": pb.ScheduleSpec(start_at=-1)}, "start_at"),
        ({"spec": pb.ScheduleSpec(end_at=2**62)}, "end_at"),
        ({"spec": pb.ScheduleSpec(gap_policy=7)}, "gap_policy"),
        ({"spec": pb.ScheduleSpec(fold_policy=-1)}, "fold_policy"),
        ({"policy": pb.SchedulePolicy(overlap=6)}, "overlap"),
        ({"policy": pb.SchedulePolicy(catch_up_window_ms=-1)}, "catch_up_window"),
        ({"action": start(request_id="mine")}, "action"),
        ({"action": start(id_reuse_policy=1)}, "action"),
        ({"action": start(flow_id="sys:x")}, "flow_id"),
        ({"action": start(flow_type="")}, "flow_type"),
        ({"action": start(start_step=flow_pb.StartStep(step_type="sys:x"))}, "start_step"),
    ],
)
def test_sched_3_what_is_wrong_with_a_creation_is_named(fields: dict[str, Any], field: str) -> None:
    refused(r.to_create_schedule(creation(**fields), MINTED, STEPS), field)


def test_sched_1_longest_id_has_room_for_an_instant() -> None:
    assert not isinstance(r.to_create_schedule(creation(schedule_id="x" * 230), MINTED, STEPS), Rejection)


def test_sched_15_update_reads_the_parts_that_are_there() -> None:
    spec = pb.ScheduleSpec(cron="@daily", time_zone="UTC")
    for fields in ({"spec": spec}, {"policy": pb.SchedulePolicy(overlap=5)}, {"action": start()}):
        command = r.to_update_schedule(pb.UpdateScheduleRequest(schedule_id="s", **fields), MINTED, STEPS)
        assert not isinstance(command, Rejection)
        parts = {"spec": command.spec, "policy": command.policy, "action": command.action}
        assert [name for name, part in parts.items() if part is not None] == list(fields)
    refused(r.to_update_schedule(pb.UpdateScheduleRequest(schedule_id="s"), MINTED, STEPS), "spec")
    refused(r.to_update_schedule(pb.UpdateScheduleRequest(spec=spec), MINTED, STEPS), "schedule_id")
    wrong = pb.UpdateScheduleRequest(schedule_id="s", policy=pb.SchedulePolicy(overlap=9))
    refused(r.to_update_schedule(wrong, MINTED, STEPS), "overlap")


def test_sched_1_pause_resume_and_delete_name_a_schedule() -> None:
    pause = r.to_pause_schedule(pb.PauseScheduleRequest(schedule_id="s", note="why"), MINTED)
    assert not isinstance(pause, Rejection)
    assert (pause.note, pause.request_id) == ("why", MINTED)
    refused(r.to_pause_schedule(pb.PauseScheduleRequest(schedule_id="s", note="x" * 1_001), MINTED), "note")
    refused(r.to_pause_schedule(pb.PauseScheduleRequest(), MINTED), "schedule_id")
    resume = r.to_resume_schedule(pb.ResumeScheduleRequest(schedule_id="s"), MINTED)
    delete = r.to_delete_schedule(pb.DeleteScheduleRequest(schedule_id="s", request_id="mine"), MINTED)
    assert not isinstance(resume, Rejection)
    assert not isinstance(delete, Rejection)
    assert (resume.schedule_id, resume.request_id, delete.request_id) == ("s", MINTED, "mine")
    refused(r.to_resume_schedule(pb.ResumeScheduleRequest(), MINTED), "schedule_id")
    refused(r.to_delete_schedule(pb.DeleteScheduleRequest(), MINTED), "schedule_id")


def test_sched_16_trigger_may_bring_its_own_overlap() -> None:
    for number, overlap in ((None, None), (0, OverlapPolicy.SKIP), (5, OverlapPolicy.ALLOW_ALL)):
        command = r.to_trigger_schedule(pb.TriggerScheduleRequest(schedule_id="s", overlap=number), MINTED)
        assert not isinstance(command, Rejection)
        assert command.overlap is overlap
    refused(r.to_trigger_schedule(pb.TriggerScheduleRequest(schedule_id="s", overlap=9), MINTED), "overlap")
    refused(r.to_trigger_schedule(pb.TriggerScheduleRequest(), MINTED), "schedule_id")


def test_sched_16_backfill_is_of_a_span() -> None:
    request = pb.BackfillScheduleRequest(schedule_id="s", start_at=5, end_at=9, overlap=2, dry_run=True)
    query = r.to_backfill(request, MINTED)
    assert not isinstance(query, Rejection)
    assert (query.start_at, query.end_at, query.overlap, query.is_dry_run) == (5, 9, OverlapPolicy.BUFFER_ALL, True)
    refused(r.to_backfill(pb.BackfillScheduleRequest(schedule_id="s", start_at=9, end_at=5), MINTED), "end_at")
    refused(r.to_backfill(pb.BackfillScheduleRequest(schedule_id="s", start_at=-1), MINTED), "start_at")
    refused(r.to_backfill(pb.BackfillScheduleRequest(schedule_id="s", overlap=9), MINTED), "overlap")
    refused(r.to_backfill(pb.BackfillScheduleRequest(), MINTED), "schedule_id")


def test_sched_1_reads_name_a_schedule_or_a_page() -> None:
    assert r.to_schedule_query(pb.DescribeScheduleRequest(schedule_id="s")) == r.ScheduleQuery(ScheduleId("s"))
    refused(r.to_schedule_query(pb.DescribeScheduleRequest()), "schedule_id")
    assert r.to_schedule_list(pb.ListSchedulesRequest()) == r.ScheduleListQuery("", 100)
    following = pb.ListSchedulesRequest(page_size=7, page_token=r.page_token("b", "list"))
    assert r.to_schedule_list(following) == r.ScheduleListQuery("b", 7)
    refused(r.to_schedule_list(pb.ListSchedulesRequest(page_size=1_001)), "page_size")
    assert r.to_outcomes_query(pb.ListScheduleOutcomesRequest(schedule_id="s")) == r.OutcomesQuery(
        ScheduleId("s"), 1, 100
    )
    next_page = pb.ListScheduleOutcomesRequest(schedule_id="s", page_token=r.page_token("17", "outcomes s"))
    assert r.to_outcomes_query(next_page) == r.OutcomesQuery(ScheduleId("s"), 17, 100)
    refused(r.to_outcomes_query(pb.ListScheduleOutcomesRequest()), "schedule_id")


@pytest.mark.parametrize("token", ["x", "é", r.page_token("17", "outcomes other")])
def test_search_8_foreign_tokens_are_refused(token: str) -> None:
    refused(r.to_schedule_list(pb.ListSchedulesRequest(page_token=token)), "page_token")
    refused(r.to_outcomes_query(pb.ListScheduleOutcomesRequest(schedule_id="s", page_token=token)), "page_token")


def test_sched_3_preview_is_of_a_schedule_or_of_a_spec() -> None:
    by_id = r.to_preview(pb.PreviewScheduleRequest(schedule_id="s", count=3))
    assert by_id == r.PreviewQuery(ScheduleId("s"), ScheduleSpec(), 3)
    spec = pb.ScheduleSpec(cron="@daily", time_zone="UTC")
    assert r.to_preview(pb.PreviewScheduleRequest(spec=spec)) == r.PreviewQuery(None, ScheduleSpec("@daily"), 10)
    refused(r.to_preview(pb.PreviewScheduleRequest(count=1_001)), "count")
    refused(r.to_preview(pb.PreviewScheduleRequest(schedule_id="sys:")), "schedule_id")
    refused(r.to_preview(pb.PreviewScheduleRequest(spec=pb.ScheduleSpec(gap_policy=9))), "gap_policy")


def test_surf_23_event_of_a_schedule_is_shown_as_json() -> None:
    shown = show_stream_event(RecordedStreamEvent(StreamId(1), 3, 1_000, schedule_created()))
    assert (shown.event_id, shown.at, shown.kind) == (3, 1_000, "ScheduleCreated")
    assert b'"schedule_id":"nightly"' in shown.data
    assert isinstance(creation(), Message)
