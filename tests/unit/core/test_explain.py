"""Why a Flow does not get on [HIST-6]: one test for each kind of blocker, and what holds for all of them."""

from dexd.core.commands import DrainWorker
from dexd.core.config import KernelConfig
from dexd.core.events import SubFlowStarted
from dexd.core.explain.blockers import Blocker, BlockerKind, instant_text, quoted
from dexd.core.explain.explanation import BLOCKERS_MAX, explain
from dexd.core.explain.waits import sub_flow_status
from dexd.core.flow.decide_failure import NO_WORKER_AVAILABLE
from dexd.core.ids import FlowId, RunId, StepExecutionId, WorkerId
from dexd.core.sub_flows import SubFlow, SubFlowPlan
from dexd.core.values import Condition, ConditionKind, FlowStatus, Method, SubFlowResult, Wait
from tests.support.builders import (
    METHOD_TIMEOUT_MS,
    SKIP,
    T0,
    accept,
    all_of,
    any_combination,
    any_of,
    at,
    channel,
    closed,
    complete,
    connect,
    decline,
    dispatched,
    execute_failed,
    failure,
    fired,
    go_to,
    lose,
    options,
    plan,
    published,
    rpc,
    scheduled,
    started,
    terms,
    timer,
    token,
    wait_for_failed,
    wait_installed,
)
from tests.support.given import Given, given

HOUR = 3_600_000
RUN_2 = RunId("run-2")
K_LOCKED = options(execute_locks=("k",))


def blockers(case: Given) -> list[Blocker]:
    return list(explain(case.run(), case.kernel.dispatcher, now=case.now).blockers)


def only(case: Given) -> Blocker:
    (blocker,) = blockers(case)
    return blocker


def waiting(wait: Wait, *sub_flows: SubFlowPlan) -> Given:
    """A-1 waits since T0 + 7."""
    installed = at(T0 + 7, wait_installed("A-1", wait, sub_flows=sub_flows))
    return given(started(), scheduled("A-1", wait_for=True), dispatched(method=Method.WAIT_FOR), installed)


# ---- workers ----------------------------------------------------------------------------------------------------


def test_hist_6_no_worker_for_the_flow_type() -> None:
    blocker = only(given(started(), at(T0 + 5, scheduled("A-1"))))
    assert (blocker.step_execution_id, blocker.kind) == ("A-1", BlockerKind.NO_WORKER)
    assert blocker.text == "no Worker for Flow type 'Order' is connected; Step 'A' needs one"
    assert (blocker.since, blocker.until) == (T0 + 5, 0)


def test_hist_6_workers_of_the_flow_type_do_not_know_the_step() -> None:
    blocker = only(given(started(), scheduled("Z-1")).after(*connect()))
    assert blocker.kind is BlockerKind.NO_WORKER
    assert blocker.text == "no Worker knows Step 'Z' of Flow type 'Order' (1 serve the type)"


def test_hist_6_a_worker_that_declined_the_step_as_unknown_is_no_worker_for_it() -> None:
    """[ROUTE-5] Its word counts, not what it announced."""
    blocker = only(given(started(), scheduled("A-1")).after(*connect(), decline("UNKNOWN_STEP")))
    assert blocker.kind is BlockerKind.NO_WORKER
    assert blocker.text == "no Worker knows Step 'A' of Flow type 'Order' (1 serve the type)"


def test_hist_6_workers_that_take_no_more_calls_do_not_count() -> None:
    drained = given(started(), scheduled("A-1")).after(*connect(limit=1, streams=0), DrainWorker(WorkerId("w1")))
    assert only(drained).kind is BlockerKind.NO_WORKER
    assert "(1 take no more calls)" in only(drained).text


def test_hist_6_all_workers_at_capacity() -> None:
    case = given(started(), scheduled("A-1"), scheduled("A-2")).after(*connect(limit=1))
    running, queued = blockers(case)
    assert (running.kind, queued.kind) == (BlockerKind.RUNNING, BlockerKind.WORKERS_BUSY)
    assert queued.text == "all Workers at capacity: 1 know the Step and run 1 of 1 tasks"
    assert (queued.since, queued.until) == (T0, 0)


