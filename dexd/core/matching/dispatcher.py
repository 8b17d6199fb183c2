"""Carries out dispatches: keeps open calls in step with Flow state, hands them to streams, watches their deadlines.

Every open call is derived from state: `reconcile` compares one Step execution with its call and mends the difference.
It serves live handling and recovery alike, so there is one path only.
"""

from dexd.core.config import AVOID_MS, CANCEL_GRACE_MS, KernelConfig
from dexd.core.deadlines import Deadlines
from dexd.core.effects import AssignCall, CancelCall
from dexd.core.flow.standing import priority_of
from dexd.core.flow.state import READY, RunState, StepExecution, StepPhase
from dexd.core.ids import RunId, StepExecutionId, WorkerId
from dexd.core.matching.calls import ASSIGNED, HELD, SHARED, Call, CallKey, CallStage, next_rpc_token, step_of
from dexd.core.matching.deadline_keys import DeadlineKey, HoldDue
from dexd.core.matching.dispatch_record import dispatched
from dexd.core.matching.freed_streams import FreedStreams
from dexd.core.matching.heartbeats import Heartbeats
from dexd.core.matching.locks import Locks
from dexd.core.matching.matcher import Matcher
from dexd.core.matching.sessions import Stream, Worker
from dexd.core.matching.snapshots import rpc_snapshot, step_snapshot
from dexd.core.matching.tally import Tally
from dexd.core.members import RPC
from dexd.core.turn import Turn
from dexd.core.values import FlowStatus, Method, Token


