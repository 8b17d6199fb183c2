"""FlowService requests that change nothing, as queries, or as a refusal. `flow_replies` is the other direction."""

from collections.abc import Callable

import msgspec

from dexd.codec.attribute_match import IsText, to_large_match, to_match
from dexd.codec.faults import key_fault
from dexd.codec.request_checks import (
    invalid,
    optional_run_id,
    refuse_fault,
    refuse_negative,
    refuse_outside,
    refuse_run,
    refuse_step_execution_id,
)
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.rejections import Rejection
from dexpb.v1 import flow_service_pb2 as pb

PAGE_SIZE_DEFAULT = 100
HISTORY_PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_MAX = 1_000
"""Rows of a page [HIST-5, SEARCH-8]."""


class RunKey(msgspec.Struct, frozen=True):
    """Names the latest run of a Flow ID, or one run of it [ID-5]."""

    flow_id: FlowId
    run_id: RunId | None


class HistoryQuery(msgspec.Struct, frozen=True):
    """A page of history."""

    key: RunKey
    from_event_id: int
    limit: int


class WatchQuery(msgspec.Struct, frozen=True):
    """A history to follow."""

    key: RunKey
    from_event_id: int
    follow_runs: bool = False
    page_events: int = HISTORY_PAGE_SIZE_DEFAULT
    """Events read at a time."""


class AttributeQuery(msgspec.Struct, frozen=True):
    """One Attribute."""

    key: RunKey
    name: str


class MessagesQuery(msgspec.Struct, frozen=True):
    """A page of one Channel."""

    key: RunKey
    channel: str
    after: str
    limit: int


class FlowWaitQuery(msgspec.Struct, frozen=True):
    """A wait for the end of a Flow."""

    flow_id: FlowId
    wait_ms: int
    first_run_id: RunId | None


class StepWaitQuery(msgspec.Struct, frozen=True):
    """A wait for the end of a Step execution."""

    flow_id: FlowId
    step_execution_id: StepExecutionId
    wait_ms: int


class AttributeWaitQuery(msgspec.Struct, frozen=True):
    """A wait for a value of an Attribute."""

    flow_id: FlowId
    name: str
    matches: Callable[[bytes | None], bool]
    wait_ms: int


def to_run_key(request: pb.DescribeFlowRequest | pb.GetFlowStateRequest) -> RunKey | Rejection:
    """Read whose state is wanted."""
    return refuse_run(request.flow_id, request.run_id) or _run_key(request.flow_id, request.run_id)


def to_explain_key(request: pb.ExplainFlowRequest) -> RunKey | Rejection:
    """Read which Flow is to be explained; always its latest run."""
    return refuse_run(request.flow_id, "") or _run_key(request.flow_id, "")


def to_attribute_query(request: pb.GetAttributeRequest) -> AttributeQuery | Rejection:
    """Read which Attribute is wanted."""
    refusal = refuse_run(request.flow_id, request.run_id) or refuse_fault(key_fault(request.key, "key"), "key")
    return refusal or AttributeQuery(_run_key(request.flow_id, request.run_id), request.key)


def to_messages_query(request: pb.ListChannelMessagesRequest) -> MessagesQuery | Rejection:
    """Read which pending messages are wanted [CHAN-9]."""
    limit = request.page_size or PAGE_SIZE_MAX
    refusal = (
        refuse_run(request.flow_id, request.run_id)
        or refuse_fault(key_fault(request.channel, "channel"), "channel")
        or refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    )
    key = _run_key(request.flow_id, request.run_id)
    return refusal or MessagesQuery(key, request.channel, request.after_message_id, limit)


def to_history_query(request: pb.GetHistoryRequest) -> HistoryQuery | Rejection:
    """Read which page of history is wanted; event id 0 means the first."""
    limit = request.page_size or HISTORY_PAGE_SIZE_DEFAULT
    refusal = (
        refuse_run(request.flow_id, request.run_id)
        or refuse_negative(request.from_event_id, "from_event_id")
        or refuse_outside(limit, "page_size", 1, PAGE_SIZE_MAX)
    )
    return refusal or HistoryQuery(_run_key(request.flow_id, request.run_id), max(1, request.from_event_id), limit)


def to_watch_query(request: pb.WatchHistoryRequest) -> WatchQuery | Rejection:
    """Read from where history is to be followed."""
    refusal = refuse_run(request.flow_id, request.run_id) or refuse_negative(request.from_event_id, "from_event_id")
    key = _run_key(request.flow_id, request.run_id)
    return refusal or WatchQuery(key, max(1, request.from_event_id), request.follow_runs)


def to_flow_wait_query(request: pb.WaitForFlowRequest, *, wait_ms_max: int) -> FlowWaitQuery | Rejection:
    """Read a wait for a Flow; one poll is held at most `wait_ms_max` [WAITAPI-1]."""
    # Each look at a field of a message makes a new object, so every field is looked at once.
    flow_id, first_run_id, wait_ms = request.flow_id, request.first_run_id, request.wait_ms
    refusal = refuse_run(flow_id, first_run_id) or refuse_outside(wait_ms, "wait_ms", 0, wait_ms_max)
    return refusal or FlowWaitQuery(FlowId(flow_id), wait_ms, optional_run_id(first_run_id))


def to_attribute_wait_query(
    request: pb.WaitForAttributeRequest, *, wait_ms_max: int, is_text: IsText
) -> AttributeWaitQuery | Rejection:
    """Read a wait for a value of an Attribute [WAITAPI-4]; `is_text` tells what a large value is."""
    refusal = (
        refuse_run(request.flow_id, "")
        or refuse_fault(key_fault(request.key, "key"), "key")
        or refuse_outside(request.wait_ms, "wait_ms", 0, wait_ms_max)
    )
    if refusal is not None:
        return refusal
    digest = request.operand_digest
    if digest and (request.operand or request.is_instant):
        return invalid("operand_digest", "operand_digest stands for a large string, without operand and is_instant")
    try:
        if digest:
            matches = to_large_match(request.operator, digest, is_text=is_text)
        else:
            matches = to_match(request.operator, request.operand, is_instant=request.is_instant, is_text=is_text)
    except ValueError as error:
        return invalid("operand", str(error))
    return AttributeWaitQuery(FlowId(request.flow_id), request.key, matches, request.wait_ms)


def to_step_wait_query(request: pb.WaitForStepCompletionRequest, *, wait_ms_max: int) -> StepWaitQuery | Rejection:
    """Read a wait for a Step execution, whose ID is split at the last hyphen [ID-6, WAITAPI-3]."""
    refusal = (
        refuse_run(request.flow_id, "")
        or refuse_outside(request.wait_ms, "wait_ms", 0, wait_ms_max)
        or refuse_step_execution_id(request.step_execution_id)
    )
    if refusal is not None:
        return refusal
    return StepWaitQuery(FlowId(request.flow_id), StepExecutionId(request.step_execution_id), request.wait_ms)


def _run_key(flow_id: str, run_id: str) -> RunKey:
    return RunKey(FlowId(flow_id), optional_run_id(run_id))
