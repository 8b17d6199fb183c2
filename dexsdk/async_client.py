"""AsyncClient: the calls of Client as coroutines; see there for what they promise.

One client may be used from several event loops. A loop that blocks holds up its own answers and nobody else's.
"""

from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from dexsdk._batch_verbs import BatchVerbs
from dexsdk._blob_transfer import GrpcBlobTransfer, new_session_key
from dexsdk._blobs import Blobs
from dexsdk._callers import LoopCaller
from dexsdk._carriers import AsyncCarrier, StreamSource
from dexsdk._conversation import BUDGET_S
from dexsdk._durations import Duration
from dexsdk._history_watch import HistoryWatch, iterate
from dexsdk._names import check_name
from dexsdk._read_verbs import checked_event_id
from dexsdk._registry import Registry
from dexsdk._schedules import AsyncSchedules
from dexsdk._server_channel import ServerChannel
from dexsdk._verbs import RpcGuard, Verbs, WriteGuard
from dexsdk.attribute import Attribute, AttributeMap
from dexsdk.attribute_match import AttributeMatch, WaitForAttributeOptions
from dexsdk.batch import AsyncBatch
from dexsdk.blob_cache import BlobCache
from dexsdk.channel import Channel, ChannelMap
from dexsdk.connection import ClientOptions, resolve_options
from dexsdk.flow import FlowRef
from dexsdk.flow_config import FlowConfig
from dexsdk.flow_state import FlowExplanation, FlowState
from dexsdk.options import StartFlowOptions, StopFlowOptions
from dexsdk.results import (
    FlowCount,
    FlowInfo,
    FlowResult,
    HealthInfo,
    HistoryEvent,
    HistoryPage,
    PendingMessage,
    SearchFlowsPage,
    StopResult,
)
from dexsdk.rpc import RpcMethod, RpcMethodWithInput
from dexsdk.status import SkipTimerOutcome, StepOutcome
from dexsdk.step_execution import StepExecutionId
from dexsdk.time_travel import TimeTravelOptions
from dexsdk.timer import TimerId

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")


