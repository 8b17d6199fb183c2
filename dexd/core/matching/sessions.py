"""Live workers: their sessions, logical streams and capacity [WIRE-2, QUEUE-1..3]."""

from dataclasses import dataclass, field

from dexd.core.config import CAPACITY_HOLD_MS_MAX, CAPACITY_HOLD_MS_MIN, CAPACITY_TIGHT_MS
from dexd.core.ids import QueueName, SessionId, StreamNumber, WorkerId
from dexd.core.rejections import Rejection
from dexd.core.values import FlowCapability, Token

DECLINE_REASONS = frozenset(("NO_CAPACITY", "UNKNOWN_STEP", "UNKNOWN_RPC", "UNKNOWN_FLOW", "DRAINING", "UNDECODABLE"))
"""Reasons that are counted by name; what a foreign worker says may be anything [ARCH-8]."""


def lifetime_ms(session_id: SessionId, max_age_ms: int) -> int:
    """How old a session may become: between four fifths of the maximum and all of it [DRAIN-3].

    Spread evenly over sessions that began one after the other, so that workers that came together, as after a restart
    of the server, are not asked to reconnect together.
    """
    return max_age_ms - max_age_ms * (session_id * _GOLDEN_RATIO % 2**32) // (5 * 2**32)


_GOLDEN_RATIO = 2_654_435_769
"""Of 2**32; its multiples lie evenly, however many there are."""


@dataclass(slots=True, eq=False)
class Stream:
    """A logical stream: registered on one queue, one call at a time."""

    session: "Session"
    number: StreamNumber
    queue: QueueName
    token: Token | None = None
    """Delivery that occupies it; stays after the delivery went stale until the worker answers or closes it."""


