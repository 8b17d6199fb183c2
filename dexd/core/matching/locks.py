"""Attribute locks: who holds which, and who asks for them in which order [LOCK-1..5].

Derived state, as all of matching: what Steps hold stands in their run, what RPCs hold dies with the server, as the RPCs
do. A call holds all its locks or none; one that asks has no claim on anything yet, only its place in line.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from dexd.core.deadlines import Deadlines
from dexd.core.flow.state import RunState
from dexd.core.ids import CallId, RunId, StepExecutionId
from dexd.core.matching.calls import Call, CallKey, CallStage

Lock: TypeAlias = tuple[RunId, str]
"""One Attribute key of one chain of runs."""


class Locks:
    """Locks of all runs. Everything in here is empty as long as no call wants any."""

    __slots__ = ("_asking_rpcs", "_deadlines", "_holders", "_lines", "conflicts", "freed", "held")

    def __init__(self, deadlines: Deadlines[Any]) -> None:
        """`deadlines` are those of the calls; one that waits for locks has none."""
        self._deadlines = deadlines
        self.conflicts: list[Call] = []
        """RPCs whose locks somebody else got while they looked for a worker; the kernel takes them out."""
        self.held: dict[CallKey, tuple[str, ...]] = {}
        """What each call holds."""
        self._holders: dict[Lock, CallKey] = {}
        self._lines: dict[Lock, list[tuple[int, str, Call]]] = {}
        """Steps that ask, oldest request first; one that asks no more is thrown away when it comes to the front."""
        self._asking_rpcs: dict[Lock, dict[CallKey, Call]] = {}
        self.freed: dict[Lock, None] = {}
        """Locks that may have become somebody else's turn; only if there are some may `take_next` find somebody."""

    def adopt(self, run: RunState) -> None:
        """Take over what a recovered run's Steps hold."""
        keys: dict[StepExecutionId, list[str]] = {}
        for key, step_execution_id in run.locks.items():
            keys.setdefault(step_execution_id, []).append(key)
            self._holders[run.chain_id, key] = (run.chain_id, step_execution_id)
        for step_execution_id, held in keys.items():
            self.held[run.chain_id, step_execution_id] = tuple(held)

    def holder(self, chain_id: RunId, keys: Sequence[str]) -> tuple[str, CallId | StepExecutionId] | None:
        """The first of these locks that is busy, and the call that holds it."""
        for key in keys:
            holder = self._holders.get((chain_id, key))
            if holder is not None:
                return key, holder[1]
        return None

    def asked_before(self, call: Call) -> CallId | StepExecutionId | None:
        """Who asked earlier for one of the locks that this Step asks for; None when its turn has come [LOCK-3]."""
        heads = (self._head(lock) for lock in _locks(call))
        return next((head.call_id for head in heads if head is not None and head is not call), None)

    # ---- asking ----

    def admit(self, call: Call) -> bool:
        """Whether the call may look for a worker; otherwise it waits for its locks, without any deadline.

        It may if it wants no locks or holds them already, or if they are free and nobody who asked earlier wants one of
        them [LOCK-3]. Its ticket is its place in line.
        """
        keys = call.lock_keys
        if not keys or call.key in self.held:
            return True
        if not call.asks:
            self._ask(call, keys)
        if call.rpc is not None or self._is_next(call):
            return True
        self._block(call)
        return False

    def _ask(self, call: Call, keys: tuple[str, ...]) -> None:
        call.asks = keys
        for lock in _locks(call):
            if call.rpc is not None:
                self._asking_rpcs.setdefault(lock, {})[call.key] = call
            else:
                heappush(self._lines.setdefault(lock, []), (call.ticket, call.call_id, call))

    def _block(self, call: Call) -> None:
        call.stage = CallStage.BLOCKED
        self._deadlines.disarm(call.key)

    def withdraw(self, call: Call) -> None:
        """The call asks no more; those behind it may be next."""
        for lock in _locks(call):
            self.freed[lock] = None
            self._forget_rpc(lock, call)
        call.asks = ()

    # ---- holding ----

    def take(self, call: Call) -> None:
        """Hand the call all its locks.

        Whoever looks for a worker with one of them must not find one now: Steps wait, RPCs never do [LOCK-4].
        """
        locks = list(_locks(call))
        self.held[call.key] = call.asks
        for lock in locks:
            self._holders[lock] = call.key
            self._forget_rpc(lock, call)
        call.asks = ()
        found = [other for lock in locks for other in self._queued(lock)]
        for other in dict.fromkeys(found):
            self._block(other)
            if other.rpc is not None:
                self.conflicts.append(other)

    def release_ended(self, key: CallKey, run: RunState) -> None:
        """A Step method may have ended: its run does not list its locks any more then."""
        held = self.held.get(key)
        if held is not None and run.locks.get(held[0]) != key[1]:
            self.release(key)

    def release(self, key: CallKey) -> None:
        """The call gives up everything it holds."""
        for name in self.held.pop(key):
            lock = (key[0], name)
            del self._holders[lock]
            self.freed[lock] = None

    def take_next(self) -> list[Call]:
        """Steps whose turn has come, each once, of all locks freed since the last time."""
        freed, self.freed = self.freed, {}
        heads = [head for lock in freed if (head := self._head(lock)) is not None]
        return [call for call in dict.fromkeys(heads) if not call.is_queued and self._is_next(call)]

    # ---- lines ----

    def _is_next(self, call: Call) -> bool:
        return all(lock not in self._holders and self._head(lock) is call for lock in _locks(call))

    def _queued(self, lock: Lock) -> Iterator[Call]:
        head = self._head(lock)
        if head is not None and head.is_queued:
            yield head
        yield from self._asking_rpcs.get(lock, {}).values()

    def _head(self, lock: Lock) -> Call | None:
        line = self._lines.get(lock)
        while line:
            ticket, _, call = line[0]
            if call.asks and call.ticket == ticket:
                return call
            heappop(line)
        self._lines.pop(lock, None)
        return None

    def _forget_rpc(self, lock: Lock, call: Call) -> None:
        asking = self._asking_rpcs.get(lock)
        if asking is not None:
            asking.pop(call.key, None)
            if not asking:
                del self._asking_rpcs[lock]


def _locks(call: Call) -> Iterator[Lock]:
    chain_id = call.run.chain_id
    return ((chain_id, key) for key in call.asks)
