"""The thread that appends: it takes what was submitted, commits it, and tells the event loop once per commit.

A thread of its own because a commit waits for the disk; one hop each way because every hop costs as much as a small
commit. Batches that were submitted while another was being written are merged into one transaction.
"""

from collections import deque
from collections.abc import Callable, Sequence
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
        commit_events_max: int,
        idle_s: float = IDLE_S,
        append: Append | None = None,
    ) -> None:
        """Start the thread.

        Args:
            log: What is appended to; nobody else appends to it until `close`.
            post: How results get to the event loop.
            commit_events_max: Events beyond which batches are not merged; a batch is never split.
            idle_s: Pause after which to checkpoint.
            append: Stands around `log.append`, for tests that stop the world before or after a commit.
        """
        self._log = log
        self._post = post
        self._append = append or log.append
        self._commit_events_max = commit_events_max
        self._idle_s = idle_s
        self._queue: SimpleQueue[Submission | None] = SimpleQueue()
        self._backlog: deque[Submission] = deque()
        """Taken from the queue by the thread and not yet written."""
        self._has_ended = False
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
        while self._receive():
            group = self._next_group()
            error = self._commit([submission.batch for submission in group])
            self._post(partial(_report, group, error))
            self._log.checkpoint_if_due()
            self._pay(group)

    def _receive(self) -> bool:
        """Take over what was submitted, and wait if there is nothing to write; False at the end."""
        if not self._backlog and not self._has_ended:
            self._accept(self._wait())
        while not self._queue.empty():
            self._accept(self._queue.get())
        return bool(self._backlog)

    def _wait(self) -> Submission | None:
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

    def _pay(self, group: Sequence[Submission]) -> None:
        """Behind a commit: see whether it is time to delete although there is no pause."""
        self._may_remove = self._may_remove or any(submission.batch.removals for submission in group)
        if self._may_remove:
            self._unpaid_events += sum(len(submission.batch.events) for submission in group)
            if self._unpaid_events >= REMOVED_EVENTS_MAX:
                self._remove_some()

    def _remove_some(self) -> None:
        self._unpaid_events = 0
        self._may_remove = self._log.remove_some(REMOVED_EVENTS_MAX)

    def _accept(self, submission: Submission | None) -> None:
        if submission is None:
            self._has_ended = True
        else:
            self._backlog.append(submission)

    def _next_group(self) -> Sequence[Submission]:
        """Take what goes into one transaction: batches that continue each other, up to the maximum."""
        group = [self._backlog.popleft()]
        start = group[0].batch.expected_seq
        end = start + len(group[0].batch.events)
        while self._backlog:
            batch = self._backlog[0].batch
            if batch.expected_seq != end or end + len(batch.events) - start > self._commit_events_max:
                break
            group.append(self._backlog.popleft())
            end += len(batch.events)
        return group

    def _commit(self, batches: Sequence[Batch]) -> LogError | None:
        if self._failure is not None and batches[0].expected_seq != self._log.last_seq:
            return self._failure
        try:
            self._append(batches[0] if len(batches) == 1 else merge(batches))
        except LogError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - a bug here must stop the engine, not only this thread
            self._failure = LogFailedError(f"append broke: {error!r}")
            self._failure.__cause__ = error
        else:
            self._failure = None
        return self._failure


def merge(batches: Sequence[Batch]) -> Batch:
    """One batch with the effect of all of them, one after the other."""
    runs = {row.stream_id: row for batch in batches for row in batch.runs}
    snapshots = {row.stream_id: row for batch in batches for row in batch.snapshots}
    timers = {(row.stream_id, row.step_execution_id): row for batch in batches for row in batch.timers}
    streams = {row.stream_id: row for batch in batches for row in batch.streams}
    parking = {row.stream_id: row for batch in batches for row in batch.parking}
    indexed = {(row.stream_id, row.key): row for batch in batches for row in batch.indexed}
    return Batch(
        batches[0].expected_seq,
        [event for batch in batches for event in batch.events],
        tuple(runs.values()),
        tuple(snapshots.values()),
        tuple(timers.values()),
        tuple(streams.values()),
        [removal for batch in batches for removal in batch.removals],
        max(batch.forget_ordinals_until for batch in batches),
        [stream_id for batch in batches for stream_id in batch.imported],
        parking=tuple(parking.values()),
        indexed=tuple(indexed.values()),
        index_keys=[row for batch in batches for row in batch.index_keys],
    )


def _report(group: Sequence[Submission], error: LogError | None) -> None:
    for submission in group:
        submission.on_done(error)
