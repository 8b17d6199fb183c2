"""What clients do to a Flow from outside: publish, delete messages, write Attributes, configure, stop.

Every call is remembered [RPC-12].
"""

from dexd.core.commands import DeleteMessage, PublishMessages, SetAttribute, UpdateFlowConfig
from dexd.core.events import AttributesSet, ChannelMessageDeleted, ChannelPublished, Event, FlowConfigUpdated
from dexd.core.flow.closing import decide_close
from dexd.core.flow.map_instances import refuse_instances
from dexd.core.flow.messages import message_ids, position_of, refuse_missing, refuse_overflow
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowErrorType, FlowStatus, RequestRecord, StopType

_STOPPED = {
    StopType.CANCEL: FlowStatus.CANCELED,
    StopType.FAIL: FlowStatus.FAILED,
    StopType.TERMINATE: FlowStatus.TERMINATED,
}


def refuse_unknown(flow_id: FlowId) -> Rejection:
    """No execution of that Flow ID is retained."""
    return Rejection(Code.FLOW_NOT_FOUND, f"Flow {flow_id!r} does not exist", {"flow_id": flow_id})


def refuse_other_run(run: RunState, run_id: RunId | None) -> Rejection | None:
    """[ID-5] A `run_id` guards a mutation: it must name the current run."""
    if run_id is None or run_id == run.run_id:
        return None
    return Rejection(
        Code.FLOW_NOT_ACTIVE,
        f"run {run_id} is not the current run of Flow {run.flow_id!r}, which is {run.run_id}",
        {"flow_id": run.flow_id, "run_id": run.run_id, "expected": run_id},
    )


def refuse_closed(run: RunState) -> Rejection | None:
    """[WAITAPI-7] The call needs an active Flow."""
    if run.is_open:
        return None
    return Rejection(
        Code.FLOW_NOT_ACTIVE,
        f"Flow {run.flow_id!r} is {run.status.name}",
        {"flow_id": run.flow_id, "run_id": run.run_id, "status": run.status.name},
    )


def remembered(run: RunState, request_id: RequestId, digest: bytes) -> RequestRecord | Rejection | None:
    """The record of an equal earlier request, a refusal if it had other content, None if it is new [RPC-12]."""
    found = run.requests.get(request_id)
    if found is None:
        return None
    if found.record.digest == digest:
        return found.record
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {request_id!r} was used before on Flow {run.flow_id!r} with other content",
        {"flow_id": run.flow_id, "request_id": request_id},
    )


def decide_publish(run: RunState, command: PublishMessages, *, now: int) -> ChannelPublished | Rejection:
    """Publish at least one message, atomically and in order [CHAN-2], within the limits [CHAN-10]."""
    refused = refuse_closed(run) or refuse_overflow(run, command.values)
    if refused is not None:
        return refused
    ids = message_ids(run, len(command.values), now=now)
    record = RequestRecord(command.request_id, command.digest, "\n".join(ids).encode())
    return ChannelPublished(command.channel, tuple(zip(ids, command.values, strict=True)), record)


def decide_delete_message(run: RunState, command: DeleteMessage) -> ChannelMessageDeleted | Rejection:
    """Delete one pending message of an active Flow [CHAN-9]."""
    refused = refuse_closed(run)
    if refused is not None:
        return refused
    if position_of(run.channels.get(command.channel, ()), command.message_id) is None:
        return refuse_missing(run, command.channel, command.message_id)
    record = RequestRecord(command.request_id, command.digest)
    return ChannelMessageDeleted(command.channel, (command.message_id,), request=record)


def decide_set_attribute(run: RunState, command: SetAttribute) -> AttributesSet | Rejection:
    """Write or delete one Attribute of an active Flow [ATTR-5], within the limits [LIM-2]."""
    refused = refuse_closed(run) or refuse_instances(run, ((command.key, command.value),))
    if refused is not None:
        return refused
    request = RequestRecord(command.request_id, command.digest)
    return AttributesSet(((command.key, command.value),), request, command.indexed)


def decide_config_update(run: RunState, command: UpdateFlowConfig) -> FlowConfigUpdated | Rejection:
    """Merge what the client set into the settings of an active Flow; later dispatches see it [CFG-2]."""
    refused = refuse_closed(run)
    if refused is not None:
        return refused
    return FlowConfigUpdated(command.config, RequestRecord(command.request_id, command.digest))


def decide_stop(run: RunState, stop: StopType, reason: str, request_id: RequestId, digest: bytes = b"") -> list[Event]:
    """Close the Flow now [STOP-1]; the caller has checked that it is open.

    Under FAIL the reason is the Flow's error message [STOP-2].
    """
    is_fail = stop is StopType.FAIL
    return decide_close(
        run,
        _STOPPED[stop],
        error_type=FlowErrorType.CLIENT_API_FAILED if is_fail else FlowErrorType.NONE,
        error_message=reason,
        request=RequestRecord(request_id, digest),
    )
