"""What a client asks, repeats and gives up, driven by hand without a transport [START-6, GEN-8, WAITAPI-1, ERR-2]."""

from collections.abc import Sequence

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import DexServiceError, FlowStatus, LongPollTimeoutError, Registry, StepExecutionId, StepOutcome
from dexsdk._conversation import Answer, Ask, Conversation, Pause, Request, Result, Turn, ask
from dexsdk._status import RemoteStatus
from dexsdk._verbs import Verbs

AWAY = RemoteStatus("UNAVAILABLE", "connection refused")
NO_WORKER = RemoteStatus("UNAVAILABLE", "nobody took it", "NO_WORKER_AVAILABLE")
VERBS = Verbs(Registry(()))


def play(conversation: Conversation[Result], answers: Sequence[Answer]) -> tuple[list[Turn], Result]:
    """Answer each Ask in turn; gives what was asked and the result."""
    turns: list[Turn] = []
    remaining = list(answers)
    answer: Answer | None = None
    while True:
        try:
            turn = conversation.send(answer)
        except StopIteration as end:
            assert not remaining, "it asked less often than expected"
            return turns, end.value
        turns.append(turn)
        answer = None if isinstance(turn, Pause) else remaining.pop(0)


def request(budget_s: float = 30.0) -> Request[bytes]:
    return Request("start_flow", "StartFlow", b"body", bytes, "flow-1", budget_s=budget_s)


def test_transient_refusals_are_repeated_with_the_same_body() -> None:
    """[START-6, GEN-8]: the request ID in it makes that safe."""
    turns, reply = play(ask(request()), [AWAY, RemoteStatus("UNAVAILABLE", "", "SHUTTING_DOWN"), b"run-1"])
    assert reply == b"run-1"
    assert [turn.body for turn in turns if isinstance(turn, Ask)] == [b"body"] * 3
    assert [type(turn) for turn in turns] == [Ask, Pause, Ask, Pause, Ask]


def test_budget_that_is_used_up_raises_unavailable() -> None:
    """[ERR-2]"""
    with pytest.raises(DexServiceError, match="connection refused") as raised:
        play(ask(request(budget_s=0.0)), [AWAY])
    assert (raised.value.code, raised.value.operation, raised.value.flow_id) == ("UNAVAILABLE", "start_flow", "flow-1")


@pytest.mark.parametrize("refusal", [NO_WORKER, RemoteStatus("NOT_FOUND", "no such flow", "FLOW_NOT_FOUND")])
def test_answers_of_the_server_are_not_repeated(refusal: RemoteStatus) -> None:
    """[ROUTE-4, ERR-1]"""
    with pytest.raises(DexServiceError) as raised:
        play(ask(request()), [refusal])
    assert raised.value.sub_status == refusal.reason


def test_request_above_the_frame_limit_is_refused_before_it_is_sent() -> None:
    """[LIM-3]"""
    with pytest.raises(ValueError, match="16777216"):
        Request("publish", "Publish", bytes(16 * 1024 * 1024 + 1), bytes)


def flow_reply(*, is_terminal: bool) -> bytes:
    return pb.WaitForFlowReply(
        is_terminal=is_terminal, first_run_id="run-1", status="COMPLETED" if is_terminal else ""
    ).SerializeToString()


def test_wait_polls_again_and_stays_with_the_execution_of_the_first_poll() -> None:
    """[WAITAPI-1, WAITAPI-2]: each poll is held for at most 60 s."""
    turns, result = play(
        VERBS.waits.wait_for_flow("flow-1", None), [flow_reply(is_terminal=False), flow_reply(is_terminal=True)]
    )
    assert result.status is FlowStatus.COMPLETED
    polls = [pb.WaitForFlowRequest.FromString(turn.body) for turn in turns if isinstance(turn, Ask)]
    assert [(poll.first_run_id, poll.wait_ms) for poll in polls] == [("", 60_000), ("run-1", 60_000)]


def test_wait_with_timeout_zero_checks_once() -> None:
    """[WAITAPI-1]"""
    conversation = VERBS.waits.wait_for_flow("flow-1", 0)
    with pytest.raises(LongPollTimeoutError) as raised:
        play(conversation, [flow_reply(is_terminal=False)])
    assert (raised.value.code, raised.value.sub_status) == ("DEADLINE_EXCEEDED", "LONG_POLL_TIMEOUT")


def test_wait_goes_on_while_the_server_is_away() -> None:
    """[WAITAPI-1]: the caller's timeout is the only one."""
    turns, result = play(VERBS.waits.wait_for_flow("flow-1", None), [AWAY, AWAY, flow_reply(is_terminal=True)])
    assert result.is_terminal
    assert sum(isinstance(turn, Ask) for turn in turns) == 3


def test_wait_for_an_unknown_flow_raises_at_once() -> None:
    """[WAITAPI-2]"""
    with pytest.raises(DexServiceError, match="no such flow"):
        play(VERBS.waits.wait_for_flow("flow-1", None), [RemoteStatus("NOT_FOUND", "no such flow", "FLOW_NOT_FOUND")])


def test_step_wait_names_the_execution_and_gives_its_outcome() -> None:
    """[WAITAPI-3, ID-6]"""
    answers = [pb.WaitForStepCompletionReply(outcome=outcome).SerializeToString() for outcome in ("", "COMPLETED")]
    turns, outcome = play(VERBS.waits.wait_for_step_completion("flow-1", StepExecutionId("Charge", 2), None), answers)
    assert outcome is StepOutcome.COMPLETED
    (first, _) = [turn for turn in turns if isinstance(turn, Ask)]
    assert pb.WaitForStepCompletionRequest.FromString(first.body).step_execution_id == "Charge-2"


def test_local_errors_are_raised_before_anything_is_asked() -> None:
    """[GEN-2, ID-1]"""
    with pytest.raises(ValueError, match="page_size"):
        VERBS.reads.get_history("flow-1", run_id=None, from_event_id=1, page_size=1_001)
    with pytest.raises(ValueError, match="from_event_id"):
        VERBS.reads.get_history("flow-1", run_id=None, from_event_id=0, page_size=1)
    with pytest.raises(ValueError, match="Flow ID"):
        VERBS.reads.describe_flow("a\0b", run_id=None)
