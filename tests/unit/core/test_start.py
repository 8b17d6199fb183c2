"""Starting an execution: request IDs, reuse policies, ordinals [START-1..5, ID-5, ATTR-4]."""

from typing import Any

import pytest

from dexd.core.commands import StartFlow
from dexd.core.events import FlowClosed, FlowStarted
from dexd.core.ids import RequestId
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code
from dexd.core.values import FlowStatus, IdReusePolicy, Method, RequestRecord
from tests.support.builders import (
    FLOW,
    RUN,
    T0,
    assigned,
    cancel,
    canceled,
    closed,
    connect,
    digest,
    dispatched,
    pending,
    plan,
    scheduled,
    start,
    started,
    token,
)
from tests.support.given import given
from tests.support.matchers import Like


def another(**fields: Any) -> StartFlow:
    """A second start of the same Flow ID."""
    return start(run_id="run-2", **fields)


def test_start_1_needs_no_worker() -> None:
    given().when(start(step=plan("A"))).then(
        events=[started(), scheduled("A-1")], reply=StartFlowAccepted(RUN), next_deadline=T0 + 10_000
    )


def test_start_1_hands_the_start_step_to_an_idle_stream_in_the_same_outcome() -> None:
    """[ROUTE-8]"""
    given().after(*connect()).when(start(step=plan("A"))).then(
        events=[started(), scheduled("A-1"), dispatched("A-1")],
        effects=[assigned(token("A-1"), input=b"1", flow_id=FLOW, from_step="")],
        reply=StartFlowAccepted(RUN),
    )


def test_start_step_with_wait_for_begins_with_it() -> None:
    """[STEP-2]"""
    given().after(*connect()).when(start(step=plan("A", wait_for=True))).then_effects(
        assigned(token("A-1", method=Method.WAIT_FOR))
    )


def test_flow_3_flow_without_start_step_stays_running_with_nothing_to_do() -> None:
    """[FLOW-3, FLOW-7]"""
    after = given().when(start()).then(events=[started()], reply=StartFlowAccepted(RUN), next_deadline=None)
    assert after.run().is_open


def test_attr_4_initial_values_are_in_the_first_event() -> None:
    initial = (("a", b"1"), ("b", b"2"))
    after = (
        given().when(start(attributes=initial)).then(events=[started(attributes=initial)], reply=StartFlowAccepted(RUN))
    )
    assert after.run().attributes == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("status", [None, FlowStatus.COMPLETED, FlowStatus.FAILED, FlowStatus.TERMINATED])
def test_start_3_equal_request_gets_the_original_run_whatever_its_status(status: FlowStatus | None) -> None:
    events = [started()] if status is None else [started(), closed(status)]
    given(*events).when(start(run_id="run-2", request_id="start-run-1")).then(reply=StartFlowAccepted(RUN))


def test_start_3_other_options_of_an_equal_request_are_ignored() -> None:
    again = start(run_id="run-2", request_id="start-run-1", id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING)
    given(started()).when(again).then(reply=StartFlowAccepted(RUN))


def test_start_3_same_request_with_other_content_is_a_conflict() -> None:
    again = start(run_id="run-2", request_id="start-run-1", digest=digest("other"))
    given(started()).when(again).then_rejected(Code.REQUEST_CONFLICT, flow_id=FLOW, run_id=RUN)


def test_start_2_request_id_is_checked_before_the_reuse_policy() -> None:
    again = start(run_id="run-2", request_id="start-run-1", id_reuse_policy=IdReusePolicy.DISALLOW)
    given(started(), closed()).when(again).then(reply=StartFlowAccepted(RUN))


REFUSES_ACTIVE = [policy for policy in IdReusePolicy if policy is not IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING]


@pytest.mark.parametrize("policy", REFUSES_ACTIVE)
def test_start_4_active_execution_refuses_another(policy: IdReusePolicy) -> None:
    """[START-5] The refusal carries the run and its status."""
    given(started()).when(another(id_reuse_policy=policy)).then_rejected(
        Code.FLOW_ALREADY_STARTED, flow_id=FLOW, run_id=RUN, status="RUNNING"
    )


