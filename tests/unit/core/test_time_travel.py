"""A run that goes on from an earlier point of its execution [TT-1..6]."""

from typing import Any

from dexd.core import commands as c
from dexd.core.effects import AnswerRpc, AssignCall, SubmitCommand
from dexd.core.events import (
    ChannelMessageDeleted,
    ChannelPublished,
    ConditionsMet,
    ExecuteCompleted,
    FlowClosed,
    FlowConfigUpdated,
    FlowForked,
    FlowReopened,
    FlowStarted,
    RpcCompleted,
    StepCanceled,
    SubFlowStarted,
    TimerSkipRequested,
)
from dexd.core.flow.state import StepPhase
from dexd.core.forks.selectors import Selector
from dexd.core.ids import TIMEOUT_HANDLER_ID, FlowId, RequestId, RunId, StepExecutionId
from dexd.core.outcome import ForkOutdated, PublishAccepted, StartFlowAccepted, TimeTravelAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.sub_flows import SubFlowKey, SubFlowPlan, sub_flow_id
from dexd.core.terms import FlowConfig, FlowTimeoutPolicy, Parent
from dexd.core.values import Condition, ConditionKind, DecisionKind, FlowStatus, Method, TimerId
from tests.support.builders import (
    FLOW,
    FLOW_TYPE,
    RUN,
    SECOND,
    T0,
    WORKER,
    all_of,
    answered,
    any_of,
    assigned,
    at,
    attribute_set,
    beat,
    cancel,
    canceled,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    executed,
    fired,
    force,
    go_to,
    message_ids,
    met,
    options,
    pending,
    plan,
    publish,
    published,
    record,
    refused,
    rpc,
    scheduled,
    sent,
    set_attribute,
    stale,
    start,
    started,
    stop,
    terms,
    timer,
    token,
    wait_installed,
)
from tests.support.forks import BEGINNING, FORK, FORK_2, at_step, at_time, at_type, time_travel
from tests.support.given import Given, Then, given
from tests.support.matchers import Like

A_1 = StepExecutionId("A-1")
LATER = T0 + 60 * SECOND
WAIT_FOR = Method.WAIT_FOR


def travelled(before: Given, selector: Selector, *, now: int | None = None, **fields: Any) -> Then:
    return before.when(time_travel(before, selector, **fields), now=now)


def finished() -> Given:
    """`A-1` led to `B-1`, which completed the Flow."""
    return given(
        started(),
        scheduled("A-1", input=b"7"),
        dispatched("A-1"),
        at(T0 + 10, executed("A-1", writes=(("a", b"1"),))),
        scheduled("B-1", from_step="A-1"),
        dispatched("B-1"),
        at(T0 + 20, executed("B-1", writes=(("a", b"2"),), output=b"9")),
        closed(),
    )


def waiting(*conditions: Condition) -> Given:
    """`A-1` waited for them, and the Flow was canceled 9 ms after its start."""
    return given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", all_of(*conditions)),
        at(T0 + 9, canceled("A-1")),
        closed(FlowStatus.CANCELED),
    )


# ---- runs and how they are linked ----------------------------------------------------------------------------------


def test_tt_1_closed_execution_becomes_running_again_in_a_run_of_its_own() -> None:
    """The old run keeps how it ended and says where its execution goes on; ordinal and Flow ID stay [TT-1]."""
    before = finished()
    after = travelled(before, BEGINNING, reason="try once more").then_events(
        FlowReopened(FORK, "try once more"),
        started(run_id=FORK, request_id=f"start-{RUN}"),
        Like(
            FlowForked,
            from_run_id=RUN,
            from_event_id=2,
            previous_run_id=RUN,
            first_run_id=RUN,
            request=record("travel", FORK.encode()),
            reason="try once more",
            is_dropping_writes=False,
            reapplied=0,
        ),
    )
    old, new = after.run(), after.run(FORK)
    assert (old.status, old.next_run_id, old.is_open) == (FlowStatus.COMPLETED, FORK, False)
    assert (new.status, new.execution_id, new.ordinal, new.started_at) == (FlowStatus.RUNNING, RUN, 1, T0)
    assert after.kernel.run(FLOW) is new
    assert after.kernel.open_run_count == 1
    assert not new.completions


