"""Nothing leaves before its commit; deciding runs ahead of it [ARCH-3, DUR-1, DUR-3]."""

from typing import Any

import pytest

from dexd.codec.flow_queries import AttributeQuery, FlowWaitQuery, RunKey
from dexd.core.effects import AcknowledgeResult, AssignCall
from dexd.core.ids import FlowId, RunId
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code
from dexd.core.values import DecisionKind, FlowStatus, IdReusePolicy, StepPlan
from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from tests.unit.engine.rig import Answers, Rig, publish_command, start_command, stop_command

KEY = RunKey(FlowId("f"), None)


async def test_reply_waits_for_its_commit() -> None:
    """[GEN-8, DUR-1] A state-changing call is answered after the commit of its event."""
    rig = Rig()
    rig.writer.is_automatic = False
    answers = Answers()
    rig.engine.request(start_command(), answers)
    await rig.decided()
    assert answers.all == []
    rig.writer.commit()
    assert answers.only == StartFlowAccepted(RunId("run-f"))
    assert [event.type for event in rig.log.read_all(1, 10)] == ["FlowStarted", "StepScheduled"]


async def test_assignment_waits_for_its_commit() -> None:
    """[DELIV-4] Nothing is assigned before the events that justify it are committed."""
    rig = Rig()
    worker = await rig.worker()
    assert worker.is_registered
    rig.writer.is_automatic = False
    rig.engine.request(start_command(), Answers())
    await rig.decided()
    assert worker.calls == []
    rig.writer.commit()
    [call] = worker.calls
    assert call.call.name == "Begin"


async def test_everything_decided_during_a_commit_goes_into_the_next_one() -> None:
    """[ARCH-3] While batch N is being written, batch N+1 is decided on the folded state."""
    rig = Rig()
    rig.writer.is_automatic = False
    first, second, third = Answers(), Answers(), Answers()
    rig.engine.request(start_command(), first)
    await rig.decided()
    rig.engine.request(publish_command("f", b"1"), second)
    rig.engine.request(publish_command("f", b"2", request_id="p2"), third)
    await rig.decided()
    assert len(rig.writer.submitted) == 1
    rig.writer.commit()
    assert (len(first.all), len(second.all), len(third.all)) == (1, 0, 0)
    batch = rig.writer.commit()
    assert [event.type for event in batch.events] == ["ChannelPublished", "ChannelPublished"]
    assert (len(second.all), len(third.all)) == (1, 1)


async def test_effects_of_a_batch_reach_a_session_in_one_piece_and_in_order() -> None:
    """[WIRE-2] One delivery per session and commit."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    [call] = worker.calls
    before = len(worker.deliveries)
    worker.decide(call, DecisionKind.GO_TO, b"", StepPlan("Next", b"2", False))
    await rig.decided()
    [delivery] = worker.deliveries[before:]
    assert [type(effect) for effect in delivery] == [AcknowledgeResult, AssignCall]


async def test_sync_match_puts_result_and_next_dispatch_into_one_commit() -> None:
    """[ROUTE-8] A chain of Steps costs one commit per Step."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    rig.writer.is_automatic = False
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"2", False))
    await rig.decided()
    batch = rig.writer.commit()
    assert [event.type for event in batch.events] == ["ExecuteCompleted", "StepScheduled", "StepDispatched"]


async def test_refusal_without_events_needs_no_commit_of_its_own() -> None:
    """[GEN-2] Nothing was stored, so nothing is waited for."""
    rig = Rig()
    rig.writer.is_automatic = False
    answers = Answers()
    rig.engine.request(stop_command("unknown"), answers)
    await rig.decided()
    assert answers.only.code is Code.FLOW_NOT_FOUND
    assert not rig.writer.submitted


