"""Session batches from workers: frames become commands, bad ones fail alone [WIRE-5, DELIV-5]."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexd.codec.step_plans import RECOVERY_DEPTH_MAX
from dexd.codec.wire import CALL_LENGTH_MAX, MALFORMED_OUTPUT, OUTPUT_TOO_LARGE, Received, decode_batch, receive
from dexd.core import commands as c
from dexd.core.ids import CallId, QueueName, RunId, SessionId, StreamNumber
from dexd.core.values import (
    Canceling,
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    Method,
    RecoveryStep,
    Response,
    RetryPolicy,
    StepOptions,
    StepPlan,
    Token,
    Wait,
    WaitForFailurePolicy,
    WaitKind,
)
from dexpb.v1 import frames
from dexpb.v1.worker_service_pb2 import SessionBatch

SESSION = SessionId(7)
SENT = frames.Token("run", "Charge-1", 1, 2, 3)
TOKEN = Token(RunId("run"), CallId("Charge-1"), Method.EXECUTE, 2, 3)
STREAM = StreamNumber(1)


def message(*parts: Any) -> bytes:
    return SessionBatch(frames=msgspec.msgpack.encode(list(parts))).SerializeToString()


def only_command(*parts: Any) -> c.WorkerCommand:
    received = decode_batch(message(*parts), SESSION)
    assert received.skipped == 0
    [command] = received.commands
    return command


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        (frames.OpenStream(1, "Order"), c.OpenStream(SESSION, STREAM, QueueName("Order"))),
        (frames.CloseStream(1), c.CloseStream(SESSION, STREAM)),
        (frames.Decline(1, SENT, "DRAINING"), c.DeclineCall(SESSION, STREAM, TOKEN, "DRAINING")),
        (frames.Decline(1, SENT, "\0"), c.DeclineCall(SESSION, STREAM, TOKEN, "UNREADABLE")),
        (frames.Accepted(1, SENT), c.AcceptCall(SESSION, STREAM, TOKEN)),
        (frames.Heartbeat(1, SENT, b"1"), c.Heartbeat(SESSION, STREAM, TOKEN, b"1")),
        (frames.Pong(5), c.AnswerPing(SESSION, 5)),
        (frames.Goodbye(), c.DrainSession(SESSION)),
    ],
)
def test_every_frame_has_its_command(frame: frames.WorkerFrame, command: c.WorkerCommand) -> None:
    """[WIRE-5] Frames of an open session."""
    assert only_command(frame) == command


def test_result_of_execute_carries_decision_and_effects() -> None:
    """[GEN-5] One response with all its parts."""
    options = frames.StepOptions(
        1, 2, frames.RetryPolicy(5), frames.RetryPolicy(6, 3.0, 7, 8, 9, 0.5), 1, ("app.Fatal",),
        frames.RecoveryStep("Undo", True, frames.StepOptions(execute_timeout_ms=4)),
    )  # fmt: skip
    frame = frames.Output(
        1,
        SENT,
        decision=frames.Decision(
            0, (frames.Movement("Ship", b"1", True, options), frames.Movement("Bill", b"2", False))
        ),
        writes=(("a", b"1"), ("b\0x", None)),
        publications=(("news", b"2"),),
        locals=(("l", b"3"),),
        recorded=(("r", b"4"),),
        output=b"5",
        next_steps=(frames.Movement("Next", b"6", False),),
    )
    ship = StepOptions(
        1, 2, RetryPolicy(5), RetryPolicy(6, 3.0, 7, 8, 9, 0.5), WaitForFailurePolicy.PROCEED, ("app.Fatal",),
        RecoveryStep("Undo", True, StepOptions(execute_timeout_ms=4)),
    )  # fmt: skip
    plans = (StepPlan("Ship", b"1", True, ship), StepPlan("Bill", b"2", False))
    assert only_command(frame) == c.CompleteCall(
        SESSION,
        STREAM,
        TOKEN,
        Response(
            None,
            Decision(DecisionKind.GO_TO, plans),
            (("a", b"1"), ("b\0x", None)),
            (("news", b"2"),),
            (("l", b"3"),),
            (("r", b"4"),),
            b"5",
            (StepPlan("Next", b"6", False),),
        ),
    )


def test_decision_carries_whom_it_cancels_and_which_channels_it_checks() -> None:
    """[DEC-4, DEC-9]"""
    fallback = frames.Movement("Drain", b"1", True)
    sent = frames.Decision(5, (fallback,), b"2", "", frames.Canceling(("A",), ("B",)), ("news",))
    command = only_command(frames.Output(1, SENT, decision=sent))
    assert isinstance(command, c.CompleteCall)
    assert command.response.decision == Decision(
        DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY,
        (StepPlan("Drain", b"1", True),),
        b"2",
        "",
        Canceling(("A",), ("B",)),
        ("news",),
    )
    command = only_command(frames.Output(1, SENT, decision=frames.Decision(5, (fallback,), channels=("news",))))
    assert isinstance(command, c.CompleteCall)
    assert command.response.decision is not None
    assert command.response.decision.canceling is None


def test_result_of_wait_for_carries_its_conditions() -> None:
    """[WAIT-1, WAIT-2] Timers and Channels with everything that was declared."""
    sent = (
        frames.Condition(0, "t", 1_000),
        frames.Condition(0, at_ms=-5),
        frames.Condition(1, "", None, None, "news", 1, 2),
    )
    command = only_command(frames.Output(1, SENT, wait=frames.Wait(3, sent, ((0,), (1, 2)))))
    assert isinstance(command, c.CompleteCall)
    assert command.response.wait == Wait(
        WaitKind.ANY_COMBINATION,
        (
            Condition(ConditionKind.TIMER, "t", 1_000),
            Condition(ConditionKind.TIMER, at_ms=-5),
            Condition(ConditionKind.CHANNEL, channel="news", at_least=1, at_most=2),
        ),
        ((0,), (1, 2)),
    )


def test_hb_3_a_heartbeat_above_64_kib_is_skipped_and_the_call_goes_on() -> None:
    largest = frames.Heartbeat(1, SENT, b"x" * 65_536)
    assert only_command(largest) == c.Heartbeat(SESSION, STREAM, TOKEN, largest.value)
    assert receive([frames.Heartbeat(1, SENT, b"x" * 65_537)], 0, SESSION) == Received([], 1)


def test_failure_texts_are_cut_and_never_refused() -> None:
    """[OPT-6] Detail up to 16 KiB, stack up to 64 KiB."""
    failure = frames.Failure("E" * 300, "d" * 20_000, "s" * 70_000, True, 5, tuple("x" * 200))
    command = only_command(frames.Failed(1, SENT, failure))
    assert isinstance(command, c.FailCall)
    assert command.failure == Failure("E" * 255, "d" * 16_384, "s" * 65_536, True, 5, tuple("x" * 100))
    wide = only_command(frames.Failed(1, SENT, frames.Failure("E", "d" + "é" * 20_000, "日" * 70_000)))
    assert isinstance(wide, c.FailCall)
    assert wide.failure == Failure("E", "d" + "é" * 8_191, "日" * 21_845)


MALFORMED_RESULTS: list[Any] = [
    [6, 1, SENT, None, "not a decision"],
    [7, 1, SENT, "not a failure"],
    frames.Output(1, SENT, decision=frames.Decision(9)),
    frames.Output(1, SENT, decision=frames.Decision(4, canceling=frames.Canceling(("sys:a",)))),
    frames.Output(1, SENT, decision=frames.Decision(5, channels=("sys:c",))),
    frames.Output(1, SENT, wait=frames.Wait(9)),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(5),))),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(0, "a\nb", 1),))),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(0, at_ms=2**63),))),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(1, channel="sys:x"),))),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(1, channel="a", at_least=-1),))),
    frames.Output(1, SENT, wait=frames.Wait(1, (frames.Condition(1, channel="a", at_most=2**40),))),
    frames.Output(1, SENT, decision=frames.Decision(0, (frames.Movement("a\0", b"", False),))),
    frames.Output(1, SENT, decision=frames.Decision(0, (frames.Movement("A", b"", False, frames.StepOptions(-1)),))),
    frames.Output(
        1,
        SENT,
        decision=frames.Decision(0, (frames.Movement("A", b"", False, frames.StepOptions(None, None, None, None, 7)),)),
    ),
    frames.Output(1, SENT, next_steps=(frames.Movement("", b"", False),)),
    frames.Output(1, SENT, writes=(("", b"1"),)),
    frames.Output(1, SENT, publications=(("a\0", b"1"),)),
    frames.Output(1, SENT, locals=(("", b"1"),)),
    frames.Output(1, SENT, canceling=("sys:x",)),
    frames.Output(1, SENT, deletions=(("", "m"),)),
    frames.Output(1, SENT, deletions=(("c", ""),)),
    frames.Output(1, SENT, recorded=(("", b"1"),)),
    frames.Failed(1, SENT, frames.Failure("E", retry_after_ms=-1)),
]


@pytest.mark.parametrize("part", MALFORMED_RESULTS, ids=range(len(MALFORMED_RESULTS)))
def test_result_that_makes_no_sense_fails_its_attempt(part: Any) -> None:
    """[DELIV-5] The call does not wait for its timeout, and may be tried again."""
    received = decode_batch(message(frames.Pong(1), part, frames.Pong(2)), SESSION)
    first, failed, last = received.commands
    assert (first, last) == (c.AnswerPing(SESSION, 1), c.AnswerPing(SESSION, 2))
    assert isinstance(failed, c.FailCall)
    assert (failed.stream, failed.token) == (1, TOKEN)
    assert failed.failure.error_type == MALFORMED_OUTPUT
    assert failed.failure.detail
    assert not failed.failure.non_retryable
    assert received.skipped == 0


def test_result_above_the_frame_limit_fails_its_call_for_good_and_its_neighbours_live() -> None:
    """[LIM-3, DELIV-5, RETRY-5]"""
    large = frames.Output(1, SENT, output=b"x" * 2_000)
    sent = message(frames.Pong(1), large, frames.OpenStream(2, "q" * 2_000), frames.Pong(2))
    received = decode_batch(sent, SESSION, frame_bytes_max=1_000)
    first, failed, last = received.commands
    assert (first, last) == (c.AnswerPing(SESSION, 1), c.AnswerPing(SESSION, 2))
    assert isinstance(failed, c.FailCall)
    assert (failed.stream, failed.token) == (1, TOKEN)
    assert (failed.failure.error_type, failed.failure.non_retryable) == (OUTPUT_TOO_LARGE, True)
    assert "the limit is 1000" in failed.failure.detail
    assert received.skipped == 1


def test_frames_that_are_large_only_together_are_all_taken() -> None:
    """[WIRE-2]: the limit is one frame's, a batch may hold many."""
    sent = message(*(frames.Output(stream, SENT, output=b"x" * 900) for stream in range(1, 4)))
    received = decode_batch(sent, SESSION, frame_bytes_max=1_000)
    assert [type(command) for command in received.commands] == [c.CompleteCall] * 3


