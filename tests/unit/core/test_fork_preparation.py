"""Where a time travel goes back to, and what of the log it takes along [TT-2, TT-3, TT-5]."""

from typing import Any

import msgspec
import pytest

from dexd.core import config
from dexd.core.events import (
    Event,
    FlowContinued,
    FlowForked,
    FlowRetried,
    RpcCompleted,
    WaitForCompleted,
)
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.forks import plan as fork_plan
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.selectors import Selector
from dexd.core.ids import RunId
from dexd.core.outcome import RecordedEvent
from dexd.core.rejections import Code, Rejection
from dexd.core.values import DecisionKind, FlowStatus, Method, Resolution
from tests.support.builders import (
    FLOW,
    RUN,
    SKIP,
    T0,
    WORKER,
    At,
    all_of,
    at,
    attribute_set,
    canceled,
    channel,
    closed,
    dispatched,
    execute_failed,
    executed,
    history,
    message_ids,
    met,
    published,
    record,
    scheduled,
    stale,
    started,
    wait_for_failed,
    wait_installed,
)
from tests.support.forks import BEGINNING, Log, at_step, at_time, at_type, preparation

WAIT_FOR, EXECUTE = Method.WAIT_FOR, Method.EXECUTE
RUN_2, RUN_3 = RunId("run-2"), RunId("run-3")
CONTINUED = FlowStatus.CONTINUED_AS_NEW


def prepared(events: list[RecordedEvent], selector: Selector, *deleted: int, **fields: Any) -> ForkPlan | Rejection:
    """Prepare from these events, of which some streams were deleted."""
    log = Log(lambda: events)
    log.deleted.update(deleted)
    return log.answer(preparation(log, selector, **fields).plan())


def point(events: list[RecordedEvent], selector: Selector, *deleted: int) -> tuple[str, int]:
    """Run and event that the selector names."""
    plan = prepared(events, selector, *deleted)
    assert isinstance(plan, ForkPlan), plan
    return plan.point.run_id, plan.point.event_id


def assert_not_found(events: list[RecordedEvent], selector: Selector, *deleted: int, oldest: int = T0) -> None:
    plan = prepared(events, selector, *deleted)
    assert isinstance(plan, Rejection)
    assert plan.code is Code.TIME_TRAVEL_POINT_NOT_FOUND
    assert plan.fields == {"flow_id": FLOW, "oldest_reachable_at": str(oldest)}


def folded(*events: Event | At) -> RunState:
    state: RunState | None = None
    for recorded in history(*events):
        state = evolve(state, recorded)
    assert state is not None
    return state


def next_run(run_id: RunId, taken: Event, instant: int) -> tuple[At, At]:
    return at(instant, started(run_id=run_id)), at(instant, taken)


def request_ids(plan: ForkPlan | Rejection) -> list[str]:
    assert isinstance(plan, ForkPlan), plan
    return [write.request.request_id for write in plan.writes]


# ---- Steps ----------------------------------------------------------------------------------------------------------


def one_run() -> list[RecordedEvent]:
    return history(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        at(T0 + 10, executed("A-1", DecisionKind.GO_TO)),
        scheduled("W-1", wait_for=True, from_step="A-1"),
        scheduled("B-1", from_step="A-1"),
        scheduled("W-2", wait_for=True, from_step="A-1"),
        dispatched("W-1", method=WAIT_FOR),
        at(T0 + 20, attribute_set("a", b"1")),
        dispatched("B-1"),
        wait_installed("W-1", all_of(channel("c"))),
        dispatched("W-2", method=WAIT_FOR),
        at(T0 + 30, published("c", b"1", version=13, instant=T0 + 30)),
        met("W-1", (0,), (0, message_ids(13, instant=T0 + 30))),
        dispatched("W-1"),
        at(T0 + 40, wait_for_failed("W-2", Resolution.PROCEED)),
        dispatched("W-2"),
        executed("W-1"),
        executed("W-2"),
        at(T0 + 50, executed("B-1", DecisionKind.FORCE_COMPLETE)),
        closed(),
    )


@pytest.mark.parametrize(
    ("selector", "event_id"),
    [
        (at_step("A-1"), 2),
        (at_step("W-1", WAIT_FOR), 7),
        (at_step("W-1"), 14),
        (at_step("W-2", WAIT_FOR), 11),
        (at_step("W-2"), 16),
        (at_step("B-1"), 9),
        (at_type("W"), 11),
        (at_type("A"), 2),
        (at_type("B"), 9),
    ],
)
def test_tt_2_step_is_redone_from_what_its_first_hand_over_saw(selector: Selector, event_id: int) -> None:
    """STEP_TYPE names the latest execution, and its first method."""
    assert point(one_run(), selector) == (RUN, event_id)


