"""Children of a Wait, from the parent's Wait to the child's end and back [SUB-1..8, ARCH-14]."""

from typing import Any

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.effects import SubmitCommand
from dexd.core.events import (
    ConditionsMet,
    Event,
    FlowClosed,
    FlowRetried,
    FlowStarted,
    SubFlowClosed,
    SubFlowStarted,
    WaitForFailed,
)
from dexd.core.flow.decide_sub_flow import SUB_FLOW_TOO_DEEP
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.sub_flow_desk import running_children
from dexd.core.sub_flows import SubFlowKey, SubFlowPlan, SubFlowReusePolicy, sub_flow_id
from dexd.core.terms import FlowConfig, FlowTerms, Parent
from dexd.core.values import (
    Completion,
    Condition,
    ConditionKind,
    FlowErrorType,
    FlowStatus,
    IdReusePolicy,
    Method,
    StepDurability,
    StopType,
    SubFlowResult,
    Wait,
)
from tests.support.builders import (
    FLOW,
    RUN,
    SECOND,
    T0,
    all_of,
    any_combination,
    any_of,
    channel,
    complete,
    connect,
    force,
    force_fail,
    plan,
    publish,
    retry,
    scheduled,
    serves,
    start,
    started,
    stop,
    terms,
    timer,
    token,
)
from tests.support.given import Given, given
from tests.support.matchers import Like


def sub_flow(id: str = "") -> Condition:  # noqa: A002
    return Condition(ConditionKind.SUB_FLOW, id)


def child(input: bytes = b"7", **fields: Any) -> SubFlowPlan:
    """A child that a Wait asks for; it begins with the Step `C`."""
    return SubFlowPlan("Child", plan("C", input=input), **fields)


CHILD = FlowId("sys:sub:order-1/A-1/0")
WAITING = token("A-1", method=Method.WAIT_FOR)
ONE = all_of(sub_flow())
COMMANDS_MAX = 50

ATTACH = SubFlowReusePolicy.ATTACH
RESTART = SubFlowReusePolicy.RESTART_IF_PREVIOUS_EXITS_ABNORMALLY
ALWAYS = SubFlowReusePolicy.ALWAYS_RESTART


def calling(*events: Event) -> Given:
    """`wait_for` of the parent's `A-1` runs on stream 1."""
    return given(*(events or (started(), scheduled("A-1", wait_for=True)))).after(*connect())


def play(before: Given, *commands: c.Command) -> list[Event]:
    """Hand over commands, and what they owe other runs, until nothing is owed any more; gives all events."""
    events: list[Event] = []
    waiting = list(commands)
    for _ in range(COMMANDS_MAX):
        if not waiting:
            return events
        then = before.when(waiting.pop(0))
        events += then.events
        waiting += [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    raise AssertionError("runs owe each other more and more")


def waits_for(before: Given, wait: Wait = ONE, *children: SubFlowPlan) -> list[Event]:
    return play(before, complete(wait, WAITING, sub_flows=children or (child(),)))


def of_child(before: Given, flow_id: str = CHILD) -> RunId:
    run = before.kernel.run(FlowId(flow_id))
    assert run is not None
    return run.run_id


def sub_flow_events(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, SubFlowStarted | SubFlowClosed | ConditionsMet)]


def end_child(before: Given, kind: StopType = StopType.CANCEL, request_id: str = "end") -> list[Event]:
    return play(before, stop(kind, "why", flow_id=CHILD, request_id=request_id))


def test_id_10_child_goes_on_behind_the_last_ordinal_of_its_id() -> None:
    """[ID-10] Earlier executions of the child's ID were removed; where one is there, it counts."""
    before = calling()
    then = before.when(complete(ONE, WAITING, sub_flows=(child(),)))
    (reach,) = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    assert before.kernel.wanted(reach) == reach
    before.kernel.note_ordinal(CHILD, 3)
    (begun,) = [event for event in before.when(reach).events if isinstance(event, FlowStarted)]
    assert begun.ordinal == 4
    assert before.kernel.wanted(reach) is None


# ---- start and end ------------------------------------------------------------------------------------------------


