"""Replies and views as FlowService messages. `flow_requests` is the other direction."""

from typing import assert_never

from google.protobuf.message import Message

from dexd.codec.live_state_view import LiveState
from dexd.codec.views import (
    AttributeView,
    AttributeWait,
    FlowSummary,
    FlowWait,
    HistoryEntry,
    HistoryPage,
    MessagePage,
    StepWait,
)
from dexd.core.explain.blockers import Explanation
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
from dexd.core.values import FlowErrorType, FlowStatus
from dexpb.v1 import flow_service_pb2 as pb


def from_reply(reply: FlowReply) -> Message:
    """Give the reply message of a state-changing call."""
    match reply:
        case StartFlowAccepted():
            started = pb.StartFlowReply()
            started.run_id = reply.run_id
            return started
        case PublishAccepted():
            return pb.PublishReply(message_ids=reply.message_ids)
        case AttributeAccepted():
            return pb.SetAttributeReply()
        case MessageDeleted():
            return pb.DeleteChannelMessageReply()
        case SkipTimerResult():
            return pb.SkipTimerReply(outcome=reply.outcome.name)
        case ContinueAsNewAccepted():
            return pb.TriggerContinueAsNewReply(run_id=reply.run_id)
        case FlowConfigAccepted():
            return pb.UpdateFlowConfigReply()
        case TimeTravelAccepted():
            return pb.TimeTravelReply(run_id=reply.run_id)
        case StopFlowResult():
            outcome = "APPLIED" if reply.applied else "ALREADY_CLOSED"
            return pb.StopFlowReply(outcome=outcome, status=reply.status.name)
        case _:
            assert_never(reply)


def from_rpc_output(output: bytes) -> pb.InvokeRpcReply:
    """Give what an RPC handler returned."""
    return pb.InvokeRpcReply(output=output)


def from_summary(summary: FlowSummary) -> pb.FlowInfo:
    """Show a run."""
    return pb.FlowInfo(
        flow_id=summary.flow_id,
        run_id=summary.run_id,
        flow_type=summary.flow_type,
        status=summary.status.name,
        started_at=summary.started_at,
        closed_at=summary.closed_at,
        ordinal=summary.ordinal,
        first_run_id=summary.first_run_id,
        parent_flow_id=summary.parent_flow_id or "",
        schedule_id=summary.schedule_id or "",
        history_events=summary.history_events,
        error_type=_error_type(summary.error_type),
        error_message=summary.error_message,
        next_deadline=summary.next_deadline,
    )


def from_live_state(state: LiveState) -> pb.GetFlowStateReply:
    """Give a live state."""
    return pb.GetFlowStateReply(data=state.data)


def from_explanation(explanation: Explanation) -> pb.ExplainFlowReply:
    """Give the reasons why a Flow does not get on."""
    blockers = [
        pb.Blocker(
            step_execution_id=blocker.step_execution_id,
            kind=blocker.kind.name,
            text=blocker.text,
            since=blocker.since,
            until=blocker.until,
        )
        for blocker in explanation.blockers
    ]
    return pb.ExplainFlowReply(blockers=blockers, omitted_steps=explanation.omitted_steps)


def from_entry(entry: HistoryEntry) -> pb.HistoryEvent:
    """Show one event."""
    return pb.HistoryEvent(event_id=entry.event_id, run_id=entry.run_id, at=entry.at, kind=entry.kind, data=entry.data)


def from_history(page: HistoryPage) -> pb.GetHistoryReply:
    """Show a page of history."""
    return pb.GetHistoryReply(events=map(from_entry, page.entries), next_event_id=page.next_event_id)


def from_attribute(view: AttributeView) -> pb.GetAttributeReply:
    """Show an Attribute."""
    return pb.GetAttributeReply(value=view.value)


def from_messages(page: MessagePage) -> pb.ListChannelMessagesReply:
    """Show a page of pending messages."""
    messages = [
        pb.PendingMessage(message_id=message.message_id, value=message.value, published_at=message.published_at)
        for message in page.messages
    ]
    return pb.ListChannelMessagesReply(messages=messages, has_more=page.has_more)


def from_flow_wait(wait: FlowWait) -> pb.WaitForFlowReply:
    """Answer one poll for a Flow's end."""
    end = wait.end
    if end is None:
        return pb.WaitForFlowReply(first_run_id=wait.run_id)
    # Every Flow ends with one of these, and messages that are filled in afterwards cost a third of those with keywords.
    reply = pb.WaitForFlowReply()
    reply.is_terminal = True
    reply.first_run_id = wait.run_id
    reply.status = _STATUS_NAMES[end.status]
    if end.error_type:
        reply.error_type = end.error_type.name
    if end.error_message:
        reply.error_message = end.error_message
    for done in end.completions:
        completion = reply.completions.add()
        completion.step_type = done.step_type
        completion.step_execution_id = done.step_execution_id
        completion.value = done.value
    return reply


def from_step_wait(wait: StepWait) -> pb.WaitForStepCompletionReply:
    """Answer one poll for a Step execution's end."""
    return pb.WaitForStepCompletionReply(outcome="" if wait.outcome is None else wait.outcome.name)


def from_attribute_wait(wait: AttributeWait) -> pb.WaitForAttributeReply:
    """Answer one poll for an Attribute's value."""
    return pb.WaitForAttributeReply(value=wait.value)


_STATUS_NAMES = {status: status.name for status in FlowStatus}


def _error_type(error_type: FlowErrorType) -> str:
    return "" if error_type is FlowErrorType.NONE else error_type.name
