"""Opening a session: protocol negotiation and what the worker says of itself [WIRE-4]."""

from typing import Any

import msgspec
import pytest

from dexd.codec.hello import Opening, decode_opening
from dexd.core.commands import AnswerPing, OpenSession
from dexd.core.ids import CallId, RunId, SessionId, WorkerId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowCapability, Method, RpcTerms, RunningCall, StepOptions, StepPlan, Token
from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch

SESSION = SessionId(3)
HELLO = frames.Hello(
    protocol_min=1,
    protocol_max=4,
    worker_id="host-1-abc",
    incarnation="nonce",
    sdk_name="dexsdk",
    sdk_version="0.1",
    max_concurrent_tasks=8,
    reserved_rpc_tasks=2,
    flows=(
        frames.FlowDescriptor(
            "Order",
            frames.StepDescriptor("Begin", True, frames.StepOptions(execute_timeout_ms=5, priority=2)),
            ("Begin",),
            ("get",),
        ),
        frames.FlowDescriptor("Bare", None),
    ),
    running=(frames.RunningCall(4, "Order", frames.Token("run", "Begin-1", 0, 1, 2)),),
)


def opening_of(*parts: Any) -> Opening | Rejection:
    return decode_opening(SessionBatch(frames=msgspec.msgpack.encode(list(parts))).SerializeToString(), SESSION)


def refusal_of(**changes: Any) -> Rejection:
    opening = opening_of(msgspec.structs.replace(HELLO, **changes))
    assert isinstance(opening, Rejection)
    return opening


def test_hello_opens_the_session_with_everything_the_worker_serves() -> None:
    """[WIRE-4, WIRE-10] Capabilities, capacity and the calls that still run; the highest common version is chosen."""
    opening = opening_of(HELLO, frames.Pong(1))
    assert isinstance(opening, Opening)
    assert opening.protocol == 1
    assert opening.command == OpenSession(
        session=SESSION,
        worker_id=WorkerId("host-1-abc"),
        incarnation="nonce",
        max_concurrent_tasks=8,
        reserved_rpc_tasks=2,
        flows=(
            FlowCapability("Order", frozenset({"Begin"}), frozenset({"get"})),
            FlowCapability("Bare"),
        ),
        running=(RunningCall(4, "Order", Token(RunId("run"), CallId("Begin-1"), Method.WAIT_FOR, 1, 2)),),
        sdk="dexsdk 0.1",
    )


def test_hello_says_how_its_flow_types_begin() -> None:
    """A start without the Flow's code takes the start Step from here."""
    opening = opening_of(HELLO)
    assert isinstance(opening, Opening)
    assert opening.start_steps == {
        "Order": StepPlan("Begin", b"", True, StepOptions(execute_timeout_ms=5, priority=2)),
        "Bare": None,
    }


def test_frames_behind_hello_belong_to_the_open_session() -> None:
    """[WIRE-2] A sender writes what is ready, Hello included."""
    opening = opening_of(HELLO, frames.Pong(1), [99])
    assert isinstance(opening, Opening)
    assert opening.rest.commands == [AnswerPing(SESSION, 1)]
    assert opening.rest.skipped == 1


@pytest.mark.parametrize("parts", [(), (frames.Pong(1),), (frames.Pong(1), HELLO)])
def test_anything_before_hello_is_refused(parts: tuple[Any, ...]) -> None:
    """[WIRE-4] The first frame is Hello."""
    opening = opening_of(*parts)
    assert isinstance(opening, Rejection)
    assert opening.code is Code.PROTOCOL_VIOLATION


def test_bytes_that_are_no_batch_are_refused() -> None:
    """[ERR-B] A foreign protocol on our port gets a typed error."""
    opening = decode_opening(b"GET / HTTP/1.1", SESSION)
    assert isinstance(opening, Rejection)
    assert opening.code is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize(("lowest", "highest"), [(2, 9), (0, 0)])
def test_disjoint_protocol_intervals_are_both_named(lowest: int, highest: int) -> None:
    """[WIRE-4] FAILED_PRECONDITION naming both intervals."""
    refusal = refusal_of(protocol_min=lowest, protocol_max=highest)
    assert refusal.code is Code.PROTOCOL_MISMATCH
    assert refusal.fields == {"worker": f"{lowest}..{highest}", "server": "1..1"}
    assert f"{lowest}..{highest}" in refusal.message
    assert "1..1" in refusal.message


@pytest.mark.parametrize("worker_id", ["", "w" * 256, "a\0b"])
def test_bad_worker_id_is_refused(worker_id: str) -> None:
    """[QUEUE-2, QUEUE-5] A bad worker ID fails at start with a message."""
    assert refusal_of(worker_id=worker_id).code is Code.INVALID_WORKER_ID


@pytest.mark.parametrize(("limit", "reserve"), [(0, 0), (2, 2), (2, -1), (-1, 0)])
def test_impossible_capacity_is_refused(limit: int, reserve: int) -> None:
    """[RES-1] 0 <= reserve < limit."""
    refusal = refusal_of(max_concurrent_tasks=limit, reserved_rpc_tasks=reserve)
    assert refusal.code is Code.INVALID_ARGUMENT
    assert f"reserved_rpc_tasks is {reserve}" in refusal.message


def test_start_step_with_impossible_options_is_refused() -> None:
    """[RETRY-3] What could never be scheduled is refused when it is announced."""
    descriptor = frames.StepDescriptor("Begin", False, frames.StepOptions(execute_timeout_ms=-1))
    refusal = refusal_of(flows=(frames.FlowDescriptor("Order", descriptor),))
    assert refusal.code is Code.INVALID_ARGUMENT
    assert "'Order'" in refusal.message


def test_token_of_a_running_call_must_be_one_of_ours() -> None:
    """[WIRE-10] A presented call names a method that exists."""
    refusal = refusal_of(running=(frames.RunningCall(1, "Order", frames.Token("run", "Begin-1", 9, 1, 1)),))
    assert refusal.code is Code.INVALID_ARGUMENT


def test_lock_1_terms_of_rpcs_are_announced_and_checked() -> None:
    """[RPC-5, LOCK-6] An Attribute that is locked twice is refused, naming Flow type and RPC."""
    terms = (frames.RpcDescriptor("take", ("stock",)), frames.RpcDescriptor("move", is_transactional=True))
    opening = opening_of(
        msgspec.structs.replace(HELLO, flows=(frames.FlowDescriptor("Order", None, (), ("take", "move"), terms),))
    )
    assert isinstance(opening, Opening)
    (capability,) = opening.command.flows
    assert capability.rpc_terms == {"take": RpcTerms(("stock",)), "move": RpcTerms((), True)}
    twice = frames.FlowDescriptor("Order", None, rpcs=(frames.RpcDescriptor("take", ("stock", "stock")),))
    refusal = refusal_of(flows=(twice,))
    assert refusal.code is Code.INVALID_ARGUMENT
    assert "RPC 'take' of Flow type 'Order'" in refusal.message