def test_sub_1_child_is_started_by_a_command_of_its_own_after_the_parent_s_commit() -> None:
    """[ARCH-14] The Wait's outcome begins nothing; what is owed comes back as commands."""
    before = calling()
    then = before.when(complete(ONE, WAITING, sub_flows=(child(),)))
    assert not [event for event in then.events if isinstance(event, FlowStarted)]
    (reach,) = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    reached = before.when(reach)
    begun, step = reached.events
    assert begun == Like(FlowStarted, flow_id=CHILD, flow_type="Child", ordinal=1)
    assert step == scheduled("C-1", input=b"7")
    (note,) = [effect.command for effect in reached.effects if isinstance(effect, SubmitCommand)]
    before.when(note).then_events(SubFlowStarted(StepExecutionId("A-1"), 0, CHILD, of_child(before), is_attached=False))


def test_sub_1_end_of_the_child_satisfies_the_condition() -> None:
    """[SUB-5] execute sees status, error and outputs."""
    before = calling()
    waits_for(before)
    before.after(*connect(2, "w2", serves("Child", "C")))
    run_id = of_child(before)
    events = play(before, complete(force(b"42"), token("C-1", run=run_id), session=2))
    done = (Completion("C", "C-1", b"42"),)
    result = SubFlowResult(CHILD, FlowStatus.COMPLETED, completions=done)
    assert sub_flow_events(events) == [
        SubFlowClosed(StepExecutionId("A-1"), 0, result),
        ConditionsMet(StepExecutionId("A-1"), (0,)),
    ]
    assert [given_result.sub_flow for given_result in before.step().results] == [result]


@pytest.mark.parametrize(
    ("kind", "status", "error_type"),
    [
        (StopType.CANCEL, FlowStatus.CANCELED, FlowErrorType.NONE),
        (StopType.FAIL, FlowStatus.FAILED, FlowErrorType.CLIENT_API_FAILED),
        (StopType.TERMINATE, FlowStatus.TERMINATED, FlowErrorType.NONE),
    ],
)
def test_sub_5_every_terminal_status_is_a_result(kind: StopType, status: FlowStatus, error_type: FlowErrorType) -> None:
    before = calling()
    waits_for(before)
    closed, *_ = sub_flow_events(end_child(before, kind))
    assert closed == SubFlowClosed(StepExecutionId("A-1"), 0, SubFlowResult(CHILD, status, error_type, "why"))
    assert before.run().is_open


def test_sub_1_final_end_comes_after_the_child_s_retries() -> None:
    """[START-8]"""
    again = child(terms=terms(retry=retry(initial_interval_ms=SECOND, maximum_attempts=2), step=plan("C")))
    before = calling()
    waits_for(before, ONE, again)
    before.after(*connect(2, "w2", serves("Child", "C")))
    first = of_child(before)
    events = play(before, complete(force_fail(), token("C-1", run=first), session=2))
    assert [type(event) for event in events if isinstance(event, FlowRetried | SubFlowClosed)] == [FlowRetried]
    before.ticked(T0 + SECOND)
    events = play(before, complete(force_fail("no"), token("C-1", run=of_child(before)), session=2))
    assert Like(SubFlowClosed, number=0) in events


def test_sub_5_losing_child_keeps_running_and_reads_as_running() -> None:
    """[WAIT-9]"""
    before = calling()
    waits_for(before, any_of(sub_flow(), channel()))
    play(before, publish("c", b"1"))
    assert before.step().results[0].sub_flow == SubFlowResult(CHILD)
    assert before.kernel.run(CHILD).is_open  # type: ignore[union-attr]  # it exists
    assert sub_flow_events(end_child(before)) == []


def test_wait_5_due_timers_and_messages_win_over_children() -> None:
    before = calling()
    before.after(publish("c", b"1"))
    events = waits_for(before, any_of(sub_flow(), channel(), timer(0)))
    assert Like(ConditionsMet, winners=(2,)) in events


def test_sub_1_child_is_started_even_if_another_condition_wins_at_once() -> None:
    before = calling()
    events = waits_for(before, any_of(sub_flow(), timer(0)))
    assert [type(event) for event in events if isinstance(event, FlowStarted | SubFlowStarted)] == [
        FlowStarted,
        SubFlowStarted,
    ]
    assert before.run().unstarted == {}


