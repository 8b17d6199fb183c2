"""Effects of a session as frames in blocks [WIRE-2, DELIV-5]."""

from typing import Any

import msgspec
import pytest

from dexd.codec.outbound import (
    BLOCK_BYTES_MAX,
    EffectEncoder,
    FrameBlock,
    SessionTerms,
    join_blocks,
)
from dexd.core import effects as e
from dexd.core.ids import CallId, FlowId, RunId, SessionId, StreamNumber
from dexd.core.rejections import Code, Rejection
from dexd.core.values import ConditionKind, ConditionResult, Message, Method, RecoveryError, Token
from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch

SESSION = SessionId(3)
STREAM = StreamNumber(1)
TOKEN = Token(RunId("run"), CallId("Charge-1"), Method.EXECUTE, 2, 3)
SENT = frames.Token("run", "Charge-1", 1, 2, 3)
TERMS = SessionTerms("server-1", 20_000, 256, 1_000_000)


def encoder(max_frame_bytes: int = TERMS.max_frame_bytes) -> EffectEncoder:
    terms = msgspec.structs.replace(TERMS, max_frame_bytes=max_frame_bytes)
    return EffectEncoder(terms, 1, lambda rejection: "UNAVAILABLE" if rejection.retry_after_ms else "INVALID_ARGUMENT")


def call(value: bytes = b"1", **changes: Any) -> e.CallSnapshot:
    plain = e.CallSnapshot(
        TOKEN, FlowId("f"), "Order", "Charge", value, 1, 10, 20, 30, "Begin-1", {"a": b"1"}, {"news": 2}
    )
    return msgspec.structs.replace(plain, **changes)


def sent(blocks: list[FrameBlock]) -> list[frames.ServerFrame]:
    data = SessionBatch.FromString(join_blocks(blocks)).frames
    return msgspec.msgpack.decode(data, type=list[frames.ServerFrame])


@pytest.mark.parametrize(
    ("effect", "frame"),
    [
        (e.WelcomeSession(SESSION), frames.Welcome(1, "server-1", 20_000, 256, 1_000_000)),
        (e.AskReconnect(SESSION, "stop"), frames.Reconnect("stop")),
        (e.ConfirmStream(SESSION, STREAM), frames.StreamOpened(1)),
        (e.ConfirmStreamClosed(SESSION, STREAM), frames.StreamClosed(1)),
        (e.CancelCall(SESSION, STREAM, TOKEN, "STALE", 5), frames.Cancel(1, SENT, "STALE", 5)),
        (e.AcknowledgeResult(SESSION, STREAM, TOKEN, False, "STALE"), frames.Ack(1, SENT, False, "STALE")),
        (e.SendPing(SESSION, 4), frames.Ping(4)),
        (
            e.DeliverPart(SESSION, TOKEN, 7, b"1", (Message("m", b"2", 3),), has_more=True),
            frames.Fetched(7, SENT, b"1", (("m", b"2", 3),), has_more=True),
        ),
        (
            e.AssignCall(SESSION, STREAM, call()),
            frames.Assign(1, SENT, "f", "Order", "Charge", b"1", 1, 10, 20, 30, "Begin-1", {"a": b"1"}, {"news": 2}),
        ),
        (
            e.RejectStream(SESSION, STREAM, Rejection(Code.STREAM_EXISTS, "open")),
            frames.StreamRejected(1, "INVALID_ARGUMENT", "STREAM_EXISTS", "open", True),
        ),
        (
            e.RejectStream(SESSION, STREAM, Rejection(Code.SHUTTING_DOWN, "stop", {}, 1)),
            frames.StreamRejected(1, "UNAVAILABLE", "SHUTTING_DOWN", "stop", False),
        ),
    ],
)
def test_every_effect_has_its_frame(effect: e.SessionEffect, frame: frames.ServerFrame) -> None:
    """[WIRE-5, QUEUE-4] Frames from the server; a rejection says whether waiting helps."""
    assert sent(encoder().encode([effect]).blocks) == [frame]