class AsyncClient:
    """Calls the server without blocking; see Client."""

    def __init__(
        self, registry: Registry, blob_cache: BlobCache | None = None, options: ClientOptions | None = None
    ) -> None:
        """Make a client; see Client for the arguments."""
        options = resolve_options(ClientOptions, blob_cache, options)
        self.blob_cache = blob_cache
        open_channel = partial(
            ServerChannel, options.server_address, options.credential, options.tls, new_session_key()
        )
        channel = open_channel()
        self._channel: StreamSource = channel
        blobs = Blobs(GrpcBlobTransfer(open_channel, BUDGET_S), blob_cache)
        self._caller: AsyncCarrier = LoopCaller(channel, blobs)
        self._verbs = Verbs(registry)
        self.batch = AsyncBatch(self._caller, BatchVerbs(self._verbs))
        """Operations over all Flows that a query finds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def schedules(self) -> AsyncSchedules:
        """See Client."""
        return AsyncSchedules(self._caller, self._verbs.schedules)

    @overload
    async def start_flow(
        self, flow: FlowRef[None], flow_id: str, input: None = None, options: StartFlowOptions | None = None
    ) -> str: ...
    @overload
    async def start_flow(
        self, flow: FlowRef[In], flow_id: str, input: In, options: StartFlowOptions | None = None
    ) -> str: ...
    async def start_flow(
        self, flow: FlowRef[Any], flow_id: str, input: Any = None, options: StartFlowOptions | None = None
    ) -> str:
        """See Client."""
        return await self._caller.carry(self._verbs.start_flow(flow, flow_id, input, options))

    @overload
    async def invoke_rpc(self, method: RpcMethod[Out], flow_id: str, /, **guard: Unpack[RpcGuard]) -> Out: ...
    @overload
    async def invoke_rpc(
        self, method: RpcMethodWithInput[In, Out], flow_id: str, input: In, /, **guard: Unpack[RpcGuard]
    ) -> Out: ...
    async def invoke_rpc(self, method: Any, flow_id: str, *input: Any, **guard: Unpack[RpcGuard]) -> Any:
        """See Client."""
        return await self._caller.carry(self._verbs.invoke_rpc(method, flow_id, input, **guard))

    @overload
    async def get_attribute(
        self, flow_id: str, attribute: Attribute[T], /, *, run_id: str | None = None
    ) -> T | None: ...
    @overload
    async def get_attribute(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, /, *, run_id: str | None = None
    ) -> T | None: ...
    async def get_attribute(self, flow_id: str, attribute: Any, *instance: str, run_id: str | None = None) -> Any:
        """See Client."""
        return await self._caller.carry(self._verbs.get_attribute(flow_id, attribute, instance, run_id=run_id))

    @overload
    async def set_attribute(
        self, flow_id: str, attribute: Attribute[T], value: T | None, /, **guard: Unpack[WriteGuard]
    ) -> None: ...
    @overload
    async def set_attribute(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, value: T | None, /, **guard: Unpack[WriteGuard]
    ) -> None: ...
    async def set_attribute(self, flow_id: str, attribute: Any, *arguments: Any, **guard: Unpack[WriteGuard]) -> None:
        """See Client."""
        await self._caller.carry(self._verbs.set_attribute(flow_id, attribute, arguments, **guard))

    @overload
    async def publish(self, flow_id: str, channel: Channel[T], /, *values: T, **guard: Unpack[WriteGuard]) -> None: ...
    @overload
    async def publish(
        self, flow_id: str, channel: ChannelMap[T], instance: str, /, *values: T, **guard: Unpack[WriteGuard]
    ) -> None: ...
    async def publish(self, flow_id: str, channel: Any, *arguments: Any, **guard: Unpack[WriteGuard]) -> None:
        """See Client."""
        await self._caller.carry(self._verbs.publish(flow_id, channel, arguments, **guard))

    async def wait_for_flow(self, flow_id: str, timeout: Duration | None = None) -> FlowResult:
        """See Client."""
        return await self._caller.carry(self._verbs.waits.wait_for_flow(flow_id, timeout))

    async def wait_for_step_completion(
        self, flow_id: str, step: StepExecutionId, timeout: Duration | None = None
    ) -> StepOutcome:
        """See Client."""
        return await self._caller.carry(self._verbs.waits.wait_for_step_completion(flow_id, step, timeout))

    @overload
    async def list_channel_messages(self, flow_id: str, channel: Channel[T], /) -> list[PendingMessage[T]]: ...
    @overload
    async def list_channel_messages(
        self, flow_id: str, channel: ChannelMap[T], instance: str, /
    ) -> list[PendingMessage[T]]: ...
    async def list_channel_messages(self, flow_id: str, channel: Any, *instance: str) -> list[PendingMessage[Any]]:
        """See Client."""
        return await self._caller.carry(self._verbs.list_channel_messages(flow_id, channel, instance))

    @overload
    async def delete_channel_message(
        self, flow_id: str, channel: Channel[Any], message_id: str, /, *, request_id: str | None = None
    ) -> None: ...
    @overload
    async def delete_channel_message(
        self,
        flow_id: str,
        channel: ChannelMap[Any],
        instance: str,
        message_id: str,
        /,
        *,
        request_id: str | None = None,
    ) -> None: ...
    async def delete_channel_message(
        self, flow_id: str, channel: Any, *arguments: str, request_id: str | None = None
    ) -> None:
        """See Client."""
        await self._caller.carry(self._verbs.delete_channel_message(flow_id, channel, arguments, request_id=request_id))

    async def skip_timer(self, flow_id: str, step: StepExecutionId, timer: TimerId) -> SkipTimerOutcome:
        """See Client."""
        return await self._caller.carry(self._verbs.skip_timer(flow_id, step, timer))

    @overload
    async def wait_for_attribute_equal(
        self, flow_id: str, attribute: Attribute[T], expected: T, /, timeout: Duration | None = None
    ) -> None: ...
    @overload
    async def wait_for_attribute_equal(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, expected: T, /, timeout: Duration | None = None
    ) -> None: ...
    async def wait_for_attribute_equal(
        self, flow_id: str, attribute: Any, *arguments: Any, timeout: Duration | None = None
    ) -> None:
        """See Client.wait_for_attribute_equal."""
        await self._caller.carry(self._verbs.waits.wait_for_attribute_equal(flow_id, attribute, arguments, timeout))

    @overload
    async def wait_for_attribute_match(
        self,
        flow_id: str,
        attribute: Attribute[T],
        match: AttributeMatch,
        /,
        options: WaitForAttributeOptions | None = None,
    ) -> T: ...
    @overload
    async def wait_for_attribute_match(
        self,
        flow_id: str,
        attribute: AttributeMap[T],
        instance: str,
        match: AttributeMatch,
        /,
        options: WaitForAttributeOptions | None = None,
    ) -> T: ...
    async def wait_for_attribute_match(
        self, flow_id: str, attribute: Any, *arguments: Any, options: WaitForAttributeOptions | None = None
    ) -> Any:
        """See Client.wait_for_attribute_match."""
        return await self._caller.carry(
            self._verbs.waits.wait_for_attribute_match(flow_id, attribute, arguments, options)
        )

    async def stop_flow(self, flow_id: str, options: StopFlowOptions | None = None) -> StopResult:
        """See Client."""
        return await self._caller.carry(self._verbs.stop_flow(flow_id, options))

    async def time_travel(self, flow_id: str, options: TimeTravelOptions) -> str:
        """See Client.time_travel."""
        return await self._caller.carry(self._verbs.time_travel(flow_id, options))

    async def update_flow_config(self, flow_id: str, config: FlowConfig) -> None:
        """See Client.update_flow_config."""
        await self._caller.carry(self._verbs.update_flow_config(flow_id, config))

    async def trigger_continue_as_new(self, flow_id: str) -> None:
        """See Client.trigger_continue_as_new."""
        await self._caller.carry(self._verbs.trigger_continue_as_new(flow_id))

    async def describe_flow(self, flow_id: str, *, run_id: str | None = None) -> FlowInfo:
        """See Client."""
        return await self._caller.carry(self._verbs.reads.describe_flow(flow_id, run_id=run_id))

    async def search_flows(self, query: str = "", page_size: int = 100, next_page_token: str = "") -> SearchFlowsPage:
        """See Client."""
        return await self._caller.carry(self._verbs.reads.search_flows(query, page_size, next_page_token))

    async def count_flows(self, query: str = "", *, group_by: str | None = None) -> FlowCount:
        """See Client."""
        return await self._caller.carry(self._verbs.reads.count_flows(query, group_by))

    async def get_flow_state(self, flow_id: str) -> FlowState:
        """See Client."""
        return await self._caller.carry(self._verbs.reads.get_flow_state(flow_id))

    async def explain(self, flow_id: str) -> FlowExplanation:
        """See Client."""
        return await self._caller.carry(self._verbs.reads.explain(flow_id))

    async def get_history(
        self, flow_id: str, *, run_id: str | None = None, from_event_id: int = 1, page_size: int = 1000
    ) -> HistoryPage:
        """See Client."""
        return await self._caller.carry(
            self._verbs.reads.get_history(flow_id, run_id=run_id, from_event_id=from_event_id, page_size=page_size)
        )

    def watch_history(
        self, flow_id: str, *, from_event_id: int = 1, follow_runs: bool = True
    ) -> AsyncIterator[HistoryEvent]:
        """See Client."""
        watch = HistoryWatch(
            self._channel,
            check_name(flow_id, "Flow ID"),
            checked_event_id(from_event_id),
            follow_runs=follow_runs,
        )
        return iterate(watch)

    async def health_check(self) -> HealthInfo:
        """See Client."""
        return await self._caller.carry(self._verbs.health_check())

    async def close(self) -> None:
        """See Client."""
        await self._caller.close()
