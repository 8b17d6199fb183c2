"""One wait for the end of an execution, as many polls as it takes [WAITAPI-1, WAITAPI-2]."""

from collections.abc import Callable

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1.blobs import REFERENCE_MARK
from dexsdk._codec import CodecRegistry
from dexsdk._conversation import Conversation, Request, poll
from dexsdk._large_requests import load
from dexsdk._replies import to_flow_result
from dexsdk.results import FlowResult


class WaitForFlow:
    """Polls until the execution that was latest when it began is closed."""

    __slots__ = ("_first_run_id", "_flow_id", "_has_references")

    def __init__(self, flow_id: str) -> None:
        self._flow_id = flow_id
        self._first_run_id = ""
        """Pins the execution from the first reply on, so that a later one with the same Flow ID is not mistaken."""
        self._has_references = False
        """Whether an output may be one that is too large to come along."""

    def conversation(
        self, timeout_s: float | None, codecs: CodecRegistry, load_later: Callable[[bytes], bytes] | None
    ) -> Conversation[FlowResult]:
        """Poll until it is closed, and give its result; without `load_later` all outputs come with it."""
        reply = yield from poll(self._request, _is_terminal, timeout_s)
        if self._has_references and load_later is None:
            for output in reply.completions:
                output.value = yield from load(output.value)
        return to_flow_result(reply, codecs, load_later)

    def _request(self, hold_ms: int, budget_s: float) -> Request[pb.WaitForFlowReply]:
        # Filled in afterwards, which takes a third of the time that keywords take.
        message = pb.WaitForFlowRequest()
        message.flow_id = self._flow_id
        message.wait_ms = hold_ms
        if self._first_run_id:
            message.first_run_id = self._first_run_id
        body = message.SerializeToString()
        return Request("wait_for_flow", "WaitForFlow", body, self._read, self._flow_id, budget_s)

    def _read(self, body: bytes) -> pb.WaitForFlowReply:
        self._has_references = body.find(REFERENCE_MARK) >= 0  # with bytes, `in` raises and catches an error first
        reply = pb.WaitForFlowReply.FromString(body)
        if not reply.is_terminal:
            self._first_run_id = reply.first_run_id
        return reply


def _is_terminal(reply: pb.WaitForFlowReply) -> bool:
    return reply.is_terminal
