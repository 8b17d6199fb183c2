"""The runs in memory: open ones and those that were looked at lately."""

from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId


class Runs:
    """Runs by ID and the latest run of each Flow ID. Which of them stay is the kernel's business."""

    __slots__ = ("by_id", "latest", "open_count")

    def __init__(self) -> None:
        self.by_id: dict[RunId, RunState] = {}
        """Every run in memory."""
        self.latest: dict[FlowId, RunState] = {}
        """Of every Flow ID in memory the newest run of the execution with the highest ordinal."""
        self.open_count = 0
        """Open runs among them; who begins or closes a run counts."""

    def add(self, run: RunState) -> None:
        """Take in a run from the log; ValueError if it is there already."""
        if run.run_id in self.by_id:
            raise ValueError(f"run {run.run_id} is in memory already")
        self.by_id[run.run_id] = run
        latest = self.latest.get(run.flow_id)
        if latest is None or (latest.ordinal, latest.stream_id) < (run.ordinal, run.stream_id):
            self.latest[run.flow_id] = run
        self.open_count += run.is_open

    def begin(self, run: RunState) -> None:
        """Take in a run that has just begun: it is the latest of its Flow ID."""
        self.by_id[run.run_id] = self.latest[run.flow_id] = run
        self.open_count += 1

    def drop(self, run: RunState) -> None:
        """Let a closed run go."""
        del self.by_id[run.run_id]
        if self.latest.get(run.flow_id) is run:
            del self.latest[run.flow_id]
