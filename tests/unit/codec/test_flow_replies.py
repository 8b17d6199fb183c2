"""Replies and views as FlowService messages."""

import msgspec
import pytest
from google.protobuf.message import Message

from dexd.codec import flow_replies as replies
from dexd.codec.live_state_view import LiveState
from dexd.codec.views import (
    AttributeView,
    AttributeWait,
    FlowEnd,
    FlowSummary,
    FlowWait,
    HistoryEntry,
    HistoryPage,
    StepWait,
    message_page,
    summary_of_row,
)
from dexd.core.explain.blockers import Blocker, BlockerKind, Explanation
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId, StreamId
from dexd.core.outcome import (
    AttributeAccepted,
    ContinueAsNewAccepted,
    FlowConfigAccepted,
    FlowReply,
    MessageDeleted,
    PublishAccepted,
    SkipTimerResult,
    StartFlowAccepted,
    StopFlowResult,
    TimeTravelAccepted,
)
from dexd.core.values import Completion, FlowErrorType, FlowStatus, SkipOutcome, StepOutcome
from dexd.core.values import Message as Queued
from dexd.log.event_log import ListedRun, RunRow
from dexpb.v1 import flow_service_pb2 as pb

FAILED = FlowSummary(
    FlowId("f"),
    RunId("r"),
    "Order",
    FlowStatus.FAILED,
    10,
    20,
    3,
    17,
    FlowErrorType.WORKER_API_FAILED,
    "why",
    RunId("r1"),
)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (StartFlowAccepted(RunId("r")), pb.StartFlowReply(run_id="r")),
        (PublishAccepted(("m1", "m2")), pb.PublishReply(message_ids=["m1", "m2"])),
        (AttributeAccepted(), pb.SetAttributeReply()),
        (MessageDeleted(), pb.DeleteChannelMessageReply()),
        (ContinueAsNewAccepted(RunId("r2")), pb.TriggerContinueAsNewReply(run_id="r2")),
        (FlowConfigAccepted(), pb.UpdateFlowConfigReply()),
        (SkipTimerResult(SkipOutcome.REMEMBERED), pb.SkipTimerReply(outcome="REMEMBERED")),
        (TimeTravelAccepted(RunId("r")), pb.TimeTravelReply(run_id="r")),
        (StopFlowResult(True, FlowStatus.CANCELED), pb.StopFlowReply(outcome="APPLIED", status="CANCELED")),
        (StopFlowResult(False, FlowStatus.COMPLETED), pb.StopFlowReply(outcome="ALREADY_CLOSED", status="COMPLETED")),
    ],
)
def test_every_reply_has_its_message(reply: FlowReply, message: Message) -> None:
    """[STOP-2, START-1, CHAN-2] Replies of state-changing calls."""
    assert replies.from_reply(reply) == message


def test_summary_names_status_and_error() -> None:
    """[FLOW-6, FLOW-9] Enums travel as names; there is no error type without an error."""
    info = replies.from_summary(FAILED)
    assert info == pb.FlowInfo(
        flow_id="f",
        run_id="r",
        flow_type="Order",
        status="FAILED",
        started_at=10,
        closed_at=20,
        ordinal=3,
        first_run_id="r1",
        history_events=17,
        error_type="WORKER_API_FAILED",
        error_message="why",
    )
    row = RunRow(1, "r", "f", 1, "Order", FlowStatus.RUNNING, 10, 0)
    running = replies.from_summary(summary_of_row(ListedRun(row, 5, 90)))
    assert running.first_run_id == "r"
    continued = msgspec.structs.replace(row, first_run_id="r0")
    assert replies.from_summary(summary_of_row(ListedRun(continued, 5, 90))).first_run_id == "r0"
    assert running.error_type == ""
    assert (running.history_events, running.next_deadline) == (5, 90)


def test_history_page_carries_its_entries() -> None:
    """[HIST-5] By event id, with where to go on."""
    page = HistoryPage((HistoryEntry(4, RunId("r"), 9, "FlowClosed", b"{}"),), 5)
    entry = pb.HistoryEvent(event_id=4, run_id="r", at=9, kind="FlowClosed", data=b"{}")
    assert replies.from_history(page) == pb.GetHistoryReply(events=[entry], next_event_id=5)


def test_attribute_that_is_not_set_has_no_value() -> None:
    """[ATTR-5] The value or none; an empty value is a value."""
    assert not replies.from_attribute(AttributeView(None)).HasField("value")
    assert replies.from_attribute(AttributeView(b"")).HasField("value")


