"""How the Flows of a simulated world must have begun and ended, by what its clients were told."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from dexd.core import events as e
from dexd.core.flow.state import RunState
from dexd.core.ids import TIMEOUT_HANDLER_ID
from dexd.core.outcome import RecordedEvent
from dexd.core.values import FlowStatus
from tests.simulation.acknowledged import Acknowledged

Happened = TypeVar("Happened")

Runs = Mapping[str, Sequence[RunState]]
"""Flow ID to its runs, oldest first."""


def check_endings(runs: Runs, told: Acknowledged, world: str) -> None:
    """Raise AssertionError, naming the world, at the first Flow that ended otherwise."""
    for flow_id in told.starts:
        where = f"{world}: {flow_id}"
        last = runs[flow_id][-1]
        if flow_id not in told.stops and flow_id not in told.targets:
            ending = told.endings.get(flow_id, FlowStatus.COMPLETED)
            assert last.status is ending, f"{where} is {last.status}, not {ending}"
        if last.flow_type == "Race":
            assert len(last.completions) == 1, f"{where} has winners {last.completions} [DEC-9..11]"
            assert last.attributes["seen"] == b'"race"', f"{where} canceled a bystander [DEC-9]"
        if flow_id in told.counts:
            counts = told.counts[flow_id]
            assert len(dict.fromkeys(counts)) == len(counts), f"{where} counted to one number twice: {counts} [LOCK-2]"
            assert max(counts) <= json.loads(last.attributes["count"]), f"{where} forgot a count of {counts} [INV-1]"
        if flow_id in told.attempts:
            _check_attempts(runs[flow_id], told.attempts[flow_id], where)
    for flow_id, items in told.refused.items():
        seen = json.loads(runs[flow_id][-1].attributes["seen"])
        assert not set(items) & set(seen), f"{world}: {flow_id} consumed {seen}, refused {items} [GEN-2, DEC-5]"


def check_counts(events: Sequence[RecordedEvent], last: RunState, where: str) -> None:
    """[LOCK-1, LOCK-2] whoever counted under the lock counts: no update was lost to another one."""
    if last.flow_type == "Ledger":
        steps = [event for event in _happened(events, e.ExecuteCompleted) if event.step_execution_id.startswith("Add")]
        counted = len(steps) + len(_happened(events, e.RpcCompleted))
        assert json.loads(last.attributes.get("count", b"0")) == counted, f"{where} counted {counted}"


def _happened(events: Sequence[RecordedEvent], kind: type[Happened]) -> list[Happened]:
    return [recorded.event for recorded in events if isinstance(recorded.event, kind)]


def check_schedule(state: RunState, recorded: RecordedEvent, where: str) -> None:
    """[INV-5] No Step begins before the start delay is over, and no Flow times out before its time."""
    terms = state.terms
    if terms is None:
        return
    event, begins_at = recorded.event, state.started_at + terms.start_delay_ms
    if isinstance(event, e.StepDispatched) and state.flow_attempt == 1:
        assert recorded.at >= begins_at, f"{where} before {begins_at} [START-7]"
    if isinstance(event, e.TimerFired) and event.step_execution_id == TIMEOUT_HANDLER_ID:
        ends_at = begins_at + terms.timeout_ms
        assert recorded.at >= ends_at, f"{where} before {ends_at} [TIME-1]"


def _check_attempts(runs: Sequence[RunState], attempts: int, where: str) -> None:
    """[START-8] as many runs as the policy allows, each FAILED, each a backoff after the one before."""
    assert [run.flow_attempt for run in runs] == list(range(1, attempts + 1)), f"{where} has other runs than allowed"
    for earlier, later in pairwise(runs):
        assert earlier.status is FlowStatus.FAILED, f"{where}: {earlier.run_id} is {earlier.status}"
        assert later.eligible_at > earlier.closed_at, f"{where}: {later.run_id} begins at once"
