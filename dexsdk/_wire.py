"""Session frames as bytes: batches in both directions, and what happens to frames that do not fit [WIRE-2, WIRE-5].

One batch is one msgpack array, encoded and decoded in one go. Only when that fails are its frames taken one by one, so
that one bad call fails alone [DELIV-5].
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch
from dexsdk.errors import ValueTooLargeError

BATCH_BYTES_MAX = 256 * 1024
"""Frames beyond this size go into another message: larger ones gain nothing and hold up what comes after them."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Largest frame while the server has not said its own limit [LIM-1]."""

_UNENCODABLE = (UnicodeEncodeError, OverflowError, TypeError)
_encoder = msgspec.msgpack.Encoder()
_batch_decoder = msgspec.msgpack.Decoder(list[frames.ServerFrame])
_raw_batch_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_frame_decoder = msgspec.msgpack.Decoder(frames.ServerFrame)


class UndecodableAssign(msgspec.Struct, frozen=True):
    """An Assign of which only the beginning can be read; it is declined [DELIV-5]."""

    stream: int
    token: frames.Token


class UnknownFrame(msgspec.Struct, frozen=True):
    """A frame that this version does not know, or that makes no sense; it is counted and skipped [WIRE-5]."""


Received: TypeAlias = frames.ServerFrame | UndecodableAssign | UnknownFrame


def encode_batches(outgoing: Sequence[frames.WorkerFrame], frame_bytes_max: int) -> Iterator[bytes]:
    """Give the SessionBatch messages for these frames, in order; only a single frame may exceed BATCH_BYTES_MAX.

    A result that cannot be encoded or exceeds the frame limit is replaced by a failure that says so, and does not
    disturb its neighbours [LIM-3, DELIV-5].
    """
    if len(outgoing) == 1:
        yield _to_message(_encode_alone(outgoing[0], frame_bytes_max))
        return
    try:
        data = _encoder.encode(outgoing)
    except _UNENCODABLE:
        data = b""
    if 0 < len(data) <= BATCH_BYTES_MAX:
        yield _to_message(data)
        return
    middle = len(outgoing) // 2
    yield from encode_batches(outgoing[:middle], frame_bytes_max)
    yield from encode_batches(outgoing[middle:], frame_bytes_max)


def decode_batch(message: bytes) -> Sequence[Received]:
    """Give the frames of one SessionBatch message.

    Raises:
        msgspec.DecodeError: the batch is no array at all.
        google.protobuf.message.DecodeError: the message is no SessionBatch.
    """
    data = SessionBatch.FromString(message).frames
    try:
        return _batch_decoder.decode(data)
    except msgspec.DecodeError:
        return [_decode_frame(raw) for raw in _raw_batch_decoder.decode(data)]


def _to_message(data: bytes) -> bytes:
    return SessionBatch(frames=data).SerializeToString()


def _encode_alone(frame: frames.WorkerFrame, frame_bytes_max: int) -> bytes:
    try:
        data = _encoder.encode([frame])
    except _UNENCODABLE as error:
        failure = frames.Failure("InvalidStepResultError", f"the result cannot be encoded: {type(error).__name__}")
        return _encode_failure(frame, failure)
    if len(data) <= frame_bytes_max:
        return data
    too_large = ValueTooLargeError.of("response frame", "handler result", len(data), frame_bytes_max)
    return _encode_failure(frame, frames.Failure("ValueTooLargeError", str(too_large), non_retryable=True))


def _encode_failure(frame: frames.WorkerFrame, failure: frames.Failure) -> bytes:
    if not isinstance(frame, frames.Output | frames.Failed):
        raise TypeError(f"{type(frame).__name__} cannot be encoded")
    return _encoder.encode([frames.Failed(frame.stream, frame.token, failure)])


def _decode_frame(raw: msgspec.Raw) -> Received:
    try:
        return _frame_decoder.decode(raw)
    except msgspec.DecodeError:
        return _decode_broken_frame(raw)


def _decode_broken_frame(raw: msgspec.Raw) -> Received:
    try:
        match msgspec.msgpack.decode(raw):
            case [frames.Assign.__struct_config__.tag, int(stream), token, *_]:
                return UndecodableAssign(stream, msgspec.convert(token, frames.Token))
    except msgspec.MsgspecError:
        pass
    return UnknownFrame()
