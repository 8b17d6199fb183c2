"""Where handlers run: sync ones in threads, async ones as tasks of the loop that started the worker [REG-2].

A cancellation may overtake its call. The session marks the delivery first and tells the runner then, so whoever starts
a handler looks at the mark after it has made the handler reachable for `cancel`.
"""

import asyncio
import logging
from asyncio.tasks import _unregister_task
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from dexpb.v1 import frames
from dexpb.v1.blobs import is_reference
from dexsdk._blobs import Blobs
from dexsdk._clock import now_ms
from dexsdk._delivery import CANCEL_DRAINING, Delivery, DeliverySink, Result
from dexsdk._handler_threads import HandlerThreads
from dexsdk._handlers import find_async_handlers, key_of
from dexsdk._invoker import Invoker, PreparedCall
from dexsdk._loop_results import LoopResults
from dexsdk._registry import Registry

BLOCKED_AFTER_MS = 5_000
"""An event loop that does not turn for this long is reported; async code turns it many times a second."""

CHECK_EVERY_MS = 1_000
"""How often the loop is asked for a sign of life."""

THREADS_CLOSE_S = 1.0
"""How long idle threads may take to end."""

logger = logging.getLogger("dexsdk.worker")


class ThreadRunner:
    """Runs sync handlers, one thread each."""

    def __init__(self, registry: Registry, blobs: Blobs | None = None) -> None:
        self._invoker = Invoker(registry, blobs)
        self._threads = HandlerThreads()

    def start(self, sink: DeliverySink, deliveries: Sequence[Delivery]) -> None:
        """See HandlerRunner."""
        for delivery in deliveries:
            self._threads.submit(partial(self._run, sink, delivery))

    def cancel(self, delivery: Delivery) -> None:
        """See HandlerRunner; the handler polls for it."""
        handler = delivery.handler
        if handler is not None:
            handler.request_cancellation()

    def check(self, now: int) -> None:
        """See SupervisedRunner; a blocked thread holds up nobody else."""

    def close(self) -> None:
        """See SupervisedRunner."""
        self._threads.close(THREADS_CLOSE_S)

    def _run(self, sink: DeliverySink, delivery: Delivery) -> None:
        prepared = prepare_or_answer(self._invoker, sink, delivery)
        if prepared is None:
            return
        delivery.handler = prepared
        if delivery.cancel_reason is not None:
            prepared.request_cancellation()
        try:
            sink.finish([(delivery, prepared.run())])
        finally:
            delivery.handler = None


