"""Clients that wait for the end of a Flow or of a Step execution, or for an Attribute's value [WAITAPI-1..6].

A waiter is settled while the outcome that ends its wait is collected, and answered with that batch: what it is told is
committed by construction, although the kernel decides ahead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dexd.codec.views import AttributeWait, FlowWait, StepWait, end_of
from dexd.core.deadlines import Deadlines
from dexd.core.events import Event, ExecuteCompleted, ExecuteFailed, StepCanceled
from dexd.core.flow.decide_external import refuse_closed
from dexd.core.flow.state import RunState
from dexd.core.ids import RunId, StepExecutionId
from dexd.core.rejections import Rejection
from dexd.core.values import Resolution, StepOutcome
from dexd.engine.ports import Abandon, OnAnswer

FLOW_CLOSED = "FLOW_CLOSED"
"""Reason of StepCanceled when the whole Flow ended."""


class StepKey(NamedTuple):
    """Names what is waited for: the end of a Step execution."""

    run_id: RunId
    step_execution_id: StepExecutionId


class AttributeKey(NamedTuple):
    """Names what is waited for: a value of an Attribute."""

    run_id: RunId
    name: str


PartKey: TypeAlias = StepKey | AttributeKey
"""Something inside a run."""
WaitKey: TypeAlias = RunId | PartKey
Tell: TypeAlias = Callable[[OnAnswer[Any], Any], None]
"""Answers a waiter when everything decided so far is committed."""
Matches: TypeAlias = Callable[[bytes | None], bool]
"""Whether an Attribute's value, None for none, is what somebody waits for."""


class _Waiter:
    __slots__ = ("key", "matches", "number", "on_answer")

    def __init__(self, number: int, key: WaitKey, on_answer: OnAnswer[Any], matches: Matches | None) -> None:
        self.number = number
        self.key = key
        self.on_answer = on_answer
        self.matches = matches


