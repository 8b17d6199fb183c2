"""A kernel with everything around it that a law needs: a log, workers that hold calls, callers that wait.

The world performs effects at once and remembers what it was told; after every command it checks the invariants of
`dexd.core.invariants`, and that live state is the fold of the log [INV-8]. It decides nothing: the test says what
workers answer, when time passes and when the server dies.
"""

from dataclasses import dataclass, field

import msgspec

from dexd.core import commands as c
from dexd.core import effects as f
from dexd.core.config import KernelConfig
from dexd.core.events import FlowClosed
from dexd.core.flow.evolve import evolve
from dexd.core.flow.invariants import history_violations
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.flow.wakeups import next_deadline
from dexd.core.ids import CallerId, FlowId, QueueName, RunId, SessionId, StreamNumber
from dexd.core.invariants import violations
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, RecordedEvent
from dexd.core.sub_flow_desk import running_children
from dexd.core.sub_flows import SubFlowKey
from dexd.core.values import FlowStatus, Method, Response, Token
from dexd.core.wanted import RunRef, RunRefs
from tests.support.builders import (
    DEAD_END,
    FLOW_TYPE,
    SKIP,
    T0,
    complete,
    connect,
    decides,
    pong,
    running,
    serves,
    waits,
)

FINISH_ROUNDS_MAX = 2_000
"""Deadlines that it may take until everything has ended."""

TICKS_AT_ONCE_MAX = 50
"""Ticks at one instant; a few follow each other where one thing leads to the next."""

_SHORTEST: dict[Method, Response] = {
    Method.WAIT_FOR: waits(SKIP),
    Method.EXECUTE: decides(DEAD_END),
    Method.RPC: Response(),
}
"""What a handler returns that wants to be done."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RunState).decode


@dataclass
class Delivered:
    """A call that a worker holds."""

    token: Token
    stream: StreamNumber
    queue: str


@dataclass
class Peer:
    """A worker's end of a session."""

    session: SessionId
    worker_id: str
    incarnation: str
    queues: dict[StreamNumber, str] = field(default_factory=dict)
    calls: dict[StreamNumber, Delivered] = field(default_factory=dict)
    """What it holds, by stream."""
    pings: list[int] = field(default_factory=list)
    """Nonces that want a Pong."""
    is_draining: bool = False

    def free_number(self) -> StreamNumber:
        return StreamNumber(max((*self.queues, *self.calls), default=0) + 1)

    def take(self, effect: f.AssignCall) -> None:
        """A call arrives on a stream."""
        number = effect.stream
        assert not self.is_draining, "assigned to a draining worker [DRAIN-2, DRAIN-3]"
        assert number not in self.calls, f"stream {number} has two calls [WIRE-2]"
        self.calls[number] = Delivered(effect.call.token, number, self.queues[number])

    def forget(self, number: StreamNumber, token: Token) -> None:
        """Drop the call if the stream still holds just that one."""
        call = self.calls.get(number)
        if call is not None and call.token == token:
            del self.calls[number]


