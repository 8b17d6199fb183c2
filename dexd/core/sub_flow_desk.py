"""Children of Waits between the commits of parent and child [SUB-1..6, ARCH-14].

Parent and child are different runs, so what one owes the other goes as a command of its own, after the commit:

    parent: WaitForCompleted -> ReachSubFlow -> child: FlowStarted -> NoteSubFlow -> parent: SubFlowStarted
                                                child: FlowClosed  -> NoteSubFlow -> parent: SubFlowClosed

Who waits for a child is derived from the parents: after a restart each of them reaches for its children again, and
finds what was done before. A parent that is parked does not reach; while its child is in memory, the log tells the
child's side who waits [ARCH-11].
"""

from collections.abc import Iterable, Iterator

from dexd.core import commands as c
from dexd.core.effects import SubmitCommand
from dexd.core.flow.closing import decide_close
from dexd.core.flow.decide_sub_flow import (
    decide_note,
    decide_sub_flow_start,
    depth_of,
    needs_start,
    request_id_of,
    result_of,
)
from dexd.core.flow.state import WAITING, RunState
from dexd.core.ids import FlowId, RunId, StepExecutionId
from dexd.core.runs import Runs
from dexd.core.starts import Starts
from dexd.core.sub_flows import SubFlow, SubFlowKey, SubFlowPlan
from dexd.core.terms import FlowConfig, Parent
from dexd.core.turn import Answer, Route, Turn
from dexd.core.values import FlowStatus, RequestRecord


class SubFlowDesk:
    """Carries starts to children and their ends to parents."""

    __slots__ = ("_owed", "_runs", "_starts", "_waiting")

    def __init__(self, runs: Runs, starts: Starts) -> None:
        self._runs = runs
        self._starts = starts
        self._waiting: dict[FlowId, dict[SubFlowKey, RunId]] = {}
        """Who waits for the end of a child, and for which of its executions; parent or child is in memory."""
        self._owed: dict[RunId, int] = {}
        """Parents to which word of their children is on its way, and how often."""

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {c.ReachSubFlow: self.reach, c.NoteSubFlow: self.note}

    # ---- the parent's side ----

    def begin(self, turn: Turn, parent: RunState, step_execution_id: StepExecutionId) -> None:
        """Reach for the children of a Wait that was just installed."""
        for command in _unstarted(parent):
            if command.key.step_execution_id == step_execution_id:
                self._owe(command.key)
                turn.perform(SubmitCommand(command))

    def resume(self, turn: Turn, parent: RunState) -> None:
        """After a restart: reach for every child whose start or end the parent has not recorded."""
        for command in (*_unstarted(parent), *_unfinished(parent)):
            self._owe(command.key)
            turn.perform(SubmitCommand(command))

    def note(self, turn: Turn, command: c.NoteSubFlow) -> Answer:
        """Let the parent know; one that is closed does not care any more [SUB-4]."""
        run_id = command.key.run_id
        owed = self._owed.pop(run_id, 0)
        if owed > 1:
            self._owed[run_id] = owed - 1
        parent = self._runs.by_chain.get(run_id)
        if parent is not None and parent.is_open:
            turn.emit_all(parent, decide_note(parent, command))
        return None

    # ---- the child's side ----

    def reach(self, turn: Turn, command: c.ReachSubFlow) -> Answer:
        """Start the child or find it, and tell the parent."""
        child = self._runs.latest.get(command.flow_id)
        if child is None or needs_start(child, command):
            if child is not None and child.is_open:
                self._terminate(turn, child, command)
            last_ordinal = self._runs.last_ordinal(command.flow_id)
            started = decide_sub_flow_start(child, command, now=turn.now, last_ordinal=last_ordinal)
            child = self._starts.begin(turn, started, command.plan.start_step)
        is_own = child.start_request_id == request_id_of(command.key)
        result = result_of(child)
        if result is None:
            self._waiting.setdefault(command.flow_id, {})[command.key] = child.execution_id
        note = c.NoteSubFlow(command.key, child.execution_id, not is_own, result)
        turn.perform(SubmitCommand(note))
        return None

    def child_closed(self, turn: Turn, child: RunState) -> None:
        """An execution ended for good: tell who waits for it, if anybody does."""
        waiting = self._waiting.get(child.flow_id)
        if waiting is None:
            return
        result = result_of(child)
        for key in [key for key, execution_id in waiting.items() if execution_id == child.execution_id]:
            del waiting[key]
            self._owe(key)
            turn.perform(SubmitCommand(c.NoteSubFlow(key, child.execution_id, is_attached=False, result=result)))
        if not waiting:
            del self._waiting[child.flow_id]

    # ---- runs that leave memory and come back [ARCH-11] ----

    def owes_word(self, chain_id: RunId) -> bool:
        """Whether a command on its way will tell the chain of a child; it must find the run as it was when it left."""
        return chain_id in self._owed

    @property
    def waiting_count(self) -> int:
        """Children that are waited for here, for inspection."""
        return len(self._waiting)

    def is_watching(self, child: FlowId, key: SubFlowKey) -> bool:
        """Whether the end of the child will be told to that parent, for inspection."""
        return key in self._waiting.get(child, ())

    def forget(self, run: RunState) -> None:
        """The run has left memory: who waits for it, or whom it waits for, is kept while one of the two is there."""
        for key, child, _ in running_children(run):
            if child not in self._runs.latest:
                self._remove(child, key)
        for key in list(self._waiting.get(run.flow_id, ())):
            if key.run_id not in self._runs.by_chain:
                self._remove(run.flow_id, key)

    def remember(self, run: RunState, waiting: Iterable[tuple[SubFlowKey, RunId]]) -> None:
        """The run has come back: it waits for its children again, and parked parents for it."""
        for key, child, execution_id in running_children(run):
            self._waiting.setdefault(child, {})[key] = execution_id
        self.remember_waiting(run.flow_id, waiting)

    def remember_waiting(self, child: FlowId, waiting: Iterable[tuple[SubFlowKey, RunId]]) -> None:
        """Parked parents wait for executions of a Flow ID that is in memory now."""
        for key, execution_id in waiting:
            self._waiting.setdefault(child, {})[key] = execution_id

    def _remove(self, child: FlowId, key: SubFlowKey) -> None:
        waiting = self._waiting.get(child, {})
        waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(child, None)

    def _owe(self, key: SubFlowKey) -> None:
        self._owed[key.run_id] = self._owed.get(key.run_id, 0) + 1

    def _terminate(self, turn: Turn, child: RunState, command: c.ReachSubFlow) -> None:
        record = RequestRecord(request_id_of(command.key), b"")
        message = f"replaced for {command.key.step_execution_id} of Flow {command.parent.flow_id!r}"
        turn.emit_all(child, decide_close(child, FlowStatus.TERMINATED, error_message=message, request=record))


