"""The JSON shapes of `dex flow`, made from the server's messages; stable, because scripts read them [SURF-20].

Instants are integer milliseconds since the epoch; stored values are embedded as they are.
"""

from typing import Any

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.values import shown


def flow_document(flow: pb.FlowInfo) -> dict[str, Any]:
    """One execution."""
    return {
        "flow_id": flow.flow_id,
        "flow_type": flow.flow_type,
        "status": flow.status,
        "run_id": flow.run_id,
        "started_at": flow.started_at,
        "closed_at": flow.closed_at or None,
        "ordinal": flow.ordinal,
        "first_run_id": flow.first_run_id,
        "history_events": flow.history_events,
        "error_type": flow.error_type,
        "error_message": flow.error_message,
        "next_deadline": flow.next_deadline or None,
        "parent_flow_id": flow.parent_flow_id or None,
        "schedule_id": flow.schedule_id or None,
    }


def found_document(found: pb.FoundFlow) -> dict[str, Any]:
    """One execution that a search found; a DATETIME is microseconds since the epoch."""
    indexed = {entry.key: shown(entry.value) for entry in found.indexed}
    return {**flow_document(found.info), "indexed_attributes": indexed}


def blocker_document(blocker: pb.Blocker) -> dict[str, Any]:
    """One reason why a Flow does not get on."""
    return {
        "step_execution_id": blocker.step_execution_id,
        "kind": blocker.kind,
        "text": blocker.text,
        "since": blocker.since or None,
        "until": blocker.until or None,
    }


def event_document(event: pb.HistoryEvent) -> dict[str, Any]:
    """One event of a history."""
    return {
        "event_id": event.event_id,
        "run_id": event.run_id,
        "at": event.at,
        "kind": event.kind,
        "data": shown(event.data),
    }


def result_document(flow_id: str, reply: pb.WaitForFlowReply) -> dict[str, Any]:
    """How an execution ended, or that it has not."""
    return {
        "flow_id": flow_id,
        "status": reply.status if reply.is_terminal else "RUNNING",
        "is_terminal": reply.is_terminal,
        "error_type": reply.error_type,
        "error_message": reply.error_message,
        "completions": [
            {
                "step_type": completion.step_type,
                "step_execution_id": completion.step_execution_id,
                "value": shown(completion.value),
            }
            for completion in reply.completions
        ],
    }
