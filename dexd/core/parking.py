"""Parked runs are not in the kernel: how one leaves, and how it comes back [ARCH-11].

The log has its snapshot, its next deadline and for whose end it waits. Nothing that is in memory for a run is anything
but derived from that, so leaving and coming back change nothing that anybody could see.
"""

from collections.abc import Iterable

from dexd.core.flow.parking import is_quiet, sleeps_until
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.flow.wakeups import step_wakes_at, wake_ups
from dexd.core.ids import RunId
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.runs import Runs
from dexd.core.schedules.executions import Executions
from dexd.core.starts import Starts
from dexd.core.sub_flow_desk import SubFlowDesk
from dexd.core.sub_flows import SubFlowKey
from dexd.core.turn import age_of


class Parking:
    """Takes quiet runs out of memory and brings them back while the kernel serves."""

    __slots__ = ("_dispatcher", "_executions", "_rpcs", "_runs", "_starts", "_sub_flows")

    def __init__(
        self,
        runs: Runs,
        dispatcher: Dispatcher,
        rpcs: RpcDesk,
        starts: Starts,
        sub_flows: SubFlowDesk,
        executions: Executions,
    ) -> None:
        self._runs = runs
        self._dispatcher = dispatcher
        self._rpcs = rpcs
        self._starts = starts
        self._sub_flows = sub_flows
        self._executions = executions

    def may_leave(self, run: RunState, *, until: int) -> bool:
        """Whether the run is quiet, also in what is derived from it, and sleeps beyond an instant.

        An attempt that looks for a worker, an RPC and word that is on its way, of a child or to a schedule, keep it
        here.
        """
        if not is_quiet(run) or not sleeps_until(run, until):
            return False
        if self._rpcs.has_calls(run.chain_id) or self._sub_flows.owes_word(run.chain_id):
            return False
        if self._executions.owes_word(run):
            return False
        calls = self._dispatcher.calls
        return not any((run.chain_id, step_id) in calls for step_id in run.steps)

    def take_out(self, run: RunState) -> None:
        """Forget the run with its deadlines, and who waits for it if the log knows that too."""
        for step_id, _ in wake_ups(run):
            self._dispatcher.deadlines.disarm((run.chain_id, step_id))
        self._runs.drop(run)
        self._sub_flows.forget(run)

    def bring_back(self, run: RunState, waiting: Iterable[tuple[SubFlowKey, RunId]]) -> None:
        """Take a parked run in, with what `BeginServing` would derive for it.

        `waiting` are the parked parents that wait for executions of its Flow ID.
        """
        if not is_quiet(run):
            raise ValueError(f"run {run.run_id} is open and at work, but was not recovered")
        self._runs.add(run)
        if run.timeout_at:
            self._starts.watch_timeout(run)
        # Timers due at one instant fire in the order in which their Waits were installed [TIMER-4].
        steps: Iterable[StepExecution] = run.steps.values()
        if len(run.steps) > 1:
            steps = sorted(steps, key=age_of)
        for step in steps:
            at = step_wakes_at(step)
            if at:
                self._dispatcher.deadlines.arm((run.chain_id, step.step_execution_id), at)
        self._sub_flows.remember(run, waiting)