def test_wait_7_all_of_waits_for_every_child() -> None:
    """[SUB-2] Children are numbered among the SubFlows of the Wait."""
    second = FlowId("sys:sub:order-1/A-1/1")
    before = calling()
    waits_for(before, all_of(sub_flow(), channel(), sub_flow()), child(), child(b"8"))
    assert before.kernel.run(second) is not None
    end_child(before)
    play(before, publish("c", b"1"))
    events = play(before, stop(flow_id=second, request_id="end"))
    assert Like(ConditionsMet, winners=(0, 1, 2)) in events
    assert [result.sub_flow.flow_id for result in before.step().results if result.sub_flow] == [CHILD, second]


def test_wait_6_children_stand_in_combinations() -> None:
    before = calling()
    wait = any_combination((sub_flow("s"), channel(id="c")), (0, 1), (0,))
    waits_for(before, wait)
    assert Like(ConditionsMet, winners=(0,)) in end_child(before)


# ---- independence -------------------------------------------------------------------------------------------------


def test_sub_4_stopping_the_parent_never_stops_the_child_whose_end_is_then_a_no_op() -> None:
    before = calling()
    waits_for(before)
    play(before, stop())
    assert before.kernel.run(CHILD).is_open  # type: ignore[union-attr]  # it exists
    assert [type(event) for event in end_child(before)][-1] is FlowClosed


def test_sub_4_parent_that_closes_before_the_child_exists_still_has_it_started() -> None:
    before = calling()
    then = before.when(complete(ONE, WAITING, sub_flows=(child(),)))
    (reach,) = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    before.after(stop())
    events = play(before, reach)
    assert [type(event).__name__ for event in events] == ["FlowStarted", "StepScheduled"]


def test_sub_3_child_inherits_settings_field_by_field_and_names_its_parent() -> None:
    config = FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=True)
    before = calling(started(terms=terms(config=config)), scheduled("A-1", wait_for=True))
    own = child(terms=terms(config=FlowConfig(record_rpc_io=False), timeout_ms=SECOND))
    waits_for(before, all_of(sub_flow(), sub_flow()), own, child())
    run = before.kernel.run(CHILD)
    assert run is not None
    assert run.config == FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=False)
    assert run.terms == FlowTerms(timeout_ms=SECOND, config=run.config, parent=Parent(FLOW, 1))
    assert run.timeout_at == T0 + SECOND
    assert before.kernel.run(FlowId("sys:sub:order-1/A-1/1")).config == config  # type: ignore[union-attr]  # it exists


def test_sub_7_start_delay_and_attributes_of_the_child() -> None:
    before = calling()
    waits_for(before, ONE, child(attributes=(("a", b"1"),), terms=terms(start_delay_ms=SECOND)))
    run = before.kernel.run(CHILD)
    assert run is not None
    assert (run.attributes, run.eligible_at) == ({"a": b"1"}, T0 + SECOND)


def test_sub_8_nesting_deeper_than_100_levels_is_refused() -> None:
    """It is a failed attempt that is not tried again; the 100th level is legal."""
    for depth, is_refused in ((99, False), (100, True)):
        nested = FlowTerms(parent=Parent(FlowId("above"), depth))
        before = calling(started(terms=nested), scheduled("A-1", wait_for=True))
        events = waits_for(before)
        assert any(isinstance(event, WaitForFailed) for event in events) is is_refused
        if is_refused:
            assert before.run().status is FlowStatus.FAILED
            assert SUB_FLOW_TOO_DEEP in before.run().error_message
            assert before.kernel.run(CHILD) is None


def test_dec_8_children_and_conditions_must_fit() -> None:
    before = calling()
    assert Like(FlowClosed, error_type=FlowErrorType.INVALID_USER_FLOW_CODE) in play(before, complete(ONE, WAITING))


# ---- an ID that exists already [SUB-6] ----------------------------------------------------------------------------


def parent_again(policy: SubFlowReusePolicy, status: FlowStatus) -> tuple[Given, list[Event]]:
    """A child of an earlier life of the parent has that status when the new life asks for its own."""
    before = calling()
    waits_for(before)
    play(before, stop())
    if status is not FlowStatus.RUNNING:
        if status is FlowStatus.COMPLETED:
            before.after(*connect(2, "w2", serves("Child", "C")))
            play(before, complete(force(b"old"), token("C-1", run=of_child(before)), session=2))
        else:
            kinds = {FlowStatus.CANCELED: StopType.CANCEL, FlowStatus.FAILED: StopType.FAIL}
            end_child(before, kinds.get(status, StopType.TERMINATE))
    before.after(start(run_id="run-2", step=plan("A", wait_for=True)))
    again = token("A-1", method=Method.WAIT_FOR, run="run-2")
    return before, play(before, complete(ONE, again, sub_flows=(child(reuse_policy=policy),)))