@pytest.mark.parametrize(
    "part",
    [
        [99, 1, 2],
        [],
        "text",
        {"a": 1},
        [6, 1],
        [6, 1, "not a token"],
        [6, "not a stream", SENT],
        [8, 1, ["run", "call", 7, 1, 1]],
        frames.OpenStream(0, "Order"),
        frames.Accepted(1, frames.Token("run", "Charge-1", 9, 1, 1)),
        frames.Accepted(1, frames.Token("r" * (CALL_LENGTH_MAX + 1), "Charge-1", 1, 1, 1)),
        frames.Output(1, frames.Token("run", "c" * (CALL_LENGTH_MAX + 1), 1, 1, 1), decision=frames.Decision(9)),
        frames.Hello(1, 1, "w", "i", "s", "v", 1, 0, ()),
    ],
)
def test_other_frames_without_sense_are_skipped_and_counted(part: Any) -> None:
    """[WIRE-5] Unknown frames are ignored and counted, never fatal; their neighbours live."""
    received = decode_batch(message(frames.Pong(1), part, frames.Pong(2)), SESSION)
    assert received.commands == [c.AnswerPing(SESSION, 1), c.AnswerPing(SESSION, 2)]
    assert received.skipped == 1


@pytest.mark.parametrize(
    "broken", [b"\x0a\xff", SessionBatch(frames=b"\xc1").SerializeToString(), message(frames.Pong(1))[:-1], b""]
)
def test_batch_that_is_no_batch_counts_as_one_bad_frame(broken: bytes) -> None:
    """[ERR-B] Truncated bytes neither raise nor end the session."""
    received = decode_batch(broken, SESSION)
    assert received.commands == []
    assert received.skipped == 1


