"""Open calls: what wants a worker, or has one, in this server process."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from dexd.core.commands import InvokeRpc
from dexd.core.config import DECLINED_OFFERS_MAX
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.ids import CallerId, CallId, RunId, StepExecutionId, StreamNumber, WorkerId
from dexd.core.matching.sessions import Stream
from dexd.core.values import PRIORITY_DEFAULT, WEIGHT_DEFAULT, DeclinedOffer, Method, Token

CallKey: TypeAlias = tuple[RunId, CallId | StepExecutionId]
"""Chain of runs, and the call in it: roll-over leaves it as it is."""


class CallStage(IntEnum):
    """Where an open call stands."""

    HELD = 0
    """Not in any backlog: being placed, or the Step is in backoff or waiting."""
    STICKY = 1
    """Waits for the worker that last served the Flow [ROUTE-2]."""
    SHARED = 2
    """Waits on the Flow type's queue."""
    ASSIGNED = 3
    """A stream has it."""
    DETACHED = 4
    """Its session is gone; the delivery stays current for the resume wait [WIRE-11]."""
    BLOCKED = 5
    """Waits for locks, and looks for no worker before it may have all of them [LOCK-3]."""


HELD: Final = CallStage.HELD
SHARED: Final = CallStage.SHARED
ASSIGNED: Final = CallStage.ASSIGNED
"""At hand for what runs with every Step, see `members`."""

NOBODY = WorkerId("")

NOT_ACCEPTED = "NOT_ACCEPTED"
"""Why a worker is kept out of a dispatch that neither started nor declined the call in time [DELIV-3]."""


@dataclass(slots=True, eq=False)
class RpcCall:
    """The part of an open call that only an RPC has; Steps keep theirs in the run's state."""

    command: InvokeRpc
    callers: list[CallerId]
    number: int
    """What its tokens have for an attempt: no other call of this or an earlier server process has the same."""
    begun_at: int = 0
    delivery: int = 0
    losses: int = 0
    version: int = 0
    """Version before which its snapshot was taken."""
    withheld: dict[str, bytes] = field(default_factory=dict)
    """Attributes that it got as references [ATTR-7]."""


class Pulse(msgspec.Struct, eq=False, gc=False):
    """Signs of life of the current delivery, for a call that has or owes some [HB-1..3]."""

    timeout_ms: int
    """Longest time without one; 0 is off."""
    seen_at: int
    """Hand-over, or the last heartbeat since."""
    logged_at: int = 0
    """When a heartbeat was recorded last."""
    unlogged: bytes | None = None
    """The newest value, when it is not in the log."""