STARTS, ATTACHES, RESULT, REPLACES = "start", "attach", "return its result", "terminate, start"
ABNORMAL = (FlowStatus.FAILED, FlowStatus.CANCELED, FlowStatus.TERMINATED)
TABLE = [
    *((policy, FlowStatus.RUNNING, ATTACHES) for policy in (ATTACH, RESTART)),
    (ALWAYS, FlowStatus.RUNNING, REPLACES),
    *((policy, FlowStatus.COMPLETED, RESULT) for policy in (ATTACH, RESTART)),
    (ALWAYS, FlowStatus.COMPLETED, STARTS),
    *((ATTACH, status, RESULT) for status in ABNORMAL),
    *((policy, status, STARTS) for policy in (RESTART, ALWAYS) for status in ABNORMAL),
]


@pytest.mark.parametrize(("policy", "status", "expected"), TABLE)
def test_sub_6_row_21_reuse_policy_decides(policy: SubFlowReusePolicy, status: FlowStatus, expected: str) -> None:
    """Acceptance row 21, as far as it needs no time travel: the parent's ID is reused instead."""
    before, events = parent_again(policy, status)
    begun = [event.ordinal for event in events if isinstance(event, FlowStarted)]
    ended = [event.status for event in events if isinstance(event, FlowClosed)]
    results = [event.result.status for event in events if isinstance(event, SubFlowClosed)]
    (noted,) = [event for event in events if isinstance(event, SubFlowStarted)]
    if expected == ATTACHES:
        assert (begun, ended, results, noted.is_attached) == ([], [], [], True)
    elif expected == RESULT:
        assert (begun, ended, results, noted.is_attached) == ([], [], [status], True)
    else:
        assert (begun, results, noted.is_attached) == ([2], [], False)
        assert ended == ([FlowStatus.TERMINATED] if expected == REPLACES else [])
    if not results:
        end_child(before, request_id="last")
        assert before.run("run-2").steps[StepExecutionId("A-1")].results[0].sub_flow is not None


def test_sub_6_flow_retry_meets_its_children_again() -> None:
    """[START-8] The failed run's child completed; the next run takes its result."""
    again = terms(retry=retry(initial_interval_ms=SECOND), step=plan("A", wait_for=True))
    before = calling(started(terms=again), scheduled("A-1", wait_for=True))
    waits_for(before)
    before.after(*connect(2, "w2", serves("Child", "C")))
    play(before, complete(force(b"42"), token("C-1", run=of_child(before)), session=2))
    play(before, complete(force_fail(), token("A-1")))
    before.ticked(T0 + SECOND)
    run = before.kernel.run(FLOW)
    assert run is not None
    events = play(before, complete(ONE, token("A-1", method=Method.WAIT_FOR, run=run.run_id), sub_flows=(child(),)))
    assert [type(event) for event in sub_flow_events(events)] == [SubFlowStarted, SubFlowClosed, ConditionsMet]


# ---- crashes between the commits [ARCH-14] -------------------------------------------------------------------------


