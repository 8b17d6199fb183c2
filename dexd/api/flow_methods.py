"""The unary methods of FlowService as one table: message read, engine asked, answer written [ARCH-12].

Unary calls and the requests of client sessions both come through `FlowMethods.begin`, so that they behave alike.
Answers come through callbacks, which costs no task per request.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from dexd.api.flow_types import FlowTypeDirectory
from dexd.api.references import References
from dexd.api.schedule_methods import Method, Read, Write, schedule_methods
from dexd.api.status import internal_error
from dexd.codec import batch_requests as batches
from dexd.codec import flow_queries as queries
from dexd.codec import flow_replies as replies
from dexd.codec import flow_requests as requests
from dexd.codec import search_requests as searches
from dexd.codec.flow_requests import Minted
from dexd.codec.time_travel_requests import TimeTravelQuery, to_time_travel
from dexd.core.commands import InvokeRpc, SetAttribute, StartFlow
from dexd.core.ids import CallerId, RequestId
from dexd.core.rejections import Code, Rejection
from dexd.engine.engine import Engine
from dexd.engine.ports import Abandon, Clock, OnAnswer
from dexd.engine.system import mint, mint_request_id
from dexpb.v1 import flow_service_pb2 as pb

SHOWN_CHARACTERS_MAX: Final = 100
"""How much of a method name that does not exist is shown back."""


Indexing = TypeVar("Indexing", StartFlow, SetAttribute)


class FlowLimits(msgspec.Struct, frozen=True):
    """Settings that requests are read with."""

    max_message_bytes: int
    max_wait_ms: int
    rpc_timeout_ms: int


class FlowMethods:
    """Every unary method of FlowService and ScheduleService by name."""

    def __init__(
        self,
        engine: Engine,
        flow_types: FlowTypeDirectory,
        clock: Clock,
        references: References,
        limits: FlowLimits,
        *,
        mint: Callable[[str], Minted] = mint,
        mint_request_id: Callable[[], RequestId] = mint_request_id,
    ) -> None:
        """What requests have minted for them is unique; a test environment mints the same each time [TEST-3]."""
        self._mint = mint
        self._mint_request_id = mint_request_id
        self._engine = engine
        self._flow_types = flow_types
        self._clock = clock
        self._references = references
        self._limits = limits
        self.schedule_methods = schedule_methods(engine, flow_types.start_steps, clock, mint_request_id)
        """Those of ScheduleService among them."""
        self._table: dict[str, Method] = {
            **self._changing_methods(),
            **self._reading_methods(),
            **self.schedule_methods,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all methods."""
        return tuple(self._table)

    def begin(self, method: str, body: bytes, on_answer: OnAnswer[bytes], session: bytes) -> Abandon | None:
        """Begin a call.

        Args:
            method: Its name.
            body: The serialized request.
            on_answer: Gets the serialized reply or the refusal exactly once, a refusal perhaps before this returns.
            session: Who asks, see `session_key`; what it refers to, it must have uploaded [BLOB-3].

        Returns:
            What withdraws the call, after which it is not answered any more; None when it cannot be withdrawn.
        """
        entry = self._table.get(method)
        if entry is None:
            on_answer(_unknown_method(method))
            return None
        question = self._references.refuse_request(body, session) or self.decode(entry.request_type, body)
        if type(question) is not Rejection:
            try:
                question = entry.read(question)
            except Exception as error:  # noqa: BLE001 - one request that trips us up must not take its session along [ERR-B]
                question = internal_error(error)
        if type(question) is Rejection:
            on_answer(question)
            return None
        return entry.ask(question, partial(_write, entry.write, on_answer))

    def decode(self, request_type: type[Message], body: bytes) -> Any:
        """Parse a request, or refuse it as too large or malformed [ERR-B]."""
        limit = self._limits.max_message_bytes
        if len(body) > limit:
            what = request_type.DESCRIPTOR.name
            fields = {"what": what, "size": str(len(body)), "limit": str(limit)}
            return Rejection(Code.VALUE_TOO_LARGE, f"{what} has {len(body)} bytes, the limit is {limit}", fields)
        try:
            return request_type.FromString(body)
        except DecodeError:
            return Rejection(Code.MALFORMED, f"the bytes are not a {request_type.DESCRIPTOR.name}")

    # ---- the table -----------------------------------------------------------------------------------------------

    def _changing_methods(self) -> dict[str, Method]:
        request = self._engine.request
        _with_id = self._with_id
        return {
            "StartFlow": Method(pb.StartFlowRequest, self._to_start_flow, request, replies.from_reply),
            "Publish": Method(pb.PublishRequest, _with_id(requests.to_publish), request, replies.from_reply),
            "SetAttribute": Method(pb.SetAttributeRequest, self._to_set_attribute, request, replies.from_reply),
            "DeleteChannelMessage": Method(
                pb.DeleteChannelMessageRequest, _with_id(requests.to_delete_message), request, replies.from_reply
            ),
            "SkipTimer": Method(pb.SkipTimerRequest, _with_id(requests.to_skip_timer), request, replies.from_reply),
            "UpdateFlowConfig": Method(
                pb.UpdateFlowConfigRequest, _with_id(requests.to_update_flow_config), request, replies.from_reply
            ),
            "TriggerContinueAsNew": Method(
                pb.TriggerContinueAsNewRequest, _with_id(requests.to_continue_as_new), request, replies.from_reply
            ),
            "StopFlow": Method(pb.StopFlowRequest, _with_id(requests.to_stop_flow), request, replies.from_reply),
            "TimeTravel": Method(
                pb.TimeTravelRequest, self._to_time_travel, self._engine.time_travels.begin, replies.from_reply
            ),
            "CreateBatch": Method(
                pb.CreateBatchRequest,
                _with_id(batches.to_batch_query),
                self._engine.batch_jobs.create,
                batches.from_batch,
            ),
            "CancelBatch": Method(
                pb.CancelBatchRequest, batches.to_cancel_job, self._engine.batch_jobs.cancel, batches.from_batch
            ),
            "InvokeRpc": Method(pb.InvokeRpcRequest, self._to_invoke_rpc, self._engine.invoke, replies.from_rpc_output),
        }

    def _reading_methods(self) -> dict[str, Method]:
        reads = self._engine.reads
        wait_ms_max = self._limits.max_wait_ms
        to_search = partial(searches.to_search_query, secret=self._engine.page_secret)
        to_flow_wait = partial(queries.to_flow_wait_query, wait_ms_max=wait_ms_max)
        to_attribute_wait = partial(
            queries.to_attribute_wait_query, wait_ms_max=wait_ms_max, is_text=self._references.is_text
        )
        to_step_wait = partial(queries.to_step_wait_query, wait_ms_max=wait_ms_max)
        return {
            "DescribeFlow": Method(pb.DescribeFlowRequest, queries.to_run_key, reads.describe, replies.from_summary),
            "GetFlowState": Method(
                pb.GetFlowStateRequest, queries.to_run_key, reads.live_state, replies.from_live_state
            ),
            "ExplainFlow": Method(
                pb.ExplainFlowRequest, queries.to_explain_key, reads.explain, replies.from_explanation
            ),
            "GetAttribute": Method(
                pb.GetAttributeRequest, queries.to_attribute_query, reads.attribute, replies.from_attribute
            ),
            "ListChannelMessages": Method(
                pb.ListChannelMessagesRequest, queries.to_messages_query, reads.messages, replies.from_messages
            ),
            "DescribeBatch": Method(
                pb.DescribeBatchRequest, batches.to_job_id, self._engine.batch_jobs.describe, batches.from_batch
            ),
            "ListBatches": Method(
                pb.ListBatchesRequest,
                batches.to_batch_list_query,
                self._engine.batch_jobs.list,
                batches.from_batch_page,
            ),
            "GetHistory": Method(pb.GetHistoryRequest, queries.to_history_query, reads.history, replies.from_history),
            "SearchFlows": Method(pb.SearchFlowsRequest, to_search, self._search_flows, _itself),
            "CountFlows": Method(
                pb.CountFlowsRequest, searches.to_count_query, self._engine.searches.count, searches.from_counted
            ),
            "WaitForAttribute": Method(
                pb.WaitForAttributeRequest, to_attribute_wait, reads.wait_for_attribute, replies.from_attribute_wait
            ),
            "WaitForFlow": Method(pb.WaitForFlowRequest, to_flow_wait, reads.wait_for_flow, replies.from_flow_wait),
            "WaitForStepCompletion": Method(
                pb.WaitForStepCompletionRequest, to_step_wait, reads.wait_for_step, replies.from_step_wait
            ),
        }

    def _with_id(self, read: Callable[[Any, Any], Any]) -> Read:
        """Read a request that gets an ID of ours when its caller gave none."""
        mint_request_id = self._mint_request_id
        return lambda request: read(request, mint_request_id())

    def _to_start_flow(self, request: pb.StartFlowRequest) -> StartFlow | Rejection:
        minted = self._mint(request.request_id)
        return self._admit(requests.to_start_flow(request, minted, self._flow_types.start_steps))

    def _to_set_attribute(self, request: pb.SetAttributeRequest) -> SetAttribute | Rejection:
        return self._admit(requests.to_set_attribute(request, self._mint_request_id()))

    def _admit(self, command: Indexing | Rejection) -> Indexing | Rejection:
        """Refuse index values of another type than their keys have on this server [ATTR-10]."""
        if type(command) is Rejection or not command.indexed:
            return command
        return self._engine.announce({entry.key: entry.type for entry in command.indexed}) or command

    def _to_time_travel(self, request: pb.TimeTravelRequest) -> TimeTravelQuery | Rejection:
        return to_time_travel(request, self._mint(request.request_id))

    def _to_invoke_rpc(self, request: pb.InvokeRpcRequest) -> Callable[[CallerId], InvokeRpc] | Rejection:
        # The caller's own deadline ends the call by withdrawing it [RPC-7].
        return requests.to_invoke_rpc(
            request,
            self._mint_request_id(),
            now=self._clock.now(),
            timeout_default_ms=self._limits.rpc_timeout_ms,
            time_left_ms=None,
        )

    def _search_flows(self, query: searches.SearchQuery, on_answer: OnAnswer[Message]) -> None:
        """The token of the next page is bound to the query, so the page is written with it."""
        self._engine.searches.search(query, partial(_write_page, query, self._engine.page_secret, on_answer))


def _itself(message: Message) -> Message:
    return message


def _write_page(query: searches.SearchQuery, secret: bytes, on_answer: OnAnswer[Message], found: Any) -> None:
    on_answer(found if type(found) is Rejection else searches.from_found(found, query, secret))


def _write(write: Write, on_answer: OnAnswer[bytes], answer: Any) -> None:
    on_answer(answer if type(answer) is Rejection else write(answer).SerializeToString())


def _unknown_method(method: str) -> Rejection:
    shown = method[:SHOWN_CHARACTERS_MAX]
    return Rejection(Code.UNKNOWN_METHOD, f"FlowService has no unary method {shown!r}", {"method": shown})
