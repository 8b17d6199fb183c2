"""Session batches from workers, as commands [WIRE-2, WIRE-5].

A batch is decoded whole. Only when that fails are its frames taken one by one, so that a bad one fails alone: a result
that makes no sense becomes a failed attempt, anything else is skipped and counted [DELIV-5]. `outbound` is the other
direction.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from google.protobuf.message import DecodeError as ProtoDecodeError

from dexd.codec.faults import COUNT_MAX, duration_fault, key_fault, name_fault, owned_name_fault, plan_fault
from dexd.codec.index_writes import writes_of_frames
from dexd.codec.start_options import sub_flow_of_frame
from dexd.codec.step_plans import plan_of_movement
from dexd.core import commands as c
from dexd.core.config import HEARTBEAT_BYTES_MAX, NAME_LENGTH_MAX
from dexd.core.ids import CallId, QueueName, RunId, SessionId, StreamNumber
from dexd.core.values import (
    Canceling,
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    Method,
    Response,
    StepPlan,
    Token,
    Wait,
    WaitKind,
)
from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch

MALFORMED_OUTPUT = "MalformedOutput"
"""Error type of an attempt whose result could not be read."""

OUTPUT_TOO_LARGE = "ValueTooLargeError"
"""Error type of an attempt whose result exceeds the frame limit; trying again would not help [RETRY-5]."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""The frame limit unless the server is configured otherwise [LIM-1]."""

DETAIL_BYTES_MAX = 16 * 1024
STACK_BYTES_MAX = 64 * 1024
"""UTF-8 bytes kept of a failure's texts [OPT-6]."""

ERROR_CLASSES_MAX = 100
"""Class names kept of a failure; deeper hierarchies do not exist."""

CALL_LENGTH_MAX = 2 * NAME_LENGTH_MAX
"""Longest call or run ID in a token; ours are a name and a few characters."""

INTEGER_MAX = 2**63 - 1
"""Largest instant that every reader of the log can hold."""

# Looking a member up costs a tenth of calling its enumeration; these two are needed with every result.
_METHODS = {method.value: method for method in Method}
_DECISIONS = {kind.value: kind for kind in DecisionKind}

_batch_decoder = msgspec.msgpack.Decoder(list[frames.WorkerFrame])
_raw_batch_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_frame_decoder = msgspec.msgpack.Decoder(frames.WorkerFrame)


class Received(msgspec.Struct, frozen=True):
    """What one batch says."""

    commands: list[c.WorkerCommand]
    skipped: int
    """Frames that this version does not know or that make no sense."""


