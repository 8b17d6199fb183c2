"""The thread that appends: it takes what was submitted, commits it, and tells the event loop once per commit.

A thread of its own because a commit waits for the disk; one hop each way because every hop costs as much as a small
commit. Each batch is one transaction: what is decided while one is being written is one batch already, the engine's.
"""

from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol, TypeAlias

import msgspec

from dexd.log.errors import LogError, LogFailedError
from dexd.log.event_log import Batch, EventLog

OnDone: TypeAlias = Callable[[LogError | None], None]
Post: TypeAlias = Callable[[Callable[[], None]], object]
"""Has something called on the event loop, in the order of the calls; `loop.call_soon_threadsafe`."""
Append: TypeAlias = Callable[[Batch], None]

IDLE_S = 1.0
"""Pause after which the WAL is copied into the database; long enough that no series of single requests pays for it."""


REMOVED_EVENTS_MAX = 512
"""Events of removed runs deleted at once; a commit that comes meanwhile waits a few milliseconds for it [KEEP-1]."""

REMOVAL_PAUSE_S = 0.02
"""Nothing was written for so long: a good moment to delete. Batches that follow each other closely do not let one come;
behind those as many events are deleted as were written, so that the log does not grow for want of a pause."""


class CheckpointedLog(EventLog, Protocol):
    """A log that wants attention between commits."""

    def checkpoint_if_due(self) -> None:
        """Called after each commit; must not raise."""
        ...

    def checkpoint(self) -> None:
        """Called once when nothing was written for a while; must not raise."""
        ...


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A batch and who wants to know."""

    batch: Batch
    on_done: OnDone


class LogWriter:
    """Appends batches in the order of their submission. Owned by the event loop's thread, as is `submit`."""

    def __init__(
        self,
        log: CheckpointedLog,
        post: Post,
        *,
        idle_s: float = IDLE_S,
        append: Append | None = None,
    ) -> None:
        """Start the thread.

        Args:
            log: What is appended to; nobody else appends to it until `close`.
            post: How results get to the event loop.
            idle_s: Pause after which to checkpoint.
            append: Stands around `log.append`, for tests that stop the world before or after a commit.
        """
        self._log = log
        self._post = post
        self._append = append or log.append
        self._idle_s = idle_s
        self._queue: SimpleQueue[Submission | None] = SimpleQueue()
        self._failure: LogError | None = None
        self._is_closed = False
        self._may_remove = True
        """Whether events of removed runs may be left."""
        self._unpaid_events = 0
        """Written since events were last deleted."""
        self._thread = Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch, on_done: OnDone) -> None:
        """Append a batch later.

        `on_done` is posted exactly once: with None when the batch is durable, else with the reason why it was not
        written. When an append fails, all that was submitted behind it fails too, since it was decided on what is lost.
        """
        if self._is_closed:
            raise RuntimeError(f"batch after {batch.expected_seq} submitted to a closed writer")
        self._queue.put(Submission(batch, on_done))

    def close(self) -> None:
        """Write what was submitted and end the thread; the log stays open. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (submission := self._next()) is not None:
            error = self._commit(submission.batch)
            self._post(partial(submission.on_done, error))
            self._log.checkpoint_if_due()
            self._pay(submission.batch)

    def _next(self) -> Submission | None:
        """Give the next submission, None at the end.

        Delete events of removed runs until it comes; checkpoint once if it is long in coming.
        """
        while self._may_remove:
            try:
                return self._queue.get(timeout=REMOVAL_PAUSE_S)
            except Empty:
                self._remove_some()
        try:
            return self._queue.get(timeout=self._idle_s)
        except Empty:
            self._log.checkpoint()
            return self._queue.get()

    def _pay(self, batch: Batch) -> None:
        """Behind a commit: see whether it is time to delete although there is no pause."""
        self._may_remove = self._may_remove or bool(batch.removals or batch.stream_removals)
        if self._may_remove:
            self._unpaid_events += len(batch.events)
            if self._unpaid_events >= REMOVED_EVENTS_MAX:
                self._remove_some()

    def _remove_some(self) -> None:
        self._unpaid_events = 0
        self._may_remove = self._log.remove_some(REMOVED_EVENTS_MAX)

    def _commit(self, batch: Batch) -> LogError | None:
        if self._failure is not None and batch.expected_seq != self._log.last_seq:
            return self._failure
        try:
            self._append(batch)
        except LogError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - a bug here must stop the engine, not only this thread
            self._failure = LogFailedError(f"append broke: {error!r}")
            self._failure.__cause__ = error
        else:
            self._failure = None
        return self._failure
