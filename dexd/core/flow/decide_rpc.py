"""What follows from an RPC handler's result [RPC-3, RPC-4]."""

from collections.abc import Sequence

from dexd.core.commands import InvokeRpc
from dexd.core.config import ACTIVE_STEPS_MAX, MOVEMENTS_MAX, PUBLICATIONS_MAX, RECORDED_EVENTS_MAX
from dexd.core.events import ChannelMessageDeleted, Event, RpcCompleted
from dexd.core.flow.canceling import decide_cancel
from dexd.core.flow.decide_external import refuse_closed
from dexd.core.flow.map_instances import refuse_instances
from dexd.core.flow.messages import decide_deletions, message_ids, refuse_missing, refuse_overflow
from dexd.core.flow.scheduling import decide_schedule
from dexd.core.flow.state import RunState
from dexd.core.ids import WorkerId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import RequestRecord, Response


def decide_rpc_completed(
    run: RunState, command: InvokeRpc, response: Response, *, request: RequestRecord, worker_id: WorkerId, now: int
) -> list[Event] | Rejection:
    """Apply all effects or none.

    1. Without effects nothing is written, and a closed execution can be read [RPC-4]; but a call with locks, or a
       transaction, is always in history [RPC-5].
    2. With effects the Flow must still be active [RPC-4].
    3. A transaction that deletes a message that is not pending is refused as a whole [CHAN-8].
    4. Steps that the response cancels are gone before those that it schedules exist [GEN-6, DEC-10].
    5. Steps scheduled by the n-th effectful call of a name come from `sys:rpc:<name>#<n>` [ID-12].
    """
    name = command.name
    number = run.rpc_counters.get(name, 0) + 1
    source = f"sys:rpc:{name}#{number}"
    deletions, missing = decide_deletions(run, response.deletions, by=source)
    canceled = decide_cancel(run, response.canceling, by=source) if response.canceling else []
    is_recorded = command.is_transactional or command.locks or deletions or canceled
    if not (is_recorded or response.writes or response.publications or response.next_steps or response.recorded):
        return []
    refused = refuse_closed(run) or _refuse_excess(run, name, response, deletions, ending=len(canceled))
    if refused is not None:
        return refused
    if missing and command.is_transactional:
        return refuse_missing(run, *missing[0])
    ids = message_ids(run, len(response.publications), now=now, after=len(deletions))
    messages = tuple((mid, key, value) for mid, (key, value) in zip(ids, response.publications, strict=True))
    is_io_recorded = run.config is not None and run.config.record_rpc_io is True
    completed = RpcCompleted(
        name,
        number,
        worker_id,
        request,
        response.writes,
        messages,
        response.recorded,
        command.input if is_io_recorded else b"",
        response.output if is_io_recorded else b"",
        response.indexed,
    )
    return [*deletions, completed, *canceled, *decide_schedule(run, response.next_steps, from_step=source)]


def _refuse_excess(
    run: RunState, name: str, response: Response, deletions: Sequence[ChannelMessageDeleted], *, ending: int
) -> Rejection | None:
    excess = refuse_overflow(run, [value for _, value in response.publications], deletions)
    excess = excess or refuse_instances(run, response.writes)
    if excess is not None:
        return excess
    steps = len(response.next_steps)
    for what, size, limit in (
        ("publications", len(response.publications), PUBLICATIONS_MAX),
        ("recorded events", len(response.recorded), RECORDED_EVENTS_MAX),
        ("next Steps", steps, MOVEMENTS_MAX),
        ("active Steps", len(run.steps) - ending + steps, ACTIVE_STEPS_MAX),
    ):
        if size > limit:
            return Rejection(
                Code.VALUE_TOO_LARGE,
                f"RPC {name!r} of Flow {run.flow_id!r}: {size} {what}, the limit is {limit}",
                {"flow_id": run.flow_id, "what": what, "size": str(size), "limit": str(limit)},
            )
    return None
