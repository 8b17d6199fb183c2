"""The writer thread: order, one report per commit, and what happens behind a failure."""

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Semaphore

import pytest

from dexd.log import writer
from dexd.log.errors import LogError, LogFailedError, LogFullError, SequenceConflictError
from dexd.log.event_log import Batch, Removal, StoredEvent
from dexd.log.memory_log import MemoryLog
from dexd.log.writer import REMOVED_EVENTS_MAX, LogWriter

WAIT_S = 20
"""Longer than any machine takes; nothing waits for it to pass."""
NEVER_S = 3_600.0


class CountedLog(MemoryLog):
    """Says when it is asked to checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.idle_checkpoints = Semaphore(0)
        self.pieces: list[tuple[int, int]] = []
        """Where the log ended when events were deleted, and how many."""
        self.is_clean = Semaphore(0)
        self.checks = 0

    def remove_some(self, rows_max: int) -> bool:
        before = self.removed_events
        has_more = super().remove_some(rows_max)
        if self.removed_events > before:
            self.pieces.append((self.last_seq, self.removed_events - before))
            if not has_more:
                self.is_clean.release()
        return has_more

    def checkpoint_if_due(self) -> None:
        self.checks += 1

    def checkpoint(self) -> None:
        self.idle_checkpoints.release()


class Loop:
    """Stands for the event loop: calls come in by `post` and are made one at a time."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run_one(self) -> None:
        self.calls.get(timeout=WAIT_S)()


