"""Batches of frames as bytes [WIRE-2, WIRE-5, DELIV-5, LIM-3]."""

import msgspec
import pytest

from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch
from dexsdk._wire import BATCH_BYTES_MAX, UndecodableAssign, UnknownFrame, decode_batch, encode_batches

TOKEN = frames.Token("run", "Greet-1", frames.METHOD_EXECUTE, 1, 1)
FRAME_BYTES_MAX = 1 << 24


def message_of(frame_list: list[object]) -> bytes:
    return SessionBatch(frames=msgspec.msgpack.encode(frame_list)).SerializeToString()


def decoded(message: bytes) -> list[frames.WorkerFrame]:
    return msgspec.msgpack.decode(SessionBatch.FromString(message).frames, type=list[frames.WorkerFrame])


def test_everything_queued_goes_into_one_message() -> None:
    """[WIRE-2]"""
    outgoing: list[frames.WorkerFrame] = [frames.Pong(number) for number in range(1_000)]
    (message,) = encode_batches(outgoing, FRAME_BYTES_MAX)
    assert decoded(message) == outgoing


def test_large_batches_are_split_in_order_below_the_cap() -> None:
    """[WIRE-2]: a frame larger than the cap travels alone."""
    sizes = (100_000, 100_000, 100_000, 500_000, 10)
    outgoing: list[frames.WorkerFrame] = [
        frames.Output(stream, TOKEN, output=b"x" * size) for stream, size in enumerate(sizes)
    ]
    messages = list(encode_batches(outgoing, FRAME_BYTES_MAX))
    assert [frame for message in messages for frame in decoded(message)] == outgoing
    assert all(len(message) < BATCH_BYTES_MAX + 100 or len(decoded(message)) == 1 for message in messages)


def test_oversized_result_becomes_a_failure_that_exhausts_retries() -> None:
    """[LIM-3]"""
    outgoing: list[frames.WorkerFrame] = [
        frames.Pong(1),
        frames.Output(7, TOKEN, output=b"x" * 300_000),
        frames.Pong(2),
    ]
    sent = [frame for message in encode_batches(outgoing, 290_000) for frame in decoded(message)]
    assert sent[0] == frames.Pong(1)
    assert sent[2] == frames.Pong(2)
    assert isinstance(sent[1], frames.Failed)
    assert (sent[1].stream, sent[1].token) == (7, TOKEN)
    assert sent[1].failure.error_type == "ValueTooLargeError"
    assert sent[1].failure.non_retryable
    assert "290000" in sent[1].failure.detail


def test_result_that_cannot_be_encoded_fails_alone() -> None:
    """[DELIV-5]"""
    lone_surrogate = frames.Output(7, TOKEN, recorded=(("\ud800", b"1"),))
    sent = [
        frame
        for message in encode_batches([frames.Pong(1), lone_surrogate], FRAME_BYTES_MAX)
        for frame in decoded(message)
    ]
    assert sent[0] == frames.Pong(1)
    assert isinstance(sent[1], frames.Failed)


def test_unknown_frames_are_skipped_and_their_neighbours_read() -> None:
    """[WIRE-5]"""
    ping = frames.Ping(3)
    assert decode_batch(message_of([ping, [99, "from the future"], "nonsense", ping])) == [
        ping,
        UnknownFrame(),
        UnknownFrame(),
        ping,
    ]


def test_fields_that_a_newer_server_appends_are_ignored() -> None:
    """[WIRE-5]"""
    assert decode_batch(message_of([[37, 3, "more"]])) == [frames.Ping(3)]


def test_undecodable_assign_keeps_what_is_needed_to_decline_it() -> None:
    """[DELIV-5]"""
    broken = [35, 7, TOKEN, {"flow_id": "not a text"}]
    assert decode_batch(message_of([frames.Ping(1), broken])) == [frames.Ping(1), UndecodableAssign(7, TOKEN)]


def test_batch_that_is_no_array_is_an_error() -> None:
    """[WIRE-5]: the session ends and opens again."""
    with pytest.raises(msgspec.DecodeError):
        decode_batch(SessionBatch(frames=b"\xc1").SerializeToString())
