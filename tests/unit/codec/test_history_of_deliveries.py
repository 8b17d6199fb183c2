"""Every attempt and delivery in history: where, when, how long, and how it ended [HIST-3, HIST-4]."""

import json
from pathlib import Path
from typing import Any

from dexd.codec.history_view import HistoryView
from dexd.core.config import KernelConfig
from dexd.core.events import EVENT_TYPES
from dexd.core.values import Method, Resolution, StepDurability
from tests.support.builders import (
    SECOND,
    SKIP,
    T0,
    WORKER,
    At,
    at,
    canceled,
    declined,
    dispatched,
    execute_failed,
    executed,
    history,
    lost,
    options,
    pending,
    scheduled,
    started,
    wait_for_failed,
    wait_installed,
)


def shown(*events: Any) -> list[Any]:
    """Data of each event; they happen a second apart."""
    view = HistoryView(KernelConfig())
    timed = [event if isinstance(event, At) else at(T0 + number * SECOND, event) for number, event in enumerate(events)]
    return [json.loads(view.show(recorded).data) for recorded in history(*timed)]


def test_hist_3_a_dispatch_names_its_queue_and_the_limits_that_it_passed() -> None:
    sticky = shown(started(), scheduled(), dispatched(is_sticky=True, waited_ms=7))[-1]
    shared = shown(started(), scheduled(), dispatched())[-1]
    assert (sticky["queue"], shared["queue"]) == ("sticky", "type")
    assert (sticky["worker_id"], sticky["waited_ms"], sticky["limits"], sticky["declined"]) == (WORKER, 7, [], [])


def test_hist_3_a_lost_delivery_has_start_and_duration() -> None:
    data = shown(started(), scheduled(), dispatched(), lost())[-1]
    assert (data["attempt"], data["delivery"], data["worker_id"], data["reason"]) == (1, 1, WORKER, "SESSION_LOST")
    assert (data["started_at"], data["duration_ms"]) == (T0 + 2 * SECOND, SECOND)


def test_hist_3_a_declined_offer_has_start_and_duration() -> None:
    data = shown(started(), scheduled(), dispatched(), declined())[-1]
    assert (data["reason"], data["started_at"], data["duration_ms"]) == ("NO_CAPACITY", T0 + 2 * SECOND, SECOND)


def test_hist_3_a_handler_that_runs_when_its_step_ends_has_start_and_duration() -> None:
    """[HIST-2] MethodPending when the Flow closes, StepCanceled when only the Step does."""
    running = (started(), scheduled(), dispatched())
    for event in (pending(), canceled("A-1", "STEP_CANCELED", "B-1")):
        data = shown(*running, event)[-1]
        assert (data["delivery"], data["worker_id"]) == (1, WORKER)
        assert (data["started_at"], data["duration_ms"]) == (T0 + 2 * SECOND, SECOND)


def test_hist_3_a_step_that_ends_without_running_has_neither() -> None:
    assert "started_at" not in shown(started(), scheduled(), canceled("A-1"))[-1]


def test_hist_3_an_attempt_that_found_no_worker_was_on_none() -> None:
    """Those of the attempt before say nothing about it."""
    first = execute_failed(retry_at=T0 + 4 * SECOND)
    unserved = execute_failed(attempt=2, delivery=0, retry_at=T0 + 9 * SECOND, is_reported=False)
    *_, served, alone = shown(started(), scheduled(), dispatched(), first, unserved)
    assert (served["context"]["worker_id"], served["context"]["duration_ms"]) == (WORKER, SECOND)
    context = alone["context"]
    assert (context["worker_id"], context["started_at"], context["duration_ms"]) == (None, None, None)
    assert (context["last_failure"]["attempt"], context["last_failure"]["at"]) == (1, T0 + 3 * SECOND)


def test_hist_4_the_context_names_source_durability_options_and_ids() -> None:
    chosen = options(execute_durability=StepDurability.ASYNC, heartbeat_timeout_ms=900, execute_locks=("k",))
    done = shown(started(), scheduled(options=chosen, from_step="B-7"), dispatched(), executed())[-1]
    context = done["context"]
    assert (context["flow_id"], context["run_id"], context["flow_type"], context["ordinal"]) == (
        "order-1",
        "run-1",
        "Order",
        1,
    )
    assert (done["step_execution_id"], context["from_step"], context["durability"]) == ("A-1", "B-7", "ASYNC")
    assert context["options"]["heartbeat_timeout_ms"] == 900
    assert context["options"]["lock_attributes"] == ["k"]


def test_hist_4_the_shape_is_the_same_for_sync_and_async() -> None:
    """Each method, its result and its failure."""

    def shapes(durability: StepDurability) -> list[Any]:
        chosen = options(wait_for_durability=durability, execute_durability=durability)
        run_wait_for = dispatched(method=Method.WAIT_FOR)
        events = shown(
            started(),
            scheduled(wait_for=True, options=chosen),
            run_wait_for,
            wait_for_failed(resolution=Resolution.RETRY, retry_at=T0),
            dispatched(attempt=2, method=Method.WAIT_FOR),
            wait_installed("A-1", SKIP, attempt=2),
            dispatched(),
            execute_failed(retry_at=T0),
            dispatched(attempt=2),
            executed(attempt=2),
        )
        return [_shape(data) for data in events if "context" in data]

    sync = shapes(StepDurability.SYNC)
    assert len(sync) == 4
    assert sync == shapes(StepDurability.ASYNC)
    assert {frozenset(entry) & {"input", "output", "context"} for entry in sync} == {
        frozenset(("input", "output", "context"))
    }


def _shape(data: Any) -> Any:
    return {name: _shape(part) for name, part in data.items()} if isinstance(data, dict) else type(data).__name__


HIST_2 = """FlowStarted FlowContinued FlowForked FlowRetried StepScheduled StepDispatched StepDeliveryLost
WaitForCompleted WaitForFailed ExecuteCompleted ExecuteFailed MethodPending StepCanceled ConditionsMet TimerFired
TimerSkipped ChannelPublished ChannelMessageDeleted AttributesSet RpcCompleted SubFlowStarted SubFlowClosed
StaleResultRejected FlowConfigUpdated FlowClosed"""

BEYOND = "StepDeclined HeartbeatReceived TimerSkipRequested FlowReopened"
"""What else is worth an entry: an offer that came to nothing, signs of life, wishes for later, a closed run left."""


def test_hist_2_history_has_these_kinds_and_the_page_names_all_of_them() -> None:
    kinds = {event_type.__name__ for event_type in EVENT_TYPES}
    assert kinds == {*HIST_2.split(), *BEYOND.split()}
    page = (Path(__file__).parents[3] / "docs" / "live-state.md").read_text(encoding="utf-8")
    assert [kind for kind in sorted(kinds) if kind not in page] == []
