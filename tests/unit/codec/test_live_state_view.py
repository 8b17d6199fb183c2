"""Live state of a run as JSON [HIST-1]: every part that the clause names, and how much is shown at most."""

import json
from typing import Any

import msgspec

from dexd.codec.budget import VALUE_BYTES_MAX, Budget
from dexd.codec.live_state_view import live_state
from dexd.codec.live_step_view import STEP_VALUES_BYTES_MAX
from dexd.core.events import ConditionsMet, HeartbeatReceived, SubFlowStarted, TimerSkipped
from dexd.core.ids import FlowId, RunId, ScheduleId, StepExecutionId
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.terms import ActiveStepSearchMode, FlowConfig, FlowTimeoutPolicy, Parent, ScheduledBy
from dexd.core.values import (
    Condition,
    ConditionKind,
    DecisionKind,
    FlowErrorType,
    FlowStatus,
    Method,
    RecoveryError,
    StepDurability,
    TimerId,
)
from tests.support.builders import (
    METHOD_TIMEOUT_MS,
    T0,
    all_of,
    any_combination,
    at,
    attribute_set,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    executed,
    failure,
    fired,
    go_to,
    lost,
    met,
    options,
    plan,
    published,
    recovery,
    rpc,
    scheduled,
    skip_timer,
    started,
    terms,
    timer,
    wait_installed,
)
from tests.support.given import Given, given

HOUR = 3_600_000
A_1 = StepExecutionId("A-1")
CHILD = SubFlowPlan("Child", plan("C"))
CHILD_ID = FlowId("sys:sub:order-1/A-1/0")


def shown(case: Given, **limits: int) -> Any:
    return json.loads(live_state(case.run(), case.kernel.dispatcher, **limits).data)


def step(case: Given, number: int = 0) -> Any:
    return shown(case)["steps"][number]


def waiting(*conditions: Condition, **fields: Any) -> tuple[Any, ...]:
    return (
        scheduled("A-1", wait_for=True),
        dispatched(method=Method.WAIT_FOR),
        at(T0 + 7, wait_installed("A-1", all_of(*conditions), **fields)),
    )


# ---- the Flow ---------------------------------------------------------------------------------------------------


def test_hist_1_shows_how_the_flow_stands() -> None:
    state = shown(given(started(), scheduled("A-1")))
    assert (state["flow_id"], state["run_id"], state["flow_type"]) == ("order-1", "run-1", "Order")
    assert (state["status"], state["started_at"], state["closed_at"], state["ordinal"]) == ("RUNNING", T0, None, 1)
    assert (state["first_run_id"], state["history_events"]) == ("run-1", 2)
    assert (state["error_type"], state["error_message"], state["parent"], state["timeout"]) == (None,) * 4
    assert state["omitted"] == {}


def test_hist_1_shows_how_a_closed_flow_ended() -> None:
    done = executed("A-1", DecisionKind.FORCE_COMPLETE, output=b"[7]")
    end = at(T0 + 5, closed(FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT, "too late"))
    state = shown(given(started(), scheduled("A-1"), dispatched(), done, end))
    assert (state["status"], state["closed_at"]) == ("FAILED", T0 + 5)
    assert (state["error_type"], state["error_message"]) == ("FLOW_TIMEOUT", "too late")
    assert (state["steps"], state["queued"]) == ([], [])
    assert state["outputs"] == [{"step_type": "A", "step_execution_id": "A-1", "value": [7]}]


def test_hist_1_shows_config_timeout_parent_start_delay_and_remembered_skips() -> None:
    config = FlowConfig(ActiveStepSearchMode.ALL, 50, StepDurability.ASYNC, True)
    chosen = terms(
        config=config,
        timeout_ms=HOUR,
        timeout_policy=FlowTimeoutPolicy.CANCEL,
        parent=Parent(FlowId("mother"), 2),
        schedule=ScheduledBy(ScheduleId("nightly"), T0 - 5),
    )
    case = given(started(terms=chosen, eligible_at=T0 + 9, timeout_at=T0 + HOUR), scheduled("A-1", wait_for=True))
    state = shown(case.after(skip_timer("A-1", TimerId("late")), skip_timer("A-1", TimerId(index=1), request_id="q")))
    assert state["config"] == {
        "active_step_search_mode": "ALL",
        "continue_as_new_threshold": 50,
        "step_durability": "ASYNC",
        "record_rpc_io": True,
    }
    assert state["timeout"] == {"at": T0 + HOUR, "policy": "CANCEL"}
    assert state["parent"] == {"flow_id": "mother", "depth": 2}
    assert (state["schedule_id"], state["scheduled_at"]) == ("nightly", T0 - 5)
    assert (state["attempt"], state["begins_at"], state["is_completing"]) == (1, T0 + 9, False)
    assert state["skips"] == [
        {"step_execution_id": "A-1", "condition_id": "late", "index": 0},
        {"step_execution_id": "A-1", "condition_id": None, "index": 1},
    ]


