"""How large values and states may become [LIM-2, LIM-3, CHAN-10, STEP-5]."""

import pytest

from dexd.core.blobs import BlobReference
from dexd.core.config import MAP_INSTANCES_MAX, PENDING_BYTES_MAX, STEP_LOCALS_BYTES_MAX
from dexd.core.effects import AnswerRpc, AssignCall
from dexd.core.events import AttributesSet, ExecuteFailed, FlowClosed, MethodPending, WaitForFailed
from dexd.core.flow.map_instances import refuse_instances
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowErrorType, Method, Response
from tests.support.builders import (
    DEAD_END,
    FLOW,
    SKIP,
    complete,
    connect,
    decides,
    publish,
    rpc,
    rpc_token,
    scheduled,
    set_attribute,
    started,
    stop,
    token,
    waits,
)
from tests.support.given import Given, given
from tests.support.matchers import Like

MIB = 1024 * 1024
FULL = tuple((f"map\0{number}", b"1") for number in range(MAP_INSTANCES_MAX - 1))


def large(size: int) -> bytes:
    """What stands for a value that lies in the store."""
    return BlobReference(size.to_bytes(32, "big"), size).to_value()


def full() -> Given:
    """One instance below the limit, and a Step that runs."""
    return given(started(attributes=FULL), scheduled("A-1")).after(*connect())


# ---- map instances ----------------------------------------------------------------------------------------------


def test_lim_2_one_map_instance_too_many_is_refused_naming_what_size_and_limit() -> None:
    before = full().after(set_attribute("map\0last", b"1"))
    before.when(set_attribute("map\0more", b"1", request_id="2")).then_rejected(
        Code.VALUE_TOO_LARGE,
        flow_id=FLOW,
        what="map instances",
        size=str(MAP_INSTANCES_MAX + 1),
        limit=str(MAP_INSTANCES_MAX),
    )
    before.when(set_attribute("map\0last", b"2", request_id="3")).then_events(Like(AttributesSet))
    before.when(set_attribute("plain", b"2", request_id="4")).then_events(Like(AttributesSet))
    freed = before.after(set_attribute("map\0last", None, request_id="5"))
    freed.when(set_attribute("map\0more", b"1", request_id="6")).then_events(Like(AttributesSet))


@pytest.mark.parametrize("method", [Method.WAIT_FOR, Method.EXECUTE])
def test_lim_3_a_result_with_too_many_map_instances_exhausts_retries_and_leaves_a_flow_that_can_be_stopped(
    method: Method,
) -> None:
    """Nothing of it is applied, and it is not tried again as it is."""
    writes = tuple((f"map\0new-{number}", b"1") for number in range(2))
    is_wait = method is Method.WAIT_FOR
    before = given(started(attributes=FULL), scheduled("A-1", wait_for=is_wait)).after(*connect())
    response = waits(SKIP, writes=writes) if is_wait else decides(DEAD_END, writes=writes)
    then = before.when(complete(response, token(method=method)))
    failed = then.then_events(Like(WaitForFailed if is_wait else ExecuteFailed), Like(FlowClosed)).run()
    assert failed.error_type is FlowErrorType.WORKER_API_FAILED
    assert f"{MAP_INSTANCES_MAX + 1} map instances, the limit is {MAP_INSTANCES_MAX}" in failed.error_message
    assert len(failed.attributes) == len(FULL)
    full().when(stop()).then_events(Like(MethodPending), Like(FlowClosed))


def test_lim_2_an_rpc_with_too_many_map_instances_is_refused() -> None:
    writes = (("map\0a", b"1"), ("map\0b", b"1"))
    before = given(started(attributes=FULL)).after(*connect(), rpc())
    effects = before.when(complete(Response(writes=writes), rpc_token())).effects
    [answered] = [effect for effect in effects if isinstance(effect, AnswerRpc)]
    assert isinstance(answered.answer, Rejection)
    assert answered.answer.code is Code.VALUE_TOO_LARGE


def test_lim_2_of_several_writes_to_one_instance_only_the_last_counts() -> None:
    run = full().run()
    assert refuse_instances(run, (("map\0a", b"1"), ("map\0a", None), ("map\0b", b"1"))) is None
    assert refuse_instances(run, (("map\0a", b"1"), ("map\0b", b"1"), ("plain", b"1"))) is not None
    assert refuse_instances(run, (("plain", b"1"), ("other", b"1"), ("map\0a", b"1"))) is None


# ---- large values -----------------------------------------------------------------------------------------------


def test_chan_10_a_large_message_counts_with_its_own_size() -> None:
    before = given(started()).after(publish("c", large(60 * MIB), large(60 * MIB)))
    assert before.run().pending_bytes == 120 * MIB
    before.when(publish("c", large(PENDING_BYTES_MAX - 120 * MIB + 1), request_id="2")).then_rejected(
        Code.CHANNEL_FULL, size=str(PENDING_BYTES_MAX + 1)
    )


def test_step_5_large_locals_count_with_their_own_size() -> None:
    waiting = started(), scheduled("A-1", wait_for=True)
    fitting = waits(SKIP, locals=(("a", large(STEP_LOCALS_BYTES_MAX)),))
    assert given(*waiting).after(*connect(), complete(fitting, token(method=Method.WAIT_FOR))).step().locals
    beyond = waits(SKIP, locals=(("a", large(STEP_LOCALS_BYTES_MAX)), ("b", b"1")))
    after = given(*waiting).after(*connect(), complete(beyond, token(method=Method.WAIT_FOR)))
    assert after.run().error_type is FlowErrorType.INVALID_USER_FLOW_CODE


def test_attr_7_a_large_attribute_travels_as_the_reference_that_it_is() -> None:
    value = large(3 * MIB)
    before = given(started(attributes=(("document", value),)), scheduled("A-1"))
    effects = before.when(*connect()).effects
    [call] = [effect.call for effect in effects if isinstance(effect, AssignCall)]
    assert call.attributes == {"document": value}
    assert call.references == ()