def test_tt_1_running_run_ends_as_terminated_and_names_the_fork() -> None:
    """Its handler is told at once, and its result is refused; Steps of the fork are handed out in the same commit."""
    before = given(started(), scheduled("A-1"), scheduled("B-1", from_step="x")).after(*connect(streams=2))
    after = travelled(before, BEGINNING, reason="wrong").then(
        events=[
            pending("A-1"),
            pending("B-1"),
            FlowClosed(FlowStatus.TERMINATED, error_message=f"forked into run {FORK}: wrong", next_run_id=FORK),
            started(run_id=FORK, request_id=f"start-{RUN}"),
            Like(FlowForked, from_event_id=2),
        ],
        effects=[cancel("FLOW_CLOSED"), cancel("FLOW_CLOSED", token("B-1"), number=2)],
        reply=TimeTravelAccepted(FORK),
    )
    after.when(complete(force())).then(
        events=[stale(reason="FLOW_CLOSED"), sent("A-1", delivery=1)],
        effects=[refused("FLOW_CLOSED"), assigned(token("A-1", run=FORK))],
    )


def test_tt_1_time_travel_needs_an_execution() -> None:
    before = given()
    command = c.TimeTravel(FLOW, FORK, "", RequestId("travel"), b"", Rejection(Code.INTERNAL, "no plan"))
    before.when(command).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)


def test_tt_1_repeated_start_still_names_the_first_run() -> None:
    """The execution is the same one [START-3]."""
    before = finished()
    after = travelled(before, BEGINNING).given
    after.when(start(step=plan("A", input=b"7"))).then(reply=StartFlowAccepted(RUN))


def test_tt_1_fork_of_a_fork_goes_back_further() -> None:
    """The newest run is the one that ends; the execution keeps its first run."""
    after = travelled(finished(), at_step("B-1")).given
    again = travelled(after, BEGINNING, run_id=FORK_2, request_id="again")
    assert [type(event) for event in again.events] == [StepCanceled, FlowClosed, FlowStarted, FlowForked]
    assert again.events[1] == Like(FlowClosed, status=FlowStatus.TERMINATED, next_run_id=FORK_2)
    assert again.events[3] == Like(FlowForked, from_run_id=RUN, previous_run_id=FORK, first_run_id=RUN)
    assert again.given.kernel.open_run_count == 1
    assert not again.given.run(FORK).is_open


def test_rpc_12_repeated_request_names_the_run_that_it_began() -> None:
    """With other content it is a conflict, and nothing happens [TT-1]."""
    before = finished()
    after = travelled(before, BEGINNING).given
    travelled(after, BEGINNING, run_id=FORK_2).then(reply=TimeTravelAccepted(FORK))
    travelled(after, BEGINNING, run_id=FORK_2, content="other").then_rejected(Code.REQUEST_CONFLICT)


def test_rpc_12_requests_after_the_point_stay_remembered() -> None:
    """A publisher that repeats its request publishes nothing again, whether it was applied again or dropped."""
    for is_dropping_writes in (False, True):
        before = given(started(), scheduled("A-1"), at(T0 + 5, published("c", b"1", version=3, instant=T0 + 5)))
        after = travelled(before, BEGINNING, is_dropping_writes=is_dropping_writes).given
        after.when(publish("c", b"1")).then(reply=Like(PublishAccepted))


def test_rpc_12_request_that_is_applied_again_is_the_newest_one() -> None:
    """So that requests are forgotten in the order of their age."""
    before = given(started(), scheduled("A-1"), attribute_set("a", b"1", "old"), attribute_set("a", b"2", "new"))
    after = travelled(before, at_time(T0)).given
    assert list(after.run(FORK).requests) == ["travel", "old", "new"]


def test_rpc_9_call_in_flight_is_answered_when_its_flow_is_forked() -> None:
    """A read of a closed Flow too: there is another run to read now."""
    for before in (given(started(), scheduled("X-1")), finished()):
        before.after(*connect(), rpc("read"))
        answers = [effect for effect in travelled(before, BEGINNING).effects if isinstance(effect, AnswerRpc)]
        assert [answer.answer for answer in answers] == [Like(Rejection, code=Code.FLOW_NOT_ACTIVE)]
        assert f"went on in run {FORK}" in answers[0].answer.message  # type: ignore[union-attr]


