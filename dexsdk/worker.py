"""Worker and AsyncWorker: a process's end of the pull protocol, with the Flows that it serves."""

import asyncio
from collections.abc import Callable
from functools import partial

from dexsdk._blob_transfer import GrpcBlobTransfer, new_session_key
from dexsdk._blobs import Blobs
from dexsdk._durations import Duration, optional_duration_ms
from dexsdk._engine import WorkerEngine
from dexsdk._handlers import find_async_handlers
from dexsdk._readiness import PullQueueState, PullRegistrationState
from dexsdk._registry import Registry
from dexsdk._runners import LoopRunner, ThreadRunner
from dexsdk._server_channel import ServerChannel
from dexsdk.blob_cache import BlobCache
from dexsdk.connection import WorkerOptions, resolve_options
from dexsdk.errors import FlowDefinitionError

__all__ = ["AsyncWorker", "PullQueueState", "PullRegistrationState", "Worker"]


class Worker:
    """Serves sync handlers, each in a thread of its own [REG-2].

    It can be started once. All methods may be called from any thread. No signal handlers are installed [DRAIN-1].
    """

    def __init__(
        self, registry: Registry, blob_cache: BlobCache | None = None, options: WorkerOptions | None = None
    ) -> None:
        """Make a worker; nothing is connected yet.

        Args:
            registry: The Flows to serve.
            blob_cache: Where large values are kept; the caller closes it.
            options: Where to connect to and how much to take on.

        Raises:
            FlowDefinitionError: a handler is a coroutine.
            TypeError: the options stand in the place of the blob cache, or are of another kind.
            ValueError: the RPC reserve does not fit the task limit [RES-1].
        """
        coroutines = find_async_handlers(registry)
        if coroutines:
            names = ", ".join(sorted({f"{flow_type}.{name}" for flow_type, name, _ in coroutines}))
            raise FlowDefinitionError(f"Worker serves sync handlers only, AsyncWorker serves coroutines: {names}")
        self.blob_cache = blob_cache
        options = resolve_options(WorkerOptions, blob_cache, options)
        open_channel = channel_opener(options)
        blobs = Blobs(GrpcBlobTransfer(open_channel, None), blob_cache)
        self._engine = new_engine(registry, options, ThreadRunner(registry, blobs), open_channel, blobs)

    @property
    def pull_reserved_rpc_declines(self) -> int:
        """Steps declined only because of the RPC reserve; never reset, readable after the end [RES-6]."""
        return self._engine.reserve_declines

    def start(self) -> None:
        """Serve until `stop` is called from elsewhere; an interrupt drains first, a second one does not.

        Raises:
            DexServiceError: the server refused this worker for good, e.g. a newer one has its ID [QUEUE-2, QUEUE-5].
            PullRegistrationError: a queue was refused for good and the options ask to stop then [READY-7].
            RuntimeError: the worker was started or stopped before.
        """
        ended = self._engine.ended()
        self._engine.start()
        try:
            ended.result()
        except BaseException:
            self._engine.stop()
            ended.result()
            raise
        if self._engine.failure is not None:
            raise self._engine.failure

    def wait_pull_registered(self, timeout: Duration | None = None) -> None:
        """Return once every queue was registered; may be called before `start` [READY-1, READY-2].

        Args:
            timeout: None waits without limit.

        Raises:
            TimeoutError: the time ran out; it names the queues that are left and how the last connection ended.
            PullRegistrationError: the server refused a queue for good [READY-3].
            DexServiceError: the server refused this worker for good.
            RuntimeError: the worker was stopped first.
        """
        waiter = self._engine.registered()
        try:
            waiter.result(_seconds(timeout))
        except TimeoutError as error:
            raise TimeoutError(self._engine.describe_registration()) from error

    def pull_registration_state(self) -> PullRegistrationState:
        """Tell how the queues stand now [READY-4, READY-5]."""
        return self._engine.registration_state

    def stop(self) -> None:
        """Drain and return when nothing of the worker is left [DRAIN-1]; may be repeated."""
        ended = self._engine.ended()
        self._engine.stop()
        ended.result()

    def close(self) -> None:
        """Stop."""
        self.stop()


class AsyncWorker:
    """Serves coroutines as tasks of the loop that called `start`, and sync handlers in threads [REG-2].

    It can be started once. A handler that blocks the loop delays other coroutines, not the worker's session.
    """

    def __init__(
        self, registry: Registry, blob_cache: BlobCache | None = None, options: WorkerOptions | None = None
    ) -> None:
        """Make a worker; nothing is connected yet. See Worker for the arguments.

        Raises:
            TypeError: the options stand in the place of the blob cache, or are of another kind.
            ValueError: the RPC reserve does not fit the task limit [RES-1].
        """
        self.blob_cache = blob_cache
        options = resolve_options(WorkerOptions, blob_cache, options)
        open_channel = channel_opener(options)
        blobs = Blobs(GrpcBlobTransfer(open_channel, None), blob_cache)
        self._runner = LoopRunner(registry, blobs)
        self._engine = new_engine(registry, options, self._runner, open_channel, blobs)

    @property
    def pull_reserved_rpc_declines(self) -> int:
        """See Worker."""
        return self._engine.reserve_declines

    async def start(self) -> None:
        """Serve until `stop` is called; see Worker for what it raises.

        Cancelling it ends the worker without a period in which handlers may finish.
        """
        self._runner.bind(asyncio.get_running_loop())
        self._engine.start()
        try:
            await asyncio.wrap_future(self._engine.ended())
        except asyncio.CancelledError:
            self._engine.abort()
            await asyncio.wrap_future(self._engine.ended())
            raise
        if self._engine.failure is not None:
            raise self._engine.failure

    async def wait_pull_registered(self, timeout: Duration | None = None) -> None:
        """Return once every queue was registered; see Worker. Cancelling it cancels only this wait [READY-2]."""
        waiter = asyncio.wrap_future(self._engine.registered())
        try:
            await asyncio.wait_for(waiter, _seconds(timeout))
        except TimeoutError as error:
            raise TimeoutError(self._engine.describe_registration()) from error

    def pull_registration_state(self) -> PullRegistrationState:
        """See Worker."""
        return self._engine.registration_state

    async def stop(self) -> None:
        """Drain and return when nothing of the worker is left [DRAIN-1]; may be repeated."""
        ended = self._engine.ended()
        self._engine.stop()
        await asyncio.wrap_future(ended)

    async def close(self) -> None:
        """Stop."""
        await self.stop()


def channel_opener(options: WorkerOptions) -> Callable[[], ServerChannel]:
    """Give what opens connections of one worker, all with the same session key."""
    return partial(ServerChannel, options.server_address, options.credential, options.tls, new_session_key())


def new_engine(
    registry: Registry,
    options: WorkerOptions,
    runner: ThreadRunner | LoopRunner,
    open_channel: Callable[[], ServerChannel],
    blobs: Blobs,
) -> WorkerEngine:
    """Put a runner behind the sessions of a worker."""
    flows = tuple(flow.descriptor() for flow in registry.flows)
    return WorkerEngine(flows, options, runner, open_channel, blobs, registry.index_keys)


def _seconds(timeout: Duration | None) -> float | None:
    timeout_ms = optional_duration_ms(timeout, "timeout")
    return None if timeout_ms is None else timeout_ms / 1000
