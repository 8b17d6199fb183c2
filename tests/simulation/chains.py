"""Runs of a simulated world that roll-over joins: what holds for one run without it holds for them together."""

from collections.abc import Mapping, Sequence
from random import Random

from dexd.core import events as e
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.outcome import RecordedEvent
from dexd.core.values import FlowStatus

History = Sequence[RecordedEvent]


def draw_rollover(seed: int) -> int:
    """In most worlds runs are so short that most Flows have several; in some every commit ends one [ROLL-2]."""
    return Random(f"roll-over of {seed}").choice([1, 5, 8, 8, 12, 20, 40, 10_000])


def join_chains(histories: Mapping[int, History]) -> list[list[RecordedEvent]]:
    """The events of each chain, run after run; every FlowStarted begins the next run."""
    chains: dict[str, list[RecordedEvent]] = {}
    for _, events in sorted(histories.items()):
        begun = events[0].event
        assert isinstance(begun, e.FlowStarted)
        following = events[1].event if len(events) > 1 else None
        before = chains.pop(following.previous_run_id) if isinstance(following, e.FlowContinued) else []
        chains[begun.run_id] = [*before, *events]
    return list(chains.values())


def fold_chain(events: History) -> RunState:
    """The state that a chain ends in."""
    state: RunState | None = None
    for recorded in events:
        state = step_of_chain(state, recorded)
    assert state is not None
    return state


def step_of_chain(state: RunState | None, recorded: RecordedEvent) -> RunState:
    """The state after the next event, which may be the first of the next run."""
    is_first = isinstance(recorded.event, e.FlowStarted)
    return evolve(None if is_first else state, recorded)


def check_links(events: History, where: str) -> None:
    """[ROLL-2, ROLL-3] Each run begins with the whole state that the one before had, in the same commit, linked."""
    state: RunState | None = None
    carried = b""
    for recorded in events:
        event = recorded.event
        if isinstance(event, e.FlowClosed) and event.status is FlowStatus.CONTINUED_AS_NEW:
            assert state is not None
            carried = to_carried(state)
        elif isinstance(event, e.FlowContinued):
            assert event.carried == carried, f"{where}: {recorded.stream_id} goes on with another state [ROLL-3]"
        elif isinstance(event, e.FlowStarted) and state is not None:
            assert event.run_id == state.next_run_id, f"{where}: {state.run_id} names {state.next_run_id} [ROLL-2]"
            assert recorded.at == state.closed_at, f"{where}: {event.run_id} begins later [ROLL-2]"
        state = step_of_chain(state, recorded)
    assert state is not None
    assert state.status is not FlowStatus.CONTINUED_AS_NEW, f"{where}: nothing follows {state.run_id} [FLOW-6]"