def test_assignment_carries_all_that_the_handler_reads() -> None:
    """[ATTR-8, WAIT-11, OPT-4] Results, locals and the error that led here."""
    snapshot = call(
        results=(ConditionResult(ConditionKind.CHANNEL, "c", True, "news", (b"1", b"2")),),
        locals={"l": b"3"},
        recovery_error=RecoveryError("E", "why"),
        wait_for_failed=True,
    )
    [frame] = sent(encoder().encode([e.AssignCall(SESSION, STREAM, snapshot)]).blocks)
    assert isinstance(frame, frames.Assign)
    assert frame.results == (frames.ConditionResult(1, "c", True, "news", (b"1", b"2")),)
    assert frame.locals == {"l": b"3"}
    assert frame.recovery_error == frames.RecoveryError("E", "why")
    assert frame.wait_for_failed


def test_end_of_session_is_no_frame() -> None:
    """[WIRE-4] It is the end of the call, with a status."""
    ending = e.EndSession(SESSION, Rejection(Code.SHUTTING_DOWN, "stop"))
    assert encoder().encode([ending]).blocks == []
    assert sent(encoder().encode([e.SendPing(SESSION, 1), ending]).blocks) == [frames.Ping(1)]


@pytest.mark.parametrize("count", [1, 15, 16, 0xFFFF, 0x1_0000])
def test_blocks_join_to_one_array_whatever_their_number(count: int) -> None:
    """[WIRE-2] What was queued while the transport was busy leaves in one message, not encoded again."""
    ping = encoder().encode([e.SendPing(SESSION, 1)]).blocks
    many = encoder().encode([e.SendPing(SESSION, 2)] * count).blocks
    assert sent([*ping, *many]) == [frames.Ping(1)] + [frames.Ping(2)] * count


def test_large_batch_is_split_into_blocks_in_order() -> None:
    """[WIRE-2] Capped by bytes: nothing waits behind a message of many megabytes."""
    third = b"x" * (BLOCK_BYTES_MAX // 3)
    effects = [e.AssignCall(SESSION, StreamNumber(number), call(third)) for number in range(1, 8)]
    blocks = encoder(10 * BLOCK_BYTES_MAX).encode(effects).blocks
    assert [block.frame_count for block in blocks] == [2, 2, 2, 1]
    assert all(len(block.data) <= BLOCK_BYTES_MAX for block in blocks)
    numbers = [frame.stream for frame in sent(blocks) if isinstance(frame, frames.Assign)]
    assert numbers == [1, 2, 3, 4, 5, 6, 7]


def test_assignment_over_the_frame_limit_fails_alone() -> None:
    """[DELIV-5, LIM-3] Its attempt fails for good with size and limit; the others travel."""
    effects: list[e.SessionEffect] = [
        e.AssignCall(SESSION, STREAM, call(b"x" * 2 * BLOCK_BYTES_MAX)),
        e.SendPing(SESSION, 1),
        e.EndSession(SESSION, Rejection(Code.SHUTTING_DOWN, "stop")),
    ]
    encoded = encoder(BLOCK_BYTES_MAX).encode(effects)
    assert sent(encoded.blocks) == [frames.Ping(1)]
    [failed] = encoded.undeliverable
    assert (failed.session, failed.stream, failed.token) == (SESSION, STREAM, TOKEN)
    assert failed.failure.error_type == "ValueTooLargeError"
    assert failed.failure.non_retryable
    assert str(BLOCK_BYTES_MAX) in failed.failure.detail
    assert "Charge" in failed.failure.detail


def test_nothing_is_sent_when_nothing_fits() -> None:
    """[DELIV-5] A batch of nothing but oversized calls is no message."""
    encoded = encoder(BLOCK_BYTES_MAX).encode([e.AssignCall(SESSION, STREAM, call(b"x" * 2 * BLOCK_BYTES_MAX))])
    assert encoded.blocks == []
    assert len(encoded.undeliverable) == 1
