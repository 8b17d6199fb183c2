"""From an assigned call through the handler's run to the response frame.

The transport calls ``prepare`` with every Assign and gets either a frame to send at once, or a PreparedCall that it
runs on a thread or as a coroutine and whose result is the frame to send. No rule of the flow model lives in the
transport, and nothing here knows of sessions, threads or clocks.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dexpb.v1 import frames
from dexpb.v1.blobs import THRESHOLD_BYTES_MIN
from dexsdk._blob_frames import values_of, with_values
from dexsdk._blobs import Blobs
from dexsdk._call import Call, HeartbeatOutlet, current_call
from dexsdk._failure import describe_failure
from dexsdk._fetching import FetchSource
from dexsdk._registered import Handler, RegisteredFlow
from dexsdk._registry import Registry
from dexsdk.channel import ChannelCondition
from dexsdk.context import Context
from dexsdk.decision import StepDecision, step_types_of
from dexsdk.errors import InvalidStepResultError, ValueTooLargeError
from dexsdk.rpc import RPCResult
from dexsdk.sub_flow import SubFlow
from dexsdk.wait import Wait

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Size of one response frame [LIM-1]."""

Response: TypeAlias = frames.Output | frames.Failed
"""What answers a call whose handler was to run."""


class Invoker:
    """Prepares calls for the handlers of a registry."""

    def __init__(
        self, registry: Registry, blobs: Blobs | None = None, *, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        """Take the registry.

        Args:
            registry: The Flows served.
            blobs: Where large values go and come from; without it everything travels inline.
            frame_bytes_max: Largest response frame, as the server's Welcome gives it.
        """
        self._registry = registry
        self._blobs = blobs
        self.frame_bytes_max = frame_bytes_max

    def prepare(
        self,
        assign: frames.Assign,
        heartbeats: HeartbeatOutlet | None = None,
        source: FetchSource | None = None,
    ) -> "PreparedCall | frames.Decline | frames.Failed":
        """Find the handler and decode its input.

        Args:
            assign: The frame that assigns the call.
            heartbeats: Where the handler's heartbeats go.
            source: Where what the call only refers to is fetched.

        Returns:
            A Decline for a Flow, Step or RPC that the registry does not have [ROUTE-5]; a Failed when the input does
            not fit [VAL-5]; otherwise the call, ready to run. No handler was started in any case.
        """
        flow = self._registry.find(assign.flow_type)
        if flow is None:
            return frames.Decline(assign.stream, assign.token, frames.DECLINE_UNKNOWN_FLOW)
        handler = _find_handler(flow, assign)
        if handler is None:
            is_rpc = assign.token.method == frames.METHOD_RPC
            reason = frames.DECLINE_UNKNOWN_RPC if is_rpc else frames.DECLINE_UNKNOWN_STEP
            return frames.Decline(assign.stream, assign.token, reason)
        call = Call(assign, flow, handler.output_codec, heartbeats, source, self._blobs)
        try:
            value = call.decode(handler.input_codec, assign.input, "input") if handler.takes_input else None
        except Exception as error:  # noqa: BLE001 -- own codecs may raise anything; it is a failed attempt
            return frames.Failed(assign.stream, assign.token, describe_failure(error))
        return PreparedCall(call, handler, value, self.frame_bytes_max)


class PreparedCall:
    """A call whose handler is about to run, once: by ``run``, or by ``run_async`` when ``is_async``."""

    __slots__ = ("_call", "_context", "_frame_bytes_max", "_handler", "_input")

    def __init__(self, call: Call, handler: Handler, input: Any, frame_bytes_max: int) -> None:
        self._call = call
        self._handler = handler
        self._input = input
        self._context = Context(call)
        self._frame_bytes_max = frame_bytes_max

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return self._handler.is_async

    @property
    def assign(self) -> frames.Assign:
        """The frame that assigned the call."""
        return self._call.assign

    @property
    def place(self) -> str:
        """Flow type, Step or RPC, and method, for log lines and warnings."""
        return self._call.place

    @property
    def _preload(self) -> tuple[str, ...]:
        """What is to be fetched before the handler is called: a Step's options say it, an RPC's own code."""
        return self._call.assign.preload or self._handler.preload

    def request_cancellation(self) -> None:
        """Let the handler see that its result is not wanted [STOP-5]; any thread may call this, before or during."""
        self._call.is_cancellation_requested = True

    def run(self) -> Response:
        """Call a sync handler and give the frame to send; exceptions of the handler become Failed.

        Only KeyboardInterrupt and GeneratorExit, which are not the handler's own, come through.
        """
        reset = current_call.set(self._call)
        try:
            if self._preload:
                self._call.preload(self._preload)
            response = self._respond(self._start())
            size = _payload_bytes(response)
            if self._may_offload(size):
                response = self._offloaded(response)
                size = _payload_bytes(response)
            return self._checked(response, size)
        except BaseException as error:  # noqa: BLE001 -- sys.exit in a handler is a failed attempt as well
            return self._fail(error)
        finally:
            self._call.is_open = False
            current_call.reset(reset)

    async def run_async(self) -> Response:
        """Await an async handler and give the frame to send; exceptions of the handler become Failed.

        CancelledError comes through once cancellation was requested, and is a failed attempt otherwise.
        """
        reset = current_call.set(self._call)
        try:
            if self._preload:
                await asyncio.to_thread(self._call.preload, self._preload)
            response = self._respond(await self._start())
            size = _payload_bytes(response)
            if self._may_offload(size):
                response = await asyncio.to_thread(self._offloaded, response)
                size = _payload_bytes(response)
            return self._checked(response, size)
        except BaseException as error:  # noqa: BLE001 -- sys.exit in a handler is a failed attempt as well
            return self._fail(error)
        finally:
            self._call.is_open = False
            current_call.reset(reset)

    def failed(self, error: BaseException) -> frames.Failed:
        """Give the frame for a call that the transport could not run or had to abandon."""
        return frames.Failed(self.assign.stream, self.assign.token, describe_failure(error))

    def _start(self) -> Any:
        function = self._handler.function
        return function(self._context, self._input) if self._handler.takes_input else function(self._context)

    def _fail(self, error: BaseException) -> frames.Failed:
        is_cancellation = isinstance(error, asyncio.CancelledError) and self._call.is_cancellation_requested
        if is_cancellation or isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise error
        return self.failed(error)

    def _respond(self, result: object) -> frames.Output:
        """Turn the handler's result and its buffered effects into one frame.

        Raises:
            InvalidStepResultError: the result is of another class than the method returns [STEP-7].
            FlowDefinitionError: the result names what the Flow does not declare.
        """
        call = self._call
        wait, decision, output, next_steps = _ENCODE_RESULT[call.assign.token.method](call, result)
        return frames.Output(
            call.assign.stream,
            call.assign.token,
            wait,
            decision,
            tuple(call.written.items()) if call.written else (),
            tuple(call.publications),
            tuple(call.locals.items()) if call.locals else (),
            tuple(call.recorded.items()) if call.recorded else (),
            output,
            next_steps,
            tuple(call.deletions),
            call.canceling,
            tuple(call.indexed.values()) if call.indexed else (),
        )

    def _may_offload(self, size: int) -> bool:
        """Whether any value may be too large to travel inline; most responses are small as a whole."""
        return size > THRESHOLD_BYTES_MIN and self._call.blobs is not None and self._call.blobs.may_offload(size)

    def _offloaded(self, response: frames.Output) -> frames.Output:
        """Upload the large values of a response, and give it with references in their place [BLOB-2].

        Raises:
            ValueTooLargeError: a value exceeds what the server takes.
            DexServiceError: the server took one not, or nobody waits for the response any more.
        """
        call = self._call
        assert call.blobs is not None
        return with_values(response, call.blobs.offload(values_of(response), call.is_wanted))

    def _checked(self, response: frames.Output, size: int) -> frames.Output:
        """Give the response if it fits into a frame; what was uploaded does not count.

        Raises:
            ValueTooLargeError: it does not [LIM-3].
        """
        # Payloads are nearly all of a frame; only one that comes near the limit is worth measuring exactly.
        if size > self._frame_bytes_max // 2:
            size = max(size, len(msgspec.msgpack.encode(response)))
        if size > self._frame_bytes_max:
            raise ValueTooLargeError.of("response", self._call.place, size, self._frame_bytes_max)
        return response


_Result: TypeAlias = tuple[frames.Wait | None, frames.Decision | None, bytes, tuple[frames.Movement, ...]]
"""The fields of Output that depend on the method: wait, decision, output, next_steps."""


def _encode_wait_for_result(call: Call, result: object) -> _Result:
    if not isinstance(result, Wait):
        raise _invalid_result(call, result, "a Wait")
    for condition in result.conditions:
        if isinstance(condition, ChannelCondition):
            call.scope.codec_of(condition.channel)
    wait = result.to_frame()
    sub_flows = tuple(call.scope.encode_sub_flow(c) for c in result.conditions if isinstance(c, SubFlow))
    if sub_flows:
        wait = msgspec.structs.replace(wait, sub_flows=sub_flows)
    return wait, None, b"", ()


def _encode_execute_result(call: Call, result: object) -> _Result:
    if not isinstance(result, StepDecision):
        raise _invalid_result(call, result, "a StepDecision")
    return None, result.to_frame(call), b"", ()


def _encode_rpc_result(call: Call, result: object) -> _Result:
    if result is None:
        return None, None, b"", ()
    if not isinstance(result, RPCResult):
        raise _invalid_result(call, result, "an RPCResult or None")
    data = result.data
    if data is None:
        codec = call.output_codec or call.scope.codecs.codec_of(result.output)
        data = call.encode(codec, result.output, "output")
    call.canceling = step_types_of(call.scope, result.canceling_steps)
    return None, None, data, tuple(movement.to_frame(call.scope) for movement in result.next_steps)


_ENCODE_RESULT: Mapping[int, Callable[[Call, object], _Result]] = {
    frames.METHOD_WAIT_FOR: _encode_wait_for_result,
    frames.METHOD_EXECUTE: _encode_execute_result,
    frames.METHOD_RPC: _encode_rpc_result,
}


def _invalid_result(call: Call, result: object, expected: str) -> InvalidStepResultError:
    if inspect.iscoroutine(result):
        # It would warn that it was never awaited, long after the report that says why.
        result.close()
        return InvalidStepResultError(f"{call.place} returned a coroutine from a function that is not async")
    return InvalidStepResultError(f"{call.place} returned {type(result).__name__}, not {expected}")


def _find_handler(flow: RegisteredFlow, assign: frames.Assign) -> Handler | None:
    if assign.token.method == frames.METHOD_RPC:
        return flow.rpcs.get(assign.name)
    step = flow.steps.get(assign.name)
    if step is None:
        return flow.timeout_handler if assign.name == frames.TIMEOUT_HANDLER else None
    return step.wait_for if assign.token.method == frames.METHOD_WAIT_FOR else step.execute


def _payload_bytes(response: frames.Output) -> int:
    # Plain loops: most responses have nothing in most places, and a generator would cost more than it sums up.
    size = len(response.output)
    decision = response.decision
    if decision is not None:
        size += len(decision.output) + len(decision.reason)
        for movement in decision.movements:
            size += len(movement.input)
    for movement in response.next_steps:
        size += len(movement.input)
    for pairs in (response.publications, response.locals, response.recorded):
        for _, data in pairs:
            size += len(data)
    for _, written in response.writes:
        if written is not None:
            size += len(written)
    if response.wait is not None:
        for child in response.wait.sub_flows:
            size += len(child.start_step.input)
            for _, data in child.attributes:
                size += len(data)
    return size
