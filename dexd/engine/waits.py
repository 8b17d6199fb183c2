"""Clients that wait for the end of a Flow or of a Step execution [WAITAPI-1..3, WAITAPI-6].

A waiter is settled while the outcome that ends its wait is collected, and answered with that batch: what it is told is
committed by construction, although the kernel decides ahead.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from dexd.codec.views import FlowWait, StepWait, end_of
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

WaitKey: TypeAlias = RunId | tuple[RunId, StepExecutionId]
Tell: TypeAlias = Callable[[OnAnswer[Any], Any], None]
"""Answers a waiter when everything decided so far is committed."""


class _Waiter:
    __slots__ = ("key", "number", "on_answer")

    def __init__(self, number: int, key: WaitKey, on_answer: OnAnswer[Any]) -> None:
        self.number = number
        self.key = key
        self.on_answer = on_answer


class Waits:
    """Everybody who waits, by run and by Step execution."""

    __slots__ = ("_arm", "_by_key", "_deadlines", "_last_number", "_steps_of", "_tell", "_waiters")

    def __init__(self, tell: Tell, arm: Callable[[int], None]) -> None:
        """`arm` asks for `expire` at an instant."""
        self._tell = tell
        self._arm = arm
        self._by_key: dict[WaitKey, dict[int, _Waiter]] = {}
        self._steps_of: dict[RunId, dict[StepExecutionId, None]] = {}
        """Step executions waited for, by run."""
        self._waiters: dict[int, _Waiter] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def has_step_waits(self) -> bool:
        """Whether `event_happened` wants to hear of events."""
        return bool(self._steps_of)

    def next_deadline(self) -> int | None:
        """When the next wait runs out."""
        return self._deadlines.next_at()

    # ---- waiting ----

    def for_flow(self, run: RunState, on_answer: OnAnswer[FlowWait], *, until: int) -> Abandon:
        """Wait for the end of an open run."""
        return self._add(run.run_id, on_answer, until)

    def for_step(self, run: RunState, step: StepExecutionId, on_answer: OnAnswer[StepWait], *, until: int) -> Abandon:
        """Wait for the end of a Step execution that is active or does not exist yet."""
        self._steps_of.setdefault(run.run_id, {})[step] = None
        return self._add((run.run_id, step), on_answer, until)

    def _add(self, key: WaitKey, on_answer: OnAnswer[Any], until: int) -> Abandon:
        self._last_number += 1
        waiter = _Waiter(self._last_number, key, on_answer)
        self._waiters[waiter.number] = waiter
        self._by_key.setdefault(key, {})[waiter.number] = waiter
        self._deadlines.arm(waiter.number, until)
        self._arm(until)
        return lambda: self._remove(waiter)

    def _remove(self, waiter: _Waiter) -> None:
        if self._waiters.pop(waiter.number, None) is None:
            return
        self._deadlines.disarm(waiter.number)
        of_key = self._by_key[waiter.key]
        del of_key[waiter.number]
        if not of_key:
            self._drop_key(waiter.key)

    def _drop_key(self, key: WaitKey) -> None:
        del self._by_key[key]
        if isinstance(key, tuple):
            steps = self._steps_of[key[0]]
            del steps[key[1]]
            if not steps:
                del self._steps_of[key[0]]

    # ---- settling ----

    def run_closed(self, run: RunState) -> None:
        """The run ended: its waiters learn how; those that wait for a Step of it, that it will not end any more."""
        if run.run_id in self._by_key:
            self._settle(run.run_id, FlowWait(run.run_id, end_of(run)))
        for step in list(self._steps_of.get(run.run_id, ())):
            self._settle((run.run_id, step), refuse_closed(run))

    def event_happened(self, run: RunState, event: Event) -> None:
        """An event of an open run: perhaps somebody waits for the Step execution that it ends."""
        if run.run_id not in self._steps_of:
            return
        outcome = outcome_of(event)
        key = (run.run_id, getattr(event, "step_execution_id", StepExecutionId("")))
        if outcome is not None and key in self._by_key:
            self._settle(key, StepWait(outcome))

    def _settle(self, key: WaitKey, answer: Any) -> None:
        for waiter in list(self._by_key[key].values()):
            self._remove(waiter)
            self._tell(waiter.on_answer, answer)

    def expire(self, now: int) -> None:
        """End the waits that have run out; nothing has changed for them [WAITAPI-1]."""
        while (number := self._deadlines.pop_due(now)) is not None:
            waiter = self._waiters[number]
            self._remove(waiter)
            key = waiter.key
            self._tell(waiter.on_answer, StepWait(None) if isinstance(key, tuple) else FlowWait(key))

    def refuse_missing(self, exists: Callable[[RunId], bool], rejection: Rejection) -> None:
        """Refuse, at once, those whose run is not in the log after all [ARCH-4]; the others go on waiting."""
        for waiter in list(self._waiters.values()):
            run_id = waiter.key[0] if isinstance(waiter.key, tuple) else waiter.key
            if not exists(run_id):
                self._remove(waiter)
                waiter.on_answer(rejection)

    def refuse_all(self, rejection: Rejection) -> None:
        """Refuse everybody who waits, at once."""
        for waiter in list(self._waiters.values()):
            self._remove(waiter)
            waiter.on_answer(rejection)


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