def test_hist_6_the_worker_that_served_the_flow_last_is_waited_for_first() -> None:
    """[ROUTE-2] That blocker ends with the sticky wait; then any worker will do."""
    case = given(started(), scheduled("A-1")).after(*connect(limit=1), complete(go_to(plan("B"), plan("B"))))
    case.after(*connect(2, "w2", streams=0), now=T0 + 9)
    running, queued = blockers(case)
    assert (running.kind, queued.kind) == (BlockerKind.RUNNING, BlockerKind.WORKERS_BUSY)
    assert queued.text.startswith("Worker 'w1', which served the Flow last, is at capacity")
    assert queued.until == T0 + 5_000


def test_hist_6_no_worker_is_still_the_reason_while_the_attempt_backs_off() -> None:
    """[ROUTE-3] NO_WORKER_AVAILABLE names what was missing; if it still is, that is said too."""
    error = failure(NO_WORKER_AVAILABLE, "no worker")
    case = given(started(), scheduled("A-1"), at(T0 + 5, execute_failed(error=error, delivery=0, retry_at=T0 + HOUR)))
    assert [blocker.kind for blocker in blockers(case)] == [BlockerKind.NO_WORKER, BlockerKind.RETRY]
    assert only(case.after(*connect())).kind is BlockerKind.RETRY


# ---- running and retries ----------------------------------------------------------------------------------------


def test_hist_6_running_on_a_worker_until_its_deadline() -> None:
    blocker = only(given(started(), scheduled("A-1")).after(*connect(), accept()))
    assert blocker.kind is BlockerKind.RUNNING
    until = T0 + METHOD_TIMEOUT_MS
    assert blocker.text == (
        f"execute running on Worker 'w1' until {instant_text(until)} at most (attempt 1, delivery 1)"
    )
    assert (blocker.since, blocker.until) == (T0, until)


def test_hist_6_running_on_a_worker_whose_session_is_lost() -> None:
    case = given(started(), scheduled("A-1", wait_for=True)).after(*connect(), lose())
    blocker = only(case)
    until = T0 + KernelConfig().resume_wait_ms
    assert blocker.kind is BlockerKind.RUNNING
    assert blocker.text == (
        "wait_for was running on Worker 'w1', whose session is lost; "
        f"handed out again at {instant_text(until)} unless it comes back (attempt 1, delivery 1)"
    )
    assert (blocker.since, blocker.until) == (T0, until)


def test_hist_6_retry_after_an_error() -> None:
    error = failure("Boom", "it\nbroke " + "x" * 500)
    case = given(started(), scheduled("A-1"), dispatched(), at(T0 + 5, execute_failed(error=error, retry_at=T0 + HOUR)))
    blocker = only(case)
    assert blocker.kind is BlockerKind.RETRY
    assert blocker.text.startswith(f"retry at {instant_text(T0 + HOUR)} (attempt 2 of execute) after Boom: it broke x")
    assert blocker.text.endswith("x...")
    assert (blocker.since, blocker.until) == (T0 + 5, T0 + HOUR)


def test_hist_6_an_error_without_detail_is_named_alone() -> None:
    failed = wait_for_failed(error=failure("Boom", ""), retry_at=T0 + HOUR)
    case = given(started(), scheduled("A-1", wait_for=True), dispatched(method=Method.WAIT_FOR), failed)
    assert only(case).text.endswith("(attempt 2 of wait_for) after Boom")


def test_hist_6_after_its_backoff_a_step_wants_a_worker() -> None:
    case = given(started(), scheduled("A-1"), dispatched(), execute_failed(retry_at=T0 + 5)).ticked(T0 + 5)
    assert (only(case).kind, only(case).since) == (BlockerKind.NO_WORKER, T0 + 5)


def test_hist_6_start_delay() -> None:
    """[START-7]"""
    case = given(started(eligible_at=T0 + HOUR), scheduled("A-1"))
    blocker = only(case)
    assert (blocker.kind, blocker.text) == (BlockerKind.START_DELAY, f"start delay until {instant_text(T0 + HOUR)}")
    assert (blocker.since, blocker.until) == (T0, T0 + HOUR)


