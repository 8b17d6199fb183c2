"""Every verb of a client as a conversation: what is checked and encoded before anything is sent, and how it is asked.

Client and AsyncClient carry these and add nothing. A verb raises its local errors when it is called [GEN-2]; what it
returns has not sent anything yet. Every verb that changes something has a request ID, drawn here unless the caller
gave one, so that the transport may repeat it [START-6].
"""

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from dexpb.v1 import admin_service_pb2 as admin_pb
from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import _replies as replies
from dexsdk._codec import Codec, decode_value, encode_value
from dexsdk._conversation import (
    BUDGET_S,
    AskOnce,
    Conversation,
    Pause,
    Request,
    ask,
    is_transient,
)
from dexsdk._durations import Duration, from_instant_ms, optional_duration_ms, to_instant_ms
from dexsdk._large_requests import ask_carrying, decoded, load
from dexsdk._names import check_name, check_owned_name
from dexsdk._read_verbs import ReadVerbs
from dexsdk._registry import RegisteredRpc, Registry
from dexsdk._schedule_verbs import ScheduleVerbs
from dexsdk._searches import to_index_writes
from dexsdk._start_options import add_start_options
from dexsdk._start_requests import StartHeads
from dexsdk._status import RemoteStatus
from dexsdk._wait_verbs import WaitVerbs
from dexsdk.attribute import AnyAttribute, key_of
from dexsdk.channel import AnyChannel, channel_key, split_messages
from dexsdk.errors import FlowDefinitionError
from dexsdk.flow_config import FlowConfig
from dexsdk.options import StartFlowOptions, StopFlowOptions, StopType
from dexsdk.results import (
    HealthInfo,
    PendingMessage,
    StopResult,
)
from dexsdk.rpc import RPC_TIMEOUT_MS_MAX
from dexsdk.status import SkipTimerOutcome
from dexsdk.step_execution import StepExecutionId
from dexsdk.time_travel import TimeTravelOptions, TimeTravelStepMethod, TimeTravelType
from dexsdk.timer import TimerId

HEALTH_PATH = "/dexpb.v1.AdminService/CheckHealth"

HEALTH_S_MAX = 2.0
"""How long a health check is tried. A channel that failed a moment ago may refuse calls for up to a second more, which
would be news of the past; a caller of health_check wants to know how the server is now."""

HEALTH_RETRY_S = 0.2

RPC_BUDGET_S = RPC_TIMEOUT_MS_MAX / 1000 + 5.0
"""An RPC call ends on the server after 60 s, waiting for a worker included [RPC-7]; the rest is for the way."""

_TIME_TRAVEL_TYPE = {
    TimeTravelType.BEGINNING: 0,
    TimeTravelType.HISTORY_EVENT_TIME: 1,
    TimeTravelType.STEP_TYPE: 2,
    TimeTravelType.STEP_EXECUTION_ID: 3,
}
_STEP_METHOD = {TimeTravelStepMethod.WAIT_FOR: 1, TimeTravelStepMethod.EXECUTE: 2}
_STOP_TYPE = {StopType.CANCEL: 0, StopType.FAIL: 1, StopType.TERMINATE: 2}


class WriteGuard(TypedDict, total=False):
    """What keeps a write from being applied in the wrong place or twice."""

    run_id: str | None
    """Refuse the call unless this is the current run [ID-5]."""
    request_id: str | None
    """Same ID, same call: it is applied once, and the stored answer is returned [GEN-8]."""


class RpcGuard(WriteGuard, total=False):
    """The same for RPCs."""

    timeout: Duration | None
    """How long the handler may take, at most 60 s; over the RPC's own [RPC-7]."""


