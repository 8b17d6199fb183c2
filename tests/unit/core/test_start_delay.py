"""A start that is accepted now and begins later [START-7]."""

from dexd.core.effects import AnswerRpc, CancelCall
from dexd.core.events import FlowClosed, RpcCompleted
from dexd.core.flow.state import StepPhase
from dexd.core.outcome import PublishAccepted, StopFlowResult
from dexd.core.values import FlowStatus, Response
from tests.support.builders import (
    SECOND,
    T0,
    assigned,
    canceled,
    complete,
    connect,
    message_ids,
    plan,
    publish,
    published,
    rpc,
    rpc_token,
    scheduled,
    sent,
    start,
    started,
    stop,
    terms,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

DELAYED = terms(start_delay_ms=60 * SECOND)
DUE = T0 + 60 * SECOND


def delayed() -> Given:
    return given().after(*connect(), start(step=plan("A"), terms=DELAYED))


def test_start_7_flow_is_running_and_its_start_step_becomes_eligible_later() -> None:
    given().when(start(step=plan("A"), terms=DELAYED)).then_events(
        started(terms=DELAYED, eligible_at=DUE), scheduled("A-1")
    )
    before = given().after(start(step=plan("A"), terms=DELAYED))
    assert before.run().status is FlowStatus.RUNNING
    assert before.step().phase is StepPhase.BACKOFF
    before.when_time_passes(DUE - 1).then(next_deadline=DUE)
    before.after(*connect(), now=DUE - 1).when_time_passes(DUE).then_events(sent("A-1", attempt=1, delivery=1))


def test_start_7_publishing_rpcs_and_stopping_work_and_messages_do_not_shorten_it() -> None:
    before = delayed()
    before.when(publish("c", b"1")).then(
        events=[published("c", b"1", version=3)], reply=PublishAccepted(message_ids(3))
    )
    before.when(rpc("read", request_id="q")).then_effects(assigned(rpc_token("q"), name="read"))
    before.when(stop(request_id="s")).then(
        events=[canceled("A-1"), Like(FlowClosed, status=FlowStatus.CANCELED)],
        effects=[Like(CancelCall, reason="FLOW_CLOSED"), Like(AnswerRpc)],
        reply=StopFlowResult(True, FlowStatus.CANCELED),
    )


def test_start_7_delay_survives_a_restart() -> None:
    after = given(started(terms=DELAYED, eligible_at=DUE), scheduled("A-1"))
    assert after.restarted(T0 + 10 * SECOND).next_deadline == DUE


def test_start_7_only_the_start_step_is_delayed() -> None:
    """An RPC may schedule a Step meanwhile, which runs at once."""
    before = delayed().after(rpc("write", request_id="q"))
    done = complete(Response(output=b"1", next_steps=(plan("B"),)), rpc_token("q"))
    before.when(done).then_events(Like(RpcCompleted), scheduled("B-1", from_step="sys:rpc:write#1"), sent("B-1"))
