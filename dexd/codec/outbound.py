"""Effects for one session as frames, in blocks that a transport joins into SessionBatch messages [WIRE-2].

Encoding and sending are apart so that whatever was queued while the transport was busy leaves in one message without
being encoded again. `wire` is the other direction.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from dexd.core import effects as e
from dexd.core.commands import FailCall
from dexd.core.rejections import Rejection
from dexd.core.values import ConditionResult, Failure, FlowErrorType, SubFlowResult, Token
from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch

BLOCK_BYTES_MAX = 256 * 1024
"""A block larger than this is split, unless it is one frame: it would hold up what comes after it."""

ASSIGN_TOO_LARGE = "ValueTooLargeError"
"""Error type of an attempt whose call does not fit into a frame [LIM-3, DELIV-5]."""

PERMANENT_STATUSES = frozenset(
    {
        "INVALID_ARGUMENT",
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
        "RESOURCE_EXHAUSTED",
    }
)
"""A stream refused with one of these is not helped by waiting [QUEUE-4]."""

_encoder = msgspec.msgpack.Encoder()


class FrameBlock(msgspec.Struct, frozen=True, gc=False):
    """Some frames, encoded one after the other."""

    frame_count: int
    data: bytes


class Encoded(msgspec.Struct, frozen=True):
    """What becomes of a session's effects."""

    blocks: list[FrameBlock]
    undeliverable: Sequence[FailCall] = ()
    """Calls that exceed the frame limit; their attempts fail, the others travel."""


class SessionTerms(msgspec.Struct, frozen=True):
    """What the server tells every session in Welcome."""

    server_id: str
    ping_interval_ms: int
    max_streams: int
    max_frame_bytes: int


def join_blocks(blocks: Sequence[FrameBlock]) -> bytes:
    """Make one SessionBatch message of blocks."""
    header = _array_header(sum(block.frame_count for block in blocks))
    return SessionBatch(frames=b"".join((header, *[block.data for block in blocks]))).SerializeToString()


