"""A run's history as JSON [HIST-2..4]: every kind, the blocks of a method's result, values as they are."""

import json
from typing import Any

import msgspec
import pytest

from dexd.codec.history_view import HistoryView
from dexd.core import events as e
from dexd.core.blobs import BlobReference
from dexd.core.config import KernelConfig
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, MessageId, RequestId, RunId, StepExecutionId, StreamId, WorkerId
from dexd.core.index_values import IndexType, IndexWrite
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.terms import FlowTerms
from dexd.core.values import (
    Condition,
    ConditionKind,
    DecisionKind,
    DeclinedOffer,
    Failure,
    FlowErrorType,
    FlowStatus,
    Method,
    RecoveryStep,
    RequestRecord,
    Resolution,
    RetryPolicy,
    StepOptions,
    StepPlan,
    SubFlowResult,
    Wait,
    WaitForFailurePolicy,
    WaitKind,
)

STEP = StepExecutionId("Begin-1")
WORKER = WorkerId("w")
REQUEST = RequestRecord(RequestId("q"), b"\0digest", b"\0answer")
STARTED = e.FlowStarted(FlowId("f"), RunId("r"), "Order", 2, RequestId("s"), b"\0", 5, (("a", b"1"),))
OPTIONS = StepOptions(
    execute_timeout_ms=7_000,
    execute_retry=RetryPolicy(maximum_attempts=3),
    wait_for_failure=WaitForFailurePolicy.PROCEED,
    non_retryable_errors=("app.Fatal",),
    recovery=RecoveryStep("Undo", False),
)
SCHEDULED = e.StepScheduled(STEP, "Begin", 1, "", b'{"x":9007199254740993}', True, OPTIONS)


def dispatched(method: Method, attempt: int = 1) -> e.StepDispatched:
    return e.StepDispatched(
        STEP, method, attempt, 1, WORKER, "once", False, 5, 99, (DeclinedOffer("v", "NO_CAPACITY"),)
    )


def shown(*events: e.Event) -> list[Any]:
    """Kind and data of each event; the events happen a second apart."""
    view = HistoryView(KernelConfig(method_timeout_ms=60_000))
    entries = [
        view.show(RecordedEvent(StreamId(1), version, version * 1_000, event))
        for version, event in enumerate(events, start=1)
    ]
    assert [entry.event_id for entry in entries] == list(range(1, len(events) + 1))
    assert {entry.run_id for entry in entries} == {"r"}
    return [(entry.kind, json.loads(entry.data)) for entry in entries]


def last(*events: e.Event) -> Any:
    return shown(*events)[-1][1]


WAIT = Wait(
    WaitKind.ANY_OF,
    (
        Condition(ConditionKind.TIMER, "t", 5_000, 9_000),
        Condition(ConditionKind.CHANNEL, "c", channel="news", at_least=1, at_most=1),
    ),
)
WAITING = (
    STARTED,
    SCHEDULED,
    dispatched(Method.WAIT_FOR),
    e.WaitForCompleted(STEP, 1, 1, WAIT, (("a", None),), (), (("l", b"[1]"),), (("r", b"2"),)),
)
READY = (
    *WAITING,
    e.ChannelPublished("news", ((MessageId("m1"), b'"hi"'),), REQUEST),
    e.ConditionsMet(STEP, (1,), ((1, (MessageId("m1"),)),)),
    dispatched(Method.EXECUTE),
)


def test_start_shows_what_the_caller_gave_and_hides_what_the_server_needs() -> None:
    """[HIST-2] Neither digest nor seed says anything to a reader."""
    [(kind, data)] = shown(STARTED)
    assert kind == "FlowStarted"
    assert data == {
        "flow_id": "f",
        "run_id": "r",
        "flow_type": "Order",
        "ordinal": 2,
        "request_id": "s",
        "attributes": [{"key": "a", "value": 1}],
        "standing": None,
    }


def test_values_are_spliced_in_as_they_are() -> None:
    """[VAL-3] No path turns an int64 into a double, and values are not strings of JSON."""
    view = HistoryView(KernelConfig())
    view.skip(RecordedEvent(StreamId(1), 1, 0, STARTED))
    data = view.show(RecordedEvent(StreamId(1), 2, 0, SCHEDULED)).data
    assert b'"input":{"x":9007199254740993}' in data