# ---- the state at the point ----------------------------------------------------------------------------------------


def test_tt_4_step_that_was_running_resumes_in_its_attempt() -> None:
    """It wants a worker again; the next delivery is the next one of that attempt [LOST-1]."""
    before = given(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        execute_failed("A-1", retry_at=T0 + 5),
        at(T0 + 5, dispatched("A-1", 2)),
        beat(b"7", attempt=2),
        at(T0 + 9, executed("A-1", DecisionKind.FORCE_COMPLETE, attempt=2)),
        closed(),
    )
    after = travelled(before, at_time(T0 + 9)).given
    step = after.run(FORK).steps[A_1]
    assert (step.phase, step.attempt, step.delivery, step.heartbeat) == (StepPhase.READY, 2, 1, b"7")
    assert not step.has_heartbeat
    after.after(*connect())
    assert after.run(FORK).steps[A_1].delivery == 2


def test_tt_4_step_in_backoff_keeps_its_instant_and_attempt() -> None:
    before = given(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        execute_failed("A-1", retry_at=T0 + SECOND),
        at(T0 + 9, canceled("A-1")),
        closed(FlowStatus.CANCELED),
    )
    after = travelled(before, at_time(T0 + 9), now=T0 + 10).given
    assert after.next_deadline == T0 + SECOND
    assert after.run(FORK).steps[A_1].attempt == 2
    after.after(*connect()).when_time_passes(T0 + SECOND).then_events(sent("A-1", attempt=2))


def test_tt_4_waiting_timer_keeps_its_deadline() -> None:
    before = waiting(timer(60 * SECOND, at=LATER))
    after = travelled(before, at_time(T0 + 9), now=T0 + 10).given
    assert after.next_deadline == LATER
    after.when_time_passes(LATER).then_events(fired("A-1"), met("A-1", (0,)))


def test_tt_4_overdue_timers_fire_at_once_in_due_order() -> None:
    """Before anything is handed out; then all Waits are evaluated once, oldest first."""
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        scheduled("B-1", wait_for=True, from_step="x"),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", all_of(timer(2, at=T0 + 200))),
        dispatched("B-1", method=WAIT_FOR),
        wait_installed("B-1", all_of(timer(1, at=T0 + 100))),
        at(T0 + 9, canceled("A-1")),
        canceled("B-1"),
        closed(FlowStatus.CANCELED),
    ).after(*connect(streams=2))
    then = travelled(before, at_time(T0 + 9), now=LATER)
    assert then.events[3:] == [
        fired("B-1"),
        fired("A-1"),
        met("A-1", (0,)),
        met("B-1", (0,)),
        sent("A-1"),
        sent("B-1"),
    ]


def test_tt_4_wait_that_was_satisfied_at_the_point_goes_on() -> None:
    """The point may lie between a publication and what it led to."""
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", all_of(channel("c"))),
        scheduled("B-1", from_step="x"),
        at(T0 + 5, published("c", b"1", version=6, instant=T0 + 5)),
        met("A-1", (0,), (0, message_ids(6, instant=T0 + 5))),
        dispatched("B-1"),
        at(T0 + 9, executed("B-1", DecisionKind.FORCE_COMPLETE)),
        canceled("A-1"),
        closed(),
    )
    events = travelled(before, at_time(T0 + 5)).events[3:]
    assert [type(event) for event in events] == [ChannelPublished, ConditionsMet]


def test_tt_4_requested_completion_follows_when_nothing_is_active() -> None:
    """The mark is part of the state [DEC-2]."""
    before = given(
        started(),
        scheduled("A-1"),
        scheduled("B-1", from_step="x"),
        dispatched("A-1"),
        executed("A-1", DecisionKind.GRACEFUL_COMPLETE, output=b"1"),
        RpcCompleted("write", 1, WORKER, record("w")),
        canceled("B-1", "STEP_CANCELED", "sys:rpc:write#1"),
        closed(),
    )
    log = [recorded.event for recorded in before.log]
    before = given(*log[:5], *(at(T0 + 9, event) for event in log[5:]))
    then = travelled(before, at_time(T0 + 9))
    assert then.events[3:] == [Like(RpcCompleted), canceled("B-1", "STEP_CANCELED", "sys:rpc:write#1"), closed()]


