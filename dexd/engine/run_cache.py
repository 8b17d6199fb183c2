"""Runs in the kernel's memory: which stream is whose, how they come and go, and how long closed ones stay [ARCH-11]."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from dexd.core.commands import ReachSubFlow, StartFlow
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.kernel import Kernel
from dexd.core.members import CONTINUED_AS_NEW
from dexd.core.sub_flows import SubFlowKey
from dexd.core.wanted import RunRef, RunRefs, WantedRuns
from dexd.engine.recovery import restore_parked, restore_run, waiting_for
from dexd.log.event_log import EventLog, RunRow, Snapshot, StoredRun

CLOSED_RUNS_MAX = 4_096
"""Closed runs kept, so that a client that asks right after the end, or repeats a start, costs no look-up. At full speed
this is about a second's worth of Flows."""

CLOSED_BYTES_MAX = 64 * 1024 * 1024
"""User data that they may hold together [ARCH-8]."""

REQUEST_BYTES = 200
"""What a remembered request holds, about."""


class Traffic(Protocol):
    """Who wants to know that a run comes into memory or leaves it."""

    def came_back(self, run: RunState) -> None:
        """An open run that was parked is in memory."""
        ...

    def left(self, run: RunState) -> None:
        """A run, closed or parked, is not in memory any more; all of it is in the log."""
        ...


