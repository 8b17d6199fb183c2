"""Everything a fork needs from the log, as the shell hands it to the kernel."""

from typing import TypeAlias

import msgspec

from dexd.core.config import ACTIVE_STEPS_MAX, PENDING_BYTES_MAX, PENDING_MESSAGES_MAX, REAPPLIED_WRITES_MAX
from dexd.core.events import (
    AttributesSet,
    ChannelMessageDeleted,
    ChannelPublished,
    RpcCompleted,
    StepCanceled,
    StepScheduled,
)
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.ids import TIMEOUT_HANDLER, FlowId, RequestId, RunId
from dexd.core.rejections import Code, Rejection
from dexd.core.sub_flows import UnstartedSubFlow
from dexd.core.values import RequestRecord

WriteEvent: TypeAlias = (
    ChannelPublished | ChannelMessageDeleted | AttributesSet | RpcCompleted | StepCanceled | StepScheduled
)


class ExternalWrite(msgspec.Struct, gc=False):
    """One write: what one request recorded, in order."""

    version: int
    request: RequestRecord
    events: tuple[WriteEvent, ...]


class ForkPoint(msgspec.Struct, frozen=True, gc=False):
    """The state with which the new run begins."""

    run_id: RunId
    """Of the run that the point lies in."""
    event_id: int
    """Last event of it that is kept."""
    carried: bytes
    timeout_ms: int
    """The Flow's whole time, which begins again [TIME-4]; 0 if there is none, or if it was over at the point."""
    eligible_at: int
    pending_count: int
    pending_bytes: int
    active_steps: int


class ForkPlan(msgspec.Struct, frozen=True, gc=False):
    """A fork that is ready to be decided, unless the Flow has changed since."""

    latest_run_id: RunId
    """The newest run when the log was read."""
    last_request: RequestId | None
    """The newest request that it remembered; every external write brings another one."""
    latest_step: tuple[str, int] | None
    """Of a selector by Step type: how many executions of it there were."""
    point: ForkPoint
    writes: tuple[ExternalWrite, ...]
    is_dropping_writes: bool = False

    def is_outdated(self, latest: RunState) -> bool:
        """Whether the newest run has got something that the plan would have to take into account."""
        if latest.run_id != self.latest_run_id:
            return True
        if self.latest_step is not None and latest.counters.get(self.latest_step[0], 0) != self.latest_step[1]:
            return True
        return not self.is_dropping_writes and last_request(latest) != self.last_request


def last_request(run: RunState) -> RequestId | None:
    """The request that the run came to remember last."""
    return next(reversed(run.requests), None)


def fork_point(state: RunState, new_run_id: RunId) -> ForkPoint:
    """Make the state at the point fit for another run; the state is changed [TT-4].

    1. Handlers of the old run deliver to the old run: a Step that was with a worker wants one again, in the attempt it
       was in, and its next delivery is the next one of that attempt.
    2. What only means something in the old run is left out: accepted results, values lent to handlers. Remembered
       requests belong to the execution and come from its newest run [RPC-12].
    3. Children that were asked for and not known to exist are asked for by the new run [TT-6].
    """
    event_id = state.version
    state.accepted = []
    state.requests = {}
    state.lending = {}
    for step in state.steps.values():
        step.withheld = {}
        if step.phase is StepPhase.RUNNING:
            step.phase = StepPhase.READY
            step.has_heartbeat = False
    unstarted = [_asked_by(new_run_id, child) for child in state.unstarted.values()]
    state.unstarted = {child.key.source: child for child in unstarted}
    is_time_over = TIMEOUT_HANDLER in state.counters or state.terms is None
    return ForkPoint(
        state.run_id,
        event_id,
        to_carried(state),
        0 if is_time_over or state.terms is None else state.terms.timeout_ms,
        state.eligible_at,
        state.pending_count,
        state.pending_bytes,
        len(state.steps),
    )


def _asked_by(run_id: RunId, child: UnstartedSubFlow) -> UnstartedSubFlow:
    return msgspec.structs.replace(child, key=msgspec.structs.replace(child.key, run_id=run_id))


def refuse_excess(flow_id: FlowId, plan: ForkPlan) -> Rejection | None:
    """Refuse a fork that would begin with more than an execution may have."""
    point, writes = plan.point, plan.writes
    messages = [len(value) for write in writes for value in _published(write)]
    steps = sum(type(event) is StepScheduled for write in writes for event in write.events)
    for what, size, limit in (
        ("external writes to apply again", len(writes), REAPPLIED_WRITES_MAX),
        ("pending messages", point.pending_count + len(messages), PENDING_MESSAGES_MAX),
        ("bytes of pending messages", point.pending_bytes + sum(messages), PENDING_BYTES_MAX),
        ("active Steps", point.active_steps + steps, ACTIVE_STEPS_MAX),
    ):
        if size > limit:
            return Rejection(
                Code.VALUE_TOO_LARGE,
                f"the forked run of Flow {flow_id!r} would begin with {size} {what}, the limit is {limit}; choose a "
                "later point, or do not apply the writes again",
                {"flow_id": flow_id, "what": what, "size": str(size), "limit": str(limit)},
            )
    return None


def _published(write: ExternalWrite) -> list[bytes]:
    values: list[bytes] = []
    for event in write.events:
        if type(event) is ChannelPublished:
            values += [value for _, value in event.messages]
        elif type(event) is RpcCompleted:
            values += [value for _, _, value in event.messages]
    return values