def test_lock_2_step_that_was_running_keeps_its_locks() -> None:
    """They are kept over redeliveries [TT-4]."""
    locked = options(execute_locks=("a",))
    before = given(
        started(), scheduled("A-1", options=locked), dispatched("A-1"), at(T0 + 9, executed("A-1")), closed()
    )
    after = travelled(before, at_time(T0 + 9)).given
    assert after.run(FORK).locks == {"a": "A-1"}
    after.when(rpc("write", locks=("a",))).then(effects=[answered(Like(Rejection, code=Code.RPC_LOCK_CONFLICT))])


def test_time_4_flow_timeout_begins_anew() -> None:
    """A full budget from now, or from when a delayed start Step is eligible."""
    limited = terms(timeout_ms=60 * SECOND)
    before = given(started(terms=limited, timeout_at=LATER), scheduled("A-1"), at(T0 + 9, canceled("A-1")), closed())
    after = travelled(before, BEGINNING, now=LATER).given
    assert after.run(FORK).timeout_at == LATER + 60 * SECOND
    assert after.next_deadline is not None
    delayed = terms(timeout_ms=60 * SECOND, start_delay_ms=120 * SECOND)
    begun = started(terms=delayed, eligible_at=T0 + 120 * SECOND, timeout_at=T0 + 180 * SECOND)
    after = travelled(given(begun, scheduled("A-1"), canceled("A-1"), closed()), BEGINNING).given
    assert after.run(FORK).timeout_at == T0 + 180 * SECOND
    assert after.run(FORK).steps[A_1].retry_at == T0 + 120 * SECOND


def test_time_3_timeout_that_was_over_at_the_point_does_not_come_again() -> None:
    """handle_timeout is called once logically."""
    limited = terms(timeout_ms=5, timeout_policy=FlowTimeoutPolicy.HANDLER)
    before = given(
        started(terms=limited, timeout_at=T0 + 5),
        at(T0 + 5, fired(TIMEOUT_HANDLER_ID)),
        scheduled(TIMEOUT_HANDLER_ID),
        at(T0 + 9, canceled(TIMEOUT_HANDLER_ID)),
        closed(),
    )
    after = travelled(before, at_time(T0 + 9)).given
    assert (after.run(FORK).timeout_at, list(after.run(FORK).steps)) == (0, [TIMEOUT_HANDLER_ID])


def test_id_7_counters_continue_as_they_stood_at_the_point() -> None:
    before = finished()
    after = travelled(before, at_step("A-1")).given
    assert after.run(FORK).counters == {"A": 1}
    after.after(*connect()).when(complete(go_to(plan("B"), plan("A")), token("A-1", run=FORK))).then_events(
        Like(ExecuteCompleted), scheduled("B-1", from_step="A-1"), scheduled("A-2", from_step="A-1"), sent("B-1")
    )


def test_id_9_idempotency_keys_stay() -> None:
    """The key is made of Flow ID, Step execution and ordinal, and none of them changes."""
    after = travelled(finished(), at_step("B-1")).given
    [call] = [
        effect.call for command in connect() for effect in after.when(command).effects if isinstance(effect, AssignCall)
    ]
    assert (call.flow_id, call.token.call, call.ordinal, call.run_id) == (FLOW, "B-1", 1, FORK)


# ---- external writes -------------------------------------------------------------------------------------------------


def written() -> Given:
    """`A-1` waits, then come all kinds of external writes, and the Flow ends."""
    m5, m7 = message_ids(5, 2, instant=T0 + 5), message_ids(8, instant=T0 + 7)
    return given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", all_of(channel("go"))),
        at(T0 + 5, published("c", b"1", b"2", version=5, instant=T0 + 5, request_id="p")),
        ChannelMessageDeleted("c", (m5[0],), request=record("d")),
        ChannelMessageDeleted("c", (m5[1],), by="sys:rpc:write#1"),
        at(
            T0 + 7,
            RpcCompleted("write", 1, WORKER, record("w", b"out"), (("a", b"1"),), ((m7[0], "c", b"3"),)),
        ),
        canceled("A-1", "STEP_CANCELED", "sys:rpc:write#1"),
        scheduled("B-1", from_step="sys:rpc:write#1"),
        attribute_set("a", b"2", "s"),
        at(T0 + 9, canceled("B-1")),
        closed(),
    )


