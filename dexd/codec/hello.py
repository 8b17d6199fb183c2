"""The first frame of a session: protocol negotiation and what the worker can serve [WIRE-4]."""

from collections.abc import Mapping

import msgspec

from dexd.codec.faults import locks_fault, name_fault, plan_fault
from dexd.codec.index_writes import to_index_keys
from dexd.codec.step_plans import plan_of_descriptor
from dexd.codec.wire import Received, decode_frames, receive, to_token
from dexd.core.commands import OpenSession
from dexd.core.ids import SessionId, WorkerId
from dexd.core.index_values import IndexKeyTypes
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowCapability, RpcTerms, RunningCall, StepPlan
from dexpb.v1 import frames


class Opening(msgspec.Struct, frozen=True):
    """What the first batch of a session says."""

    command: OpenSession
    protocol: int
    start_steps: Mapping[str, StepPlan | None]
    """How each Flow type of the worker begins; None: without a Step."""
    index_keys: IndexKeyTypes
    """Index keys that its code names [ATTR-10]."""
    rest: Received
    """What followed Hello in its batch."""


def decode_opening(message: bytes, session: SessionId) -> Opening | Rejection:
    """Read the first SessionBatch message of a session.

    Returns:
        The opening, or why the call ends: PROTOCOL_VIOLATION when Hello is not the first frame, PROTOCOL_MISMATCH when
        the version intervals do not meet, INVALID_WORKER_ID and INVALID_ARGUMENT for what it says.
    """
    decoded, skipped = decode_frames(message)
    if not decoded or not isinstance(decoded[0], frames.Hello):
        return Rejection(Code.PROTOCOL_VIOLATION, "the first frame of a session must be Hello")
    hello = decoded[0]
    protocol = min(hello.protocol_max, frames.PROTOCOL_MAX)
    if protocol < max(hello.protocol_min, frames.PROTOCOL_MIN):
        return _mismatch(hello)
    try:
        command = _to_open_session(hello, session)
        start_steps = dict(map(_to_start_step, hello.flows))
        index_keys = to_index_keys(hello.index_keys)
    except ValueError as error:
        return Rejection(Code.INVALID_ARGUMENT, f"Hello: {error}", {"worker_id": hello.worker_id[:255]})
    if (fault := name_fault(hello.worker_id, "app worker ID")) is not None:
        return Rejection(Code.INVALID_WORKER_ID, fault)
    rest = receive(decoded[1:], skipped, session)
    return Opening(command, protocol, start_steps, index_keys, rest)


def _mismatch(hello: frames.Hello) -> Rejection:
    worker = f"{hello.protocol_min}..{hello.protocol_max}"
    server = f"{frames.PROTOCOL_MIN}..{frames.PROTOCOL_MAX}"
    return Rejection(
        Code.PROTOCOL_MISMATCH,
        f"the worker speaks session protocol {worker}, the server {server}",
        {"worker": worker, "server": server},
    )


def _to_open_session(hello: frames.Hello, session: SessionId) -> OpenSession:
    if not 0 <= hello.reserved_rpc_tasks < hello.max_concurrent_tasks:
        raise ValueError(
            f"reserved_rpc_tasks is {hello.reserved_rpc_tasks}, allowed are 0 to below max_concurrent_tasks, "
            f"which is {hello.max_concurrent_tasks} and at least 1"
        )
    return OpenSession(
        session=session,
        worker_id=WorkerId(hello.worker_id),
        incarnation=hello.incarnation,
        max_concurrent_tasks=hello.max_concurrent_tasks,
        reserved_rpc_tasks=hello.reserved_rpc_tasks,
        flows=tuple(map(_to_capability, hello.flows)),
        sdk=f"{hello.sdk_name} {hello.sdk_version}",
        running=tuple(RunningCall(call.stream, call.queue, to_token(call.token)) for call in hello.running),
    )


def _to_capability(flow: frames.FlowDescriptor) -> FlowCapability:
    for rpc in flow.rpcs:
        fault = locks_fault(rpc.locks)
        if fault is not None:
            raise ValueError(f"RPC {rpc.name!r} of Flow type {flow.flow_type!r}: {fault}")
    terms = {rpc.name: RpcTerms(rpc.locks, rpc.is_transactional) for rpc in flow.rpcs}
    return FlowCapability(flow.flow_type, frozenset(flow.step_types), frozenset(flow.rpc_names), terms)


def _to_start_step(flow: frames.FlowDescriptor) -> tuple[str, StepPlan | None]:
    # A Flow type that is too long is a rejection of its queue alone [QUEUE-5], so only its start Step is checked here.
    if flow.start_step is None:
        return flow.flow_type, None
    plan = plan_of_descriptor(flow.start_step)
    fault = plan_fault(plan)
    if fault is not None:
        raise ValueError(f"start Step of Flow type {flow.flow_type!r}: {fault}")
    return flow.flow_type, plan