def test_bytes_nested_without_end_are_skipped() -> None:
    """[ERR-B] No depth of nesting breaks the decoder."""
    # Far beyond any recursion limit: other tests of the process may have raised it.
    nested = b"\x91" * 200_000 + b"\xc0"
    deep = SessionBatch(frames=b"\x91" + nested).SerializeToString()
    assert decode_batch(deep, SESSION).skipped == 1
    in_result = msgspec.msgpack.encode([6, 1, SENT])[1:]
    result = SessionBatch(frames=b"\x91\x94" + in_result + nested).SerializeToString()
    assert decode_batch(result, SESSION).skipped == 1


@pytest.mark.parametrize(
    ("depth", "is_legal"), [(RECOVERY_DEPTH_MAX, True), (RECOVERY_DEPTH_MAX + 1, False), (10_000, False)]
)
def test_recovery_nested_without_end_is_refused(depth: int, is_legal: bool) -> None:
    """[OPT-5, ERR-B] Recovery options may nest, but not into the stack."""
    movement = msgspec.msgpack.encode(["Charge", b"", False])[1:]
    nested = b"\x94" + movement + b"\x97\xc0\xc0\xc0\xc0\x00\x90" * 1
    options = b"\x97\xc0\xc0\xc0\xc0\x00\x90"
    recovery = b"\x93" + msgspec.msgpack.encode("Undo") + b"\xc2"
    data = nested + (recovery + options) * depth + b"\xc0"
    result = b"\x96\x06\x01" + msgspec.msgpack.encode(SENT) + b"\xc0" + b"\x92\x00\x91" + data + b"\x90"
    received = decode_batch(SessionBatch(frames=b"\x91" + result).SerializeToString(), SESSION)
    if is_legal:
        assert isinstance(received.commands[0], c.CompleteCall)
    else:
        assert not any(isinstance(command, c.CompleteCall) for command in received.commands)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)