class Gate:
    """Stands around `append`: counts transactions, holds them up while it is shut, or fails them."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._open = Event()
        self._open.set()
        self.entered = Semaphore(0)
        self.sizes: list[int] = []
        self.errors: list[Exception] = []
        """Raised by the next transactions."""

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def append(self, batch: Batch) -> None:
        self.entered.release()
        assert self._open.wait(WAIT_S)
        self.sizes.append(len(batch.events))
        if self.errors:
            raise self.errors.pop(0)
        self._log.append(batch)


class Bench:
    """A writer with everything around it."""

    def __init__(self, idle_s: float = NEVER_S) -> None:
        self.log = CountedLog()
        self.loop = Loop()
        self.gate = Gate(self.log)
        self.reports: list[tuple[int, LogError | None]] = []
        """First sequence number of each batch that was reported, and the error."""
        self._seq = 0
        self.writer = LogWriter(self.log, self.loop.calls.put, idle_s=idle_s, append=self.gate.append)

    def submit(self, events: int = 1, removals: Sequence[Removal] = ()) -> int:
        """Submit a batch that continues what was submitted before; gives its first sequence number."""
        first = self._seq + 1
        self._seq += events
        stored = [StoredEvent(seq, 1, seq, 1, "StepScheduled", 1, b"") for seq in range(first, self._seq + 1)]
        self.writer.submit(
            Batch(first - 1, stored, removals=removals), lambda error: self.reports.append((first, error))
        )
        return first

    def submit_behind_shut_gate(self, *sizes: int) -> None:
        """Submit one batch, and the others while it is being written."""
        self.gate.shut()
        self.submit()
        assert self.gate.entered.acquire(timeout=WAIT_S)
        for size in sizes:
            self.submit(size)
        self.gate.open()

    def rewind(self) -> None:
        """Decide anew on what is in the log, as the engine after a failure."""
        self._seq = self.log.last_seq


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.gate.open()
    made.writer.close()


def test_batch_is_reported_on_the_loop_once_it_is_in_the_log(bench: Bench) -> None:
    """[ARCH-3]"""
    first = bench.submit(events=3)
    bench.loop.run_one()
    assert bench.reports == [(first, None)]
    assert bench.log.last_seq == 3


def test_batches_are_written_as_they_are_in_the_order_of_their_submission(bench: Bench) -> None:
    """[ARCH-3]: one batch is one transaction; the engine has put together what belongs together."""
    bench.submit_behind_shut_gate(1, 2, 3)
    for _ in range(4):
        bench.loop.run_one()
    assert bench.reports == [(1, None), (2, None), (3, None), (5, None)]
    assert bench.gate.sizes == [1, 1, 2, 3]


def test_log_is_looked_after_following_every_commit(bench: Bench) -> None:
    bench.submit_behind_shut_gate(1, 1)
    bench.writer.close()
    assert bench.log.checks == 3


def test_close_writes_what_was_submitted_and_takes_no_more(bench: Bench) -> None:
    """[DRAIN-4]"""
    bench.submit_behind_shut_gate(1, 20, 1)
    bench.writer.close()
    bench.writer.close()
    assert bench.log.last_seq == 23
    with pytest.raises(RuntimeError, match="closed"):
        bench.submit()


def test_refused_append_is_reported_and_the_next_may_succeed(bench: Bench) -> None:
    """[ARCH-4]"""
    full = LogFullError("disk full")
    bench.gate.errors.append(full)
    bench.submit()
    bench.loop.run_one()
    bench.rewind()
    bench.submit()
    bench.loop.run_one()
    assert bench.reports == [(1, full), (1, None)]


def test_what_was_submitted_behind_a_failure_fails_with_it(bench: Bench) -> None:
    """[ARCH-4]: it was decided on what is lost, so it must not be written even if it could be."""
    full = LogFullError("disk full")
    bench.gate.errors.append(full)
    bench.submit_behind_shut_gate(6, 6)
    bench.rewind()
    bench.submit()
    for _ in range(4):
        bench.loop.run_one()
    assert bench.reports == [(1, full), (2, full), (8, full), (1, None)]
    assert bench.log.last_seq == 1


def test_fenced_off_writer_says_so(bench: Bench) -> None:
    """[ARCH-15]"""
    bench.log.append(Batch(0, [StoredEvent(1, 9, 1, 1, "StepScheduled", 1, b"")]))
    bench.submit()
    bench.loop.run_one()
    ((_, error),) = bench.reports
    assert isinstance(error, SequenceConflictError)


def test_bug_in_an_append_reaches_the_engine(bench: Bench) -> None:
    """[ARCH-7]: a thread that dies silently would leave every caller waiting."""
    bug = ZeroDivisionError("a bug")
    bench.gate.errors.append(bug)
    bench.submit()
    bench.loop.run_one()
    ((_, error),) = bench.reports
    assert isinstance(error, LogFailedError)
    assert error.__cause__ is bug


def test_pause_is_used_to_checkpoint_once() -> None:
    """[ARCH-5]: no checkpoint inside a lone commit."""
    bench = Bench(idle_s=0.001)
    assert bench.log.idle_checkpoints.acquire(timeout=WAIT_S)
    bench.submit()
    bench.loop.run_one()
    assert bench.log.idle_checkpoints.acquire(timeout=WAIT_S)
    bench.writer.close()
    assert not bench.log.idle_checkpoints.acquire(blocking=False)


def bench_with_a_removed_run(events: int, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A writer that is about to commit the removal of a run of so many events, and has that commit held up."""
    monkeypatch.setattr(writer, "REMOVAL_PAUSE_S", 0.001)
    bench = Bench()
    bench.log.append(Batch(0, [StoredEvent(seq, 9, seq, 1, "X", 1, b"") for seq in range(1, events + 1)]))
    bench.rewind()
    bench.gate.shut()
    bench.submit(removals=[Removal(9, "f", 1, 0)])
    assert bench.gate.entered.acquire(timeout=WAIT_S)
    return bench


def test_keep_1_events_are_deleted_in_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """[KEEP-1] Piece by piece, until there are none."""
    bench = bench_with_a_removed_run(2 * REMOVED_EVENTS_MAX + 10, monkeypatch)
    bench.gate.open()
    assert bench.log.is_clean.acquire(timeout=WAIT_S)
    assert [count for _, count in bench.log.pieces] == [REMOVED_EVENTS_MAX, REMOVED_EVENTS_MAX, 10]
    bench.writer.close()


def test_keep_1_without_pauses_as_many_events_are_deleted_as_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """[KEEP-1] So commits wait seldom, and still the log does not grow for ever under load."""
    first = 4 * REMOVED_EVENTS_MAX
    bench = bench_with_a_removed_run(first, monkeypatch)
    batches = REMOVED_EVENTS_MAX // 10 + 1
    for _ in range(2 * batches):
        bench.submit(10)
    bench.gate.open()
    bench.writer.close()
    # The first commit counts with its one event.
    assert bench.log.pieces[0] == (first + 1 + 10 * batches, REMOVED_EVENTS_MAX)
    assert bench.log.pieces[1] == (first + 1 + 20 * batches, REMOVED_EVENTS_MAX)
