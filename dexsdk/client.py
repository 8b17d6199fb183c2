"""Client: everything that a program says to the server about Flows, blocking the calling thread.

The rules of every call are in `_verbs`; what is here are the signatures and what they promise. `async_client` has the
same calls as coroutines.
"""

from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from dexsdk._batch_verbs import BatchVerbs
from dexsdk._blob_transfer import GrpcBlobTransfer, new_session_key
from dexsdk._blobs import Blobs
from dexsdk._callers import BlockingCaller
from dexsdk._carriers import BlockingCarrier, StreamSource
from dexsdk._conversation import BUDGET_S
from dexsdk._durations import Duration
from dexsdk._history_watch import HistoryWatch
from dexsdk._names import check_name
from dexsdk._read_verbs import checked_event_id
from dexsdk._registry import Registry
from dexsdk._schedules import Schedules
from dexsdk._server_channel import ServerChannel
from dexsdk._verbs import RpcGuard, Verbs, WriteGuard
from dexsdk.attribute import Attribute, AttributeMap
from dexsdk.attribute_match import AttributeMatch, WaitForAttributeOptions
from dexsdk.batch import Batch
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


class Client:
    """Calls the server; safe for any number of threads, and one connection for all of them.

    Nothing is connected before the first call. A call that changes something is answered after its commit; while the
    server is away it is repeated for up to 30 s with the same request ID, then it raises DexServiceError with code
    UNAVAILABLE, and it is unknown whether it was applied [GEN-8, START-6].
    """

    def __init__(
        self, registry: Registry, blob_cache: BlobCache | None = None, options: ClientOptions | None = None
    ) -> None:
        """Make a client.

        Args:
            registry: The Flows that calls name.
            blob_cache: Where large values are kept; the caller closes it.
            options: Where to connect to.

        Raises:
            TypeError: the options stand in the place of the blob cache, or are of another kind.
        """
        options = resolve_options(ClientOptions, blob_cache, options)
        self.blob_cache = blob_cache
        open_channel = partial(
            ServerChannel, options.server_address, options.credential, options.tls, new_session_key()
        )
        channel = open_channel()
        self._channel: StreamSource = channel
        blobs = Blobs(GrpcBlobTransfer(open_channel, BUDGET_S), blob_cache)
        self._caller: BlockingCarrier = BlockingCaller(channel, blobs)
        self._verbs = Verbs(registry, load_later=blobs.load)
        self.batch = Batch(self._caller, BatchVerbs(self._verbs))
        """Operations over all Flows that a query finds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def schedules(self) -> Schedules:
        """Everything about schedules [SCHED-1]."""
        return Schedules(self._caller, self._verbs.schedules)

    @overload
    def start_flow(
        self, flow: FlowRef[None], flow_id: str, input: None = None, options: StartFlowOptions | None = None
    ) -> str: ...
    @overload
    def start_flow(
        self, flow: FlowRef[In], flow_id: str, input: In, options: StartFlowOptions | None = None
    ) -> str: ...
    def start_flow(
        self, flow: FlowRef[Any], flow_id: str, input: Any = None, options: StartFlowOptions | None = None
    ) -> str:
        """Start a Flow and return its run ID; no connected Worker is needed [START-1].

        Raises:
            FlowAlreadyStartedError: the reuse policy refuses it [START-5].
            RequestConflictError: the request ID was used for another start [START-3].
            FlowDefinitionError: the Flow is not registered, or the input does not fit it.
        """
        return self._caller.carry(self._verbs.start_flow(flow, flow_id, input, options))

    @overload
    def invoke_rpc(self, method: RpcMethod[Out], flow_id: str, /, **guard: Unpack[RpcGuard]) -> Out: ...
    @overload
    def invoke_rpc(
        self, method: RpcMethodWithInput[In, Out], flow_id: str, input: In, /, **guard: Unpack[RpcGuard]
    ) -> Out: ...
    def invoke_rpc(self, method: Any, flow_id: str, *input: Any, **guard: Unpack[RpcGuard]) -> Any:
        """Run an RPC handler on a Worker and return its output [RPC-1..8].

        Args:
            method: The method of a registered Flow, bound or taken from its class.
            flow_id: The Flow.
            input: The handler's input, if it takes one.
            guard: ``run_id``, ``request_id`` and ``timeout``.

        Raises:
            WorkerInvocationError: the handler failed; no effect was applied [RPC-3].
            NoWorkerAvailableError: no Worker took it in time.
            FlowNotActiveError: it has effects and the Flow is closed [RPC-4].
        """
        return self._caller.carry(self._verbs.invoke_rpc(method, flow_id, input, **guard))

    @overload
    def get_attribute(self, flow_id: str, attribute: Attribute[T], /, *, run_id: str | None = None) -> T | None: ...
    @overload
    def get_attribute(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, /, *, run_id: str | None = None
    ) -> T | None: ...
    def get_attribute(self, flow_id: str, attribute: Any, *instance: str, run_id: str | None = None) -> Any:
        """Return an Attribute's value or None, also of a closed Flow while it is retained [ATTR-5]."""
        return self._caller.carry(self._verbs.get_attribute(flow_id, attribute, instance, run_id=run_id))

    @overload
    def set_attribute(
        self, flow_id: str, attribute: Attribute[T], value: T | None, /, **guard: Unpack[WriteGuard]
    ) -> None: ...
    @overload
    def set_attribute(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, value: T | None, /, **guard: Unpack[WriteGuard]
    ) -> None: ...
    def set_attribute(self, flow_id: str, attribute: Any, *arguments: Any, **guard: Unpack[WriteGuard]) -> None:
        """Write an Attribute of an active Flow; None deletes it [ATTR-5]."""
        self._caller.carry(self._verbs.set_attribute(flow_id, attribute, arguments, **guard))

    @overload
    def publish(self, flow_id: str, channel: Channel[T], /, *values: T, **guard: Unpack[WriteGuard]) -> None: ...
    @overload
    def publish(
        self, flow_id: str, channel: ChannelMap[T], instance: str, /, *values: T, **guard: Unpack[WriteGuard]
    ) -> None: ...
    def publish(self, flow_id: str, channel: Any, *arguments: Any, **guard: Unpack[WriteGuard]) -> None:
        """Publish messages to a Channel of an active Flow, in order and all or none [CHAN-2]."""
        self._caller.carry(self._verbs.publish(flow_id, channel, arguments, **guard))

    def wait_for_flow(self, flow_id: str, timeout: Duration | None = None) -> FlowResult:
        """Return the result of the execution that is latest now, once it is closed [WAITAPI-2].

        Args:
            flow_id: The Flow.
            timeout: None waits without limit, 0 checks once. The wait goes on while the server is away.

        Raises:
            LongPollTimeoutError: the time ran out; nothing has changed in the Flow [WAITAPI-1].
            FlowNotFoundError: there is no such Flow.
        """
        return self._caller.carry(self._verbs.waits.wait_for_flow(flow_id, timeout))

    def wait_for_step_completion(
        self, flow_id: str, step: StepExecutionId, timeout: Duration | None = None
    ) -> StepOutcome:
        """Return how a past, present or future Step execution ended [WAITAPI-3].

        Raises:
            LongPollTimeoutError: the time ran out.
            FlowNotActiveError: the Flow closed first.
        """
        return self._caller.carry(self._verbs.waits.wait_for_step_completion(flow_id, step, timeout))

    @overload
    def list_channel_messages(self, flow_id: str, channel: Channel[T], /) -> list[PendingMessage[T]]: ...
    @overload
    def list_channel_messages(
        self, flow_id: str, channel: ChannelMap[T], instance: str, /
    ) -> list[PendingMessage[T]]: ...
    def list_channel_messages(self, flow_id: str, channel: Any, *instance: str) -> list[PendingMessage[Any]]:
        """Return the messages of a Channel that nobody has consumed, oldest first; also of a closed Flow [CHAN-9]."""
        return self._caller.carry(self._verbs.list_channel_messages(flow_id, channel, instance))

    @overload
    def delete_channel_message(
        self, flow_id: str, channel: Channel[Any], message_id: str, /, *, request_id: str | None = None
    ) -> None: ...
    @overload
    def delete_channel_message(
        self,
        flow_id: str,
        channel: ChannelMap[Any],
        instance: str,
        message_id: str,
        /,
        *,
        request_id: str | None = None,
    ) -> None: ...
    def delete_channel_message(
        self, flow_id: str, channel: Any, *arguments: str, request_id: str | None = None
    ) -> None:
        """Delete a message that nobody has consumed [CHAN-9].

        Raises:
            ChannelMessageNotFoundError: there is no such message, or it was consumed or deleted.
            FlowNotActiveError: the Flow is closed.
        """
        self._caller.carry(self._verbs.delete_channel_message(flow_id, channel, arguments, request_id=request_id))

    def skip_timer(self, flow_id: str, step: StepExecutionId, timer: TimerId) -> SkipTimerOutcome:
        """Make a Timer count as fired, now or as soon as its Step execution waits for it [TIMER-8, TIMER-9].

        Args:
            flow_id: The Flow, which must be active.
            step: The Step execution; it need not exist yet.
            timer: Which of the Wait's Timers.

        Raises:
            DexServiceError: NOT_FOUND, the Wait has no such Timer; FAILED_PRECONDITION, the Step execution has ended.
            FlowNotActiveError: the Flow is closed.
        """
        return self._caller.carry(self._verbs.skip_timer(flow_id, step, timer))

    @overload
    def wait_for_attribute_equal(
        self, flow_id: str, attribute: Attribute[T], expected: T, /, timeout: Duration | None = None
    ) -> None: ...
    @overload
    def wait_for_attribute_equal(
        self, flow_id: str, attribute: AttributeMap[T], instance: str, expected: T, /, timeout: Duration | None = None
    ) -> None: ...
    def wait_for_attribute_equal(
        self, flow_id: str, attribute: Any, *arguments: Any, timeout: Duration | None = None
    ) -> None:
        """Return once an Attribute has the value, now or after some commit to come [WAITAPI-4, WAITAPI-5].

        Raises:
            LongPollTimeoutError: the time ran out; nothing has changed in the Flow.
            FlowNotActiveError: the Flow is closed, or closed first.
        """
        self._caller.carry(self._verbs.waits.wait_for_attribute_equal(flow_id, attribute, arguments, timeout))

    @overload
    def wait_for_attribute_match(
        self,
        flow_id: str,
        attribute: Attribute[T],
        match: AttributeMatch,
        /,
        options: WaitForAttributeOptions | None = None,
    ) -> T: ...
    @overload
    def wait_for_attribute_match(
        self,
        flow_id: str,
        attribute: AttributeMap[T],
        instance: str,
        match: AttributeMatch,
        /,
        options: WaitForAttributeOptions | None = None,
    ) -> T: ...
    def wait_for_attribute_match(
        self, flow_id: str, attribute: Any, *arguments: Any, options: WaitForAttributeOptions | None = None
    ) -> Any:
        """Return the first value of an Attribute that matches; one overwritten at once may be missed [WAITAPI-5].

        Raises:
            LongPollTimeoutError: the time ran out; nothing has changed in the Flow.
            FlowNotActiveError: the Flow is closed, or closed first.
        """
        return self._caller.carry(self._verbs.waits.wait_for_attribute_match(flow_id, attribute, arguments, options))

    def stop_flow(self, flow_id: str, options: StopFlowOptions | None = None) -> StopResult:
        """End a Flow, or learn how it had ended before [STOP-1, STOP-2]."""
        return self._caller.carry(self._verbs.stop_flow(flow_id, options))

    def time_travel(self, flow_id: str, options: TimeTravelOptions) -> str:
        """Begin a run that goes on from an earlier point of the latest execution, and return its run ID [TT-1].

        The execution is RUNNING again if it was closed; a run that is open ends as TERMINATED. The Flow ID, its ordinal
        and so the idempotency keys stay: code that must act once more mixes in ``context.run_id`` [ID-9].

        Raises:
            FlowNotFoundError: there is no such Flow.
            DexServiceError: NOT_FOUND, no retained run has the point; nothing has changed [TT-3].
            RequestConflictError: the request ID was used for something else [RPC-12].
        """
        return self._caller.carry(self._verbs.time_travel(flow_id, options))

    def update_flow_config(self, flow_id: str, config: FlowConfig) -> None:
        """Change the settings that the config sets, for later dispatches of an active Flow [CFG-2]."""
        self._caller.carry(self._verbs.update_flow_config(flow_id, config))

    def trigger_continue_as_new(self, flow_id: str) -> None:
        """Let a new run continue an active Flow now, whatever its threshold; nothing of it is disturbed [ROLL-2].

        The new run has everything that the old one had, and an empty history. Running handlers go on, and calls that
        wait go on waiting.

        Raises:
            FlowNotActiveError: the Flow is closed.
        """
        self._caller.carry(self._verbs.trigger_continue_as_new(flow_id))

    def describe_flow(self, flow_id: str, *, run_id: str | None = None) -> FlowInfo:
        """Tell how a Flow, or one run of it, stands."""
        return self._caller.carry(self._verbs.reads.describe_flow(flow_id, run_id=run_id))

    def search_flows(self, query: str = "", page_size: int = 100, next_page_token: str = "") -> SearchFlowsPage:
        """Return executions that a query finds, newest start first unless it says ORDER BY [SEARCH-1..8].

        The call sees every write that was acknowledged before it. Executions that do not change meanwhile are on
        exactly one of the pages that follow each other.

        Args:
            query: In the language of docs/search.md; empty finds all.
            page_size: 1 to 1,000; a page also ends at 4 MiB.
            next_page_token: That of the page before, for the same query.

        Raises:
            InvalidQueryError: it is no query, names a field that nobody has named, or the token is not one of it.
            DexServiceError: DEADLINE_EXCEEDED, the search took longer than 5 s.
        """
        return self._caller.carry(self._verbs.reads.search_flows(query, page_size, next_page_token))

    def count_flows(self, query: str = "", *, group_by: str | None = None) -> FlowCount:
        """Count executions that a query finds, also by the values of Status, FlowType or StepStatus [SEARCH-8].

        Raises:
            InvalidQueryError: as search_flows, or there is no such group.
            DexServiceError: DEADLINE_EXCEEDED, the search took longer than 5 s.
        """
        return self._caller.carry(self._verbs.reads.count_flows(query, group_by))

    def get_flow_state(self, flow_id: str) -> FlowState:
        """Tell everything that a decision about the Flow could read now, at most 4 MiB of it [HIST-1]."""
        return self._caller.carry(self._verbs.reads.get_flow_state(flow_id))

    def explain(self, flow_id: str) -> FlowExplanation:
        """Tell why each active Step does not get on [HIST-6].

        It is what holds when the server answers; nothing is promised about a moment later.
        """
        return self._caller.carry(self._verbs.reads.explain(flow_id))

    def get_history(
        self, flow_id: str, *, run_id: str | None = None, from_event_id: int = 1, page_size: int = 1000
    ) -> HistoryPage:
        """Return a page of one run's history [HIST-5]."""
        return self._caller.carry(
            self._verbs.reads.get_history(flow_id, run_id=run_id, from_event_id=from_event_id, page_size=page_size)
        )

    def watch_history(
        self, flow_id: str, *, from_event_id: int = 1, follow_runs: bool = True
    ) -> Iterator[HistoryEvent]:
        """Give the history as it grows, until the Flow is closed; closing the iterator ends the watch [HIST-5].

        Args:
            flow_id: The Flow; the watch begins with its latest run.
            from_event_id: The first event of that run to give.
            follow_runs: Go on with the run that follows at a roll-over or a retry of the Flow, from its first event on.
                Event IDs begin anew there. Without it the watch ends with the run.

        Returns:
            Events in order, each once, over breaks of the connection too. The last one is the FlowClosed of the last
            run, whose data names the status.

        Raises:
            FlowNotFoundError: there is no such Flow.
        """
        watch = HistoryWatch(
            self._channel,
            check_name(flow_id, "Flow ID"),
            checked_event_id(from_event_id),
            follow_runs=follow_runs,
        )
        return watch.events()

    def health_check(self) -> HealthInfo:
        """Check the whole path: connection, a durable write, the clock [OBS-4]."""
        return self._caller.carry(self._verbs.health_check())

    def close(self) -> None:
        """End all calls and release the connection; may be repeated."""
        self._caller.close()