def decode_batch(message: bytes, session: SessionId, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> Received:
    """Read one SessionBatch message of an open session; never raises, whatever the bytes are."""
    return receive(*decode_frames(message, frame_bytes_max=frame_bytes_max), session)


class Broken(msgspec.Struct, frozen=True):
    """A result that cannot be used although it says which call it belongs to."""

    stream: int
    token: frames.Token
    problem: str
    error_type: str = MALFORMED_OUTPUT


Decoded: TypeAlias = frames.WorkerFrame | Broken


def decode_frames(message: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> tuple[list[Decoded], int]:
    """Give the frames of one SessionBatch message in order, and how many could not be read."""
    try:
        data = SessionBatch.FromString(message).frames
    except ProtoDecodeError:
        return [], 1
    if len(data) > frame_bytes_max:
        return _decode_one_by_one(data, frame_bytes_max)
    try:
        return list(_batch_decoder.decode(data)), 0
    except (msgspec.DecodeError, RecursionError):
        return _decode_one_by_one(data, frame_bytes_max)


def _decode_one_by_one(data: bytes, frame_bytes_max: int) -> tuple[list[Decoded], int]:
    try:
        raws = _raw_batch_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return [], 1
    decoded = [frame for raw in raws if (frame := _decode_alone(raw, frame_bytes_max)) is not None]
    return decoded, len(raws) - len(decoded)


def _decode_alone(raw: msgspec.Raw, frame_bytes_max: int) -> Decoded | None:
    size = len(memoryview(raw))
    if size > frame_bytes_max:
        return _salvage(raw, f"the frame has {size} bytes, the limit is {frame_bytes_max}", OUTPUT_TOO_LARGE)
    try:
        return _frame_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return _salvage(raw, str(error), MALFORMED_OUTPUT)


def _salvage(raw: msgspec.Raw, problem: str, error_type: str) -> Broken | None:
    """Find out whose result an unusable frame is, so that its call does not wait for its timeout."""
    try:
        match msgspec.msgpack.decode(raw):
            case [tag, int(stream), token, *_] if tag in _RESULT_TAGS:
                return Broken(stream, msgspec.convert(token, frames.Token), problem, error_type)
    except (msgspec.MsgspecError, RecursionError):
        pass
    return None


_RESULT_TAGS = (frames.Output.__struct_config__.tag, frames.Failed.__struct_config__.tag)


# ---- frames to commands -----------------------------------------------------------------------------------------


def receive(decoded: Sequence[Decoded], skipped: int, session: SessionId) -> Received:
    """Turn frames of an open session into commands; a frame that has no place there is skipped."""
    commands: list[c.WorkerCommand] = []
    for frame in decoded:
        convert = _CONVERSIONS.get(type(frame))
        try:
            if convert is None:
                skipped += 1
            else:
                commands.append(convert(frame, session))
        except ValueError as error:
            refused = _refused_result(frame, session, str(error))
            if refused is None:
                skipped += 1
            else:
                commands.append(refused)
    return Received(commands, skipped)


def _refused_result(frame: Decoded, session: SessionId, problem: str) -> c.FailCall | None:
    if not isinstance(frame, frames.Output | frames.Failed):
        return None
    try:
        return _broken(Broken(frame.stream, frame.token, problem), session)
    except ValueError:
        return None


def _broken(frame: Broken, session: SessionId) -> c.FailCall:
    is_final = frame.error_type == OUTPUT_TOO_LARGE
    failure = Failure(frame.error_type, frame.problem, non_retryable=is_final)
    return c.FailCall(session, StreamNumber(frame.stream), to_token(frame.token), failure)


def to_token(token: frames.Token) -> Token:
    """Read a delivery token; ValueError if it cannot be one of ours."""
    if len(token.run_id) > CALL_LENGTH_MAX or len(token.call) > CALL_LENGTH_MAX:
        raise ValueError("the token is not one of ours")
    method = _METHODS.get(token.method)
    if method is None:
        raise ValueError(f"the token has the method {token.method}")
    return Token(RunId(token.run_id), CallId(token.call), method, token.attempt, token.delivery)


def _open_stream(frame: frames.OpenStream, session: SessionId) -> c.OpenStream:
    if frame.stream < 1:
        raise ValueError("stream numbers begin at 1")
    return c.OpenStream(session, StreamNumber(frame.stream), QueueName(frame.queue))


def _close_stream(frame: frames.CloseStream, session: SessionId) -> c.CloseStream:
    return c.CloseStream(session, StreamNumber(frame.stream))


def _decline(frame: frames.Decline, session: SessionId) -> c.DeclineCall:
    reason = frame.reason if name_fault(frame.reason, "reason") is None else "UNREADABLE"
    return c.DeclineCall(session, StreamNumber(frame.stream), to_token(frame.token), reason)


def _accepted(frame: frames.Accepted, session: SessionId) -> c.AcceptCall:
    return c.AcceptCall(session, StreamNumber(frame.stream), to_token(frame.token))


def _heartbeat(frame: frames.Heartbeat, session: SessionId) -> c.Heartbeat:
    if len(frame.value) > HEARTBEAT_BYTES_MAX:
        raise ValueError(f"the heartbeat has {len(frame.value)} bytes, the limit is {HEARTBEAT_BYTES_MAX}")
    return c.Heartbeat(session, StreamNumber(frame.stream), to_token(frame.token), frame.value)


def _failed(frame: frames.Failed, session: SessionId) -> c.FailCall:
    return c.FailCall(session, StreamNumber(frame.stream), to_token(frame.token), _to_failure(frame.failure))


def _fetch(frame: frames.Fetch, session: SessionId) -> c.FetchPart:
    _refuse(key_fault(frame.key, "Channel" if frame.is_channel else "Attribute"))
    if frame.offset < 0:
        raise ValueError(f"offset is {frame.offset}")
    return c.FetchPart(
        session, to_token(frame.token), frame.fetch, frame.is_channel, frame.key, frame.offset, frame.after
    )


def _pong(frame: frames.Pong, session: SessionId) -> c.AnswerPing:
    return c.AnswerPing(session, frame.nonce)


def _goodbye(frame: frames.Goodbye, session: SessionId) -> c.DrainSession:  # noqa: ARG001 - one signature for the table
    return c.DrainSession(session)


def _output(frame: frames.Output, session: SessionId) -> c.CompleteCall:
    response = Response(
        None if frame.wait is None else _to_wait(frame.wait),
        None if frame.decision is None else _to_decision(frame.decision),
        frame.writes,
        frame.publications,
        frame.locals,
        frame.recorded,
        frame.output,
        _to_plans(frame.next_steps) if frame.next_steps else (),
        frame.deletions,
        frame.canceling,
        writes_of_frames(frame.indexed) if frame.indexed else (),
    )
    if frame.writes or frame.publications or frame.canceling or frame.deletions or frame.locals or frame.recorded:
        _check_names(frame)
    sub_flows = () if frame.wait is None else tuple(map(sub_flow_of_frame, frame.wait.sub_flows))
    return c.CompleteCall(session, StreamNumber(frame.stream), to_token(frame.token), response, sub_flows)


def _check_names(frame: frames.Output) -> None:
    for key, _ in frame.writes:
        _refuse(key_fault(key, "Attribute"))
    for key, _ in frame.publications:
        _refuse(key_fault(key, "Channel"))
    for step_type in frame.canceling:
        _refuse(owned_name_fault(step_type, "Step type"))
    for key, message_id in frame.deletions:
        _refuse(key_fault(key, "Channel") or name_fault(message_id, "message ID"))
    for name, _ in frame.locals:
        _refuse(name_fault(name, "Step local"))
    for name, _ in frame.recorded:
        _refuse(name_fault(name, "recorded event"))


_CONVERSIONS: dict[type[Decoded], Callable[[Any, SessionId], c.WorkerCommand]] = {
    frames.OpenStream: _open_stream,
    frames.CloseStream: _close_stream,
    frames.Decline: _decline,
    frames.Accepted: _accepted,
    frames.Heartbeat: _heartbeat,
    frames.Output: _output,
    frames.Failed: _failed,
    frames.Fetch: _fetch,
    frames.Pong: _pong,
    frames.Goodbye: _goodbye,
    Broken: _broken,
}
"""Hello is missing on purpose: it is read by `hello`, once, before the session is open."""


# ---- parts of results -------------------------------------------------------------------------------------------


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise ValueError(fault)


def _to_plans(movements: tuple[frames.Movement, ...]) -> tuple[StepPlan, ...]:
    if not movements:
        return ()
    plans = tuple(map(plan_of_movement, movements))
    for plan in plans:
        _refuse(plan_fault(plan))
    return plans


def _to_decision(decision: frames.Decision) -> Decision:
    kind = _DECISIONS.get(decision.kind)
    if kind is None:
        raise ValueError(f"the decision has the kind {decision.kind}")
    if decision.canceling is None and not decision.channels:  # the usual case
        return Decision(kind, _to_plans(decision.movements), decision.output, decision.reason)
    for key in decision.channels:
        _refuse(key_fault(key, "Channel"))
    return Decision(
        kind,
        _to_plans(decision.movements),
        decision.output,
        decision.reason,
        None if decision.canceling is None else _to_canceling(decision.canceling),
        decision.channels,
    )


def _to_canceling(canceling: frames.Canceling) -> Canceling:
    for step_type in (*canceling.step_types, *canceling.sibling_types):
        _refuse(owned_name_fault(step_type, "canceled Step type"))
    return Canceling(canceling.step_types, canceling.sibling_types)


def _to_wait(wait: frames.Wait) -> Wait:
    return Wait(WaitKind(wait.kind), tuple(map(_to_condition, wait.conditions)), wait.combinations)


def _to_condition(condition: frames.Condition) -> Condition:
    if condition.condition_id:
        _refuse(name_fault(condition.condition_id, "condition ID"))
    if condition.channel:
        _refuse(key_fault(condition.channel, "Channel"))
    if condition.at_ms is not None and abs(condition.at_ms) > INTEGER_MAX:
        raise ValueError(f"Timer instant {condition.at_ms} is out of range")
    for bound in (condition.at_least, condition.at_most or 0):
        if not 0 <= bound <= COUNT_MAX:
            raise ValueError(f"Channel bound {bound}, allowed are 0 to {COUNT_MAX}")
    return Condition(
        ConditionKind(condition.kind),
        condition.condition_id,
        condition.duration_ms,
        condition.at_ms,
        condition.channel,
        condition.at_least,
        condition.at_most,
    )


def _to_failure(failure: frames.Failure) -> Failure:
    """Take a handler's failure; texts are cut, never refused [OPT-6]."""
    if failure.retry_after_ms is not None:
        _refuse(duration_fault(failure.retry_after_ms, "retry delay"))
    return Failure(
        failure.error_type[:NAME_LENGTH_MAX],
        _beginning(failure.detail, DETAIL_BYTES_MAX),
        _beginning(failure.stack, STACK_BYTES_MAX),
        failure.non_retryable,
        failure.retry_after_ms,
        failure.error_classes[:ERROR_CLASSES_MAX],
    )


def _beginning(text: str, bytes_max: int) -> str:
    """Cut a text at a whole character."""
    return text if len(text) * 4 <= bytes_max else text.encode()[:bytes_max].decode(errors="ignore")