def test_hist_1_shows_all_attributes_and_pending_messages() -> None:
    """[VAL-3] Whole numbers stay exact; keys of maps are taken apart."""
    case = given(
        started(attributes=(("a", b"9007199254740993"),)),
        attribute_set("m\0eu", b'"x"'),
        at(T0 + 3, published("news", b"1", b"2", version=3)),
        published("by\0region", b"3", version=4),
    )
    state = shown(case)
    assert state["attributes"] == [
        {"name": "a", "instance": None, "value": 9007199254740993},
        {"name": "m", "instance": "eu", "value": "x"},
    ]
    news, by_region = state["channels"]
    assert (news["name"], news["instance"], news["count"]) == ("news", None, 2)
    assert [(message["value"], message["published_at"]) for message in news["messages"]] == [(1, T0 + 3), (2, T0 + 3)]
    assert (by_region["name"], by_region["instance"], len(by_region["messages"])) == ("by", "region", 1)
    assert state["counts"] == {"steps": 0, "attributes": 2, "messages": 3, "outputs": 0}


# ---- Steps ------------------------------------------------------------------------------------------------------


def test_hist_1_shows_a_running_step_with_its_worker_and_options() -> None:
    chosen = options(
        execute_timeout_ms=7_000,
        heartbeat_timeout_ms=500,
        recovery=recovery("Undo"),
        execute_locks=("k",),
        preload=("a",),
    )
    case = given(started(), at(T0 + 1, scheduled("A-1", options=chosen, from_step="B-2", input=b'{"x":1}')))
    running = step(case.after(*connect(), now=T0 + 4))
    assert (running["step_execution_id"], running["step_type"], running["from_step"]) == ("A-1", "A", "B-2")
    assert (running["phase"], running["method"], running["input"]) == ("RUNNING", "EXECUTE", {"x": 1})
    assert (running["attempt"], running["delivery"], running["worker_id"]) == (1, 1, "w1")
    assert (running["since"], running["started_at"], running["deadline"]) == (T0 + 4, T0 + 4, T0 + 7_004)
    assert (running["scheduled_at"], running["first_attempt_at"], running["retry_at"]) == (T0 + 1, T0 + 4, None)
    assert (running["durability"], running["workers_lost"]) == ("SYNC", 0)
    assert running["options"]["timeout_ms"] == 7_000
    assert running["options"]["heartbeat_timeout_ms"] == 500
    assert (running["options"]["recovery_step_type"], running["options"]["lock_attributes"]) == ("Undo", ["k"])
    assert running["options"]["preload"] == ["a"]
    assert shown(case)["locks"] == {"held": [{"name": "k", "instance": None, "by": "A-1"}], "awaited": []}


def test_hist_1_shows_a_step_that_waits_for_a_worker() -> None:
    case = given(started(), at(T0 + 1, scheduled("A-1")), at(T0 + 2, scheduled("A-2", options=options(priority=1))))
    state = shown(case)
    assert [(row["phase"], row["since"], row["worker_id"]) for row in state["steps"]] == [
        ("READY", T0 + 1, None),
        ("READY", T0 + 2, None),
    ]
    assert state["steps"][0]["options"]["timeout_ms"] == METHOD_TIMEOUT_MS
    assert state["queued"] == [
        {"step_execution_id": "A-1", "queue": "Order", "is_sticky": False, "since": T0 + 2, "priority": 3},
        {"step_execution_id": "A-2", "queue": "Order", "is_sticky": False, "since": T0 + 2, "priority": 1},
    ]


def test_hist_1_shows_a_step_that_waits_for_the_worker_that_served_the_flow_last() -> None:
    case = given(started(), scheduled("A-1")).after(*connect(limit=1), complete(go_to(plan("B"), plan("B"))))
    (queued,) = shown(case)["queued"]
    assert (queued["step_execution_id"], queued["queue"], queued["is_sticky"]) == ("B-2", "w1", True)


