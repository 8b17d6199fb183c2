"""What becomes of a delivery: result, failure, decline, loss or timeout [DELIV-1..3, LOST-1..3]."""

from dexd.core.commands import AcceptCall, CompleteCall, DeclineCall, FailCall, FetchPart, Heartbeat
from dexd.core.effects import AcknowledgeResult
from dexd.core.events import StaleResultRejected, StepDeclined
from dexd.core.flow.decide_failure import (
    HEARTBEAT_TIMEOUT,
    METHOD_TIMEOUT,
    NO_WORKER_AVAILABLE,
    decide_attempt_failed,
    decide_delivery_lost,
)
from dexd.core.flow.decide_output import decide_execute_completed, decide_wait_for_completed
from dexd.core.flow.durability import durability_of
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.ids import StepExecutionId, StreamNumber, WorkerId
from dexd.core.matching.calls import NOT_ACCEPTED, Call, CallStage, step_of
from dexd.core.matching.deadline_keys import HoldDue
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.fetches import part_for
from dexd.core.matching.heartbeats import take_unlogged
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.matching.sessions import Session, Worker
from dexd.core.members import WAIT_FOR
from dexd.core.sub_flow_desk import SubFlowDesk
from dexd.core.turn import Turn
from dexd.core.values import Failure, Method, StepDurability, Token

NO_CAPACITY = "NO_CAPACITY"
DRAINING = "DRAINING"
UNDECODABLE = "UNDECODABLE"
STALE = "STALE"
FLOW_CLOSED = "FLOW_CLOSED"