def test_dispatch_shows_worker_queue_offers_and_time_waited() -> None:
    """[HIST-3, ROUTE-9] Every dispatch decision is shown."""
    data = last(STARTED, SCHEDULED, dispatched(Method.WAIT_FOR))
    assert data["method"] == "WAIT_FOR"
    assert (data["worker_id"], data["is_sticky"], data["waited_ms"]) == ("w", False, 5)
    assert data["declined"] == [{"worker_id": "v", "reason": "NO_CAPACITY"}]


def test_result_of_wait_for_has_input_output_and_context() -> None:
    """[HIST-4] What the method worked on, what it returned, and under which options."""
    data = last(*WAITING)
    assert data["input"] == {
        "value": {"x": 9007199254740993},
        "results": [],
        "locals": {},
        "snapshot_version": 3,
    }
    assert data["output"]["wait"]["kind"] == "ANY_OF"
    assert [condition["kind"] for condition in data["output"]["wait"]["conditions"]] == ["TIMER", "CHANNEL"]
    assert data["output"]["writes"] == [{"key": "a", "value": None}]
    assert data["output"]["locals"] == {"l": [1]}
    assert data["output"]["recorded"] == [{"name": "r", "value": 2}]
    context = data["context"]
    assert (context["flow_id"], context["run_id"], context["ordinal"]) == ("f", "r", 2)
    assert (context["step_type"], context["from_step"], context["method"]) == ("Begin", "", "WAIT_FOR")
    assert (context["started_at"], context["duration_ms"], context["durability"]) == (3_000, 1_000, "SYNC")
    assert context["options"]["timeout_ms"] == 60_000
    assert (context["last_failure"], context["recovery_error"]) == (None, None)


def test_result_of_execute_shows_what_its_wait_consumed() -> None:
    """[HIST-4, WAIT-11] Condition results and locals belong to the input block."""
    completed = e.ExecuteCompleted(
        STEP, 1, 1, WORKER, DecisionKind.FORCE_COMPLETE, b"[7]", "", (("b", b"2"),), ((MessageId("m2"), "out", b"3"),)
    )
    data = last(*READY, completed)
    assert [result["met"] for result in data["input"]["results"]] == [False, True]
    assert data["input"]["results"][1]["values"] == ["hi"]
    assert data["input"]["locals"] == {"l": [1]}
    assert data["input"]["snapshot_version"] == 7
    assert data["output"] == {
        "decision": {"kind": "FORCE_COMPLETE", "output": [7], "reason": ""},
        "writes": [{"key": "b", "value": 2}],
        "publications": [{"message_id": "m2", "channel": "out", "value": 3}],
        "recorded": [],
        "locals": {},
    }
    options = data["context"]["options"]
    assert options["timeout_ms"] == 7_000
    assert options["retry"]["maximum_attempts"] == 3
    assert options["non_retryable_errors"] == ["app.Fatal"]
    assert (options["wait_for_failure"], options["recovery_step_type"]) == ("PROCEED", "Undo")


def test_failed_attempt_shows_the_failure_and_the_one_before() -> None:
    """[HIST-3, HIST-4] Every attempt with result or failure; the context has the last failure."""
    first = e.ExecuteFailed(STEP, 1, 1, WORKER, Failure("Boom", "first"), Resolution.RETRY, 20_000)
    second = e.ExecuteFailed(STEP, 2, 1, WORKER, Failure("Boom", "second"), Resolution.RETRY, 30_000)
    data = last(*READY, first, dispatched(Method.EXECUTE, 2), second)
    assert (data["attempt"], data["resolution"], data["retry_at"]) == (2, "RETRY", 30_000)
    assert data["output"]["failure"]["detail"] == "second"
    assert data["context"]["last_failure"]["detail"] == "first"


def test_recovery_step_shows_the_error_that_it_recovers_from() -> None:
    """[OPT-4] Also in the blocks of its own result."""
    undo = StepExecutionId("Undo-1")
    failed = e.WaitForFailed(STEP, 1, 1, WORKER, Failure("Boom", "why"), Resolution.PROCEED)
    completed = e.ExecuteCompleted(STEP, 1, 1, WORKER, DecisionKind.DEAD_END)
    data = last(*WAITING[:3], failed, dispatched(Method.EXECUTE), completed)
    assert data["context"]["recovery_error"] == {"error_type": "Boom", "detail": "why"}
    bare = e.StepScheduled(undo, "Undo", 1, STEP, b"", False)
    done = e.ExecuteCompleted(undo, 1, 1, WORKER, DecisionKind.DEAD_END)
    options = last(STARTED, bare, done)["context"]["options"]
    assert options["timeout_ms"] == 60_000
    assert (options["non_retryable_errors"], options["wait_for_failure"]) == ([], "FAIL_FLOW")
    assert options["recovery_step_type"] is None


