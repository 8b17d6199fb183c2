"""Runs in the kernel's memory: which stream is whose, and how long closed ones stay [ARCH-11]."""

from collections import OrderedDict
from collections.abc import Sequence

from dexd.core.commands import StartFlow
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.kernel import Kernel, RunRef
from dexd.engine.recovery import restore_run
from dexd.log.event_log import EventLog, StoredRun

CLOSED_RUNS_MAX = 4_096
"""Closed runs kept, so that a client that asks right after the end, or repeats a start, costs no look-up. At full speed
this is about a second's worth of Flows."""

CLOSED_BYTES_MAX = 64 * 1024 * 1024
"""User data that they may hold together [ARCH-8]."""


class RunCache:
    """Brings runs from the log into the kernel and lets closed ones go."""

    __slots__ = ("_absent", "_closed", "_closed_bytes", "_closed_max", "_kernel", "_log", "_streams")

    def __init__(self, log: EventLog, kernel: Kernel, *, closed_max: int = CLOSED_RUNS_MAX) -> None:
        self._log = log
        self._kernel = kernel
        self._closed_max = closed_max
        self._absent: frozenset[str] = frozenset()
        self._streams: dict[int, RunState] = {run.stream_id: run for run in kernel.runs.values()}
        self._closed: OrderedDict[RunId, tuple[RunState, int]] = OrderedDict()
        self._closed_bytes = 0

    def of_stream(self, stream_id: int) -> RunState:
        """The run of a stream that the kernel has just written to."""
        return self._streams[stream_id]

    def begin(self, run: RunState) -> None:
        """A run began."""
        self._streams[run.stream_id] = run

    def note_absent(self, flow_ids: Sequence[FlowId]) -> None:
        """Find out which of these Flow IDs the log does not know, in one look-up instead of one each.

        Holds until the next call, which must come before anything more is committed.
        """
        self._absent = frozenset(flow_ids) - self._log.flow_ids_in_use(flow_ids) if flow_ids else frozenset()

    def look_up(self, wanted: FlowId | RunRef | StartFlow) -> None:
        """Bring what the kernel wants into memory, if the log has it."""
        if isinstance(wanted, StartFlow):
            if wanted.flow_id not in self._absent:
                self._run_by_start(wanted.flow_id, wanted.request_id)
        elif isinstance(wanted, RunRef):
            self.run_by_id(wanted.run_id)
        elif wanted not in self._absent:
            self.latest_run(wanted)

    def latest_run(self, flow_id: FlowId) -> RunState | None:
        """The latest run of a Flow ID; None if there is none."""
        run = self._kernel.run(flow_id)
        if run is None:
            stored = self._log.latest_run(flow_id)
            run = None if stored is None else self._adopt(stored)
        return run

    def run_by_id(self, run_id: RunId) -> RunState | None:
        """The run of that ID; None if there is none."""
        run = self._kernel.run_by_id(run_id)
        if run is not None:
            return run
        stored = self._log.run_by_id(run_id)
        if stored is None:
            return None
        # The kernel takes the highest ordinal that it holds for the latest one, so that one comes first.
        latest = self.latest_run(FlowId(stored.row.flow_id))
        return latest if latest is not None and latest.run_id == run_id else self._adopt(stored)

    def _run_by_start(self, flow_id: FlowId, request_id: RequestId) -> None:
        """Only a Flow ID with more than one execution costs a second look-up [START-3]."""
        latest = self.latest_run(flow_id)
        if latest is None or latest.ordinal == 1 or latest.start_request_id == request_id:
            return
        stored = self._log.run_by_start(flow_id, request_id)
        if stored is not None and self._kernel.run_by_id(RunId(stored.row.run_id)) is None:
            self._adopt(stored)
            # A very large one may have pushed the latest out, without which the kernel would count from one again.
            self.latest_run(flow_id)

    def retire(self, run: RunState) -> None:
        """The end of a run is committed: it stays as long as there is room, the newest one always."""
        size = _user_bytes(run)
        self._closed[run.run_id] = (run, size)
        self._closed_bytes += size
        while len(self._closed) > 1 and (len(self._closed) > self._closed_max or self._closed_bytes > CLOSED_BYTES_MAX):
            run_id, (oldest, size) = self._closed.popitem(last=False)
            if not self._kernel.forget(run_id):
                # An RPC reads it; its turn comes again when everything younger has gone.
                self._closed[run_id] = (oldest, size)
                return
            self._closed_bytes -= size
            self._streams.pop(oldest.stream_id, None)

    def _adopt(self, stored: StoredRun) -> RunState:
        run = restore_run(self._log, stored)
        self._kernel.adopt(run)
        self._streams[run.stream_id] = run
        self.retire(run)
        return run


def _user_bytes(run: RunState) -> int:
    size = run.pending_bytes + len(run.error_message)
    for value in run.attributes.values():
        size += len(value)
    for done in run.completions:
        size += len(done.value)
    return size