class Deliveries:
    """Settles deliveries. A result counts only with the token of the current delivery [DELIV-2]."""

    __slots__ = ("_dispatcher", "_heartbeats", "_is_async_by_default", "_rpcs", "_sub_flows")

    def __init__(self, dispatcher: Dispatcher, rpcs: RpcDesk, sub_flows: SubFlowDesk) -> None:
        self._dispatcher = dispatcher
        self._rpcs = rpcs
        self._heartbeats = dispatcher.heartbeats
        self._is_async_by_default = dispatcher.config.step_durability is StepDurability.ASYNC
        self._sub_flows = sub_flows

    # ---- what workers say ----

    def complete(self, turn: Turn, session: Session, command: CompleteCall, run: RunState | None) -> None:
        """A handler returned."""
        call = self._settle(turn, session, command, run)
        if call is None:
            return
        if call.rpc is not None:
            self._rpcs.complete(turn, call, command.response, worker_id=session.worker.worker_id)
            return
        run, step, response = call.run, step_of(call), command.response
        if step.options is not None or run.config is not None or self._is_async_by_default:
            self._follow_early(turn, call, step)
        if call.method is WAIT_FOR:
            events = decide_wait_for_completed(run, step, response, command.sub_flows, now=turn.now)
            turn.emit_all(run, events)
            if command.sub_flows:
                self._sub_flows.begin(turn, run, step.step_execution_id)
        else:
            turn.emit_all(run, decide_execute_completed(run, step, response, now=turn.now))

    def _follow_early(self, turn: Turn, call: Call, step: StepExecution) -> None:
        """[DUR-2, CFG-3] The method's own durability counts before that of the server."""
        if durability_of(call.run, step, self._dispatcher.config.step_durability) is StepDurability.ASYNC:
            turn.follow_early(call.run.chain_id)

    def fail(self, turn: Turn, session: Session, command: FailCall, run: RunState | None) -> None:
        """A handler raised."""
        call = self._settle(turn, session, command, run)
        if call is None:
            return
        if call.rpc is not None:
            self._rpcs.fail(turn, call, command.failure)
            return
        heartbeat = take_unlogged(call)
        turn.emit_all(
            call.run,
            decide_attempt_failed(call.run, step_of(call), command.failure, now=turn.now, heartbeat=heartbeat),
        )

    def heartbeat(self, turn: Turn, command: Heartbeat) -> None:
        """The handler of a call shows that it lives; of an RPC nothing else is kept [HB-2]."""
        self.accept(command)
        call = self._dispatcher.call_of(command.token)
        if call is not None and call.rpc is None:
            self._heartbeats.receive(turn, call, command.value)

    def accept(self, command: AcceptCall | Heartbeat) -> None:
        """The handler has started: from now on only its method timeout bounds it."""
        call = self._dispatcher.call_of(command.token)
        if call is not None and call.stage is CallStage.ASSIGNED:
            call.is_accepted = True
            self._dispatcher.deadlines.arm(call.key, call.method_deadline)

    def worker_came(self, turn: Turn) -> None:
        """Somebody may know now what queued RPCs ask for [RPC-5]."""
        self._rpcs.resolve_waiting(turn)

    def fetch(self, turn: Turn, _: Session, command: FetchPart) -> None:
        """A handler reads what its call did not bring along; only that of a current delivery may [ATTR-7]."""
        turn.perform(part_for(self._dispatcher.call_of(command.token), command))

    def decline(self, turn: Turn, session: Session, command: DeclineCall) -> None:
        """No handler was started: the call goes on looking, and no attempt or delivery is consumed.

        It keeps its place in the queue, and its dispatch wait runs on [CAP-2, ROUTE-5, DRAIN-2].
        """
        self._free(session, command.stream, command.token)
        call = self._dispatcher.call_of(command.token)
        if call is None:
            return
        worker = session.worker
        self._dispatcher.tally.note_declined(worker.note_declined(command.reason))
        if command.reason == UNDECODABLE:
            self._undecodable(turn, call)
            return
        if command.reason == NO_CAPACITY:
            worker.hold(is_rpc=call.rpc is not None, now=turn.now)
            self._dispatcher.await_release(worker, now=turn.now)
        else:
            call.excluded[worker.worker_id] = command.reason
        call.note_declined(worker.worker_id, command.reason)
        self._dispatcher.end_delivery(call)
        if call.rpc is not None:
            self._rpcs.decline(turn, call)
            return
        step = step_of(call)
        declined = StepDeclined(step.step_execution_id, step.attempt, step.delivery, worker.worker_id, command.reason)
        turn.emit(call.run, declined)
        self._dispatcher.place_again(turn, call)

    def _undecodable(self, turn: Turn, call: Call) -> None:
        """[DELIV-5] The worker could not read this one call; it fails alone."""
        failure = Failure(UNDECODABLE, "the worker could not decode the call")
        self._dispatcher.end_delivery(call)
        if call.rpc is not None:
            self._rpcs.fail(turn, call, failure)
        else:
            turn.emit_all(call.run, decide_attempt_failed(call.run, step_of(call), failure, now=turn.now))

    def _settle(
        self, turn: Turn, session: Session, command: CompleteCall | FailCall, run: RunState | None
    ) -> Call | None:
        """Free the stream and acknowledge; gives the call if the result is that of its current delivery."""
        call = self._dispatcher.call_of(command.token)
        if session.orphans and command.token in session.orphans:
            session.orphans.discard(command.token)
            call = None
        accepted, reason, token = True, "", command.token
        if call is None:
            accepted, reason = self._refuse(turn, session.worker.worker_id, token, run)
        else:
            # Equal to that of the command, and the very object that its stream has: that is quicker to compare.
            token = call.token or token
            self._dispatcher.end_delivery(call)
        self._free(session, command.stream, token)
        if session.worker.hold_ms:
            self._clear_hold(turn, session.worker)
        turn.perform(AcknowledgeResult(session.session_id, command.stream, token, accepted, reason))
        return call

    def _refuse(self, turn: Turn, worker_id: WorkerId, token: Token, run: RunState | None) -> tuple[bool, str]:
        """Acknowledge a repeat of an accepted result again; record any other stale result [LOST-3, WIRE-10]."""
        if run is None:
            return False, STALE
        if token in run.accepted:
            return True, ""
        if token.method is not Method.RPC:
            turn.emit(
                run,
                StaleResultRejected(
                    StepExecutionId(token.call),
                    token.method,
                    token.attempt,
                    token.delivery,
                    worker_id,
                    STALE if run.is_open else FLOW_CLOSED,
                ),
            )
        return False, STALE if run.is_open else FLOW_CLOSED

    def _free(self, session: Session, number: StreamNumber, token: Token) -> None:
        stream = session.streams.get(number)
        if stream is not None and stream.token == token:
            self._dispatcher.freed.add(stream)

    def _clear_hold(self, turn: Turn, worker: Worker) -> None:
        worker.clear_hold()
        self._dispatcher.matcher.rank_again(worker)
        self._dispatcher.deadlines.arm(HoldDue(worker.worker_id), turn.now)

    # ---- what the clock says ----

    def expire(self, turn: Turn, call: Call) -> None:
        """The open call's deadline is due."""
        if call.is_queued:
            self._expire_queued(turn, call)
        elif turn.now >= call.method_deadline:
            self._time_out(turn, call)
        elif call.stage is CallStage.DETACHED:
            self.lose(turn, call, "SESSION_LOST")
        else:
            # Neither started nor declined in time [DELIV-3]: it is offered elsewhere, and after a pause to anybody.
            worker_id = call.worker_id
            self._dispatcher.cancel_delivery(turn, call, STALE)
            self.lose(turn, call, NOT_ACCEPTED, avoided=worker_id)

    def _expire_queued(self, turn: Turn, call: Call) -> None:
        if turn.now < call.dispatch_deadline:
            if call.avoid_until and call.avoid_until <= turn.now:
                call.stop_avoiding()
            self._dispatcher.place_shared(turn, call)
            return
        detail = self._why_no_worker(call)
        call.stage = CallStage.HELD
        if call.rpc is not None:
            self._rpcs.expire_queued(turn, call, detail)
            return
        failure = Failure(NO_WORKER_AVAILABLE, detail)
        turn.emit_all(
            call.run, decide_attempt_failed(call.run, step_of(call), failure, now=turn.now, is_reported=False)
        )

    def _time_out(self, turn: Turn, call: Call) -> None:
        """[OPT-2] The attempt took longer than its timeout; its handler is told, its result will be refused."""
        if call.rpc is not None:
            self._dispatcher.cancel_delivery(turn, call, "TIMEOUT")
            self._rpcs.time_out(turn, call)
            return
        waited = f"ran longer than {self._dispatcher.method_timeout(call)} ms"
        self._give_up(turn, call, METHOD_TIMEOUT, waited)

    def heartbeat_due(self, turn: Turn, call: Call) -> None:
        """A delivered call may have shown no life for its heartbeat timeout [HB-1]."""
        pulse = call.pulse
        if pulse is not None and self._heartbeats.is_overdue(turn, call, pulse):
            self._give_up(turn, call, HEARTBEAT_TIMEOUT, f"sent no heartbeat for {pulse.timeout_ms} ms")

    def _give_up(self, turn: Turn, call: Call, error_type: str, what: str) -> None:
        """Fail the attempt of a call that is running; its handler is told, its result will be refused."""
        step = step_of(call)
        failure = Failure(error_type, f"{step.step_execution_id} {what} on {call.worker_id}")
        self._dispatcher.cancel_delivery(turn, call, "TIMEOUT")
        turn.emit_all(
            call.run,
            decide_attempt_failed(
                call.run, step, failure, now=turn.now, is_reported=False, heartbeat=take_unlogged(call)
            ),
        )

    def lose(self, turn: Turn, call: Call, reason: str, *, avoided: WorkerId | None = None) -> None:
        """The delivery's worker is gone before any result [LOST-1, LOST-2, RPC-8]."""
        self._dispatcher.tally.note_lost(reason)
        self._dispatcher.end_delivery(call)
        if call.rpc is not None:
            self._rpcs.lose(turn, call, reason, avoided=avoided)
            return
        step = step_of(call)
        if step.step_execution_id not in call.run.steps:
            # Another loss of the same turn ended the Flow; the call goes with it.
            return
        events = decide_delivery_lost(call.run, step, reason, now=turn.now, heartbeat=take_unlogged(call))
        turn.emit_all(call.run, events)
        if len(events) == 1:
            # Redelivered, still the same attempt. Whatever else follows is the business of `reconcile`.
            self._dispatcher.start_dispatch(turn, call, avoided=avoided)

    def _why_no_worker(self, call: Call) -> str:
        """Name what is missing: the Flow type, the Step type or RPC, or capacity [ROUTE-4, ROUTE-5]."""
        workers = self._dispatcher.matcher.workers.values()
        flow_type = call.run.flow_type
        serving = [worker for worker in workers if flow_type in worker.capabilities and worker.has_streams()]
        what = f"RPC {call.name!r}" if call.rpc is not None else f"Step {call.name!r}"
        waited = f"{call.dispatch_deadline - call.enqueued_at} ms"
        if not serving:
            return f"no worker for Flow type {flow_type!r} within {waited} to run {what}"
        capable = [w for w in serving if w.can_run(flow_type, call.name, is_rpc=call.rpc is not None)]
        if not any(w.worker_id not in call.excluded or call.excluded[w.worker_id] == NOT_ACCEPTED for w in capable):
            return f"no worker of Flow type {flow_type!r} knows {what} ({len(serving)} connected, waited {waited})"
        return f"all {len(capable)} workers of Flow type {flow_type!r} that know {what} were busy for {waited}"
