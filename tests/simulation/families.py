"""Clients of parents, and what must have become of every child [SUB-1, SUB-4..6]."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from random import Random

from dexd.core import events as e
from dexd.core.flow.state import RunState
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, StepExecutionId
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flows import sub_flow_id
from dexd.core.terms import FlowRetry, FlowTerms
from dexd.core.values import FlowStatus, Method, RetryPolicy, WaitKind
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.chains import fold_chain
from tests.simulation.family_programs import CHILDREN
from tests.simulation.requests import Requests, start_plan

RAISE = StepExecutionId("Raise-1")
CHILDREN_MAX = 5


async def drive_family(requests: Requests, random: Random, flow_id: str) -> None:
    """Start a parent and stop what ends in no other way; now and then stop the parent, or let it run twice.

    Or send it back, while its children grow or when they have ended, so that it meets them again [TT-6].
    """
    fate = random.choice(["plain", "plain", "stopped", "twice", "sent back"])
    kinds = [kind for kind in CHILDREN if fate == "plain" or kind != "lingers"]
    children = random.choices(kinds, k=random.randint(1, CHILDREN_MAX))
    # A second run of a parent that did not wait for all would replace children that still run.
    is_any = fate not in ("twice", "sent back") and random.random() < 0.4
    plan = {"any": is_any, "children": children, "reuse": random.randrange(3), "fails": fate == "twice"}
    requests.acknowledged.families[flow_id] = children
    terms = None
    if fate == "twice":
        start_step = start_plan("Parent", value(plan))
        terms = FlowTerms(retry=FlowRetry(RetryPolicy(initial_interval_ms=500, maximum_attempts=2), start_step))
        requests.acknowledged.endings[flow_id] = FlowStatus.FAILED
        requests.acknowledged.attempts[flow_id] = 2
    await requests.start(flow_id, "Parent", plan, terms)
    if fate == "stopped":
        await asyncio.sleep(random.uniform(0, 4))
        await requests.stop(flow_id)
    if fate == "sent back":
        for _ in range(random.randint(1, 2)):
            await asyncio.sleep(random.uniform(0, 5))
            await requests.travel(flow_id, _drawn_point(random, now=requests.now()))
    for number, kind in enumerate(children):
        if kind == "lingers":
            await asyncio.sleep(random.uniform(0, 2))
            await requests.stop(sub_flow_id(FlowId(flow_id), RAISE, number), is_there=False)


def _drawn_point(random: Random, *, now: int) -> Selector:
    return random.choice(
        [
            Selector(TimeTravelType.BEGINNING),
            Selector(TimeTravelType.HISTORY_EVENT_TIME, at=now - random.randint(0, 4_000)),
            Selector(TimeTravelType.STEP_EXECUTION_ID, step_execution_id=RAISE, method=Method.WAIT_FOR),
            Selector(TimeTravelType.STEP_EXECUTION_ID, step_execution_id=RAISE, method=Method.EXECUTE),
        ]
    )


def check_families(runs: Mapping[str, Sequence[RunState]], told: Acknowledged, world: str) -> None:
    """Every child that a client may expect exists and ended as its kind does, whatever became of its parent."""
    for flow_id, kinds in told.families.items():
        for number, kind in enumerate(kinds):
            child_id = sub_flow_id(FlowId(flow_id), RAISE, number)
            where = f"{world}: {child_id}, which {kind},"
            if child_id not in runs:
                assert flow_id in told.stops, f"{where} was never started [SUB-1]"
                continue
            _, ending = CHILDREN[kind]
            status = told.stops[child_id].name if kind == "lingers" else ending
            assert runs[child_id][-1].status.name == status, f"{where} is {runs[child_id][-1].status.name} [SUB-4]"


def check_parents(histories: Sequence[Sequence[RecordedEvent]], states: Sequence[RunState], world: str) -> None:
    """Parents know of their children what is in the children's own histories, and of each of them once."""
    executions: dict[str, RunState] = {state.execution_id: state for state in states}
    for events, parent in zip(histories, states, strict=True):
        if parent.flow_type != "Parent":
            continue
        where = f"{world}: {parent.flow_id} {parent.run_id}"
        assert not parent.unstarted, f"{where} still owes the start of {parent.unstarted} [ARCH-14]"
        started, ended = _known_at_fork(events)
        may_be_replaced = set(started)
        for event in (recorded.event for recorded in events):
            if isinstance(event, e.SubFlowStarted):
                # One that was known at the point of a time travel, and replaced after it, is met as it is now [TT-6].
                is_met_again = event.number in may_be_replaced and event.is_attached
                may_be_replaced.discard(event.number)
                is_first = event.number not in started
                assert is_first or is_met_again, f"{where}: child {event.number} was started twice [SUB-6]"
                assert event.run_id in executions, f"{where}: child {event.run_id} is nowhere [SUB-1]"
                started[event.number] = event.run_id
            elif isinstance(event, e.SubFlowClosed):
                assert event.number not in ended, f"{where}: child {event.number} ended twice"
                child = executions[started[event.number]]
                ending = (child.status, child.error_type, tuple(child.completions))
                result = (event.result.status, event.result.error_type, event.result.completions)
                assert result == ending, f"{where}: told that {child.flow_id} ended so: {result}, not {ending} [SUB-5]"
                ended[event.number] = child.status.name
        _check_seen(events, parent, ended, where)


def _known_at_fork(events: Sequence[RecordedEvent]) -> tuple[dict[int, str], dict[int, str]]:
    """What a parent knows of its children when it begins at an earlier point of another chain [TT-4].

    Gives the runs of those that were started, and how those ended that had, also when the Wait was over by then.
    """
    begun = events[:2]
    if len(begun) < 2 or not isinstance(begun[1].event, e.FlowForked):
        return {}, {}
    step = fold_chain(begun).steps.get(RAISE)
    if step is None:
        return {}, {}
    started = {number: str(child.run_id) for number, child in enumerate(step.sub_flows) if child.run_id}
    results = [child.result for child in step.sub_flows] or [result.sub_flow for result in step.results]
    ended = {number: result.status.name for number, result in enumerate(results) if result is not None}
    return started, ended


def _check_seen(events: Sequence[RecordedEvent], parent: RunState, ended: Mapping[int, str], where: str) -> None:
    """[SUB-5, WAIT-9] What the handler saw: ends of winners, and RUNNING for the others."""
    if "children" not in parent.attributes:
        return
    seen = json.loads(parent.attributes["children"])
    waits = [event for event in (recorded.event for recorded in events) if isinstance(event, e.WaitForCompleted)]
    assert len(waits) <= 1, f"{where} has waited for its children more than once [INV-3]"
    for number, status in enumerate(seen):
        assert status in ("RUNNING", ended.get(number)), f"{where} saw {status} of child {number}, not {ended} [SUB-5]"
    assert any(status != "RUNNING" for status in seen), f"{where} went on without any child [WAIT-1]"
    # Only one that waited for all is ever sent back.
    if not waits or waits[0].wait.kind is WaitKind.ALL_OF:
        assert len(ended) == len(seen), f"{where} went on before all of its children had ended: {ended} [WAIT-1]"
        assert "RUNNING" not in seen, f"{where} saw {seen} of children that have all ended [SUB-5]"