def test_hist_6_the_flow_is_tried_again_later() -> None:
    """[START-8] A retry of the Flow is a retry, not a delayed start."""
    case = given(started(eligible_at=T0 + HOUR), scheduled("A-1"))
    case.run().flow_attempt = 2
    blocker = only(case)
    assert (blocker.kind, blocker.until) == (BlockerKind.RETRY, T0 + HOUR)
    assert blocker.text.startswith("attempt 2 of the Flow begins at")


# ---- waits ------------------------------------------------------------------------------------------------------


def test_hist_6_channel_with_n_of_m_messages() -> None:
    case = waiting(all_of(channel("c", 2, None), channel("c"), channel("map\0eu", 1)))
    assert [blocker.text for blocker in blockers(case)] == [
        "waiting on Channel 'c' with 0 of 3 messages",
        "waiting on Channel 'map'['eu'] with 0 of 1 messages",
    ]
    assert {(blocker.kind, blocker.since, blocker.until) for blocker in blockers(case)} == {
        (BlockerKind.CHANNEL, T0 + 7, 0)
    }


def test_hist_6_a_channel_with_enough_messages_blocks_nothing() -> None:
    case = given(
        started(),
        published("c", b"1", version=2),
        scheduled("A-1", wait_for=True),
        dispatched(method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"), timer(at=T0 + HOUR))),
    )
    assert only(case).kind is BlockerKind.TIMER


def test_hist_6_two_conditions_on_one_channel_need_the_sum() -> None:
    """[WAIT-7] Each alone has enough; together they have not."""
    case = given(
        started(),
        published("c", b"1", version=2),
        scheduled("A-1", wait_for=True),
        dispatched(method=Method.WAIT_FOR),
        wait_installed("A-1", all_of(channel("c", id="x"), channel("c", id="y"))),
    )
    assert only(case).text == "waiting on Channel 'c' with 1 of 2 messages"


def test_hist_6_timer_until_it_is_due() -> None:
    named = only(waiting(all_of(timer(at=T0 + HOUR, id="reminder"))))
    assert (named.kind, named.text) == (BlockerKind.TIMER, f"Timer 'reminder' until {instant_text(T0 + HOUR)}")
    assert (named.since, named.until) == (T0 + 7, T0 + HOUR)
    assert only(waiting(all_of(timer(at=T0 + HOUR)))).text.startswith("Timer until ")


def test_hist_6_what_has_happened_already_blocks_nothing() -> None:
    wait = all_of(timer(at=T0 + 1), channel())
    case = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched(method=Method.WAIT_FOR),
        wait_installed("A-1", wait),
        fired("A-1"),
    )
    assert only(case).kind is BlockerKind.CHANNEL


def test_hist_6_any_of_several_ways_may_lead_on() -> None:
    """Conditions that stand in several combinations are told once."""
    wait = any_combination((timer(at=T0 + HOUR, id="t"), channel("a", id="a"), channel("b", id="b")), (0, 1), (0, 2))
    texts = [blocker.text for blocker in blockers(waiting(wait))]
    assert texts == [
        f"one of several ways on: Timer 't' until {instant_text(T0 + HOUR)}",
        "one of several ways on: waiting on Channel 'a' with 0 of 1 messages",
        "one of several ways on: waiting on Channel 'b' with 0 of 1 messages",
    ]
    assert len(blockers(waiting(any_of(timer(at=T0 + HOUR), channel())))) == 2


def test_hist_6_sub_flow_with_its_status() -> None:
    child = SubFlowPlan("Child", plan("C"))
    case = waiting(all_of(Condition(ConditionKind.SUB_FLOW)), child)
    name = "sys:sub:order-1/A-1/0"
    assert only(case).text == f"SubFlow {name!r} of type 'Child' is STARTING"
    known = given(*(event.event for event in case.log), SubFlowStarted(StepExecutionId("A-1"), 0, FlowId(name), RUN_2))
    assert (only(known).kind, only(known).text) == (
        BlockerKind.SUBFLOW,
        f"SubFlow {name!r} of type 'Child' is RUNNING",
    )
    ended = SubFlow(0, FlowId(name), child, RUN_2, SubFlowResult(FlowId(name), FlowStatus.FAILED))
    assert sub_flow_status(ended) == "FAILED"