@dataclass(slots=True, eq=False)
class Session:
    """One connection of a worker."""

    session_id: SessionId
    worker: "Worker"
    streams: dict[StreamNumber, Stream] = field(default_factory=dict)
    opened_at: int = 0
    ponged_at: int = 0
    """When it last showed that it reads: its Hello, then each Pong."""
    is_draining: bool = False
    """Said Goodbye, or is to be replaced: it is never assigned anything again [DRAIN-2, DRAIN-3]."""
    is_retiring: bool = False
    """Its worker was asked to replace it. Unlike after Goodbye its calls wait for the worker when it ends [DRAIN-3]."""
    ping_nonce: int = 0
    is_ping_open: bool = False
    pinged_at: int = 0
    orphans: set[Token] = field(default_factory=set)
    """Calls of a past that a crash took back: presented, and not current [WIRE-10, DUR-2].

    A new past may give out the same token again, to another call with other input; what comes under it here is not its.
    """


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process, by app worker ID and incarnation."""

    worker_id: WorkerId
    incarnation: str
    max_concurrent_tasks: int
    reserved_rpc_tasks: int
    capabilities: dict[str, FlowCapability]
    sdk: str = ""
    is_drained: bool = False
    """An operator takes it out of service: it is assigned nothing more, and finishes what it runs."""
    declines: dict[str, int] = field(default_factory=dict)
    """Offers that it declined since it connected, by reason."""
    refused_queues: dict[QueueName, Rejection] = field(default_factory=dict)
    """Queues whose last registration was refused, and why; a successful one clears it [QUEUE-4]."""
    sessions: dict[SessionId, Session] = field(default_factory=dict)
    idle: dict[QueueName, dict[tuple[SessionId, StreamNumber], Stream]] = field(default_factory=dict)
    """Idle streams of sessions that are not draining, per queue."""
    busy: int = 0
    """Streams that a delivery occupies."""
    idle_since: int = 0
    """When a stream of it last became idle; ties between workers go to the longest idle [ROUTE-7]."""
    ranked_busy: int = 0
    """No heap of idle workers has it as busier than this; freer, it must be ranked again (`IdleWorkers`)."""
    steps_held_until: int = 0
    """No Step is offered before, after a NO_CAPACITY for one [CAP-2]."""
    rpcs_held_until: int = 0
    hold_ms: int = 0
    tight_until: int = 0
    """Until then it gets no more calls than its numbers allow; see CAPACITY_TIGHT_MS."""
    own_queue: QueueName = field(init=False)
    """The queue named after it [QUEUE-1]."""

    def __post_init__(self) -> None:
        self.own_queue = QueueName(self.worker_id)

    def has_streams(self) -> bool:
        """Whether it is connected and takes calls."""
        if self.is_drained:
            return False
        for session in self.sessions.values():  # noqa: SIM110 - asked with every dispatch; `any` takes four times as long
            if session.streams and not session.is_draining:
                return True
        return False

    def note_declined(self, reason: str) -> str:
        """It declined an offer; gives the reason that is counted, one of the protocol or OTHER."""
        known = reason if reason in DECLINE_REASONS else "OTHER"
        self.declines[known] = self.declines.get(known, 0) + 1
        return known

    @property
    def stream_count(self) -> int:
        """Streams over all sessions."""
        return sum(len(session.streams) for session in self.sessions.values())

    def can_run(self, flow_type: str, name: str, *, is_rpc: bool) -> bool:
        """Whether its Hello named the Step type or RPC."""
        capability = self.capabilities.get(flow_type)
        if capability is None:
            return False
        return name in (capability.rpc_names if is_rpc else capability.step_types)

    def load(self) -> float:
        """Share of its limit that is busy."""
        return self.busy / self.max_concurrent_tasks

    def is_full(self) -> bool:
        """Whether by its own numbers it can start no Step; whether it can is its word, not ours."""
        return self.busy >= self.max_concurrent_tasks - self.reserved_rpc_tasks

    def is_held(self, *, is_rpc: bool, now: int) -> bool:
        """Whether it said NO_CAPACITY a moment ago and has freed too little since."""
        if now < (self.rpcs_held_until if is_rpc else self.steps_held_until):
            return True
        free = self.max_concurrent_tasks - self.busy - (0 if is_rpc else self.reserved_rpc_tasks)
        return free <= (0 if now < self.tight_until else -1)

    def hold(self, *, is_rpc: bool, now: int) -> None:
        """It said NO_CAPACITY: it gets no offers of the kind for a while, or until it frees a slot [CAP-2].

        A worker that declines an RPC is full; one that declines a Step may still keep its reserve for RPCs [RES-3].
        """
        self.hold_ms = min(max(2 * self.hold_ms, CAPACITY_HOLD_MS_MIN), CAPACITY_HOLD_MS_MAX)
        self.tight_until = now + CAPACITY_TIGHT_MS
        self.steps_held_until = now + self.hold_ms
        if is_rpc:
            self.rpcs_held_until = now + self.hold_ms

    def next_release(self, *, now: int) -> int | None:
        """When a pause ends next, or None."""
        ends = (self.steps_held_until, self.rpcs_held_until, self.tight_until)
        return min((end for end in ends if end > now), default=None)

    def clear_hold(self) -> None:
        """It freed a slot: offers may go out again."""
        self.steps_held_until = self.rpcs_held_until = self.hold_ms = 0

    def add_idle(self, stream: Stream, *, now: int) -> None:
        """The stream can take a call."""
        self.idle.setdefault(stream.queue, {})[stream.session.session_id, stream.number] = stream
        self.idle_since = now

    def remove_idle(self, stream: Stream) -> None:
        """The stream got a call, or goes away."""
        streams = self.idle.get(stream.queue)
        if streams is None or streams.pop((stream.session.session_id, stream.number), None) is None:
            return
        if not streams:
            del self.idle[stream.queue]

    def pick_idle(self, *queues: QueueName) -> Stream | None:
        """The idle stream used last on the first of the queues that has one."""
        for queue in queues:
            streams = self.idle.get(queue)
            if streams:
                return streams[next(reversed(streams))]
        return None