class KernelWorld:
    """Everything that surrounds a kernel."""

    def __init__(self, config: KernelConfig | None = None) -> None:
        self.config = config or KernelConfig()
        self.now = T0
        self.peers: dict[SessionId, Peer] = {}
        self.streams: dict[int, list[RecordedEvent]] = {}
        self.folded: dict[int, RunState] = {}
        """Fold of the log, kept apart from the kernel."""
        self.callers: dict[CallerId, None] = {}
        """Callers of RPCs that wait for an answer."""
        self.settled: list[Token] = []
        """Tokens that workers have answered once."""
        self.parked: dict[RunId, RunState] = {}
        """Open runs that are not in the kernel, as the log has them."""
        self.is_whole = True
        """Whether the kernel has done all of the last thing that it was asked to do."""
        self._last_session = 0
        self._ticks_at_once = 0
        self._boot()

    def _boot(self) -> None:
        self.kernel = Kernel(self.config, last_stream_id=len(self.streams))
        for stream_id, folded in self.folded.items():
            if folded.status is FlowStatus.CONTINUED_AS_NEW:
                continue
            state = self._restored(stream_id)
            # As in the shell, an older run is only in memory beside the latest of its Flow ID, never instead of it.
            if state.run_id not in self.parked and (state.is_open or not self._is_parked(state.flow_id)):
                self.kernel.adopt(state, self._waiting_for(state.flow_id))
        self.do(c.BeginServing())

    def _is_parked(self, flow_id: FlowId) -> bool:
        return any(run.flow_id == flow_id for run in self.parked.values())

    def _restored(self, stream_id: int) -> RunState:
        """Snapshot and tail are as good as the whole log [INV-8]."""
        events = self.streams[stream_id]
        cut = len(events) * 2 // 3
        state: RunState | None = None
        for event in events[:cut]:
            state = evolve(state, event)
        if state is not None:
            state = _decode(_encode(state))
        for event in events[cut:]:
            state = evolve(state, event)
        assert state == self.folded[stream_id]
        return state

    # ---- what happens ----

    def do(self, command: c.Command) -> Outcome:
        """Hand over a command, with the runs that it wants, perform what is owed and check everything."""
        self.is_whole = False
        self._wake_parked()
        self._bring_back(self._wanted(command))
        outcome = self.kernel.handle(command, now=self.now)
        self._take(outcome, command)
        self.is_whole = True
        return outcome

    def _take(self, outcome: Outcome, command: object) -> None:
        for recorded in outcome.events:
            self.streams.setdefault(recorded.stream_id, []).append(recorded)
            self.folded[recorded.stream_id] = evolve(self.folded.get(recorded.stream_id), recorded)
        for effect in outcome.effects:
            self._perform(effect)
        faults = violations(self.kernel, now=self.now)
        assert not faults, f"after {command}: {faults}"
        for recorded in outcome.events:
            folded = self.folded[recorded.stream_id]
            assert folded == self.kernel.run_by_id(folded.run_id), "live state is not the fold of its events [INV-8]"
        for recorded in outcome.events:
            if isinstance(recorded.event, FlowClosed) and recorded.event.status is FlowStatus.CONTINUED_AS_NEW:
                # As the shell does once it is committed: the run that goes on has everything.
                assert self.kernel.forget(self.folded[recorded.stream_id].run_id)
        for effect in outcome.effects:
            if isinstance(effect, f.SubmitCommand):
                self.do(effect.command)

    # ---- parked runs ----

    def park(self, run_id: RunId) -> None:
        """Have a run leave memory, if it may."""
        state = self.kernel.run_by_id(run_id)
        if state is not None and self.kernel.park(run_id):
            self.parked[run_id] = self._restored(state.stream_id)
            faults = violations(self.kernel, now=self.now)
            assert not faults, f"after {run_id} was parked: {faults}"

    def next_deadline(self) -> int | None:
        """When something is due next, be its run in memory or not."""
        deadlines = [self.kernel.next_deadline(), *(next_deadline(run) or None for run in self.parked.values())]
        return min((at for at in deadlines if at is not None), default=None)

    def bring_all_back(self) -> None:
        self._bring_back(list(self.parked))

    def _wanted(self, command: c.Command) -> list[RunId]:
        wanted = self.kernel.wanted(command)
        if isinstance(wanted, RunRef | RunRefs):
            chains = [wanted.run_id] if isinstance(wanted, RunRef) else wanted.run_ids
            return [run.run_id for run in self.parked.values() if run.chain_id in chains]
        flow_id = wanted.flow_id if isinstance(wanted, c.StartFlow) else wanted
        return [run.run_id for run in self.parked.values() if run.flow_id == flow_id]

    def _bring_back(self, run_ids: list[RunId]) -> None:
        for run_id in run_ids:
            state = self.parked.pop(run_id, None)
            if state is not None:
                self.kernel.adopt(state, self._waiting_for(state.flow_id))

    def _waiting_for(self, flow_id: FlowId) -> list[tuple[SubFlowKey, RunId]]:
        children = [child for run in self.parked.values() for child in running_children(run)]
        return [(key, execution_id) for key, child, execution_id in children if child == flow_id]

    def _wake_parked(self) -> None:
        """One by one and in due order [TIMER-5]; never before the kernel serves, like the shell."""
        while self.kernel.is_serving and (
            due := [run for run in self.parked.values() if 0 < next_deadline(run) <= self.now]
        ):
            first = min(due, key=next_deadline)
            until = next_deadline(first) if len(due) > 1 else self.now
            self._bring_back([first.run_id])
            self._take(self.kernel.fire_due(until=until, now=self.now), first)

    # ---- time ----

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, with a Tick at every deadline on the way, each of which gets something done."""
        until = self.now + milliseconds
        while (due := self.next_deadline()) is not None and due <= until:
            self.tick_at(due)
        self.now = until
        self.do(c.Tick())

    def tick_at(self, due: int) -> None:
        """A Tick when something is due takes it off the list: no livelock."""
        self.now = max(self.now, due)
        versions = {stream_id: len(events) for stream_id, events in self.streams.items()}
        outcome = self.do(c.Tick())
        after = self.next_deadline()
        has_moved = versions != {stream_id: len(events) for stream_id, events in self.streams.items()}
        assert has_moved or outcome.events or outcome.effects or after != due, f"nothing came of what was due at {due}"
        self._ticks_at_once = 0 if after is None or after > self.now else self._ticks_at_once + 1
        assert self._ticks_at_once < TICKS_AT_ONCE_MAX, f"time stands still at {self.now}, due at {after}"

    def connect(
        self,
        worker_id: str,
        incarnation: str,
        *,
        presents_from: Peer | None = None,
        limit: int = 2,
        steps: str = "A B Recover",
    ) -> Peer:
        """Open a session with a stream on the worker's own queue and one on its Flow type's."""
        self._last_session += 1
        peer = Peer(SessionId(self._last_session), worker_id, incarnation)
        held = [] if presents_from is None else list(presents_from.calls.values())
        for call in held:
            peer.queues[call.stream] = call.queue
            peer.calls[call.stream] = call
        self.peers[peer.session] = peer
        opened, *_ = connect(
            peer.session,
            worker_id,
            serves(steps=steps),
            incarnation=incarnation,
            limit=limit,
            running=tuple(running(call.token, call.stream, call.queue) for call in held),
        )
        self.do(opened)
        for queue in (worker_id, FLOW_TYPE):
            self.open_stream(peer, queue)
        return peer

    def open_stream(self, peer: Peer, queue: str) -> None:
        if peer.session in self.peers:
            number = peer.free_number()
            peer.queues[number] = queue
            self.do(c.OpenStream(peer.session, number, QueueName(queue)))

    def lose(self, peer: Peer) -> None:
        """Its connection breaks; what it held is in `peer.calls`."""
        del self.peers[peer.session]
        self.do(c.LoseSession(peer.session, "RESET"))

    def crash(self) -> None:
        """The server dies and comes back: sessions, callers and everything derived are gone."""
        self.peers = {}
        self.callers = {}
        self._boot()

    def held(self) -> list[tuple[Peer, Delivered]]:
        """What connected workers hold, oldest session first."""
        return [(peer, call) for peer in self.peers.values() for call in peer.calls.values()]

    def answer(self, peer: Peer, call: Delivered, command: c.CompleteCall | c.FailCall | c.DeclineCall) -> Outcome:
        """The worker answers on the call's stream, which is free with that."""
        peer.calls.pop(call.stream, None)
        if not isinstance(command, c.DeclineCall):
            self.settled.append(call.token)
        return self.do(command)

    def _perform(self, effect: f.Effect) -> None:
        if isinstance(effect, f.AnswerRpc):
            assert effect.caller in self.callers, f"caller {effect.caller} is answered twice"
            del self.callers[effect.caller]
            return
        if isinstance(effect, f.SubmitCommand | f.TravelTarget):
            return  # handed over once everything is checked
        peer = self.peers.get(effect.session)
        if peer is None:
            return
        match effect:
            case f.EndSession():
                del self.peers[effect.session]
            case f.AssignCall():
                peer.take(effect)
            case f.ConfirmStreamClosed() | f.RejectStream():
                peer.queues.pop(effect.stream, None)
            case f.AcknowledgeResult():
                # After a reconnect a settled call is acknowledged at once; the worker forgets it.
                peer.forget(effect.stream, effect.token)
            case f.AskReconnect():
                peer.is_draining = True
            case f.SendPing():
                peer.pings.append(effect.nonce)

    def answer_pings(self) -> None:
        for peer in list(self.peers.values()):
            while peer.pings:
                self.do(pong(peer.session, peer.pings.pop()))

    # ---- how it must end ----

    def finish(self) -> None:
        """Faults are over and a capable worker is there: everything that is runnable ends within a bound [INV-9]."""
        for peer in list(self.peers.values()):
            self.lose(peer)
        self.bring_all_back()
        self.connect("last", "i", limit=256)
        for _ in range(FINISH_ROUNDS_MAX):
            self.answer_pings()
            self._answer_all()
            if self._is_finished():
                break
            due = self.kernel.next_deadline()
            assert due is not None, f"work remains and nothing will happen: {self._remaining()} [FLOW-11]"
            self.tick_at(due)
        else:
            raise AssertionError(f"work remains: {self._remaining()} [INV-9]")
        for events in self.streams.values():
            assert not history_violations(events)

    def _answer_all(self) -> None:
        while held := self.held():
            for peer, call in held:
                response = _SHORTEST[call.token.method]
                self.answer(peer, call, complete(response, call.token, peer.session, call.stream))

    def _is_finished(self) -> bool:
        return not self.callers and not self._remaining()

    def _remaining(self) -> list[str]:
        """Active Steps that do not wait for a message alone."""
        return [
            f"{run.run_id} {step.step_execution_id} {step.phase.name}"
            for run in self.kernel.runs.values()
            for step in run.steps.values()
            if step.phase is not StepPhase.WAITING or step.next_timer_at() is not None
        ]
