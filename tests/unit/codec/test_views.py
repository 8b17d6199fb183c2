"""What reads show of a run's folded state."""

from dexd.codec.views import FlowEnd, FlowSummary, end_of, summary_of_run
from dexd.core.events import Event
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.values import Completion, DecisionKind, FlowErrorType, FlowStatus
from tests.support.builders import FLOW, FLOW_TYPE, RUN, T0, closed, dispatched, executed, history, scheduled, started


def fold(*events: Event) -> RunState:
    state: RunState | None = None
    for recorded in history(*events):
        state = evolve(state, recorded)
    assert state is not None
    return state


FAILED = fold(started(ordinal=2), closed(FlowStatus.FAILED, FlowErrorType.STEP_DECISION_FAILED, "why"))


def test_summary_shows_the_state_and_counts_the_events() -> None:
    """[FLOW-6, FLOW-9, HIST-2] As many events as the history has."""
    assert summary_of_run(FAILED) == FlowSummary(
        FLOW, RUN, FLOW_TYPE, FlowStatus.FAILED, T0, T0, 2, 2, FlowErrorType.STEP_DECISION_FAILED, "why", RUN
    )


def test_end_of_a_failed_run_has_its_error() -> None:
    """[FLOW-9] Type and message of what ended it."""
    assert end_of(FAILED) == FlowEnd(FlowStatus.FAILED, FlowErrorType.STEP_DECISION_FAILED, "why", ())


def test_end_of_a_completed_run_has_its_completions() -> None:
    """[FLOW-7, DEC-7] The outputs that came with a completing decision, in order."""
    decided = executed("A-1", DecisionKind.FORCE_COMPLETE, output=b"1")
    end = end_of(fold(started(), scheduled("A-1"), dispatched("A-1"), decided, closed()))
    assert end == FlowEnd(FlowStatus.COMPLETED, FlowErrorType.NONE, "", (Completion("A", "A-1", b"1"),))
