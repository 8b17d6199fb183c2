"""The end of the old run and the beginning of the new one [TT-1]."""

from itertools import chain

from msgspec.structs import replace

from dexd.core.commands import TimeTravel
from dexd.core.events import Event, FlowForked, FlowReopened, FlowStarted, TimerFired
from dexd.core.flow.closing import decide_close
from dexd.core.flow.decide_output import decide_due_timers
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.reapplication import Reapplication
from dexd.core.ids import StreamId
from dexd.core.outcome import RecordedEvent
from dexd.core.values import FlowStatus, RequestRecord


def decide_end(latest: RunState, command: TimeTravel) -> list[Event]:
    """End a running run as TERMINATED, naming the fork; one that has ended says where its execution goes on."""
    if not latest.is_open:
        return [FlowReopened(command.run_id, command.reason)]
    message = f"forked into run {command.run_id}"
    if command.reason:
        message = f"{message}: {command.reason}"
    return decide_close(latest, FlowStatus.TERMINATED, error_message=message, next_run_id=command.run_id)


def decide_fork(
    latest: RunState, command: TimeTravel, plan: ForkPlan, *, now: int
) -> tuple[FlowStarted, FlowForked, list[Event]]:
    """Begin the new run with the state at the point; gives its first two events and the rest of the fork.

    1. Flow ID, ordinal and what the execution was started with stay; so does when it was accepted [TT-1, CTX-3].
    2. The Flow's time begins anew, unless it was over at the point [TIME-4].
    3. Requests that the execution remembers stay remembered, those after the point too [RPC-12].
    4. Timers of restored Waits that are overdue fire [TT-4]; then external writes are applied again [TT-5].
    """
    point = plan.point
    timeout_at = max(now, point.eligible_at) + point.timeout_ms if point.timeout_ms else 0
    started = FlowStarted(
        latest.flow_id,
        command.run_id,
        latest.flow_type,
        latest.ordinal,
        latest.start_request_id,
        latest.start_digest,
        latest.seed,
        timeout_at=timeout_at,
    )
    forked = FlowForked(
        point.run_id,
        point.event_id,
        latest.run_id,
        latest.execution_id,
        latest.message_base + latest.version,
        point.carried,
        RequestRecord(command.request_id, command.digest, command.run_id.encode()),
        tuple((remembered.record, remembered.at) for remembered in latest.requests.values()),
        command.reason,
        plan.is_dropping_writes,
    )
    events = _decide_rest(started, forked, plan, now=now)
    return started, replace(forked, reapplied=len(events)), events


def _decide_rest(started: FlowStarted, forked: FlowForked, plan: ForkPlan, *, now: int) -> list[Event]:
    """Decide on a run that is thrown away: each event depends on what the ones before it leave behind."""
    run = evolve(None, RecordedEvent(_NOWHERE, 1, now, started))
    evolve(run, RecordedEvent(_NOWHERE, 2, now, forked))
    again = Reapplication(run)
    events: list[Event] = []
    for event in chain(decide_overdue(run, now=now), *map(again.events, plan.writes)):
        events.append(event)
        evolve(run, RecordedEvent(_NOWHERE, run.version + 1, now, event))
    return events


_NOWHERE = StreamId(0)


def decide_overdue(run: RunState, *, now: int) -> list[TimerFired]:
    """Timers of the restored Waits that are due by now, in the order of their instants [TT-4, TIMER-4]."""
    due: list[tuple[int, int, TimerFired]] = []
    for step in run.steps.values():
        if step.wait is not None:
            for event in decide_due_timers(step, step.wait, step.fired, now=now):
                at = step.wait.conditions[event.condition_index].at_ms
                assert at is not None, "who is due has an instant"
                due.append((at, step.wait_version, event))
    return [event for _, _, event in sorted(due, key=lambda entry: entry[:2])]
