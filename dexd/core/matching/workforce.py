"""Workers come and go: sessions, streams, pings, replaced incarnations [QUEUE-*, WIRE-7..11, DRAIN-*]."""

from dexd.core.commands import AnswerPing, CloseStream, DrainWorker, OpenSession, OpenStream
from dexd.core.config import RECONNECT_GRACE_MS, KernelConfig
from dexd.core.effects import (
    AcknowledgeResult,
    AskReconnect,
    CancelCall,
    ConfirmStream,
    ConfirmStreamClosed,
    EndSession,
    RejectStream,
    SendPing,
    WelcomeSession,
)
from dexd.core.flow.state import RunState
from dexd.core.ids import QueueName, RunId, SessionId, StreamNumber, WorkerId
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.deadline_keys import AgeDue, HoldDue, PingDue
from dexd.core.matching.deliveries import STALE, Deliveries
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.session_refusals import deaf, expired, over, superseded, too_long
from dexd.core.matching.sessions import Session, Stream, Worker, lifetime_ms
from dexd.core.outcome import WorkerDrained
from dexd.core.rejections import Code, Rejection
from dexd.core.turn import Turn
from dexd.core.values import RunningCall

INCARNATIONS_REMEMBERED_MAX = 10_000
"""Replaced incarnations that are refused, and drained ones that get nothing; the oldest are forgotten, by then their
processes have heard it or ended."""