def _unstarted(parent: RunState) -> Iterator[c.ReachSubFlow]:
    for unstarted in parent.unstarted.values():
        yield _reach(parent, unstarted.key, unstarted.flow_id, unstarted.plan)


def _unfinished(parent: RunState) -> Iterator[c.ReachSubFlow]:
    for key, sub_flow in _running(parent):
        yield _reach(parent, key, sub_flow.flow_id, sub_flow.plan, is_known=True)


def running_children(parent: RunState) -> Iterator[tuple[SubFlowKey, FlowId, RunId]]:
    """Children that a parent waits for: under which key, the Flow ID and the execution."""
    for key, sub_flow in _running(parent):
        yield key, sub_flow.flow_id, sub_flow.run_id


def _running(parent: RunState) -> Iterator[tuple[SubFlowKey, SubFlow]]:
    for step in parent.steps.values():
        if step.phase is not WAITING:
            continue
        for number, sub_flow in enumerate(step.sub_flows):
            if sub_flow.run_id and sub_flow.result is None:
                yield SubFlowKey(parent.chain_id, step.step_execution_id, number), sub_flow


def _reach(
    parent: RunState, key: SubFlowKey, flow_id: FlowId, plan: SubFlowPlan, *, is_known: bool = False
) -> c.ReachSubFlow:
    own = None if plan.terms is None else plan.terms.config
    config = _merged(parent.config, own)
    return c.ReachSubFlow(key, flow_id, plan, Parent(parent.flow_id, depth_of(parent)), config, is_known)


def _merged(inherited: FlowConfig | None, own: FlowConfig | None) -> FlowConfig | None:
    """[SUB-3] The child's settings over its parent's, field by field."""
    if inherited is None or own is None:
        return inherited or own
    return inherited.overridden_by(own)
