"""What clients command: each method answers one command, from the run it concerns to the events and the reply."""

from collections.abc import Callable
from typing import Any, TypeAlias

from dexd.core import commands as c
from dexd.core.events import Event, FlowStarted, TimerSkipped
from dexd.core.flow.decide_external import (
    decide_config_update,
    decide_delete_message,
    decide_publish,
    decide_set_attribute,
    decide_stop,
    refuse_closed,
    refuse_other_run,
    refuse_unknown,
    remembered,
)
from dexd.core.flow.decide_roll_over import continuing_run_id
from dexd.core.flow.decide_start import decide_start
from dexd.core.flow.decide_timeout import decide_skip_timeout
from dexd.core.flow.state import RunState
from dexd.core.flow.timer_skips import decide_skip_timer
from dexd.core.ids import TIMEOUT_HANDLER_ID, RunId
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.outcome import (
    AttributeAccepted,
    ContinueAsNewAccepted,
    FlowConfigAccepted,
    MessageDeleted,
    PublishAccepted,
    Reply,
    SkipTimerResult,
    StartFlowAccepted,
    StopFlowResult,
)
from dexd.core.rejections import Rejection
from dexd.core.roll_overs import RollOvers
from dexd.core.runs import Runs
from dexd.core.starts import Starts
from dexd.core.turn import Answer, Route, Turn
from dexd.core.values import FlowStatus, RequestRecord, SkipOutcome, StopType

_Write: TypeAlias = c.SetAttribute | c.DeleteMessage | c.UpdateFlowConfig
_OfOneFlow: TypeAlias = _Write | c.PublishMessages | c.SkipTimer | c.StopFlow | c.ContinueAsNew


