"""The runs in memory: open ones and those that were looked at lately."""

from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.values import FlowStatus


class Runs:
    """Runs by ID and the latest run of each Flow ID. Which of them stay is the kernel's business."""

    __slots__ = ("_earlier", "_ordinals", "by_chain", "by_id", "latest", "open_count")

    def __init__(self) -> None:
        self.by_id: dict[RunId, RunState] = {}
        """Every run in memory."""
        self.by_chain: dict[RunId, RunState] = {}
        """The newest run of every chain, by the chain's first run; superseded runs are not in here [ROLL-4]."""
        self.latest: dict[FlowId, RunState] = {}
        """Of every Flow ID in memory the newest run of the execution with the highest ordinal."""
        self._earlier: dict[tuple[FlowId, RequestId], RunState] = {}
        """Those of the others in memory by Flow ID and the request that started them [START-3]."""
        self._ordinals: dict[FlowId, int] = {}
        """Last ordinals of Flow IDs without runs that are about to be started [ID-10]."""
        self.open_count = 0
        """Open runs among them; who begins or closes a run counts."""

    def add(self, run: RunState) -> None:
        """Take in a run from the log; ValueError if it is there already."""
        if run.run_id in self.by_id:
            raise ValueError(f"run {run.run_id} is in memory already")
        self.by_id[run.run_id] = run
        if run.status is not FlowStatus.CONTINUED_AS_NEW:
            self.by_chain[run.chain_id] = run
        latest = self.latest.get(run.flow_id)
        if latest is None or (latest.ordinal, latest.stream_id) < (run.ordinal, run.stream_id):
            self.latest[run.flow_id] = run
            earlier = latest
        else:
            earlier = run
        if earlier is not None:
            self._earlier[earlier.flow_id, earlier.start_request_id] = earlier
        self.open_count += run.is_open

    def started_by(self, flow_id: FlowId, request_id: RequestId) -> RunState | None:
        """The run in memory that the request started, if it is not the latest of its Flow ID."""
        return self._earlier.get((flow_id, request_id))

    def note_ordinal(self, flow_id: FlowId, ordinal: int) -> None:
        """Learn the last ordinal of a Flow ID whose executions have all been removed; its next start uses it up."""
        self._ordinals[flow_id] = ordinal

    def last_ordinal(self, flow_id: FlowId) -> int:
        """Ordinal of the last execution of a Flow ID, 0 if there was none [ID-10]."""
        latest = self.latest.get(flow_id)
        return self._ordinals.get(flow_id, 0) if latest is None else latest.ordinal

    def begin(self, run: RunState) -> None:
        """Take in a run that has just begun: it is the latest of its Flow ID."""
        previous = self.latest.get(run.flow_id)
        if previous is not None:
            self._earlier[previous.flow_id, previous.start_request_id] = previous
        elif self._ordinals:
            self._ordinals.pop(run.flow_id, None)
        self.by_id[run.run_id] = self.by_chain[run.chain_id] = self.latest[run.flow_id] = run
        self.open_count += 1

    def continue_(self, run: RunState) -> None:
        """Take in a run that has just continued another one: in all but its ID it is that one."""
        self.by_id[run.run_id] = self.by_chain[run.chain_id] = self.latest[run.flow_id] = run

    def drop(self, run: RunState) -> None:
        """Let a run go."""
        del self.by_id[run.run_id]
        self.open_count -= run.is_open
        if self.by_chain.get(run.chain_id) is run:
            del self.by_chain[run.chain_id]
        if self.latest.get(run.flow_id) is run:
            del self.latest[run.flow_id]
        elif self._earlier.get((run.flow_id, run.start_request_id)) is run:
            del self._earlier[run.flow_id, run.start_request_id]
