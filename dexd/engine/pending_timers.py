"""The projection of pending timers, kept beside the events that change them [ARCH-10].

Only Step executions that wake up by themselves have a row, so a Step without Timer and retry costs nothing.
"""

from collections.abc import Iterable

from dexd.core.flow.state import RunState
from dexd.core.flow.wakeups import wake_ups, wakes_at
from dexd.core.ids import StepExecutionId
from dexd.engine.batch import OpenBatch
from dexd.log.event_log import TimerRow


class PendingTimers:
    """Knows the rows as they will be after the open batch, so that only changes are written."""

    __slots__ = ("rows",)

    def __init__(self, runs: Iterable[RunState]) -> None:
        """Begin with the rows that the log has of these runs."""
        self.rows: dict[int, dict[StepExecutionId, int]] = {}
        """By stream, when which Step execution wakes up by itself; no stream without any."""
        for run in runs:
            self.recall(run)

    def recall(self, run: RunState) -> None:
        """The run has come into memory; the log has the rows of its state."""
        if rows := dict(wake_ups(run)):
            self.rows[run.stream_id] = rows

    def forget(self, stream_id: int) -> None:
        """The run has left memory; its rows stay in the log."""
        self.rows.pop(stream_id, None)

    def run_started(self, run: RunState, batch: OpenBatch) -> None:
        """A run began that waits before its start Step, has a limited time, or takes over from another one."""
        for step_id, _ in wake_ups(run):
            self.may_move(run, step_id, batch)

    def may_move(self, run: RunState, step_id: StepExecutionId, batch: OpenBatch) -> None:
        """Bring the row of a Step execution up to date."""
        at = wakes_at(run, step_id)
        rows = self.rows.get(run.stream_id)
        if at == (0 if rows is None else rows.get(step_id, 0)):
            return
        if at:
            self.rows.setdefault(run.stream_id, {})[step_id] = at
        elif rows is not None:
            del rows[step_id]
            if not rows:
                del self.rows[run.stream_id]
        batch.note_timer(TimerRow(run.stream_id, step_id, at))

    def run_closed(self, stream_id: int, batch: OpenBatch) -> None:
        """Nothing of the run wakes up any more."""
        for step_id in self.rows.pop(stream_id, ()):
            batch.note_timer(TimerRow(stream_id, step_id, 0))


def timer_rows(run: RunState) -> list[TimerRow]:
    """The rows of a run as it is now."""
    return [TimerRow(run.stream_id, step_id, at) for step_id, at in wake_ups(run)]
