"""Which outcomes may reach workers before their commit, and calls of a past that a crash took back [DUR-2]."""

import pytest

from dexd.core.config import KernelConfig
from dexd.core.terms import FlowConfig, FlowTerms
from dexd.core.values import StepDurability, StepOptions
from tests.support.builders import (
    DEAD_END,
    T0,
    accept,
    beat,
    complete,
    connect,
    executed,
    fail,
    force,
    go_to,
    heartbeat,
    options,
    plan,
    publish,
    refused,
    running,
    scheduled,
    stale,
    started,
    token,
)
from tests.support.given import Given, given

ASYNC, SYNC = StepDurability.ASYNC, StepDurability.SYNC


def early_of(
    step_options: StepOptions | None, config: FlowConfig | None = None, default: StepDurability = SYNC
) -> str | None:
    """Which run's effects may leave early after execute."""
    before = given(
        started(terms=FlowTerms(config=config)),
        scheduled("A-1", options=step_options),
        config=KernelConfig(step_durability=default),
    ).after(*connect())
    return before.kernel.handle(complete(go_to(plan("B"))), now=T0).early


@pytest.mark.parametrize(
    ("step_options", "config", "default", "is_early"),
    [
        (None, None, SYNC, False),
        (options(execute_durability=ASYNC), None, SYNC, True),
        (options(wait_for_durability=ASYNC), None, SYNC, False),
        (None, FlowConfig(step_durability=ASYNC), SYNC, True),
        (options(execute_durability=SYNC), FlowConfig(step_durability=ASYNC), ASYNC, False),
        (None, FlowConfig(step_durability=SYNC), ASYNC, False),
        (options(), FlowConfig(), ASYNC, True),
        (None, None, ASYNC, True),
    ],
)
def test_dur_2_the_method_wins_over_the_flow_and_the_flow_over_the_server(
    step_options: StepOptions | None, config: FlowConfig | None, default: StepDurability, is_early: bool
) -> None:
    """[CFG-3]"""
    assert early_of(step_options, config, default) == ("run-1" if is_early else None)


def at_work(step_options: StepOptions) -> Given:
    return given(started(), scheduled("A-1", options=step_options)).after(*connect())


def test_dur_2_only_results_are_followed_early() -> None:
    before = at_work(options(execute_durability=ASYNC))
    assert before.kernel.handle(publish("c", b"1"), now=T0).early is None
    assert before.kernel.handle(fail(), now=T0).early is None


def test_dur_1_what_a_due_timer_decided_in_the_same_turn_is_not_async() -> None:
    """A heartbeat of the same Flow is recorded before the result is looked at."""
    before = at_work(options(execute_durability=ASYNC)).after(accept(), heartbeat(b"1"), heartbeat(b"2"))
    outcome = before.kernel.handle(complete(DEAD_END), now=T0 + 1_000)
    assert outcome.events[0].event == beat(b"2")
    assert outcome.early is None


def test_dur_2_a_call_of_the_lost_past_is_canceled_and_its_result_refused_whoever_has_the_token_now() -> None:
    """The log ends before B-1 was scheduled; worker w1 runs it all the same, w2 gets the B-1 of the new past."""
    before = given(started(), scheduled("A-1"))
    before.after(*connect(1, "w1", streams=0, running=(running(token("B-1")),)))
    before.after(*connect(2, "w2"), complete(go_to(plan("B", input=b"new")), session=2))
    assert before.step("B-1").worker_id == "w2"
    before.when(complete(force(b"old"), token("B-1"), session=1)).then(
        events=[stale("B-1", worker="w1")], effects=[refused("STALE", token("B-1"), session=1)]
    )
    before.when(complete(DEAD_END, token("B-1"), session=2)).then_events(executed("B-1", worker="w2"))


def test_dur_2_heartbeats_of_the_lost_past_are_not_taken() -> None:
    before = given(started(), scheduled("A-1"))
    before.after(*connect(1, "w1", streams=0, running=(running(token("B-1")),)))
    before.after(*connect(2, "w2"), complete(go_to(plan("B")), session=2))
    before.when(heartbeat(b"old", token("B-1"), session=1)).then()
    before.when(heartbeat(b"new", token("B-1"), session=2)).then(events=[beat(b"new", "B-1")])