@pytest.mark.parametrize(
    "selector",
    [at_step("A-1", WAIT_FOR), at_step("A-2"), at_type("Nothing"), at_step("Nothing-1")],
)
def test_tt_3_step_that_never_came_so_far_is_not_found(selector: Selector) -> None:
    assert_not_found(one_run(), selector)


def test_tt_2_step_that_nobody_took_is_redone_from_where_it_was_scheduled() -> None:
    """Together with those of the same decision; what only failed to find a worker was handed to nobody."""
    events = history(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        executed("A-1", DecisionKind.GO_TO),
        scheduled("B-1", from_step="A-1"),
        scheduled("C-1", from_step="A-1"),
        RpcCompleted("write", 1, WORKER, record("w")),
        scheduled("D-1", from_step="sys:rpc:write#1"),
        execute_failed("B-1", is_reported=False, retry_at=T0 + 5),
        at(T0 + 5, dispatched("B-1", 2)),
        canceled("C-1"),
        canceled("D-1"),
        closed(),
    )
    assert point(events, at_step("B-1")) == (RUN, 6)
    assert point(events, at_step("C-1")) == (RUN, 6)
    assert point(events, at_step("D-1")) == (RUN, 8)


def test_tt_2_skipped_wait_is_kept_for_execute() -> None:
    events = history(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", SKIP),
        canceled("A-1"),
        closed(),
    )
    assert isinstance(events[3].event, WaitForCompleted)
    assert point(events, at_step("A-1")) == (RUN, 4)


def test_tt_2_declined_offers_and_lost_deliveries_are_no_first_hand_over() -> None:
    """The first one counts; it does not matter who took it in the end."""
    events = history(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        attribute_set("a", b"1"),
        dispatched("A-1", 1, 2),
        executed("A-1", delivery=2),
        closed(),
    )
    assert point(events, at_step("A-1")) == (RUN, 2)


# ---- Steps over several runs ----------------------------------------------------------------------------------------


def rolled_over() -> list[RecordedEvent]:
    """`A-1` was scheduled in the first run and taken in the second; `W-1` waited in the first."""
    first: list[Event | At] = [
        started(),
        scheduled("A-1"),
        scheduled("W-1", wait_for=True, from_step="x"),
        dispatched("W-1", method=WAIT_FOR),
        wait_installed("W-1", all_of(channel("c"))),
        attribute_set("a", b"1", "r1"),
    ]
    carried = to_carried(folded(*first))
    return history(
        *first,
        at(T0 + 10, closed(CONTINUED)),
        *next_run(RUN_2, FlowContinued(RUN, RUN, carried), T0 + 10),
        at(T0 + 20, published("c", b"1", version=9, instant=T0 + 20, request_id="r2")),
        met("W-1", (0,), (0, message_ids(9, instant=T0 + 20))),
        dispatched("A-1"),
        dispatched("W-1"),
        at(T0 + 30, attribute_set("a", b"2", "r3")),
        executed("A-1", DecisionKind.FORCE_COMPLETE),
        canceled("W-1"),
        closed(),
    )


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (at_step("A-1"), (RUN_2, 4)),
        (at_type("A"), (RUN_2, 4)),
        (at_step("W-1"), (RUN_2, 5)),
        (at_step("W-1", WAIT_FOR), (RUN, 3)),
        (at_type("W"), (RUN, 3)),
        (BEGINNING, (RUN, 2)),
        (at_time(T0 + 10), (RUN, 6)),
        (at_time(T0 + 11), (RUN_2, 2)),
        (at_time(T0 + 30), (RUN_2, 6)),
    ],
)
def test_tt_3_selectors_look_through_all_retained_runs(selector: Selector, expected: tuple[str, int]) -> None:
    """A roll-over between the beginning of a Step and its method does not matter [ROLL-5]."""
    assert point(rolled_over(), selector) == expected


def test_tt_3_what_lay_in_a_deleted_run_is_not_found() -> None:
    """The refusal names the oldest instant that can be reached."""
    events = rolled_over()
    for selector in (
        BEGINNING,
        at_step("W-1", WAIT_FOR),
        at_type("W"),
        at_type("A"),
        at_time(T0 + 5),
        at_time(T0 + 10),
    ):
        assert_not_found(events, selector, 1, oldest=T0 + 10)
    assert point(events, at_time(T0 + 11), 1) == (RUN_2, 2)
    assert point(events, at_step("A-1"), 1) == (RUN_2, 4)


