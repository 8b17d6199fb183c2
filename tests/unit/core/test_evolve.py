"""The fold refuses a log that cannot have been written; everything else is shown by what deciders do [ARCH-2]."""

import pytest

from dexd.core.config import ACCEPTED_REMEMBERED_MAX
from dexd.core.flow.evolve import evolve
from tests.support.builders import (
    RUN,
    closed,
    dispatched,
    executed,
    history,
    met,
    scheduled,
    started,
    token,
)
from tests.support.given import given


def test_run_begins_with_flow_started() -> None:
    (event,) = history(scheduled("A-1"))
    with pytest.raises(TypeError, match="begins with FlowStarted, not StepScheduled"):
        evolve(None, event)


def test_run_begins_once() -> None:
    (event,) = history(started())
    with pytest.raises(TypeError, match=f"run {RUN} has begun already"):
        evolve(evolve(None, event), event)


def test_event_of_a_step_that_is_not_active_is_a_broken_log() -> None:
    begun, event = history(started(), dispatched("A-1"))
    with pytest.raises(KeyError, match="A-1"):
        evolve(evolve(None, begun), event)


def test_conditions_of_a_step_that_does_not_wait_are_a_broken_log() -> None:
    begun, step, event = history(started(), scheduled("A-1"), met("A-1", (0,)))
    with pytest.raises(TypeError, match="A-1 has no Wait"):
        evolve(evolve(evolve(None, begun), step), event)


def test_only_the_newest_accepted_results_are_remembered() -> None:
    """[WIRE-10, ARCH-8]"""
    count = ACCEPTED_REMEMBERED_MAX + 1
    steps = [f"A-{number}" for number in range(1, count + 1)]
    accepted = (
        given(started(), *(event for name in steps for event in (scheduled(name), dispatched(name), executed(name))))
        .run()
        .accepted
    )
    assert accepted == [token(name) for name in steps[1:]]


def test_closing_leaves_nothing_active() -> None:
    run = given(started(), scheduled("A-1"), dispatched("A-1"), closed()).run()
    assert (run.steps, run.watchers) == ({}, {})