def _array_header(count: int) -> bytes:
    """The msgpack header of an array."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


class EffectEncoder:
    """Encodes the effects of one session."""

    __slots__ = ("_conversions", "_protocol", "_status_name", "_terms")

    def __init__(self, terms: SessionTerms, protocol: int, status_name: Callable[[Rejection], str]) -> None:
        """`status_name` gives the gRPC status code name of a refusal, from the one error table [ARCH-7]."""
        self._terms = terms
        self._protocol = protocol
        self._status_name = status_name
        self._conversions: dict[type[e.SessionEffect], Callable[[Any], frames.ServerFrame]] = {
            **_CONVERSIONS,
            e.WelcomeSession: self._welcome,
            e.RejectStream: self._reject,
        }

    def encode(self, effects: Sequence[e.SessionEffect]) -> Encoded:
        """Encode the frames for these effects, in order; EndSession has none, it is the end of the call."""
        framed = effects
        if e.EndSession in map(type, effects):
            framed = [effect for effect in effects if type(effect) is not e.EndSession]
        if not framed:
            return Encoded([])
        conversions = self._conversions
        outgoing = [conversions[type(effect)](effect) for effect in framed]
        data = _encode(outgoing)
        if len(data) <= BLOCK_BYTES_MAX:
            return Encoded([FrameBlock(len(outgoing), data)])
        return self._split(framed, outgoing)

    def _split(self, framed: Sequence[e.SessionEffect], outgoing: list[frames.ServerFrame]) -> Encoded:
        limit = self._terms.max_frame_bytes
        fitting: list[bytes] = []
        undeliverable: list[FailCall] = []
        for effect, frame in zip(framed, outgoing, strict=True):
            data = _encode([frame])
            if len(data) > limit and isinstance(effect, e.AssignCall):
                undeliverable.append(_too_large(effect, len(data), limit))
            else:
                fitting.append(data)
        return Encoded(list(_blocks(fitting)), undeliverable)

    def _welcome(self, _: e.WelcomeSession) -> frames.Welcome:
        terms = self._terms
        return frames.Welcome(
            self._protocol, terms.server_id, terms.ping_interval_ms, terms.max_streams, terms.max_frame_bytes
        )

    def _reject(self, effect: e.RejectStream) -> frames.StreamRejected:
        rejection = effect.rejection
        status = self._status_name(rejection)
        return frames.StreamRejected(
            effect.stream, status, rejection.code, rejection.message, status in PERMANENT_STATUSES
        )


def _encode(outgoing: list[frames.ServerFrame]) -> bytes:
    """Encode frames without the header of the array around them."""
    return _encoder.encode(outgoing)[len(_array_header(len(outgoing))) :]


def _blocks(encoded: list[bytes]) -> Iterator[FrameBlock]:
    """Join frames until the next one would exceed the size of a block."""
    block: list[bytes] = []
    block_bytes = 0
    for data in encoded:
        if block and block_bytes + len(data) > BLOCK_BYTES_MAX:
            yield FrameBlock(len(block), b"".join(block))
            block, block_bytes = [], 0
        block.append(data)
        block_bytes += len(data)
    if block:
        yield FrameBlock(len(block), b"".join(block))


def _too_large(effect: e.AssignCall, size: int, limit: int) -> FailCall:
    detail = f"the call of {effect.call.name} needs a frame of {size} bytes, the limit is {limit}"
    return FailCall(
        effect.session, effect.stream, effect.call.token, Failure(ASSIGN_TOO_LARGE, detail, non_retryable=True)
    )


# ---- effects to frames ------------------------------------------------------------------------------------------


def _token(token: Token) -> frames.Token:
    return frames.Token(token.run_id, token.call, token.method, token.attempt, token.delivery)


def _assign(effect: e.AssignCall) -> frames.Assign:
    call = effect.call
    error = call.recovery_error
    return frames.Assign(
        effect.stream,
        _token(call.token),
        call.flow_id,
        call.flow_type,
        call.name,
        call.input,
        call.ordinal,
        call.flow_started_at,
        call.first_attempt_at,
        call.deadline,
        call.from_step,
        call.attributes,
        call.channel_sizes,
        tuple(map(_result, call.results)) if call.results else (),
        call.locals,
        None if error is None else frames.RecoveryError(error.error_type, error.detail),
        call.wait_for_failed,
        call.heartbeat,
        call.heartbeat_timeout_ms,
        call.references,
        call.preload,
        "" if call.run_id == call.token.run_id else call.run_id,
        call.scheduled_at,
    )


def _result(result: ConditionResult) -> frames.ConditionResult:
    return frames.ConditionResult(
        result.kind,
        result.condition_id,
        result.met,
        result.channel,
        result.values,
        result.minimum,
        None if result.sub_flow is None else _sub_flow(result.sub_flow),
    )


def _sub_flow(result: SubFlowResult) -> frames.SubFlowResult:
    return frames.SubFlowResult(
        result.flow_id,
        result.status.name,
        "" if result.error_type is FlowErrorType.NONE else result.error_type.name,
        result.error_message,
        tuple((done.step_type, done.step_execution_id, done.value) for done in result.completions),
    )


def _acknowledge(effect: e.AcknowledgeResult) -> frames.Ack:
    return frames.Ack(effect.stream, _token(effect.token), effect.accepted, effect.reason)


def _cancel(effect: e.CancelCall) -> frames.Cancel:
    return frames.Cancel(effect.stream, _token(effect.token), effect.reason, effect.grace_ms)


def _part(effect: e.DeliverPart) -> frames.Fetched:
    messages = tuple((message.message_id, message.value, message.published_at) for message in effect.messages)
    return frames.Fetched(effect.fetch, _token(effect.token), effect.data, messages, effect.has_more, effect.refusal)


def _ping(effect: e.SendPing) -> frames.Ping:
    return frames.Ping(effect.nonce)


def _reconnect(effect: e.AskReconnect) -> frames.Reconnect:
    return frames.Reconnect(effect.reason)


def _confirm(effect: e.ConfirmStream) -> frames.StreamOpened:
    return frames.StreamOpened(effect.stream)


def _confirm_closed(effect: e.ConfirmStreamClosed) -> frames.StreamClosed:
    return frames.StreamClosed(effect.stream)


_CONVERSIONS: dict[type[e.SessionEffect], Callable[[Any], frames.ServerFrame]] = {
    e.AssignCall: _assign,
    e.AcknowledgeResult: _acknowledge,
    e.CancelCall: _cancel,
    e.DeliverPart: _part,
    e.SendPing: _ping,
    e.AskReconnect: _reconnect,
    e.ConfirmStream: _confirm,
    e.ConfirmStreamClosed: _confirm_closed,
}