def test_tt_5_external_writes_are_applied_again_in_their_old_order() -> None:
    """With the same requests, message IDs and contents, before anything is handed out."""
    before = written().after(*connect())
    old = [recorded.event for recorded in before.log if recorded.version > 1]
    then = travelled(before, at_time(T0 + 5))
    assert then.events[3:] == [*old[3:10], sent("B-1")]
    state = then.given.run(FORK)
    assert state.attributes == {"a": b"2"}
    assert [message.value for message in state.channels["c"]] == [b"3"]
    assert list(state.steps) == ["B-1"]
    assert then.events[2] == Like(FlowForked, reapplied=7)


def test_tt_5_writes_may_be_dropped() -> None:
    then = travelled(written(), at_time(T0 + 5), is_dropping_writes=True)
    assert [type(event) for event in then.events] == [FlowReopened, FlowStarted, FlowForked]
    assert then.events[2] == Like(FlowForked, is_dropping_writes=True, reapplied=0)
    assert then.given.run(FORK).attributes == {}


def test_tt_5_settings_and_skipped_timers_are_those_of_the_point() -> None:
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        at(T0 + 5, FlowConfigUpdated(FlowConfig(record_rpc_io=True), record("u"))),
        TimerSkipRequested(A_1, TimerId("x"), record("k")),
    )
    state = travelled(before, BEGINNING).given.run(FORK)
    assert (state.config, state.skips) == (None, {})


def test_tt_5_what_a_write_acted_on_may_be_gone() -> None:
    """A deletion of a message that a Step published later, and a cancellation of a later Step, are left out."""
    own = message_ids(4, instant=T0 + 5)
    before = given(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        at(T0 + 5, executed("A-1", DecisionKind.GO_TO, messages=((own[0], "c", b"1"),))),
        scheduled("B-1", from_step="A-1"),
        ChannelMessageDeleted("c", own, request=record("d")),
        RpcCompleted("write", 1, WORKER, record("w")),
        canceled("B-1", "STEP_CANCELED", "sys:rpc:write#1"),
        at(T0 + 9, closed()),
    )
    events = travelled(before, BEGINNING).events[3:]
    assert events == [Like(RpcCompleted, name="write", number=1)]


def test_tt_5_steps_of_rpcs_get_the_next_numbers_and_are_canceled_under_them() -> None:
    """[ID-7] Numbers go on from the point, whoever had them before."""
    before = given(
        started(),
        scheduled("A-1"),
        dispatched("A-1"),
        at(T0 + 5, executed("A-1", DecisionKind.GO_TO)),
        scheduled("B-1", from_step="A-1"),
        RpcCompleted("write", 1, WORKER, record("w1")),
        scheduled("B-2", from_step="sys:rpc:write#1"),
        RpcCompleted("write", 2, WORKER, record("w2")),
        canceled("B-1", "STEP_CANCELED", "sys:rpc:write#2"),
        canceled("B-2", "STEP_CANCELED", "sys:rpc:write#2"),
        at(T0 + 9, closed()),
    )
    assert travelled(before, BEGINNING).events[3:] == [
        Like(RpcCompleted, number=1),
        scheduled("B-1", from_step="sys:rpc:write#1"),
        Like(RpcCompleted, number=2),
        canceled("B-1", "STEP_CANCELED", "sys:rpc:write#2"),
    ]


def test_tt_5_messages_after_the_fork_come_behind_those_applied_again() -> None:
    """[ID-13, CHAN-3]"""
    after = travelled(written(), at_time(T0 + 5), now=T0 + 9).given
    after.after(publish("c", b"4", request_id="later"))
    assert [message.value for message in after.run(FORK).channels["c"]] == [b"3", b"4"]


