"""How runs come into being: whoever starts one, a client or the rules, it begins here."""

from dexd.core.events import FlowContinued, FlowForked, FlowStarted
from dexd.core.flow.decide_flow_retry import decide_flow_retry
from dexd.core.flow.scheduling import decide_schedule
from dexd.core.flow.state import RunState
from dexd.core.ids import TIMEOUT_HANDLER_ID
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.runs import Runs
from dexd.core.streams import StreamIds
from dexd.core.turn import Turn
from dexd.core.values import StepPlan


class Starts:
    """Begins runs."""

    __slots__ = ("_dispatcher", "_runs", "_stream_ids")

    def __init__(self, runs: Runs, dispatcher: Dispatcher, stream_ids: StreamIds) -> None:
        self._runs = runs
        self._dispatcher = dispatcher
        self._stream_ids = stream_ids

    def begin(self, turn: Turn, started: FlowStarted, start_step: StepPlan | None) -> RunState:
        """Begin the run, with its start Step if it has one."""
        run = self._open(turn, started)
        if start_step is not None:
            turn.emit_all(run, decide_schedule(run, (start_step,), from_step=""))
        return run

    def retry(self, turn: Turn, failed: RunState) -> RunState:
        """Begin the run that follows a FAILED one, in the same commit [START-8]."""
        started, retried = decide_flow_retry(failed, now=turn.now)
        run = self._open(turn, started)
        turn.emit(run, retried)
        retry = None if started.terms is None else started.terms.retry
        if retry is not None and retry.start_step is not None:
            turn.emit_all(run, decide_schedule(run, (retry.start_step,), from_step=""))
        return run

    def continue_(self, turn: Turn, started: FlowStarted, continued: FlowContinued) -> RunState:
        """Begin the run that continues another one; deadlines, of its Steps and of its own time, are set already."""
        run = turn.begin(started, self._stream_ids.take())
        turn.record_silently(run, continued)
        self._runs.continue_(run)
        return run

    def fork(self, turn: Turn, started: FlowStarted, forked: FlowForked) -> RunState:
        """Begin the run that goes on from an earlier point of its execution [TT-1]."""
        run = self._open(turn, started)
        turn.emit(run, forked)
        return run

    def _open(self, turn: Turn, started: FlowStarted) -> RunState:
        run = turn.begin(started, self._stream_ids.take())
        self._runs.begin(run)
        if run.timeout_at:
            self.watch_timeout(run)
        return run

    def watch_timeout(self, run: RunState) -> None:
        """The Flow has a limited time; its deadline is that of the handler that may follow [TIME-1]."""
        self._dispatcher.deadlines.arm((run.chain_id, TIMEOUT_HANDLER_ID), run.timeout_at)