class ClientCommands:
    """Starts, writes from outside, RPCs and stops."""

    def __init__(self, runs: Runs, starts: Starts, rpcs: RpcDesk, roll_overs: RollOvers) -> None:
        self._runs = runs
        self._starts = starts
        self._rpcs = rpcs
        self._roll_overs = roll_overs

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        return {
            c.StartFlow: self.start_flow,
            c.PublishMessages: self.publish,
            c.SetAttribute: self.set_attribute,
            c.DeleteMessage: self.delete_message,
            c.SkipTimer: self.skip_timer,
            c.StopFlow: self.stop_flow,
            c.UpdateFlowConfig: self.update_config,
            c.ContinueAsNew: self.continue_as_new,
            c.InvokeRpc: self.invoke_rpc,
            c.AbandonRpc: self.abandon_rpc,
        }

    def start_flow(self, turn: Turn, command: c.StartFlow) -> Answer:
        """Begin an execution, unless the request is known or the reuse policy forbids it [START-2]."""
        latest = self._runs.latest.get(command.flow_id)
        known = None
        if latest is not None and latest.ordinal > 1:
            known = self._runs.started_by(command.flow_id, command.request_id)
        last_ordinal = 0 if latest is not None else self._runs.last_ordinal(command.flow_id)
        decided = decide_start(latest, command, known=known, now=turn.now, last_ordinal=last_ordinal)
        if not isinstance(decided, FlowStarted):
            return decided
        if latest is not None and latest.is_open:
            reason = f"replaced by run {command.run_id}"
            turn.emit_all(latest, decide_stop(latest, StopType.TERMINATE, reason, command.request_id, command.digest))
        return StartFlowAccepted(self._starts.begin(turn, decided, command.start_step).run_id)

    def publish(self, turn: Turn, command: c.PublishMessages) -> Answer:
        """Append messages to a Channel [CHAN-2]."""
        found = self._target(command)
        if type(found) is Rejection:
            return found
        run, known = found
        if known is not None:
            return PublishAccepted(tuple(known.answer.decode().split("\n")))
        decided = decide_publish(run, command, now=turn.now)
        if type(decided) is Rejection:
            return decided
        turn.emit(run, decided)
        return PublishAccepted(tuple(message_id for message_id, _ in decided.messages))

    def set_attribute(self, turn: Turn, command: c.SetAttribute) -> Answer:
        """Write or delete one Attribute [ATTR-5]."""
        return self._write(turn, command, decide_set_attribute, AttributeAccepted())

    def delete_message(self, turn: Turn, command: c.DeleteMessage) -> Answer:
        """Take one pending message out of a Channel [CHAN-9]."""
        return self._write(turn, command, decide_delete_message, MessageDeleted())

    def skip_timer(self, turn: Turn, command: c.SkipTimer) -> Answer:
        """Make a Timer count as fired, now or once it exists [TIMER-9]."""
        found = self._target(command)
        if type(found) is Rejection:
            return found
        run, known = found
        if known is not None:
            return SkipTimerResult(SkipOutcome[known.answer.decode()])
        is_timeout = command.step_execution_id == TIMEOUT_HANDLER_ID
        decided = decide_skip_timeout(run, command) if is_timeout else decide_skip_timer(run, command)
        if type(decided) is Rejection:
            return decided
        if isinstance(decided, SkipOutcome):
            return SkipTimerResult(decided)
        if isinstance(decided, list):
            turn.emit_all(run, decided)
            return SkipTimerResult(SkipOutcome.APPLIED)
        turn.emit(run, decided)
        is_applied = isinstance(decided, TimerSkipped)
        return SkipTimerResult(SkipOutcome.APPLIED if is_applied else SkipOutcome.REMEMBERED)

    def update_config(self, turn: Turn, command: c.UpdateFlowConfig) -> Answer:
        """Change settings of an active Flow [CFG-2]."""
        return self._write(turn, command, decide_config_update, FlowConfigAccepted())

    def stop_flow(self, turn: Turn, command: c.StopFlow) -> Answer:
        """Close a Flow from outside. The reply and history always agree on who closed it [STOP-2]."""
        found = self._target(command)
        if type(found) is Rejection:
            return found
        run, known = found
        if known is not None:
            return StopFlowResult(True, run.status)
        if not run.is_open:
            return StopFlowResult(False, run.status)
        turn.emit_all(run, decide_stop(run, command.type, command.reason, command.request_id, command.digest))
        return StopFlowResult(True, FlowStatus(run.status))

    def continue_as_new(self, turn: Turn, command: c.ContinueAsNew) -> Answer:
        """Let another run continue this one, whatever its threshold [ROLL-2]."""
        found = self._target(command)
        if type(found) is Rejection:
            return found
        run, known = found
        if known is not None:
            return ContinueAsNewAccepted(RunId(known.answer.decode()))
        refused = refuse_closed(run)
        if refused is not None:
            return refused
        record = RequestRecord(command.request_id, command.digest, continuing_run_id(run).encode())
        return ContinueAsNewAccepted(self._roll_overs.roll_over(turn, run, record).run_id)

    def invoke_rpc(self, turn: Turn, command: c.InvokeRpc) -> Answer:
        """Find a worker for an RPC; the answer comes later, as an effect."""
        run = self._runs.latest.get(command.flow_id)
        if run is None:
            return refuse_unknown(command.flow_id)
        self._rpcs.invoke(turn, run, command)
        return None

    def abandon_rpc(self, turn: Turn, command: c.AbandonRpc) -> Answer:
        """Nobody waits for the RPC any more."""
        self._rpcs.abandon(turn, command)
        return None

    def _target(self, command: _OfOneFlow) -> tuple[RunState, RequestRecord | None] | Rejection:
        """The run that the command concerns, and the record of the same request if it was applied before [RPC-12]."""
        run = self._runs.latest.get(command.flow_id)
        if run is None:
            return refuse_unknown(command.flow_id)
        refused = refuse_other_run(run, command.run_id)
        if refused is not None:
            return refused
        known = remembered(run, command.request_id, command.digest)
        return known if type(known) is Rejection else (run, known)

    def _write(
        self,
        turn: Turn,
        command: _Write,
        decide: Callable[[RunState, Any], Event | Rejection],
        accepted: Reply,
    ) -> Answer:
        """Apply a write whose reply says nothing but that it is in the log."""
        found = self._target(command)
        if type(found) is Rejection:
            return found
        run, known = found
        if known is None:
            decided = decide(run, command)
            if type(decided) is Rejection:
                return decided
            turn.emit(run, decided)
        return accepted