def retried() -> list[RecordedEvent]:
    """The first run failed, the second one began again with the same numbers [START-8]."""
    return history(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        attribute_set("a", b"1", "r1"),
        at(T0 + 10, executed("A-1", DecisionKind.FORCE_FAIL)),
        closed(FlowStatus.FAILED),
        *next_run(RUN_2, FlowRetried(2, RUN, RUN, T0, 6), T0 + 10),
        scheduled("A-1"),
        at(T0 + 20, attribute_set("a", b"2", "r2")),
        canceled("A-1"),
        closed(FlowStatus.CANCELED),
    )


def test_tt_3_newest_run_comes_first() -> None:
    assert point(retried(), at_step("A-1")) == (RUN_2, 3)
    assert point(retried(), at_time(T0 + 10)) == (RUN, 4)
    assert point(retried(), at_time(T0 + 20)) == (RUN_2, 3)
    assert point(retried(), BEGINNING) == (RUN, 2)


# ---- instants -------------------------------------------------------------------------------------------------------


def test_tt_2_instant_names_the_first_event_at_or_after_it() -> None:
    """All of the commits of that instant are undone."""
    events = one_run()
    for instant, event_id in ((0, 2), (T0, 2), (T0 + 1, 3), (T0 + 10, 3), (T0 + 11, 8), (T0 + 50, 19)):
        assert point(events, at_time(instant)) == (RUN, event_id)


def test_tt_3_instant_after_everything_is_not_found() -> None:
    """So is one after the end: nothing that came then can be gone on with."""
    assert_not_found(one_run(), at_time(T0 + 51))
    ended = [*one_run(), RecordedEvent(one_run()[0].stream_id, 22, T0 + 60, _late())]
    assert_not_found(ended, at_time(T0 + 51))


def _late() -> Event:

    return stale("W-1")


def test_tt_2_flow_without_start_step_begins_with_nothing() -> None:
    assert point(history(started(), at(T0 + 5, closed(FlowStatus.CANCELED))), BEGINNING) == (RUN, 1)
    assert point(history(started()), BEGINNING) == (RUN, 1)
    assert point(history(started()), at_time(T0)) == (RUN, 1)


# ---- external writes ------------------------------------------------------------------------------------------------


def test_tt_5_writes_of_all_later_runs_are_collected() -> None:
    assert request_ids(prepared(rolled_over(), BEGINNING)) == ["r1", "r2", "r3"]
    assert request_ids(prepared(rolled_over(), at_step("W-1"))) == ["r3"]
    assert request_ids(prepared(retried(), BEGINNING)) == ["r1", "r2"]
    assert request_ids(prepared(retried(), BEGINNING, is_dropping_writes=True)) == []


def forked(*, is_dropping_writes: bool = False) -> list[RecordedEvent]:
    """`r1`, `r2` and `r3` came to the first run, which was then forked after the first; `r4` came to the fork."""
    kept: list[Event | At] = [
        started(),
        scheduled("A-1"),
        at(T0 + 10, attribute_set("a", b"1", "r1")),
    ]
    carried = to_carried(folded(*kept))
    again = [] if is_dropping_writes else [attribute_set("a", b"2", "r2"), attribute_set("a", b"3", "r3")]
    fork = FlowForked(RUN, 3, RUN, RUN, 5, carried, record("travel"), reapplied=len(again))
    return history(
        *kept,
        at(T0 + 20, attribute_set("a", b"2", "r2")),
        dispatched("A-1"),
        at(T0 + 25, attribute_set("a", b"3", "r3")),
        at(T0 + 30, closed(FlowStatus.TERMINATED)),
        *next_run(RUN_2, fork, T0 + 30),
        *(at(T0 + 30, event) for event in again),
        at(T0 + 40, attribute_set("a", b"4", "r4")),
        canceled("A-1"),
        closed(FlowStatus.CANCELED),
    )


def test_tt_5_way_to_the_present_leads_through_the_fork() -> None:
    """What a fork has dropped stays dropped, what it has applied again is not applied twice."""
    assert request_ids(prepared(forked(), BEGINNING)) == ["r1", "r2", "r3", "r4"]
    assert request_ids(prepared(forked(is_dropping_writes=True), BEGINNING)) == ["r1", "r4"]


