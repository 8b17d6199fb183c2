"""RPC calls from the client's request to its answer [RPC-1..12].

Nothing of a call is in the log before it has effects.
"""

from msgspec.structs import replace

from dexd.core.commands import AbandonRpc, InvokeRpc
from dexd.core.effects import AnswerRpc
from dexd.core.flow.decide_external import refuse_closed, refuse_other_run, remembered
from dexd.core.flow.decide_rpc import decide_rpc_completed
from dexd.core.flow.state import RunState
from dexd.core.ids import CallerId, RunId, WorkerId, rpc_call_id
from dexd.core.matching.calls import Call, CallKey, CallStage, RpcCall
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.tally import ABANDONED, ANSWERED, REFUSED
from dexd.core.rejections import Code, Rejection
from dexd.core.turn import Turn
from dexd.core.values import Failure, Method, RequestRecord, Response

LOSSES_MAX = 1
"""Lost deliveries that an RPC survives [RPC-8]."""
CALLS_PER_MS = 1_000
"""Calls that may begin in one millisecond of server time before their numbers run ahead of it."""


class RpcDesk:
    """Open RPC calls and who waits for them."""

    __slots__ = ("_by_caller", "_by_chain", "_dispatcher", "_last_number", "_unresolved")

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_caller: dict[CallerId, Call] = {}
        self._by_chain: dict[RunId, dict[CallKey, Call]] = {}
        self._last_number = 0
        self._unresolved: dict[CallKey, Call] = {}
        """Queued calls whose terms nobody knows yet, because no worker of the Flow type is connected [RPC-5]."""

    def invoke(self, turn: Turn, run: RunState, command: InvokeRpc) -> None:
        """Begin a call, join the equal one that is under way, or give the stored answer [RPC-12]."""
        if command.is_resolving:
            command = self._resolve(run, command)
        refused = refuse_other_run(run, command.run_id)
        known = remembered(run, command.request_id, command.digest)
        if refused is not None:
            turn.perform(AnswerRpc(command.caller, refused))
        elif known is not None:
            turn.perform(AnswerRpc(command.caller, known if isinstance(known, Rejection) else known.answer))
        else:
            self._begin_or_join(turn, run, command)

    def resolve_waiting(self, turn: Turn) -> None:
        """A worker has come: calls whose terms nobody knew ask for their locks before they are offered to it."""
        for key, call in list(self._unresolved.items()):
            rpc = _rpc(call)
            rpc.command = self._resolve(call.run, rpc.command)
            if rpc.command.is_resolving:
                continue
            del self._unresolved[key]
            refused = self._refuse_terms(call.run, rpc.command)
            if refused is not None:
                self._finish(turn, call, refused)
            else:
                self._dispatcher.locks.admit(call)

    def _resolve(self, run: RunState, command: InvokeRpc) -> InvokeRpc:
        """Take what connected workers say of the RPC, the newest first; without any it stays unresolved."""
        is_known = False
        for worker in reversed(self._dispatcher.matcher.workers.values()):
            capability = worker.capabilities.get(run.flow_type)
            if capability is None:
                continue
            is_known = True
            terms = capability.rpc_terms.get(command.name)
            if terms is not None:
                locks, is_transactional = terms.locks, terms.is_transactional
                return replace(command, locks=locks, is_transactional=is_transactional, is_resolving=False)
        return replace(command, is_resolving=False) if is_known else command

    def _refuse_terms(self, run: RunState, command: InvokeRpc) -> Rejection | None:
        """[RPC-5, LOCK-4] With locks or as a transaction the Flow must be active, and no lock busy, before the call."""
        if not _needs_active_flow(command):
            return None
        refused = refuse_closed(run)
        busy = self._dispatcher.locks.holder(run.chain_id, command.locks)
        return refused if refused is not None or busy is None else _lock_conflict(run, command, *busy)

    def _begin_or_join(self, turn: Turn, run: RunState, command: InvokeRpc) -> None:
        key = (run.chain_id, rpc_call_id(command.request_id))
        call = self._dispatcher.calls.get(key)
        if call is None or call.rpc is None:
            refused = self._refuse_terms(run, command)
            if refused is not None:
                turn.perform(AnswerRpc(command.caller, refused))
                return
            rpc = RpcCall(command, [command.caller], self._next_number(now=turn.now), turn.now)
            call = self._dispatcher.calls[key] = Call(key, run, Method.RPC, command.name, rpc=rpc)
            self._by_chain.setdefault(run.chain_id, {})[key] = call
            self._by_caller[command.caller] = call
            if command.is_resolving:
                self._unresolved[key] = call
            self._dispatcher.start_dispatch(turn, call)
        elif call.rpc.command.digest == command.digest:
            call.rpc.callers.append(command.caller)
            self._by_caller[command.caller] = call
        else:
            turn.perform(AnswerRpc(command.caller, _conflict(run, command)))

    def _next_number(self, *, now: int) -> int:
        """Number a call by when it begins, so that a late result of an earlier one never passes for its own [DELIV-2].

        A repeat of the request is another call, with a snapshot of its own, and the server may have restarted in
        between. Server time goes on over restarts [TIMER-6], so nothing of a call needs to be kept for this.
        """
        self._last_number = max(now * CALLS_PER_MS, self._last_number + 1)
        return self._last_number

    def abandon(self, turn: Turn, command: AbandonRpc) -> None:
        """A caller has gone. A call that nobody waits for and no worker has is dropped."""
        call = self._by_caller.pop(command.caller, None)
        if call is None or call.rpc is None:
            return
        call.rpc.callers.remove(command.caller)
        if not call.rpc.callers and call.is_queued:
            self._finish(turn, call, b"")

    def complete(self, turn: Turn, call: Call, response: Response, *, worker_id: WorkerId) -> None:
        """The handler returned: apply its effects, if any, and answer after their commit."""
        rpc = _rpc(call)
        command = rpc.command
        decided = decide_rpc_completed(
            call.run,
            command,
            response,
            request=RequestRecord(command.request_id, command.digest, response.output),
            worker_id=worker_id,
            now=turn.now,
        )
        if isinstance(decided, Rejection):
            self._finish(turn, call, decided)
            return
        turn.emit_all(call.run, decided)
        self._finish(turn, call, response.output)

    def fail(self, turn: Turn, call: Call, failure: Failure) -> None:
        """The handler raised: no effect, and the caller sees its error [RPC-3]."""
        fields = {
            "flow_id": call.run.flow_id,
            "rpc": call.name,
            "worker_error_type": failure.error_type,
            "worker_error_detail": failure.detail,
            "worker_stack": failure.stack,
        }
        message = f"RPC {call.name!r} of Flow {call.run.flow_id!r} failed: {failure.error_type}: {failure.detail}"
        self._finish(turn, call, Rejection(Code.WORKER_API_ERROR, message, fields))

    def decline(self, turn: Turn, call: Call) -> None:
        """A worker declined the offer, which does not count as a delivery; another one may take it [CAP-2]."""
        rpc = _rpc(call)
        rpc.delivery -= 1
        self._release_locks(call)
        if rpc.callers:
            self._dispatcher.place_again(turn, call)
        else:
            self._finish(turn, call, b"")

    def expire_queued(self, turn: Turn, call: Call, detail: str) -> None:
        """No worker took it within the dispatch wait [ROUTE-4], or before the whole call was over [RPC-7]."""
        waited = turn.now - call.enqueued_at
        is_over = turn.now >= _rpc(call).command.expires_at and waited < self._dispatcher.config.dispatch_wait_ms
        self._refuse(turn, call, Code.RPC_TIMEOUT if is_over else Code.NO_WORKER_AVAILABLE, detail)

    def time_out(self, turn: Turn, call: Call) -> None:
        """The handler did not answer in time [RPC-7]."""
        message = f"RPC {call.name!r} of Flow {call.run.flow_id!r} did not answer in time on {call.worker_id}"
        self._refuse(turn, call, Code.RPC_TIMEOUT, message)

    def lose(self, turn: Turn, call: Call, reason: str, *, avoided: WorkerId | None) -> None:
        """The first lost delivery is repeated while somebody waits for it, the second one ends the call [RPC-8]."""
        rpc = _rpc(call)
        rpc.losses += 1
        if rpc.callers and rpc.losses <= LOSSES_MAX:
            self._dispatcher.start_dispatch(turn, call, avoided=avoided)
            return
        message = f"RPC {call.name!r} lost its worker {rpc.losses} times ({reason})"
        self._refuse(turn, call, Code.NO_WORKER_AVAILABLE, message)

    def flow_closed(self, turn: Turn, run: RunState) -> None:
        """[RPC-9] Calls in flight when their Flow closes are answered so; those still queued may yet read it.

        A run that is followed by another is not worth reading: there all of them are answered.
        """
        for call in list(self._by_chain.get(run.chain_id, {}).values()):
            if call.is_delivered or run.next_run_id or _needs_active_flow(_rpc(call).command):
                self._dispatcher.cancel_delivery(turn, call, "FLOW_CLOSED")
                what = f"became {run.status.name}"
                if run.next_run_id:
                    what = f"went on in run {run.next_run_id}, by Flow retry or time travel,"
                message = f"Flow {run.flow_id!r} {what} while RPC {call.name!r} was in flight"
                fields = {"flow_id": run.flow_id, "status": run.status.name, "rpc": call.name}
                self._finish(turn, call, Rejection(Code.FLOW_NOT_ACTIVE, message, fields))

    def _refuse(self, turn: Turn, call: Call, code: Code, message: str) -> None:
        self._finish(turn, call, Rejection(code, message, {"flow_id": call.run.flow_id, "rpc": call.name}))

    def refuse_conflicts(self, turn: Turn) -> None:
        """Somebody else got a lock while these calls looked for a worker; they do not wait [LOCK-4]."""
        locks = self._dispatcher.locks
        conflicts, locks.conflicts = locks.conflicts, []
        for call in conflicts:
            rpc = _rpc(call)
            busy = locks.holder(call.run.chain_id, rpc.command.locks)
            # The Flow may have closed in the same turn, which answers the call and frees all its locks.
            if busy is not None and self._dispatcher.calls.get(call.key) is call:
                self._finish(turn, call, _lock_conflict(call.run, rpc.command, *busy))

    def _release_locks(self, call: Call) -> None:
        locks = self._dispatcher.locks
        if call.asks:
            locks.withdraw(call)
        elif call.key in locks.held:
            locks.release(call.key)

    def _finish(self, turn: Turn, call: Call, answer: bytes | Rejection) -> None:
        self._release_locks(call)
        self._unresolved.pop(call.key, None)
        self._dispatcher.deadlines.disarm(call.key)
        del self._dispatcher.calls[call.key]
        call.stage = CallStage.HELD
        of_chain = self._by_chain[call.run.chain_id]
        del of_chain[call.key]
        if not of_chain:
            del self._by_chain[call.run.chain_id]
        rpc = _rpc(call)
        outcome = ABANDONED if not rpc.callers else REFUSED if isinstance(answer, Rejection) else ANSWERED
        self._dispatcher.tally.note_rpc(outcome, turn.now - rpc.begun_at)
        for caller in rpc.callers:
            self._by_caller.pop(caller, None)
            turn.perform(AnswerRpc(caller, answer))

    def has_calls(self, chain_id: RunId) -> bool:
        """Whether a call of the chain is open; its state must stay in memory."""
        return chain_id in self._by_chain

    def continued(self, previous: RunState, run: RunState) -> None:
        """Another run continues the one before: open calls are calls of that one now [RPC-9]."""
        for call in self._by_chain.get(run.chain_id, {}).values():
            call.run = run
            _rpc(call).version -= run.message_base - previous.message_base


def _rpc(call: Call) -> RpcCall:
    assert call.rpc is not None
    return call.rpc


def _needs_active_flow(command: InvokeRpc) -> bool:
    """With locks, or as a transaction, it never reads a closed Flow [RPC-5]."""
    return command.is_transactional or bool(command.locks)


def _lock_conflict(run: RunState, command: InvokeRpc, lock: str, holder: str) -> Rejection:
    return Rejection(
        Code.RPC_LOCK_CONFLICT,
        f"RPC {command.name!r} of Flow {run.flow_id!r} locks Attribute {lock!r}, which {holder} has locked",
        {"flow_id": run.flow_id, "rpc": command.name, "lock": lock, "holder": holder},
    )


def _conflict(run: RunState, command: InvokeRpc) -> Rejection:
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {command.request_id!r} is under way on Flow {run.flow_id!r} with other content",
        {"flow_id": run.flow_id, "request_id": command.request_id},
    )