class RunCache:
    """Brings runs from the log into the kernel and lets them go. Nobody else does."""

    __slots__ = (
        "_absent",
        "_closed",
        "_closed_bytes",
        "_closed_max",
        "_kernel",
        "_leaving",
        "_log",
        "_streams",
        "_traffic",
        "has_waits",
    )

    def __init__(
        self, log: EventLog, kernel: Kernel, traffic: Traffic | None = None, *, closed_max: int = CLOSED_RUNS_MAX
    ) -> None:
        self._traffic = traffic
        self.has_waits = True
        """Whether the log may know of parked runs that wait for children; otherwise nobody asks."""
        self._log = log
        self._kernel = kernel
        self._closed_max = closed_max
        self._absent: frozenset[str] = frozenset()
        self._streams: dict[int, RunState] = {run.stream_id: run for run in kernel.runs.values()}
        self._closed: OrderedDict[RunId, tuple[RunState, int]] = OrderedDict()
        self._closed_bytes = 0
        self._leaving: dict[RunId, RunRow] = {}
        """Runs that the log has until the commit under way, and nobody finds any more."""

    def of_stream(self, stream_id: int) -> RunState:
        """The run of a stream that the kernel has just written to."""
        return self._streams[stream_id]

    def has_stream(self, stream_id: int) -> bool:
        """Whether the run of a stream is in memory."""
        return stream_id in self._streams

    def begin(self, run: RunState) -> None:
        """A run began."""
        self._streams[run.stream_id] = run

    def note_absent(self, flow_ids: Sequence[FlowId]) -> None:
        """Find out which of these Flow IDs the log does not know, in one look-up instead of one each.

        Holds until the next call, which must come before anything more is committed.
        """
        self._absent = frozenset(flow_ids) - self._log.flow_ids_in_use(flow_ids) if flow_ids else frozenset()

    def look_up(self, wanted: WantedRuns) -> None:
        """Bring what the kernel wants into memory, if the log has it."""
        if isinstance(wanted, StartFlow):
            if wanted.flow_id not in self._absent:
                self._take_by_start(wanted.flow_id, wanted.request_id)
        elif isinstance(wanted, RunRef):
            self.take_chain(wanted.run_id)
        elif isinstance(wanted, ReachSubFlow):
            if wanted.flow_id not in self._absent and self._take_latest(wanted.flow_id) is None:
                self._note_ordinal(wanted.flow_id)
        elif isinstance(wanted, RunRefs):
            for run_id in wanted.run_ids:
                self.take_chain(run_id)
        elif wanted not in self._absent:
            self._take_latest(wanted)

    # ---- for reading ----

    def latest_run(self, flow_id: FlowId) -> RunState | None:
        """The latest run of a Flow ID, for reading; None if there is none. A parked one stays where it is."""
        run = self._kernel.run(flow_id)
        if run is not None:
            return run
        stored = self._retained(self._log.latest_run(flow_id))
        if stored is None:
            return None
        return restore_run(self._log, stored) if stored.is_parked else self._adopt(stored)

    def run_by_id(self, run_id: RunId) -> RunState | None:
        """The run of that ID, for reading; None if there is none. A parked one stays where it is."""
        run = self._kernel.run_by_id(run_id)
        if run is not None:
            return run
        stored = self._retained(self._log.run_by_id(run_id))
        if stored is None:
            return None
        if stored.is_parked:
            return restore_run(self._log, stored)
        latest = self.latest_run(FlowId(stored.row.flow_id))
        if latest is not None and latest.run_id == run_id:
            return latest
        # The kernel takes the highest ordinal that it holds for the latest one, so an older run may only join that.
        is_latest_here = self._kernel.run(FlowId(stored.row.flow_id)) is not None
        return self._adopt(stored) if is_latest_here else restore_run(self._log, stored)

    def last_run_from(self, run: RunState) -> RunState | None:
        """The run with which the execution of that one goes on or ended [WAITAPI-2]; None if it leaves the log."""
        while run.next_run_id:
            latest = self.latest_run(run.flow_id)
            if latest is not None and latest.ordinal == run.ordinal:
                return latest
            # What is decided and not committed yet is in memory; behind that the log knows the last one.
            following = self._kernel.run_by_id(run.next_run_id)
            if following is None:
                stored = self._log.last_run(run.flow_id, run.ordinal)
                following = None if stored is None else self.run_by_id(RunId(stored.row.run_id))
            if following is None:
                return None
            run = following
        return run

    def last_run_of_execution(self, flow_id: FlowId, first_run_id: RunId) -> RunState | None:
        """The newest run of an execution whose first run is not retained; None if none is."""
        latest = self.latest_run(flow_id)
        if latest is None or latest.execution_id == first_run_id:
            return latest
        # It is an earlier execution, of which the log knows everything.
        rows = (row for row in self._log.run_rows(flow_id) if row.first_run_id == first_run_id)
        newest = next(rows, None)
        return None if newest is None else self.run_by_id(RunId(newest.run_id))

    # ---- for the kernel ----

    def take_chain(self, chain_id: RunId) -> RunState | None:
        """Bring the newest run of a chain into memory, with the latest of its Flow ID; None if there is none."""
        run = self._kernel.newest_of_chain(chain_id)
        if run is not None:
            return run
        stored = self._retained(self._log.newest_of_chain(chain_id))
        if stored is None:
            return None
        latest = self._take_latest(FlowId(stored.row.flow_id))
        return latest if latest is not None and latest.chain_id == chain_id else self._adopt(stored)

    def take_parked(self, stream_ids: Sequence[int]) -> None:
        """Bring parked runs into memory, by one look-up for all of them."""
        self._bring_back(self._log.parked_runs(stream_ids))

    def take_parked_of(self, flow_ids: Sequence[FlowId]) -> None:
        """Bring the parked runs of these Flow IDs into memory, if it saves look-ups to ask for all of them at once."""
        if len(flow_ids) > 1:
            self._bring_back(self._log.parked_runs_of(flow_ids))

    def _take_latest(self, flow_id: FlowId) -> RunState | None:
        run = self._kernel.run(flow_id)
        if run is None:
            stored = self._retained(self._log.latest_run(flow_id))
            run = None if stored is None else self._adopt(stored)
        return run

    def _take_by_start(self, flow_id: FlowId, request_id: RequestId) -> None:
        """Only a Flow ID with more than one execution costs a second look-up [START-3]."""
        latest = self._take_latest(flow_id)
        if latest is None:
            self._note_ordinal(flow_id)
            return
        if latest.ordinal == 1 or latest.start_request_id == request_id:
            return
        stored = self._retained(self._log.run_by_start(flow_id, request_id))
        if stored is not None and self._kernel.run_by_id(RunId(stored.row.run_id)) is None:
            self._adopt(stored)
            # A very large one may have pushed the latest out, without which the kernel would count from one again.
            self._take_latest(flow_id)

    def _retained(self, stored: StoredRun | None) -> StoredRun | None:
        """What the log has found, unless it is about to leave it [KEEP-1]."""
        return None if stored is None or stored.row.run_id in self._leaving else stored

    # ---- coming and going ----

    def park(self, run: RunState) -> bool:
        """Let an open run go; False when it must stay, because something is under way in it after all."""
        if not self._kernel.park(run.run_id):
            return False
        self._left(run)
        return True

    def _note_ordinal(self, flow_id: FlowId) -> None:
        """[ID-10] The Flow ID has no run: what is kept of it is the last ordinal."""
        leaving = (row.ordinal for row in self._leaving.values() if row.flow_id == flow_id)
        self._kernel.note_ordinal(flow_id, max(leaving, default=0) or self._log.last_ordinal(flow_id))

    def let_go(self, row: RunRow) -> bool:
        """Forget a closed run that is about to leave the log; False when it must stay, because an RPC reads it.

        Until `has_left` nobody finds it, although the log still has it: whoever is told so is told with the commit that
        takes it out of there.
        """
        run_id = RunId(row.run_id)
        run = self._kernel.run_by_id(run_id)
        if run is not None:
            if not self._kernel.forget(run_id):
                return False
            self._left(run)
            _, size = self._closed.pop(run_id, (run, 0))
            self._closed_bytes -= size
        self._leaving[run_id] = row
        return True

    def has_left(self, run_id: RunId) -> None:
        """The log does not have the run any more."""
        del self._leaving[run_id]

    def retire(self, run: RunState) -> None:
        """The end of a run is committed: it stays as long as there is room, the newest one always.

        Unless another run continues it: that one has all that it had.
        """
        if run.status is CONTINUED_AS_NEW:
            if self._kernel.forget(run.run_id):
                self._left(run)
        else:
            self._keep(run)

    def _keep(self, run: RunState) -> None:
        size = _user_bytes(run)
        closed = self._closed
        closed[run.run_id] = (run, size)
        self._closed_bytes += size
        while (len(closed) > self._closed_max or self._closed_bytes > CLOSED_BYTES_MAX) and len(closed) > 1:
            run_id, (oldest, size) = closed.popitem(last=False)
            if not self._kernel.forget(run_id):
                # An RPC reads it; its turn comes again when everything younger has gone.
                closed[run_id] = (oldest, size)
                return
            self._closed_bytes -= size
            # Whoever keeps anything of open runs has dropped it when this one closed.
            self._streams.pop(oldest.stream_id, None)

    def _left(self, run: RunState) -> None:
        """A run leaves memory; the kernel has dropped it."""
        self._streams.pop(run.stream_id, None)
        if self._traffic is not None:
            self._traffic.left(run)

    def _adopt(self, stored: StoredRun) -> RunState:
        run = restore_run(self._log, stored)
        is_waited_for = stored.is_parked and self.has_waits
        waiting = waiting_for(self._log, [run.flow_id]) if is_waited_for else {}
        self._take_in(run, waiting.get(run.flow_id, ()))
        return run

    def _bring_back(self, snapshots: Sequence[Snapshot]) -> None:
        """Take in parked runs: who waits for any of them is one look-up too."""
        runs = [restore_parked(self._log, snapshot) for snapshot in snapshots]
        waiting = waiting_for(self._log, [run.flow_id for run in runs]) if runs and self.has_waits else {}
        for run in runs:
            self._take_in(run, waiting.get(run.flow_id, ()))

    def _take_in(self, run: RunState, waiting: Iterable[tuple[SubFlowKey, RunId]]) -> None:
        """The one place where a run comes into memory from the log."""
        self._kernel.adopt(run, waiting)
        self._streams[run.stream_id] = run
        if not run.is_open:
            self._keep(run)
        elif self._traffic is not None:
            self._traffic.came_back(run)


def _user_bytes(run: RunState) -> int:
    size = run.pending_bytes + run.attribute_bytes + len(run.error_message) + REQUEST_BYTES * len(run.requests)
    for done in run.completions:
        size += len(done.value)
    return size