some_tag = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32])
almost_frame = st.builds(
    lambda tag, stream, rest: [tag, stream, SENT, *rest], some_tag, st.integers(), st.lists(json_like)
)


@given(st.lists(almost_frame | json_like, max_size=5))
def test_whatever_arrives_is_a_command_or_counted(parts: list[Any]) -> None:
    """[ERR-B] Arbitrary frames: one command or one count each, never an exception."""
    try:
        sent = message(*parts)
    except OverflowError:
        return
    received = decode_batch(sent, SESSION)
    assert len(received.commands) + received.skipped == len(parts)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    """[ERR-B] Neither as message nor as frames."""
    decode_batch(data, SESSION)
    decode_batch(SessionBatch(frames=data).SerializeToString(), SESSION)


def test_failure_without_a_wish_for_its_retry_is_taken_as_it_is() -> None:
    """[RETRY-6] The delay is the policy's unless the handler asks for one."""
    command = only_command(frames.Failed(1, SENT, frames.Failure("Boom", "why")))
    assert command == c.FailCall(SESSION, STREAM, TOKEN, Failure("Boom", "why"))


def test_attr_7_questions_of_handlers_become_commands() -> None:
    """[CHAN-8] An impossible key or offset is skipped."""
    asked = frames.Fetch(7, SENT, "a\0k", offset=5)
    command = only_command(asked)
    assert isinstance(command, c.FetchPart)
    assert (command.fetch, command.key, command.offset, command.is_channel) == (7, "a\0k", 5, False)
    for wrong in (frames.Fetch(7, SENT, ""), frames.Fetch(7, SENT, "a", offset=-1)):
        assert decode_batch(message(wrong), SESSION).skipped == 1