def test_wait_for_a_flow_tells_its_end_or_only_its_run() -> None:
    """[WAITAPI-2, DEC-7] Every terminal status with the completions in order."""
    end = FlowEnd(
        FlowStatus.COMPLETED, FlowErrorType.NONE, "", (Completion("A", "A-1", b"1"), Completion("B", "B-1", b"2"))
    )
    assert replies.from_flow_wait(FlowWait(RunId("r"))) == pb.WaitForFlowReply(first_run_id="r")
    assert replies.from_flow_wait(FlowWait(RunId("r"), end)) == pb.WaitForFlowReply(
        is_terminal=True,
        first_run_id="r",
        status="COMPLETED",
        completions=[
            pb.StepCompletion(step_type="A", step_execution_id="A-1", value=b"1"),
            pb.StepCompletion(step_type="B", step_execution_id="B-1", value=b"2"),
        ],
    )


def test_wait_for_a_flow_tells_why_it_did_not_complete() -> None:
    """[STOP-2, FLOW-9] A reason may come without an error type: whoever cancels gives one."""
    failed = FlowEnd(FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT, "took too long", ())
    canceled = FlowEnd(FlowStatus.CANCELED, FlowErrorType.NONE, "not needed", ())
    assert replies.from_flow_wait(FlowWait(RunId("r"), failed)) == pb.WaitForFlowReply(
        is_terminal=True, first_run_id="r", status="FAILED", error_type="FLOW_TIMEOUT", error_message="took too long"
    )
    assert replies.from_flow_wait(FlowWait(RunId("r"), canceled)) == pb.WaitForFlowReply(
        is_terminal=True, first_run_id="r", status="CANCELED", error_message="not needed"
    )


def test_wait_for_a_step_tells_its_outcome_or_nothing() -> None:
    """[WAITAPI-3] Empty when the wait ran out first."""
    assert replies.from_step_wait(StepWait(StepOutcome.CANCELED)).outcome == "CANCELED"
    assert replies.from_step_wait(StepWait(None)).outcome == ""


def test_rpc_output_is_passed_on() -> None:
    """[RPC-1] The handler's output as it is."""
    assert replies.from_rpc_output(b"[1]") == pb.InvokeRpcReply(output=b"[1]")


def test_chan_9_pending_messages_are_shown_in_pages_of_4_mib() -> None:
    """[HIST-5] A page holds at least one message, however large; a message that is gone is still a place to go on."""
    queue = [Queued(f"m{number}", b"x" * 10, number) for number in range(5)]
    run = RunState(FlowId("f"), RunId("r"), StreamId(1), "Order", 1, 0, RequestId("q"), b"", 0, channels={"c": queue})

    def page(after: str = "", count_max: int = 9, bytes_max: int = 99) -> tuple[list[str], bool]:
        shown = replies.from_messages(message_page(run, "c", after=after, count_max=count_max, bytes_max=bytes_max))
        return [message.message_id for message in shown.messages], shown.has_more

    assert page() == (["m0", "m1", "m2", "m3", "m4"], False)
    assert page(count_max=2) == (["m0", "m1"], True)
    assert page("m1", bytes_max=20) == (["m2", "m3"], True)
    assert page("m3", bytes_max=1) == (["m4"], False)
    assert page("m25") == (["m3", "m4"], False)
    assert page("m4") == ([], False)
    empty = message_page(run, "d", after="", count_max=9, bytes_max=9)
    assert replies.from_messages(empty) == pb.ListChannelMessagesReply()
    (first,) = replies.from_messages(message_page(run, "c", after="", count_max=1, bytes_max=9)).messages
    assert first == pb.PendingMessage(message_id="m0", value=b"x" * 10, published_at=0)


@pytest.mark.parametrize("value", [b"1", None])
def test_wait_for_an_attribute_tells_the_value_that_matched(value: bytes | None) -> None:
    """[WAITAPI-5] Unset when the wait ran out."""
    assert replies.from_attribute_wait(AttributeWait(value)) == pb.WaitForAttributeReply(value=value)


def test_hist_6_an_explanation_names_kinds_and_keeps_what_is_unknown_0() -> None:
    blocker = Blocker(StepExecutionId("A-1"), BlockerKind.LOCK, "held", 5)
    assert replies.from_explanation(Explanation((blocker,), 3)) == pb.ExplainFlowReply(
        blockers=[pb.Blocker(step_execution_id="A-1", kind="LOCK", text="held", since=5)], omitted_steps=3
    )


def test_hist_1_a_live_state_is_passed_on_as_it_is() -> None:
    assert replies.from_live_state(LiveState(b"{}")) == pb.GetFlowStateReply(data=b"{}")