def test_hist_1_and_opt_6_show_the_last_failure_while_the_step_is_tried_again() -> None:
    """[LOST-2] Workers lost are counted."""
    error = failure("Boom", "it broke", stack="line 1")
    case = given(
        started(),
        scheduled("A-1"),
        dispatched(),
        lost(),
        dispatched(delivery=2),
        HeartbeatReceived(A_1, 1, 2, b"5"),
        at(T0 + 5, execute_failed(error=error, delivery=2, retry_at=T0 + HOUR)),
    )
    backoff = step(case)
    assert (backoff["phase"], backoff["since"], backoff["retry_at"]) == ("BACKOFF", T0 + 5, T0 + HOUR)
    assert (backoff["attempt"], backoff["workers_lost"], backoff["heartbeat"]) == (2, 1, 5)
    last = backoff["last_failure"]
    assert (last["error_type"], last["detail"], last["stack"]) == ("Boom", "it broke", "line 1")
    assert (last["method"], last["attempt"], last["worker_id"], last["at"]) == ("EXECUTE", 1, "w1", T0 + 5)


def test_hist_1_shows_the_error_that_a_recovery_step_sees_and_a_start_that_is_delayed() -> None:
    error = RecoveryError("Boom", "it broke")
    (delayed,) = shown(given(started(eligible_at=T0 + 9), scheduled("A-1", recovery_error=error)))["steps"]
    assert delayed["recovery_error"] == {"error_type": "Boom", "detail": "it broke"}
    assert (delayed["phase"], delayed["since"], delayed["retry_at"]) == ("BACKOFF", T0, T0 + 9)


def test_hist_1_shows_a_wait_with_the_status_of_each_condition() -> None:
    """Timers with their deadline; Channels with what they hold; SubFlows with how the parent knows them."""
    conditions = (
        timer(5_000, at=T0 + 5_000, id="t"),
        timer(at=T0 + 1),
        timer(at=T0 + 2),
        channel("news", 2, None),
        channel("by\0region", 0, 4),
        Condition(ConditionKind.SUB_FLOW),
    )
    case = given(
        started(),
        *waiting(*conditions, sub_flows=(CHILD,)),
        fired("A-1", 1),
        TimerSkipped(A_1, 2),
        SubFlowStarted(A_1, 0, CHILD_ID, RunId("child")),
        published("news", b"1", version=7),
    )
    row = step(case)
    assert (row["phase"], row["since"], row["worker_id"]) == ("WAITING", T0 + 7, None)
    wait = row["wait"]
    assert (wait["kind"], wait["combinations"]) == ("ALL_OF", [])
    assert [condition["status"] for condition in wait["conditions"]] == [
        "PENDING",
        "FIRED",
        "SKIPPED",
        "WAITING",
        "ENOUGH",
        "RUNNING",
    ]
    first, _, _, news, region, child = wait["conditions"]
    assert (first["kind"], first["condition_id"], first["deadline"]) == ("TIMER", "t", T0 + 5_000)
    assert (news["channel"], news["instance"], news["at_least"], news["at_most"], news["queued"]) == (
        "news",
        None,
        2,
        None,
        1,
    )
    assert (region["channel"], region["instance"], region["queued"]) == ("by", "region", 0)
    assert (child["flow_id"], child["flow_type"], child["run_id"]) == (CHILD_ID, "Child", "child")


def test_hist_1_shows_combinations_by_position() -> None:
    wait = any_combination((channel("a", id="a"), channel("b", id="b")), (0,), (0, 1))
    case = given(
        started(), scheduled("A-1", wait_for=True), dispatched(method=Method.WAIT_FOR), wait_installed("A-1", wait)
    )
    assert step(case)["wait"]["combinations"] == [[0], [0, 1]]


def test_hist_1_shows_what_a_step_consumed_and_its_locals() -> None:
    conditions = (timer(at=T0 + 1), channel("by\0region"), channel("news"), Condition(ConditionKind.SUB_FLOW))
    installed = waiting(*conditions, sub_flows=(CHILD,), locals=(("l", b"[1]"),))
    case = given(
        started(),
        published("news", b"8", version=2),
        *installed,
        at(T0 + 20, ConditionsMet(A_1, (2, 3), met("A-1", (2,), (2, message_of(2))).consumed)),
    )
    row = step(case)
    assert (row["method"], row["phase"], row["since"], row["wait"]) == ("EXECUTE", "READY", T0 + 20, None)
    assert row["locals"] == {"l": [1]}
    timed, region, news, child = row["results"]
    assert (timed["kind"], timed["met"]) == ("TIMER", False)
    assert (region["channel"], region["instance"], region["count"], region["values"]) == ("by", "region", 0, [])
    assert (news["met"], news["count"], news["values"]) == (True, 1, [8])
    assert (child["flow_id"], child["status"], child["error_message"], child["values"]) == (
        CHILD_ID,
        "RUNNING",
        None,
        [],
    )


