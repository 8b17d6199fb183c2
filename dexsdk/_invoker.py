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
from dexsdk._failure_log import log_failure
from dexsdk._fetching import FetchSource
from dexsdk._handlers import find_handlers, key_of
from dexsdk._registered import Handler
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
        self._handlers = find_handlers(registry)
        self._blobs = blobs
        self.frame_bytes_max = frame_bytes_max
        self._small_bytes = min(THRESHOLD_BYTES_MIN, frame_bytes_max // 2)

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
        found = self._handlers.get(key_of(assign))
        if found is None:
            return frames.Decline(assign.stream, assign.token, self._refusal(assign))
        flow, handler = found
        call = Call(assign, flow, handler.output_codec, heartbeats, source, self._blobs)
        try:
            value = call.decode(handler.input_codec, assign.input, "input") if handler.takes_input else None
        except Exception as error:  # noqa: BLE001 -- own codecs may raise anything; it is a failed attempt
            return _failed(call, error)
        return PreparedCall(call, handler, value, self._small_bytes, self.frame_bytes_max)

    def _refusal(self, assign: frames.Assign) -> str:
        if self._registry.find(assign.flow_type) is None:
            return frames.DECLINE_UNKNOWN_FLOW
        return frames.DECLINE_UNKNOWN_RPC if assign.token.method == frames.METHOD_RPC else frames.DECLINE_UNKNOWN_STEP


class PreparedCall(msgspec.Struct, eq=False):
    """A call whose handler is about to run, once: by ``run``, or by ``run_async`` when ``is_async``."""

    _call: Call
    _handler: Handler
    _input: Any
    _small_bytes: int
    """Up to so many bytes of payload a response needs no further look at its size; nearly none has more."""
    _frame_bytes_max: int

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

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

    def request_cancellation(self) -> None:
        """Let the handler see that its result is not wanted [STOP-5]; any thread may call this, before or during."""
        self._call.is_cancellation_requested = True

    def run(self) -> Response:
        """Call a sync handler and give the frame to send; exceptions of the handler become Failed.

        Only KeyboardInterrupt and GeneratorExit, which are not the handler's own, come through.
        """
        reset = current_call.set(self._call)
        try:
            preload = self._call.assign.preload or self._handler.preload  # A Step's options say it, an RPC's own code.
            if preload:
                self._call.preload(preload)
            response = self._respond(self._start())
            size = _payload_bytes(response)
            if size > self._small_bytes:
                if self._may_offload(size):
                    response = self._offloaded(response)
                    size = _payload_bytes(response)
                self._check_size(response, size)
        except BaseException as error:  # noqa: BLE001 -- sys.exit in a handler is a failed attempt as well
            return self._fail(error)
        else:
            return response
        finally:
            self._call.is_open = False
            current_call.reset(reset)

    async def run_async(self) -> Response:
        """Await an async handler and give the frame to send; exceptions of the handler become Failed.

        For a task that runs nothing else: the call stays the current one of its context. CancelledError comes through
        once cancellation was requested, and is a failed attempt otherwise.
        """
        current_call.set(self._call)
        try:
            preload = self._call.assign.preload or self._handler.preload  # A Step's options say it, an RPC's own code.
            if preload:
                await asyncio.to_thread(self._call.preload, preload)
            response = self._respond(await self._start())
            size = _payload_bytes(response)
            if size > self._small_bytes:
                if self._may_offload(size):
                    response = await asyncio.to_thread(self._offloaded, response)
                    size = _payload_bytes(response)
                self._check_size(response, size)
        except BaseException as error:  # noqa: BLE001 -- sys.exit in a handler is a failed attempt as well
            return self._fail(error)
        else:
            return response
        finally:
            self._call.is_open = False

    def failed(self, error: BaseException) -> frames.Failed:
        """Give the frame for a call that the transport could not run or had to abandon."""
        return _failed(self._call, error)

    def _start(self) -> Any:
        handler, context = self._handler, Context(self._call)
        return handler.function(context, self._input) if handler.takes_input else handler.function(context)

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
        assign = call.assign
        token = assign.token
        wait, decision, output, next_steps = _ENCODE_RESULT[token.method](call, result)
        return frames.Output(
            assign.stream,
            token,
            wait,
            decision,
            tuple(call.written.items()) if call.written else (),
            tuple(call.publications) if call.publications else (),
            tuple(call.locals.items()) if call.locals else (),
            tuple(call.recorded.items()) if call.recorded else (),
            output,
            next_steps,
            tuple(call.deletions) if call.deletions else (),
            call.canceling,
            tuple(call.indexed.values()) if call.indexed else (),
        )

    def _may_offload(self, size: int) -> bool:
        """Whether any value may be too large to travel inline."""
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

    def _check_size(self, response: frames.Output, size: int) -> None:
        """Refuse a response that does not fit into a frame; what was uploaded does not count.

        Raises:
            ValueTooLargeError: it does not [LIM-3].
        """
        # Payloads are nearly all of a frame; only one that comes near the limit is worth measuring exactly.
        if size > self._frame_bytes_max // 2:
            size = max(size, len(msgspec.msgpack.encode(response)))
        if size > self._frame_bytes_max:
            raise ValueTooLargeError.of("response", self._call.place, size, self._frame_bytes_max)


_Result: TypeAlias = tuple[frames.Wait | None, frames.Decision | None, bytes, tuple[frames.Movement, ...]]
"""The fields of Output that depend on the method: wait, decision, output, next_steps."""


def _failed(call: Call, error: BaseException) -> frames.Failed:
    failure = describe_failure(error)
    log_failure(call, error, failure)
    return frames.Failed(call.assign.stream, call.assign.token, failure)


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


def _payload_bytes(response: frames.Output) -> int:
    # Most responses have nothing in most places, and to look whether there is something costs less than to go over it.
    size = len(response.output)
    decision = response.decision
    if decision is not None:
        size += len(decision.output) + len(decision.reason)
        for movement in decision.movements:
            size += len(movement.input)
    if response.next_steps:
        size += sum(len(movement.input) for movement in response.next_steps)
    if response.publications or response.locals or response.recorded:
        size += sum(len(data) for _, data in (*response.publications, *response.locals, *response.recorded))
    if response.writes:
        size += sum(len(written) for _, written in response.writes if written is not None)
    if response.wait is not None and response.wait.sub_flows:
        size += sum(_sub_flow_bytes(child) for child in response.wait.sub_flows)
    return size


def _sub_flow_bytes(child: frames.SubFlow) -> int:
    return len(child.start_step.input) + sum(len(data) for _, data in child.attributes)