class Waits:
    """Everybody who waits, by run and by what of the run."""

    __slots__ = ("_arm", "_by_key", "_deadlines", "_last_number", "_tell", "_waiters", "parts_of")

    def __init__(self, tell: Tell, arm: Callable[[int], None]) -> None:
        """`arm` asks for `expire` at an instant."""
        self._tell = tell
        self._arm = arm
        self._by_key: dict[WaitKey, dict[int, _Waiter]] = {}
        self.parts_of: dict[RunId, dict[PartKey, None]] = {}
        """Steps and Attributes waited for, by run; if there are none, nobody need tell `event_happened` anything."""
        self._waiters: dict[int, _Waiter] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def next_deadline(self) -> int | None:
        """When the next wait runs out."""
        return self._deadlines.next_at()

    # ---- waiting ----

    def for_flow(self, run: RunState, on_answer: OnAnswer[FlowWait], *, until: int) -> Abandon:
        """Wait for the end of an open execution."""
        return self._add(run.run_id, on_answer, until)

    def for_step(self, run: RunState, step: StepExecutionId, on_answer: OnAnswer[StepWait], *, until: int) -> Abandon:
        """Wait for the end of a Step execution that is active or does not exist yet."""
        return self._add(StepKey(run.run_id, step), on_answer, until)

    def for_attribute(
        self, run: RunState, name: str, matches: Matches, on_answer: OnAnswer[AttributeWait], *, until: int
    ) -> Abandon:
        """Wait for a value of an Attribute that does not match now [WAITAPI-5]."""
        return self._add(AttributeKey(run.run_id, name), on_answer, until, matches)

    def _add(self, key: WaitKey, on_answer: OnAnswer[Any], until: int, matches: Matches | None = None) -> Abandon:
        self._last_number += 1
        waiter = _Waiter(self._last_number, key, on_answer, matches)
        self._waiters[waiter.number] = waiter
        self._enter(waiter)
        self._deadlines.arm(waiter.number, until)
        self._arm(until)
        return lambda: self._remove(waiter)

    def _enter(self, waiter: _Waiter) -> None:
        key = waiter.key
        self._by_key.setdefault(key, {})[waiter.number] = waiter
        if isinstance(key, tuple):
            self.parts_of.setdefault(key.run_id, {})[key] = None

    def _remove(self, waiter: _Waiter) -> None:
        if self._waiters.pop(waiter.number, None) is None:
            return
        self._deadlines.disarm(waiter.number)
        self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        key = waiter.key
        of_key = self._by_key[key]
        del of_key[waiter.number]
        if of_key:
            return
        del self._by_key[key]
        if isinstance(key, tuple):
            parts = self.parts_of[key.run_id]
            del parts[key]
            if not parts:
                del self.parts_of[key.run_id]

    # ---- settling ----

    def run_closed(self, run: RunState) -> None:
        """The execution ended: its waiters learn how; those that wait for a part of it, that it is too late."""
        if run.run_id in self._by_key:
            self._settle(run.run_id, FlowWait(run.run_id, end_of(run)))
        for key in list(self.parts_of.get(run.run_id, ())):
            self._settle(key, refuse_closed(run))

    def run_followed(self, run: RunState, following: RunState) -> None:
        """The run ended, but the execution goes on in another one: whoever waits, waits there [WAITAPI-2]."""
        for key in [run.run_id, *self.parts_of.get(run.run_id, ())]:
            for waiter in list(self._by_key.get(key, {}).values()):
                self._leave(waiter)
                waiter.key = _moved(key, following.run_id)
                self._enter(waiter)
        for key in list(self.parts_of.get(following.run_id, ())):
            if isinstance(key, AttributeKey):
                self._settle_matching(key, following.attributes.get(key.name))

    def event_happened(self, run: RunState, event: Event) -> None:
        """An event of an open run: perhaps somebody waits for the Step execution that it ends, or for what it wrote."""
        if run.run_id not in self.parts_of:
            return
        outcome = outcome_of(event)
        key = StepKey(run.run_id, getattr(event, "step_execution_id", StepExecutionId("")))
        if outcome is not None and key in self._by_key:
            self._settle(key, StepWait(outcome))
        for name, value in getattr(event, "writes", ()):
            written = AttributeKey(run.run_id, name)
            if written in self._by_key:
                self._settle_matching(written, value)

    def _settle(self, key: WaitKey, answer: Any) -> None:
        for waiter in list(self._by_key[key].values()):
            self._remove(waiter)
            self._tell(waiter.on_answer, answer)

    def _settle_matching(self, key: AttributeKey, value: bytes | None) -> None:
        for waiter in list(self._by_key[key].values()):
            if waiter.matches is not None and waiter.matches(value):
                self._remove(waiter)
                self._tell(waiter.on_answer, AttributeWait(value))

    def expire(self, now: int) -> None:
        """End the waits that have run out; nothing has changed for them [WAITAPI-1]."""
        while (number := self._deadlines.pop_due(now)) is not None:
            waiter = self._waiters[number]
            self._remove(waiter)
            self._tell(waiter.on_answer, _unmet(waiter.key))

    def refuse_missing(self, exists: Callable[[RunId], bool], rejection: Rejection) -> None:
        """Refuse, at once, those whose run is not in the log after all [ARCH-4]; the others go on waiting."""
        for waiter in list(self._waiters.values()):
            run_id = waiter.key.run_id if isinstance(waiter.key, tuple) else waiter.key
            if not exists(run_id):
                self._remove(waiter)
                waiter.on_answer(rejection)

    def refuse_all(self, rejection: Rejection) -> None:
        """Refuse everybody who waits, at once."""
        for waiter in list(self._waiters.values()):
            self._remove(waiter)
            waiter.on_answer(rejection)


def _moved(key: WaitKey, run_id: RunId) -> WaitKey:
    """Name the same in another run."""
    if isinstance(key, StepKey):
        return StepKey(run_id, key.step_execution_id)
    return AttributeKey(run_id, key.name) if isinstance(key, AttributeKey) else run_id


def _unmet(key: WaitKey) -> FlowWait | StepWait | AttributeWait:
    """What a waiter is told whose wait ran out."""
    if isinstance(key, StepKey):
        return StepWait(None)
    return AttributeWait(None) if isinstance(key, AttributeKey) else FlowWait(key)


def outcome_of(event: Event) -> StepOutcome | None:
    """How the event ends its Step execution, if it does [WAITAPI-3].

    FAILED is said only when a recovery Step takes over; a Step that ends because its Flow does has no outcome.
    """
    match event:
        case ExecuteCompleted():
            return StepOutcome.COMPLETED
        case ExecuteFailed(resolution=Resolution.RECOVER):
            return StepOutcome.FAILED
        case StepCanceled() if event.reason != FLOW_CLOSED:
            return StepOutcome.CANCELED
        case _:
            return None


OUTCOME_EVENTS = (ExecuteCompleted.__name__, ExecuteFailed.__name__, StepCanceled.__name__)
"""Type names of the events that can end a Step execution."""