class LoopRunner:
    """Runs async handlers on one event loop, and sync ones beside it in threads."""

    def __init__(self, registry: Registry, blobs: Blobs | None = None) -> None:
        self._invoker = Invoker(registry, blobs)
        self._sync = ThreadRunner(registry, blobs)
        self._async_handlers = find_async_handlers(registry)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._results = LoopResults(self._call_next_turn)
        self._tasks: dict[Delivery, asyncio.Task[None]] = {}
        self._asked_at = 0
        self._is_asked = False
        self._is_block_reported = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this loop; before the worker starts."""
        self._loop = loop

    def start(self, sink: DeliverySink, deliveries: Sequence[Delivery]) -> None:
        """See HandlerRunner; one wake-up of the loop for the whole batch."""
        on_loop: list[Delivery] = []
        in_threads: list[Delivery] = []
        for delivery in deliveries:
            is_async = key_of(delivery.assign) in self._async_handlers
            (on_loop if is_async else in_threads).append(delivery)
        self._sync.start(sink, in_threads)
        if on_loop:
            self._call_soon(partial(self._begin, sink, on_loop))

    def cancel(self, delivery: Delivery) -> None:
        """See HandlerRunner; an async handler gets asyncio.CancelledError."""
        if key_of(delivery.assign) in self._async_handlers:
            self._call_soon(partial(self._cancel, delivery))
        else:
            self._sync.cancel(delivery)

    def check(self, now: int) -> None:
        """See SupervisedRunner; reports a handler that blocks the loop, by name, and sends what others left there."""
        self._results.hand_in()
        if self._bound_loop.is_closed():
            raise RuntimeError("the event loop was closed before its worker was stopped")
        if not self._is_asked:
            if now - self._asked_at >= CHECK_EVERY_MS:
                self._asked_at = now
                self._is_asked = True
                self._call_soon(self._show_life)
        elif now - self._asked_at >= BLOCKED_AFTER_MS and not self._is_block_reported:
            self._is_block_reported = True
            logger.warning("event_loop_blocked for %d ms by %s", now - self._asked_at, self._blocker())

    def close(self) -> None:
        """See SupervisedRunner."""
        self._sync.close()
        self._call_soon(self._abandon_all)

    def _abandon_all(self) -> None:
        # asyncio.run waits for every task that the loop knows, also for one that swallows its cancellation [DRAIN-1].
        for task in self._tasks.values():
            _unregister_task(task)

    @property
    def _bound_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "bind comes before start"
        return self._loop

    def _call_soon(self, callback: Callable[[], object]) -> None:
        # A closed loop is found by `check`, which ends the worker; the session's thread must not die of it.
        with suppress(RuntimeError):
            self._bound_loop.call_soon_threadsafe(callback)

    def _call_next_turn(self, callback: Callable[[], object]) -> None:
        self._bound_loop.call_soon(callback)

    def _begin(self, sink: DeliverySink, deliveries: Sequence[Delivery]) -> None:
        create_task = self._bound_loop.create_task
        for delivery in deliveries:
            self._tasks[delivery] = create_task(self._run(sink, delivery))

    async def _run(self, sink: DeliverySink, delivery: Delivery) -> None:
        try:
            if is_reference(delivery.assign.input):
                prepared = await asyncio.to_thread(prepare_or_answer, self._invoker, sink, delivery)
            else:
                prepared = prepare_or_answer(self._invoker, sink, delivery)
            if prepared is None:
                return
            delivery.handler = prepared
            result: Result | None
            try:
                result = await prepared.run_async()
            except asyncio.CancelledError as error:
                # Canceled so that the call can run elsewhere, it is not answered.
                result = None if delivery.cancel_reason == CANCEL_DRAINING else prepared.failed(error)
            else:
                if type(result) is frames.Failed and delivery.cancel_reason is None and is_being_canceled():
                    # The loop is ending under the worker. That is no fault of the handler and should not cost it an
                    # attempt.
                    result = None
            self._results.put(sink, delivery, result)
        finally:
            delivery.handler = None
            del self._tasks[delivery]

    def _cancel(self, delivery: Delivery) -> None:
        handler = delivery.handler
        # A task that has not started yet sees the mark on its delivery; canceling it would keep it from answering.
        if handler is not None:
            handler.request_cancellation()
            self._tasks[delivery].cancel()

    def _show_life(self) -> None:
        self._is_asked = False
        self._is_block_reported = False

    def _blocker(self) -> str:
        current = asyncio.current_task(self._bound_loop)
        for delivery, task in tuple(self._tasks.items()):
            if task is current:
                return str(delivery)
        return f"a task that is no handler: {current}"


def is_being_canceled() -> bool:
    """Whether somebody asked the current task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def prepare_or_answer(invoker: Invoker, sink: DeliverySink, delivery: Delivery) -> PreparedCall | None:
    """Give the call ready to run, or answer it and give None."""
    if delivery.cancel_reason is not None:
        sink.skip(delivery)
        return None
    delivery.started_at = now_ms()
    delivery.sink = sink
    prepared = invoker.prepare(delivery.assign, delivery, delivery)
    if isinstance(prepared, PreparedCall):
        return prepared
    if isinstance(prepared, frames.Decline):
        sink.decline(delivery, prepared.reason)
    else:
        sink.finish([(delivery, prepared)])
    return None
