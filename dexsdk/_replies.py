"""Reply messages as the results that users get; reads messages, never sends any."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from dexpb.v1 import admin_service_pb2 as admin_pb
from dexpb.v1 import flow_service_pb2 as pb
from dexsdk._codec import CodecRegistry
from dexsdk._documents import read_document
from dexsdk._durations import from_instant_ms
from dexsdk.flow_state import Blocker, BlockerKind, FlowExplanation, FlowState
from dexsdk.results import (
    FlowInfo,
    FlowResult,
    HealthInfo,
    HistoryEvent,
    HistoryPage,
    StepCompletion,
    StopResult,
)
from dexsdk.status import FlowErrorType, FlowStatus, SkipTimerOutcome, StopOutcome

_STATUS_BY_NAME = {status.value: status for status in FlowStatus}
"""A call of the class takes ten times as long."""


def to_run_id(body: bytes) -> str:
    """Read the answer of a start."""
    return pb.StartFlowReply.FromString(body).run_id


def to_forked_run_id(body: bytes) -> str:
    """Read the answer of a time travel."""
    return pb.TimeTravelReply.FromString(body).run_id


def to_nothing(body: bytes) -> None:
    """Read an answer that says nothing but that it was done."""


def to_flow_info(body: bytes) -> FlowInfo:
    """Read the answer of describe."""
    return FlowInfo(**flow_info_fields(pb.FlowInfo.FromString(body)))


def flow_info_fields(info: pb.FlowInfo) -> dict[str, Any]:
    """Give the fields of a FlowInfo by name."""
    return {
        "flow_id": info.flow_id,
        "run_id": info.run_id,
        "flow_type": info.flow_type,
        "status": FlowStatus(info.status),
        "started_at": from_instant_ms(info.started_at),
        "closed_at": from_instant_ms(info.closed_at) if info.closed_at else None,
        "ordinal": info.ordinal,
        "first_run_id": info.first_run_id,
        "history_events": info.history_events,
        "parent_flow_id": info.parent_flow_id or None,
        "schedule_id": info.schedule_id or None,
    }


def to_flow_state(body: bytes) -> FlowState:
    """Read a live state."""
    return read_document(FlowState, pb.GetFlowStateReply.FromString(body).data)


def to_explanation(body: bytes) -> FlowExplanation:
    """Read why a Flow does not get on."""
    reply = pb.ExplainFlowReply.FromString(body)
    blockers = [
        Blocker(
            blocker.step_execution_id,
            BlockerKind(blocker.kind),
            blocker.text,
            from_instant_ms(blocker.since) if blocker.since else None,
            from_instant_ms(blocker.until) if blocker.until else None,
        )
        for blocker in reply.blockers
    ]
    return FlowExplanation(tuple(blockers), reply.omitted_steps)


def to_flow_result(
    reply: pb.WaitForFlowReply, codecs: CodecRegistry, load: Callable[[bytes], bytes] | None = None
) -> FlowResult:
    """Give the result of a closed execution; `load` gives large outputs when they are decoded."""
    completions = tuple(
        [
            StepCompletion(output.step_type, output.step_execution_id, output.value, codecs, load)
            for output in reply.completions
        ]
    )
    name = reply.status
    status = _STATUS_BY_NAME.get(name) or FlowStatus(name)
    error_type = reply.error_type
    return FlowResult(
        status, FlowErrorType(error_type) if error_type else None, reply.error_message or None, completions
    )


def to_history_page(body: bytes) -> HistoryPage:
    """Read a page of history."""
    reply = pb.GetHistoryReply.FromString(body)
    return HistoryPage(to_history_events(reply.events), reply.next_event_id or None)


def to_history_events(events: Sequence[pb.HistoryEvent]) -> tuple[HistoryEvent, ...]:
    """Read entries of a history; whole numbers in them stay exact."""
    return tuple(
        HistoryEvent(
            event_id=event.event_id,
            run_id=event.run_id,
            at=from_instant_ms(event.at),
            kind=event.kind,
            data=msgspec.json.decode(event.data or b"{}"),
        )
        for event in events
    )


def to_stop_result(body: bytes) -> StopResult:
    """Read the answer of a stop."""
    reply = pb.StopFlowReply.FromString(body)
    return StopResult(StopOutcome(reply.outcome), FlowStatus(reply.status))


def to_skip_outcome(body: bytes) -> SkipTimerOutcome:
    """Read the answer of a skip."""
    return SkipTimerOutcome(pb.SkipTimerReply.FromString(body).outcome)


def to_health_info(body: bytes, duration_s: float) -> HealthInfo:
    """Read the answer of a health check."""
    reply = admin_pb.CheckHealthReply.FromString(body)
    return HealthInfo(reply.condition, reply.hostname, timedelta(seconds=duration_s))