def test_tt_5_point_that_was_left_behind_takes_what_came_after_it() -> None:
    """`r2` came before it, so that what the fork has of it is none of its business."""
    for is_dropping_writes in (False, True):
        events = forked(is_dropping_writes=is_dropping_writes)
        assert point(events, at_step("A-1")) == (RUN, 4)
        assert request_ids(prepared(events, at_step("A-1"))) == ["r3", "r4"]


def test_tt_5_deleted_runs_on_the_way_do_not_hide_what_is_retained() -> None:
    """The run of the point is retained, and so is everything newer than it."""
    events = [*forked()]
    continued = FlowContinued(RUN_2, RUN, to_carried(folded(started(run_id=RUN_2))))
    events += [
        msgspec.structs.replace(recorded, stream_id=3)
        for recorded in history(*next_run(RUN_3, continued, T0 + 50), at(T0 + 60, attribute_set("a", b"5", "r5")))
    ]
    assert request_ids(prepared(events, BEGINNING)) == ["r1", "r2", "r3", "r4", "r5"]
    assert request_ids(prepared(events, BEGINNING, 2)) == ["r1", "r2", "r3", "r5"]


def test_tt_5_plan_that_drops_writes_reads_no_more_than_it_needs() -> None:
    """The newest run only says how many executions of the Step there are, if that matters."""
    by_type = prepared(rolled_over(), at_type("W"), is_dropping_writes=True)
    by_id = prepared(rolled_over(), at_step("W-1"), is_dropping_writes=True)
    assert isinstance(by_type, ForkPlan)
    assert isinstance(by_id, ForkPlan)
    assert (by_type.writes, by_type.latest_step) == ((), ("W", 1))
    assert (by_id.writes, by_id.latest_step, by_id.last_request) == ((), None, None)


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("REAPPLIED_WRITES_MAX", "external writes to apply again"),
        ("PENDING_MESSAGES_MAX", "pending messages"),
        ("PENDING_BYTES_MAX", "bytes of pending messages"),
        ("ACTIVE_STEPS_MAX", "active Steps"),
    ],
)
def test_lim_2_fork_that_would_hold_too_much_is_refused(limit: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CHAN-10, TT-5] Naming limit and size."""
    events = history(
        started(),
        scheduled("A-1"),
        at(T0 + 5, published("c", b"1", b"2", version=3, instant=T0 + 5, request_id="p")),
        RpcCompleted("write", 1, WORKER, record("w"), messages=((message_ids(4)[0], "c", b"3"),)),
        scheduled("B-1", from_step="sys:rpc:write#1"),
    )
    assert getattr(config, limit) > 3
    monkeypatch.setattr(fork_plan, limit, 1)
    refused = prepared(events, BEGINNING)
    assert isinstance(refused, Rejection)
    assert refused.code is Code.VALUE_TOO_LARGE
    assert (refused.fields["what"], refused.fields["limit"]) == (what, "1")
    assert int(refused.fields["size"]) in (2, 3)


# ---- the present ----------------------------------------------------------------------------------------------------


def test_plan_again_reads_only_what_is_new() -> None:
    events = history(started(), scheduled("A-1"), attribute_set("a", b"1", "r1"))
    log = Log(lambda: events)
    preparing = preparation(log, BEGINNING)
    first = log.answer(preparing.plan())
    events.append(RecordedEvent(events[0].stream_id, 4, T0, attribute_set("a", b"2", "r2")))
    reading = preparing.plan_again()
    want = next(reading)
    assert want.version == 4
    reading.close()
    second = log.answer(preparing.plan_again())
    assert (request_ids(first), request_ids(second)) == (["r1"], ["r1", "r2"])
    assert isinstance(second, ForkPlan)
    assert second.last_request == "r2"


def test_plan_again_finds_the_execution_of_a_step_that_is_the_latest_now() -> None:
    events = history(started(), scheduled("A-1"), dispatched("A-1"))
    log = Log(lambda: events)
    preparing = preparation(log, at_type("A"))
    first = log.answer(preparing.plan())
    events.append(RecordedEvent(events[0].stream_id, 4, T0, executed("A-1", DecisionKind.GO_TO)))
    events.append(RecordedEvent(events[0].stream_id, 5, T0, scheduled("A-2", from_step="A-1")))
    second = log.answer(preparing.plan_again())
    assert isinstance(first, ForkPlan)
    assert isinstance(second, ForkPlan)
    assert (first.point.event_id, first.latest_step) == (2, ("A", 1))
    assert (second.point.event_id, second.latest_step) == (5, ("A", 2))
    assert preparing.newest_run_id == RUN
