"""Ending a Flow from outside, and what every ending does [STOP-1..4, FLOW-7, FLOW-8, TIMER-10]."""

import pytest

from dexd.core.events import FlowClosed
from dexd.core.outcome import StopFlowResult
from dexd.core.rejections import Code
from dexd.core.values import FlowErrorType, FlowStatus, Method, StopType
from tests.support.builders import (
    FLOW,
    T0,
    all_of,
    assigned,
    cancel,
    canceled,
    channel,
    closed,
    complete,
    connect,
    dispatched,
    execute_failed,
    fail,
    force,
    pending,
    plan,
    publish,
    record,
    refused,
    scheduled,
    set_attribute,
    stale,
    start,
    started,
    stop,
    timer,
    token,
    wait_installed,
)
from tests.support.given import Given, given

ACTIVE = (
    started(),
    scheduled("Queued-1"),
    scheduled("Waiting-1", wait_for=True),
    dispatched("Waiting-1", method=Method.WAIT_FOR),
    wait_installed("Waiting-1", all_of(channel("c"), timer(at=T0 + 1_000))),
    scheduled("Failing-1"),
    dispatched("Failing-1"),
    execute_failed("Failing-1", retry_at=T0 + 1_000),
    scheduled("A-1"),
)
ENDED_AT_ONCE = [canceled("Queued-1"), canceled("Waiting-1"), canceled("Failing-1")]


@pytest.mark.parametrize(
    ("kind", "status", "error_type"),
    [
        (StopType.CANCEL, FlowStatus.CANCELED, FlowErrorType.NONE),
        (StopType.FAIL, FlowStatus.FAILED, FlowErrorType.CLIENT_API_FAILED),
        (StopType.TERMINATE, FlowStatus.TERMINATED, FlowErrorType.NONE),
    ],
)
def test_stop_1_types(kind: StopType, status: FlowStatus, error_type: FlowErrorType) -> None:
    """[STOP-2] The reason is the error message."""
    given(started()).when(stop(kind, "enough")).then(
        events=[FlowClosed(status, error_type, "enough", record())], reply=StopFlowResult(True, status)
    )


def test_stop_3_queued_waiting_and_backing_off_steps_end_at_once_and_a_running_handler_is_told() -> None:
    """[FLOW-8] All in one commit. [STOP-4] Under CANCEL the handler gets time to clean up."""
    before = given(*ACTIVE).after(*connect())
    before.when(stop()).then(
        events=[*ENDED_AT_ONCE, pending("A-1"), FlowClosed(FlowStatus.CANCELED, request=record())],
        effects=[cancel("FLOW_CLOSED", token("A-1"), grace_ms=30_000)],
        reply=StopFlowResult(True, FlowStatus.CANCELED),
    )


def test_stop_4_terminate_gives_no_grace() -> None:
    before = given(started(), scheduled("A-1")).after(*connect())
    before.when(stop(StopType.TERMINATE)).then_effects(cancel("FLOW_CLOSED", token("A-1"), grace_ms=0))


def test_timer_10_ended_flow_leaves_no_deadline() -> None:
    given(*ACTIVE).after(stop()).when_time_passes(T0 + 60_000).then(next_deadline=None)


def stopped() -> Given:
    return given(started(), scheduled("A-1")).after(*connect()).after(stop())


def test_stop_2_second_stop_tells_the_final_status() -> None:
    stopped().when(stop(StopType.FAIL, request_id="r2")).then(reply=StopFlowResult(False, FlowStatus.CANCELED))
    given(started(), closed()).when(stop()).then(reply=StopFlowResult(False, FlowStatus.COMPLETED))


def test_stop_2_repeat_of_the_stop_that_closed_it_is_applied() -> None:
    """[GEN-8]"""
    stopped().when(stop()).then(reply=StopFlowResult(True, FlowStatus.CANCELED))
    stopped().restarted().when(stop()).then(reply=StopFlowResult(True, FlowStatus.CANCELED))


def test_stop_2_unknown_flow_is_not_found() -> None:
    given().when(stop()).then_rejected(Code.FLOW_NOT_FOUND, flow_id=FLOW)


def test_flow_8_results_after_the_close_are_refused_recorded_and_change_nothing() -> None:
    """[LOST-3, STOP-4]"""
    stopped().when(complete(force(b"late"))).then(
        events=[stale("A-1", reason="FLOW_CLOSED")], effects=[refused("FLOW_CLOSED")]
    )
    stopped().when(fail()).then(events=[stale("A-1", reason="FLOW_CLOSED")], effects=[refused("FLOW_CLOSED")])


def test_flow_8_nothing_changes_a_terminal_status() -> None:
    before = given(*ACTIVE).after(stop())
    before.when(publish("c", b"1", request_id="p")).then_rejected(Code.FLOW_NOT_ACTIVE)
    before.when(set_attribute("a", b"1", request_id="s")).then_rejected(Code.FLOW_NOT_ACTIVE)
    before.when_time_passes(T0 + 60_000).then()
    assert before.run().status is FlowStatus.CANCELED


def test_stream_of_a_canceled_handler_takes_the_next_call_once_it_has_answered() -> None:
    before = stopped().after(complete(force()))
    before.when(start("order-2", "run-2", step=plan("A"))).then_effects(assigned(token("A-1", run="run-2")))
