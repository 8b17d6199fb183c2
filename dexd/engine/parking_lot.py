"""Which open runs are parked, and which are about to be: what keeps memory bounded by what is at work [ARCH-11].

A run leaves in two steps. First its snapshot and its row go into a batch with everything else; once that is committed,
and if the run has not moved since, it leaves memory. One that comes back is still parked as far as the log knows, until
its first event; if there is none, it may leave again for nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from dexd.core.flow.state import RunState
from dexd.core.flow.wakeups import next_deadline
from dexd.core.kernel import Kernel
from dexd.core.outcome import RecordedEvent
from dexd.core.sub_flow_desk import running_children
from dexd.engine.batch import OpenBatch
from dexd.engine.parked_deadlines import ParkedDeadlines
from dexd.engine.residents import Residents
from dexd.engine.run_cache import RunCache
from dexd.log.event_log import EventLog
from dexd.log.parking import ChildWait, ParkedDeadline, ParkingRow

LEAVERS_MAX: Final = 64
"""Runs that are parked at once at most: about a millisecond of work."""


class Bounds(msgspec.Struct, frozen=True):
    """How much of what is open may be in memory."""

    runs_max: int = 10_000
    """Open runs above which some are parked. Those that are at work stay, however many there are."""
    bytes_max: int = 64 << 20
    """Bytes that open runs may take, about, above which some are parked."""
    distance_ms: int = 1_000
    """A run that wakes up by itself within this time is not parked."""


class ParkingLot:
    """Counts and names what is parked. Moving runs in and out of the kernel is the run cache's."""

    __slots__ = ("_deadlines", "_distance_ms", "_kernel", "_marked", "_on_parking", "_residents", "_runs", "parked")

    def __init__(
        self,
        log: EventLog,
        kernel: Kernel,
        runs: RunCache,
        bounds: Bounds,
        on_parking: Callable[[RunState, OpenBatch], None] = lambda *_: None,
    ) -> None:
        """Begin with what the log has parked, and the runs that the kernel has recovered.

        `on_parking` writes with the batch what else is to be known of a run that is away.
        """
        self._on_parking = on_parking
        counts = log.parked_counts()
        self._kernel = kernel
        self._runs = runs
        self._distance_ms = bounds.distance_ms
        self._residents = Residents(runs_max=bounds.runs_max, bytes_max=bounds.bytes_max)
        self._deadlines = ParkedDeadlines(log, runs.has_stream)
        self._marked: dict[int, RunState] = {}
        """Runs in memory of which the log, or the open batch, says that they are parked."""
        self.parked = counts.runs
        """Open runs that are not in memory."""
        runs.has_waits = counts.waits > 0
        for run in kernel.runs.values():
            self._residents.add(run)

    def is_empty(self) -> bool:
        """Whether nothing is parked, so that nobody needs to look here."""
        return not self.parked and not self._marked

    def begin(self, run: RunState) -> None:
        """A run began."""
        self._residents.add(run)

    def bring_back(self, run: RunState) -> None:
        """A parked run is in memory again."""
        self.parked -= 1
        self._deadlines.remove(run.stream_id)
        self._marked[run.stream_id] = run
        self._residents.add(run)

    def close(self, run: RunState) -> None:
        """A run has ended."""
        self._residents.remove(run.stream_id)

    # ---- leaving ----

    def stirred(self, events: int) -> None:
        """So many events are committed; some runs may have come to rest."""
        self._residents.stirred(events)

    def choose(self, batch: OpenBatch, *, now: int) -> None:
        """Have some runs leave if there are too many: those that are new to the log with the batch, others at once."""
        kernel, until = self._kernel, now + self._distance_ms
        for run in self._residents.turn(lambda run: kernel.can_park(run.run_id, until=until), LEAVERS_MAX):
            if run.stream_id in self._marked:
                self._let_go(run)
            else:
                self._marked[run.stream_id] = run
                row = parking_row(run)
                if row.waits:
                    self._runs.has_waits = True
                batch.note_parked(run, row)
                self._on_parking(run, batch)

    @property
    def wants_turn(self) -> bool:
        """Whether `choose` is to be called again soon."""
        return self._residents.wants_turn

    def committed(self, parked: Iterable[RunState]) -> None:
        """The log knows now that these are parked: they leave, unless something has happened to them."""
        for run in parked:
            self._let_go(run)

    def _let_go(self, run: RunState) -> None:
        if self._marked.get(run.stream_id) is run and self._runs.park(run):
            del self._marked[run.stream_id]
            self.parked += 1
            at = next_deadline(run)
            if at:
                self._deadlines.add(ParkedDeadline(at, run.stream_id))
        elif run.is_open:
            self._residents.add(run)

    # ---- moving ----

    def moved(self, events: Sequence[RecordedEvent], batch: OpenBatch) -> None:
        """Runs have events that their snapshots do not know."""
        for recorded in events:
            if recorded.stream_id in self._marked:
                self.unmark(recorded.stream_id, batch)

    def unmark(self, stream_id: int, batch: OpenBatch) -> None:
        """The run is not parked any more, if it was; a restart finds it as one at work."""
        if self._marked.pop(stream_id, None) is not None:
            batch.parking[stream_id] = ParkingRow(stream_id, is_parked=False)

    # ---- time ----

    def next_at(self) -> int | None:
        """When the next parked run wakes up; None for never."""
        return self._deadlines.next_at() if self.parked else None

    def count_due(self, now: int) -> int:
        """Parked runs that are due, as far as memory knows their deadlines; for inspection."""
        return self._deadlines.count_due(now)

    def pop_due(self, now: int, limit: int) -> list[ParkedDeadline]:
        """Take the earliest parked runs that are due; whoever takes them brings them back."""
        return self._deadlines.pop_due(now, limit)


def parking_row(run: RunState) -> ParkingRow:
    """The row of a run that is parked as it is now."""
    waits = tuple(
        ChildWait(run.stream_id, key.run_id, key.step_execution_id, key.number, child, execution_id)
        for key, child, execution_id in running_children(run)
    )
    return ParkingRow(run.stream_id, True, next_deadline(run), waits)
