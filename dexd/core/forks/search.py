"""Finding the point of a selector in the retained runs of an execution [TT-2, TT-3].

The shell shows events, run by run and each run from its first event; which runs and in which order it learns here:

- BEGINNING: the execution's first run only.
- HISTORY_EVENT_TIME: the newest run that began before the instant, or the oldest of all, then newer ones.
- Steps: all runs, newest first.

A point is the last event that is kept. It never lies inside a commit: before a commit, after those events of one that
belong together, or before a hand-over, which comes after everything that was decided.
"""

from dexd.core import events as e
from dexd.core.flow.carrying import from_carried
from dexd.core.forks.selectors import Selector
from dexd.core.ids import TIMEOUT_HANDLER, StepExecutionId
from dexd.core.outcome import RecordedEvent
from dexd.core.values import Method, Resolution, WaitKind

_OPENING_EVENTS_MAX = 3
_TAKING_OVER = (e.FlowRetried, e.FlowContinued, e.FlowForked)


def is_opening(recorded: RecordedEvent) -> bool:
    """Whether the event belongs to how its run began: its start, what it took over, its start Step."""
    event, version = recorded.event, recorded.version
    if type(event) is e.StepScheduled:
        is_start_step = not event.from_step and event.step_type != TIMEOUT_HANDLER
        return is_start_step and version <= _OPENING_EVENTS_MAX
    return version == 1 or type(event) in _TAKING_OVER


class TimeSearch:
    """The first event at or after an instant; its run is kept up to there, but at least as it began.

    What came after the end of a run is no point: there is nothing to go on with.
    """

    def __init__(self, at: int) -> None:
        self._at = at
        self._point: tuple[int, int] | None = None
        self._opening: tuple[int, int] = (0, 0)
        self._is_early = False
        """The run began at or after the instant."""
        self._is_over = False

    def look_at(self, recorded: RecordedEvent) -> None:
        """See the next event of a run."""
        if recorded.version == 1:
            self._is_early, self._is_over = recorded.at >= self._at, False
        if is_opening(recorded):
            self._opening = (recorded.stream_id, recorded.version)
        elif self._point is None and not self._is_over and recorded.at >= self._at:
            self._point = (recorded.stream_id, recorded.version - 1)
        self._is_over = self._is_over or type(recorded.event) is e.FlowClosed

    def end_of_run(self) -> tuple[int, int] | None:
        """After the last event of a run: the stream and version of the point, if it lies in it."""
        if self._point is None and self._is_early:
            self._point = self._opening
        return self._point


class StepSearch:
    """A method of a Step execution: the state that its first hand-over saw [ATTR-8].

    Where it was never handed over, the state after the decision that made it ready.
    """

    def __init__(self, selector: Selector) -> None:
        self._step_type = selector.step_type
        self._step_id = selector.step_execution_id
        """Empty until it is known which one is the latest of its type."""
        self._method = selector.method
        self._handed_over: dict[Method, tuple[int, int]] = {}
        """Points before first hand-overs that newer runs had."""
        self._run = _StepsOfRun(self._step_type, self._step_id)

    def look_at(self, recorded: RecordedEvent) -> None:
        """See the next event of a run."""
        self._run.look_at(recorded)

    def end_of_run(self) -> tuple[int, int] | None:
        """After the last event of a run: the stream and version of the point, if it is known now."""
        run = self._run
        if not self._step_id and run.latest_number:
            self._step_id = StepExecutionId(f"{self._step_type}-{run.latest_number}")
        self._run = _StepsOfRun(self._step_type, self._step_id)
        step_id = self._step_id
        if not step_id:
            return None
        for method in (Method.WAIT_FOR, Method.EXECUTE):
            if (step_id, method) in run.handed_over:
                self._handed_over[method] = run.handed_over[step_id, method]
        method_wanted = self._method
        if method_wanted is None:
            method_wanted = Method.WAIT_FOR if Method.WAIT_FOR in self._handed_over else run.first_method.get(step_id)
        if method_wanted is None:
            return None
        found = self._handed_over.get(method_wanted)
        ready = run.ready.get((step_id, method_wanted))
        return found if found is not None or ready is None else ready.point


class _Block:
    """Steps that one decision scheduled stand together in history, and none of them without the others."""

    __slots__ = ("from_step", "point")

    def __init__(self, from_step: str | None, point: tuple[int, int]) -> None:
        self.from_step = from_step
        self.point = point


class _StepsOfRun:
    """What one run says of the Steps that are looked for."""

    def __init__(self, step_type: str, step_id: StepExecutionId) -> None:
        self._step_type = step_type
        self._step_id = step_id
        self._block: _Block | None = None
        self.latest_number = 0
        self.first_method: dict[StepExecutionId, Method] = {}
        self.ready: dict[tuple[StepExecutionId, Method], _Block] = {}
        """Where the method first wanted a worker."""
        self.handed_over: dict[tuple[StepExecutionId, Method], tuple[int, int]] = {}
        """The state before the first hand-over of the method."""

    def look_at(self, recorded: RecordedEvent) -> None:
        event = recorded.event
        here = (recorded.stream_id, recorded.version)
        block, self._block = self._block, None
        match event:
            case e.StepScheduled():
                self._scheduled(event, block, here)
            case e.FlowContinued() | e.FlowForked():
                self.latest_number = from_carried(event.carried).counters.get(self._step_type, 0)
            case e.StepDispatched(attempt=1, delivery=1):
                if self._is_wanted(event.step_execution_id):
                    self.handed_over.setdefault((event.step_execution_id, event.method), (here[0], here[1] - 1))
            case e.ConditionsMet():
                self._executes(event.step_execution_id, here)
            case e.WaitForCompleted() if event.wait.kind is WaitKind.SKIP:
                self._executes(event.step_execution_id, here)
            case e.WaitForFailed(resolution=Resolution.PROCEED):
                self._executes(event.step_execution_id, here)
            case _:
                pass

    def _scheduled(self, event: e.StepScheduled, block: _Block | None, here: tuple[int, int]) -> None:
        if block is None or block.from_step != event.from_step:
            block = _Block(event.from_step, here)
        block.point = here
        self._block = block
        if event.step_type == self._step_type:
            self.latest_number = max(self.latest_number, event.number)
        if self._is_wanted(event.step_execution_id):
            method = Method.WAIT_FOR if event.has_wait_for else Method.EXECUTE
            self.first_method[event.step_execution_id] = method
            self.ready[event.step_execution_id, method] = block

    def _executes(self, step_id: StepExecutionId, here: tuple[int, int]) -> None:
        if self._is_wanted(step_id):
            self.ready[step_id, Method.EXECUTE] = _Block(None, here)

    def _is_wanted(self, step_id: StepExecutionId) -> bool:
        if self._step_id:
            return step_id == self._step_id
        return step_id.rpartition("-")[0] == self._step_type