class Workforce:
    """The live sessions."""

    __slots__ = ("_deliveries", "_dispatcher", "_drained", "_superseded", "sessions", "stream_count")

    def __init__(self, dispatcher: Dispatcher, deliveries: Deliveries) -> None:
        self._dispatcher = dispatcher
        self._deliveries = deliveries
        self.sessions: dict[SessionId, Session] = {}
        self.stream_count = 0
        self._superseded: dict[tuple[WorkerId, str], None] = {}
        self._drained: dict[tuple[WorkerId, str], None] = {}

    @property
    def _config(self) -> KernelConfig:
        return self._dispatcher.config

    # ---- sessions ----

    def open_session(self, turn: Turn, command: OpenSession, runs: dict[RunId, RunState]) -> None:
        """A worker said Hello.

        1. Refused for good: a replaced incarnation [QUEUE-2], a bad worker ID, or a number over its cap [QUEUE-5].
        2. A newer incarnation replaces the older one, whose running calls are lost at once [QUEUE-2].
        3. Calls that it still runs go on; what it should run and does not present is lost [WIRE-10, WIRE-11].
        """
        refused = self._refuse_hello(command)
        if refused is not None:
            turn.perform(EndSession(command.session, refused))
            return
        self._supersede(turn, command)
        worker = self._worker(command)
        session = Session(command.session, worker, opened_at=turn.now, ponged_at=turn.now)
        worker.sessions[command.session] = session
        self.sessions[command.session] = session
        turn.perform(WelcomeSession(command.session))
        self._dispatcher.deadlines.arm(PingDue(command.session), turn.now + self._config.ping_interval_ms)
        if self._config.session_max_age_ms:
            age_ms = lifetime_ms(command.session, self._config.session_max_age_ms)
            self._dispatcher.deadlines.arm(AgeDue(command.session), turn.now + age_ms)
        for running in command.running:
            self._resume(turn, session, running, runs)
        self._lose_absent(turn, worker)
        # It may say more of itself than in an earlier session, or have room again.
        self._dispatcher.matcher.rank_again(worker)
        self._dispatcher.offer_idle(turn, worker)

    def _refuse_hello(self, command: OpenSession) -> Rejection | None:
        config = self._config
        worker_id = command.worker_id
        if (worker_id, command.incarnation) in self._superseded:
            return superseded(worker_id)
        if not 1 <= len(worker_id) <= config.max_queue_length:
            return Rejection(
                Code.INVALID_WORKER_ID,
                f"app worker ID {worker_id[:64]!r}: {len(worker_id)} characters, allowed are 1 to "
                f"{config.max_queue_length} (matching.max_queue_length)",
                {"length": str(len(worker_id)), "limit": str(config.max_queue_length)},
            )
        if not 1 <= command.max_concurrent_tasks <= config.max_concurrent_tasks_cap:
            return over(
                Code.MAX_CONCURRENT_TASKS_EXCEEDED,
                worker_id,
                "max_concurrent_tasks",
                command.max_concurrent_tasks,
                "matching.max_concurrent_tasks_cap",
                config.max_concurrent_tasks_cap,
            )
        if len(command.flows) > config.max_flow_types:
            return over(
                Code.MAX_FLOW_TYPES_EXCEEDED,
                worker_id,
                "Flow types",
                len(command.flows),
                "matching.max_flow_types",
                config.max_flow_types,
            )
        return None

    def _supersede(self, turn: Turn, command: OpenSession) -> None:
        worker = self._dispatcher.matcher.workers.get(command.worker_id)
        if worker is not None and worker.incarnation != command.incarnation:
            _remember(self._superseded, worker)
            for session in list(worker.sessions.values()):
                turn.perform(EndSession(session.session_id, superseded(worker.worker_id)))
                self._end_session(turn, session)
        # Only now: a loss may end a Flow, and nothing may be handed out before that is settled.
        for call in self._delivered_to(command.worker_id):
            if call.incarnation != command.incarnation:
                self._deliveries.lose(turn, call, "SUPERSEDED")

    def _worker(self, command: OpenSession) -> Worker:
        workers = self._dispatcher.matcher.workers
        worker = workers.get(command.worker_id)
        if worker is None:
            worker = workers[command.worker_id] = Worker(
                command.worker_id, command.incarnation, command.max_concurrent_tasks, command.reserved_rpc_tasks, {}
            )
            worker.is_drained = (command.worker_id, command.incarnation) in self._drained
        worker.sdk = command.sdk
        worker.max_concurrent_tasks = command.max_concurrent_tasks
        worker.reserved_rpc_tasks = command.reserved_rpc_tasks
        worker.capabilities = {capability.flow_type: capability for capability in command.flows}
        self._dispatcher.matcher.capabilities_changed()
        return worker

    def _resume(self, turn: Turn, session: Session, running: RunningCall, runs: dict[RunId, RunState]) -> None:
        """[WIRE-10] A current delivery goes on; a stale one is canceled, a settled one acknowledged.

        Either way its stream is registered and busy until the worker answers on it.
        """
        number = StreamNumber(running.stream)
        if number in session.streams:
            return
        stream = self._add_stream(session, number, QueueName(running.queue))
        self._dispatcher.occupy(stream, running.token)
        call = self._dispatcher.call_of(running.token)
        run = runs.get(running.token.run_id)
        if call is not None and call.incarnation == session.worker.incarnation:
            self._dispatcher.attach(call, stream)
            call.is_accepted = True
            self._dispatcher.deadlines.arm(call.key, call.method_deadline)
        elif run is not None and running.token in run.accepted:
            turn.perform(AcknowledgeResult(session.session_id, number, running.token, True))
            self._dispatcher.freed.add(stream)
        else:
            session.orphans.add(running.token)
            turn.perform(CancelCall(session.session_id, number, running.token, STALE))

    def _lose_absent(self, turn: Turn, worker: Worker) -> None:
        for call in self._delivered_to(worker.worker_id):
            if call.stage is CallStage.DETACHED:
                self._deliveries.lose(turn, call, "NOT_PRESENTED")

    def _delivered_to(self, worker_id: WorkerId) -> list[Call]:
        return list(self._dispatcher.delivered.get(worker_id, {}).values())

    def drain_session(self, turn: Turn, session: Session) -> None:
        """Goodbye: it is never assigned anything again; running calls still answer [DRAIN-2]."""
        session.is_retiring = False
        self._take_out(turn, session)

    def _take_out(self, turn: Turn, session: Session) -> None:
        session.is_draining = True
        for stream in session.streams.values():
            self._dispatcher.matcher.remove_idle(stream)
        self._release_if_gone(turn, session.worker)

    def lose_session(self, turn: Turn, session: Session, reason: str, *, is_final: bool = False) -> None:
        """The session ended.

        Its deliveries stay current for the resume wait, so that the worker can come back with them [WIRE-11]; after
        Goodbye, a replacement or a missed Pong (`is_final`) they are lost at once.
        """
        detached = self._end_session(turn, session)
        if is_final or (session.is_draining and not session.is_retiring):
            for call in detached:
                self._deliveries.lose(turn, call, reason)

    def _end_session(self, turn: Turn, session: Session) -> list[Call]:
        """Forget the session; gives its deliveries, which have no stream any more."""
        del self.sessions[session.session_id]
        del session.worker.sessions[session.session_id]
        self._dispatcher.deadlines.disarm(PingDue(session.session_id))
        self._dispatcher.deadlines.disarm(AgeDue(session.session_id))
        for stream in session.streams.values():
            self.stream_count -= 1
            self._dispatcher.matcher.remove_idle(stream)
            self._dispatcher.freed.vacate(stream)
        session.streams = {}
        # By delivery and not by stream: the worker may have closed a stream whose call it still ran.
        detached = [
            call
            for call in self._delivered_to(session.worker.worker_id)
            if call.stream is not None and call.stream.session is session
        ]
        for call in detached:
            self._dispatcher.detach(call, now=turn.now)
        self._release_if_gone(turn, session.worker)
        return detached

    def _release_if_gone(self, turn: Turn, worker: Worker) -> None:
        if not worker.has_streams():
            self._dispatcher.release_sticky(turn, worker.worker_id)
        if not worker.sessions:
            self._dispatcher.matcher.workers.pop(worker.worker_id, None)
            self._dispatcher.matcher.capabilities_changed()
            self._dispatcher.deadlines.disarm(HoldDue(worker.worker_id))

    def ask_all_to_reconnect(self, turn: Turn, reason: str) -> None:
        """[DRAIN-3, DRAIN-4] The server goes away."""
        self._dispatcher.stop_dispatching()
        for session_id in self.sessions:
            turn.perform(AskReconnect(session_id, reason))

    def age_due(self, turn: Turn, session_id: SessionId) -> None:
        """[DRAIN-3] Have a worker replace a session that is old by a new one.

        It is asked to, and its session is assigned nothing more. It may finish what it runs first, but not for long:
        it would be without calls meanwhile. What takes longer waits for it as after any break, and it comes back with
        that in its next session [WIRE-10, WIRE-11].
        """
        session = self.sessions[session_id]
        grace_ms = min(RECONNECT_GRACE_MS, self._config.dispatch_wait_ms // 2)
        if session.is_retiring:
            refused = expired(session.worker.worker_id, grace_ms, self._config.session_max_age_ms)
            turn.perform(EndSession(session_id, refused))
            self.lose_session(turn, session, refused.code)
        elif not session.is_draining:  # one that said Goodbye goes by itself
            turn.perform(AskReconnect(session_id, "the session reached its age (matching.session_max_age)"))
            session.is_retiring = True
            self._take_out(turn, session)
            self._dispatcher.deadlines.arm(AgeDue(session_id), turn.now + grace_ms)

    def drain_worker(self, turn: Turn, command: DrainWorker) -> WorkerDrained | Rejection:
        """An operator takes a process out of service, or puts it back.

        It is assigned nothing more, also after a reconnect [DRAIN-2]; what waits for it goes to others at once, what
        it runs it finishes. The server forgets this when it restarts, and when the process restarts it is another one.
        """
        worker = self._dispatcher.matcher.workers.get(command.worker_id)
        if worker is None:
            message = f"no worker with app worker ID {command.worker_id[:255]!r} is connected"
            return Rejection(Code.WORKER_NOT_FOUND, message, {"worker_id": command.worker_id[:255]})
        if command.is_undo:
            self._drained.pop((worker.worker_id, worker.incarnation), None)
        else:
            _remember(self._drained, worker)
        if worker.is_drained is command.is_undo:
            worker.is_drained = not command.is_undo
            for session in worker.sessions.values():
                self._change_service(turn, session)
            self._release_if_gone(turn, worker)
        return WorkerDrained(worker.incarnation, len(self._dispatcher.delivered.get(worker.worker_id, ())))

    def _change_service(self, turn: Turn, session: Session) -> None:
        """Its free streams are taken out, or take calls again."""
        for stream in session.streams.values():
            if session.worker.is_drained:
                self._dispatcher.matcher.remove_idle(stream)
            elif stream.token is None:
                self._dispatcher.offer(turn, stream)

    # ---- pings ----

    def ping_due(self, turn: Turn, session_id: SessionId) -> None:
        """[WIRE-7] Ping, whatever was heard from the worker; a session that owes a Pong is deaf and ends."""
        session = self.sessions[session_id]
        if session.is_ping_open:
            waited = turn.now - session.pinged_at
            refused = deaf(session.worker.worker_id, waited, self._config.pong_timeout_ms)
            turn.perform(EndSession(session_id, refused))
            self.lose_session(turn, session, "NO_PONG", is_final=True)
            return
        session.ping_nonce += 1
        session.is_ping_open = True
        session.pinged_at = turn.now
        turn.perform(SendPing(session_id, session.ping_nonce))
        self._dispatcher.deadlines.arm(PingDue(session_id), turn.now + self._config.pong_timeout_ms)

    def answer_ping(self, turn: Turn, session: Session, command: AnswerPing) -> None:
        """Only the nonce of the open Ping answers it."""
        if session.is_ping_open and command.nonce == session.ping_nonce:
            session.is_ping_open = False
            session.ponged_at = turn.now
            due = max(turn.now, session.pinged_at + self._config.ping_interval_ms)
            self._dispatcher.deadlines.arm(PingDue(session.session_id), due)

    def hold_due(self, turn: Turn, worker_id: WorkerId) -> None:
        """The pause after NO_CAPACITY is over [CAP-2]."""
        worker = self._dispatcher.matcher.workers[worker_id]
        self._dispatcher.matcher.rank_again(worker)
        self._dispatcher.offer_idle(turn, worker)
        self._dispatcher.await_release(worker, now=turn.now)

    # ---- streams ----

    def open_stream(self, turn: Turn, session: Session, command: OpenStream) -> None:
        """Register a stream and give it a call if one waits [QUEUE-1, QUEUE-3]."""
        refused = self._refuse_stream(session, command)
        if refused is not None:
            self._note_refused(session.worker, command.queue, refused)
            turn.perform(RejectStream(session.session_id, command.stream, refused))
            return
        session.worker.refused_queues.pop(command.queue, None)
        stream = self._add_stream(session, command.stream, command.queue)
        turn.perform(ConfirmStream(session.session_id, command.stream))
        self._dispatcher.offer(turn, stream)

    def _note_refused(self, worker: Worker, queue: QueueName, refused: Rejection) -> None:
        """For people. A worker has a queue for each of its Flow types and its own; others it may invent [ARCH-8]."""
        if queue in worker.capabilities or queue == worker.own_queue:
            worker.refused_queues[queue] = refused

    def _refuse_stream(self, session: Session, command: OpenStream) -> Rejection | None:
        """Each limit with a message of its own, naming limit, value and offender [QUEUE-3]."""
        config, worker, queue = self._config, session.worker, command.queue
        if command.stream in session.streams:
            return Rejection(
                Code.STREAM_EXISTS, f"stream {command.stream} is open already", {"stream": str(command.stream)}
            )
        if len(queue) > config.max_queue_length:
            return too_long(Code.QUEUE_NAME_TOO_LONG, queue, "matching.max_queue_length", config.max_queue_length)
        if queue != worker.own_queue:
            if queue not in worker.capabilities:
                message = f"queue {queue!r} is neither worker {worker.worker_id!r} itself nor one of its Flow types"
                return Rejection(Code.QUEUE_NOT_SERVED, message, {"queue": queue, "worker_id": worker.worker_id})
            if len(queue) > config.max_flow_type_length:
                limit = config.max_flow_type_length
                return too_long(Code.FLOW_TYPE_TOO_LONG, queue, "matching.max_flow_type_length", limit)
        if worker.stream_count >= config.max_concurrent_tasks_cap:
            return over(
                Code.MAX_STREAMS_PER_WORKER_EXCEEDED,
                worker.worker_id,
                "streams",
                worker.stream_count + 1,
                "matching.max_concurrent_tasks_cap",
                config.max_concurrent_tasks_cap,
            )
        if self.stream_count >= config.max_streams:
            name = "matching.max_streams"
            count = self.stream_count + 1
            return over(
                Code.MAX_STREAMS_EXCEEDED, worker.worker_id, "streams on the node", count, name, config.max_streams
            )
        return None

    def _add_stream(self, session: Session, number: StreamNumber, queue: QueueName) -> Stream:
        stream = session.streams[number] = Stream(session, number, queue)
        self.stream_count += 1
        return stream

    def close_stream(self, turn: Turn, session: Session, command: CloseStream) -> None:
        """Take a stream away. If an assignment crossed the request, the worker's decline returns the call."""
        stream = session.streams.pop(command.stream, None)
        if stream is not None:
            self.stream_count -= 1
            self._dispatcher.matcher.remove_idle(stream)
            self._dispatcher.freed.vacate(stream)
            self._release_if_gone(turn, session.worker)
        turn.perform(ConfirmStreamClosed(session.session_id, command.stream))


def _remember(incarnations: dict[tuple[WorkerId, str], None], worker: Worker) -> None:
    incarnations[worker.worker_id, worker.incarnation] = None
    if len(incarnations) > INCARNATIONS_REMEMBERED_MAX:
        del incarnations[next(iter(incarnations))]