@pytest.mark.parametrize(
    ("events", "data"),
    [
        (
            (*WAITING, e.TimerFired(STEP, 0)),
            {"step_execution_id": STEP, "condition_index": 0},
        ),
        (
            READY[:5],
            {
                "channel": "news",
                "messages": [{"message_id": "m1", "value": "hi"}],
                "request": {"request_id": "q"},
            },
        ),
        (
            READY[:6],
            {
                "step_execution_id": STEP,
                "winners": [1],
                "consumed": [{"condition_index": 1, "message_ids": ["m1"]}],
            },
        ),
        (
            (STARTED, SCHEDULED, e.StepCanceled(STEP, "FLOW_CLOSED")),
            {"step_execution_id": STEP, "reason": "FLOW_CLOSED", "by": ""},
        ),
        (
            (STARTED, e.FlowClosed(FlowStatus.FAILED, FlowErrorType.CLIENT_API_FAILED, "enough", REQUEST)),
            {
                "status": "FAILED",
                "error_type": "CLIENT_API_FAILED",
                "error_message": "enough",
                "request": {"request_id": "q"},
            },
        ),
        (
            (STARTED, e.FlowClosed(FlowStatus.COMPLETED)),
            {"status": "COMPLETED", "error_type": "NONE", "error_message": "", "request": None},
        ),
        (
            (STARTED, e.AttributesSet((("a", b"2"), ("b", None)), REQUEST)),
            {
                "writes": [{"key": "a", "value": 2}, {"key": "b", "value": None}],
                "request": {"request_id": "q"},
            },
        ),
        (
            (STARTED, e.AttributesSet((("a", b"2"),), REQUEST, (IndexWrite("k", IndexType.INT, 2),))),
            {
                "writes": [{"key": "a", "value": 2}],
                "request": {"request_id": "q"},
                "indexed": [{"key": "k", "type": "INT", "value": 2}],
            },
        ),
    ],
)
def test_other_kinds_show_their_fields_by_name(events: tuple[e.Event, ...], data: dict[str, Any]) -> None:
    """[HIST-2] One kind each; enums by name, requests by their ID."""
    kind, got = shown(*events)[-1]
    assert kind == type(events[-1]).__name__
    assert got == data


@pytest.mark.parametrize("value", [b"{", b"\xff", b'"\xff"', b"NaN"])
def test_value_that_is_no_json_does_not_break_the_page(value: bytes) -> None:
    """[LIM-3, ERR-B] A Flow that holds what only a foreign client can have stored can still be viewed."""
    started = e.FlowStarted(FlowId("f"), RunId("r"), "Order", 1, RequestId("s"), b"", 5, (("a", value),))
    [attribute] = last(started)["attributes"]
    assert list(attribute["value"]) == ["invalid_json_base64"]


def test_blob_2_a_large_value_is_shown_by_its_digest_and_size() -> None:
    """[BLOB-2, LIM-3] Whoever reads histories knows how much it is, and where to get it."""
    value = BlobReference(b"\xab" * 32, 3_000_000).to_value()
    started = e.FlowStarted(FlowId("f"), RunId("r"), "Order", 1, RequestId("s"), b"", 5, (("a", value),))
    [attribute] = last(started)["attributes"]
    assert attribute["value"] == {"$blob": {"sha256": "ab" * 32, "size": 3_000_000}}


def test_features_that_a_flow_uses_are_shown_and_others_are_not() -> None:
    """[HIST-2, TIME-1, START-8] Options of the start, the run that follows, what a retry carries."""
    limited = msgspec.structs.replace(STARTED, terms=FlowTerms(timeout_ms=5), timeout_at=9)
    message = (MessageId("m"), b'"hi"', 3)
    retried = e.FlowRetried(2, RunId("a"), RunId("a"), 1, 7, (("news", (message,)),), ((REQUEST, 4),))
    [(_, begun), (_, again), (_, closed)] = shown(
        limited, retried, e.FlowClosed(FlowStatus.FAILED, next_run_id=RunId("next"))
    )
    assert (begun["terms"]["timeout_ms"], begun["timeout_at"]) == (5, 9)
    assert "eligible_at" not in begun
    assert again["messages"] == [
        {"channel": "news", "messages": [{"message_id": "m", "value": "hi", "published_at": 3}]}
    ]
    assert again["requests"] == [{"request": {"request_id": "q"}, "at": 4}]
    assert closed["next_run_id"] == "next"


