"""Carries out time travel: one outcome ends the old run, begins the new one and applies external writes again."""

from dexd.core import commands as c
from dexd.core.flow.decide_external import refuse_unknown, remembered
from dexd.core.flow.state import RunState
from dexd.core.forks.decide_fork import decide_end, decide_fork
from dexd.core.forks.plan import ForkPlan
from dexd.core.ids import RunId
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.outcome import ForkOutdated, TimeTravelAccepted
from dexd.core.rejections import Rejection
from dexd.core.runs import Runs
from dexd.core.schedules.executions import Executions
from dexd.core.starts import Starts
from dexd.core.sub_flow_desk import SubFlowDesk
from dexd.core.turn import Answer, Route, Turn


class TimeTravels:
    """Begins forked runs."""

    __slots__ = ("_dispatcher", "_executions", "_rpcs", "_runs", "_starts", "_sub_flows")

    def __init__(
        self,
        runs: Runs,
        starts: Starts,
        dispatcher: Dispatcher,
        rpcs: RpcDesk,
        sub_flows: SubFlowDesk,
        executions: Executions,
    ) -> None:
        self._runs = runs
        self._starts = starts
        self._dispatcher = dispatcher
        self._rpcs = rpcs
        self._sub_flows = sub_flows
        self._executions = executions

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {c.TimeTravel: self.time_travel}

    def time_travel(self, turn: Turn, command: c.TimeTravel) -> Answer:
        """Fork the latest execution [TT-1].

        A repeat of a request names the run that it began; a plan that the Flow has outrun is not carried out.
        """
        latest = self._runs.latest.get(command.flow_id)
        if latest is None:
            return refuse_unknown(command.flow_id)
        known = remembered(latest, command.request_id, command.digest)
        if known is not None:
            return known if isinstance(known, Rejection) else TimeTravelAccepted(RunId(known.answer.decode()))
        plan = command.plan
        if isinstance(plan, Rejection):
            return plan
        if plan.is_outdated(latest):
            return ForkOutdated()
        return self._fork(turn, latest, command, plan)

    def _fork(self, turn: Turn, latest: RunState, command: c.TimeTravel, plan: ForkPlan) -> Answer:
        started, forked, events = decide_fork(latest, command, plan, now=turn.now)
        is_running = latest.is_open
        turn.emit_all(latest, decide_end(latest, command))
        if not is_running:
            self._rpcs.flow_closed(turn, latest)
        run = self._starts.fork(turn, started, forked)
        self._dispatcher.locks.adopt(run)
        turn.revisit(run)
        turn.emit_all(run, events)
        self._sub_flows.resume(turn, run)
        if not is_running:
            self._executions.tell_reopened(turn, run)
        return TimeTravelAccepted(run.run_id)