@pytest.mark.parametrize("crash_after", range(3))
def test_arch_14_server_that_dies_between_the_commits_goes_on_where_it_was(crash_after: int) -> None:
    """After the Wait, after the child's start, after the parent's note: one child, and its end arrives."""
    before = calling()
    waiting: list[c.Command] = [complete(ONE, WAITING, sub_flows=(child(),))]
    for _ in range(crash_after + 1):
        then = before.when(waiting.pop(0))
        waiting += [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    after = before.restarted()
    play(after, *after.owed)
    assert [run.ordinal for run in after.kernel.runs.values() if run.flow_id == CHILD] == [1]
    events = end_child(after)
    assert [type(event) for event in sub_flow_events(events)] == [SubFlowClosed, ConditionsMet]


def test_arch_14_end_that_did_not_reach_the_parent_reaches_it_after_the_restart() -> None:
    before = calling()
    waits_for(before)
    before.after(stop(flow_id=CHILD, request_id="end"))
    after = before.restarted()
    events = play(after, *after.owed)
    assert [type(event) for event in sub_flow_events(events)] == [SubFlowClosed, ConditionsMet]


def test_arch_14_known_child_is_never_started_again() -> None:
    """A restarted server finds a child that failed meanwhile, and takes its end as the result."""
    before = calling()
    waits_for(before)
    before.after(stop(StopType.FAIL, flow_id=CHILD, request_id="end"))
    after = before.restarted()
    events = play(after, *after.owed)
    assert not [event for event in events if isinstance(event, FlowStarted)]


# ---- names --------------------------------------------------------------------------------------------------------


def test_sub_2_child_id_names_its_place_and_escapes_the_step_type() -> None:
    assert sub_flow_id(FlowId("a/b"), StepExecutionId("Ship/%-2"), 3) == "sys:sub:a/b/Ship%2F%25-2/3"


def test_sub_2_id_that_would_be_too_long_is_hashed() -> None:
    fits = sub_flow_id(FlowId("f" * 241), StepExecutionId("A-1"), 0)
    assert len(fits) == 255
    hashed = sub_flow_id(FlowId("f" * 242), StepExecutionId("A-1"), 0)
    assert hashed.startswith("sys:sub:")
    assert len(hashed) == len("sys:sub:") + 64
    assert hashed != sub_flow_id(FlowId("f" * 242), StepExecutionId("A-1"), 1)


def test_start_4_child_that_is_replaced_by_a_client_does_not_satisfy_the_old_wait_twice() -> None:
    """Who waits is told of the execution that it waits for."""
    before = calling()
    waits_for(before)
    replaced = start(
        CHILD, "other", step=plan("C"), id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING, flow_type="Child"
    )
    events = play(before, replaced)
    assert [event.result.status for event in events if isinstance(event, SubFlowClosed)] == [FlowStatus.TERMINATED]
    assert sub_flow_events(end_child(before)) == []


def test_arch_14_note_that_comes_twice_changes_nothing() -> None:
    """[GEN-8] A parent records once that its child exists, and once how it ended, if it still waits."""
    before = calling()
    waits_for(before, all_of(sub_flow(), channel()))
    note = c.NoteSubFlow(
        SubFlowKey(RUN, StepExecutionId("A-1"), 0), of_child(before), False, SubFlowResult(CHILD, FlowStatus.FAILED)
    )
    assert [type(event) for event in before.when(note).events] == [SubFlowClosed]
    assert before.when(note).events == []
    assert before.when(msgspec.structs.replace(note, result=None)).events == []


def test_tt_6_parent_whose_child_was_replaced_since_waits_for_the_execution_that_it_is_told_of() -> None:
    """[SUB-5] As after a time travel to a point before the replacement; a parked parent is found by this execution."""
    before = calling()
    waits_for(before)
    parent = before.kernel.run(FLOW)
    assert parent is not None
    key = SubFlowKey(RUN, StepExecutionId("A-1"), 0)
    note = c.NoteSubFlow(key, RunId("other"), is_attached=True)
    then = before.when(note).then_events(SubFlowStarted(StepExecutionId("A-1"), 0, CHILD, RunId("other"), True))
    assert list(running_children(parent)) == [(key, CHILD, "other")]
    assert then.when(note).events == []
    ended = msgspec.structs.replace(note, run_id=RunId("third"), result=SubFlowResult(CHILD, FlowStatus.COMPLETED))
    events = then.when(ended).events
    assert [type(event) for event in events[:3]] == [SubFlowStarted, SubFlowClosed, ConditionsMet]


def test_sub_1_each_wait_reaches_for_its_own_children() -> None:
    """Another Wait, whose children are not known to exist yet, is not asked again."""
    before = given(started(), scheduled("A-1", wait_for=True), scheduled("B-1", wait_for=True))
    before.after(*connect(streams=2))
    before.after(complete(ONE, WAITING, sub_flows=(child(),)))
    other = token("B-1", method=Method.WAIT_FOR)
    then = before.when(complete(ONE, other, number=2, sub_flows=(child(),)))
    reached = [effect.command for effect in then.effects if isinstance(effect, SubmitCommand)]
    assert [command.flow_id for command in reached if isinstance(command, c.ReachSubFlow)] == ["sys:sub:order-1/B-1/0"]
