"""What the engine needs from its surroundings, given to it by the composition root."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from dexd.core.effects import SessionEffect
from dexd.core.rejections import Rejection
from dexd.log.errors import LogError
from dexd.log.event_log import Batch

Answer_contra = TypeVar("Answer_contra", contravariant=True)

Abandon: TypeAlias = Callable[[], None]
"""Withdraws a call that was not answered yet; afterwards it is not answered any more. Idempotent."""

BEFORE_APPEND = "before_append"
AFTER_COMMIT_BEFORE_EFFECTS = "after_commit_before_effects"
AFTER_SEND = "after_send"

Failpoint: TypeAlias = Callable[[str], None]
"""Called with the name of each point that a batch passes; a test installs one that kills the process there."""


class OnAnswer(Protocol[Answer_contra]):
    """Takes an answer exactly once, on the loop, when everything it rests on is committed.

    It may come before the call that asked for it returns. Must neither raise nor block.
    """

    def __call__(self, answer: Answer_contra | Rejection, /) -> None: ...


class SessionSink(Protocol):
    """The way to one worker."""

    def deliver(self, effects: list[SessionEffect]) -> None:
        """Take all effects of one committed batch for this session, in order; must neither block nor raise."""
        ...


class BatchWriter(Protocol):
    """Appends batches one after the other on a thread of its own."""

    def submit(self, batch: Batch, on_done: Callable[[LogError | None], None]) -> None:
        """Append the batch; `on_done` is called on the loop with None or the reason why nothing was written."""
        ...


class Clock(Protocol):
    """Server time [TIMER-6]."""

    def now(self) -> int:
        """Milliseconds since the epoch in UTC; never smaller than the answer before."""
        ...


class Alarm(Protocol):
    """A wake-up that was asked for."""

    def cancel(self) -> None:
        """Do not wake up."""
        ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Alarm]
"""Asks for a call on the loop after that many seconds, as `loop.call_later`."""