@dataclass(slots=True, eq=False)
class Call:
    """One Step method or RPC that wants a worker or has one.

    No msgspec struct: it is written to all the time, and setting a field of a struct costs several times as much.
    """

    key: CallKey
    """Key of the call and of its deadline."""
    run: RunState
    """The newest run of its chain."""
    method: Method
    name: str
    """Step type or RPC name."""
    step: StepExecution | None = None
    """The Step execution, unless it is an RPC; the very object that the run holds while the call is open."""
    rpc: RpcCall | None = None
    stage: CallStage = CallStage.HELD
    ticket: int = 0
    """Position in arrival order over all queues; a new one for each stay in a backlog."""
    priority: int = PRIORITY_DEFAULT
    """Set when it begins to wait, from the Step's options and the Flow's standing [ROUTE-7, LIMIT-7.7]."""
    charged: int = 0
    """What its fairness key was charged for handing it out; given back when it is declined."""
    enqueued_at: int = 0
    """When the dispatch began; waiting time and dispatch wait count from here."""
    dispatch_deadline: int = 0
    sticky_until: int = 0
    excluded: dict[WorkerId, str] = field(default_factory=dict)
    """Workers that this dispatch must not be offered to again, and why [ROUTE-5]."""
    avoid_until: int = 0
    """Until then a worker that did not accept the call in time is kept out, so that others come first [DELIV-3]."""
    declined: list[DeclinedOffer] = field(default_factory=list)
    declined_more: int = 0
    stream: Stream | None = None
    worker_id: WorkerId = NOBODY
    """Whose delivery is current; set while ASSIGNED or DETACHED."""
    incarnation: str = ""
    token: Token | None = None
    is_accepted: bool = False
    """The worker showed that the handler started [DELIV-3]."""
    asks: tuple[str, ...] = ()
    """Attribute keys that it wants locked, while it has not been handed over with them [LOCK-2]."""
    method_deadline: int = 0
    timeout_ms: int = 0
    """Timeout of the method, from hand-over."""
    pulse: Pulse | None = None
    """None without heartbeats and without a timeout for them; outlives the delivery until the next one."""

    @property
    def call_id(self) -> CallId | StepExecutionId:
        """What its token names beside the run."""
        return self.key[1]

    def has_options(self) -> bool:
        """Whether it may want locks at all; false for most Steps."""
        return self.step is None or self.step.options is not None

    @property
    def lock_keys(self) -> tuple[str, ...]:
        """Attribute keys that it has locked while a worker has it [LOCK-1]."""
        if self.rpc is not None:
            return self.rpc.command.locks
        return () if self.step is None else self.step.lock_keys()

    @property
    def fairness_key(self) -> str:
        """Under which it takes turns with calls of other keys."""
        standing = self.run.standing
        return "" if standing is None else standing.fairness_key

    @property
    def fairness_weight(self) -> int:
        """Share of its key's turns, in thousandths."""
        standing = self.run.standing
        return WEIGHT_DEFAULT if standing is None else standing.fairness_weight

    @property
    def is_queued(self) -> bool:
        """Whether it wants a worker now."""
        return self.stage is CallStage.STICKY or self.stage is CallStage.SHARED

    @property
    def queued_until(self) -> int:
        """When something is to be done about it while it waits on its Flow type's queue."""
        return self.avoid_until or self.dispatch_deadline

    @property
    def is_delivered(self) -> bool:
        """Whether a worker has it, or had it when its session broke."""
        return self.stage is CallStage.ASSIGNED or self.stage is CallStage.DETACHED

    def note_declined(self, worker_id: WorkerId, reason: str) -> None:
        """Remember a declined offer for the dispatch event [ROUTE-9]."""
        if len(self.declined) < DECLINED_OFFERS_MAX:
            self.declined.append(DeclinedOffer(worker_id, reason))
        else:
            self.declined_more += 1

    def avoid(self, worker_id: WorkerId, *, until: int) -> None:
        """Prefer others to a worker that did not accept it; alone, it gets another chance after the pause [DELIV-3]."""
        self.excluded[worker_id] = NOT_ACCEPTED
        # A longer pause would outlast the dispatch.
        self.avoid_until = until if until < self.dispatch_deadline else 0

    def stop_avoiding(self) -> None:
        """The pause is over."""
        self.avoid_until = 0
        self.excluded = {worker_id: why for worker_id, why in self.excluded.items() if why != NOT_ACCEPTED}

    def begin_dispatch(self, *, now: int, deadline: int) -> None:
        """Start looking for a worker afresh."""
        self.enqueued_at = now
        self.dispatch_deadline = deadline
        self.sticky_until = 0
        self.avoid_until = 0
        self.charged = 0
        if self.excluded or self.declined:
            self.excluded = {}
            self.declined = []
            self.declined_more = 0

    def take_off(self) -> StreamNumber | None:
        """Forget the delivery; gives the stream number that it occupied, if it still has one."""
        stream, self.stream, self.token, self.is_accepted = self.stream, None, None, False
        self.stage = HELD
        return None if stream is None else stream.number


def step_of(call: Call) -> StepExecution:
    """The Step execution whose call it is; not for an RPC's."""
    step = call.step
    assert step is not None
    return step


def next_rpc_token(call: Call) -> Token:
    """Name the RPC's next delivery."""
    rpc = call.rpc
    assert rpc is not None
    rpc.delivery += 1
    return Token(call.run.chain_id, CallId(call.call_id), Method.RPC, rpc.number, rpc.delivery)