FAILURES = [FlowStatus.FAILED, FlowStatus.CANCELED, FlowStatus.TERMINATED]
ALLOWED = [
    *(
        (policy, status)
        for policy in (IdReusePolicy.DEFAULT, IdReusePolicy.ALLOW_IF_NOT_RUNNING)
        for status in FAILURES
    ),
    (IdReusePolicy.DEFAULT, FlowStatus.COMPLETED),
    (IdReusePolicy.ALLOW_IF_NOT_RUNNING, FlowStatus.COMPLETED),
    (IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING, FlowStatus.COMPLETED),
    *((IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED, status) for status in FAILURES),
]
REFUSED = [
    (IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED, FlowStatus.COMPLETED),
    *((IdReusePolicy.DISALLOW, status) for status in (*FAILURES, FlowStatus.COMPLETED)),
]


@pytest.mark.parametrize(("policy", "status"), ALLOWED)
def test_start_4_closed_execution_allows_another_with_the_next_ordinal(
    policy: IdReusePolicy, status: FlowStatus
) -> None:
    given(started(), closed(status)).when(another(id_reuse_policy=policy)).then(
        events=[started(run_id="run-2", ordinal=2)], reply=StartFlowAccepted(token(run="run-2").run_id)
    )


@pytest.mark.parametrize(("policy", "status"), REFUSED)
def test_start_4_closed_execution_refuses_another(policy: IdReusePolicy, status: FlowStatus) -> None:
    given(started(), closed(status)).when(another(id_reuse_policy=policy)).then_rejected(
        Code.FLOW_ALREADY_STARTED, run_id=RUN, status=status.name
    )


def test_start_4_terminate_if_running_ends_the_old_run_and_begins_the_new_one_in_one_outcome() -> None:
    before = given(started(), scheduled("A-1"), scheduled("B-1", wait_for=True)).after(*connect())
    replaced = another(step=plan("A"), id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING)
    new = token("A-1", run="run-2")
    before.when(replaced).then(
        events=[
            pending("A-1"),
            canceled("B-1"),
            FlowClosed(
                FlowStatus.TERMINATED,
                error_message="replaced by run run-2",
                request=RequestRecord(RequestId("start-run-2"), digest("start")),
            ),
            started(run_id="run-2", ordinal=2),
            scheduled("A-1"),
        ],
        effects=[cancel("FLOW_CLOSED", token("A-1"))],
        reply=StartFlowAccepted(new.run_id),
    )


def test_start_4_repeat_of_a_terminating_start_terminates_nothing_more() -> None:
    before = given(started()).after(another(id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING))
    again = start(run_id="run-3", request_id="start-run-2", id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING)
    before.when(again).then(reply=StartFlowAccepted(token(run="run-2").run_id))


def test_id_6_step_numbers_begin_again_in_a_new_execution() -> None:
    before = given(started(), scheduled("A-1"), closed())
    before.when(another(step=plan("A"))).then_events(Like(FlowStarted, ordinal=2), scheduled("A-1"))


TWICE = (started(run_id="run-a"), closed(FlowStatus.FAILED), started(run_id="run-b", ordinal=2))


@pytest.mark.parametrize("policy", IdReusePolicy)
def test_start_3_request_of_an_earlier_execution_gets_its_run(policy: IdReusePolicy) -> None:
    again = start(run_id="run-c", request_id="start-run-a", id_reuse_policy=policy)
    given(*TWICE).when(again).then(reply=StartFlowAccepted(token(run="run-a").run_id))


def test_start_3_request_of_an_earlier_execution_with_other_content_is_a_conflict() -> None:
    again = start(run_id="run-c", request_id="start-run-a", digest=digest("other"))
    given(*TWICE).when(again).then_rejected(Code.REQUEST_CONFLICT, flow_id=FLOW, run_id="run-a")


def test_start_3_request_of_an_execution_that_was_just_replaced_is_known() -> None:
    """The log does not have the newer one yet."""
    replaced = another(id_reuse_policy=IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING)
    again = start(run_id="run-3", request_id="start-run-1")
    given(started()).after(replaced).when(again).then(reply=StartFlowAccepted(RUN))


def test_start_3_request_of_an_execution_that_left_memory_is_asked_for_again() -> None:
    kernel = given(*TWICE).kernel
    again = start(run_id="run-c", request_id="start-run-a")
    assert kernel.wanted(again) is None
    assert kernel.forget(token(run="run-a").run_id)
    assert kernel.wanted(again) is not None
