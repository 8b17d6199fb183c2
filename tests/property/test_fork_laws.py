"""Laws of time travel: a fork restores what replay of the kept events gives, and is itself rebuilt by replay [TT-4]."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dexd.core import commands as c
from dexd.core.events import FlowForked
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.selectors import Selector
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.outcome import RecordedEvent, TimeTravelAccepted
from dexd.core.values import Method
from tests.property.histories import FLOW_ID, live, seeds
from tests.property.kernel_world import KernelWorld
from tests.support.builders import record
from tests.support.forks import BEGINNING, FORK, at_step, at_time, at_type, execution_log, preparation

_CHANGED = (
    "stream_id",
    "run_id",
    "chain_id",
    "version",
    "message_base",
    "accepted",
    "requests",
    "lending",
    "first_run_id",
)
"""What belongs to a run and not to the state at a point."""
_CHANGED_STEP = ("wait_version", "ready_version", "dispatch_version", "withheld", "has_heartbeat")


def reachable(events: list[RecordedEvent]) -> list[Selector]:
    """Everything that names a point of this run, or none."""
    steps = dict.fromkeys(
        event.step_execution_id
        for event in (recorded.event for recorded in events)
        if hasattr(event, "step_execution_id")
    )
    return [
        BEGINNING,
        *(at_time(at) for at in dict.fromkeys(recorded.at for recorded in events)),
        *(at_type(step_type) for step_type in "AB"),
        *(at_step(step_id, method) for step_id in steps for method in (Method.WAIT_FOR, Method.EXECUTE)),
    ]


def plan_of(world: KernelWorld, selector: Selector, *, run_id: RunId = FORK) -> ForkPlan | None:
    log = execution_log(world.streams.values(), FLOW_ID)
    plan = log.answer(preparation(log, selector, run_id=run_id, flow_id=FLOW_ID).plan())
    return plan if isinstance(plan, ForkPlan) else None


def folded(events: list[RecordedEvent], version: int) -> RunState:
    state: RunState | None = None
    for recorded in events[:version]:
        state = evolve(state, recorded)
    assert state is not None
    return state


def essence(state: RunState) -> dict[str, Any]:
    """The state without what a fork gives anew; a Step with a worker is one that wants a worker again."""
    fields = {name: getattr(state, name) for name in state.__struct_fields__ if name not in (*_CHANGED, "steps")}
    fields["steps"] = [essence_of_step(step) for step in state.steps.values()]
    return fields


def essence_of_step(step: Any) -> dict[str, Any]:
    fields = {name: getattr(step, name) for name in step.__struct_fields__ if name not in _CHANGED_STEP}
    if fields["phase"] is StepPhase.RUNNING:
        fields["phase"] = StepPhase.READY
    return fields


@given(seeds, st.integers(1, 30), st.randoms(use_true_random=False))
def test_tt_4_fork_has_the_state_that_replay_of_the_kept_events_gives(seed: int, steps: int, random: Any) -> None:
    """At every point that a selector can name; nothing of it is shared with the run that it was taken from."""
    world = live(seed, steps)
    events = world.streams[1]
    selectors = reachable(events)
    for selector in random.sample(selectors, min(6, len(selectors))):
        plan = plan_of(world, selector)
        if plan is None:
            continue
        begun = msgspec.structs.replace(events[0].event, run_id=FORK)
        fork = evolve(None, RecordedEvent(events[0].stream_id, 1, world.now, begun))
        forked = FlowForked(
            plan.point.run_id, plan.point.event_id, RunId("r"), RunId("r"), 0, plan.point.carried, record("travel")
        )
        evolve(fork, RecordedEvent(events[0].stream_id, 2, world.now, forked))
        assert essence(fork) == essence(folded(events, plan.point.event_id))


@given(seeds, st.integers(1, 30), st.integers(0, 10**6), st.integers(0, 30))
def test_tt_1_life_goes_on_after_a_fork(seed: int, steps: int, pick: int, more: int) -> None:
    """Whatever is forked, the invariants hold, live state stays the fold of the log, and everything ends [INV-8]."""
    world = live(seed, steps)
    selectors = reachable(world.streams[1])
    plan = plan_of(world, selectors[pick % len(selectors)])
    if plan is not None:
        command = c.TimeTravel(FlowId(FLOW_ID), FORK, "", RequestId("travel"), b"", plan)
        assert world.do(command).reply == TimeTravelAccepted(FORK)
        assert len([run for run in world.kernel.runs.values() if run.is_open]) == 1
    if more % 2:
        world.crash()
        world.connect("w0", "i1", limit=3)
    world.pass_time(more * 1_000)
    world.finish()