class Dispatcher:
    """Open calls and their way to streams."""

    __slots__ = (
        "calls",
        "config",
        "deadlines",
        "delivered",
        "freed",
        "heartbeats",
        "is_shutting_down",
        "locks",
        "matcher",
        "tally",
    )

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.matcher = Matcher()
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.heartbeats = Heartbeats(self.deadlines)
        self.calls: dict[CallKey, Call] = {}
        self.delivered: dict[WorkerId, dict[CallKey, Call]] = {}
        """Calls that a worker has, or had when its session broke."""
        self.locks = Locks(self.deadlines)
        self.freed = FreedStreams(self.matcher)
        self.is_shutting_down = False
        self.tally = Tally()

    # ---- state to calls ----

    def reconcile(self, turn: Turn, run: RunState, key: tuple[RunId, StepExecutionId]) -> None:
        """Make the Step execution's open call and deadline what its state asks for."""
        call = self.calls.get(key)
        step = run.steps.get(key[1])
        if self.locks.held:
            self.locks.release_ended(key, run)
        if step is None:
            if call is None:
                self.deadlines.disarm(key)
            elif call.stage is HELD and not call.asks:
                # The usual case: its delivery has ended, and with it what the call had, its deadline included.
                del self.calls[key]
            else:
                self._drop(turn, key, call, *_cancel_terms(run))
        elif step.phase is READY:
            if call is None or not (call.is_queued or call.stage is CallStage.BLOCKED):
                self._start_attempt(turn, key, call, run, step)
        elif step.phase is StepPhase.RUNNING:
            if call is None:
                self._restore_delivery(turn, key, run, step)
        elif step.phase is StepPhase.BACKOFF:
            self._sleep(turn, key, call, step.retry_at)
        else:
            self._sleep(turn, key, call, step.next_timer_at())

    def continued(self, run: RunState) -> None:
        """Another run continues a chain: the open calls of its Steps are about that one now [ROLL-4]."""
        chain_id = run.chain_id
        for step in run.steps.values():
            call = self.calls.get((chain_id, step.step_execution_id))
            if call is not None:
                call.run = run
                call.step = step

    def begin_attempt(self, turn: Turn, run: RunState, step: StepExecution) -> None:
        """A backoff is over: the Step wants a worker."""
        key: CallKey = (run.chain_id, step.step_execution_id)
        self._start_attempt(turn, key, self.calls.get(key), run, step)

    def _start_attempt(self, turn: Turn, key: CallKey, call: Call | None, run: RunState, step: StepExecution) -> None:
        if call is None:
            call = self.calls[key] = Call(key, run, step.method, step.step_type, step)
        else:
            call.method = step.method
        self.start_dispatch(turn, call)

    def _sleep(self, turn: Turn, key: CallKey, call: Call | None, until: int | None) -> None:
        """The Step wants no worker before that instant, or before something else happens."""
        if call is not None:
            self._drop(turn, key, call, "STALE", 0)
        if until is None:
            self.deadlines.disarm(key)
        else:
            self.deadlines.arm(key, until)

    def _drop(self, turn: Turn, key: CallKey, call: Call, reason: str, grace_ms: int) -> None:
        self.deadlines.disarm(key)
        if call.is_delivered:
            self.cancel_delivery(turn, call, reason, grace_ms=grace_ms)
        if call.asks:
            self.locks.withdraw(call)
        call.stage = HELD
        del self.calls[key]

    def _restore_delivery(self, turn: Turn, key: CallKey, run: RunState, step: StepExecution) -> None:
        """After recovery: the delivery stays current while its worker may come back [WIRE-11]."""
        call = self.calls[key] = Call(key, run, step.method, step.step_type, step)
        call.token = step.token(run.chain_id)
        call.method_deadline = step.deadline
        self.note_delivered(call, step.worker_id, step.incarnation)
        self.detach(call, now=turn.now)
        if step.options is not None and step.options.heartbeat_timeout_ms:
            self.heartbeats.begin(call, step.options.heartbeat_timeout_ms, now=turn.now)

    # ---- calls to streams ----

    def start_dispatch(self, turn: Turn, call: Call, *, avoided: WorkerId | None = None) -> None:
        """Look for a worker afresh, for at most the dispatch wait and the method's timeout [ROUTE-3, OPT-1].

        `avoided` is a worker that did not accept the call; others come first [DELIV-3].
        """
        call.timeout_ms = limit = self.method_timeout(call)
        if call.rpc is not None:
            limit = call.rpc.command.expires_at - turn.now
        wait = self.config.dispatch_wait_ms
        call.begin_dispatch(now=turn.now, deadline=turn.now + (min(limit, wait)))
        if avoided is not None:
            call.avoid(avoided, until=turn.now + AVOID_MS)
        if not call.asks:  # a Step whose turn for its locks has come keeps its place [LOCK-3]
            self.matcher.new_ticket(call)
        if call.has_options() and not self.locks.admit(call):
            return
        self.place(turn, call)

    def place_again(self, turn: Turn, call: Call) -> None:
        """Look on after an offer was declined; the locks that came with it are free again [LOCK-2]."""
        if call.has_options():
            self.locks.release_ended(call.key, call.run)
            is_next = self.locks.admit(call)
            assert is_next, "it was the next one for its locks, and has kept its place in line [LOCK-3]"
        self.place(turn, call)

    def place(self, turn: Turn, call: Call) -> None:
        """Hand the call to an idle stream, or let it wait.

        1. The worker that last served the Flow comes first; while it is connected but busy the call waits for it up
           to the sticky wait [ROUTE-1, ROUTE-2].
        2. Otherwise the Flow type's queue, at once.
        """
        call.stage = HELD
        worker = None if self.is_shutting_down else self.matcher.sticky_worker(call)
        if worker is None:
            self.place_shared(turn, call)
            return
        stream = None
        if not worker.is_held(is_rpc=call.method is RPC, now=turn.now):
            stream = self.freed.take_for(worker, call) or self.matcher.take_idle_of(worker, call)
        if stream is not None:
            self.dispatch(turn, call, stream)
            return
        if call.sticky_until == 0:
            call.sticky_until = min(turn.now + self.config.sticky_wait_ms, call.dispatch_deadline)
        if call.sticky_until <= turn.now:
            self.place_shared(turn, call)
            return
        self._let_wait(call)
        self.matcher.wait_sticky(call, worker)
        self.deadlines.arm(call.key, call.sticky_until)

    def place_shared(self, turn: Turn, call: Call) -> None:
        """Any worker of the Flow type may take it."""
        call.stage = SHARED
        stream = None if self.is_shutting_down else self.matcher.take_idle_for(call, now=turn.now)
        if stream is not None:
            self.dispatch(turn, call, stream)
            return
        self._let_wait(call)
        self.matcher.wait_shared(call)
        self.deadlines.arm(call.key, call.queued_until)

    def _let_wait(self, call: Call) -> None:
        """The call is about to wait: only now its priority matters."""
        call.priority = priority_of(call.run, call.step)

    def dispatch(self, turn: Turn, call: Call, stream: Stream) -> None:
        """Hand the call over; the dispatch is an event of the same outcome [ROUTE-8, ROUTE-9, DELIV-4].

        The stream must be free, and not among the idle ones any more.
        Its stage says how it was routed: SHARED through the Flow type's queue, otherwise to the sticky worker.
        """
        session, now = stream.session, turn.now
        worker = session.worker
        deadline = now + call.timeout_ms
        if call.rpc is not None:
            deadline = min(deadline, call.rpc.command.expires_at)
        call.method_deadline = deadline
        if call.stage is SHARED:
            self.tally.shared += 1
        else:
            self.tally.sticky += 1
        if call.enqueued_at != now:
            self.tally.note_wait(now - call.enqueued_at)
        if call.asks:
            self.locks.take(call)
        step = call.step
        if step is not None:
            turn.emit(call.run, dispatched(call, step, worker, self.matcher, now=now))
            token = step.token(call.run.chain_id)
            snapshot = step_snapshot(call.run, step, token)
            options = step.options
            if options is not None and options.heartbeat_timeout_ms:
                self.heartbeats.begin(call, options.heartbeat_timeout_ms, now=turn.now)
            elif call.pulse is not None:
                call.pulse = None
        else:
            token = next_rpc_token(call)
            snapshot = rpc_snapshot(call.run, call, token, now=now)
        call.token = token
        self.note_delivered(call, worker.worker_id, worker.incarnation)
        # What `attach` does, without two calls more: this runs with every hand-over.
        call.stage = ASSIGNED
        call.stream = stream
        call.is_accepted = False
        worker.busy += 1
        stream.token = token
        accept_by = now + self.config.accept_timeout_ms
        self.deadlines.arm(call.key, min(deadline, accept_by))
        turn.perform(AssignCall(session.session_id, stream.number, snapshot))

    def method_timeout(self, call: Call) -> int:
        """Timeout of the call's method, counted from hand-over [OPT-1, RPC-7]."""
        if call.rpc is not None:
            return call.rpc.command.timeout_ms
        options = step_of(call).options
        if options is None:
            return self.config.method_timeout_ms
        chosen = options.wait_for_timeout_ms if call.method is Method.WAIT_FOR else options.execute_timeout_ms
        return self.config.method_timeout_ms if chosen is None else chosen

    # ---- deliveries and streams ----

    def attach(self, call: Call, stream: Stream) -> None:
        """The stream is busy with the call's current delivery."""
        call.stage = ASSIGNED
        call.stream = stream
        call.is_accepted = False
        self.occupy(stream, call.token)

    def occupy(self, stream: Stream, token: Token | None) -> None:
        """Make the stream busy with a delivery, be it current or stale."""
        if stream.token is None:
            stream.session.worker.busy += 1
        stream.token = token

    def note_delivered(self, call: Call, worker_id: WorkerId, incarnation: str) -> None:
        """A worker has the call's current delivery."""
        call.worker_id = worker_id
        call.incarnation = incarnation
        delivered = self.delivered.get(worker_id)
        if delivered is None:
            delivered = self.delivered[worker_id] = {}
        delivered[call.key] = call

    def detach(self, call: Call, *, now: int) -> None:
        """The session is gone; the delivery stays current for the resume wait [WIRE-11]."""
        call.stage = CallStage.DETACHED
        call.stream = None
        self.deadlines.arm(call.key, min(now + self.config.resume_wait_ms, call.method_deadline))

    def end_delivery(self, call: Call) -> None:
        """The current delivery is settled or given up; its stream, if any, stays busy until the worker answers."""
        stage = call.stage
        if stage is not ASSIGNED and stage is not CallStage.DETACHED:
            return
        calls = self.delivered[call.worker_id]
        del calls[call.key]
        if not calls:
            del self.delivered[call.worker_id]
        self.deadlines.disarm(call.key)
        if call.pulse is not None:
            self.heartbeats.end(call)
        call.take_off()

    def cancel_delivery(self, turn: Turn, call: Call, reason: str, *, grace_ms: int = 0) -> None:
        """Give the current delivery up and tell its worker, if it has one."""
        stream, token = call.stream, call.token
        self.end_delivery(call)
        if stream is not None and token is not None:
            turn.perform(CancelCall(stream.session.session_id, stream.number, token, reason, grace_ms))

    def offer_freed(self, turn: Turn) -> bool:
        """Let streams freed in this turn take calls; False when there were none."""
        if self.locks.freed:
            for call in self.locks.take_next():
                self.start_dispatch(turn, call)
            return True
        if not (self.freed.streams or self.freed.eased):
            return False
        streams, eased = self.freed.take()
        for stream in streams:
            self.offer(turn, stream)
        for worker in eased:
            self.offer_idle(turn, worker)
        return bool(streams or eased)

    def offer(self, turn: Turn, stream: Stream) -> None:
        """An idle stream takes the call that waited longest, or stays idle."""
        call = None
        session = stream.session
        if not (
            session.is_draining or session.worker.is_drained or self.is_shutting_down or self.matcher.is_quiet(stream)
        ):
            call = self.matcher.call_for(stream, now=turn.now)
        if call is None:
            self.matcher.add_idle(stream, now=turn.now)
        else:
            self.dispatch(turn, call, stream)

    def offer_idle(self, turn: Turn, worker: Worker) -> None:
        """Its idle streams may take calls that were kept from it.

        Streams of one queue are alike, so the first one that finds no call speaks for the rest: a busy worker has
        hundreds of them and gets here with every result.
        """
        for queue in list(worker.idle):
            while (stream := worker.pick_idle(queue)) is not None:
                if self.is_shutting_down or worker.is_held(is_rpc=True, now=turn.now):
                    return
                call = self.matcher.call_for(stream, now=turn.now)
                if call is None:
                    break
                worker.remove_idle(stream)
                self.dispatch(turn, call, stream)

    def await_release(self, worker: Worker, *, now: int) -> None:
        """Offer to the worker again when its next pause ends."""
        at = worker.next_release(now=now)
        if at is not None:
            self.deadlines.arm(HoldDue(worker.worker_id), at)

    def release_sticky(self, turn: Turn, worker_id: WorkerId) -> None:
        """[ROUTE-1] Its last stream is gone: what waited for it goes to the Flow types' queues at once."""
        for call in self.matcher.sticky_calls(worker_id):
            # One that was handed over may have taken a lock from those behind it [LOCK-4].
            if call.stage is CallStage.STICKY:
                self.place_shared(turn, call)
        self.matcher.forget_worker(worker_id)

    def stop_dispatching(self) -> None:
        """Hand nothing out any more [DRAIN-4]."""
        self.is_shutting_down = True

    def call_of(self, token: Token) -> Call | None:
        """The open call whose current delivery the token names, or None when the token is stale."""
        call = self.calls.get((token.run_id, token.call))
        return call if call is not None and call.token == token else None


def _cancel_terms(run: RunState) -> tuple[str, int]:
    """Why a running handler is told to stop, and how long it may clean up [STOP-4]."""
    if run.is_open:
        return "STEP_CANCELED", CANCEL_GRACE_MS
    return "FLOW_CLOSED", 0 if run.status is FlowStatus.TERMINATED else CANCEL_GRACE_MS