# ---- children ----------------------------------------------------------------------------------------------------


def test_tt_6_child_that_was_asked_for_is_asked_for_by_the_fork() -> None:
    """One that is known at the point is only attached to; one asked for after it is met under its policy."""
    child = SubFlowPlan(FLOW_TYPE, plan("A"))
    wait = any_of(Condition(ConditionKind.SUB_FLOW), Condition(ConditionKind.SUB_FLOW))
    known = sub_flow_id(FLOW, A_1, 0)
    before = given(
        started(),
        scheduled("A-1", wait_for=True),
        dispatched("A-1", method=WAIT_FOR),
        wait_installed("A-1", wait, sub_flows=(child, child)),
        SubFlowStarted(A_1, 0, known, RunId("child")),
        at(T0 + 9, canceled("A-1")),
        closed(FlowStatus.CANCELED),
    )
    then = travelled(before, at_time(T0 + 9))
    reached = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    assert reached == [
        Like(c.ReachSubFlow, key=SubFlowKey(FORK, A_1, 1), is_known=False),
        Like(c.ReachSubFlow, key=SubFlowKey(FORK, A_1, 0), flow_id=known, is_known=True),
    ]


def test_sub_4_forked_child_is_still_the_child_of_its_parent() -> None:
    """Its parent hears of the end of the forked run only, and of no other end after that [SUB-5]."""
    key = SubFlowKey(RunId("parent"), A_1, 0)
    reach = c.ReachSubFlow(key, FLOW, SubFlowPlan(FLOW_TYPE, plan("A")), Parent(FlowId("p"), 1), None)
    before = given().after(reach)
    first = before.kernel.run(FLOW)
    assert first is not None
    then = travelled(before, BEGINNING)
    assert not [effect for effect in then.effects if isinstance(effect, SubmitCommand)]
    ended = then.given.when(stop()).effects
    assert [effect.command for effect in ended if isinstance(effect, SubmitCommand)] == [
        Like(c.NoteSubFlow, key=key, run_id=first.run_id)
    ]
    again = travelled(before, BEGINNING, run_id=FORK_2, request_id="again").given.when(stop(request_id="s")).effects
    assert not [effect for effect in again if isinstance(effect, SubmitCommand)]


# ---- plans and the present ---------------------------------------------------------------------------------------


def test_plan_is_refused_when_an_external_write_came_meanwhile() -> None:
    """It would be lost; a plan that drops writes does not mind [TT-5]."""
    for is_dropping_writes, expected in ((False, ForkOutdated()), (True, TimeTravelAccepted(FORK))):
        before = given(started(), scheduled("A-1"))
        command = time_travel(before, BEGINNING, is_dropping_writes=is_dropping_writes)
        then = before.after(set_attribute("a", b"1")).when(command)
        assert then.reply == expected
        assert bool(then.events) is is_dropping_writes


def test_plan_is_refused_when_another_run_is_the_newest() -> None:
    before = finished()
    command = time_travel(before, BEGINNING)
    after = travelled(before, BEGINNING, run_id=FORK_2, request_id="other").given
    assert after.when(command).reply == ForkOutdated()


def test_plan_by_step_type_is_refused_when_there_is_a_later_execution() -> None:
    before = given(started(), scheduled("A-1")).after(*connect())
    command = time_travel(before, at_type("A"))
    before.after(complete(go_to(plan("A"))))
    assert before.when(command).reply == ForkOutdated()
    assert isinstance(travelled(before, at_type("A")).reply, TimeTravelAccepted)


def test_plan_holds_while_the_flow_only_works_on() -> None:
    """What Steps do after the point is undone anyway, so a busy Flow can be forked."""
    before = given(started(), scheduled("A-1")).after(*connect())
    command = time_travel(before, BEGINNING)
    before.after(complete(go_to(plan("B"))))
    assert before.when(command).reply == TimeTravelAccepted(FORK)


def test_refusal_of_the_preparation_is_the_answer() -> None:
    """[TT-3] Nothing changes."""
    before = finished()
    travelled(before, at_type("Nothing")).then_rejected(Code.TIME_TRAVEL_POINT_NOT_FOUND, oldest_reachable_at=str(T0))