def test_run_that_continues_another_one_shows_what_it_began_with() -> None:
    """[HIST-2, ROLL-3] In outline; and a Step of the run before ends in it."""
    view = HistoryView(KernelConfig())
    dispatch = dispatched(Method.EXECUTE)
    published = e.ChannelPublished("c", ((MessageId("m"), b"1"),), REQUEST)
    scheduled = msgspec.structs.replace(SCHEDULED, has_wait_for=False)
    events: tuple[e.Event, ...] = (STARTED, scheduled, dispatch, published)
    before: RunState | None = None
    for version, event in enumerate(events, start=1):
        before = evolve(before, RecordedEvent(StreamId(1), version, 5, event))
    assert before is not None
    continued = e.FlowContinued(RunId("r"), RunId("r"), to_carried(before))
    done = e.ExecuteCompleted(STEP, 1, 1, WorkerId("w"), DecisionKind.DEAD_END)
    again = msgspec.structs.replace(STARTED, run_id=RunId("r2"))
    following: tuple[e.Event, ...] = (again, continued, done)
    entries = [
        view.show(RecordedEvent(StreamId(2), version, 6, event)) for version, event in enumerate(following, start=1)
    ]
    data = msgspec.json.decode(entries[1].data)
    assert data == {
        "previous_run_id": "r",
        "first_run_id": "r",
        "carried": {
            "events": 4,
            "steps": [{"step_execution_id": "Begin-1", "phase": "RUNNING", "method": "EXECUTE", "attempt": 1}],
            "counters": {"Begin": 1},
            "attributes": ["a"],
            "channels": {"c": 1},
            "completions": 0,
            "requests": 1,
        },
    }
    result = msgspec.json.decode(entries[2].data)
    assert result["context"]["run_id"] == "r2"
    assert (result["context"]["duration_ms"], result["input"]["snapshot_version"]) == (1, 0)


def test_fork_is_shown_with_an_outline_of_the_state_that_it_carries() -> None:
    """[TT-1, HIST-2] Both runs are linked: where it came from, and where the closed run goes on."""
    [_, (_, ended), (_, reopened)] = shown(
        STARTED, e.FlowClosed(FlowStatus.COMPLETED), e.FlowReopened(RunId("next"), "why")
    )
    assert (ended["status"], reopened) == ("COMPLETED", {"next_run_id": "next", "reason": "why"})
    carried = to_carried(evolve(None, RecordedEvent(StreamId(1), 1, 1, STARTED)))
    [_, (kind, forked)] = shown(STARTED, e.FlowForked(RunId("a"), 1, RunId("b"), RunId("a"), 7, carried, REQUEST))
    assert (kind, forked["from_run_id"], forked["from_event_id"]) == ("FlowForked", "a", 1)
    assert (forked["carried"]["events"], forked["carried"]["steps"]) == (1, [])
    assert "requests" not in forked


def test_result_of_a_child_is_shown_with_what_execute_worked_on() -> None:
    """[HIST-4, SUB-5]"""
    child = SubFlowPlan("Child", StepPlan("C", b"1", has_wait_for=False))
    wait = Wait(WaitKind.ALL_OF, (Condition(ConditionKind.SUB_FLOW),))
    ended = SubFlowResult(FlowId("sys:sub:f/Begin-1/0"), FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT, "late")
    events = (
        STARTED,
        SCHEDULED,
        dispatched(Method.WAIT_FOR),
        e.WaitForCompleted(STEP, 1, 1, wait, sub_flows=(child,)),
        e.SubFlowClosed(STEP, 0, ended),
        e.ConditionsMet(STEP, (0,)),
        dispatched(Method.EXECUTE),
        e.ExecuteCompleted(STEP, 1, 1, WorkerId("w"), DecisionKind.DEAD_END),
    )
    every = [data for _, data in shown(*events)]
    assert every[3]["sub_flows"][0]["flow_type"] == "Child"
    (result,) = every[-1]["input"]["results"]
    assert (result["sub_flow"]["status"], result["sub_flow"]["error_message"]) == ("FAILED", "late")