# ---- locks ------------------------------------------------------------------------------------------------------


def test_row_15_a_lock_is_held_by_a_step_in_backoff() -> None:
    """[LOCK-2] It is the holder who is named, whatever the holder waits for."""
    case = given(
        started(),
        scheduled("A-1", options=K_LOCKED),
        dispatched(),
        execute_failed(retry_at=T0 + HOUR),
        at(T0 + 3, scheduled("A-2", options=K_LOCKED)),
    )
    _, blocker = blockers(case)
    assert (blocker.step_execution_id, blocker.kind) == ("A-2", BlockerKind.LOCK)
    assert (blocker.text, blocker.since) == ("lock on Attribute 'k' held by A-1", T0 + 3)


def test_hist_6_a_lock_is_held_by_an_rpc() -> None:
    case = given(started(), scheduled("B-1")).after(*connect(streams=3), rpc("read", locks=("k",)))
    case.after(complete(go_to(plan("A", options=K_LOCKED)), token("B-1")))
    assert only(case).text == "lock on Attribute 'k' held by sys:rpc-r"


def test_hist_6_an_older_request_that_waits_for_another_lock_comes_first() -> None:
    """[LOCK-3] The lock itself is free."""
    both = options(execute_locks=("k", "m"))
    case = given(
        started(),
        scheduled("A-1", options=options(execute_locks=("m",))),
        dispatched(),
        scheduled("A-2", options=both),
        scheduled("A-3", options=K_LOCKED),
    )
    _, second, third = blockers(case)
    assert (second.text, third.text) == (
        "lock on Attribute 'm' held by A-1",
        "locks asked for earlier by A-2",
    )


# ---- no Steps, many Steps ---------------------------------------------------------------------------------------


def test_hist_6_a_flow_without_steps_says_so() -> None:
    blocker = only(given(started()))
    assert (blocker.step_execution_id, blocker.kind, blocker.since, blocker.until) == ("", BlockerKind.NO_STEPS, 0, 0)
    assert blocker.text.startswith("no active Step: the Flow goes on when an RPC schedules one")
    limited = only(given(started(terms=terms(timeout_ms=HOUR), timeout_at=T0 + HOUR)))
    assert limited.until == T0 + HOUR
    assert limited.text.endswith(f"until its timeout at {instant_text(T0 + HOUR)}")


def test_hist_6_a_closed_flow_has_no_steps_any_more() -> None:
    blocker = only(given(started(), at(T0 + 5, closed(FlowStatus.TERMINATED))))
    assert (blocker.kind, blocker.since) == (BlockerKind.NO_STEPS, T0 + 5)
    assert blocker.text == f"no active Step: the Flow is TERMINATED since {instant_text(T0 + 5)}"


def test_hist_6_so_many_blockers_and_no_more() -> None:
    """Every Step that is explained is explained as a whole; the others are counted."""
    case = given(started(), *(scheduled(f"A-{number}") for number in range(1, BLOCKERS_MAX + 6)))
    explanation = explain(case.run(), case.kernel.dispatcher, now=T0)
    assert (len(explanation.blockers), explanation.omitted_steps) == (BLOCKERS_MAX, 5)


def test_hist_6_a_step_that_has_just_become_ready_wants_a_worker_since_then() -> None:
    skip = at(T0 + 50, wait_installed("A-1", SKIP))
    case = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched(method=Method.WAIT_FOR),
        skip,
        config=KernelConfig(dispatch_wait_ms=100),
    )
    assert (only(case).kind, only(case).since) == (BlockerKind.NO_WORKER, T0 + 50)


def test_texts_show_instants_that_no_calendar_has_and_cut_long_details() -> None:
    assert instant_text(10**18) == "9999-12-31T23:59:59.999Z"
    assert quoted("a\n b") == "a b"
    assert len(quoted("x" * 300)) == 200