async def test_refusal_does_not_overtake_the_commit_that_it_rests_on() -> None:
    """[DUR-3] A refused second start tells of the first one, which must be committed by then."""
    rig = Rig()
    rig.writer.is_automatic = False
    refused = Answers()
    rig.engine.request(start_command(), Answers())
    await rig.decided()
    rig.engine.request(start_command(request_id="other", id_reuse_policy=IdReusePolicy.DISALLOW), refused)
    await rig.decided()
    assert refused.all == []
    rig.writer.commit()
    assert refused.only.code is Code.FLOW_ALREADY_STARTED


async def test_batches_without_events_never_overtake_effects_before_them() -> None:
    """[ARCH-3] Effects and answers leave in the order of the decisions."""
    rig = Rig()
    order: list[str] = []
    rig.writer.is_automatic = False
    rig.engine.request(start_command(), lambda _: order.append("start"))
    await rig.decided()
    rig.engine.request(stop_command("unknown"), lambda _: order.append("refusal"))
    await rig.decided()
    rig.writer.commit()
    assert order == ["start", "refusal"]


@pytest.mark.parametrize(
    ("verb", "query"),
    [
        ("describe", KEY),
        ("attribute", AttributeQuery(KEY, "a")),
        ("wait_for_flow", FlowWaitQuery(FlowId("f"), 0, None)),
        ("wait_for_flow", FlowWaitQuery(FlowId("f"), 60_000, None)),
    ],
)
async def test_reads_never_show_what_may_still_be_lost(verb: str, query: Any) -> None:
    """[DUR-3] A read of decided state is answered after the commit of all that it rests on."""
    rig = Rig()
    await rig.start()
    rig.writer.is_automatic = False
    rig.engine.request(stop_command("f"), Answers())
    await rig.decided()
    answers = Answers()
    getattr(rig.engine.reads, verb)(query, answers)
    await rig.decided()
    assert answers.all == []
    rig.writer.commit()
    assert len(answers.all) == 1


async def test_read_sees_every_write_acknowledged_before_it() -> None:
    """[RPC-10] Read your writes, at once when nothing is under way."""
    rig = Rig()
    await rig.start(attributes=(("a", b"1"),))
    await rig.answer(stop_command("f"))
    answers = Answers()
    rig.engine.reads.describe(KEY, answers)
    rig.engine.reads.attribute(AttributeQuery(KEY, "a"), answers)
    summary, view = answers.all
    assert summary.status is FlowStatus.CANCELED
    assert view.value == b"1"


async def test_every_batch_passes_the_failpoints_in_order() -> None:
    """[ARCH-3] Before the append, between commit and effects, after the effects."""
    rig = Rig()
    rig.points.clear()
    await rig.start()
    assert rig.points == [BEFORE_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND]


async def test_full_batch_holds_back_decisions_until_the_commit() -> None:
    """[ARCH-8] Deciding ahead is bounded."""
    rig = Rig(commit_batch_max=4)
    rig.writer.is_automatic = False
    answers = [Answers() for _ in range(5)]
    rig.engine.request(start_command("first"), answers[0])
    await rig.decided()
    for number in range(1, 5):
        rig.engine.request(start_command(f"f{number}"), answers[number])
    await rig.decided()
    assert len(rig.writer.commit().events) == 2
    await rig.decided()
    assert len(rig.writer.commit().events) == 4
    await rig.decided()
    assert len(rig.writer.commit().events) == 4
    assert all(len(got.all) == 1 for got in answers)


async def test_rows_and_snapshots_travel_with_their_events() -> None:
    """[ARCH-10, ARCH-11] Start and end of a run change its row; every so many events bring a snapshot."""
    rig = Rig(snapshot_every_events=3)
    rig.writer.is_automatic = False
    rig.engine.request(start_command(), Answers())
    await rig.decided()
    batch = rig.writer.commit()
    assert [row.status for row in batch.runs] == [FlowStatus.RUNNING]
    assert batch.snapshots == []
    rig.engine.request(publish_command("f", b"1"), Answers())
    rig.engine.request(stop_command("f"), Answers())
    await rig.decided()
    batch = rig.writer.commit()
    assert [row.status for row in batch.runs] == [FlowStatus.CANCELED]
    assert [snapshot.version for snapshot in batch.snapshots] == [3]