def message_of(version: int) -> tuple[str, ...]:
    (ids,) = [published("news", b"8", version=version).messages]
    return tuple(message_id for message_id, _ in ids)


# ---- locks ------------------------------------------------------------------------------------------------------


def test_hist_1_shows_who_holds_locks_and_who_waits_for_them() -> None:
    """[LOCK-2] Those of RPCs too, and those that a Step keeps in its backoff."""
    k, m = options(execute_locks=("k",)), options(execute_locks=("m\0eu", "k"))
    case = given(
        started(),
        scheduled("A-1", options=k),
        dispatched(),
        execute_failed(retry_at=T0 + HOUR),
        at(T0 + 3, scheduled("A-2", options=m)),
    )
    assert shown(case)["locks"] == {
        "held": [{"name": "k", "instance": None, "by": "A-1"}],
        "awaited": [
            {"name": "m", "instance": "eu", "by": "A-2", "since": T0 + 3},
            {"name": "k", "instance": None, "by": "A-2", "since": T0 + 3},
        ],
    }
    other = given(started(), started("order-2", "run-2")).after(
        *connect(streams=2), rpc(locks=("r",)), rpc(locks=("s",), flow_id="order-2", request_id="q")
    )
    assert shown(other)["locks"]["held"] == [{"name": "r", "instance": None, "by": "sys:rpc-r"}]


# ---- how much ---------------------------------------------------------------------------------------------------


def test_hist_1_large_values_are_left_out_with_their_size() -> None:
    large, largest = b'"' + b"x" * VALUE_BYTES_MAX + b'"', b'"' + b"x" * (VALUE_BYTES_MAX - 2) + b'"'
    case = given(started(attributes=(("a", large), ("b", largest))), scheduled("A-1", input=large))
    state = shown(case)
    assert [row["value"] == {"omitted_bytes": len(large)} for row in state["attributes"]] == [True, False]
    assert state["steps"][0]["input"] == {"omitted_bytes": len(large)}


def test_hist_1_the_values_of_one_step_are_bounded_together() -> None:
    value = b'"' + b"x" * 60_000 + b'"'
    count = STEP_VALUES_BYTES_MAX // 60_000
    installed = waiting(channel(), locals=tuple((f"l{number}", value) for number in range(count + 1)))
    row = step(given(started(), *installed))
    left_out = [name for name, shown_value in row["locals"].items() if shown_value == {"omitted_bytes": len(value)}]
    assert left_out == [f"l{count}"]


def test_hist_1_lists_end_where_the_answer_would_be_too_large() -> None:
    """What is left out is counted, list by list, and the whole stays below the limit."""
    limit = 10_000
    case = given(
        started(attributes=tuple((f"a{number}", b'"' + b"x" * 90 + b'"') for number in range(20))),
        *(scheduled(f"A-{number}") for number in range(1, 5)),
        published("news", *[b"1"] * 100, version=6),
        published("olds", b"1", version=7),
    )
    data = live_state(case.run(), case.kernel.dispatcher, bytes_max=limit).data
    state = json.loads(data)
    assert limit * 0.8 < len(data) < limit + 200
    assert len(state["steps"]) == 4
    assert (len(state["attributes"]), state["omitted"].get("attributes", 0)) == (20, 0)
    news = state["channels"][0]
    assert len(news["messages"]) + state["omitted"]["messages"] == 101
    tiny = shown(case, bytes_max=1)
    assert (tiny["steps"], tiny["attributes"], tiny["channels"]) == ([], [], [])
    assert tiny["omitted"] == {"queued": 4, "steps": 4, "attributes": 20, "channels": 2}


def test_a_budget_shows_the_first_values_that_fit() -> None:
    shown_values = Budget(60).values([b"1" * 30, b"2" * 30, b"3", b"4"])
    assert json.loads(msgspec.json.encode(shown_values)) == [int("1" * 30), {"omitted_bytes": 30}, 3]