class Verbs:
    """The verbs over one registry."""

    def __init__(
        self, registry: Registry, id_prefix: str | None = None, load_later: Callable[[bytes], bytes] | None = None
    ) -> None:
        """Make the verbs.

        Args:
            registry: The Flows that calls name.
            id_prefix: Begins the request IDs that are made here; no other client of the server may have it.
            load_later: Blocks for a large output of a Flow when it is decoded; without it outputs come with the result.
        """
        self._registry = registry
        self._start_heads = StartHeads()
        self._id_prefix = id_prefix or secrets.token_hex(12)
        self._id_numbers = itertools.count(1)
        self.reads = ReadVerbs(registry)
        """Those that read."""
        self.waits = WaitVerbs(registry, load_later)
        """Those that wait."""
        self.schedules = ScheduleVerbs(registry, self._start_heads, self.request_id)
        """Those about schedules."""

    def start_flow(self, flow: Any, flow_id: str, value: Any, options: StartFlowOptions | None) -> Conversation[str]:
        """See Client.start_flow."""
        registered = self._registry.resolve_flow(flow)
        # Filled in afterwards, which takes a third of the time that keywords take.
        message = pb.StartFlowRequest()
        message.flow_id = check_owned_name(flow_id, "Flow ID")
        message.request_id = self.request_id(None if options is None else options.request_id)
        message.input = registered.encode_start_input(value)
        if options is not None:
            add_start_options(message, registered, options)
        head = self._start_heads.of(registered)
        return ask_carrying(
            message, lambda body: Request("start_flow", "StartFlow", head + body, replies.to_run_id, flow_id)
        )

    def invoke_rpc(
        self,
        method: Callable[..., Any],
        flow_id: str,
        arguments: Sequence[Any],
        **guard: Unpack[RpcGuard],
    ) -> Conversation[Any]:
        """See Client.invoke_rpc."""
        rpc = self._registry.resolve_rpc(method)
        timeout_ms = optional_duration_ms(guard.get("timeout"), "RPC timeout") or rpc.handler.timeout_ms or 0
        if timeout_ms > RPC_TIMEOUT_MS_MAX:
            raise ValueError(f"RPC timeout is {timeout_ms} ms, at most {RPC_TIMEOUT_MS_MAX} ms are allowed")
        message = pb.InvokeRpcRequest(
            flow_id=check_name(flow_id, "Flow ID"),
            run_id=guard.get("run_id") or "",
            name=rpc.name,
            input=encode_rpc_input(rpc, arguments),
            request_id=self.request_id(guard.get("request_id")),
            timeout_ms=timeout_ms,
            locks=rpc.handler.locks,
            is_transactional=rpc.handler.is_transactional,
        )
        codec = rpc.handler.output_codec or self._registry.codecs.resolve(Any)
        asked = ask_carrying(
            message,
            lambda body: Request("invoke_rpc", "InvokeRpc", body, _rpc_output, flow_id, budget_s=RPC_BUDGET_S),
        )
        return decoded(asked, codec, f"output of RPC {rpc.name!r}")

    def get_attribute(
        self, flow_id: str, attribute: AnyAttribute, instance: Sequence[str], *, run_id: str | None
    ) -> Conversation[Any]:
        """See Client.get_attribute."""
        codec = self._registry.codec_of(attribute)
        message = pb.GetAttributeRequest(
            flow_id=check_name(flow_id, "Flow ID"), run_id=run_id or "", key=key_of(attribute, *instance)
        )
        body = message.SerializeToString()
        asked = ask(Request("get_attribute", "GetAttribute", body, _attribute_value, flow_id))
        return decoded(asked, codec, f"Attribute {attribute.name!r}")

    def set_attribute(
        self,
        flow_id: str,
        attribute: AnyAttribute,
        arguments: Sequence[Any],
        **guard: Unpack[WriteGuard],
    ) -> Conversation[None]:
        """See Client.set_attribute; the arguments are an instance key for a map, and the value."""
        message = self.attribute_write(attribute, arguments)
        message.flow_id = check_name(flow_id, "Flow ID")
        message.run_id = guard.get("run_id") or ""
        message.request_id = self.request_id(guard.get("request_id"))
        return ask_carrying(
            message, lambda body: Request("set_attribute", "SetAttribute", body, replies.to_nothing, flow_id)
        )

    def attribute_write(self, attribute: AnyAttribute, arguments: Sequence[Any]) -> pb.SetAttributeRequest:
        """Give what is written to which Attribute, without Flow and request ID."""
        if not arguments:
            raise ValueError(f"set_attribute of {attribute.name!r} needs a value")
        *instance, value = arguments
        key = key_of(attribute, *instance)
        codec = self._registry.codec_of(attribute)
        return pb.SetAttributeRequest(
            key=key,
            value=None if value is None else encode_value(codec, value, f"set_attribute, Attribute {key!r}"),
            indexed=to_index_writes(
                self._registry.index_writes(attribute, value, f"set_attribute, Attribute {attribute.name!r}")
            ),
        )

    def publish(
        self,
        flow_id: str,
        channel: AnyChannel,
        arguments: Sequence[Any],
        **guard: Unpack[WriteGuard],
    ) -> Conversation[None]:
        """See Client.publish; the arguments are an instance key for a map, and the messages."""
        message = self.publication(channel, arguments)
        message.flow_id = check_name(flow_id, "Flow ID")
        message.run_id = guard.get("run_id") or ""
        message.request_id = self.request_id(guard.get("request_id"))
        return ask_carrying(message, lambda body: Request("publish", "Publish", body, replies.to_nothing, flow_id))

    def publication(self, channel: AnyChannel, arguments: Sequence[Any]) -> pb.PublishRequest:
        """Give what is published to which Channel, without Flow and request ID."""
        codec = self._registry.codec_of(channel)
        key, values = split_messages(channel, arguments)
        encoded = [encode_value(codec, value, f"publish, Channel {channel.name!r}") for value in values]
        return pb.PublishRequest(channel=key, values=encoded)

    def list_channel_messages(
        self, flow_id: str, channel: AnyChannel, instance: Sequence[str]
    ) -> Conversation[list[PendingMessage[Any]]]:
        """See Client.list_channel_messages."""
        codec = self._registry.codec_of(channel)
        key = channel_key(channel, *instance)
        return self._list_messages(check_name(flow_id, "Flow ID"), key, codec, f"message of Channel {channel.name!r}")

    def _list_messages(
        self, flow_id: str, key: str, codec: Codec[Any], place: str
    ) -> Conversation[list[PendingMessage[Any]]]:
        found: list[PendingMessage[Any]] = []
        has_more = True
        while has_more:
            after = found[-1].message_id if found else ""
            message = pb.ListChannelMessagesRequest(flow_id=flow_id, channel=key, after_message_id=after)
            body = message.SerializeToString()
            page = yield from ask(
                Request(
                    "list_channel_messages",
                    "ListChannelMessages",
                    body,
                    pb.ListChannelMessagesReply.FromString,
                    flow_id,
                )
            )
            for item in page.messages:
                value = decode_value(codec, (yield from load(item.value)), place)
                found.append(PendingMessage(item.message_id, value, from_instant_ms(item.published_at)))
            has_more = page.has_more
        return found

    def delete_channel_message(
        self, flow_id: str, channel: AnyChannel, arguments: Sequence[str], *, request_id: str | None
    ) -> Conversation[None]:
        """See Client.delete_channel_message; the arguments are an instance key for a map, and the message ID."""
        if not arguments:
            raise ValueError(f"delete_channel_message of {channel.name!r} needs a message ID")
        *instance, message_id = arguments
        self._registry.codec_of(channel)
        message = pb.DeleteChannelMessageRequest(
            flow_id=check_name(flow_id, "Flow ID"),
            channel=channel_key(channel, *instance),
            message_id=check_name(message_id, "message ID"),
            request_id=self.request_id(request_id),
        )
        body = message.SerializeToString()
        return ask(Request("delete_channel_message", "DeleteChannelMessage", body, replies.to_nothing, flow_id))

    def skip_timer(self, flow_id: str, step: StepExecutionId, timer: TimerId) -> Conversation[SkipTimerOutcome]:
        """See Client.skip_timer."""
        message = pb.SkipTimerRequest(
            flow_id=check_name(flow_id, "Flow ID"),
            step_execution_id=self._registry.step_execution_id(step),
            condition_id=timer.condition_id or "",
            condition_index=timer.index or 0,
            request_id=self.request_id(None),
        )
        return ask(Request("skip_timer", "SkipTimer", message.SerializeToString(), replies.to_skip_outcome, flow_id))

    def update_flow_config(self, flow_id: str, config: FlowConfig) -> Conversation[None]:
        """See Client.update_flow_config."""
        message = pb.UpdateFlowConfigRequest(
            flow_id=check_name(flow_id, "Flow ID"), config=config.to_message(), request_id=self.request_id(None)
        )
        body = message.SerializeToString()
        return ask(Request("update_flow_config", "UpdateFlowConfig", body, replies.to_nothing, flow_id))

    def trigger_continue_as_new(self, flow_id: str) -> Conversation[None]:
        """See Client.trigger_continue_as_new."""
        message = pb.TriggerContinueAsNewRequest(
            flow_id=check_name(flow_id, "Flow ID"), request_id=self.request_id(None)
        )
        body = message.SerializeToString()
        return ask(Request("trigger_continue_as_new", "TriggerContinueAsNew", body, replies.to_nothing, flow_id))

    def stop_flow(self, flow_id: str, options: StopFlowOptions | None) -> Conversation[StopResult]:
        """See Client.stop_flow."""
        options = options or StopFlowOptions()
        message = stop_request(options)
        message.flow_id = check_name(flow_id, "Flow ID")
        message.request_id = self.request_id(options.request_id)
        return ask(Request("stop_flow", "StopFlow", message.SerializeToString(), replies.to_stop_result, flow_id))

    def time_travel(self, flow_id: str, options: TimeTravelOptions) -> Conversation[str]:
        """See Client.time_travel."""
        message = self.travel(options)
        message.flow_id = check_name(flow_id, "Flow ID")
        message.request_id = self.request_id(options.request_id)
        return ask(Request("time_travel", "TimeTravel", message.SerializeToString(), replies.to_forked_run_id, flow_id))

    def travel(self, options: TimeTravelOptions) -> pb.TimeTravelRequest:
        """Give to which point, without Flow and request ID."""
        at, step = options.history_event_time, options.step_execution_id
        return pb.TimeTravelRequest(
            type=_TIME_TRAVEL_TYPE[options.type],
            history_event_time=None if at is None else to_instant_ms(at, "history_event_time"),
            step_type=None if options.step_type is None else self._registry.step_type_of(options.step_type),
            step_execution_id=None if step is None else self._registry.step_execution_id(step),
            step_method=None if options.step_method is None else _STEP_METHOD[options.step_method],
            reason=options.reason or "",
            skip_writes_reapply=options.skip_writes_reapply,
        )

    def health_check(self) -> Conversation[HealthInfo]:
        """See Client.health_check."""
        deadline = time.monotonic() + HEALTH_S_MAX
        while True:
            began = time.monotonic()
            answer = yield AskOnce(HEALTH_PATH, admin_pb.CheckHealthRequest().SerializeToString(), BUDGET_S)
            if isinstance(answer, bytes):
                return replies.to_health_info(answer, time.monotonic() - began)
            assert isinstance(answer, RemoteStatus), "an AskOnce is answered"
            if not is_transient(answer) or began >= deadline:
                raise answer.to_error("health_check")
            yield Pause(HEALTH_RETRY_S)

    def request_id(self, chosen: str | None) -> str:
        """Give the caller's request ID, or one that nobody else has.

        Random bits are drawn once per client: a system call each time would cost as much as the rest of the request.
        """
        if chosen is not None:
            return check_name(chosen, "request ID")
        return f"{self._id_prefix}-{next(self._id_numbers)}"


def _rpc_output(body: bytes) -> bytes | None:
    return pb.InvokeRpcReply.FromString(body).output or None


def _attribute_value(body: bytes) -> bytes | None:
    reply = pb.GetAttributeReply.FromString(body)
    return reply.value if reply.HasField("value") else None


def stop_request(options: StopFlowOptions) -> pb.StopFlowRequest:
    """Give how a Flow is stopped, without Flow and request ID."""
    return pb.StopFlowRequest(type=_STOP_TYPE[options.type], reason=options.reason or "")


def encode_rpc_input(rpc: RegisteredRpc, arguments: Sequence[Any]) -> bytes:
    """Encode the input of an RPC, if its handler takes one.

    Raises:
        FlowDefinitionError: there is one too many or one is missing, or it does not fit [TYPE-2].
        ValueMappingError: it cannot be encoded.
    """
    expected = int(rpc.handler.takes_input)
    place = f"Flow {rpc.flow.flow_type!r}, RPC {rpc.name!r}"
    if len(arguments) != expected:
        raise FlowDefinitionError(f"{place} takes {expected} input values, {len(arguments)} were given")
    return encode_value(rpc.handler.input_codec, arguments[0], f"{place}, input") if arguments else b""
